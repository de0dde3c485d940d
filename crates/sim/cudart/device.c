/* Devices and the primary context that comes with first use. */
#include "double.h"

#include <pthread.h>

enum { DEVICES = 64 };

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
/* The primary context of each device, and whether this runtime holds it alive. */
static CUcontext primary[DEVICES];
static int alive[DEVICES];

static __thread int chosen;

cudaError_t cudart_double_init(void) {
    cudaError_t error = cudart_double_find();
    if (error != cudaSuccess) return error;
    return (cudaError_t)cudart_double.init(0);
}

/* Makes the primary context of a device current. */
static CUresult use_primary(int device) {
    CUresult result = CUDA_SUCCESS;
    pthread_mutex_lock(&lock);
    if (!alive[device]) {
        result = cudart_double.primaryRetain(&primary[device], device);
        alive[device] = result == CUDA_SUCCESS;
    }
    CUcontext context = primary[device];
    pthread_mutex_unlock(&lock);
    return result == CUDA_SUCCESS ? cudart_double.ctxSetCurrent(context) : result;
}

/* Whether a context is a primary one that was reset since. */
static int was_reset(CUcontext context) {
    int reset = 0;
    pthread_mutex_lock(&lock);
    for (int device = 0; device < DEVICES; device++)
        reset |= primary[device] == context && !alive[device];
    pthread_mutex_unlock(&lock);
    return reset;
}

cudaError_t cudart_double_enter(void) {
    cudaError_t error = cudart_double_init();
    if (error != cudaSuccess) return error;
    CUcontext context = NULL;
    CUresult result = cudart_double.ctxGetCurrent(&context);
    if (result != CUDA_SUCCESS) return (cudaError_t)result;
    if (context != NULL && !was_reset(context)) return cudaSuccess;
    return (cudaError_t)use_primary(chosen);
}

cudaError_t cudaGetDeviceCount(int *count) {
    cudaError_t error = cudart_double_init();
    if (error != cudaSuccess) return cudart_double_note(error);
    return DO(deviceCount(count));
}

cudaError_t cudaSetDevice(int device) {
    cudaError_t error = cudart_double_init();
    if (error != cudaSuccess) return cudart_double_note(error);
    CUdevice known;
    if (device >= DEVICES || cudart_double.deviceGet(&known, device) != CUDA_SUCCESS)
        return cudart_double_note(cudaErrorInvalidDevice);
    chosen = device;
    return cudart_double_note(use_primary(device));
}

cudaError_t cudaGetDevice(int *device) {
    if (device == NULL) return cudart_double_note(cudaErrorInvalidValue);
    *device = chosen;
    return cudaSuccess;
}

cudaError_t cudaDeviceSynchronize(void) {
    ENTER();
    return DO(ctxSynchronize());
}

cudaError_t cudaDeviceSetLimit(enum cudaLimit limit, size_t value) {
    ENTER();
    return DO(ctxSetLimit((CUlimit)limit, value));
}

cudaError_t cudaDeviceGetLimit(size_t *value, enum cudaLimit limit) {
    ENTER();
    return DO(ctxGetLimit(value, (CUlimit)limit));
}

cudaError_t cudaDeviceReset(void) {
    cudaError_t error = cudart_double_init();
    if (error != cudaSuccess) return cudart_double_note(error);
    pthread_mutex_lock(&lock);
    int held = alive[chosen];
    CUresult result = held ? cudart_double.primaryReset(chosen) : CUDA_SUCCESS;
    if (result == CUDA_SUCCESS) alive[chosen] = 0;
    pthread_mutex_unlock(&lock);
    return cudart_double_note(result);
}

cudaError_t cudaDriverGetVersion(int *version) {
    if (version == NULL) return cudart_double_note(cudaErrorInvalidValue);
    *version = 0;
    return cudart_double_find() == cudaSuccess ? DO(version(version)) : cudaSuccess;
}

cudaError_t cudaRuntimeGetVersion(int *version) {
    if (version == NULL) return cudart_double_note(cudaErrorInvalidValue);
    *version = CUDART_VERSION;
    return cudaSuccess;
}

cudaError_t cudaGetDriverEntryPointByVersion(const char *symbol, void **function,
                                             unsigned int version, unsigned long long flags,
                                             enum cudaDriverEntryPointQueryResult *status) {
    ENTER();
    if (symbol == NULL || function == NULL) return cudart_double_note(cudaErrorInvalidValue);
    CUdriverProcAddressQueryResult answer = CU_GET_PROC_ADDRESS_SUCCESS;
    CUresult result = cudart_double_lookup(symbol, function, version, flags, &answer);
    if (status != NULL) *status = (enum cudaDriverEntryPointQueryResult)answer;
    return cudart_double_note(result);
}

cudaError_t cudaGetDriverEntryPoint(const char *symbol, void **function, unsigned long long flags,
                                    enum cudaDriverEntryPointQueryResult *status) {
    return cudaGetDriverEntryPointByVersion(symbol, function, CUDART_VERSION, flags, status);
}
