/* A program of the runtime: its exit code is 0 if all went as it should. */
#define _GNU_SOURCE
#include "cuda_runtime.h"

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>

#define MiB ((size_t)1 << 20)
#define CHECK(condition)                                                                           \
    do {                                                                                           \
        if (!(condition)) {                                                                        \
            fprintf(stderr, "line %d: %s\n", __LINE__, #condition);                                \
            exit(1);                                                                               \
        }                                                                                          \
    } while (0)

static size_t used(void) {
    size_t free, total;
    CHECK(cudaMemGetInfo(&free, &total) == cudaSuccess);
    return total - free;
}

static void memory(void) {
    void *p = (void *)1, *q, *r;
    CHECK(cudaMalloc(&p, 0) == cudaSuccess && p == NULL);
    CHECK(cudaFree(NULL) == cudaSuccess);
    CHECK(cudaMalloc(&q, 5 << 20) == cudaSuccess);
    CHECK(cudaMalloc(&p, (size_t)1 << 40) == cudaErrorMemoryAllocation && p == NULL);
    CHECK(cudaGetLastError() == cudaErrorMemoryAllocation);
    CHECK(cudaGetLastError() == cudaSuccess);
    CHECK(cudaMallocAsync(&r, 1 << 20, 0) == cudaSuccess);
    CHECK(cudaDeviceReset() == cudaSuccess && cudaFree(q) == cudaErrorInvalidValue);
    CHECK(cudaMalloc(&q, 1 << 20) == cudaSuccess && cudaFree(r) == cudaSuccess);
    CHECK(cudaFree(q) == cudaSuccess && cudaDeviceSynchronize() == cudaSuccess && used() == 0);
}

static void arrays(void) {
    struct cudaChannelFormatDesc four = cudaCreateChannelDesc(32, 32, 32, 32, cudaChannelFormatKindFloat);
    struct cudaChannelFormatDesc one = cudaCreateChannelDesc(32, 0, 0, 0, cudaChannelFormatKindFloat);
    struct cudaChannelFormatDesc three = cudaCreateChannelDesc(8, 8, 8, 0, cudaChannelFormatKindSigned);
    struct cudaExtent extent = {256, 256, 0}, layers = {16, 16, 4};
    cudaArray_t array, level, deep;
    cudaMipmappedArray_t mipmap;
    CHECK(cudaMallocArray(&array, &four, 256, 256, 0) == cudaSuccess && used() == 1048576);
    CHECK(cudaMallocArray(&level, &three, 256, 256, 0) == cudaErrorInvalidChannelDescriptor);
    CHECK(cudaMallocMipmappedArray(&mipmap, &one, extent, 9, 0) == cudaSuccess);
    CHECK(cudaMalloc3DArray(&deep, &one, layers, cudaArrayLayered) == cudaSuccess);
    CHECK(used() == 1048576 + 349524 + 4096);
    CHECK(cudaGetMipmappedArrayLevel(&level, mipmap, 8) == cudaSuccess);
    struct cudaResourceDesc resource = {.resType = cudaResourceTypeMipmappedArray};
    resource.res.mipmap.mipmap = mipmap;
    cudaTextureObject_t texture;
    CHECK(cudaCreateTextureObject(&texture, &resource, NULL, NULL) == cudaSuccess);
    CHECK(cudaDestroyTextureObject(texture) == cudaSuccess);
    CHECK(cudaFreeArray(array) == cudaSuccess && cudaFreeArray(NULL) == cudaSuccess);
    CHECK(cudaFreeArray(deep) == cudaSuccess && cudaFreeMipmappedArray(mipmap) == cudaSuccess);
    CHECK(used() == 0);
}

static void graphs(void) {
    cudaStream_t stream;
    cudaGraph_t graph, clone;
    cudaGraphExec_t exec;
    cudaGraphNode_t node;
    void *p;
    CHECK(cudaStreamCreateWithPriority(&stream, cudaStreamNonBlocking, 0) == cudaSuccess);
    CHECK(cudaGraphCreate(&graph, 0) == cudaSuccess);
    CHECK(cudaGraphClone(&clone, graph) == cudaSuccess && cudaGraphDestroy(clone) == cudaSuccess);
    CHECK(cudaStreamBeginCaptureToGraph(stream, graph, NULL, NULL, 0,
                                        cudaStreamCaptureModeThreadLocal) == cudaSuccess);
    CHECK(cudaMallocAsync(&p, 16 * MiB, stream) == cudaSuccess);
    CHECK(cudaLaunchKernel((void *)graphs, (dim3){1, 1, 1}, (dim3){1, 1, 1}, NULL, 0, stream) == cudaSuccess);
    CHECK(cudaFreeAsync(p, stream) == cudaSuccess);
    CHECK(cudaStreamEndCapture(stream, &graph) == cudaSuccess);
    struct cudaGraphNodeParams params = {.type = cudaGraphNodeTypeMemAlloc};
    params.alloc.poolProps.allocType = cudaMemAllocationTypePinned;
    params.alloc.poolProps.location.type = cudaMemLocationTypeDevice;
    params.alloc.bytesize = MiB;
#if CUDART_VERSION >= 13000
    CHECK(cudaGraphAddNode(&node, graph, NULL, NULL, 0, &params) == cudaSuccess);
#else
    CHECK(cudaGraphAddNode(&node, graph, NULL, 0, &params) == cudaSuccess);
#endif
    CHECK(params.alloc.dptr != NULL && params.alloc.dptr != p);
    CHECK(cudaGraphAddMemFreeNode(&node, graph, &node, 1, params.alloc.dptr) == cudaSuccess);
    CHECK(cudaGraphAddMemAllocNode(&node, graph, &node, 1, &params.alloc) == cudaSuccess);
    CHECK(cudaGraphInstantiate(&exec, graph, cudaGraphInstantiateFlagAutoFreeOnLaunch) == cudaSuccess);
    CHECK(used() == 0 && cudaGraphUpload(exec, stream) == cudaSuccess && used() == 33554432);
    for (int i = 0; i < 3; i++) CHECK(cudaGraphLaunch(exec, stream) == cudaSuccess);
    uint64_t reserved;
    CHECK(cudaDeviceGetGraphMemAttribute(0, cudaGraphMemAttrReservedMemCurrent, &reserved) == cudaSuccess);
    CHECK(reserved == 33554432 && cudaFree(params.alloc.dptr) == cudaSuccess);
    CHECK(cudaGraphExecDestroy(exec) == cudaSuccess && cudaGraphDestroy(graph) == cudaSuccess);
    CHECK(cudaDeviceGraphMemTrim(0) == cudaSuccess && used() == 0);
    CHECK(cudaStreamDestroy(stream) == cudaSuccess);
}

static void others(void) {
    cudaExternalMemory_t external;
    cudaIpcMemHandle_t handle;
    cudaLibrary_t library;
    size_t limit;
    void *p, *q;
    struct cudaExternalMemoryHandleDesc desc = {.type = cudaExternalMemoryHandleTypeOpaqueFd,
                                                .handle.fd = memfd_create("external", 0),
                                                .size = 4 * MiB};
    struct cudaExternalMemoryBufferDesc buffer = {.offset = MiB, .size = 3 * MiB};
    CHECK(cudaImportExternalMemory(&external, &desc) == cudaSuccess);
    CHECK(cudaExternalMemoryGetMappedBuffer(&p, external, &buffer) == cudaSuccess && used() == 0);
    CHECK(cudaFree(p) == cudaSuccess && cudaDestroyExternalMemory(external) == cudaSuccess);
    CHECK(cudaMalloc(&p, MiB) == cudaSuccess && cudaIpcGetMemHandle(&handle, p) == cudaSuccess);
    CHECK(cudaIpcOpenMemHandle(&q, handle, cudaIpcMemLazyEnablePeerAccess) == cudaErrorDeviceUninitialized);
    CHECK(cudaLibraryLoadData(&library, "junk", NULL, NULL, 0, NULL, NULL, 0) == cudaErrorInvalidKernelImage);
    CHECK(cudaLibraryLoadData(&library, "\x7f" "ELF", NULL, NULL, 0, NULL, NULL, 0) == cudaSuccess);
    CHECK(cudaLibraryUnload(library) == cudaSuccess);
    CHECK(cudaDeviceSetLimit(cudaLimitMallocHeapSize, 64 * MiB) == cudaSuccess);
    CHECK(cudaDeviceGetLimit(&limit, cudaLimitMallocHeapSize) == cudaSuccess && limit == 64 * MiB);
    cudaLaunchConfig_t config = {.gridDim = {1, 1, 1}, .blockDim = {1, 1, 1}};
    CHECK(cudaLaunchKernelExC(&config, (void *)others, NULL) == cudaSuccess);
    CHECK(cudaFree(p) == cudaSuccess);
}

int main(void) {
    void *p;
    memory();
    arrays();
    graphs();
    others();
    printf("%s\n", cudaGetErrorName(cudaMalloc(&p, (size_t)1 << 40)));
    return 0;
}
