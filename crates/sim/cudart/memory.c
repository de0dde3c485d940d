/* Device memory, managed memory, host memory, copies and fills. */
#include "double.h"

#include <stdint.h>

/* The driver may leave garbage in a result when it fails; the runtime's caller sees none. */
static cudaError_t give(void **out, CUresult result, CUdeviceptr pointer) {
    if (result == CUDA_SUCCESS) *out = (void *)(uintptr_t)pointer;
    return cudart_double_note(result);
}

cudaError_t cudaMemGetInfo(size_t *free, size_t *total) {
    ENTER();
    return DO(memGetInfo(free, total));
}

cudaError_t cudaMalloc(void **pointer, size_t size) {
    ENTER();
    if (pointer == NULL) return cudart_double_note(cudaErrorInvalidValue);
    if (size == 0) {
        *pointer = NULL;
        return cudaSuccess;
    }
    CUdeviceptr got = 0;
    CUresult result = cudart_double.memAlloc(&got, size);
    return give(pointer, result, got);
}

cudaError_t cudaMallocPitch(void **pointer, size_t *pitch, size_t width, size_t height) {
    ENTER();
    if (pointer == NULL || pitch == NULL) return cudart_double_note(cudaErrorInvalidValue);
    if (width == 0 || height == 0) {
        *pointer = NULL;
        *pitch = 0;
        return cudaSuccess;
    }
    CUdeviceptr got = 0;
    size_t step = 0;
    CUresult result = cudart_double.memAllocPitch(&got, &step, width, height, 4);
    if (result == CUDA_SUCCESS) *pitch = step;
    return give(pointer, result, got);
}

cudaError_t cudaMalloc3D(struct cudaPitchedPtr *pointer, struct cudaExtent extent) {
    if (pointer == NULL) return cudart_double_note(cudaErrorInvalidValue);
    struct cudaPitchedPtr got = {NULL, 0, extent.width, extent.height};
    if (extent.width != 0 && extent.height != 0 && extent.depth != 0) {
        ENTER();
        CUdeviceptr address = 0;
        CUresult result = cudart_double.memAllocPitch(&address, &got.pitch, extent.width,
                                                      extent.height * extent.depth, 4);
        if (result != CUDA_SUCCESS) return cudart_double_note(result);
        got.ptr = (void *)(uintptr_t)address;
    }
    *pointer = got;
    return cudaSuccess;
}

cudaError_t cudaMallocManaged(void **pointer, size_t size, unsigned int flags) {
    ENTER();
    if (pointer == NULL) return cudart_double_note(cudaErrorInvalidValue);
    CUdeviceptr got = 0;
    CUresult result = cudart_double.memAllocManaged(&got, size, flags);
    return give(pointer, result, got);
}

cudaError_t cudaFree(void *pointer) {
    ENTER();
    if (pointer == NULL) return cudaSuccess;
    return DO(memFree((CUdeviceptr)(uintptr_t)pointer));
}

cudaError_t cudaHostAlloc(void **pointer, size_t size, unsigned int flags) {
    ENTER();
    if (pointer == NULL) return cudart_double_note(cudaErrorInvalidValue);
    void *got = NULL;
    CUresult result = cudart_double.memHostAlloc(&got, size, flags);
    if (result == CUDA_SUCCESS) *pointer = got;
    return cudart_double_note(result);
}

cudaError_t cudaMallocHost(void **pointer, size_t size) {
    ENTER();
    if (pointer == NULL) return cudart_double_note(cudaErrorInvalidValue);
    void *got = NULL;
    CUresult result = cudart_double.memHostAlloc(&got, size, 0);
    if (result == CUDA_SUCCESS) *pointer = got;
    return cudart_double_note(result);
}

cudaError_t cudaFreeHost(void *pointer) {
    ENTER();
    if (pointer == NULL) return cudaSuccess;
    return DO(memFreeHost(pointer));
}

cudaError_t cudaHostRegister(void *pointer, size_t size, unsigned int flags) {
    ENTER();
    return DO(memHostRegister(pointer, size, flags));
}

cudaError_t cudaHostUnregister(void *pointer) {
    ENTER();
    return DO(memHostUnregister(pointer));
}

cudaError_t cudaMemset(void *to, int value, size_t count) {
    ENTER();
    return DO(memsetD8((CUdeviceptr)(uintptr_t)to, (unsigned char)value, count));
}

cudaError_t cudaMemset_ptds(void *to, int value, size_t count) {
    ENTER();
    return DO(memsetD8_ptds((CUdeviceptr)(uintptr_t)to, (unsigned char)value, count));
}

cudaError_t cudaMemsetAsync(void *to, int value, size_t count, cudaStream_t stream) {
    ENTER();
    return DO(memsetD8Async((CUdeviceptr)(uintptr_t)to, (unsigned char)value, count, stream));
}

cudaError_t cudaMemsetAsync_ptsz(void *to, int value, size_t count, cudaStream_t stream) {
    ENTER();
    return DO(memsetD8Async_ptsz((CUdeviceptr)(uintptr_t)to, (unsigned char)value, count, stream));
}

/* Addresses are unified, so the driver tells host from device and the direction is only checked. */
#define COPY(driver_call)                                                                          \
    ENTER();                                                                                       \
    if ((unsigned)kind > cudaMemcpyDefault)                                                        \
        return cudart_double_note(cudaErrorInvalidMemcpyDirection);                                \
    return DO(driver_call)

cudaError_t cudaMemcpy(void *to, const void *from, size_t count, enum cudaMemcpyKind kind) {
    COPY(memcpy((CUdeviceptr)(uintptr_t)to, (CUdeviceptr)(uintptr_t)from, count));
}

cudaError_t cudaMemcpy_ptds(void *to, const void *from, size_t count, enum cudaMemcpyKind kind) {
    COPY(memcpy_ptds((CUdeviceptr)(uintptr_t)to, (CUdeviceptr)(uintptr_t)from, count));
}

cudaError_t cudaMemcpyAsync(void *to, const void *from, size_t count, enum cudaMemcpyKind kind,
                            cudaStream_t stream) {
    COPY(memcpyAsync((CUdeviceptr)(uintptr_t)to, (CUdeviceptr)(uintptr_t)from, count, stream));
}

cudaError_t cudaMemcpyAsync_ptsz(void *to, const void *from, size_t count,
                                 enum cudaMemcpyKind kind, cudaStream_t stream) {
    COPY(memcpyAsync_ptsz((CUdeviceptr)(uintptr_t)to, (CUdeviceptr)(uintptr_t)from, count, stream));
}
