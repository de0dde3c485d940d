// Memory of several kinds, and what the driver itself says of it: one line `name value` each.
#include <cstdio>
#include <cstdlib>
#include <cuda.h>
#include <cuda_runtime.h>

static void check(int code, const char *what) {
    if (code != 0) {
        std::fprintf(stderr, "%s: %d\n", what, code);
        std::exit(1);
    }
}
#define CHECK(call) check((int)(call), #call)

static size_t free_bytes() {
    size_t free = 0, total = 0;
    CHECK(cudaMemGetInfo(&free, &total));
    return free;
}

int main() {
    const size_t MiB = 1 << 20;
    CHECK(cudaSetDevice(0));
    CHECK(cudaFree(nullptr));
    cudaStream_t stream;
    CHECK(cudaStreamCreate(&stream));
    CHECK(cudaStreamSynchronize(stream));
    size_t before = free_bytes();

    void *linear = nullptr, *ordered = nullptr;
    CHECK(cudaMalloc(&linear, 64 * MiB));
    CHECK(cudaMallocAsync(&ordered, 64 * MiB, stream));
    CHECK(cudaStreamSynchronize(stream));
    CUmemAllocationProp prop = {};
    prop.type = CU_MEM_ALLOCATION_TYPE_PINNED;
    prop.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
    CUmemGenericAllocationHandle handle;
    CHECK(cuMemCreate(&handle, 64 * MiB, &prop, 0));
    CUdeviceptr address;
    CHECK(cuMemAddressReserve(&address, 128 * MiB, 0, 0, 0));
    CHECK(cuMemMap(address, 64 * MiB, 0, handle, 0));
    CHECK(cuMemMap(address + 64 * MiB, 64 * MiB, 0, handle, 0));
    // The mappings keep the memory.
    CHECK(cuMemRelease(handle));
    std::printf("taken %zu\n", before - free_bytes());

    cudaMemPool_t pool;
    CHECK(cudaDeviceGetDefaultMemPool(&pool, 0));
    unsigned long long used = 0, reserved = 0;
    CHECK(cudaMemPoolGetAttribute(pool, cudaMemPoolAttrUsedMemCurrent, &used));
    CHECK(cudaMemPoolGetAttribute(pool, cudaMemPoolAttrReservedMemCurrent, &reserved));
    std::printf("pool_used %llu\npool_reserved %llu\n", used, reserved);

    cudaGraph_t graph;
    cudaGraphExec_t exec;
    void *block = nullptr;
    CHECK(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal));
    CHECK(cudaMallocAsync(&block, 16 * MiB, stream));
    CHECK(cudaFreeAsync(block, stream));
    CHECK(cudaStreamEndCapture(stream, &graph));
    CHECK(cudaGraphInstantiate(&exec, graph, 0));
    CHECK(cudaGraphLaunch(exec, stream));
    CHECK(cudaStreamSynchronize(stream));
    unsigned long long graph_reserved = 0;
    CHECK(cudaDeviceGetGraphMemAttribute(0, cudaGraphMemAttrReservedMemCurrent, &graph_reserved));
    std::printf("graph_reserved %llu\n", graph_reserved);
    return 0;
}
