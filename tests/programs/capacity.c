/* Devices that are pretended to be smaller, and failures by order. Each part says which capacity it wants. */
#define _GNU_SOURCE
#include "check.h"

#include <cuda.h>
#include <cuda_runtime.h>
#include <dlfcn.h>
#include <pthread.h>
#include <stdint.h>

static CUdeviceptr block;

/* What the program is told must be this, by the driver and by the runtime. */
#define TOLD(free_, total_)                                                                        \
    do {                                                                                           \
        size_t told[4] = {0};                                                                      \
        CHECK(cuMemGetInfo(&told[0], &told[1]));                                                   \
        CHECK(cudaMemGetInfo(&told[2], &told[3]));                                                 \
        if (told[0] != (free_) || told[1] != (total_) || told[2] != told[0] || told[3] != told[1]) {          \
            fprintf(stderr, "line %d: told %zu of %zu, and %zu of %zu\n", __LINE__, told[0],       \
                    told[1], told[2], told[3]);                                                    \
            exit(97);                                                                              \
        }                                                                                          \
    } while (0)

/* 64 MiB and one byte. */
static void to_the_byte(void) {
    const size_t all = 64 * MIB + 1;
    void *first = NULL, *second = (void *)7;
    CHECK(cudaFree(NULL));
    TOLD(all, all);
    EXPECT(2, cudaMalloc(&first, all + 1));
    EXPECT(2, cudaGetLastError());
    CHECK(cudaMalloc(&first, all));
    TOLD(0, all);
    CHECK(cudaFree(first));
    CHECK(cudaMalloc(&first, 48 * MIB));
    TOLD(16 * MIB + 1, all);
    EXPECT(2, cuMemAlloc((CUdeviceptr *)&second, 16 * MIB + 2));
    REQUIRE(second == (void *)7);
    TOLD(16 * MIB + 1, all);
    CHECK(cudaMalloc(&second, 16 * MIB));
    TOLD(1, all);
    CHECK(cudaFree(first));
    TOLD(48 * MIB + 1, all);
    /* Zero bytes and nonsense are the driver's to answer. */
    EXPECT(1, cuMemAlloc(&block, 0));
    EXPECT(1, cuMemAlloc(NULL, 1 * GIB));
}

/* 4 GiB, of which a neighbour has 1 GiB and the context 256 MiB. */
static void others(void) {
    CHECK(cudaFree(NULL));
    TOLD(2816 * MIB, 4 * GIB);
    EXPECT(2, cuMemAlloc(&block, 2816 * MIB + 1));
    CHECK(cuMemAlloc(&block, 2816 * MIB));
    TOLD(0, 4 * GIB);
}

/* 40 GiB of 16 GiB. */
static void larger(void) {
    CHECK(cudaFree(NULL));
    TOLD(16 * GIB, 16 * GIB);
    EXPECT(2, cuMemAlloc(&block, 16 * GIB + 1));
    CHECK(cuMemAlloc(&block, 16 * GIB));
    TOLD(0, 16 * GIB);
}

/* 6 GiB, more than 32 bits tell. */
static void old_questions(void) {
    typedef CUresult (*info_t)(uint32_t *, uint32_t *);
    typedef CUresult (*total_t)(uint32_t *, CUdevice);
    void *driver = dlopen("libcuda.so.1", RTLD_NOW);
    info_t info = (info_t)dlsym(driver, "cuMemGetInfo");
    total_t total = (total_t)dlsym(driver, "cuDeviceTotalMem");
    struct {
        uint32_t free, total, canary;
    } told = {0, 0, 0xfeedface};
    size_t whole = 0, free = 0;
    CHECK(cuInit(0));
    /* Before there is a context. */
    CHECK(cuDeviceTotalMem(&whole, 0));
    REQUIRE(whole == 6 * GIB);
    CHECK(total(&told.total, 1));
    REQUIRE(told.total == UINT32_MAX);
    CHECK(cudaFree(NULL));
    CHECK(cuDeviceTotalMem(&whole, 0));
    REQUIRE(whole == 6 * GIB);
    CHECK(cuMemAlloc(&block, 5 * GIB));
    CHECK(info(&told.free, &told.total));
    REQUIRE(told.free == 1 * GIB && told.total == UINT32_MAX && told.canary == 0xfeedface);
    told.free = 0;
    CHECK(info(&told.free, NULL));
    REQUIRE(told.free == 1 * GIB);
    CHECK(cuMemGetInfo(&free, NULL));
    CHECK(cuMemGetInfo(NULL, &whole));
    REQUIRE(free == 1 * GIB && whole == 6 * GIB);
    EXPECT(101, cuDeviceTotalMem(&whole, 2));
}

