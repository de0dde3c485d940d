/* A program that loads the simulated driver as real ones are loaded, and checks what only a whole process
 * shows. The first argument names the check; the exit code is 0 if it holds. */
#define _GNU_SOURCE
#include "check.h"

#include <pthread.h>
#include <stdint.h>
#include <sys/wait.h>
#include <time.h>

#undef cuMemAlloc
#undef cuMemFree
#undef cuGetProcAddress

/* What a preload would do: functions of the same names, which the driver must not take for its own. */
__attribute__((visibility("default"))) CUresult cuMemAlloc_v2(CUdeviceptr *p, size_t n) {
    (void)p, (void)n;
    return CUDA_ERROR_UNKNOWN;
}

static CUresult alloc(CUdeviceptr *p, size_t n) { return F(cuMemAlloc_v2, cuMemAlloc_v2)(p, n); }
static CUresult release(CUdeviceptr p) { return F(cuMemFree_v2, cuMemFree_v2)(p); }

static int resolver(void) {
    static const struct {
        const char *base, *exact;
        int version, flags;
    } names[] = {
#define DRIVER(field, type, base, version, flags, exact) {base, exact, version, flags},
#include "driver_table.h"
#undef DRIVER
        {"cuMemAlloc", "cuMemAlloc", 2000, 0},
        {"cuMemFree", "cuMemFree", 2000, 0},
        {"cuGetProcAddress", "cuGetProcAddress_v2", 12000, 0},
        {"cuGetProcAddress", "cuGetProcAddress", 11030, 0},
        {"cuDevicePrimaryCtxReset", "cuDevicePrimaryCtxReset_v2", 13000, 0},
    };
    __typeof__(cuGetProcAddress_v2) *resolve = F(cuGetProcAddress_v2, cuGetProcAddress_v2);
    void *found;
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        found = NULL;
        CHECK(resolve(names[i].base, &found, names[i].version, names[i].flags, NULL) == 0);
        CHECK(found != NULL && found == dlsym(library, names[i].exact));
    }
    CUdriverProcAddressQueryResult status = 9;
    CHECK(resolve("cuMemAlloc_v2", &found, 13000, 0, &status) == 0 && found == NULL && status == 1);
    CHECK(resolve("", &found, 0, 0, NULL) == 0);
    CHECK(resolve("cuMemAlloc", &found, 13010, 0, NULL) == CUDA_ERROR_INVALID_VALUE);
    return 0;
}

static int codes(void) {
    CUdeviceptr p = 7, q;
    CHECK(alloc(&p, 1) == CUDA_ERROR_NOT_INITIALIZED);
    CHECK(F(cuInit, cuInit)(0) == 0);
    CHECK(alloc(&p, 1) == CUDA_ERROR_INVALID_CONTEXT);
    begin();
    CHECK(alloc(NULL, 1) == CUDA_ERROR_INVALID_VALUE);
    p = 0;
    CHECK(alloc(&p, (size_t)1 << 40) == CUDA_ERROR_OUT_OF_MEMORY);
    CHECK(p == 0xa5a5a5a5a5a5a5a5);
    CHECK(alloc(&p, 4096) == 0 && alloc(&q, 4096) == 0 && p != q && p % 512 == 0);
    CHECK(release(p + 256) == CUDA_ERROR_INVALID_VALUE && release(0) == 0);
    CHECK(release(p) == 0 && release(p) == CUDA_ERROR_INVALID_VALUE);
    CUdeviceptr again;
    CHECK(alloc(&again, 4096) == 0 && again == p);
    size_t total;
    CHECK(F(cuMemGetInfo_v2, cuMemGetInfo_v2)(NULL, &total) == 0 && total == (size_t)16 << 30);
    return 0;
}

static int narrow(void) {
    begin();
    struct {
        uint32_t pointer, canary;
    } old = {0, 0xc0ffee};
    CUresult (*old_alloc)(uint32_t *, unsigned) = (void *)dlsym(library, "cuMemAlloc");
    CUresult (*old_free)(uint32_t) = (void *)dlsym(library, "cuMemFree");
    CHECK(old_alloc(&old.pointer, 4 << 20) == 0);
    CHECK(old.pointer != 0 && old.canary == 0xc0ffee);
    CHECK(old_free(old.pointer) == 0);
    return 0;
}

