/* Ways to run out of memory. */
#define _GNU_SOURCE
#include "check.h"

#include <cuda.h>
#include <cuda_runtime.h>

SITE static void *cache(size_t size) {
    void *block = NULL;
    CHECK(cudaMalloc(&block, size));
    return block;
}

SITE static int ask(size_t size) {
    void *block = NULL;
    int error = cudaMalloc(&block, size);
    return error;
}

/* The cache is emptied, and then there is room. */
static void recovered(void) {
    void *held = cache(10 * GIB);
    EXPECT(2, ask(8 * GIB));
    CHECK(cudaFree(held));
    CHECK(ask(8 * GIB));
}

/* Tried again in vain. */
static void fatal(void) {
    cache(10 * GIB);
    /* Not known to the compiler, which would make two calls of one. */
    volatile int attempts = 2;
    while (attempts-- > 0) EXPECT(2, ask(8 * GIB));
    exit(1);
}

/* Half as much until it fits. */
static void probe(void) {
    size_t size = (size_t)1 << 37;
    while (ask(size) != cudaSuccess) size /= 2;
    printf("%zu\n", size);
}

/* The second of two steps fails, and nobody undoes the first. */
static void half_done(void) {
    const size_t size = 2 * MIB;
    CUmemAllocationProp prop = {0};
    CUmemGenericAllocationHandle first, second;
    CUdeviceptr base;
    CHECK(cudaFree(NULL));
    prop.type = CU_MEM_ALLOCATION_TYPE_PINNED;
    prop.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
    CHECK(cuMemCreate(&first, size, &prop, 0));
    CHECK(cuMemAddressReserve(&base, 2 * size, 0, 0, 0));
    CHECK(cuMemMap(base, size, 0, first, 0));
    EXPECT(2, cuMemCreate(&second, size, &prop, 0));
    exit(1);
}

int main(int argc, char **argv) {
    (void)argc;
    PARTS({"recovered", recovered}, {"fatal", fatal}, {"probe", probe}, {"half done", half_done});
    return 0;
}
