// Memory of another process: the parent exports a block, a child opens it twice and closes it once.
//
// A report of the parent must say: 1 allocation of 5,242,880 bytes, 1 free, no leak. A report of the
// child must say: device 0, peak 0 (the memory is the parent's); imported memory 5,242,880 bytes in 1
// block, opened twice and closed once, so still open at the end, from borrow().
// The child is this program again, started with the handle on its command line. It prints that both
// opens gave one address.
#include "check.h"

#include <cstring>
#include <string>
#include <sys/wait.h>
#include <unistd.h>

SITE void *borrow(const cudaIpcMemHandle_t &handle) {
    void *memory = nullptr;
    check(cudaIpcOpenMemHandle(&memory, handle, cudaIpcMemLazyEnablePeerAccess));
    return memory;
}

static int child(const char *digits) {
    cudaIpcMemHandle_t handle;
    unsigned char bytes[sizeof handle];
    for (size_t i = 0; i < sizeof bytes; i++) {
        unsigned byte = 0;
        if (std::sscanf(digits + 2 * i, "%2x", &byte) != 1) return 3;
        bytes[i] = static_cast<unsigned char>(byte);
    }
    std::memcpy(&handle, bytes, sizeof handle);
    void *first = borrow(handle);
    void *second = borrow(handle);
    check(cudaMemset(first, 1, 5 * MiB));
    check(cudaDeviceSynchronize());
    // The mistake: the second open is not closed.
    check(cudaIpcCloseMemHandle(second));
    std::printf("ipc: child has %s\n", first == second ? "one address" : "two addresses");
    return first == second ? 0 : 4;
}

static std::string hexadecimal(const cudaIpcMemHandle_t &handle) {
    unsigned char bytes[sizeof handle];
    std::memcpy(bytes, &handle, sizeof handle);
    std::string digits;
    char pair[3];
    for (unsigned char byte : bytes) {
        std::snprintf(pair, sizeof pair, "%02x", byte);
        digits += pair;
    }
    return digits;
}

int main(int count, char **arguments) {
    if (count == 2) return child(arguments[1]);
    void *memory = nullptr;
    cudaIpcMemHandle_t handle;
    check(cudaMalloc(&memory, 5 * MiB));
    check(cudaIpcGetMemHandle(&handle, memory));
    std::string digits = hexadecimal(handle);
    pid_t pid = fork();
    if (pid == 0) {
        // CUDA is of no use in a forked child, so the child becomes a new process.
        execl("/proc/self/exe", arguments[0], digits.c_str(), static_cast<char *>(nullptr));
        _exit(5);
    }
    int status = 0;
    if (waitpid(pid, &status, 0) != pid || status != 0) return 1;
    check(cudaFree(memory));
    std::puts("ipc: parent done");
}
