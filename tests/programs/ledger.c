/* What takes device memory without an allocation call, so that every byte can be accounted for. ledger PART. */
#include "check.h"

#include <cuda.h>
#include <pthread.h>
#include <stdatomic.h>

static const char image[] = ".version 7.0\n.target sm_50\n.address_size 64\n";

SITE static CUcontext open_primary(int device) {
    CUcontext context = NULL;
    CHECK(cuDevicePrimaryCtxRetain(&context, device));
    return context;
}

SITE static CUcontext open_context(int device) {
    CUcontext context = NULL;
    CHECK(cuCtxCreate(&context, NULL, 0, device));
    return context;
}

static void use_device(void) {
    CHECK(cuInit(0));
    CHECK(cuCtxSetCurrent(open_primary(0)));
}

SITE static CUdeviceptr hold(size_t bytes) {
    CUdeviceptr block = 0;
    CHECK(cuMemAlloc(&block, bytes));
    return block;
}

SITE static CUmodule load(void) {
    CUmodule module = NULL;
    CHECK(cuModuleLoadData(&module, image));
    return module;
}

static CUfunction function(CUmodule module, const char *name) {
    CUfunction function = NULL;
    CHECK(cuModuleGetFunction(&function, module, name));
    return function;
}

SITE static int launch(CUfunction function) {
    return cuLaunchKernel(function, 1, 1, 1, 1, 1, 1, 0, NULL, NULL, NULL);
}

SITE static CUgraphExec instantiate(CUgraph graph) {
    CUgraphExec exec = NULL;
    CHECK(cuGraphInstantiate(&exec, graph, 0));
    return exec;
}

/* Primary on both devices; on device 0 another one with code of its own, which goes; on device 1 nothing else. */
static void contexts(void) {
    use_device();
    hold(MIB);
    open_primary(1);
    CUcontext second = open_context(0);
    CHECK(launch(function(load(), "one")));
    load();
    CHECK(cuCtxDestroy(second));
    CHECK(cuCtxSetCurrent(open_primary(0)));
    load();
}

/* The primary context goes while one of the program's own lives on the same device. */
static void reset(void) {
    use_device();
    load();
    CUcontext own = open_context(0);
    load();
    CHECK(cuDevicePrimaryCtxReset(0));
    CHECK(cuCtxSetCurrent(own));
    load();
}

/* Stream-ordered memory outlives the last context. */
static void outlived(void) {
    CUdeviceptr block = 0;
    use_device();
    CHECK(cuMemAllocAsync(&block, 8 * MIB, NULL));
    CHECK(cuDevicePrimaryCtxReset(0));
    CHECK(cuCtxSetCurrent(open_primary(0)));
    load();
}

static void modules(void) {
    use_device();
    for (int i = 0; i < 100; i++) REQUIRE(load() != NULL);
}

static void unloaded(void) {
    CUmodule modules[10];
    use_device();
    for (int i = 0; i < 10; i++) modules[i] = load();
    CHECK(launch(function(modules[9], "one")));
    for (int i = 1; i < 10; i++) CHECK(cuModuleUnload(modules[i]));
}

static void launches(void) {
    use_device();
    CUmodule module = load();
    CUfunction one = function(module, "one"), two = function(module, "two");
    for (int i = 0; i < 1000; i++) {
        CHECK(launch(one));
        CHECK(launch(two));
    }
}

