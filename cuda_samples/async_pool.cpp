// Stream-ordered memory: what a pool keeps in reserve is no leak.
//
// A report must say: 6 allocations, 6 frees; tracked peak 31,457,280 bytes at allocation 3; no leak. The pool
// reserved at most 33,554,432 bytes; it is idle at the end.
// The program prints 0 reserved after the first round (threshold 0), 33554432 after the second
// (threshold without bound), and 0 after the trim.
#include "check.h"

#include <cstdint>

SITE void round_of_three(cudaStream_t stream) {
    void *blocks[3];
    for (void *&block : blocks) check(cudaMallocAsync(&block, 10 * MiB, stream));
    for (void *block : blocks) check(cudaFreeAsync(block, stream));
    check(cudaStreamSynchronize(stream));
}

static void print_reserved(cudaMemPool_t pool, const char *when) {
    uint64_t reserved = 0;
    check(cudaMemPoolGetAttribute(pool, cudaMemPoolAttrReservedMemCurrent, &reserved));
    std::printf("async_pool: %llu reserved %s\n", (unsigned long long)reserved, when);
}

int main() {
    cudaStream_t stream;
    cudaMemPool_t pool;
    check(cudaStreamCreate(&stream));
    check(cudaDeviceGetDefaultMemPool(&pool, 0));
    round_of_three(stream);
    print_reserved(pool, "after the first round");
    uint64_t threshold = UINT64_MAX;
    check(cudaMemPoolSetAttribute(pool, cudaMemPoolAttrReleaseThreshold, &threshold));
    round_of_three(stream);
    print_reserved(pool, "after the second round");
    check(cudaMemPoolTrimTo(pool, 0));
    print_reserved(pool, "after the trim");
    check(cudaStreamDestroy(stream));
}
