/* A program that loads the simulator as NVML, with NVML's own structs, and compares it with the driver. */
#include "check.h"

#include <stdint.h>
#include <sys/wait.h>

typedef void *nvmlDevice_t;
typedef struct { unsigned long long total, free, used; } nvmlMemory_t;
typedef struct { unsigned int version; unsigned long long total, reserved, free, used; } nvmlMemory_v2_t;
typedef struct { unsigned int pid; unsigned long long usedGpuMemory; unsigned int gpuInstanceId, computeInstanceId; } nvmlProcessInfo_t;
typedef struct {
    char busIdLegacy[16];
    unsigned int domain, bus, device, pciDeviceId, pciSubSystemId;
    char busId[32];
} nvmlPciInfo_t;
typedef struct { unsigned int gpu, memory; } nvmlUtilization_t;

int nvmlInit_v2(void);
int nvmlShutdown(void);
const char *nvmlErrorString(int code);
int nvmlSystemGetDriverVersion(char *text, unsigned int length);
int nvmlSystemGetNVMLVersion(char *text, unsigned int length);
int nvmlSystemGetCudaDriverVersion(int *version);
int nvmlSystemGetCudaDriverVersion_v2(int *version);
int nvmlSystemGetProcessName(unsigned int pid, char *text, unsigned int length);
int nvmlDeviceGetCount_v2(unsigned int *count);
int nvmlDeviceGetHandleByIndex_v2(unsigned int index, nvmlDevice_t *device);
int nvmlDeviceGetHandleByUUID(const char *uuid, nvmlDevice_t *device);
int nvmlDeviceGetHandleByPciBusId_v2(const char *id, nvmlDevice_t *device);
int nvmlDeviceGetUUID(nvmlDevice_t device, char *text, unsigned int length);
int nvmlDeviceGetName(nvmlDevice_t device, char *text, unsigned int length);
int nvmlDeviceGetPciInfo_v3(nvmlDevice_t device, nvmlPciInfo_t *pci);
int nvmlDeviceGetMemoryInfo(nvmlDevice_t device, nvmlMemory_t *memory);
int nvmlDeviceGetMemoryInfo_v2(nvmlDevice_t device, nvmlMemory_v2_t *memory);
int nvmlDeviceGetComputeRunningProcesses_v3(nvmlDevice_t device, unsigned int *count, nvmlProcessInfo_t *infos);
int nvmlDeviceGetGraphicsRunningProcesses_v3(nvmlDevice_t device, unsigned int *count, nvmlProcessInfo_t *infos);
int nvmlDeviceGetMigMode(nvmlDevice_t device, unsigned int *current, unsigned int *pending);
int nvmlDeviceGetComputeMode(nvmlDevice_t device, unsigned int *mode);
int nvmlDeviceGetUtilizationRates(nvmlDevice_t device, nvmlUtilization_t *rates);
int nvmlDeviceGetDriverModel(nvmlDevice_t device, unsigned int *current, unsigned int *pending);

#define MIB (1ull << 20)
#define GIB (1ull << 30)

static void *nvml;
#define N(name) ((__typeof__(name) *)dlsym(nvml, #name))

static nvmlDevice_t first(void) {
    nvmlDevice_t device;
    CHECK(N(nvmlInit_v2)() == 0);
    CHECK(N(nvmlDeviceGetHandleByIndex_v2)(0, &device) == 0);
    return device;
}

