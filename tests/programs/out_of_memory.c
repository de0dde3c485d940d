/* Ways to run out of memory. */
#define _GNU_SOURCE
#include "check.h"

#include <cuda.h>
#include <cuda_runtime.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

SITE static void *cache(size_t size) {
    void *block = NULL;
    CHECK(cudaMalloc(&block, size));
    return block;
}

SITE static int ask(size_t size) {
    void *block = NULL;
    int error = cudaMalloc(&block, size);
    return error;
}

/* The cache is emptied, and then there is room. */
static void recovered(void) {
    void *held = cache(10 * GIB);
    EXPECT(2, ask(8 * GIB));
    CHECK(cudaFree(held));
    CHECK(ask(8 * GIB));
}

/* Tried again in vain. */
static void fatal(void) {
    cache(10 * GIB);
    /* Not known to the compiler, which would make two calls of one. */
    volatile int attempts = 2;
    while (attempts-- > 0) EXPECT(2, ask(8 * GIB));
    exit(1);
}

/* Half as much until it fits. */
static void probe(void) {
    size_t size = (size_t)1 << 37;
    while (ask(size) != cudaSuccess) size /= 2;
    printf("%zu\n", size);
}

/* The second of two steps fails, and nobody undoes the first. */
static void half_done(void) {
    const size_t size = 2 * MIB;
    CUmemAllocationProp prop = {0};
    CUmemGenericAllocationHandle first, second;
    CUdeviceptr base;
    CHECK(cudaFree(NULL));
    prop.type = CU_MEM_ALLOCATION_TYPE_PINNED;
    prop.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
    CHECK(cuMemCreate(&first, size, &prop, 0));
    CHECK(cuMemAddressReserve(&base, 2 * size, 0, 0, 0));
    CHECK(cuMemMap(base, size, 0, first, 0));
    EXPECT(2, cuMemCreate(&second, size, &prop, 0));
    exit(1);
}

/* The program lives on, and tells when it has had enough. */
static void caught(void) {
    cache(10 * GIB);
    EXPECT(2, ask(8 * GIB));
    puts("lives on");
    fflush(stdout);
    while (getchar() != EOF) {}
}

/* What an allocator does that keeps memory back: it fails, gives it all back, and has it again at once. */
static void retries(void) {
    for (int i = 0; i < 40; i++) {
        void *held = cache(10 * GIB);
        EXPECT(2, ask(8 * GIB));
        CHECK(cudaFree(held));
        void *block = NULL;
        CHECK(cudaMalloc(&block, 8 * GIB));
        CHECK(cudaFree(block));
    }
}

/* Where all of the device was. */
static void accounts(void) {
    void *weights = cache(4 * GIB), *batch = NULL, *pooled = NULL;
    CHECK(cudaMallocAsync(&pooled, 10 * MIB, NULL));
    CHECK(cudaFreeAsync(pooled, NULL));
    CHECK(cudaMalloc(&batch, 2 * GIB));
    CHECK(cudaFree(batch));
    EXPECT(2, ask(14 * GIB));
    CHECK(cudaFree(weights));
}

/* Nothing comes after the error. */
static void killed(void) {
    cache(10 * GIB);
    EXPECT(2, ask(8 * GIB));
    raise(SIGKILL);
}

static void on_the_host(void) {
    void *block = NULL;
    EXPECT(2, cudaHostAlloc(&block, (size_t)1 << 45, 0));
}

/* The parent has not touched the device; the child runs out. */
static void in_a_child(void) {
    pid_t child = fork();
    int status = 0;
    if (child == 0) {
        cache(10 * GIB);
        EXPECT(2, ask(8 * GIB));
        _exit(1);
    }
    REQUIRE(waitpid(child, &status, 0) == child && WIFEXITED(status) && WEXITSTATUS(status) == 1);
}

int main(int argc, char **argv) {
    (void)argc;
    PARTS({"recovered", recovered}, {"fatal", fatal}, {"probe", probe}, {"half done", half_done},
          {"caught", caught}, {"retries", retries}, {"accounts", accounts}, {"killed", killed}, {"on the host", on_the_host},
          {"in a child", in_a_child});
    return 0;
}