/* What is asked before a context is the same as later; 64 MiB of the first, all of the second device. */
static void list(void) {
    size_t total = 0;
    CHECK(cuInit(0));
    CHECK(cuDeviceTotalMem(&total, 0));
    REQUIRE(total == 64 * MIB);
    CHECK(cuDeviceTotalMem(&total, 1));
    REQUIRE(total == 16 * GIB);
    CHECK(cudaSetDevice(1));
    CHECK(cudaFree(NULL));
    TOLD(16 * GIB, 16 * GIB);
    CHECK(cuMemAlloc(&block, 1 * GIB));
    CHECK(cudaSetDevice(0));
    CHECK(cudaFree(NULL));
    TOLD(64 * MIB, 64 * MIB);
    EXPECT(2, cuMemAlloc(&block, 64 * MIB + 1));
}

static CUmemAllocationProp at(int kind, int device) {
    CUmemAllocationProp prop = {0};
    prop.type = CU_MEM_ALLOCATION_TYPE_PINNED;
    prop.location.type = kind;
    prop.location.id = device;
    return prop;
}

/* 64 MiB each. */
static void handles(void) {
    CUmemAllocationProp here = at(CU_MEM_LOCATION_TYPE_DEVICE, 0);
    CUmemAllocationProp there = at(CU_MEM_LOCATION_TYPE_DEVICE, 1);
    CUmemAllocationProp host = at(CU_MEM_LOCATION_TYPE_HOST, 0);
    CUmemGenericAllocationHandle handle, other;
    CHECK(cudaFree(NULL));
    EXPECT(2, cuMemCreate(&handle, 66 * MIB, &here, 0));
    CHECK(cuMemCreate(&handle, 62 * MIB, &here, 0));
    EXPECT(2, cuMemCreate(&other, 4 * MIB, &here, 0));
    CHECK(cuMemCreate(&other, 2 * MIB, &here, 0));
    TOLD(0, 64 * MIB);
    /* The other device has its own 64 MiB, and is not current. */
    EXPECT(2, cuMemCreate(&other, 66 * MIB, &there, 0));
    CHECK(cuMemCreate(&other, 40 * MIB, &there, 0));
    EXPECT(2, cuMemCreate(&handle, 26 * MIB, &there, 0));
    CHECK(cuMemCreate(&handle, 24 * MIB, &there, 0));
    EXPECT(2, cuMemCreate(&handle, 2 * MIB, &there, 0));
    CHECK(cuMemRelease(other));
    CHECK(cuMemCreate(&handle, 40 * MIB, &there, 0));
    CHECK(cuMemCreate(&handle, 128 * MIB, &host, 0));
    EXPECT(1, cuMemCreate(&handle, 1 * GIB, NULL, 0));
}

/* 64 MiB; no context at all. */
static void no_context(void) {
    CUmemAllocationProp here = at(CU_MEM_LOCATION_TYPE_DEVICE, 0);
    CUmemGenericAllocationHandle handle;
    CHECK(cuInit(0));
    EXPECT(201, cuMemAlloc(&block, 1 * GIB));
    CHECK(cuMemCreate(&handle, 64 * MIB, &here, 0));
    EXPECT(2, cuMemCreate(&handle, 2 * MIB, &here, 0));
}

/* 64 MiB, in pools that grow by 32 MiB and keep what they have. */
static void pools(void) {
    CUmemoryPool first, second;
    CUmemPoolProps props = {0};
    CUdeviceptr large = 0, small = 0;
    cuuint64_t threshold = UINT64_MAX;
    props.allocType = CU_MEM_ALLOCATION_TYPE_PINNED;
    props.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
    CHECK(cudaFree(NULL));
    CHECK(cuDeviceGetDefaultMemPool(&first, 0));
    CHECK(cuMemPoolSetAttribute(first, CU_MEMPOOL_ATTR_RELEASE_THRESHOLD, &threshold));
    EXPECT(2, cuMemAllocAsync(&large, 64 * MIB + 1, NULL));
    CHECK(cuMemAllocAsync(&large, 40 * MIB, NULL));
    TOLD(0, 64 * MIB);
    /* 24 MiB lie idle, for this pool alone. */
    EXPECT(2, cuMemAlloc(&block, 1));
    EXPECT(2, cuMemAllocAsync(&small, 24 * MIB + 1, NULL));
    CHECK(cuMemAllocFromPoolAsync(&small, 24 * MIB, first, NULL));
    EXPECT(2, cuMemAllocAsync(&block, 1, NULL));
    CHECK(cuMemFreeAsync(large, NULL));
    CHECK(cudaStreamSynchronize(NULL));
    TOLD(0, 64 * MIB);
    CHECK(cuMemPoolCreate(&second, &props));
    EXPECT(2, cuMemAllocFromPoolAsync(&block, 1, second, NULL));
    EXPECT(2, cuMemAllocAsync(&large, 40 * MIB + 1, NULL));
    CHECK(cuMemAllocAsync(&large, 40 * MIB, NULL));
    /* On the host nothing is limited. */
    props.location.type = CU_MEM_LOCATION_TYPE_HOST;
    CHECK(cuMemPoolCreate(&second, &props));
    CHECK(cuMemAllocFromPoolAsync(&block, 128 * MIB, second, NULL));
}

