/* Pools, physical memory and memory that processes share, left in all the states that want to be told. pools PART. */
#include "check.h"

#include <cuda.h>
#include <fcntl.h>
#include <sys/wait.h>
#include <unistd.h>

static void use_device(void) {
    CUdevice device;
    CUcontext context;
    CHECK(cuInit(0));
    CHECK(cuDeviceGet(&device, 0));
    CHECK(cuDevicePrimaryCtxRetain(&context, device));
    CHECK(cuCtxSetCurrent(context));
}

static CUstream new_stream(void) {
    CUstream stream = NULL;
    CHECK(cuStreamCreate(&stream, 0));
    return stream;
}

SITE static CUmemoryPool make_pool(CUmemLocationType where, int handles) {
    CUmemoryPool pool = NULL;
    CUmemPoolProps properties = {0};
    properties.allocType = CU_MEM_ALLOCATION_TYPE_PINNED;
    properties.handleTypes = handles;
    properties.location.type = where;
    CHECK(cuMemPoolCreate(&pool, &properties));
    return pool;
}

SITE static CUdeviceptr take(CUmemoryPool pool, size_t bytes, CUstream stream) {
    CUdeviceptr block = 0;
    CHECK(cuMemAllocFromPoolAsync(&block, bytes, pool, stream));
    return block;
}

SITE static CUdeviceptr take_default(size_t bytes, CUstream stream) {
    CUdeviceptr block = 0;
    CHECK(cuMemAllocAsync(&block, bytes, stream));
    return block;
}

SITE static void keep_all(CUmemoryPool pool) {
    cuuint64_t threshold = ~(cuuint64_t)0;
    CHECK(cuMemPoolSetAttribute(pool, CU_MEMPOOL_ATTR_RELEASE_THRESHOLD, &threshold));
}

/* --- books by pool --- */

static void books(void) {
    use_device();
    CUstream stream = new_stream();
    CUmemoryPool pool = make_pool(CU_MEM_LOCATION_TYPE_DEVICE, 0);
    keep_all(pool);
    CUdeviceptr first = take(pool, 10 * MIB, stream);
    take(pool, 6 * MIB, stream);
    take_default(4 * MIB, stream);
    CHECK(cuMemFreeAsync(first, stream));
    /* From here on what names no pool comes from ours. */
    CHECK(cuDeviceSetMemPool(0, pool));
    take_default(2 * MIB, stream);
}

static void trims(void) {
    use_device();
    CUstream stream = new_stream();
    CUmemoryPool pool = make_pool(CU_MEM_LOCATION_TYPE_DEVICE, 0);
    keep_all(pool);
    CHECK(cuMemFreeAsync(take(pool, 40 * MIB, stream), stream));
    CHECK(cuStreamSynchronize(stream));
    CHECK(cuMemPoolTrimTo(pool, 32 * MIB));
    CHECK(cuMemPoolTrimTo(pool, 0));
    /* Nobody may look at a pool now; the capture must come to its end all the same. */
    CUgraph graph = NULL;
    CHECK(cuStreamBeginCapture(stream, CU_STREAM_CAPTURE_MODE_RELAXED));
    CHECK(cuMemPoolTrimTo(pool, 0));
    CHECK(cuStreamEndCapture(stream, &graph));
    CHECK(cuGraphDestroy(graph));
}

/* Freed, and nobody waits for the stream. */
static void waiting(void) {
    use_device();
    CUstream stream = new_stream();
    CUdeviceptr blocks[3];
    for (int i = 0; i < 3; i++) blocks[i] = take_default(10 * MIB, stream);
    for (int i = 0; i < 3; i++) CHECK(cuMemFreeAsync(blocks[i], stream));
}

static void host_pool(void) {
    use_device();
    take(make_pool(CU_MEM_LOCATION_TYPE_HOST, 0), MIB, NULL);
}

/* --- the reserve at the peak --- */

/* Rounds of which each fits the reserve of the one before; the third one is the highest. */
static void rounds(void) {
    use_device();
    CUstream stream = new_stream();
    CUmemoryPool pool = NULL;
    CHECK(cuDeviceGetDefaultMemPool(&pool, 0));
    keep_all(pool);
    CUdeviceptr blocks[64];
    for (int round = 0; round < 6; round++) {
        size_t bytes = (20 + round % 3) * MIB;
        for (int i = 0; i < 64; i++) blocks[i] = take_default(bytes, stream);
        for (int i = 0; i < 64; i++) CHECK(cuMemFreeAsync(blocks[i], stream));
        wait_ms(60);
    }
}

