/* What programs do with memory through the CUDA runtime. */
#define _GNU_SOURCE
#include "check.h"

#include <cuda_runtime.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdint.h>

SITE static void *take(size_t size) {
    void *block = NULL;
    CHECK(cudaMalloc(&block, size));
    return block;
}

/* --- a leak at one of two sites --- */

SITE static void requests(void **blocks) {
    for (int i = 0; i < 10; i++) CHECK(cudaMalloc(&blocks[i], 1 * MIB));
}

SITE static void workspaces(void **blocks) {
    for (int i = 0; i < 4; i++) CHECK(cudaMalloc(&blocks[i], 3 * MIB));
}

static void leak_by_site(void) {
    void *small[10], *large[4];
    requests(small);
    workspaces(large);
    for (int i = 0; i < 4; i++) CHECK(cudaFree(large[i]));
    for (int i = 0; i < 8; i++) CHECK(cudaFree(small[i]));
}

/* --- the same peak twice --- */

SITE static void *weights(void) {
    void *block = NULL;
    CHECK(cudaMalloc(&block, 100 * MIB));
    return block;
}

SITE static void *activations(void) {
    void *block = NULL;
    CHECK(cudaMalloc(&block, 200 * MIB));
    return block;
}

static void equal_peaks(void) {
    void *kept = weights();
    for (int step = 0; step < 2; step++) CHECK(cudaFree(activations()));
    CHECK(cudaFree(kept));
}

/* --- threads --- */

static void *blocks[64];

static void *produce(void *unused) {
    pthread_setname_np(pthread_self(), "producer");
    for (int i = 0; i < 64; i++) blocks[i] = take(1 * MIB);
    return unused;
}

static void *consume(void *unused) {
    pthread_setname_np(pthread_self(), "consumer");
    for (int i = 0; i < 64; i++) CHECK(cudaFree(blocks[i]));
    return unused;
}

/* Named late, as many programs do. */
static void *leak_and_end(void *unused) {
    blocks[0] = take(1 * MIB);
    pthread_setname_np(pthread_self(), "leaker");
    for (int i = 1; i < 4; i++) blocks[i] = take(1 * MIB);
    return unused;
}

static void in_thread(void *(*work)(void *)) {
    pthread_t thread;
    CHECK(pthread_create(&thread, NULL, work, NULL));
    CHECK(pthread_join(thread, NULL));
}

static void other_thread_frees(void) {
    in_thread(produce);
    in_thread(consume);
}

static void thread_ends(void) {
    in_thread(leak_and_end);
}

/* --- an address that comes back while its free is still under way --- */

static atomic_int returned;

static void *free_slowly(void *block) {
    CHECK(cudaFree(block));
    atomic_store(&returned, 1);
    return NULL;
}

static size_t free_bytes(void) {
    size_t free = 0, total = 0;
    CHECK(cudaMemGetInfo(&free, &total));
    return free;
}

static void address_reused_at_once(void) {
    void *first = take(4 * MIB);
    size_t before = free_bytes();
    pthread_t thread;
    CHECK(pthread_create(&thread, NULL, free_slowly, first));
    while (free_bytes() == before) sched_yield();
    void *second = take(8 * MIB);
    /* The driver has freed the block, and the call that freed it has not come back. */
    REQUIRE(second == first && !atomic_load(&returned));
    CHECK(pthread_join(thread, NULL));
    CHECK(cudaFree(second));
}

/* --- frees that fail --- */

static void free_fails_once(void) {
    void *block = take(4 * MIB);
    printf("%d\n", cudaFree(block));
}

SITE static int free_of_unknown(void) {
    int code = cudaFree((void *)(uintptr_t)0xdead0000);
    return code;
}

SITE static int free_twice(void) {
    void *block = take(1 * MIB);
    CHECK(cudaFree(block));
    int code = cudaFree(block);
    return code;
}

SITE static int free_inside(void) {
    char *block = take(1 * MIB);
    int code = cudaFree(block + 256);
    CHECK(cudaFree(block));
    return code;
}

static void bad_frees(void) {
    for (int i = 0; i < 3; i++) CHECK(cudaFree(NULL));
    int unknown = free_of_unknown();
    int twice = free_twice();
    int inside = free_inside();
    printf("%d %d %d\n", unknown, twice, inside);
}

/* --- rows with padding; nothing at all --- */

static void pitched(void) {
    void *flat = NULL;
    size_t pitch = 0;
    struct cudaPitchedPtr deep;
    CHECK(cudaMallocPitch(&flat, &pitch, 1000, 100));
    CHECK(cudaMalloc3D(&deep, make_cudaExtent(1000, 100, 10)));
    CHECK(cudaFree(flat));
    printf("%zu %zu\n", pitch, deep.pitch);
}

static void zero_bytes(void) {
    void *block = &block;
    CHECK(cudaMalloc(&block, 0));
    REQUIRE(block == NULL);
}

/* --- pools --- */

static cudaStream_t stream;

