// A server that keeps one block for every request: it grows as long as it runs.
//
// A report must say: 200 allocations, 100 frees; peak 113,246,208 bytes at allocation 200; live at
// the end 104,857,600 bytes in 100 blocks, all from remember_session(), of class "growing".
// workspace() is as large at each request and owes nothing.
#include "check.h"

#include <vector>

static std::vector<void *> sessions;

SITE void remember_session() {
    void *state = nullptr;
    check(cudaMalloc(&state, 1 * MiB));
    check(cudaMemset(state, 0, 1 * MiB));
    sessions.push_back(state);
}

SITE void *workspace() {
    void *memory = nullptr;
    check(cudaMalloc(&memory, 8 * MiB));
    return memory;
}

SITE void serve() {
    void *memory = workspace();
    remember_session();
    check(cudaFree(memory));
}

int main() {
    for (int request = 0; request < 100; request++) serve();
    std::printf("growing: %zu sessions\n", sessions.size());
}
