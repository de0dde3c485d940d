/* Programs that load the driver and use no memory; and what of the process shows that somebody else is in it. */
#define _GNU_SOURCE
#include "check.h"

#include <cuda.h>
#include <cuda_runtime_api.h>
#include <dirent.h>
#include <dlfcn.h>
#include <errno.h>

static int threads(void) {
    int count = 0;
    DIR *tasks = opendir("/proc/self/task");
    REQUIRE(tasks != NULL);
    for (struct dirent *entry; (entry = readdir(tasks)) != NULL;) count += entry->d_name[0] != '.';
    closedir(tasks);
    return count;
}

typedef CUresult (*init_t)(unsigned);
typedef CUresult (*count_t)(int *);
typedef CUresult (*free_t)(CUdeviceptr);
typedef CUresult (*info_t)(size_t *, size_t *);

/* Asks what there is, and makes neither a context nor an allocation. */
static void looks_around(void) {
    void *driver = dlopen("libcuda.so.1", RTLD_NOW);
    REQUIRE(driver != NULL);
    int devices = 0;
    size_t free = 0, total = 0;
    CHECK(((init_t)dlsym(driver, "cuInit"))(0));
    CHECK(((count_t)dlsym(driver, "cuDeviceGetCount"))(&devices));
    int freed = ((free_t)dlsym(driver, "cuMemFree_v2"))(0x1000);
    int asked = ((info_t)dlsym(driver, "cuMemGetInfo_v2"))(&free, &total);
    printf("%d devices, %d, %d, %d threads\n", devices, freed, asked, threads());
}

/* The caller's errno after each call. */
#define SHOW(call)                                                                                 \
    do {                                                                                           \
        errno = EXDEV;                                                                             \
        int code_ = (int)(call);                                                                   \
        int after_ = errno;                                                                        \
        printf("%s: %d, errno %d\n", #call, code_, after_);                                        \
    } while (0)

static void errno_of_calls(void) {
    void *block = NULL, *pinned = NULL;
    SHOW(dlsym(RTLD_DEFAULT, "cuMemAlloc_v2") != NULL);
    SHOW(cudaFree(NULL));
    SHOW(cudaMalloc(&block, 1 * MIB));
    SHOW(cudaFree(block));
    SHOW(cudaFree(block));
    SHOW(cudaMalloc(&block, 1024 * GIB));
    SHOW(cudaMallocHost(&pinned, 1 * MIB));
    SHOW(cudaFreeHost(pinned));
    SHOW(cudaMallocManaged(&block, 1 * MIB, cudaMemAttachGlobal));
    SHOW(cudaFree(block));
    SHOW(cudaDeviceReset());
}

int main(int argc, char **argv) {
    (void)argc;
    if (getenv("LD_PRELOAD") != NULL) REQUIRE(is_loaded("liboomhook.so"));
    PARTS({"looks around", looks_around}, {"errno", errno_of_calls});
    return 0;
}
