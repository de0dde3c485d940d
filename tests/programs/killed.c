/* A busy program that notes what it has done where it outlives it: killed FILE PAUSE. Four threads allocate and free, with so
 * many nanoseconds of other work between two calls; each notes in the file how many calls of a kind have returned, and when
 * the latest did. */
#define _GNU_SOURCE
#include "driver.h"

#include <fcntl.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdint.h>
#include <sys/mman.h>
#include <unistd.h>

#define THREADS 4

struct done {
    _Atomic uint64_t allocs, frees, when;
};

static struct done *done;
static long pause_ns;

static uint64_t now(clockid_t clock) {
    struct timespec time;
    CHECK(clock_gettime(clock, &time));
    return (uint64_t)time.tv_sec * 1000000000 + (uint64_t)time.tv_nsec;
}

static void work(void) {
    uint64_t until = now(CLOCK_MONOTONIC) + (uint64_t)pause_ns;
    while (pause_ns > 0 && now(CLOCK_MONOTONIC) < until) {}
}

static void *run(void *argument) {
    struct done *mine = argument;
    char name[16];
    snprintf(name, sizeof name, "busy-%d", (int)(mine - done));
    CHECK(pthread_setname_np(pthread_self(), name));
    use_device(0);
    for (;;) {
        CUdeviceptr block;
        CHECK(CU(cuMemAlloc)(&block, 4096));
        atomic_fetch_add(&mine->allocs, 1);
        atomic_store(&mine->when, now(CLOCK_REALTIME));
        work();
        CHECK(CU(cuMemFree)(block));
        atomic_fetch_add(&mine->frees, 1);
        atomic_store(&mine->when, now(CLOCK_REALTIME));
        work();
    }
    return NULL;
}

int main(int argc, char **argv) {
    pthread_t threads[THREADS];
    REQUIRE(argc == 3);
    int file = open(argv[1], O_RDWR);
    REQUIRE(file >= 0);
    done = mmap(NULL, THREADS * sizeof *done, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    REQUIRE(done != MAP_FAILED);
    pause_ns = atol(argv[2]);
    /* Whatever happens to the test, this ends. */
    alarm(60);
    open_driver("dlsym");
    use_device(0);
    for (int i = 0; i < THREADS; i++) CHECK(pthread_create(&threads[i], NULL, run, &done[i]));
    for (int i = 0; i < THREADS; i++) CHECK(pthread_join(threads[i], NULL));
    return 0;
}
