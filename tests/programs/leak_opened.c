/* A leak through a runtime that the program opens by itself: leak_opened local|deepbind. */
#define _GNU_SOURCE
#include "check.h"

#include <dlfcn.h>

typedef int (*malloc_t)(void **, size_t);

static malloc_t allocate;

SITE static void *keep_weights(void) {
    void *weights = NULL;
    CHECK(allocate(&weights, 5 * MIB));
    return weights;
}

int main(int argc, char **argv) {
    REQUIRE(argc == 2);
    int deep = strcmp(argv[1], "deepbind") == 0 ? RTLD_DEEPBIND : 0;
    void *runtime = dlopen("libcudart.so.13", RTLD_NOW | RTLD_LOCAL | deep);
    REQUIRE(runtime != NULL);
    allocate = (malloc_t)dlsym(runtime, "cudaMalloc");
    REQUIRE(allocate != NULL && dlsym(RTLD_DEFAULT, "cudaMalloc") == NULL);
    REQUIRE(keep_weights() != NULL);
    return 0;
}
