// Frees inside functions that a stream runs, where CUDA permits no call: the codes they got, `name value` a line.
#include <cstdio>
#include <cstdlib>
#include <cuda_runtime.h>

static void check(int code, const char *what) {
    if (code != 0) {
        std::fprintf(stderr, "%s: %d\n", what, code);
        std::exit(1);
    }
}
#define CHECK(call) check((int)(call), #call)

struct Work {
    void *block;
    int code;
};

static void CUDART_CB frees(void *data) {
    auto *work = static_cast<Work *>(data);
    work->code = (int)cudaFree(work->block);
}

static void CUDART_CB frees_after(cudaStream_t, cudaError_t, void *data) { frees(data); }

int main() {
    const size_t MiB = 1 << 20;
    cudaStream_t stream;
    CHECK(cudaStreamCreate(&stream));
    Work first = {}, second = {};
    size_t before = 0, after = 0, total = 0;
    CHECK(cudaMemGetInfo(&before, &total));
    CHECK(cudaMalloc(&first.block, 64 * MiB));
    CHECK(cudaMalloc(&second.block, 32 * MiB));
    CHECK(cudaLaunchHostFunc(stream, frees, &first));
    CHECK(cudaStreamSynchronize(stream));
    CHECK(cudaStreamAddCallback(stream, frees_after, &second, 0));
    CHECK(cudaStreamSynchronize(stream));
    CHECK(cudaMemGetInfo(&after, &total));
    std::printf("host_function %d\ncallback %d\ntaken %zu\n", first.code, second.code, before - after);
    return 0;
}
