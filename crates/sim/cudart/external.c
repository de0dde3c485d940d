/* Memory of other interfaces, and what textures and surfaces look at. */
#include "double.h"

#include <stdint.h>
#include <string.h>

cudaError_t cudaImportExternalMemory(cudaExternalMemory_t *memory,
                                     const struct cudaExternalMemoryHandleDesc *desc) {
    ENTER();
    if (desc == NULL) return cudart_double_note(cudaErrorInvalidValue);
    CUDA_EXTERNAL_MEMORY_HANDLE_DESC same = {.type = (CUexternalMemoryHandleType)desc->type,
                                             .size = desc->size,
                                             .flags = desc->flags};
    memcpy(&same.handle, &desc->handle, sizeof same.handle);
    return DO(externalImport(memory, &same));
}

cudaError_t cudaExternalMemoryGetMappedBuffer(void **pointer, cudaExternalMemory_t memory,
                                              const struct cudaExternalMemoryBufferDesc *desc) {
    ENTER();
    if (pointer == NULL || desc == NULL) return cudart_double_note(cudaErrorInvalidValue);
    CUDA_EXTERNAL_MEMORY_BUFFER_DESC same = {
        .offset = desc->offset, .size = desc->size, .flags = desc->flags};
    CUdeviceptr got = 0;
    CUresult result = cudart_double.externalGetBuffer(&got, memory, &same);
    if (result == CUDA_SUCCESS) *pointer = (void *)(uintptr_t)got;
    return cudart_double_note(result);
}

cudaError_t cudaExternalMemoryGetMappedMipmappedArray(
    cudaMipmappedArray_t *mipmap, cudaExternalMemory_t memory,
    const struct cudaExternalMemoryMipmappedArrayDesc *desc) {
    ENTER();
    if (mipmap == NULL || desc == NULL) return cudart_double_note(cudaErrorInvalidValue);
    CUDA_EXTERNAL_MEMORY_MIPMAPPED_ARRAY_DESC same = {.offset = desc->offset,
                                                      .numLevels = desc->numLevels};
    if (!cudart_double_describe(&same.arrayDesc, &desc->formatDesc, desc->extent, desc->flags))
        return cudart_double_note(cudaErrorInvalidChannelDescriptor);
    CUmipmappedArray got = NULL;
    CUresult result = cudart_double.externalGetMipmap(&got, memory, &same);
    if (result == CUDA_SUCCESS) *mipmap = (cudaMipmappedArray_t)got;
    return cudart_double_note(result);
}

cudaError_t cudaDestroyExternalMemory(cudaExternalMemory_t memory) {
    ENTER();
    return DO(externalDestroy(memory));
}

/* The same resource in the driver's words; only what is looked at is said. */
static CUDA_RESOURCE_DESC same_resource(const struct cudaResourceDesc *desc) {
    CUDA_RESOURCE_DESC same = {.resType = (CUresourcetype)desc->resType};
    if (desc->resType == cudaResourceTypeArray)
        same.res.array.hArray = (CUarray)desc->res.array.array;
    else if (desc->resType == cudaResourceTypeMipmappedArray)
        same.res.mipmap.hMipmappedArray = (CUmipmappedArray)desc->res.mipmap.mipmap;
    else
        same.res.linear.devPtr = (CUdeviceptr)(uintptr_t)desc->res.linear.devPtr;
    return same;
}

cudaError_t cudaCreateTextureObject(cudaTextureObject_t *object,
                                    const struct cudaResourceDesc *resource,
                                    const struct cudaTextureDesc *texture,
                                    const struct cudaResourceViewDesc *view) {
    ENTER();
    (void)texture, (void)view;
    if (resource == NULL) return cudart_double_note(cudaErrorInvalidValue);
    CUDA_RESOURCE_DESC same = same_resource(resource);
    return DO(textureCreate(object, &same, NULL, NULL));
}

cudaError_t cudaDestroyTextureObject(cudaTextureObject_t object) {
    ENTER();
    return DO(textureDestroy(object));
}

cudaError_t cudaCreateSurfaceObject(cudaSurfaceObject_t *object,
                                    const struct cudaResourceDesc *resource) {
    ENTER();
    if (resource == NULL) return cudart_double_note(cudaErrorInvalidValue);
    CUDA_RESOURCE_DESC same = same_resource(resource);
    return DO(surfaceCreate(object, &same));
}

cudaError_t cudaDestroySurfaceObject(cudaSurfaceObject_t object) {
    ENTER();
    return DO(surfaceDestroy(object));
}
