/* A long life: churn EVENTS LIVE keeps one block from its very beginning by mistake, then makes so many events with up to
 * so many living blocks, of sizes and lifetimes that do not repeat, and frees all of them. */
#include "driver.h"

SITE static void forget_at_start(void) {
    CUdeviceptr block;
    CHECK(CU(cuMemAlloc)(&block, 3 * MIB));
}

SITE static CUdeviceptr take(size_t size) {
    CUdeviceptr block;
    CHECK(CU(cuMemAlloc)(&block, size));
    return block;
}

int main(int argc, char **argv) {
    REQUIRE(argc == 3);
    size_t events = strtoull(argv[1], NULL, 10), slots = strtoull(argv[2], NULL, 10);
    CUdeviceptr *blocks = calloc(slots, sizeof *blocks);
    REQUIRE(blocks != NULL);
    open_driver("dlsym");
    use_device(0);
    forget_at_start();
    unsigned long long random = 88172645463325252ull;
    for (size_t event = 0; event < events; event++) {
        random ^= random << 13;
        random ^= random >> 7;
        random ^= random << 17;
        CUdeviceptr *slot = &blocks[random % slots];
        if (*slot) {
            CHECK(CU(cuMemFree)(*slot));
            *slot = 0;
        } else {
            *slot = take(512 + (random >> 40) % 100000);
        }
    }
    for (size_t slot = 0; slot < slots; slot++)
        if (blocks[slot]) CHECK(CU(cuMemFree)(blocks[slot]));
    return 0;
}
