/* Many different stacks: stacks NUMBER makes so many allocations, each from a stack of its own, frees them, and prints the
 * most memory it had resident, in KiB. */
#include "driver.h"

#include <sys/resource.h>

SITE static CUdeviceptr left(unsigned path, int depth);
SITE static CUdeviceptr right(unsigned path, int depth);

static CUdeviceptr go_on(unsigned path, int depth) {
    CUdeviceptr block = 0;
    if (depth == 0) {
        CHECK(CU(cuMemAlloc)(&block, 512));
        return block;
    }
    return path & 1 ? left(path >> 1, depth - 1) : right(path >> 1, depth - 1);
}

/* Something is done after the call, so that it is one. */
static CUdeviceptr left(unsigned path, int depth) {
    CUdeviceptr block = go_on(path, depth);
    __asm__ volatile("" : "+r"(block));
    return block;
}

static CUdeviceptr right(unsigned path, int depth) {
    CUdeviceptr block = go_on(path, depth);
    __asm__ volatile("" : "+r"(block));
    return block;
}

int main(int argc, char **argv) {
    REQUIRE(argc == 2);
    unsigned number = (unsigned)strtoul(argv[1], NULL, 10);
    open_driver("dlsym");
    use_device(0);
    for (unsigned path = 0; path < number; path++) CHECK(CU(cuMemFree)(left(path, 24)));
    struct rusage usage;
    CHECK(getrusage(RUSAGE_SELF, &usage));
    printf("%ld\n", usage.ru_maxrss);
    return 0;
}
