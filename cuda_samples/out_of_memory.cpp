// Plain allocations of 1 GiB until the device is full; then the error is reported, and the exit code is 2.
//
// A report must say: one out of memory of cudaMalloc, 1,073,741,824 bytes requested, class "fatal",
// with all live bytes at cache_batch(). On a simulated device of 16 GiB: 16 allocations before it,
// 17,179,869,184 bytes live, 0 free, short by 1,073,741,824.
#include "check.h"

SITE cudaError_t cache_batch(void **batch) {
    cudaError_t error = cudaMalloc(batch, 1 * GiB);
    return error;
}

int main() {
    // Bounded, whatever the device.
    for (int batches = 0; batches < 1024; batches++) {
        void *batch = nullptr;
        cudaError_t error = cache_batch(&batch);
        if (error != cudaSuccess) {
            std::fprintf(stderr, "out_of_memory: %s after %d batches of 1 GiB\n",
                         cudaGetErrorString(error), batches);
            return 2;
        }
    }
    std::puts("out_of_memory: the device never filled up");
}
