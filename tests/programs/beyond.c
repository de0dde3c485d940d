/* Memory beyond plain pointers, through the CUDA runtime: arrays, graphs. beyond PART. */
#include "check.h"

#include <cuda_runtime.h>

/* --- arrays and mipmapped arrays --- */

SITE static cudaArray_t texture_array(void) {
    struct cudaChannelFormatDesc four = cudaCreateChannelDesc(32, 32, 32, 32, cudaChannelFormatKindFloat);
    cudaArray_t array = NULL;
    CHECK(cudaMallocArray(&array, &four, 256, 256, 0));
    return array;
}

SITE static cudaMipmappedArray_t mipmap(void) {
    struct cudaChannelFormatDesc one = cudaCreateChannelDesc(32, 0, 0, 0, cudaChannelFormatKindFloat);
    cudaMipmappedArray_t array = NULL;
    CHECK(cudaMallocMipmappedArray(&array, &one, make_cudaExtent(256, 256, 0), 9, 0));
    return array;
}

static void arrays(void) {
    void *pitched = NULL;
    size_t pitch = 0;
    CHECK(cudaMallocPitch(&pitched, &pitch, 1000, 100));
    struct cudaPitchedPtr box;
    CHECK(cudaMalloc3D(&box, make_cudaExtent(1000, 100, 10)));
    REQUIRE(texture_array() != NULL && mipmap() != NULL);
    CHECK(cudaFree(pitched));
}

static void arrays_freed(void) {
    cudaArray_t array = texture_array();
    cudaMipmappedArray_t levels = mipmap();
    CHECK(cudaFreeArray(array));
    CHECK(cudaFreeMipmappedArray(levels));
}

/* --- a captured allocation and its free --- */

SITE static cudaGraph_t capture(cudaStream_t stream) {
    cudaGraph_t graph = NULL;
    void *block = NULL;
    CHECK(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal));
    CHECK(cudaMallocAsync(&block, 16 * MIB, stream));
    CHECK(cudaFreeAsync(block, stream));
    CHECK(cudaStreamEndCapture(stream, &graph));
    return graph;
}

static unsigned long long reserved(void) {
    unsigned long long bytes = 0;
    CHECK(cudaDeviceGetGraphMemAttribute(0, cudaGraphMemAttrReservedMemCurrent, &bytes));
    return bytes;
}

static void graphs(void) {
    cudaStream_t stream;
    CHECK(cudaStreamCreate(&stream));
    cudaGraph_t graph = capture(stream);
    cudaGraphExec_t exec = NULL;
    CHECK(cudaGraphInstantiate(&exec, graph, 0));
    printf("%llu", reserved());
    for (int launch = 0; launch < 100; launch++) CHECK(cudaGraphLaunch(exec, stream));
    CHECK(cudaStreamSynchronize(stream));
    printf(" %llu", reserved());
    CHECK(cudaGraphExecDestroy(exec));
    CHECK(cudaGraphDestroy(graph));
    CHECK(cudaDeviceGraphMemTrim(0));
    printf(" %llu\n", reserved());
    /* A capture that fails: memory cannot be had in the middle of it. */
    void *block = NULL;
    cudaGraph_t none = NULL;
    CHECK(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal));
    EXPECT(900, cudaMalloc(&block, MIB));
    EXPECT(901, cudaStreamEndCapture(stream, &none));
    CHECK(cudaStreamDestroy(stream));
}

/* Leaves an executable graph behind, with what it needs. */
SITE static void keep_graph(cudaStream_t stream) {
    cudaGraphExec_t exec = NULL;
    CHECK(cudaGraphInstantiate(&exec, capture(stream), 0));
    CHECK(cudaGraphLaunch(exec, stream));
}

static void graphs_kept(void) {
    cudaStream_t stream;
    CHECK(cudaStreamCreate(&stream));
    for (int i = 0; i < 3; i++) keep_graph(stream);
}

int main(int argc, char **argv) {
    (void)argc;
    PARTS({"arrays", arrays}, {"arrays freed", arrays_freed}, {"graphs", graphs},
          {"graphs kept", graphs_kept});
    return 0;
}
