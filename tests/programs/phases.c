/* Phases of a program, told in every way there is: phases PART. */
#include "check.h"
#include "nvtx_client.h"

#include "../../include/oomhook.h"

#include <cuda.h>
#include <pthread.h>
#include <signal.h>
#include <unistd.h>
#include <wchar.h>

SITE static CUdeviceptr work(size_t bytes) {
    CUdeviceptr block = 0;
    CHECK(cuMemAlloc(&block, bytes));
    return block;
}

SITE static CUdeviceptr leak(size_t bytes) {
    CUdeviceptr block = 0;
    CHECK(cuMemAlloc(&block, bytes));
    return block;
}

static void give(CUdeviceptr block) { CHECK(cuMemFree(block)); }

static void begin(void) {
    CUcontext context;
    CHECK(cuInit(0));
    CHECK(cuDevicePrimaryCtxRetain(&context, 0));
    CHECK(cuCtxSetCurrent(context));
}

/* Twenty rounds: each allocates, leaks a little, frees, and ends with a mark. */
static void marks(void) {
    begin();
    for (int i = 0; i < 20; i++) {
        CUdeviceptr block = work(100 * MIB);
        leak(2 * MIB);
        give(block);
        oomhook_mark("iteration");
    }
}

/* Steps with a forward and a backward part; the latter allocates in a helper thread without ranges of its own. */
static void *backward(void *unused) {
    (void)unused;
    begin();
    give(work(50 * MIB));
    return NULL;
}

static void ranges(void) {
    REQUIRE(nvtx_begin());
    REQUIRE(nvtx_push("train") == 0);
    begin();
    for (int i = 1; i <= 8; i++) {
        char name[32];
        snprintf(name, sizeof name, "step %d", i);
        REQUIRE(nvtx_push(name) == 1);
        REQUIRE(nvtx_push("forward") == 2);
        CUdeviceptr block = work((size_t)i * 10 * MIB);
        REQUIRE(nvtx_pop() == 2);
        REQUIRE(nvtx_push("backward") == 2);
        pthread_t thread;
        CHECK(pthread_create(&thread, NULL, backward, NULL));
        CHECK(pthread_join(thread, NULL));
        REQUIRE(nvtx_pop() == 2);
        give(block);
        leak(MIB);
        REQUIRE(nvtx_pop() == 1);
    }
    REQUIRE(nvtx_pop() == 0);
    REQUIRE(nvtx_pop() < 0);
}

/* Domains, registered and wide strings, ranges that another thread ends, marks, crossed ranges of two domains. */
static void *ender(void *range) {
    nvtx_end(*(uint64_t *)range);
    return NULL;
}

static void kinds(void) {
    REQUIRE(nvtx_begin());
    begin();
    void *own = nvtx_domain("own"), *nccl = nvtx_domain("NCCL");
    void *registered = nvtx_register(own, "registered");
    REQUIRE(nvtx_domain_push(own, 3, registered) == 0);
    give(work(10 * MIB));
    REQUIRE(nvtx_domain_push(nccl, 1, "ncclAllReduce") == 0);
    give(work(20 * MIB));
    REQUIRE(nvtx_domain_push(own, 2, L"wide \x20ac") == 1);
    give(work(30 * MIB));
    /* Crossed: NCCL's range ends before the one that began later. */
    REQUIRE(nvtx_domain_pop(nccl) == 0);
    give(work(40 * MIB));
    REQUIRE(nvtx_domain_pop(own) == 1);
    REQUIRE(nvtx_domain_pop(own) == 0);
    uint64_t range = nvtx_start("request 7");
    REQUIRE(range != 0);
    give(work(50 * MIB));
    pthread_t thread;
    CHECK(pthread_create(&thread, NULL, ender, &range));
    CHECK(pthread_join(thread, NULL));
    nvtx_mark("done");
    give(work(60 * MIB));
    nvtx_mark("done");
    give(work(5 * MIB));
}

/* Domains and registered strings that nobody made, or that are something else. */
static void strangers(void) {
    REQUIRE(nvtx_begin());
    begin();
    void *own = nvtx_domain("own"), *bad = (void *)0xdead;
    REQUIRE(nvtx_push("outer") == 0);
    REQUIRE(nvtx_domain_push(own, 3, (void *)0x1234) == 0);
    give(work(10 * MIB));
    REQUIRE(nvtx_domain_push(bad, 1, "stranger") == 0);
    give(work(20 * MIB));
    /* Neither the place after the last handle, nor the middle of one, nor all ones. */
    REQUIRE(nvtx_domain_pop((char *)own + 1) == 0);
    REQUIRE(nvtx_domain_pop((char *)own + 8) < 0);
    REQUIRE(nvtx_domain_pop((void *)UINTPTR_MAX) < 0);
    REQUIRE(nvtx_domain_push(own, 3, (void *)&bad) == 1);
    REQUIRE(nvtx_domain_push(own, 3, NULL) == 2);
    REQUIRE(nvtx_domain_pop(own) == 2);
    REQUIRE(nvtx_domain_pop(own) == 1);
    REQUIRE(nvtx_domain_pop(own) == 0);
    REQUIRE(nvtx_pop() == 0);
    /* More of them than there is room for. */
    void *last = NULL;
    for (int i = 0; i < 70000; i++) {
        char name[32];
        snprintf(name, sizeof name, "string %d", i);
        last = nvtx_register(own, name);
        REQUIRE(last != NULL);
        if (i == 60000) REQUIRE(nvtx_domain_push(own, 3, last) == 0 && nvtx_domain_pop(own) == 0);
    }
    REQUIRE(nvtx_domain_push(own, 3, last) == 0);
    REQUIRE(nvtx_domain_pop(own) == 0);
}

