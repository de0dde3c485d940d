/* Memory of other processes. */
#include "double.h"

#include <stdint.h>
#include <string.h>

_Static_assert(sizeof(cudaIpcMemHandle_t) == sizeof(CUipcMemHandle), "one layout");

cudaError_t cudaIpcGetMemHandle(cudaIpcMemHandle_t *handle, void *pointer) {
    ENTER();
    return DO(ipcGetMemHandle((CUipcMemHandle *)handle, (CUdeviceptr)(uintptr_t)pointer));
}

cudaError_t cudaIpcOpenMemHandle(void **pointer, cudaIpcMemHandle_t handle, unsigned int flags) {
    ENTER();
    if (pointer == NULL) return cudart_double_note(cudaErrorInvalidValue);
    CUipcMemHandle same;
    memcpy(&same, &handle, sizeof same);
    CUdeviceptr got = 0;
    CUresult result = cudart_double.ipcOpenMemHandle(&got, same, flags);
    if (result == CUDA_SUCCESS) *pointer = (void *)(uintptr_t)got;
    return cudart_double_note(result);
}

cudaError_t cudaIpcCloseMemHandle(void *pointer) {
    ENTER();
    return DO(ipcCloseMemHandle((CUdeviceptr)(uintptr_t)pointer));
}

cudaError_t cudaIpcGetEventHandle(cudaIpcEventHandle_t *handle, cudaEvent_t event) {
    ENTER();
    return DO(ipcGetEventHandle((CUipcEventHandle *)handle, event));
}

cudaError_t cudaIpcOpenEventHandle(cudaEvent_t *event, cudaIpcEventHandle_t handle) {
    ENTER();
    CUipcEventHandle same;
    memcpy(&same, &handle, sizeof same);
    return DO(ipcOpenEventHandle(event, same));
}

cudaError_t cudaMemPoolExportToShareableHandle(void *handle, cudaMemPool_t pool,
                                               enum cudaMemAllocationHandleType type,
                                               unsigned int flags) {
    ENTER();
    return DO(poolExport(handle, pool, (CUmemAllocationHandleType)type, flags));
}

cudaError_t cudaMemPoolImportFromShareableHandle(cudaMemPool_t *pool, void *handle,
                                                 enum cudaMemAllocationHandleType type,
                                                 unsigned int flags) {
    ENTER();
    return DO(poolImport(pool, handle, (CUmemAllocationHandleType)type, flags));
}

cudaError_t cudaMemPoolExportPointer(struct cudaMemPoolPtrExportData *data, void *pointer) {
    ENTER();
    return DO(poolExportPointer((CUmemPoolPtrExportData *)data, (CUdeviceptr)(uintptr_t)pointer));
}

cudaError_t cudaMemPoolImportPointer(void **pointer, cudaMemPool_t pool,
                                     struct cudaMemPoolPtrExportData *data) {
    ENTER();
    if (pointer == NULL) return cudart_double_note(cudaErrorInvalidValue);
    CUdeviceptr got = 0;
    CUresult result = cudart_double.poolImportPointer(&got, pool, (CUmemPoolPtrExportData *)data);
    if (result == CUDA_SUCCESS) *pointer = (void *)(uintptr_t)got;
    return cudart_double_note(result);
}
