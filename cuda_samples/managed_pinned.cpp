// Memory that is not the device's: managed, pinned, registered. None of it counts as device bytes.
//
// A report must say: device 0; managed peak 8,388,608 bytes, live 0; pinned peak 4,194,304 bytes, live
// 4,194,304 in 1 block from staging_buffer(); registered peak 4,194,304 bytes, live 0; one failed
// registration, of a range that is registered already.
#include "check.h"

#include <cstring>

SITE void *staging_buffer() {
    void *memory = nullptr;
    check(cudaMallocHost(&memory, 4 * MiB));
    std::memset(memory, 1, 4 * MiB);
    return memory;
}

int main() {
    char *managed = nullptr;
    check(cudaMallocManaged(&managed, 8 * MiB));
    managed[0] = 1;
    void *staging = staging_buffer();
    void *own = std::aligned_alloc(4096, 4 * MiB);
    check(cudaHostRegister(own, 4 * MiB, cudaHostRegisterDefault));
    cudaError_t again = cudaHostRegister(own, 4 * MiB, cudaHostRegisterDefault);
    check(cudaHostUnregister(own));
    check(cudaFree(managed));
    std::free(own);
    std::printf("managed_pinned: registering again gives %d, %p stays pinned\n", int(again), staging);
    return again == cudaErrorHostMemoryAlreadyRegistered ? 0 : 1;
}
