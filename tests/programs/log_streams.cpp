/* C++ streams that do not go through stdio write piece by piece: log_streams. */
#include <cuda.h>
#include <iostream>

int main() {
    std::ios::sync_with_stdio(false);
    std::cout << "before" << std::endl;
    CUcontext context;
    CUdeviceptr block = 0;
    if (cuInit(0) != 0 || cuDevicePrimaryCtxRetain(&context, 0) != 0 || cuCtxSetCurrent(context) != 0) return 99;
    if (cuMemAlloc(&block, 3 << 20) != 0) return 98;
    std::cout << "step=" << 1 << " loss=" << 0.5 << std::endl;
    std::cerr << "warning: " << 7 << " things\n";
    for (int i = 0; i < 4; i++) std::cout << "in a buffer " << i << '\n';
    return 0;
}
