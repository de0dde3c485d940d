// Arrays: device memory without an address.
//
// A report must say: 3 allocations, 1 free, all of space "array"; the 2D array 1,048,576 bytes (256 x 256
// elements of four floats), the mipmapped one 349,524 (256 x 256 floats and eight smaller levels), the
// layered one 40,960 (16 x 16 bytes in 160 layers); peak 1,439,060 bytes at allocation 3; live at the end
// 390,484 bytes in 2 blocks, from pyramid() and layers(). The sizes are marked as estimated: a driver
// does not tell them.
#include "check.h"

SITE cudaArray_t texture() {
    cudaArray_t array = nullptr;
    cudaChannelFormatDesc four = cudaCreateChannelDesc(32, 32, 32, 32, cudaChannelFormatKindFloat);
    check(cudaMallocArray(&array, &four, 256, 256));
    return array;
}

SITE cudaMipmappedArray_t pyramid() {
    cudaMipmappedArray_t array = nullptr;
    cudaChannelFormatDesc one = cudaCreateChannelDesc(32, 0, 0, 0, cudaChannelFormatKindFloat);
    check(cudaMallocMipmappedArray(&array, &one, make_cudaExtent(256, 256, 0), 9));
    return array;
}

SITE cudaArray_t layers() {
    cudaArray_t array = nullptr;
    cudaChannelFormatDesc byte = cudaCreateChannelDesc(8, 0, 0, 0, cudaChannelFormatKindUnsigned);
    check(cudaMalloc3DArray(&array, &byte, make_cudaExtent(16, 16, 160), cudaArrayLayered));
    return array;
}

int main() {
    cudaArray_t image = texture();
    cudaMipmappedArray_t levels = pyramid();
    cudaArray_t smallest = nullptr;
    // A level is a view of the pyramid, and no memory of its own.
    check(cudaGetMipmappedArrayLevel(&smallest, levels, 8));
    cudaArray_t stack = layers();
    check(cudaFreeArray(image));
    std::printf("arrays: %s\n", smallest && stack ? "done" : "no array");
}