/* 1 MiB. */
static void arrays(void) {
    CUDA_ARRAY_DESCRIPTOR flat = {256, 256, CU_AD_FORMAT_FLOAT, 4};
    CUDA_ARRAY3D_DESCRIPTOR sparse = {2048, 2048, 0, CU_AD_FORMAT_FLOAT, 4, CUDA_ARRAY3D_SPARSE};
    CUDA_ARRAY3D_DESCRIPTOR deep = {256, 256, 1, CU_AD_FORMAT_FLOAT, 4, 0};
    CUarray array;
    CUmipmappedArray mipmapped;
    CHECK(cudaFree(NULL));
    EXPECT(2, cuMipmappedArrayCreate(&mipmapped, &deep, 9));
    flat.Height = 257;
    EXPECT(2, cuArrayCreate(&array, &flat));
    flat.Height = 256;
    CHECK(cuArrayCreate(&array, &flat));
    TOLD(0, 1 * MIB);
    CHECK(cuArray3DCreate(&array, &sparse));
    flat.Width = flat.Height = 1;
    EXPECT(2, cuArrayCreate(&array, &flat));
}

/* 1 MiB: 500 rows of 1000 bytes, which take 1024 each. */
static void pitched(void) {
    CUdeviceptr rows = 0;
    size_t pitch = 0;
    CHECK(cudaFree(NULL));
    EXPECT(2, cuMemAllocPitch(&rows, &pitch, 1000, 1049, 4));
    CHECK(cuMemAllocPitch(&rows, &pitch, 1000, 500, 4));
    REQUIRE(pitch == 1024);
    TOLD(MIB - 500 * 1024, MIB);
    EXPECT(2, cuMemAllocPitch(&rows, &pitch, 1000, 537, 4));
    EXPECT(1, cuMemAllocPitch(&rows, NULL, 1000, 5000, 4));
}

/* 64 MiB. */
static void elsewhere(void) {
    void *memory = NULL;
    CHECK(cudaFree(NULL));
    CHECK(cuMemAllocManaged(&block, 1 * GIB, CU_MEM_ATTACH_GLOBAL));
    CHECK(cuMemHostAlloc(&memory, 128 * MIB, 0));
    CHECK(cuMemAddressReserve(&block, 1 * GIB, 0, 0, 0));
    TOLD(64 * MIB, 64 * MIB);
}

#define RACERS 8
static pthread_barrier_t together;
static volatile int rounds = 25;
static CUdeviceptr won[RACERS];

static void *race(void *number) {
    size_t at = (size_t)number;
    CHECK(cudaFree(NULL));
    for (int round = 0; round < rounds; round++) {
        pthread_barrier_wait(&together);
        won[at] = 0;
        int code = cuMemAlloc(&won[at], 10 * MIB);
        REQUIRE(code == 0 || code == 2);
        pthread_barrier_wait(&together);
        if (at == 0) {
            int winners = 0;
            for (size_t i = 0; i < RACERS; i++) winners += won[i] != 0;
            EXPECT(6, winners);
            TOLD(4 * MIB, 64 * MIB);
        }
        pthread_barrier_wait(&together);
        if (won[at] != 0) CHECK(cuMemFree(won[at]));
    }
    return NULL;
}

/* 64 MiB for eight threads that want 10 MiB each: six get them, whoever they are. */
static void racing(void) {
    pthread_t threads[RACERS];
    CHECK(pthread_barrier_init(&together, NULL, RACERS));
    for (size_t i = 0; i < RACERS; i++) CHECK(pthread_create(&threads[i], NULL, race, (void *)i));
    for (size_t i = 0; i < RACERS; i++) CHECK(pthread_join(threads[i], NULL));
}

