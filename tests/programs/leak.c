/* A leak through the runtime: with per-thread default streams a stream-ordered one, else a plain one. */
#include "check.h"

#include <cuda_runtime.h>

SITE static void *keep_weights(void) {
    void *weights = NULL;
#ifdef CUDA_API_PER_THREAD_DEFAULT_STREAM
    CHECK(cudaMallocAsync(&weights, 5 * MIB, 0));
#else
    CHECK(cudaMalloc(&weights, 5 * MIB));
#endif
    return weights;
}

int main(void) {
    REQUIRE(keep_weights() != NULL);
    return 0;
}
