// One thread allocates and another frees; a third leaks, and ends before the process does.
//
// A report must say: 68 allocations, 64 frees; peak 67,108,864 bytes at allocation 64; live at the end
// 4,194,304 bytes in 4 blocks, all of thread "leaker", which has exited. Thread "producer": 64
// allocations, no free; thread "consumer": 64 frees, no allocation.
#include "check.h"

#include <pthread.h>
#include <thread>
#include <vector>

static std::vector<void *> blocks(64);

SITE void produce() {
    pthread_setname_np(pthread_self(), "producer");
    for (void *&block : blocks) check(cudaMalloc(&block, 1 * MiB));
}

SITE void consume() {
    pthread_setname_np(pthread_self(), "consumer");
    for (void *block : blocks) check(cudaFree(block));
}

SITE void leak() {
    pthread_setname_np(pthread_self(), "leaker");
    void *lost = nullptr;
    for (int i = 0; i < 4; i++) check(cudaMalloc(&lost, 1 * MiB));
}

int main() {
    std::thread(produce).join();
    std::thread(consume).join();
    std::thread(leak).join();
    std::puts("threads: done");
}
