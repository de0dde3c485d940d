/* What holds memory without an allocation: code, streams, textures, memory of another process. objects PART. */
#include "check.h"

#include <cuda.h>
#include <sys/wait.h>
#include <unistd.h>

static const char image[] = ".version 7.0\n.target sm_50\n.address_size 64\n";

static void use_device(void) {
    CUdevice device;
    CUcontext context;
    CHECK(cuInit(0));
    CHECK(cuDeviceGet(&device, 0));
    CHECK(cuDevicePrimaryCtxRetain(&context, device));
    CHECK(cuCtxSetCurrent(context));
}

SITE static CUmodule load(void) {
    CUmodule module = NULL;
    CHECK(cuModuleLoadData(&module, image));
    return module;
}

static void modules(void) {
    use_device();
    for (int i = 0; i < 100; i++) REQUIRE(load() != NULL);
    CHECK(cuModuleUnload(load()));
}

SITE static CUstream open_stream(void) {
    CUstream stream = NULL;
    CHECK(cuStreamCreate(&stream, 0));
    return stream;
}

static void streams(void) {
    CUstream streams[9];
    use_device();
    for (int i = 0; i < 9; i++) streams[i] = open_stream();
    for (int i = 0; i < 2; i++) CHECK(cuStreamDestroy(streams[i]));
    CHECK(cuCtxSetLimit(CU_LIMIT_STACK_SIZE, 8192));
}

/* Each of these says once that there is no memory (the simulator is told so). */
static void no_memory(void) {
    CUmodule module;
    CUstream stream;
    CUmemoryPool pool;
    CUmemPoolProps properties = {0};
    void *host = NULL;
    use_device();
    EXPECT(2, cuLaunchKernel((CUfunction)0x10, 1, 1, 1, 1, 1, 1, 0, NULL, NULL, NULL));
    EXPECT(2, cuModuleLoadData(&module, image));
    EXPECT(2, cuStreamCreate(&stream, 0));
    EXPECT(2, cuMemSetAccess(0x1000, 2 * MIB, NULL, 0));
    properties.allocType = CU_MEM_ALLOCATION_TYPE_PINNED;
    properties.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
    EXPECT(2, cuMemPoolCreate(&pool, &properties));
    EXPECT(2, cuMemHostAlloc(&host, (size_t)1 << 40, 0));
}

/* The parent exports a block to a child, which opens it twice and closes it once. */
SITE static void borrow(CUipcMemHandle handle) {
    CUdeviceptr first = 0, second = 0;
    CHECK(cuIpcOpenMemHandle(&first, handle, CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS));
    CHECK(cuIpcOpenMemHandle(&second, handle, CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS));
    REQUIRE(first == second);
    CHECK(cuIpcCloseMemHandle(first));
}

static void ipc(void) {
    int pipes[2], done[2];
    CHECK(pipe(pipes));
    CHECK(pipe(done));
    /* Before any CUDA call, so that the child is a process of its own. */
    pid_t child = fork();
    REQUIRE(child >= 0);
    CUipcMemHandle handle;
    char byte = 0;
    use_device();
    if (child == 0) {
        REQUIRE(read(pipes[0], &handle, sizeof handle) == sizeof handle);
        borrow(handle);
        REQUIRE(write(done[1], &byte, 1) == 1);
        return;
    }
    CUdeviceptr block = 0;
    CHECK(cuMemAlloc(&block, 5 * MIB));
    CHECK(cuIpcGetMemHandle(&handle, block));
    REQUIRE(write(pipes[1], &handle, sizeof handle) == sizeof handle);
    REQUIRE(read(done[0], &byte, 1) == 1);
    int status = 1;
    REQUIRE(waitpid(child, &status, 0) == child && status == 0);
    CHECK(cuMemFree(block));
}

int main(int argc, char **argv) {
    (void)argc;
    PARTS({"modules", modules}, {"streams", streams}, {"no memory", no_memory}, {"ipc", ipc});
    return 0;
}
