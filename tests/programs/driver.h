/* The driver's functions, found by the door that is asked for: exported symbols (built with LINKED), dlsym of exact
 * names, or the resolver as the runtime uses it. */
#ifndef DRIVER_H
#define DRIVER_H

#include "check.h"

#include <cuda.h>
#include <dlfcn.h>

/* Base name and the version that a runtime asks it for. The headers turn the name into the exact symbol. */
#define FUNCTIONS(F)                                                                               \
    F(cuInit, 2000)                                                                                \
    F(cuDeviceGet, 2000)                                                                           \
    F(cuDevicePrimaryCtxRetain, 7000)                                                              \
    F(cuCtxCreate, 12050)                                                                          \
    F(cuCtxDestroy, 4000)                                                                          \
    F(cuCtxSetCurrent, 4000)                                                                       \
    F(cuMemGetInfo, 3020)                                                                          \
    F(cuMemAlloc, 3020)                                                                            \
    F(cuMemFree, 3020)                                                                             \
    F(cuMemAllocAsync, 11020)                                                                      \
    F(cuMemFreeAsync, 11020)                                                                       \
    F(cuMemHostAlloc, 2020)                                                                        \
    F(cuMemFreeHost, 2000)                                                                         \
    F(cuMemAllocManaged, 6000)                                                                     \
    F(cuMemCreate, 10020)                                                                          \
    F(cuMemRelease, 10020)                                                                         \
    F(cuMemRetainAllocationHandle, 11000)                                                          \
    F(cuMemMap, 10020)                                                                             \
    F(cuMemUnmap, 10020)                                                                           \
    F(cuMemAddressReserve, 10020)                                                                  \
    F(cuMemAddressFree, 10020)

static struct {
#define FIELD(name, version) __typeof__(&name) f_##name;
    FUNCTIONS(FIELD)
#undef FIELD
} driver;

/* A call of the function that the door gave. */
#define CU(name) driver.f_##name

/* The exact symbol that a name stands for. */
#define EXACT(name) EXACT_(name)
#define EXACT_(name) #name

static void *library(void) {
    void *handle = dlopen("libcuda.so.1", RTLD_NOW);
    REQUIRE(handle != NULL);
    return handle;
}

#ifdef LINKED
static void by_symbol(void) {
#define FIELD(name, version) driver.f_##name = name;
    FUNCTIONS(FIELD)
#undef FIELD
}
#endif

static inline void by_dlsym(void) {
    void *handle = library();
#define FIELD(name, version)                                                                       \
    driver.f_##name = (__typeof__(&name))dlsym(handle, EXACT(name));                               \
    REQUIRE(driver.f_##name != NULL);
    FUNCTIONS(FIELD)
#undef FIELD
}

typedef CUresult (*resolver_t)(const char *, void **, int, cuuint64_t,
                               CUdriverProcAddressQueryResult *);

/* The first resolver only names the second, which is asked for everything else. */
static inline void by_resolver(void) {
    resolver_t first = (resolver_t)dlsym(library(), "cuGetProcAddress_v2");
    void *second = NULL;
    REQUIRE(first != NULL);
    CHECK(first("cuGetProcAddress", &second, 12000, 0, NULL));
    REQUIRE(second != NULL);
    void *found = NULL;
#define FIELD(name, version)                                                                       \
    CHECK(((resolver_t)second)(#name, &found, version, 0, NULL));                                  \
    driver.f_##name = (__typeof__(&name))found;                                                    \
    REQUIRE(found != NULL);
    FUNCTIONS(FIELD)
#undef FIELD
}

/* Finds the driver by the door of this name. */
static inline void open_driver(const char *door) {
#ifdef LINKED
    if (strcmp(door, "symbol") == 0) return by_symbol();
#endif
    if (strcmp(door, "dlsym") == 0) return by_dlsym();
    if (strcmp(door, "resolver") == 0) return by_resolver();
    fprintf(stderr, "no door %s\n", door);
    exit(98);
}

/* Makes the primary context of a device current. */
static inline void use_device(int ordinal) {
    CUdevice device;
    CUcontext context;
    CHECK(CU(cuInit)(0));
    CHECK(CU(cuDeviceGet)(&device, ordinal));
    CHECK(CU(cuDevicePrimaryCtxRetain)(&context, device));
    CHECK(CU(cuCtxSetCurrent)(context));
}

#endif
