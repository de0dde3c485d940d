// Rows with padding: the driver hands out more than was asked for.
//
// A report must say: 2 allocations, 1 free; handed out 102,400 bytes for 100,000 requested (cudaMallocPitch)
// and 1,024,000 for 1,000,000 (cudaMalloc3D); peak 1,126,400 at allocation 2; live at the end
// 1,024,000 bytes in 1 block, from volume().
#include "check.h"

SITE void *image(size_t *pitch) {
    void *memory = nullptr;
    check(cudaMallocPitch(&memory, pitch, 1000, 100));
    return memory;
}

SITE cudaPitchedPtr volume() {
    cudaPitchedPtr memory = {};
    check(cudaMalloc3D(&memory, make_cudaExtent(1000, 100, 10)));
    return memory;
}

int main() {
    size_t pitch = 0;
    void *flat = image(&pitch);
    cudaPitchedPtr deep = volume();
    check(cudaFree(flat));
    std::printf("pitched: pitch %zu and %zu\n", pitch, deep.pitch);
}