static int host(void) {
    begin();
    void *pinned;
    CUdeviceptr managed, device;
    CHECK(F(cuMemHostAlloc, cuMemHostAlloc)(&pinned, (size_t)1 << 45, 0) == CUDA_ERROR_OUT_OF_MEMORY);
    CHECK(F(cuMemHostAlloc, cuMemHostAlloc)(&pinned, (size_t)1 << 35, 0) == 0);
    CHECK(F(cuMemAllocManaged, cuMemAllocManaged)(&managed, (size_t)24 << 30, 1) == 0);
    strcpy(pinned, "copied");
    CHECK(F(cuMemcpy, cuMemcpy)(managed, (CUdeviceptr)(uintptr_t)pinned, 7) == 0);
    CHECK(strcmp((char *)(uintptr_t)managed, "copied") == 0);
    CHECK(F(cuMemsetD8_v2, cuMemsetD8)(managed, 'x', 3) == 0);
    CHECK(memcmp((char *)(uintptr_t)managed, "xxxied", 6) == 0);
    CHECK(alloc(&device, 4096) == 0);
    CHECK(F(cuMemcpyHtoD_v2, cuMemcpyHtoD)(device, pinned, 4096) == 0);
    CHECK(F(cuMemcpyHtoD_v2, cuMemcpyHtoD)(device, pinned, 4097) == CUDA_ERROR_INVALID_VALUE);
    CHECK(release(managed) == 0);
    return 0;
}

static int early_code, late_code;
static void before_init(void) {
    CUdeviceptr p;
    early_code = alloc(&p, 4096);
    /* Runs last: the answer of the process. */
    if (early_code != CUDA_ERROR_DEINITIALIZED || late_code != 0) _exit(1);
}
static void after_init(void) {
    CUdeviceptr p;
    late_code = alloc(&p, 4096);
}
static int at_exit(void) {
    late_code = 77;
    atexit(before_init);
    begin();
    atexit(after_init);
    return 0;
}

static volatile int stop;
static void *churn(void *unused) {
    CUcontext context;
    F(cuDevicePrimaryCtxRetain, cuDevicePrimaryCtxRetain)(&context, 0);
    F(cuCtxSetCurrent, cuCtxSetCurrent)(context);
    for (int i = 0; !stop && i < 1000000; i++) {
        CUdeviceptr p;
        CHECK(alloc(&p, 4096 + i % 7 * 512) == 0 && release(p) == 0);
    }
    return unused;
}
static int forks(void) {
    begin();
    pthread_t threads[3];
    for (int i = 0; i < 3; i++) pthread_create(&threads[i], NULL, churn, NULL);
    for (int i = 0; i < 200; i++) {
        pid_t child = fork();
        if (child == 0) {
            CUdeviceptr p;
            int count;
            CHECK(alloc(&p, 1) == CUDA_ERROR_NOT_INITIALIZED);
            CHECK(F(cuInit, cuInit)(0) == CUDA_ERROR_NOT_INITIALIZED);
            CHECK(F(cuDeviceGetCount, cuDeviceGetCount)(&count) == CUDA_ERROR_NOT_INITIALIZED);
            _exit(0);
        }
        int status;
        CHECK(waitpid(child, &status, 0) == child && status == 0);
    }
    stop = 1;
    for (int i = 0; i < 3; i++) pthread_join(threads[i], NULL);
    size_t free, total;
    CHECK(F(cuMemGetInfo_v2, cuMemGetInfo_v2)(&free, &total) == 0 && free == total);
    return 0;
}

/* Run with OOMHOOK_SIM_FAIL=cuMemFree_v2#2=999 and OOMHOOK_SIM_STALL=cuMemFree_v2#1=50ms. */
static int faults(void) {
    begin();
    CUdeviceptr p, q;
    CHECK(alloc(&p, 4096) == 0 && alloc(&q, 4096) == 0);
    struct timespec from, to;
    clock_gettime(CLOCK_MONOTONIC, &from);
    CHECK(release(p) == 0);
    clock_gettime(CLOCK_MONOTONIC, &to);
    CHECK((to.tv_sec - from.tv_sec) * 1000 + (to.tv_nsec - from.tv_nsec) / 1000000 >= 49);
    CHECK(release(q) == 999);
    CHECK(release(q) == 0);
    return 0;
}

/* Run with OOMHOOK_SIM=1x24GiB,free=8GiB and OOMHOOK_SIM_DRIVER=12040. */
static int settings(void) {
    begin();
    int count, version;
    size_t free, total;
    CHECK(F(cuDeviceGetCount, cuDeviceGetCount)(&count) == 0 && count == 1);
    CHECK(F(cuDriverGetVersion, cuDriverGetVersion)(&version) == 0 && version == 12040);
    CHECK(F(cuMemGetInfo_v2, cuMemGetInfo_v2)(&free, &total) == 0);
    CHECK(free == (size_t)8 << 30 && total == (size_t)24 << 30);
    void *found;
    CHECK(F(cuGetProcAddress_v2, cuGetProcAddress_v2)("cuMemAlloc", &found, 13000, 0, NULL) == 1);
    return 0;
}

int main(int count, char **arguments) {
    (void)count;
    load();
    const char *check = arguments[1];
#define RUN(name) if (strcmp(check, #name) == 0) return name()
    RUN(resolver);
    RUN(codes);
    RUN(narrow);
    RUN(host);
    RUN(at_exit);
    RUN(forks);
    RUN(faults);
    RUN(settings);
    return 2;
}
