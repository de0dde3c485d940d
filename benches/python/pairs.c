/* Pairs of cuMemAlloc and cuMemFree: nanoseconds per pair, the median of several rounds. Cold: 4 MiB are touched before each
 * pair, which is timed by itself. */
#include <dlfcn.h>
#include <stdlib.h>
#include <time.h>

typedef unsigned long long pointer;
static int (*allocate)(pointer *, size_t);
static int (*release)(pointer);

static double now(void) {
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (double)time.tv_sec * 1e9 + (double)time.tv_nsec;
}

static int by_size(const void *a, const void *b) {
    double difference = *(const double *)a - *(const double *)b;
    return (difference > 0) - (difference < 0);
}

int prepare(void) {
    void *driver = dlopen("libcuda.so.1", RTLD_NOW);
    if (!driver) return 1;
    int (*init)(unsigned) = (int (*)(unsigned))dlsym(driver, "cuInit");
    int (*retain)(void **, int) = (int (*)(void **, int))dlsym(driver, "cuDevicePrimaryCtxRetain");
    int (*enter)(void *) = (int (*)(void *))dlsym(driver, "cuCtxSetCurrent");
    allocate = (int (*)(pointer *, size_t))dlsym(driver, "cuMemAlloc_v2");
    release = (int (*)(pointer))dlsym(driver, "cuMemFree_v2");
    void *context;
    return init(0) || retain(&context, 0) || enter(context);
}

double pairs(int count, int cold) {
    enum { ROUNDS = 31, DIRT = 4 << 20 };
    double samples[ROUNDS];
    char *dirt = malloc(DIRT);
    for (int round = 0; round < ROUNDS; round++) {
        if (cold)
            for (size_t at = 0; at < DIRT; at += 64) dirt[at]++;
        int repeated = cold ? 1 : count;
        double start = now();
        for (int pair = 0; pair < repeated; pair++) {
            pointer block;
            if (allocate(&block, 4096) || release(block)) return -1;
        }
        samples[round] = (now() - start) / repeated;
    }
    free(dirt);
    qsort(samples, ROUNDS, sizeof *samples, by_size);
    return samples[ROUNDS / 2];
}
