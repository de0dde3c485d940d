/* Two functions that leak, below a runtime linked into the program. */
#include "check.h"

#include <cuda_runtime.h>

SITE static void *first(void) {
    void *block = NULL;
    CHECK(cudaMalloc(&block, 3 * MIB));
    return block;
}

SITE static void *second(void) {
    void *block = NULL;
    CHECK(cudaMalloc(&block, MIB));
    return block;
}

int main(void) {
    REQUIRE(first() != NULL);
    REQUIRE(first() != NULL);
    REQUIRE(second() != NULL);
    return 0;
}
