/* Stream-ordered memory and its pools. */
#include "double.h"

#include <stdint.h>
#include <string.h>

_Static_assert(sizeof(struct cudaMemPoolProps) == sizeof(CUmemPoolProps), "one layout");
_Static_assert(sizeof(struct cudaMemAccessDesc) == sizeof(CUmemAccessDesc), "one layout");

static cudaError_t give(void **out, CUresult result, CUdeviceptr pointer) {
    if (result == CUDA_SUCCESS) *out = (void *)(uintptr_t)pointer;
    return cudart_double_note(result);
}

cudaError_t cudaMallocAsync(void **pointer, size_t size, cudaStream_t stream) {
    ENTER();
    if (pointer == NULL) return cudart_double_note(cudaErrorInvalidValue);
    CUdeviceptr got = 0;
    CUresult result = cudart_double.memAllocAsync(&got, size, stream);
    return give(pointer, result, got);
}

cudaError_t cudaMallocAsync_ptsz(void **pointer, size_t size, cudaStream_t stream) {
    ENTER();
    if (pointer == NULL) return cudart_double_note(cudaErrorInvalidValue);
    CUdeviceptr got = 0;
    CUresult result = cudart_double.memAllocAsync_ptsz(&got, size, stream);
    return give(pointer, result, got);
}

cudaError_t cudaMallocFromPoolAsync(void **pointer, size_t size, cudaMemPool_t pool,
                                    cudaStream_t stream) {
    ENTER();
    if (pointer == NULL) return cudart_double_note(cudaErrorInvalidValue);
    CUdeviceptr got = 0;
    CUresult result = cudart_double.memAllocFromPoolAsync(&got, size, pool, stream);
    return give(pointer, result, got);
}

cudaError_t cudaMallocFromPoolAsync_ptsz(void **pointer, size_t size, cudaMemPool_t pool,
                                         cudaStream_t stream) {
    ENTER();
    if (pointer == NULL) return cudart_double_note(cudaErrorInvalidValue);
    CUdeviceptr got = 0;
    CUresult result = cudart_double.memAllocFromPoolAsync_ptsz(&got, size, pool, stream);
    return give(pointer, result, got);
}

cudaError_t cudaFreeAsync(void *pointer, cudaStream_t stream) {
    ENTER();
    return DO(memFreeAsync((CUdeviceptr)(uintptr_t)pointer, stream));
}

cudaError_t cudaFreeAsync_ptsz(void *pointer, cudaStream_t stream) {
    ENTER();
    return DO(memFreeAsync_ptsz((CUdeviceptr)(uintptr_t)pointer, stream));
}

cudaError_t cudaMemPoolCreate(cudaMemPool_t *pool, const struct cudaMemPoolProps *props) {
    ENTER();
    if (props == NULL) return cudart_double_note(cudaErrorInvalidValue);
    CUmemPoolProps same;
    memcpy(&same, props, sizeof same);
    return DO(poolCreate(pool, &same));
}

cudaError_t cudaMemPoolDestroy(cudaMemPool_t pool) {
    ENTER();
    return DO(poolDestroy(pool));
}

cudaError_t cudaMemPoolTrimTo(cudaMemPool_t pool, size_t keep) {
    ENTER();
    return DO(poolTrimTo(pool, keep));
}

cudaError_t cudaMemPoolGetAttribute(cudaMemPool_t pool, enum cudaMemPoolAttr attribute,
                                    void *value) {
    ENTER();
    return DO(poolGetAttribute(pool, (CUmemPool_attribute)attribute, value));
}

cudaError_t cudaMemPoolSetAttribute(cudaMemPool_t pool, enum cudaMemPoolAttr attribute,
                                    void *value) {
    ENTER();
    return DO(poolSetAttribute(pool, (CUmemPool_attribute)attribute, value));
}

cudaError_t cudaMemPoolSetAccess(cudaMemPool_t pool, const struct cudaMemAccessDesc *access,
                                 size_t count) {
    ENTER();
    return DO(poolSetAccess(pool, (const CUmemAccessDesc *)access, count));
}

cudaError_t cudaDeviceGetDefaultMemPool(cudaMemPool_t *pool, int device) {
    ENTER();
    return DO(deviceGetDefaultPool(pool, device));
}

cudaError_t cudaDeviceGetMemPool(cudaMemPool_t *pool, int device) {
    ENTER();
    return DO(deviceGetPool(pool, device));
}

cudaError_t cudaDeviceSetMemPool(int device, cudaMemPool_t pool) {
    ENTER();
    return DO(deviceSetPool(device, pool));
}
