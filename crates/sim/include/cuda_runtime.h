/* The runtime interface with its C++ conveniences: typed pointers and default arguments.
 *
 * An own header, for compilers without a CUDA toolkit; see cuda.h beside it. */
#ifndef OOMHOOK_SIM_CUDA_RUNTIME_H
#define OOMHOOK_SIM_CUDA_RUNTIME_H

#include "cuda_runtime_api.h"

static inline struct cudaExtent make_cudaExtent(size_t width, size_t height, size_t depth) {
    struct cudaExtent extent = {width, height, depth};
    return extent;
}

#ifdef __cplusplus

template <class T>
static inline cudaError_t cudaMalloc(T **pointer, size_t size) {
    return ::cudaMalloc(reinterpret_cast<void **>(pointer), size);
}

template <class T>
static inline cudaError_t cudaMallocPitch(T **pointer, size_t *pitch, size_t width, size_t height) {
    return ::cudaMallocPitch(reinterpret_cast<void **>(pointer), pitch, width, height);
}

template <class T>
static inline cudaError_t cudaMallocManaged(T **pointer, size_t size,
                                            unsigned int flags = cudaMemAttachGlobal) {
    return ::cudaMallocManaged(reinterpret_cast<void **>(pointer), size, flags);
}

/* With flags, pinned memory comes from cudaHostAlloc, as in the real header. */
static inline cudaError_t cudaMallocHost(void **pointer, size_t size, unsigned int flags) {
    return ::cudaHostAlloc(pointer, size, flags);
}

template <class T>
static inline cudaError_t cudaMallocHost(T **pointer, size_t size, unsigned int flags = 0) {
    return cudaMallocHost(reinterpret_cast<void **>(pointer), size, flags);
}

template <class T>
static inline cudaError_t cudaHostAlloc(T **pointer, size_t size, unsigned int flags) {
    return ::cudaHostAlloc(reinterpret_cast<void **>(pointer), size, flags);
}

template <class T>
static inline cudaError_t cudaMallocAsync(T **pointer, size_t size, cudaStream_t stream) {
    return ::cudaMallocAsync(reinterpret_cast<void **>(pointer), size, stream);
}

template <class T>
static inline cudaError_t cudaMallocFromPoolAsync(T **pointer, size_t size, cudaMemPool_t pool,
                                                  cudaStream_t stream) {
    return ::cudaMallocFromPoolAsync(reinterpret_cast<void **>(pointer), size, pool, stream);
}

#endif

#endif
