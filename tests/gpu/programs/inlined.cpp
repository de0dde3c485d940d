// A leak in a function that is inlined into another one, which is inlined into main.
#include <cuda_runtime.h>

#include <cstdio>

static inline __attribute__((always_inline)) void *reserve(size_t bytes) {
    void *block = nullptr;
    cudaMalloc(&block, bytes);  // LEAK
    return block;
}

static inline __attribute__((always_inline)) void *cache(size_t bytes) {
    return reserve(bytes);  // CALLER
}

__attribute__((noinline)) static void *other(size_t bytes) {
    void *block = nullptr;
    cudaMalloc(&block, bytes);  // OTHER
    return block;
}

int main() {
    void *first = cache(3 << 20);
    void *second = other(1 << 20);
    std::printf("%d\n", first != nullptr && second != nullptr);
    return 0;
}
