/* The first calls of a process, which go straight to the driver, at a bad moment: hostile_driver PART. */
#define _GNU_SOURCE
#include "check.h"

#include <cuda.h>
#include <dlfcn.h>

static void constructor_waits(void) {
    REQUIRE(dlopen("libjoins_driver.so", RTLD_NOW) != NULL);
    puts("loaded");
}

static void pending_error(void) {
    CUdevice device;
    CUcontext context;
    CUdeviceptr block = 0;
    REQUIRE(dlsym(RTLD_DEFAULT, "no_such_function") == NULL);
    CHECK(cuInit(0));
    CHECK(cuDeviceGet(&device, 0));
    CHECK(cuDevicePrimaryCtxRetain(&context, device));
    CHECK(cuCtxSetCurrent(context));
    CHECK(cuMemAlloc(&block, 1 * MIB));
    const char *error = dlerror();
    puts(error != NULL ? error : "no error");
}

int main(int argc, char **argv) {
    (void)argc;
    PARTS({"constructor waits", constructor_waits}, {"pending error", pending_error});
    return 0;
}
