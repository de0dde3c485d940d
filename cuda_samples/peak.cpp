// The same peak twice: the first one counts.
//
// A report must say: 3 allocations, 3 frees; peak 314,572,800 bytes at allocation 2, made of
// 104,857,600 bytes from weights() and 209,715,200 from activations(); no leak.
#include "check.h"

SITE void *weights() {
    void *memory = nullptr;
    check(cudaMalloc(&memory, 100 * MiB));
    return memory;
}

SITE void *activations() {
    void *memory = nullptr;
    check(cudaMalloc(&memory, 200 * MiB));
    return memory;
}

int main() {
    void *model = weights();
    for (int step = 0; step < 2; step++) {
        void *memory = activations();
        check(cudaMemset(memory, 0, 200 * MiB));
        check(cudaFree(memory));
    }
    check(cudaFree(model));
    std::puts("peak: done");
}
