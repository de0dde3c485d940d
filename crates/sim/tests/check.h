/* What the test programs share: the driver as programs load it, and a check that ends the process. */
#ifndef CHECK_H
#define CHECK_H

#include "cuda.h"

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define CHECK(condition)                                                                           \
    do {                                                                                           \
        if (!(condition)) {                                                                        \
            fprintf(stderr, "%s:%d: %s\n", __FILE__, __LINE__, #condition);                        \
            _exit(1);                                                                              \
        }                                                                                          \
    } while (0)

static void *library;

/* A function of the driver, with the type of another name. */
#define F(name, type) ((__typeof__(type) *)dlsym(library, #name))
/* A function whose name has only one meaning. */
#define G(name) F(name, name)

static void load(void) {
    library = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
    if (library == NULL) fprintf(stderr, "%s\n", dlerror());
    if (library == NULL) exit(1);
}

/* Makes the primary context of the first device current. */
static void begin(void) {
    CUcontext context;
    CHECK(G(cuInit)(0) == 0);
    CHECK(G(cuDevicePrimaryCtxRetain)(&context, 0) == 0);
    CHECK(G(cuCtxSetCurrent)(context) == 0);
}

static inline size_t used(void) {
    size_t free, total;
    CHECK(F(cuMemGetInfo_v2, cuMemGetInfo_v2)(&free, &total) == 0);
    return total - free;
}

#endif
