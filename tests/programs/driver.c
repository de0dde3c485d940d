/* What programs do with memory through the CUDA driver: driver DOOR PART. */
#include "driver.h"

#include <stdint.h>

SITE static CUdeviceptr take(size_t size) {
    CUdeviceptr block = 0;
    CHECK(CU(cuMemAlloc)(&block, size));
    return block;
}

SITE static CUdeviceptr keep_weights(void) {
    CUdeviceptr weights = 0;
    CHECK(CU(cuMemAlloc)(&weights, 5 * MIB));
    return weights;
}

static void leak(void) {
    use_device(0);
    REQUIRE(keep_weights() != 0);
}

SITE static void requests(CUdeviceptr *blocks) {
    for (int i = 0; i < 10; i++) CHECK(CU(cuMemAlloc)(&blocks[i], 1 * MIB));
}

SITE static void workspaces(CUdeviceptr *blocks) {
    for (int i = 0; i < 4; i++) CHECK(CU(cuMemAlloc)(&blocks[i], 3 * MIB));
}

static void leak_by_site(void) {
    CUdeviceptr small[10], large[4];
    use_device(0);
    requests(small);
    workspaces(large);
    for (int i = 0; i < 4; i++) CHECK(CU(cuMemFree)(large[i]));
    for (int i = 0; i < 8; i++) CHECK(CU(cuMemFree)(small[i]));
}

/* The bare symbols take 32-bit addresses: what lies behind the variable is not theirs. */
static void narrow_addresses(void) {
    typedef CUresult (*narrow_alloc)(uint32_t *, unsigned);
    typedef CUresult (*narrow_free)(uint32_t);
    narrow_alloc alloc = (narrow_alloc)dlsym(library(), "cuMemAlloc");
    narrow_free release = (narrow_free)dlsym(library(), "cuMemFree");
    struct {
        uint32_t address, canary;
    } narrow = {0, 0xfeedface};
    use_device(0);
    CHECK(alloc(&narrow.address, 4 * MIB));
    take(4 * MIB);
    CHECK(release(narrow.address));
    REQUIRE(narrow.address != 0 && narrow.canary == 0xfeedface);
}

static void zero_bytes(void) {
    CUdeviceptr block = 0;
    use_device(0);
    printf("%d\n", CU(cuMemAlloc)(&block, 0));
}

static CUmemAllocationProp on_device(int ordinal) {
    CUmemAllocationProp prop = {0};
    prop.type = CU_MEM_ALLOCATION_TYPE_PINNED;
    prop.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
    prop.location.id = ordinal;
    return prop;
}

/* One physical block at two addresses lives until the second mapping goes. */
static void mapped_twice(void) {
    const size_t size = 2 * MIB;
    CUmemAllocationProp prop = on_device(0);
    CUmemGenericAllocationHandle handle;
    CUdeviceptr base;
    size_t held[4], total;
    use_device(0);
    CHECK(CU(cuMemCreate)(&handle, size, &prop, 0));
    CHECK(CU(cuMemAddressReserve)(&base, 2 * size, 0, 0, 0));
    CHECK(CU(cuMemMap)(base, size, 0, handle, 0));
    CHECK(CU(cuMemMap)(base + size, size, 0, handle, 0));
    CHECK(CU(cuMemGetInfo)(&held[0], &total));
    CHECK(CU(cuMemRelease)(handle));
    CHECK(CU(cuMemGetInfo)(&held[1], &total));
    CHECK(CU(cuMemUnmap)(base, size));
    CHECK(CU(cuMemGetInfo)(&held[2], &total));
    /* Here a report must see the block live: an allocation marks the moment. */
    CUdeviceptr marker = take(1 * MIB);
    CHECK(CU(cuMemUnmap)(base + size, size));
    CHECK(CU(cuMemFree)(marker));
    CHECK(CU(cuMemGetInfo)(&held[3], &total));
    CHECK(CU(cuMemAddressFree)(base, 2 * size));
    REQUIRE(held[0] == held[1] && held[1] == held[2] && held[3] == held[0] + size);
}

/* A context that is destroyed takes its memory along; another one's stays. */
static void context_destroyed(void) {
    CUdevice device;
    CUcontext first, second;
    CHECK(CU(cuInit)(0));
    CHECK(CU(cuDeviceGet)(&device, 0));
    CHECK(CU(cuCtxCreate)(&first, NULL, 0, device));
    take(4 * MIB);
    CHECK(CU(cuCtxCreate)(&second, NULL, 0, device));
    take(6 * MIB);
    CHECK(CU(cuCtxDestroy)(first));
}

/* Physical memory needs no context, and may lie on another device than the current one. */
static void handle_without_context(void) {
    CUmemAllocationProp prop = on_device(1);
    CUmemGenericAllocationHandle handle;
    CHECK(CU(cuInit)(0));
    CHECK(CU(cuMemCreate)(&handle, 6 * MIB, &prop, 0));
}

/* Results that the caller does not want, or must not leave out. */
static void null_outputs(void) {
    size_t free = 0, total = 0;
    use_device(0);
    CHECK(CU(cuMemGetInfo)(&free, NULL));
    CHECK(CU(cuMemGetInfo)(NULL, &total));
    REQUIRE(free == total);
    printf("%d %d %d", CU(cuMemAlloc)(NULL, 1 * MIB), CU(cuMemHostAlloc)(NULL, 1 * MIB, 0),
           CU(cuMemAllocManaged)(NULL, 1 * MIB, CU_MEM_ATTACH_GLOBAL));
    CUmemAllocationProp prop = on_device(0);
    CUmemGenericAllocationHandle handle;
    printf(" %d %d\n", CU(cuMemCreate)(NULL, 2 * MIB, &prop, 0), CU(cuMemCreate)(&handle, 2 * MIB, NULL, 0));
}

/* On a device that is pretended to have 64 MiB. */
static void small_device(void) {
    size_t free = 0, total = 0;
    CUdeviceptr block = 0;
    use_device(0);
    CHECK(CU(cuMemGetInfo)(&free, &total));
    REQUIRE(free == 64 * MIB && total == 64 * MIB);
    EXPECT(2, CU(cuMemAlloc)(&block, 64 * MIB + 1));
    CHECK(CU(cuMemAlloc)(&block, 64 * MIB));
    CHECK(CU(cuMemGetInfo)(&free, &total));
    REQUIRE(free == 0 && total == 64 * MIB);
    EXPECT(2, CU(cuMemAllocAsync)(&block, 1, NULL));
}

int main(int argc, char **argv) {
    REQUIRE(argc == 3);
    open_driver(argv[1]);
    argv++;
    PARTS({"leak", leak}, {"leak by site", leak_by_site}, {"narrow addresses", narrow_addresses},
          {"zero bytes", zero_bytes}, {"mapped twice", mapped_twice},
          {"context destroyed", context_destroyed},
          {"handle without context", handle_without_context}, {"null outputs", null_outputs},
          {"small device", small_device});
    return 0;
}
