/* What look-ups by name answer: lookups PART. Prints, for each name, the file name of the library that the answer lies
 * in, "NULL", or what else there is to compare. */
#define _GNU_SOURCE
#include "check.h"

#include <cuda.h>
#include <dlfcn.h>

static const char *holder(void *address) {
    static Dl_info info;
    if (address == NULL) return "NULL";
    REQUIRE(dladdr(address, &info) != 0);
    const char *slash = strrchr(info.dli_fname, '/');
    return slash != NULL ? slash + 1 : info.dli_fname;
}

/* dlerror after a look-up speaks of that look-up or is silent. */
static void look_up(void *handle, const char *name) {
    void *found = dlsym(handle, name);
    const char *error = dlerror();
    REQUIRE((found == NULL) == (error != NULL));
    REQUIRE(error == NULL || strstr(error, name) != NULL);
    printf("%s %s\n", name, holder(found));
}

static void *open_library(const char *name) {
    void *handle = dlopen(name, RTLD_NOW | RTLD_GLOBAL);
    REQUIRE(handle != NULL);
    return handle;
}

/* Programs probe for CUDA this way. */
static void without_cuda(void) {
    look_up(RTLD_DEFAULT, "cuMemAlloc_v2");
    look_up(RTLD_DEFAULT, "cudaMalloc");
    look_up(dlopen(NULL, RTLD_NOW), "cuGetProcAddress_v2");
    look_up(dlopen(NULL, RTLD_NOW), "cudaFree");
    look_up(RTLD_NEXT, "cuMemFree_v2");
    look_up(RTLD_DEFAULT, "no_such_function");
    look_up(RTLD_DEFAULT, "cos");
    look_up(RTLD_DEFAULT, "puts");
}

/* Names that begin as those of CUDA do. */
static void lookalikes(void) {
    static const char *const names[] = {"cudnnCreate", "cublasCreate_v2", "curl_easy_init", "cuMemAlloc_v3",
                                        "cu", "cudaMallocator", "cuMemAlloc", "cudaMemset"};
    void *library = open_library("liblookalikes.so");
    for (size_t at = 0; at < sizeof names / sizeof *names; at++) {
        look_up(library, names[at]);
        look_up(RTLD_DEFAULT, names[at]);
    }
    /* An object is found as an object. */
    int *number = dlsym(library, "cuda_number");
    REQUIRE(number != NULL && *number == 42);
}

/* Every name that stands on stdin, in the driver and in the runtime. */
static void names_of_stdin(void) {
    void *driver = open_library("libcuda.so.1"), *runtime = open_library("libcudart.so.13");
    char name[128];
    while (scanf("%127s", name) == 1) {
        look_up(strncmp(name, "cuda", 4) == 0 ? runtime : driver, name);
    }
}

typedef CUresult (*resolver_t)(const char *, void **, int, cuuint64_t,
                               CUdriverProcAddressQueryResult *);
typedef CUresult (*old_resolver_t)(const char *, void **, int, cuuint64_t);

static void *const untouched = (void *)0x5a5a;

static void ask(const char *which, resolver_t resolver, const char *name, int version, cuuint64_t flags) {
    void *found = untouched, *again = untouched;
    CUdriverProcAddressQueryResult status = 77;
    int code = resolver(name, &found, version, flags, &status);
    int same = (int)resolver(name, &again, version, flags, NULL) == code && again == found;
    printf("%s %s %d %d: %d %d %s %s\n", which, name != NULL ? name : "(null)", version, (int)flags, code,
           (int)status, found == untouched ? "untouched" : holder(found), same ? "same" : "different");
}

/* The resolver is the first function of the driver that is called, before cuInit. */
static void resolver(void) {
    static const struct {
        const char *name;
        int version;
        cuuint64_t flags;
    } queries[] = {
        {"", 0, 0},
        {"cuInit", 2000, 0},
        {"cuMemAlloc", 2000, 0},
        {"cuMemAlloc", 3020, 0},
        {"cuMemAlloc", 13000, 1},
        {"cuMemAllocAsync", 11020, 0},
        {"cuMemAllocAsync", 11020, 2},
        {"cuMemAllocAsync", 11010, 0},
        {"cuMemFree", 13000, 2},
        {"cuDevicePrimaryCtxReset", 7000, 0},
        {"cuDevicePrimaryCtxReset", 11000, 0},
        {"cuStreamBeginCapture", 10010, 2},
        {"cuDeviceGetCount", 2000, 0},
        {"cuMemAlloc_v2", 13000, 0},
        {"cuNoSuchThing", 13000, 0},
        {"cuMemAlloc", 99000, 0},
        {"cuMemAlloc", 13000, 4},
        {"cuMemAlloc", -1, 0},
        {NULL, 13000, 0},
        {"cuGetProcAddress", 11030, 0},
        {"cuGetProcAddress", 12000, 0},
    };
    void *driver = open_library("libcuda.so.1");
    resolver_t first = (resolver_t)dlsym(driver, "cuGetProcAddress_v2");
    old_resolver_t old = (old_resolver_t)dlsym(driver, "cuGetProcAddress");
    void *second = NULL;
    REQUIRE(first != NULL && old != NULL);
    CHECK(first("cuGetProcAddress", &second, 12000, 0, NULL));
    for (size_t at = 0; at < sizeof queries / sizeof *queries; at++) {
        ask("first", first, queries[at].name, queries[at].version, queries[at].flags);
        ask("second", (resolver_t)second, queries[at].name, queries[at].version, queries[at].flags);
        void *found = untouched;
        int code = old(queries[at].name, &found, queries[at].version, queries[at].flags);
        printf("old %s %d %d: %d %s\n", queries[at].name != NULL ? queries[at].name : "(null)",
               queries[at].version, (int)queries[at].flags, code,
               found == untouched ? "untouched" : holder(found));
    }
    printf("nowhere: %d\n", first("cuInit", NULL, 2000, 0, NULL));
}

/* A driver that lacks most functions: a look-up that succeeds leaves no error behind. */
static void little_driver(void) {
    void *driver = open_library("libcuda.so.1");
    look_up(driver, "cuMemAlloc_v2");
    look_up(driver, "cuMemFree_v2");
    look_up(driver, "cuInit");
    look_up(driver, "cuMemAlloc_v2");
}

/* A reference that needs no driver: without one it is null, or answers "not initialised" under a library that has it. */
extern CUresult cuMemAlloc(CUdeviceptr *, size_t) __attribute__((weak));

static void weak_reference(void) {
    CUdeviceptr block = 77;
    int code = cuMemAlloc == NULL ? CUDA_ERROR_NOT_INITIALIZED : cuMemAlloc(&block, 1 * MIB);
    printf("%d %d\n", code, (int)block);
}

int main(int argc, char **argv) {
    (void)argc;
    if (getenv("LD_PRELOAD") != NULL) REQUIRE(is_loaded("liboomhook.so"));
    PARTS({"without cuda", without_cuda}, {"lookalikes", lookalikes}, {"names", names_of_stdin},
          {"resolver", resolver}, {"little driver", little_driver},
          {"weak reference", weak_reference});
    return 0;
}
