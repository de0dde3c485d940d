// A leak through the driver interface alone: the program links libcuda and no runtime.
//
// A report must say: 1 allocation by cuMemAlloc, 5,242,880 bytes live at the end, from
// weights_on_device().
#include <cuda.h>

#include <cstdio>
#include <cstdlib>

static void check(CUresult result) {
    if (result == CUDA_SUCCESS) return;
    const char *text = nullptr;
    cuGetErrorString(result, &text);
    std::fprintf(stderr, "unexpected: %s (%d)\n", text ? text : "?", int(result));
    std::exit(1);
}

__attribute__((noinline)) CUdeviceptr weights_on_device() {
    CUdeviceptr weights = 0;
    check(cuMemAlloc(&weights, 5 << 20));
    check(cuMemsetD8(weights, 0, 5 << 20));
    return weights;
}

int main() {
    CUdevice device;
    CUcontext context;
    check(cuInit(0));
    check(cuDeviceGet(&device, 0));
    check(cuDevicePrimaryCtxRetain(&context, device));
    check(cuCtxSetCurrent(context));
    std::printf("driver_only: %s\n", weights_on_device() != 0 ? "done" : "no address");
}
