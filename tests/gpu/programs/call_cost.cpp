// Nanoseconds per call on a real driver: one line per call, `name ns`.
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cuda_runtime.h>
#include <vector>

static void check(cudaError_t error) {
    if (error != cudaSuccess) {
        std::fprintf(stderr, "%s\n", cudaGetErrorString(error));
        std::exit(1);
    }
}

template <typename Work> static double per_call(int calls, Work work) {
    auto start = std::chrono::steady_clock::now();
    for (int i = 0; i < calls; i++) work(i);
    std::chrono::duration<double, std::nano> elapsed = std::chrono::steady_clock::now() - start;
    return elapsed.count() / calls;
}

int main() {
    const int calls = 2000;
    std::vector<void *> blocks(calls);
    check(cudaFree(nullptr));
    cudaStream_t stream;
    check(cudaStreamCreate(&stream));
    cudaMemPool_t pool;
    check(cudaDeviceGetDefaultMemPool(&pool, 0));
    unsigned long long keep = ~0ull;
    check(cudaMemPoolSetAttribute(pool, cudaMemPoolAttrReleaseThreshold, &keep));
    for (int pass = 0; pass < 2; pass++) {
        double malloc_small = per_call(calls, [&](int i) { check(cudaMalloc(&blocks[i], 256)); });
        double free_small = per_call(calls, [&](int i) { check(cudaFree(blocks[i])); });
        double malloc_async = per_call(calls, [&](int i) { check(cudaMallocAsync(&blocks[i], 256, stream)); });
        double free_async = per_call(calls, [&](int i) { check(cudaFreeAsync(blocks[i], stream)); });
        check(cudaStreamSynchronize(stream));
        double malloc_large = per_call(100, [&](int i) { check(cudaMalloc(&blocks[i], 2 << 20)); });
        double free_large = per_call(100, [&](int i) { check(cudaFree(blocks[i])); });
        int device;
        double get_device = per_call(calls, [&](int) { check(cudaGetDevice(&device)); });
        // The first pass warms up.
        if (pass == 1)
            std::printf("cudaMalloc-256B %.0f\ncudaFree-256B %.0f\ncudaMallocAsync-256B-warm %.0f\n"
                        "cudaFreeAsync-256B %.0f\ncudaMalloc-2MiB %.0f\ncudaFree-2MiB %.0f\ncudaGetDevice %.0f\n",
                        malloc_small, free_small, malloc_async, free_async, malloc_large, free_large, get_device);
    }
}