static int figures(void) {
    nvmlDevice_t device = first();
    nvmlProcessInfo_t infos[4];
    unsigned int count = 0;
    CHECK(N(nvmlDeviceGetComputeRunningProcesses_v3)(device, &count, NULL) == 7 && count == 1);
    begin();
    CUdeviceptr block;
    CHECK(F(cuMemAlloc_v2, cuMemAlloc_v2)(&block, 3 * MIB) == 0);
    CUmodule module;
    CHECK(G(cuModuleLoadData)(&module, ".version 8.0") == 0);
    size_t free, total;
    CHECK(F(cuMemGetInfo_v2, cuMemGetInfo_v2)(&free, &total) == 0);
    CHECK(total == 16 * GIB && free == 13 * GIB - 507 * MIB);

    nvmlMemory_t memory;
    CHECK(N(nvmlDeviceGetMemoryInfo)(device, &memory) == 0);
    CHECK(memory.total == total + 600 * MIB && memory.free == free);
    CHECK(memory.used == memory.total - free);
    nvmlMemory_v2_t apart = {.version = sizeof apart | 2 << 24};
    CHECK(N(nvmlDeviceGetMemoryInfo_v2)(device, &apart) == 0);
    CHECK(apart.total == memory.total && apart.free == free && apart.reserved == 600 * MIB);
    CHECK(apart.used == 3 * GIB + 507 * MIB);
    apart.version = 1;
    CHECK(N(nvmlDeviceGetMemoryInfo_v2)(device, &apart) == 25);

    count = 1;
    CHECK(N(nvmlDeviceGetComputeRunningProcesses_v3)(device, &count, infos) == 7 && count == 2);
    count = 4;
    CHECK(N(nvmlDeviceGetComputeRunningProcesses_v3)(device, &count, NULL) == 2);
    CHECK(N(nvmlDeviceGetComputeRunningProcesses_v3)(device, &count, infos) == 0 && count == 2);
    CHECK(infos[0].pid == 4711 && infos[0].usedGpuMemory == 2 * GIB);
    CHECK(infos[1].pid == (unsigned int)getpid() && infos[1].usedGpuMemory == 507 * MIB);
    CHECK(infos[1].gpuInstanceId == UINT32_MAX && infos[1].computeInstanceId == UINT32_MAX);
    count = 4;
    CHECK(N(nvmlDeviceGetGraphicsRunningProcesses_v3)(device, &count, infos) == 0 && count == 1);
    CHECK(infos[0].pid == 12 && infos[0].usedGpuMemory == GIB);
    /* Nobody is on the other device: an empty list needs no place. */
    CHECK(N(nvmlDeviceGetHandleByIndex_v2)(1, &device) == 0);
    count = 0;
    CHECK(N(nvmlDeviceGetComputeRunningProcesses_v3)(device, &count, NULL) == 0 && count == 0);
    return 0;
}

static int names(void) {
    nvmlDevice_t device = first(), found = NULL;
    char text[96], uuid[96];
    CHECK(N(nvmlDeviceGetName)(device, text, sizeof text) == 0);
    CHECK(strcmp(text, "oomhook simulated GPU") == 0);
    CHECK(N(nvmlDeviceGetName)(device, text, 4) == 7);
    CHECK(N(nvmlDeviceGetUUID)(device, uuid, sizeof uuid) == 0);
    begin();
    unsigned char bytes[16];
    CHECK(F(cuDeviceGetUuid_v2, cuDeviceGetUuid)((CUuuid *)bytes, 0) == 0);
    char *end = text + sprintf(text, "GPU-");
    for (int i = 0; i < 16; i++) end += sprintf(end, i == 4 || i == 6 || i == 8 || i == 10 ? "-%02x" : "%02x", bytes[i]);
    CHECK(strcmp(uuid, text) == 0);
    CHECK(N(nvmlDeviceGetHandleByUUID)(uuid, &found) == 0 && found == device);
    CHECK(N(nvmlDeviceGetHandleByUUID)("GPU-0", &found) == 6);
    nvmlPciInfo_t pci;
    char id[32];
    CHECK(N(nvmlDeviceGetPciInfo_v3)(device, &pci) == 0 && pci.bus == 0x10);
    CHECK(G(cuDeviceGetPCIBusId)(id, sizeof id, 0) == 0 && strcmp(id, pci.busIdLegacy) == 0);
    CHECK(strcmp(pci.busId, "00000000:10:00.0") == 0);
    CHECK(N(nvmlDeviceGetHandleByPciBusId_v2)(pci.busId, &found) == 0 && found == device);
    CHECK(N(nvmlDeviceGetHandleByPciBusId_v2)(pci.busIdLegacy, &found) == 0 && found == device);
    int version;
    CHECK(N(nvmlSystemGetCudaDriverVersion)(&version) == 0 && version == 13000);
    CHECK(N(nvmlSystemGetCudaDriverVersion_v2)(&version) == 0 && version == 13000);
    CHECK(N(nvmlSystemGetDriverVersion)(text, sizeof text) == 0 && strcmp(text, "580.95.05") == 0);
    CHECK(N(nvmlSystemGetNVMLVersion)(text, sizeof text) == 0 && strcmp(text, "13.580.95.05") == 0);
    CHECK(N(nvmlSystemGetProcessName)(12, text, sizeof text) == 0 && strcmp(text, "/usr/bin/Xorg :0") == 0);
    CHECK(N(nvmlSystemGetProcessName)(4711, text, 6) == 0 && strcmp(text, "train") == 0);
    CHECK(N(nvmlSystemGetProcessName)(getpid(), text, sizeof text) == 0 && strstr(text, "nvml") != NULL);
    CHECK(N(nvmlSystemGetProcessName)(2000000000, text, sizeof text) == 6);
    CHECK(strcmp(N(nvmlErrorString)(15), "GPU is lost") == 0);
    CHECK(strcmp(N(nvmlErrorString)(12345), "Unknown Error") == 0);
    nvmlUtilization_t rates;
    CHECK(N(nvmlDeviceGetUtilizationRates)(device, &rates) == 0 && rates.gpu == 0);
    unsigned int mode = 9, pending = 9;
    CHECK(N(nvmlDeviceGetMigMode)(device, &mode, &pending) == 0 && mode == 0 && pending == 0);
    CHECK(N(nvmlDeviceGetComputeMode)(device, &mode) == 0 && mode == 0);
    CHECK(N(nvmlDeviceGetDriverModel)(device, &mode, &pending) == 3);
    return 0;
}

