/* Two processes, each with a driver of its own: one exports, the other imports. The first argument names
 * the check; the exit code is 0 if it holds in both. */
#define _GNU_SOURCE
#include "check.h"

#include <stdint.h>
#include <sys/socket.h>
#include <sys/wait.h>

enum { MiB = 1 << 20 };
#define FILE_HANDLE CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR
#define LAZY CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS

/* To the other process. */
static int peer;

/* Sends bytes, and a descriptor unless it is -1. */
static void put(const void *bytes, size_t length, int descriptor) {
    union {
        struct cmsghdr header;
        char space[CMSG_SPACE(sizeof(int))];
    } control = {.header = {.cmsg_len = CMSG_LEN(sizeof(int)),
                            .cmsg_level = SOL_SOCKET,
                            .cmsg_type = SCM_RIGHTS}};
    struct iovec part = {(void *)bytes, length};
    struct msghdr message = {.msg_iov = &part, .msg_iovlen = 1};
    if (descriptor != -1) {
        memcpy(CMSG_DATA(&control.header), &descriptor, sizeof descriptor);
        message.msg_control = &control;
        message.msg_controllen = sizeof control;
    }
    CHECK(sendmsg(peer, &message, 0) == (ssize_t)length);
}

/* Receives them, and gives the descriptor or -1. */
static int get(void *bytes, size_t length) {
    union {
        struct cmsghdr header;
        char space[CMSG_SPACE(sizeof(int))];
    } control;
    struct iovec part = {bytes, length};
    struct msghdr message = {.msg_iov = &part,
                             .msg_iovlen = 1,
                             .msg_control = &control,
                             .msg_controllen = sizeof control};
    CHECK(recvmsg(peer, &message, 0) == (ssize_t)length);
    int descriptor = -1;
    if (message.msg_controllen > 0)
        memcpy(&descriptor, CMSG_DATA(&control.header), sizeof descriptor);
    return descriptor;
}

static void ipc_export(void) {
    CUdeviceptr p, q;
    CUipcMemHandle handle;
    CHECK(F(cuMemAlloc_v2, cuMemAlloc_v2)(&p, 5 * MiB) == 0);
    CHECK(G(cuIpcGetMemHandle)(&handle, p) == 0);
    CHECK(G(cuIpcOpenMemHandle_v2)(&q, handle, 1) == CUDA_ERROR_INVALID_CONTEXT);
    put(&handle, sizeof handle, -1);
    char done;
    get(&done, 1);
    CHECK(used() == 5 * MiB);
}

static void ipc_import(void) {
    CUdeviceptr p, q, base;
    size_t size;
    CUipcMemHandle handle;
    get(&handle, sizeof handle);
    CHECK(G(cuIpcOpenMemHandle_v2)(&p, handle, LAZY) == 0);
    /* The old name takes its struct by value too. */
    CHECK(F(cuIpcOpenMemHandle, cuIpcOpenMemHandle_v2)(&q, handle, LAZY) == 0);
    CHECK(p == q && used() == 0);
    CHECK(F(cuMemGetAddressRange_v2, cuMemGetAddressRange_v2)(&base, &size, p + MiB) == 0);
    CHECK(base == p && size == 5 * MiB);
    CHECK(F(cuMemFree_v2, cuMemFree_v2)(p) == CUDA_ERROR_INVALID_VALUE);
    CHECK(G(cuIpcCloseMemHandle)(p) == 0 && G(cuIpcCloseMemHandle)(p) == 0);
    CHECK(G(cuIpcCloseMemHandle)(p) == CUDA_ERROR_INVALID_VALUE);
    handle.reserved[0] ^= 1;
    CHECK(G(cuIpcOpenMemHandle_v2)(&p, handle, 1) == CUDA_ERROR_INVALID_VALUE);
    put("", 1, -1);
}

static void pool_export(void) {
    CUmemPoolProps props = {.allocType = CU_MEM_ALLOCATION_TYPE_PINNED,
                            .handleTypes = FILE_HANDLE,
                            .location = {CU_MEM_LOCATION_TYPE_DEVICE, 0}};
    CUmemoryPool pool;
    CUdeviceptr p;
    CUmemPoolPtrExportData data;
    int file;
    CHECK(G(cuMemPoolCreate)(&pool, &props) == 0);
    CHECK(G(cuMemAllocFromPoolAsync)(&p, MiB, pool, NULL) == 0);
    CHECK(G(cuMemPoolExportToShareableHandle)(&file, pool, FILE_HANDLE, 0) == 0);
    CHECK(G(cuMemPoolExportPointer)(&data, p) == 0);
    put(&data, sizeof data, file);
    CHECK(close(file) == 0);
}

