/* Programs on top of a framework's cache: tensors CASE. Prints what the cache itself says at the end:
 * allocated, its peak, reserved, its peak, segments, largest hole, reports, refusals. */
#include "check.h"
#include "torch_cache.h"

#include "../../include/oomhook.h"

#include <cuda_runtime.h>
#include <pthread.h>
#include <string.h>

static void say(void) {
    printf("%zu %zu %zu %zu %zu %zu %llu %llu\n", cache_allocated(), cache_allocated_peak(), cache_reserved(),
           cache_reserved_peak(), cache_segments(), cache_largest_hole(), (unsigned long long)cache_reports(),
           (unsigned long long)cache_refusals());
    fflush(stdout);
}

__attribute__((noinline)) static void *weights(size_t bytes) { return cache_malloc(bytes); }
__attribute__((noinline)) static void *activations(size_t bytes) { return cache_malloc(bytes); }
__attribute__((noinline)) static void *kept(size_t bytes) { return cache_malloc(bytes); }

/* Weights stay, activations come and go, something is kept at each step. */
static void steps(void) {
    weights(100 * MIB);
    for (int i = 0; i < 20; i++) {
        void *a = activations(30 * MIB), *b = activations(1000);
        kept(1500000);
        cache_free(a);
        cache_free(b);
    }
}

static void *churn(void *seed) {
    void *held[16] = {0};
    unsigned state = (unsigned)(size_t)seed;
    for (int i = 0; i < 4000; i++) {
        state = state * 1103515245u + 12345u;
        void **slot = &held[state >> 16 & 15];
        if (*slot != NULL) cache_free(*slot);
        *slot = cache_malloc((state >> 8 & 0xffff) * 64 + 1);
    }
    for (int i = 0; i < 16; i++)
        if (held[i] != NULL) cache_free(held[i]);
    return NULL;
}

/* Half of many blocks are given back, so that what is free lies in pieces; then more is asked than any piece has. */
static void fragmented(void) {
    void *blocks[660];
    size_t count = 0;
    while (count < 660 && (blocks[count] = weights(24 * MIB)) != NULL) count++;
    for (size_t i = 0; i < count; i += 2) cache_free(blocks[i]);
    /* Of every second segment a part is idle now, and none of these is large enough for another of the same. */
    for (size_t i = 0; i < count; i += 2) blocks[i] = kept(13 * MIB);
    REQUIRE(cache_malloc(2048 * MIB) == NULL);
}

int main(int argc, char **argv) {
    const char *which = argc > 1 ? argv[1] : "steps";
    if (strcmp(which, "steps") == 0) {
        steps();
    } else if (strcmp(which, "threads") == 0) {
        pthread_t threads[4];
        for (size_t i = 0; i < 4; i++) pthread_create(&threads[i], NULL, churn, (void *)(i + 1));
        for (size_t i = 0; i < 4; i++) pthread_join(threads[i], NULL);
    } else if (strcmp(which, "limit") == 0) {
        cache_limit(64 * MIB);
        kept(40 * MIB);
        REQUIRE(cache_malloc(60 * MIB) == NULL);
    } else if (strcmp(which, "retry") == 0) {
        /* The device has 16 GiB: the cache is refused, gives back what is idle, and gets it. */
        cache_free(kept(10 * GIB));
        kept(12 * GIB);
    } else if (strcmp(which, "caught") == 0) {
        void *held = kept(10 * GIB);
        REQUIRE(cache_malloc(8 * GIB) == NULL);
        cache_free(held);
        kept(8 * GIB);
    } else if (strcmp(which, "fatal") == 0) {
        steps();
        kept(10 * GIB);
        REQUIRE(cache_malloc(8 * GIB) == NULL);
        say();
        return 1;
    } else if (strcmp(which, "fragmented") == 0) {
        fragmented();
    } else if (strcmp(which, "phase") == 0) {
        oomhook_push("forward");
        cache_free(activations(3 * MIB));
        oomhook_pop();
    } else if (strcmp(which, "emptied") == 0) {
        weights(300 * MIB);
        void *held = activations(500 * MIB), *own = NULL;
        CHECK(cudaMalloc(&own, 7 * MIB));
        cache_free(held);
        cache_empty();
        CHECK(cudaFree(own));
    } else if (strcmp(which, "empties") == 0) {
        for (int i = 0; i < 50; i++) {
            cache_free(activations(64 * MIB));
            cache_empty();
        }
    }
    say();
    return 0;
}
