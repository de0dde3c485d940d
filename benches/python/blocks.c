/* What PyTorch's cache does for each tensor, without the cache: it reports a block that it hands out, and the same block taken
 * back, to libc10.so, below as many native frames as there are below a call of torch.empty. Nanoseconds per pair, the median of
 * several rounds. Built with -DC10 it is libc10.so. */
#include <stdint.h>
#include <stdlib.h>
#include <time.h>

typedef struct { int8_t type, index; } Device;

void report(void *block, int64_t size, size_t allocated, size_t reserved, Device device) __asm__(
    "_ZN3c1027reportMemoryUsageToProfilerEPvlmmNS_6DeviceE");

#ifdef C10

void report(void *block, int64_t size, size_t allocated, size_t reserved, Device device) {
    (void)block, (void)size, (void)allocated, (void)reserved, (void)device;
    __asm__ volatile("" ::: "memory");
}

#else

static double now(void) {
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (double)time.tv_sec * 1e9 + (double)time.tv_nsec;
}

static int by_size(const void *a, const void *b) {
    double difference = *(const double *)a - *(const double *)b;
    return (difference > 0) - (difference < 0);
}

/* As a call through so many layers; what it does after its callee returns keeps the frame. */
__attribute__((noinline)) static int hand_out(int depth, uintptr_t at) {
    int below = 0;
    if (depth > 0)
        below = hand_out(depth - 1, at);
    else
        report((void *)at, 1 << 20, 1 << 20, 2 << 20, (Device){1, 0});
    __asm__ volatile("" ::: "memory");
    return below + 1;
}

/* In turn from two depths, if asked to: then no stack is the latest one again. */
double blocks(int count, int depth, int in_turn) {
    enum { ROUNDS = 31 };
    double samples[ROUNDS];
    for (int round = 0; round < ROUNDS; round++) {
        /* The writer catches up: no program does nothing but hand out blocks. */
        nanosleep(&(struct timespec){.tv_nsec = 10000000}, NULL);
        double start = now();
        for (int pair = 0; pair < count; pair++) {
            uintptr_t at = 0x7f0000000000 + ((uintptr_t)(pair & 63) << 21);
            hand_out(depth - (in_turn & pair), at);
            report((void *)at, -(1 << 20), 0, 2 << 20, (Device){1, 0});
        }
        samples[round] = (now() - start) / count;
    }
    qsort(samples, ROUNDS, sizeof *samples, by_size);
    return samples[ROUNDS / 2];
}

#endif
