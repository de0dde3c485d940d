/* Arrays and mipmapped arrays. */
#include "double.h"

struct cudaChannelFormatDesc cudaCreateChannelDesc(int x, int y, int z, int w,
                                                   enum cudaChannelFormatKind f) {
    struct cudaChannelFormatDesc desc = {x, y, z, w, f};
    return desc;
}

/* The driver's format for channels of so many bits; 0 if there is none. */
static int format_of(enum cudaChannelFormatKind kind, int bits) {
    int size = bits == 8 ? 0 : bits == 16 ? 1 : bits == 32 ? 2 : 3;
    static const int formats[3][4] = {
        {CU_AD_FORMAT_SIGNED_INT8, CU_AD_FORMAT_SIGNED_INT16, CU_AD_FORMAT_SIGNED_INT32, 0},
        {CU_AD_FORMAT_UNSIGNED_INT8, CU_AD_FORMAT_UNSIGNED_INT16, CU_AD_FORMAT_UNSIGNED_INT32, 0},
        {0, CU_AD_FORMAT_HALF, CU_AD_FORMAT_FLOAT, 0},
    };
    return (unsigned)kind <= cudaChannelFormatKindFloat ? formats[kind][size] : 0;
}

int cudart_double_describe(CUDA_ARRAY3D_DESCRIPTOR *shape,
                           const struct cudaChannelFormatDesc *desc, struct cudaExtent extent,
                           unsigned int flags) {
    const int bits[4] = {desc->x, desc->y, desc->z, desc->w};
    unsigned channels = 0;
    while (channels < 4 && bits[channels] != 0) channels++;
    for (unsigned i = 0; i < 4; i++)
        if (bits[i] != (i < channels ? bits[0] : 0)) return 0;
    int format = format_of(desc->f, bits[0]);
    if (format == 0 || channels == 0 || channels == 3) return 0;
    shape->Width = extent.width;
    shape->Height = extent.height;
    shape->Depth = extent.depth;
    shape->Format = (CUarray_format)format;
    shape->NumChannels = channels;
    shape->Flags = flags;
    return 1;
}

cudaError_t cudaMalloc3DArray(cudaArray_t *array, const struct cudaChannelFormatDesc *desc,
                              struct cudaExtent extent, unsigned int flags) {
    ENTER();
    if (array == NULL || desc == NULL) return cudart_double_note(cudaErrorInvalidValue);
    CUDA_ARRAY3D_DESCRIPTOR shape;
    if (!cudart_double_describe(&shape, desc, extent, flags))
        return cudart_double_note(cudaErrorInvalidChannelDescriptor);
    CUarray got = NULL;
    CUresult result = cudart_double.array3DCreate(&got, &shape);
    if (result == CUDA_SUCCESS) *array = (cudaArray_t)got;
    return cudart_double_note(result);
}

cudaError_t cudaMallocArray(cudaArray_t *array, const struct cudaChannelFormatDesc *desc,
                            size_t width, size_t height, unsigned int flags) {
    struct cudaExtent extent = {width, height, 0};
    return cudaMalloc3DArray(array, desc, extent, flags);
}

cudaError_t cudaFreeArray(cudaArray_t array) {
    ENTER();
    if (array == NULL) return cudaSuccess;
    return DO(arrayDestroy((CUarray)array));
}

cudaError_t cudaMallocMipmappedArray(cudaMipmappedArray_t *mipmap,
                                     const struct cudaChannelFormatDesc *desc,
                                     struct cudaExtent extent, unsigned int levels,
                                     unsigned int flags) {
    ENTER();
    if (mipmap == NULL || desc == NULL) return cudart_double_note(cudaErrorInvalidValue);
    CUDA_ARRAY3D_DESCRIPTOR shape;
    if (!cudart_double_describe(&shape, desc, extent, flags))
        return cudart_double_note(cudaErrorInvalidChannelDescriptor);
    CUmipmappedArray got = NULL;
    CUresult result = cudart_double.mipmapCreate(&got, &shape, levels);
    if (result == CUDA_SUCCESS) *mipmap = (cudaMipmappedArray_t)got;
    return cudart_double_note(result);
}

cudaError_t cudaGetMipmappedArrayLevel(cudaArray_t *array, cudaMipmappedArray_const_t mipmap,
                                       unsigned int level) {
    ENTER();
    return DO(mipmapGetLevel((CUarray *)array, (CUmipmappedArray)mipmap, level));
}

cudaError_t cudaFreeMipmappedArray(cudaMipmappedArray_t mipmap) {
    ENTER();
    if (mipmap == NULL) return cudaSuccess;
    return DO(mipmapDestroy((CUmipmappedArray)mipmap));
}
