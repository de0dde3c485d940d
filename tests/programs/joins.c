/* A library whose constructor waits for a thread that takes memory. Built with DRIVER it calls the driver, else the
 * runtime. */
#include "check.h"

#include <cuda.h>
#include <cuda_runtime.h>
#include <pthread.h>

#ifdef DRIVER
SITE static void take_in_constructor(void) {
    CUdevice device;
    CUcontext context;
    CUdeviceptr block = 0;
    CHECK(cuInit(0));
    CHECK(cuDeviceGet(&device, 0));
    CHECK(cuDevicePrimaryCtxRetain(&context, device));
    CHECK(cuCtxSetCurrent(context));
    CHECK(cuMemAlloc(&block, 4 * MIB));
    EXPECT(2, cuMemAlloc(&block, 1024 * GIB));
}
#else
SITE static void take_in_constructor(void) {
    void *block = NULL;
    CHECK(cudaMalloc(&block, 4 * MIB));
    EXPECT(2, cudaMalloc(&block, 1024 * GIB));
}
#endif

static void *work(void *unused) {
    take_in_constructor();
    return unused;
}

__attribute__((constructor)) static void arrive(void) {
    pthread_t thread;
    CHECK(pthread_create(&thread, NULL, work, NULL));
    CHECK(pthread_join(thread, NULL));
}
