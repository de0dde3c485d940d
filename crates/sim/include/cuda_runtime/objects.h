/* Launches, libraries, textures, external memory: a part of cuda_runtime_api.h, which includes it. */
#ifndef OOMHOOK_SIM_CUDA_RUNTIME_OBJECTS_H
#define OOMHOOK_SIM_CUDA_RUNTIME_OBJECTS_H

#if defined(CUDA_API_PER_THREAD_DEFAULT_STREAM)
#define cudaLaunchKernel cudaLaunchKernel_ptsz
#define cudaLaunchKernelExC cudaLaunchKernelExC_ptsz
#define cudaLaunchCooperativeKernel cudaLaunchCooperativeKernel_ptsz
#endif

#ifdef __cplusplus
extern "C" {
#endif

#ifdef __cplusplus
struct dim3 {
    unsigned int x, y, z;
    dim3(unsigned int x = 1, unsigned int y = 1, unsigned int z = 1) : x(x), y(y), z(z) {}
};
#else
struct dim3 {
    unsigned int x, y, z;
};
typedef struct dim3 dim3;
#endif

typedef struct CUlib_st *cudaLibrary_t;
typedef struct CUextMemory_st *cudaExternalMemory_t;
typedef unsigned long long cudaTextureObject_t;
typedef unsigned long long cudaSurfaceObject_t;
struct cudaTextureDesc;
struct cudaResourceViewDesc;
typedef struct cudaLaunchAttribute_st cudaLaunchAttribute;
/* Options of the compiler, which nothing here compiles for. */
enum cudaJitOption { cudaJitMaxRegisters = 0 };
enum cudaLibraryOption { cudaLibraryHostUniversalFunctionAndDataTable = 0 };

typedef struct cudaLaunchConfig_st {
    dim3 gridDim;
    dim3 blockDim;
    size_t dynamicSmemBytes;
    cudaStream_t stream;
    cudaLaunchAttribute *attrs;
    unsigned int numAttrs;
} cudaLaunchConfig_t;

struct cudaLaunchParams {
    void *func;
    dim3 gridDim;
    dim3 blockDim;
    void **args;
    size_t sharedMem;
    cudaStream_t stream;
};

enum cudaResourceType {
    cudaResourceTypeArray = 0,
    cudaResourceTypeMipmappedArray = 1,
    cudaResourceTypeLinear = 2,
    cudaResourceTypePitch2D = 3
};

/* From 13 on, these structs have room at the end. */
struct cudaResourceDesc {
    enum cudaResourceType resType;
    union {
        struct {
            cudaArray_t array;
        } array;
        struct {
            cudaMipmappedArray_t mipmap;
        } mipmap;
        struct {
            void *devPtr;
            struct cudaChannelFormatDesc desc;
            size_t sizeInBytes;
        } linear;
        struct {
            void *devPtr;
            struct cudaChannelFormatDesc desc;
            size_t width;
            size_t height;
            size_t pitchInBytes;
        } pitch2D;
#if CUDART_VERSION >= 13000
        struct {
            int reserved[32];
        } reserved;
#endif
    } res;
#if CUDART_VERSION >= 13000
    unsigned int flags;
#endif
};

enum cudaExternalMemoryHandleType { cudaExternalMemoryHandleTypeOpaqueFd = 1 };

struct cudaExternalMemoryHandleDesc {
    enum cudaExternalMemoryHandleType type;
    union {
        int fd;
        struct {
            void *handle;
            const void *name;
        } win32;
        const void *nvSciBufObject;
    } handle;
    unsigned long long size;
    unsigned int flags;
#if CUDART_VERSION >= 13000
    unsigned int reserved[16];
#endif
};

struct cudaExternalMemoryBufferDesc {
    unsigned long long offset;
    unsigned long long size;
    unsigned int flags;
#if CUDART_VERSION >= 13000
    unsigned int reserved[16];
#endif
};

struct cudaExternalMemoryMipmappedArrayDesc {
    unsigned long long offset;
    struct cudaChannelFormatDesc formatDesc;
    struct cudaExtent extent;
    unsigned int flags;
    unsigned int numLevels;
#if CUDART_VERSION >= 13000
    unsigned int reserved[16];
#endif
};

/* Launches and libraries */
cudaError_t cudaLaunchKernel(const void *function, dim3 grid, dim3 block, void **arguments,
                             size_t shared, cudaStream_t stream);
cudaError_t cudaLaunchKernelExC(const cudaLaunchConfig_t *config, const void *function,
                                void **arguments);
cudaError_t cudaLaunchCooperativeKernel(const void *function, dim3 grid, dim3 block,
                                        void **arguments, size_t shared, cudaStream_t stream);
#if CUDART_VERSION < 13000
cudaError_t cudaLaunchCooperativeKernelMultiDevice(struct cudaLaunchParams *list,
                                                   unsigned int count,
                                                   unsigned int flags OOMHOOK_SIM_DEFAULT(0));
#endif
cudaError_t cudaLibraryLoadData(cudaLibrary_t *library, const void *image,
                                enum cudaJitOption *jit, void **jitValues, unsigned int jitCount,
                                enum cudaLibraryOption *options, void **values,
                                unsigned int count);
cudaError_t cudaLibraryLoadFromFile(cudaLibrary_t *library, const char *path,
                                    enum cudaJitOption *jit, void **jitValues,
                                    unsigned int jitCount, enum cudaLibraryOption *options,
                                    void **values, unsigned int count);
cudaError_t cudaLibraryUnload(cudaLibrary_t library);

/* Textures and surfaces */
cudaError_t cudaCreateTextureObject(cudaTextureObject_t *object,
                                    const struct cudaResourceDesc *resource,
                                    const struct cudaTextureDesc *texture,
                                    const struct cudaResourceViewDesc *view);
cudaError_t cudaDestroyTextureObject(cudaTextureObject_t object);
cudaError_t cudaCreateSurfaceObject(cudaSurfaceObject_t *object,
                                    const struct cudaResourceDesc *resource);
cudaError_t cudaDestroySurfaceObject(cudaSurfaceObject_t object);

/* Memory of other interfaces */
cudaError_t cudaImportExternalMemory(cudaExternalMemory_t *memory,
                                     const struct cudaExternalMemoryHandleDesc *desc);
cudaError_t cudaExternalMemoryGetMappedBuffer(void **pointer, cudaExternalMemory_t memory,
                                              const struct cudaExternalMemoryBufferDesc *desc);
cudaError_t cudaExternalMemoryGetMappedMipmappedArray(
    cudaMipmappedArray_t *mipmap, cudaExternalMemory_t memory,
    const struct cudaExternalMemoryMipmappedArrayDesc *desc);
cudaError_t cudaDestroyExternalMemory(cudaExternalMemory_t memory);

#ifdef __cplusplus
}
#endif

#endif