/* All is given back long before anybody looks again; a pool that comes later had no part in the peak. */
static void given_back(void) {
    use_device();
    CUstream stream = new_stream();
    CUdeviceptr blocks[3];
    for (int i = 0; i < 3; i++) blocks[i] = take_default(10 * MIB, stream);
    for (int i = 0; i < 3; i++) CHECK(cuMemFreeAsync(blocks[i], stream));
    CHECK(cuStreamSynchronize(stream));
    take(make_pool(CU_MEM_LOCATION_TYPE_DEVICE, 0), 5 * MIB, stream);
}

/* --- destroyed with blocks in it --- */

SITE static void destroy(CUmemoryPool pool) {
    CHECK(cuMemPoolDestroy(pool));
}

static void destroyed_early(void) {
    use_device();
    CUstream stream = new_stream();
    CUmemoryPool pool = make_pool(CU_MEM_LOCATION_TYPE_DEVICE, 0);
    CUdeviceptr first = take(pool, 10 * MIB, stream);
    take(pool, 6 * MIB, stream);
    destroy(pool);
    CHECK(cuMemFreeAsync(first, stream));
    /* A pool that went in time is nothing to tell. */
    CUmemoryPool second = make_pool(CU_MEM_LOCATION_TYPE_DEVICE, 0);
    CHECK(cuMemFreeAsync(take(second, MIB, stream), stream));
    CHECK(cuStreamSynchronize(stream));
    CHECK(cuMemPoolDestroy(second));
}

/* --- freed on another stream --- */

SITE static void free_elsewhere(CUdeviceptr block, CUstream stream) {
    CHECK(cuMemFreeAsync(block, stream));
}

static void other_stream(void) {
    use_device();
    CUstream a = new_stream(), b = new_stream();
    for (int i = 0; i < 3; i++) free_elsewhere(take_default(MIB, a), b);
    CHECK(cuMemFreeAsync(take_default(MIB, a), a));
    /* Waits for everything, so it is on no stream. */
    CHECK(cuMemFree(take_default(MIB, a)));
    /* Two names of one stream. */
    CHECK(cuMemFreeAsync(take_default(MIB, NULL), CU_STREAM_LEGACY));
    /* A free that fails is none. */
    CUdeviceptr kept = take_default(MIB, a);
    EXPECT(1, cuMemFreeAsync(kept, b));
}

/* --- physical memory --- */

static CUmemGenericAllocationHandle create(size_t bytes) {
    CUmemGenericAllocationHandle handle = 0;
    CUmemAllocationProp properties = {0};
    properties.type = CU_MEM_ALLOCATION_TYPE_PINNED;
    properties.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
    CHECK(cuMemCreate(&handle, bytes, &properties, 0));
    return handle;
}

SITE static void map_and_release(CUdeviceptr at) {
    CUmemGenericAllocationHandle handle = create(4 * MIB);
    CHECK(cuMemMap(at, 4 * MIB, 0, handle, 0));
    CHECK(cuMemRelease(handle));
    __asm__ volatile("");
}

SITE static void map_and_unmap(CUdeviceptr at) {
    CUmemGenericAllocationHandle handle = create(6 * MIB);
    CHECK(cuMemMap(at, 6 * MIB, 0, handle, 0));
    CHECK(cuMemUnmap(at, 6 * MIB));
    __asm__ volatile("");
}

static void half_released(void) {
    use_device();
    CUdeviceptr space = 0;
    CHECK(cuMemAddressReserve(&space, 64 * MIB, 0, 0, 0));
    for (size_t i = 0; i < 2; i++) map_and_release(space + i * 4 * MIB);
    map_and_unmap(space + 16 * MIB);
    /* In use as it should be: mapped twice, and referenced twice. */
    CUmemGenericAllocationHandle handle = create(2 * MIB), again = 0;
    CHECK(cuMemMap(space + 32 * MIB, 2 * MIB, 0, handle, 0));
    CHECK(cuMemMap(space + 34 * MIB, 2 * MIB, 0, handle, 0));
    CHECK(cuMemRetainAllocationHandle(&again, (void *)(space + 32 * MIB)));
    REQUIRE(again == handle);
}

/* --- two processes --- */

static int to_child[2], to_parent[2];

static int split(void) {
    CHECK(pipe(to_child));
    CHECK(pipe(to_parent));
    /* Before any CUDA call, so that the child is a process of its own. */
    pid_t child = fork();
    REQUIRE(child >= 0);
    use_device();
    return child;
}

static void tell(int *pipe, const void *bytes, size_t size) {
    REQUIRE(write(pipe[1], bytes, size) == (ssize_t)size);
}

static void hear(int *pipe, void *bytes, size_t size) {
    REQUIRE(read(pipe[0], bytes, size) == (ssize_t)size);
}

static void join(int child) {
    int status = 1;
    REQUIRE(waitpid(child, &status, 0) == child && status == 0);
}

