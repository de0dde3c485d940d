/* Launches and libraries.
 *
 * The compiler of CUDA registers the kernels of a program; nothing does that here. So every address is a
 * kernel, of one library that the double loads at the first launch. */
#include "double.h"

#include <pthread.h>
#include <stdio.h>

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static CUlibrary kernels;

/* A kernel in the current context. */
static CUresult find(const void *address, CUfunction *function) {
    static const unsigned image[4] = {0xba55ed50};
    char name[32];
    CUkernel kernel = NULL;
    CUresult result = CUDA_SUCCESS;
    snprintf(name, sizeof name, "kernel%p", address);
    pthread_mutex_lock(&lock);
    if (kernels == NULL) {
        /* The program asked for a launch and no load, so a capture does not forbid it. */
        CUstreamCaptureMode mode = CU_STREAM_CAPTURE_MODE_RELAXED;
        CUlibrary loaded = NULL;
        cudart_double.exchangeCaptureMode(&mode);
        result = cudart_double.libraryLoadData(&loaded, image, NULL, NULL, 0, NULL, NULL, 0);
        cudart_double.exchangeCaptureMode(&mode);
        if (result == CUDA_SUCCESS) kernels = loaded;
    }
    pthread_mutex_unlock(&lock);
    if (result == CUDA_SUCCESS) result = cudart_double.libraryGetKernel(&kernel, kernels, name);
    if (result == CUDA_SUCCESS) result = cudart_double.kernelGetFunction(function, kernel);
    return result;
}

#define KERNEL()                                                                                   \
    ENTER();                                                                                       \
    CUfunction kernel = NULL;                                                                      \
    CUresult found = find(function, &kernel);                                                      \
    if (found != CUDA_SUCCESS) return cudart_double_note(found)

#define LAUNCH(name, field, ...)                                                                   \
    cudaError_t name(const void *function, dim3 grid, dim3 block, void **arguments, size_t shared, \
                     cudaStream_t stream) {                                                        \
        KERNEL();                                                                                  \
        return DO(field(kernel, grid.x, grid.y, grid.z, block.x, block.y, block.z,                 \
                        (unsigned)shared, stream, arguments __VA_ARGS__));                         \
    }

#define NO_MORE , NULL
LAUNCH(cudaLaunchKernel, launchKernel, NO_MORE)
LAUNCH(cudaLaunchKernel_ptsz, launchKernel_ptsz, NO_MORE)
LAUNCH(cudaLaunchCooperativeKernel, launchCooperative, )
LAUNCH(cudaLaunchCooperativeKernel_ptsz, launchCooperative_ptsz, )

#define LAUNCH_EX(name, field)                                                                     \
    cudaError_t name(const cudaLaunchConfig_t *config, const void *function, void **arguments) {   \
        if (config == NULL) return cudart_double_note(cudaErrorInvalidValue);                      \
        KERNEL();                                                                                  \
        CUlaunchConfig same = {config->gridDim.x,                                                  \
                               config->gridDim.y,                                                  \
                               config->gridDim.z,                                                  \
                               config->blockDim.x,                                                 \
                               config->blockDim.y,                                                 \
                               config->blockDim.z,                                                 \
                               (unsigned)config->dynamicSmemBytes,                                 \
                               config->stream,                                                     \
                               NULL,                                                               \
                               0};                                                                 \
        return DO(field(&same, kernel, arguments, NULL));                                          \
    }

LAUNCH_EX(cudaLaunchKernelExC, launchKernelEx)
LAUNCH_EX(cudaLaunchKernelExC_ptsz, launchKernelEx_ptsz)

#if CUDART_VERSION < 13000
cudaError_t cudaLaunchCooperativeKernelMultiDevice(struct cudaLaunchParams *list,
                                                   unsigned int count, unsigned int flags) {
    (void)flags;
    if (list == NULL) return cudart_double_note(cudaErrorInvalidValue);
    cudaError_t error = cudaSuccess;
    for (unsigned i = 0; i < count && error == cudaSuccess; i++)
        error = cudaLaunchCooperativeKernel(list[i].func, list[i].gridDim, list[i].blockDim,
                                            list[i].args, list[i].sharedMem, list[i].stream);
    return error;
}
#endif

cudaError_t cudaLibraryLoadData(cudaLibrary_t *library, const void *image,
                                enum cudaJitOption *jit, void **jitValues, unsigned int jitCount,
                                enum cudaLibraryOption *options, void **values,
                                unsigned int count) {
    ENTER();
    return DO(libraryLoadData(library, image, (CUjit_option *)jit, jitValues, jitCount,
                              (CUlibraryOption *)options, values, count));
}

cudaError_t cudaLibraryLoadFromFile(cudaLibrary_t *library, const char *path,
                                    enum cudaJitOption *jit, void **jitValues,
                                    unsigned int jitCount, enum cudaLibraryOption *options,
                                    void **values, unsigned int count) {
    ENTER();
    return DO(libraryLoadFromFile(library, path, (CUjit_option *)jit, jitValues, jitCount,
                                  (CUlibraryOption *)options, values, count));
}

cudaError_t cudaLibraryUnload(cudaLibrary_t library) {
    ENTER();
    return DO(libraryUnload(library));
}
