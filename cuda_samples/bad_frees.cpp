// Frees that fail, and frees of NULL, which do not.
//
// A report must say: 2 allocations, 2 frees, 3 failed frees, 3 NULL frees; 1 unknown free, 1 double
// free (with the stacks of the allocation and of both frees), 1 interior free; live 0, peak 1,048,576.
// The program sees the driver's codes: it prints "1 1 1".
#include "check.h"

SITE int free_of_unknown() {
    return cudaFree(reinterpret_cast<void *>(0xdead0000));
}

SITE int free_twice() {
    void *block = nullptr;
    check(cudaMalloc(&block, 1 * MiB));
    check(cudaFree(block));
    int code = cudaFree(block);
    return code;
}

SITE int free_inside() {
    char *block = nullptr;
    check(cudaMalloc(&block, 1 * MiB));
    int code = cudaFree(block + 256);
    cudaGetLastError();
    check(cudaFree(block));
    return code;
}

int main() {
    for (int i = 0; i < 3; i++) check(cudaFree(nullptr));
    int unknown = free_of_unknown();
    int twice = free_twice();
    int inside = free_inside();
    std::printf("bad_frees: %d %d %d\n", unknown, twice, inside);
}