SITE static CUdeviceptr own(void) {
    CUdeviceptr block = 0;
    CHECK(cuMemAlloc(&block, 5 * MIB));
    return block;
}

SITE static CUdeviceptr borrow(CUipcMemHandle handle) {
    CUdeviceptr block = 0;
    CHECK(cuIpcOpenMemHandle(&block, handle, CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS));
    return block;
}

SITE static void free_too_early(CUdeviceptr block) {
    CHECK(cuMemFree(block));
}

/* The child opens three blocks: it closes one before it is freed, one after, and one never. */
static void ipc(void) {
    CUipcMemHandle handles[3];
    CUdeviceptr blocks[3];
    char byte = 0;
    int child = split();
    if (child == 0) {
        hear(to_child, handles, sizeof handles);
        for (int i = 0; i < 3; i++) blocks[i] = borrow(handles[i]);
        REQUIRE(borrow(handles[0]) == blocks[0]);
        for (int i = 0; i < 2; i++) CHECK(cuIpcCloseMemHandle(blocks[0]));
        tell(to_parent, &byte, 1);
        hear(to_child, &byte, 1);
        wait_ms(5);
        CHECK(cuIpcCloseMemHandle(blocks[1]));
        tell(to_parent, &byte, 1);
        return;
    }
    for (int i = 0; i < 3; i++) {
        blocks[i] = own();
        /* Of an address inside, too: it is the block that is offered. */
        CHECK(cuIpcGetMemHandle(&handles[i], blocks[i] + (i == 1 ? 512 : 0)));
    }
    tell(to_child, handles, sizeof handles);
    hear(to_parent, &byte, 1);
    /* Far enough from the child's calls that two clocks cannot mistake the order. */
    wait_ms(5);
    CHECK(cuMemFree(blocks[0]));
    free_too_early(blocks[1]);
    tell(to_child, &byte, 1);
    hear(to_parent, &byte, 1);
    join(child);
    CHECK(cuMemFree(blocks[2]));
}

/* A descriptor of the parent, as one of our own. */
static int reopen(int of) {
    char path[64];
    snprintf(path, sizeof path, "/proc/%d/fd/%d", (int)getppid(), of);
    int file = open(path, O_RDWR);
    REQUIRE(file >= 0);
    return file;
}

struct offer {
    int pool, physical;
    CUmemPoolPtrExportData pointer;
};

/* A pool with a block of it, and a physical handle: files, and 64 bytes. */
static void shared_files(void) {
    struct offer offer;
    char byte = 0;
    int child = split();
    if (child == 0) {
        CUmemoryPool pool = NULL;
        CUdeviceptr block = 0;
        CUmemGenericAllocationHandle handle = 0;
        hear(to_child, &offer, sizeof offer);
        CHECK(cuMemPoolImportFromShareableHandle(&pool, (void *)(size_t)reopen(offer.pool),
                                                 CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0));
        CHECK(cuMemPoolImportPointer(&block, pool, &offer.pointer));
        CHECK(cuMemImportFromShareableHandle(&handle, (void *)(size_t)reopen(offer.physical),
                                             CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR));
        CHECK(cuMemFreeAsync(block, NULL));
        CHECK(cuMemRelease(handle));
        tell(to_parent, &byte, 1);
        return;
    }
    const int file = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR;
    CUmemoryPool pool = make_pool(CU_MEM_LOCATION_TYPE_DEVICE, file);
    CUdeviceptr block = take(pool, 3 * MIB, NULL);
    CUmemGenericAllocationHandle handle = 0;
    CUmemAllocationProp properties = {0};
    properties.type = CU_MEM_ALLOCATION_TYPE_PINNED;
    properties.requestedHandleTypes = file;
    properties.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
    CHECK(cuMemCreate(&handle, 2 * MIB, &properties, 0));
    memset(&offer, 0, sizeof offer);
    CHECK(cuMemPoolExportToShareableHandle(&offer.pool, pool, file, 0));
    CHECK(cuMemPoolExportPointer(&offer.pointer, block));
    CHECK(cuMemExportToShareableHandle(&offer.physical, handle, file, 0));
    tell(to_child, &offer, sizeof offer);
    hear(to_parent, &byte, 1);
    join(child);
    CHECK(cuMemFreeAsync(block, NULL));
    CHECK(cuMemRelease(handle));
}

int main(int argc, char **argv) {
    (void)argc;
    PARTS({"books", books}, {"rounds", rounds}, {"given back", given_back}, {"trims", trims}, {"waiting", waiting}, {"host pool", host_pool},
          {"destroyed early", destroyed_early}, {"other stream", other_stream},
          {"half released", half_released}, {"ipc", ipc}, {"shared files", shared_files});
    return 0;
}