/* More names than there is room for. */
static void many(void) {
    REQUIRE(nvtx_begin());
    begin();
    for (int i = 0; i < 20000; i++) {
        char name[32];
        snprintf(name, sizeof name, "request %d", i);
        nvtx_push(name);
        give(work(MIB));
        nvtx_pop();
    }
}

/* More names without numbers than are kept; the last one is none of those. */
static void names(void) {
    begin();
    for (int i = 0; i < 1500; i++) {
        char name[32];
        snprintf(name, sizeof name, "name %c%c", 'A' + i % 50, 'A' + i / 50);
        oomhook_push(name);
        give(work(MIB));
        if (i == 1499) leak(2 * MIB);
        oomhook_pop();
    }
    leak(MIB);
}

/* It dies in what it does: deep in a range, in a round, in a range that any thread may end. */
static void dies(void) {
    REQUIRE(nvtx_begin());
    begin();
    oomhook_mark("turn");
    oomhook_push("step 1");
    give(work(20 * MIB));
    oomhook_pop();
    oomhook_mark("turn");
    nvtx_start("request 7");
    oomhook_push("step 2");
    oomhook_push("forward");
    for (int i = 0; i < 30; i++) leak(10 * MIB);
    raise(SIGSEGV);
}

/* Memory runs out in a part of a step, which another thread asks for; then in a round. */
static void *asker(void *unused) {
    (void)unused;
    CUdeviceptr block;
    begin();
    EXPECT(2, cuMemAlloc(&block, 40 * GIB));
    return NULL;
}

static void runs_out(void) {
    REQUIRE(nvtx_begin());
    begin();
    oomhook_mark("epoch");
    oomhook_mark("epoch");
    for (int i = 16; i <= 17; i++) {
        char name[32];
        snprintf(name, sizeof name, "step %d", i);
        oomhook_push(name);
        oomhook_push("forward");
        void *nccl = nvtx_domain("NCCL");
        REQUIRE(nvtx_domain_push(nccl, 1, "ncclAllReduce") == 0);
        pthread_t thread;
        if (i == 17) CHECK(pthread_create(&thread, NULL, asker, NULL));
        if (i == 17) CHECK(pthread_join(thread, NULL));
        REQUIRE(nvtx_domain_pop(nccl) == 0);
        oomhook_pop();
        oomhook_pop();
    }
    CUdeviceptr block;
    EXPECT(2, cuMemAlloc(&block, 50 * GIB));
    exit(1);
}

/* A thread ends in the middle of what it does. */
static void *leaver(void *unused) {
    (void)unused;
    begin();
    oomhook_push("load");
    oomhook_push("");
    give(work(40 * MIB));
    return NULL;
}

static void leaves(void) {
    begin();
    pthread_t thread;
    CHECK(pthread_create(&thread, NULL, leaver, NULL));
    CHECK(pthread_join(thread, NULL));
    oomhook_push("load");
    give(work(10 * MIB));
}

/* Ranges without CUDA. */
static void no_cuda(void) {
    if (nvtx_begin()) {
        for (int i = 0; i < 1000; i++) {
            nvtx_push("idle");
            nvtx_pop();
        }
    }
    oomhook_push("idle");
    oomhook_mark("idle");
    oomhook_pop();
    puts("done");
}

/* Nobody may be injected. */
static void refused(void) {
    REQUIRE(!nvtx_begin());
    begin();
    nvtx_push("train");
    leak(3 * MIB);
    nvtx_pop();
}

static void say_variable(void) {
    const char *path = getenv("NVTX_INJECTION64_PATH");
    puts(path != NULL ? path : "unset");
}

/* The functions of oomhook.h. */
static void calls(void) {
    begin();
    oomhook_push("load");
    leak(3 * MIB);
    oomhook_push("warm");
    give(work(7 * MIB));
    oomhook_pop();
    oomhook_pop();
    oomhook_pop();
    oomhook_push(NULL);
    give(work(9 * MIB));
    oomhook_pop();
    oomhook_report();
    const char *report = getenv("OOMHOOK_REPORT");
    for (int i = 0; report != NULL && i < 2000 && access(report, F_OK) != 0; i++) wait_ms(10);
}

int main(int argc, char **argv) {
    (void)argc;
    PARTS({"marks", marks}, {"ranges", ranges}, {"kinds", kinds}, {"many", many}, {"strangers", strangers}, {"names", names}, {"dies", dies}, {"runs out", runs_out}, {"leaves", leaves}, {"no cuda", no_cuda},
          {"variable", say_variable}, {"calls", calls}, {"refused", refused});
    return 0;
}
