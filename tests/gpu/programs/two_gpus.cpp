// Memory on two devices, freed by a thread that is on the other one; what the driver says of each, `name value` a line.
#include <cstdio>
#include <cstdlib>
#include <cuda_runtime.h>
#include <thread>

static void check(int code, const char *what) {
    if (code != 0) {
        std::fprintf(stderr, "%s: %d\n", what, code);
        std::exit(1);
    }
}
#define CHECK(call) check((int)(call), #call)

static size_t free_bytes(int device) {
    size_t free = 0, total = 0;
    CHECK(cudaSetDevice(device));
    CHECK(cudaMemGetInfo(&free, &total));
    return free;
}

static void *take(int device, size_t bytes) {
    void *block = nullptr;
    CHECK(cudaSetDevice(device));
    CHECK(cudaMalloc(&block, bytes));
    return block;
}

static void free_on(int device, void *block) {
    std::thread([=] {
        CHECK(cudaSetDevice(device));
        CHECK(cudaFree(block));
    }).join();
}

int main() {
    const size_t MiB = 1 << 20;
    int devices = 0;
    CHECK(cudaGetDeviceCount(&devices));
    if (devices < 2) return 2;
    size_t before[2];
    for (int device : {0, 1}) {
        CHECK(cudaSetDevice(device));
        CHECK(cudaFree(nullptr));
    }
    for (int device : {0, 1}) before[device] = free_bytes(device);
    take(0, 64 * MiB);
    take(1, 96 * MiB);
    void *first = take(0, 256 * MiB);
    void *second = take(1, 128 * MiB);
    for (int device : {0, 1}) std::printf("peak_%d %zu\n", device, before[device] - free_bytes(device));
    free_on(1, first);
    free_on(0, second);
    for (int device : {0, 1}) std::printf("live_%d %zu\n", device, before[device] - free_bytes(device));
    return 0;
}