static void pool_import(void) {
    CUmemoryPool pool;
    CUdeviceptr p, q;
    CUmemPoolPtrExportData data;
    int file = get(&data, sizeof data);
    CHECK(G(cuMemPoolImportFromShareableHandle)(&pool, (void *)(uintptr_t)file, FILE_HANDLE, 0) == 0);
    CHECK(close(file) == 0);
    CHECK(G(cuMemPoolImportPointer)(&p, pool, &data) == 0);
    CHECK(G(cuMemPoolImportPointer)(&q, pool, &data) == 0 && p != q && used() == 0);
    CHECK(F(cuMemFree_v2, cuMemFree_v2)(p) == 0 && G(cuMemFreeAsync)(q, NULL) == 0);
    CHECK(G(cuMemPoolDestroy)(pool) == 0);
}

static void physical_export(void) {
    CUmemAllocationProp prop = {.type = CU_MEM_ALLOCATION_TYPE_PINNED,
                                .requestedHandleTypes = FILE_HANDLE,
                                .location = {CU_MEM_LOCATION_TYPE_DEVICE, 0}};
    CUmemGenericAllocationHandle memory;
    int file;
    CHECK(G(cuMemCreate)(&memory, 2 * MiB, &prop, 0) == 0);
    CHECK(G(cuMemExportToShareableHandle)(&file, memory, FILE_HANDLE, 0) == 0);
    put("", 1, file);
    CHECK(G(cuMemRelease)(memory) == 0 && used() == 0);
}

static void physical_import(void) {
    CUmemGenericAllocationHandle memory;
    CUmemAllocationProp prop;
    CUdeviceptr range;
    char nothing;
    int file = get(&nothing, 1);
    CHECK(G(cuMemImportFromShareableHandle)(&memory, (void *)(uintptr_t)file, FILE_HANDLE) == 0);
    CHECK(used() == 0);
    CHECK(G(cuMemGetAllocationPropertiesFromHandle)(&prop, memory) == 0 && prop.location.id == 0);
    CHECK(G(cuMemAddressReserve)(&range, 2 * MiB, 0, 0, 0) == 0);
    CHECK(G(cuMemMap)(range, 2 * MiB, 0, memory, 0) == 0 && G(cuMemUnmap)(range, 2 * MiB) == 0);
    CHECK(G(cuMemRelease)(memory) == 0 && G(cuMemRelease)(memory) == CUDA_ERROR_INVALID_VALUE);
    /* The same descriptor means no other kind of thing, and to another interface it is just a file. */
    CUmemoryPool pool;
    CUexternalMemory external;
    CHECK(G(cuMemPoolImportFromShareableHandle)(&pool, (void *)(uintptr_t)file, FILE_HANDLE, 0) ==
          CUDA_ERROR_INVALID_VALUE);
    CUDA_EXTERNAL_MEMORY_HANDLE_DESC desc = {.type = CU_EXTERNAL_MEMORY_HANDLE_TYPE_OPAQUE_FD,
                                             .handle.fd = file,
                                             .size = 4 * MiB};
    CUDA_EXTERNAL_MEMORY_BUFFER_DESC all = {.size = 4 * MiB};
    CHECK(G(cuImportExternalMemory)(&external, &desc) == 0);
    CHECK(G(cuExternalMemoryGetMappedBuffer)(&range, external, &all) == 0 && used() == 0);
    CHECK(F(cuMemFree_v2, cuMemFree_v2)(range) == 0 && G(cuDestroyExternalMemory)(external) == 0);
    /* The driver took the descriptor over, and has closed it. */
    CHECK(close(file) == -1);
}

int main(int count, char **arguments) {
    static const struct {
        const char *name;
        void (*exporter)(void), (*importer)(void);
    } checks[] = {
        {"ipc", ipc_export, ipc_import},
        {"pool", pool_export, pool_import},
        {"physical", physical_export, physical_import},
    };
    load();
    for (size_t i = 0; i < sizeof checks / sizeof *checks; i++) {
        if (count != 2 || strcmp(arguments[1], checks[i].name) != 0) continue;
        int ends[2], status;
        CHECK(socketpair(AF_UNIX, SOCK_SEQPACKET, 0, ends) == 0);
        /* Neither has called the driver yet, so each gets its own. */
        pid_t child = fork();
        peer = ends[child == 0];
        CHECK(close(ends[child != 0]) == 0);
        begin();
        if (child == 0) checks[i].importer();
        if (child == 0) _exit(0);
        checks[i].exporter();
        CHECK(waitpid(child, &status, 0) == child && status == 0);
        return 0;
    }
    return 2;
}