static uint64_t reserved(void) {
    cudaMemPool_t pool;
    uint64_t bytes = 0;
    CHECK(cudaDeviceGetDefaultMemPool(&pool, 0));
    CHECK(cudaMemPoolGetAttribute(pool, cudaMemPoolAttrReservedMemCurrent, &bytes));
    return bytes;
}

SITE static void three_from_the_pool(void) {
    void *three[3];
    for (int i = 0; i < 3; i++) CHECK(cudaMallocAsync(&three[i], 10 * MIB, stream));
    for (int i = 0; i < 3; i++) CHECK(cudaFreeAsync(three[i], stream));
    uint64_t before = reserved();
    CHECK(cudaStreamSynchronize(stream));
    printf("%llu %llu\n", (unsigned long long)before, (unsigned long long)reserved());
}

static void pool(void) {
    CHECK(cudaStreamCreate(&stream));
    three_from_the_pool();
}

static void pool_that_keeps(void) {
    cudaMemPool_t pool;
    uint64_t all = UINT64_MAX;
    CHECK(cudaStreamCreate(&stream));
    CHECK(cudaDeviceGetDefaultMemPool(&pool, 0));
    CHECK(cudaMemPoolSetAttribute(pool, cudaMemPoolAttrReleaseThreshold, &all));
    three_from_the_pool();
}

static void pool_trimmed(void) {
    cudaMemPool_t pool;
    pool_that_keeps();
    CHECK(cudaDeviceGetDefaultMemPool(&pool, 0));
    CHECK(cudaMemPoolTrimTo(pool, 0));
    printf("%llu\n", (unsigned long long)reserved());
}

/* --- a reset --- */

static void reset(void) {
    void *linear[5], *pinned, *ordered;
    for (int i = 0; i < 5; i++) linear[i] = take(1 * MIB);
    CHECK(cudaMallocHost(&pinned, 2 * MIB));
    CHECK(cudaStreamCreate(&stream));
    CHECK(cudaMallocAsync(&ordered, 8 * MIB, stream));
    CHECK(cudaDeviceReset());
    printf("%d\n", cudaFree(linear[0]));
    take(1 * MIB);
}

/* --- memory that is not the device's --- */

SITE static void register_twice(void *memory) {
    CHECK(cudaHostRegister(memory, 4 * MIB, cudaHostRegisterDefault));
    int code = cudaHostRegister(memory, 4 * MIB, cudaHostRegisterDefault);
    printf("%d\n", code);
}

static void host(void) {
    void *pinned = NULL;
    CHECK(cudaHostAlloc(&pinned, (size_t)1 << 35, cudaHostAllocDefault));
    void *memory = aligned_alloc(4096, 4 * MIB);
    register_twice(memory);
    CHECK(cudaHostUnregister(memory));
    CHECK(cudaFreeHost(pinned));
    free(memory);
}

static void managed_beyond_the_device(void) {
    void *memory = NULL;
    CHECK(cudaMallocManaged(&memory, 24 * GIB, cudaMemAttachGlobal));
}

/* --- two devices: a free counts for the device of the block --- */

static void two_devices(void) {
    void *first = take(1 * MIB);
    CHECK(cudaSetDevice(1));
    void *second = take(2 * MIB);
    take(4 * MIB);
    CHECK(cudaFree(first));
    CHECK(cudaSetDevice(0));
    CHECK(cudaFree(second));
}

/* --- many threads, few addresses --- */

enum { HANDS = 8, ROUNDS = 20000 };
static void *_Atomic shelf[64];

/* Takes blocks and leaves them on a shelf, where whoever comes next frees them. */
static void *pass_on(void *seed) {
    unsigned state = (unsigned)(uintptr_t)seed;
    for (int i = 0; i < ROUNDS; i++) {
        void *block = take(4096 * (1 + i % 3));
        state = state * 1103515245 + 12345;
        void *found = atomic_exchange(&shelf[state >> 16 & 63], block);
        if (found != NULL) CHECK(cudaFree(found));
    }
    return NULL;
}

static void many_threads(void) {
    pthread_t threads[HANDS];
    for (int i = 0; i < HANDS; i++)
        CHECK(pthread_create(&threads[i], NULL, pass_on, (void *)(uintptr_t)(i + 1)));
    for (int i = 0; i < HANDS; i++) CHECK(pthread_join(threads[i], NULL));
    for (int i = 0; i < 64; i++) CHECK(cudaFree(shelf[i]));
}

int main(int argc, char **argv) {
    (void)argc;
    PARTS({"leak by site", leak_by_site}, {"equal peaks", equal_peaks},
          {"other thread frees", other_thread_frees}, {"thread ends", thread_ends},
          {"address reused at once", address_reused_at_once}, {"free fails once", free_fails_once},
          {"bad frees", bad_frees}, {"pitched", pitched}, {"zero bytes", zero_bytes}, {"pool", pool},
          {"pool that keeps", pool_that_keeps}, {"pool trimmed", pool_trimmed}, {"reset", reset},
          {"host", host}, {"managed beyond the device", managed_beyond_the_device},
          {"two devices", two_devices}, {"many threads", many_threads});
    return 0;
}
