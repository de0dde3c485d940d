/* A leak three functions deep, two of them inlined. OTHER makes another build of it. */
#include "check.h"

#include <cuda_runtime.h>

namespace cache {

template <typename T> class Pool {
  public:
    __attribute__((always_inline)) T *grow(size_t count) {
        void *block = nullptr;
        CHECK(cudaMalloc(&block, count * sizeof(T))); /* in grow */
        return static_cast<T *>(block);
    }
};

__attribute__((always_inline)) inline float *fill(Pool<float> &pool) {
    return pool.grow(5 * MIB / sizeof(float)); /* in fill */
}

} // namespace cache

SITE static float *train() {
    cache::Pool<float> pool;
    float *block = cache::fill(pool); /* in train */
    __asm__ volatile("" : "+r"(block));
    return block;
}

#ifdef OTHER
int other[OTHER];
#endif

int main() {
    REQUIRE(train() != nullptr); /* in main */
    return 0;
}
