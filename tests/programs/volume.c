/* Volume: volume PAIRS LIVE makes so many pairs of allocation and free, then so many blocks that live at once, frees them,
 * and prints the most memory it ever had resident, in KiB: after the pairs, and with the living blocks. */
#include "driver.h"

#include <sys/resource.h>

static long resident(void) {
    struct rusage usage;
    CHECK(getrusage(RUSAGE_SELF, &usage));
    return usage.ru_maxrss;
}

SITE static CUdeviceptr take(void) {
    CUdeviceptr block;
    CHECK(CU(cuMemAlloc)(&block, 256));
    return block;
}

int main(int argc, char **argv) {
    REQUIRE(argc == 3);
    size_t pairs = strtoull(argv[1], NULL, 10), live = strtoull(argv[2], NULL, 10);
    CUdeviceptr *blocks = malloc(live * sizeof *blocks);
    REQUIRE(blocks != NULL);
    open_driver("dlsym");
    use_device(0);
    for (size_t pair = 0; pair < pairs; pair++) CHECK(CU(cuMemFree)(take()));
    long after_pairs = resident();
    for (size_t block = 0; block < live; block++) blocks[block] = take();
    long with_live = resident();
    for (size_t block = 0; block < live; block++) CHECK(CU(cuMemFree)(blocks[block]));
    printf("%ld %ld\n", after_pairs, with_live);
    return 0;
}
