// A server that keeps results in a cache with a bound, and works in buffers that come and go. Nothing is wrong with it.
#include <cuda_runtime.h>

#include <cstdio>
#include <cstdlib>
#include <deque>

static void check(cudaError_t error) {
    if (error != cudaSuccess) {
        std::printf("%s\n", cudaGetErrorString(error));
        std::exit(1);
    }
}

static void *take(size_t bytes) {
    void *block = nullptr;
    check(cudaMalloc(&block, bytes));
    return block;
}

int main() {
    const size_t mib = 1 << 20;
    void *model = take(512 * mib);
    std::deque<void *> results;
    for (int request = 0; request < 2000; ++request) {
        void *work = take((1 + request * 7 % 31) * mib);
        check(cudaMemset(work, 0, mib));
        results.push_back(take((1 + request % 3) * mib));
        if (results.size() > 64) {
            check(cudaFree(results.front()));
            results.pop_front();
        }
        check(cudaFree(work));
    }
    for (void *result : results) check(cudaFree(result));
    check(cudaFree(model));
    std::puts("served");
}
