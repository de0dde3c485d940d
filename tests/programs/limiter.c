/* A preloaded library as memory limiters are made: its own `dlsym` and its own resolver hand out its own functions by
 * name. It prints how often its allocation was called. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdio.h>
#include <string.h>

typedef unsigned long long pointer_t;
typedef void *(*dlsym_t)(void *, const char *);

static int allocations;
static int (*real_alloc)(pointer_t *, size_t);
static int (*real_resolver)(const char *, void **, int, unsigned long long, int *);

static dlsym_t real_dlsym(void) {
    static dlsym_t real;
    if (real == NULL) real = (dlsym_t)dlvsym(RTLD_NEXT, "dlsym", "GLIBC_2.34");
    if (real == NULL) real = (dlsym_t)dlvsym(RTLD_NEXT, "dlsym", "GLIBC_2.2.5");
    return real;
}

int cuMemAlloc_v2(pointer_t *pointer, size_t size) {
    allocations++;
    return real_alloc(pointer, size);
}

int cuGetProcAddress_v2(const char *name, void **found, int version, unsigned long long flags, int *status) {
    int code = real_resolver(name, found, version, flags, status);
    if (code == 0 && *found != NULL) {
        if (strcmp(name, "cuMemAlloc") == 0) {
            real_alloc = (int (*)(pointer_t *, size_t))*found;
            *found = (void *)cuMemAlloc_v2;
        }
        if (strcmp(name, "cuGetProcAddress") == 0) *found = (void *)cuGetProcAddress_v2;
    }
    return code;
}

void *dlsym(void *handle, const char *name) {
    void *found = real_dlsym()(handle, name);
    if (found == NULL) return NULL;
    if (strcmp(name, "cuMemAlloc_v2") == 0) {
        real_alloc = (int (*)(pointer_t *, size_t))found;
        return (void *)cuMemAlloc_v2;
    }
    if (strcmp(name, "cuGetProcAddress_v2") == 0) {
        real_resolver = (int (*)(const char *, void **, int, unsigned long long, int *))found;
        return (void *)cuGetProcAddress_v2;
    }
    return found;
}

__attribute__((destructor)) static void tell(void) {
    printf("limiter: %d\n", allocations);
}
