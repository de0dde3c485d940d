// Virtual memory management: one physical handle mapped at two addresses. The driver's functions are
// found through the runtime, as PyTorch does.
//
// A report must say: physical ("vmm") 1 allocation of 2,097,152 bytes, live from the create until the
// second unmap and 0 at the end, peak 2,097,152; address space 4,194,304 bytes at most, 0 at the end.
#include "check.h"

#include <cuda.h>

template <class F>
static F *driver(const char *name, F *) {
    void *found = nullptr;
    cudaDriverEntryPointQueryResult status;
#if CUDART_VERSION >= 12050
    check(cudaGetDriverEntryPointByVersion(name, &found, 12000, cudaEnableDefault, &status));
#else
    check(cudaGetDriverEntryPoint(name, &found, cudaEnableDefault, &status));
#endif
    if (status != cudaDriverEntryPointSuccess) check(cudaErrorSymbolNotFound);
    return reinterpret_cast<F *>(found);
}
// The name as text, and the declaration for its type.
#define DRIVER(name) driver(#name, static_cast<decltype(&name)>(nullptr))

static void check(CUresult result) {
    check(cudaError_t(result));
}

int main() {
    check(cudaFree(nullptr));
    constexpr size_t size = 2 * MiB;
    CUmemAllocationProp prop = {};
    prop.type = CU_MEM_ALLOCATION_TYPE_PINNED;
    prop.location = {CU_MEM_LOCATION_TYPE_DEVICE, 0};
    CUmemGenericAllocationHandle handle;
    CUdeviceptr base;
    check(DRIVER(cuMemCreate)(&handle, size, &prop, 0));
    check(DRIVER(cuMemAddressReserve)(&base, 2 * size, 0, 0, 0));
    check(DRIVER(cuMemMap)(base, size, 0, handle, 0));
    check(DRIVER(cuMemMap)(base + size, size, 0, handle, 0));
    CUmemAccessDesc access = {prop.location, CU_MEM_ACCESS_FLAGS_PROT_READWRITE};
    check(DRIVER(cuMemSetAccess)(base, 2 * size, &access, 1));
    check(cudaMemset(reinterpret_cast<void *>(base), 0, size));
    check(DRIVER(cuMemRelease)(handle));
    check(DRIVER(cuMemUnmap)(base, size));
    check(DRIVER(cuMemUnmap)(base + size, size));
    check(DRIVER(cuMemAddressFree)(base, 2 * size));
    std::puts("vmm: done");
}
