/* How the double finds the driver: as the real runtime does.
 *
 * It opens libcuda.so.1, asks for cuGetProcAddress_v2 by dlsym, probes it, exchanges it for the
 * resolver that ("cuGetProcAddress", 12000) names, and asks that for everything else. Where there is
 * no resolver, or it says that the driver is a stub, all names are asked by dlsym, exactly. The
 * environment variable CUDART_DOUBLE_LOOKUP=dlsym, or the macro CUDART_DOUBLE_OLD when building,
 * gives that older way from the start. */
#include "double.h"

#include <dlfcn.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

struct cudart_double_driver cudart_double;

typedef CUresult (*resolver_t)(const char *, void **, int, cuuint64_t,
                               CUdriverProcAddressQueryResult *);

static pthread_once_t once = PTHREAD_ONCE_INIT;
static cudaError_t found = cudaErrorInsufficientDriver;
static void *library;
static resolver_t resolver;

static int old_way(void) {
#ifdef CUDART_DOUBLE_OLD
    return 1;
#else
    const char *lookup = getenv("CUDART_DOUBLE_LOOKUP");
    return lookup != NULL && strcmp(lookup, "dlsym") == 0;
#endif
}

/* The resolver of the driver, or NULL if names are to be asked by dlsym. */
static resolver_t find_resolver(void) {
    if (old_way()) return NULL;
    resolver_t first = (resolver_t)dlsym(library, "cuGetProcAddress_v2");
    if (first == NULL) return NULL;
    void *ignored = NULL;
    if (first("", &ignored, 0, 0, NULL) == CUDA_ERROR_STUB_LIBRARY) return NULL;
    void *init = NULL, *older = NULL, *newer = NULL;
    first("cuInit", &init, 2000, 0, NULL);
    first("cuGetProcAddress", &older, 11030, 0, NULL);
    if (first("cuGetProcAddress", &newer, 12000, 0, NULL) != CUDA_SUCCESS) return first;
    return newer != NULL ? (resolver_t)newer : first;
}

static void *find(const char *base, int version, cuuint64_t flags, const char *exact) {
    void *function = NULL;
    if (resolver == NULL) return dlsym(library, exact);
    if (resolver(base, &function, version, flags, NULL) != CUDA_SUCCESS) return NULL;
    return function;
}

static void find_driver(void) {
    library = dlopen("libcuda.so.1", RTLD_NOW);
    if (library == NULL) return;
    resolver = find_resolver();
    int missing = 0;
#define DRIVER(field, type, base, version, flags, exact)                                           \
    cudart_double.field = (__typeof__(type) *)find(base, version, flags, exact);                   \
    missing += cudart_double.field == NULL;
#include "driver_table.h"
#undef DRIVER
    if (missing == 0) found = cudaSuccess;
}

cudaError_t cudart_double_find(void) {
    pthread_once(&once, find_driver);
    return found;
}

CUresult cudart_double_lookup(const char *name, void **function, unsigned version,
                              unsigned long long flags, CUdriverProcAddressQueryResult *status) {
    if (resolver != NULL) return resolver(name, function, (int)version, flags, status);
    *function = dlsym(library, name);
    *status = *function == NULL;
    return CUDA_SUCCESS;
}
