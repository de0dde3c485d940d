// A leak at one of two sites.
//
// A report must say: 14 allocations, 12 frees; peak 23,068,672 bytes at allocation 14; live at the
// end 2,097,152 bytes in 2 blocks, all of them from buffers_for_requests().
#include "check.h"

#include <vector>

SITE std::vector<void *> buffers_for_requests() {
    std::vector<void *> buffers(10);
    for (void *&buffer : buffers) check(cudaMalloc(&buffer, 1 * MiB));
    return buffers;
}

SITE std::vector<void *> workspaces() {
    std::vector<void *> buffers(4);
    for (void *&buffer : buffers) check(cudaMalloc(&buffer, 3 * MiB));
    return buffers;
}

int main() {
    std::vector<void *> requests = buffers_for_requests();
    std::vector<void *> work = workspaces();
    for (void *buffer : work) check(cudaFree(buffer));
    // The mistake: the last two are forgotten.
    for (int i = 0; i < 8; i++) check(cudaFree(requests[i]));
    std::puts("leak: done");
}
