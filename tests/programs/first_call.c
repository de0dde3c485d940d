/* The first calls of a runtime: they make it look for its driver. */
#include "check.h"

#include <cuda_runtime.h>

int main(void) {
    int count = 0;
    void *block = NULL;
    int counted = cudaGetDeviceCount(&count);
    int allocated = cudaMalloc(&block, 1 * MIB);
    printf("%d %d %d %d\n", counted, count, allocated, cudaGetLastError());
    return 0;
}
