/* A program with a runtime of its own, and a plugin with another one inside, loaded with RTLD_DEEPBIND. */
#define _GNU_SOURCE
#include "check.h"

#include <cuda_runtime.h>
#include <dlfcn.h>

SITE static void seen(void) {
    void *block = NULL;
    CHECK(cudaMalloc(&block, 5 * MIB));
}

int main(void) {
    seen();
    void *plugin = dlopen("libdeep.so", RTLD_NOW | RTLD_LOCAL | RTLD_DEEPBIND);
    REQUIRE(plugin != NULL);
    int (*allocate)(size_t) = (int (*)(size_t))dlsym(plugin, "deep_allocate");
    REQUIRE(allocate != NULL);
    CHECK(allocate(3 * MIB));
    return 0;
}
