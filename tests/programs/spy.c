/* A preloaded library that writes down (into $SPY_LOG) what a CUDA runtime asks for and what it is answered, by dlsym
 * and by the driver's resolver. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef void *(*dlsym_t)(void *, const char *);
typedef int (*resolver_t)(const char *, void **, int, uint64_t, int *);

static FILE *spy_log;
static resolver_t next_resolver;

/* Where an address lies: file name of the library, and the symbol there if it has one. */
static void describe(void *address) {
    Dl_info info = {0};
    if (address == NULL || dladdr(address, &info) == 0) {
        fprintf(spy_log, address == NULL ? " null -\n" : " nowhere -\n");
        return;
    }
    const char *slash = strrchr(info.dli_fname, '/');
    fprintf(spy_log, " %s %s\n", slash != NULL ? slash + 1 : info.dli_fname,
            info.dli_sname != NULL && info.dli_saddr == address ? info.dli_sname : "-");
}

static int resolver(const char *name, void **function, int version, uint64_t flags, int *status) {
    int code = next_resolver(name, function, version, flags, status);
    fprintf(spy_log, "resolver %s@%d:%d %d %s", name[0] != 0 ? name : "(nothing)", version, (int)flags, code,
            status == NULL ? "-" : *status == 0 ? "0" : "other");
    describe(function != NULL && code == 0 ? *function : NULL);
    if (code == 0 && strcmp(name, "cuGetProcAddress") == 0 && version >= 12000) {
        next_resolver = (resolver_t)*function;
        *function = (void *)resolver;
    }
    return code;
}

/* The next dlsym: glibc's, found by its version, knows whose it is (the library under test has one without version). */
static dlsym_t real(void) {
    static dlsym_t found;
    const char *const versions[] = {"GLIBC_2.34", "GLIBC_2.2.5", "GLIBC_2.17"};
    if (found != NULL) return found;
    for (int at = 0; found == NULL && at < 3; at++)
        found = (dlsym_t)dlvsym(RTLD_NEXT, "dlsym", versions[at]);
    if (found == NULL) abort();
    return found = (dlsym_t)found(RTLD_NEXT, "dlsym");
}

void *dlsym(void *handle, const char *name) {
    void *answer = real()(handle, name);
    if (strncmp(name, "cu", 2) != 0) return answer;
    if (spy_log == NULL) {
        spy_log = fopen(getenv("SPY_LOG"), "w");
        if (spy_log == NULL) abort();
    }
    fprintf(spy_log, "dlsym %s 0 -", name);
    describe(answer);
    if (strcmp(name, "cuGetProcAddress_v2") == 0 && answer != NULL) {
        next_resolver = (resolver_t)answer;
        return (void *)resolver;
    }
    return answer;
}
