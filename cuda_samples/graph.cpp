// A graph that allocates and frees, launched a hundred times; and a capture that fails.
//
// A report must say: no leak, and nothing live at any time (the two allocations are nodes of graphs, and
// no memory of the program's); 1 graph with 1 alloc node; memory of graphs 33,554,432 bytes from
// the first launch on, 0 at the end; 1 failed capture.
// The program prints 0 reserved after the instantiation, 33554432 after the first launch and after
// the last, and 0 after the trim; then 900 for the call that a capture forbids, and 901 for the end
// of that capture.
#include "check.h"

#include <cstdint>

static void print_reserved(const char *when) {
    uint64_t reserved = 0;
    check(cudaDeviceGetGraphMemAttribute(0, cudaGraphMemAttrReservedMemCurrent, &reserved));
    std::printf("graph: %llu reserved %s\n", (unsigned long long)reserved, when);
}

SITE cudaGraph_t scratch_in_graph(cudaStream_t stream) {
    void *scratch = nullptr;
    cudaGraph_t graph;
    check(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal));
    check(cudaMallocAsync(&scratch, 16 * MiB, stream));
    check(cudaMemsetAsync(scratch, 0, 16 * MiB, stream));
    check(cudaFreeAsync(scratch, stream));
    check(cudaStreamEndCapture(stream, &graph));
    return graph;
}

SITE void forbidden_in_capture(cudaStream_t stream) {
    void *block = nullptr;
    cudaGraph_t graph;
    check(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal));
    cudaError_t refused = cudaMalloc(&block, 1 * MiB);
    cudaError_t broken = cudaStreamEndCapture(stream, &graph);
    cudaGetLastError();
    std::printf("graph: %d, then %d\n", int(refused), int(broken));
}

int main() {
    cudaStream_t stream;
    check(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
    cudaGraph_t graph = scratch_in_graph(stream);
    cudaGraphExec_t exec;
    check(cudaGraphInstantiate(&exec, graph, 0));
    print_reserved("after the instantiation");
    for (int launch = 1; launch <= 100; launch++) {
        check(cudaGraphLaunch(exec, stream));
        check(cudaStreamSynchronize(stream));
        if (launch == 1) print_reserved("after the first launch");
    }
    print_reserved("after the last launch");
    check(cudaGraphExecDestroy(exec));
    check(cudaGraphDestroy(graph));
    check(cudaDeviceGraphMemTrim(0));
    print_reserved("after the trim");
    forbidden_in_capture(stream);
    check(cudaStreamDestroy(stream));
}
