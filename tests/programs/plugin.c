/* A library with a runtime of its own. Built with NAME(f) giving its functions their names. */
#include "check.h"

#include <cuda_runtime.h>

SITE int NAME(allocate)(size_t size) {
    void *block = NULL;
    int code = cudaMalloc(&block, size);
    return code;
}

/* The last error of this very runtime. */
int NAME(last_error)(void) {
    return cudaGetLastError();
}

int NAME(version)(void) {
    int version = 0;
    CHECK(cudaRuntimeGetVersion(&version));
    return version;
}
