/* A framework's library (with -DLIBRARY) that calls a function of its own by its exported name, and the program on top of it:
 * framework. The program catches the failure and lives on until its input ends. */
#include "check.h"

#include <cuda_runtime.h>

#ifdef LIBRARY

void real_report(long size, size_t allocated, size_t reserved, short device)
    __asm__("_ZN3c1027reportOutOfMemoryToProfilerElmmNS_6DeviceE");

void real_report(long size, size_t allocated, size_t reserved, short device) {
    printf("%ld %zu %zu %d\n", size, allocated, reserved, device);
    fflush(stdout);
}

/* The cache asks, gives back what it has, asks again and gives up. */
int cache_take(size_t size) {
    void *block = NULL;
    for (int i = 0; i < 2; i++) {
        if (cudaMalloc(&block, size) == cudaSuccess) return 0;
    }
    real_report((long)size, 10, 20, 0x0101);
    return 2;
}

#else

int cache_take(size_t size);

int main(void) {
    void *block = NULL;
    CHECK(cudaMalloc(&block, 10 * GIB));
    EXPECT(2, cache_take(8 * GIB));
    while (getchar() != EOF) {}
    return 0;
}

#endif