static int forks(void) {
    nvmlDevice_t device = first();
    begin();
    pid_t parent = getpid(), child = fork();
    if (child == 0) {
        /* What a child sees is its parent. */
        nvmlProcessInfo_t infos[4];
        unsigned int count = 4;
        CHECK(N(nvmlDeviceGetComputeRunningProcesses_v3)(device, &count, infos) == 0 && count == 2);
        CHECK(infos[1].pid == (unsigned int)parent);
        _exit(0);
    }
    int status;
    CHECK(waitpid(child, &status, 0) == child && status == 0);
    return 0;
}

static int begins(void) {
    unsigned int count;
    nvmlDevice_t device;
    CHECK(N(nvmlDeviceGetCount_v2)(&count) == 1);
    CHECK(N(nvmlShutdown)() == 1);
    first();
    device = first();
    CHECK(N(nvmlDeviceGetCount_v2)(NULL) == 2);
    CHECK(N(nvmlDeviceGetCount_v2)(&count) == 0 && count == 2);
    CHECK(N(nvmlDeviceGetHandleByIndex_v2)(2, &device) == 2);
    CHECK(N(nvmlDeviceGetComputeMode)((nvmlDevice_t)8, &count) == 2);
    CHECK(N(nvmlShutdown)() == 0);
    CHECK(N(nvmlDeviceGetCount_v2)(&count) == 0);
    CHECK(N(nvmlShutdown)() == 0);
    CHECK(N(nvmlDeviceGetCount_v2)(&count) == 1);
    /* The driver has not begun with it. */
    size_t free, total;
    CHECK(F(cuMemGetInfo_v2, cuMemGetInfo_v2)(&free, &total) == CUDA_ERROR_NOT_INITIALIZED);
    return 0;
}

static int failures(void) {
    nvmlDevice_t device = first();
    nvmlMemory_t memory;
    unsigned int count = 0;
    CHECK(N(nvmlDeviceGetComputeRunningProcesses_v3)(device, &count, NULL) == 3);
    CHECK(N(nvmlDeviceGetMemoryInfo)(device, &memory) == 0);
    CHECK(N(nvmlDeviceGetMemoryInfo)(device, &memory) == 15);
    CHECK(N(nvmlDeviceGetMemoryInfo)(device, &memory) == 0);
    return 0;
}

static int slices(void) {
    nvmlDevice_t device = first();
    nvmlProcessInfo_t info;
    nvmlMemory_t memory;
    unsigned int count = 1, mode, pending;
    CHECK(N(nvmlDeviceGetComputeRunningProcesses_v3)(device, &count, &info) == 0);
    CHECK(info.pid == 4711 && info.usedGpuMemory == UINT64_MAX);
    CHECK(N(nvmlDeviceGetMigMode)(device, &mode, &pending) == 0 && mode == 1 && pending == 1);
    CHECK(N(nvmlDeviceGetComputeMode)(device, &mode) == 0 && mode == 3);
    for (unsigned long long i = 0; i < 3; i++) {
        CHECK(N(nvmlDeviceGetMemoryInfo)(device, &memory) == 0);
        CHECK(memory.used == 2 * GIB + i * 16 * MIB);
    }
    begin();
    CHECK(used() == 2 * GIB + 32 * MIB);
    return 0;
}

static int nothing(void) {
    unsigned int count;
    nvmlDevice_t device;
    CHECK(N(nvmlInit_v2)() == 0);
    CHECK(N(nvmlDeviceGetCount_v2)(&count) == 0 && count == 0);
    CHECK(N(nvmlDeviceGetHandleByIndex_v2)(0, &device) == 2);
    CHECK(G(cuInit)(0) == CUDA_ERROR_NO_DEVICE);
    return 0;
}

int main(int count, char **arguments) {
    (void)count;
    nvml = dlopen("libnvidia-ml.so.1", RTLD_NOW | RTLD_LOCAL);
    if (nvml == NULL) fprintf(stderr, "%s\n", dlerror());
    if (nvml == NULL) return 1;
    load();
    const char *check = arguments[1];
#define RUN(name) if (strcmp(check, #name) == 0) return name()
    RUN(figures);
    RUN(names);
    RUN(forks);
    RUN(begins);
    RUN(failures);
    RUN(slices);
    RUN(nothing);
    return 2;
}
