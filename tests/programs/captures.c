/* Stream captures: captures global|thread|relaxed PART. Every code is printed: they must be the same without the
 * library. */
#define _GNU_SOURCE
#include "check.h"

#include <cuda_runtime.h>
#include <pthread.h>

static enum cudaStreamCaptureMode mode;
static cudaStream_t stream, other;

static void open_streams(void) {
    CHECK(cudaStreamCreate(&stream));
    CHECK(cudaStreamCreate(&other));
}

static int end(void) {
    cudaGraph_t graph = NULL;
    int code = cudaStreamEndCapture(stream, &graph);
    if (code == cudaSuccess) CHECK(cudaGraphDestroy(graph));
    cudaGetLastError();
    return code;
}

/* A captured allocation is a node of a graph, and its free another. */
static void captured(void) {
    void *node = NULL, *block = NULL;
    open_streams();
    CHECK(cudaStreamBeginCapture(stream, mode));
    int taken = cudaMallocAsync(&node, 16 * MIB, stream), freed = cudaFreeAsync(node, stream);
    printf("%d %d %d", taken, freed, end());
    /* The same stream once more, for real. */
    CHECK(cudaMallocAsync(&block, 10 * MIB, stream));
    CHECK(cudaFreeAsync(block, stream));
    CHECK(cudaStreamSynchronize(stream));
    puts("");
}

/* A stream that is not being captured, while another is. */
static void beside(void) {
    void *block = NULL;
    open_streams();
    CHECK(cudaStreamBeginCapture(stream, mode));
    int taken = cudaMallocAsync(&block, 8 * MIB, other);
    printf("%d %d\n", taken, end());
}

/* Plain allocations break a capture, unless it is relaxed. */
static void plain(void) {
    void *block = NULL;
    open_streams();
    CHECK(cudaStreamBeginCapture(stream, mode));
    int taken = cudaMalloc(&block, 4 * MIB), ended = end();
    printf("%d %d\n", taken, ended);
}

static void *take_elsewhere(void *unused) {
    void *block = NULL;
    printf("%d ", cudaMalloc(&block, 4 * MIB));
    return unused;
}

/* The same in another thread. */
static void elsewhere(void) {
    pthread_t thread;
    open_streams();
    CHECK(cudaStreamBeginCapture(stream, mode));
    CHECK(pthread_create(&thread, NULL, take_elsewhere, NULL));
    CHECK(pthread_join(thread, NULL));
    printf("%d\n", end());
}

/* Out of memory while a capture goes on. */
static void out_of_memory(void) {
    void *block = NULL;
    open_streams();
    CHECK(cudaStreamBeginCapture(stream, mode));
    int taken = cudaMallocAsync(&block, 1024 * GIB, other);
    printf("%d %d\n", taken, end());
}

/* The process ends with the capture open, and with a pool destroyed meanwhile. */
static void left_open(void) {
    struct cudaMemPoolProps props = {0};
    cudaMemPool_t pool;
    void *block = NULL;
    open_streams();
    props.allocType = cudaMemAllocationTypePinned;
    props.location.type = cudaMemLocationTypeDevice;
    CHECK(cudaMemPoolCreate(&pool, &props));
    CHECK(cudaMallocFromPoolAsync(&block, 2 * MIB, pool, other));
    CHECK(cudaStreamBeginCapture(stream, mode));
    int freed = cudaFreeAsync(block, other), destroyed = cudaMemPoolDestroy(pool);
    enum cudaStreamCaptureStatus status = cudaStreamCaptureStatusNone;
    CHECK(cudaStreamIsCapturing(stream, &status));
    printf("%d %d %d\n", freed, destroyed, (int)status);
}

int main(int argc, char **argv) {
    REQUIRE(argc == 3);
    mode = strcmp(argv[1], "global") == 0   ? cudaStreamCaptureModeGlobal
           : strcmp(argv[1], "thread") == 0 ? cudaStreamCaptureModeThreadLocal
                                            : cudaStreamCaptureModeRelaxed;
    argv++;
    PARTS({"captured", captured}, {"beside", beside}, {"plain", plain}, {"elsewhere", elsewhere},
          {"out of memory", out_of_memory}, {"left open", left_open});
    return 0;
}
