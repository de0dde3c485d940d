// A solver that takes its grids at the start, refines them twice, and swaps buffers in each step. Nothing is wrong with it.
#include <cuda_runtime.h>

#include <cstdio>
#include <cstdlib>
#include <utility>

static void check(cudaError_t error) {
    if (error != cudaSuccess) {
        std::printf("%s\n", cudaGetErrorString(error));
        std::exit(1);
    }
}

static __global__ void relax(const float *from, float *to, size_t cells) {
    size_t at = blockIdx.x * size_t(blockDim.x) + threadIdx.x;
    if (at > 0 && at + 1 < cells) to[at] = 0.5f * (from[at - 1] + from[at + 1]);
}

int main() {
    size_t cells = size_t(8) << 20;
    for (int level = 0; level < 3; ++level, cells *= 2) {
        float *from = nullptr, *to = nullptr;
        check(cudaMalloc(&from, cells * sizeof(float)));
        check(cudaMalloc(&to, cells * sizeof(float)));
        check(cudaMemset(from, 0, cells * sizeof(float)));
        for (int step = 0; step < 50; ++step) {
            float *norms = nullptr;
            check(cudaMallocAsync(reinterpret_cast<void **>(&norms), 1 << 20, nullptr));
            relax<<<(cells + 255) / 256, 256>>>(from, to, cells);
            check(cudaGetLastError());
            check(cudaFreeAsync(norms, nullptr));
            std::swap(from, to);
        }
        check(cudaDeviceSynchronize());
        check(cudaFree(from));
        check(cudaFree(to));
    }
    std::puts("solved");
}
