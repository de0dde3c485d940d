/* A library that takes memory when it is loaded, and gives it back when it goes. */
#include "check.h"

#include <cuda_runtime.h>

static void *block;

__attribute__((constructor)) static void arrive(void) {
    CHECK(cudaMalloc(&block, 1 * MIB));
}

__attribute__((destructor)) static void leave(void) {
    CHECK(cudaFree(block));
}