/* What is captured takes nothing before it is launched. */
static void captured(void) {
    CUstream stream = NULL;
    CUgraph graph = NULL;
    use_device();
    CUfunction one = function(load(), "one");
    CHECK(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    CHECK(cuStreamBeginCapture(stream, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL));
    CHECK(cuLaunchKernel(one, 1, 1, 1, 1, 1, 1, 0, stream, NULL, NULL));
    CHECK(cuStreamEndCapture(stream, &graph));
    CHECK(launch(one));
}

/* One kernel in two contexts takes memory in both. */
static void kernels(void) {
    CUlibrary library = NULL;
    CUkernel kernel = NULL;
    use_device();
    CHECK(cuLibraryLoadData(&library, image, NULL, NULL, 0, NULL, NULL, 0));
    CHECK(cuLibraryGetKernel(&kernel, library, "one"));
    CHECK(launch((CUfunction)kernel));
    open_context(1);
    CHECK(launch((CUfunction)kernel));
    CHECK(launch((CUfunction)kernel));
}

SITE static void deepen(size_t bytes) { CHECK(cuCtxSetLimit(CU_LIMIT_STACK_SIZE, bytes)); }

static void limits(void) {
    use_device();
    deepen(4096);
    deepen(8192);
}

SITE static CUstream open_stream(void) {
    CUstream stream = NULL;
    CHECK(cuStreamCreate(&stream, 0));
    return stream;
}

static void streams(void) {
    use_device();
    for (int i = 0; i < 17; i++) CHECK(cuStreamDestroy(open_stream()));
}

/* Executable graphs, one of which allocates; it is launched, and all but two are destroyed. */
static void graphs(void) {
    CUstream stream = NULL;
    CUgraph graph = NULL, empty = NULL;
    CUgraphExec execs[5];
    CUdeviceptr block = 0;
    use_device();
    CHECK(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    CHECK(cuStreamBeginCapture(stream, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL));
    CHECK(cuMemAllocAsync(&block, 16 * MIB, stream));
    CHECK(cuMemFreeAsync(block, stream));
    CHECK(cuStreamEndCapture(stream, &graph));
    CHECK(cuGraphCreate(&empty, 0));
    execs[0] = instantiate(graph);
    for (int i = 1; i < 5; i++) execs[i] = instantiate(empty);
    for (int i = 0; i < 10; i++) CHECK(cuGraphLaunch(execs[0], stream));
    for (int i = 2; i < 5; i++) CHECK(cuGraphExecDestroy(execs[i]));
}

/* A server: each request makes an executable graph, and destroys it or not. */
static void serve(int is_healthy) {
    CUgraph graph = NULL;
    use_device();
    hold(GIB);
    CHECK(cuGraphCreate(&graph, 0));
    for (int request = 0; request < 24; request++) {
        CUgraphExec exec = instantiate(graph);
        if (is_healthy) CHECK(cuGraphExecDestroy(exec));
        /* Longer than two looks are apart. */
        wait_ms(50);
    }
}

static void growing(void) { serve(0); }
static void healthy(void) { serve(1); }

/* Something of everything, and then more than there is. */
static void crowd(void) {
    CUgraph graph = NULL;
    CUdeviceptr block = 0;
    use_device();
    hold(3 * GIB);
    CHECK(launch(function(load(), "one")));
    for (int i = 0; i < 4; i++) open_stream();
    CHECK(cuGraphCreate(&graph, 0));
    instantiate(graph);
    deepen(8192);
    CHECK(cuMemAllocAsync(&block, 10 * MIB, NULL));
    hold(GIB);
    EXPECT(2, cuMemAlloc(&block, 14 * GIB));
}

/* A launch for which there is no memory is one that was not. */
static void no_room(void) {
    use_device();
    CUfunction one = function(load(), "one");
    CUdeviceptr block = hold(15820 * MIB);
    EXPECT(2, launch(one));
    CHECK(cuMemFree(block));
    CHECK(launch(one));
}

/* Memory that comes and goes elsewhere while things are measured. Each thread asks for sizes of its own. */
static atomic_int is_done;
static CUcontext shared;

static void *churn(void *unused) {
    CHECK(cuCtxSetCurrent(shared));
    while (!atomic_load(&is_done)) {
        CUdeviceptr block = hold(64 * MIB);
        CHECK(cuMemFree(block));
    }
    return unused;
}

static void *load_many(void *unused) {
    CHECK(cuCtxSetCurrent(shared));
    for (int i = 0; i < 200; i++) load();
    return unused;
}

static void threads(void) {
    pthread_t others[2], loaders[2];
    use_device();
    shared = open_primary(0);
    for (int i = 0; i < 2; i++) CHECK(pthread_create(&others[i], NULL, churn, NULL));
    for (int i = 0; i < 2; i++) CHECK(pthread_create(&loaders[i], NULL, load_many, NULL));
    for (int i = 0; i < 2; i++) CHECK(pthread_join(loaders[i], NULL));
    atomic_store(&is_done, 1);
    for (int i = 0; i < 2; i++) CHECK(pthread_join(others[i], NULL));
    load();
}

/* An allocation that has begun before a measurement and ends after it (the simulator has it wait). */
static void *slowly(void *unused) {
    CHECK(cuCtxSetCurrent(shared));
    hold(64 * MIB);
    return unused;
}

static size_t used(void) {
    size_t left = 0, total = 0;
    CHECK(cuMemGetInfo(&left, &total));
    return total - left;
}

static void overlap(void) {
    pthread_t other;
    use_device();
    shared = open_primary(0);
    size_t before = used();
    CHECK(pthread_create(&other, NULL, slowly, NULL));
    /* Its memory is taken, and the call has not returned. */
    while (used() == before) sched_yield();
    load();
    CHECK(pthread_join(other, NULL));
    load();
}

/* Two threads at the same time, each on a device of its own: a context and what comes with it. */
static pthread_barrier_t start;

static void *work_on(void *device) {
    CUcontext context = NULL;
    CUstream stream = NULL;
    pthread_barrier_wait(&start);
    context = open_primary(device == NULL ? 0 : 1);
    CHECK(cuCtxSetCurrent(context));
    for (int i = 0; i < 50; i++) {
        CUfunction one = function(load(), "one");
        CHECK(launch(one));
        if (i % 10 == 0) CHECK(cuStreamCreate(&stream, 0));
    }
    return NULL;
}

static void at_once(int threads, int devices) {
    pthread_t all[4];
    CHECK(cuInit(0));
    CHECK(pthread_barrier_init(&start, NULL, (unsigned)threads));
    for (int i = 0; i < threads; i++)
        CHECK(pthread_create(&all[i], NULL, work_on, i % devices == 0 ? NULL : &start));
    for (int i = 0; i < threads; i++) CHECK(pthread_join(all[i], NULL));
}

static void two_devices(void) { at_once(2, 2); }
static void one_device(void) { at_once(4, 1); }

/* Objects and limits of two contexts of the program's own and of the primary one; the first and the last go. */
static void fill(CUcontext context, size_t stack) {
    CUgraph graph = NULL;
    CUevent event = NULL;
    CHECK(cuCtxSetCurrent(context));
    CHECK(launch(function(load(), "one")));
    open_stream();
    CHECK(cuEventCreate(&event, 0));
    CHECK(cuGraphCreate(&graph, 0));
    instantiate(graph);
    deepen(stack);
}

static void belongings(void) {
    CHECK(cuInit(0));
    CUcontext one = open_context(0), two = open_context(0), primary = open_primary(0);
    CHECK(cuDevicePrimaryCtxRetain(&primary, 0));
    fill(one, 2048);
    fill(two, 4096);
    fill(primary, 8192);
    /* It is still held once. */
    CHECK(cuDevicePrimaryCtxRelease(0));
    CHECK(cuCtxDestroy(one));
    if (getenv("RESET") != NULL) CHECK(cuDevicePrimaryCtxReset(0));
    CHECK(cuCtxSetCurrent(two));
    hold(MIB);
}

/* What fails before there is anything, or for want of a device, tells nothing of those that are there. */
static void nowhere(void) {
    CUcontext context = NULL;
    CUstream stream = NULL;
    EXPECT(3, cuStreamCreate(&stream, 0));
    EXPECT(3, cuDevicePrimaryCtxRetain(&context, 0));
    EXPECT(3, cuCtxCreate(&context, NULL, 0, 0));
    CHECK(cuInit(0));
    EXPECT(101, cuDevicePrimaryCtxRetain(&context, 9));
    CHECK(cuCtxSetCurrent(open_primary(0)));
    load();
    hold(MIB);
}

/* Many events, so that early ones are thrown away. */
static void churned(void) {
    use_device();
    CHECK(launch(function(load(), "one")));
    for (int i = 0; i < 300000; i++) CHECK(cuMemFree(hold(((size_t)i * 7919 % 100000) + 1)));
}

int main(int argc, char **argv) {
    (void)argc;
    PARTS({"contexts", contexts}, {"reset", reset}, {"outlived", outlived}, {"modules", modules},
          {"unloaded", unloaded}, {"launches", launches}, {"captured", captured},
          {"kernels", kernels}, {"limits", limits}, {"streams", streams}, {"graphs", graphs},
          {"growing", growing}, {"healthy", healthy}, {"crowd", crowd}, {"no room", no_room},
          {"threads", threads}, {"overlap", overlap}, {"two devices", two_devices}, {"one device", one_device}, {"belongings", belongings}, {"nowhere", nowhere}, {"churned", churned});
    return 0;
}
