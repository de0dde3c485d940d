/* Libraries that come and go while memory is taken: loads PART. */
#define _GNU_SOURCE
#include "check.h"

#include <cuda_runtime.h>
#include <dlfcn.h>
#include <pthread.h>
#include <stdatomic.h>
#include <unistd.h>

static void *open_library(const char *name) {
    void *handle = dlopen(name, RTLD_NOW | RTLD_LOCAL);
    if (handle == NULL) fprintf(stderr, "%s\n", dlerror());
    REQUIRE(handle != NULL);
    return handle;
}

SITE static void ask(void *library, const char *name, size_t size) {
    int (*function)(size_t) = (int (*)(size_t))dlsym(library, name);
    REQUIRE(function != NULL);
    CHECK(function(size));
}

static void call(void *library, const char *name) {
    ask(library, name, 3 * MIB);
}

/* The library that leaked is gone, and another one lies where it lay. */
static void replaced(void) {
    CHECK(cudaFree(NULL));
    void *leaky = open_library("libolder.so");
    void *before = dlsym(leaky, "older_allocate");
    call(leaky, "older_allocate");
    CHECK(dlclose(leaky));
    REQUIRE(dlopen("libolder.so", RTLD_NOW | RTLD_NOLOAD) == NULL);
    void *newcomer = open_library("libtwin.so");
    void *after = dlsym(newcomer, "twin_allocate");
    call(newcomer, "twin_allocate");
    puts(before == after ? "same place" : "elsewhere");
}

static atomic_int stop;
static atomic_long count;

static void *allocate_on_and_on(void *unused) {
    while (!atomic_load(&stop)) {
        void *block = NULL;
        CHECK(cudaMalloc(&block, 4096));
        CHECK(cudaFree(block));
        atomic_fetch_add(&count, 1);
    }
    return unused;
}

/* The library's constructor takes memory while the loader is locked, and other threads take memory too. */
static void constructors(void) {
    pthread_t threads[2];
    alarm(60);
    /* The runtime itself takes the loader's lock at its first call, under a lock of its own. */
    CHECK(cudaFree(NULL));
    for (int i = 0; i < 2; i++) CHECK(pthread_create(&threads[i], NULL, allocate_on_and_on, NULL));
    for (int i = 0; i < 200; i++) CHECK(dlclose(open_library("libeager.so")));
    atomic_store(&stop, 1);
    for (int i = 0; i < 2; i++) CHECK(pthread_join(threads[i], NULL));
    printf("%ld\n", atomic_load(&count) + 200);
}

/* Two libraries lie at the same place in turn and leak, while other threads take memory. */
static void swapped(void) {
    pthread_t threads[2];
    alarm(60);
    CHECK(cudaFree(NULL));
    for (int i = 0; i < 2; i++) CHECK(pthread_create(&threads[i], NULL, allocate_on_and_on, NULL));
    void *places[2] = {NULL, NULL};
    int same = 0;
    for (int i = 0; i < 400; i++) {
        const char *names[2] = {"older_allocate", "twin_allocate"};
        void *library = open_library(i % 2 ? "libtwin.so" : "libolder.so");
        places[i % 2] = dlsym(library, names[i % 2]);
        same += places[0] == places[1];
        ask(library, names[i % 2], 4096);
        ask(library, names[i % 2], 8192);
        CHECK(dlclose(library));
    }
    atomic_store(&stop, 1);
    for (int i = 0; i < 2; i++) CHECK(pthread_join(threads[i], NULL));
    printf("%d %ld\n", same > 0, atomic_load(&count) + 800);
}

/* A library by its path from the folder that the program is in at that moment. */
static void from_here(void) {
    call(open_library("./libolder.so"), "older_allocate");
}

int main(int argc, char **argv) {
    (void)argc;
    PARTS({"replaced", replaced}, {"constructors", constructors}, {"swapped", swapped}, {"from_here", from_here});
    return 0;
}