/* 64 MiB while a capture goes on: capturing global|thread|relaxed. */
static void capturing(enum cudaStreamCaptureMode mode) {
    cudaStream_t stream, other;
    cudaGraph_t graph = NULL;
    void *node = NULL, *memory = NULL;
    CHECK(cudaStreamCreate(&stream));
    CHECK(cudaStreamCreate(&other));
    CHECK(cudaStreamBeginCapture(stream, mode));
    /* A node takes nothing. */
    CHECK(cudaMallocAsync(&node, 1 * GIB, stream));
    CHECK(cudaFreeAsync(node, stream));
    EXPECT(2, cudaMallocAsync(&memory, 64 * MIB + 1, other));
    EXPECT(2, cudaMalloc(&memory, 64 * MIB + 1));
    TOLD(64 * MIB, 64 * MIB);
    if (mode == cudaStreamCaptureModeRelaxed) {
        CHECK(cudaMallocAsync(&memory, 1 * MIB, other));
        CHECK(cudaMalloc(&memory, 32 * MIB));
        EXPECT(2, cudaMalloc(&memory, 1));
        /* How much the pool has idle nobody can tell: it gets the benefit of the doubt. */
        CHECK(cudaMallocAsync(&memory, 31 * MIB, other));
    }
    CHECK(cudaStreamEndCapture(stream, &graph));
    REQUIRE(graph != NULL);
}

static void capturing_global(void) { capturing(cudaStreamCaptureModeGlobal); }
static void capturing_thread(void) { capturing(cudaStreamCaptureModeThreadLocal); }
static void capturing_relaxed(void) { capturing(cudaStreamCaptureModeRelaxed); }

/* Attempts of every kind, one after the other; their codes. */
static void attempts(void) {
    void *memory = NULL;
    CUdeviceptr device = 0;
    CUmemGenericAllocationHandle handle;
    CUmemAllocationProp here = at(CU_MEM_LOCATION_TYPE_DEVICE, 0);
    CUDA_ARRAY_DESCRIPTOR flat = {16, 16, CU_AD_FORMAT_FLOAT, 4};
    CUarray array;
    cudaStream_t stream;
    cudaGraph_t graph = NULL;
    CHECK(cudaFree(NULL));
    EXPECT(1, cuMemAlloc(&device, 0));
    printf("%d", cudaMalloc(&memory, 1 * MIB));
    printf(" %d", cudaMallocHost(&memory, 1 * MIB));
    CHECK(cudaMalloc(&memory, 0));
    printf(" %d", cudaMallocManaged(&memory, 1 * MIB, cudaMemAttachGlobal));
    printf(" %d", cuMemCreate(&handle, 2 * MIB, &here, 0));
    CHECK(cuMemAddressReserve(&device, 2 * MIB, 0, 0, 0));
    printf(" %d", cuArrayCreate(&array, &flat));
    printf(" %d", cudaMallocAsync(&memory, 1 * MIB, NULL));
    CHECK(cudaStreamCreate(&stream));
    CHECK(cudaStreamBeginCapture(stream, cudaStreamCaptureModeGlobal));
    printf(" %d", cudaMallocAsync(&memory, 1 * MIB, stream));
    CHECK(cudaStreamEndCapture(stream, &graph));
    REQUIRE(graph != NULL);
    printf(" %d\n", cudaMalloc(&memory, 1 * MIB));
}

/* 64 MiB through a runtime that goes past every door. Its first call is over before that is known. */
static void deepbind(void) {
    void *runtime = dlopen("libcudart.so.13", RTLD_NOW | RTLD_LOCAL | RTLD_DEEPBIND);
    REQUIRE(runtime != NULL);
    cudaError_t (*allocate)(void **, size_t) = (cudaError_t(*)(void **, size_t))dlsym(runtime, "cudaMalloc");
    cudaError_t (*info)(size_t *, size_t *) = (cudaError_t(*)(size_t *, size_t *))dlsym(runtime, "cudaMemGetInfo");
    void *memory = NULL;
    size_t free = 0, total = 0;
    printf("%d", allocate(&memory, 1 * MIB));
    CHECK(info(&free, &total));
    printf(" %zu %zu", free / MIB, total / MIB);
    printf(" %d", allocate(&memory, 64 * MIB));
    printf(" %d\n", allocate(&memory, 63 * MIB));
}

int main(int argc, char **argv) {
    (void)argc;
    PARTS({"to the byte", to_the_byte}, {"others", others}, {"larger", larger},
          {"old questions", old_questions}, {"list", list}, {"handles", handles},
          {"no context", no_context}, {"pools", pools}, {"arrays", arrays}, {"pitched", pitched},
          {"elsewhere", elsewhere}, {"racing", racing}, {"capturing global", capturing_global},
          {"capturing thread", capturing_thread}, {"capturing relaxed", capturing_relaxed},
          {"attempts", attempts}, {"deepbind", deepbind});
    return 0;
}
