/* Modules, libraries, launches, textures and green contexts: a part of cuda.h, which includes it. */
#ifndef OOMHOOK_SIM_CUDA_MODULE_H
#define OOMHOOK_SIM_CUDA_MODULE_H

#define cuModuleGetGlobal cuModuleGetGlobal_v2
#define cuLaunchKernel OOMHOOK_SIM_PTSZ(cuLaunchKernel)
#define cuLaunchKernelEx OOMHOOK_SIM_PTSZ(cuLaunchKernelEx)
#define cuLaunchCooperativeKernel OOMHOOK_SIM_PTSZ(cuLaunchCooperativeKernel)

#ifdef __cplusplus
extern "C" {
#endif

typedef struct CUlib_st *CUlibrary;
typedef struct CUkern_st *CUkernel;
typedef struct CUgreenCtx_st *CUgreenCtx;
typedef struct CUdevResourceDesc_st *CUdevResourceDesc;
typedef unsigned long long CUtexObject;
typedef unsigned long long CUsurfObject;
typedef struct CUlaunchAttribute_st CUlaunchAttribute;
typedef struct CUDA_TEXTURE_DESC_st CUDA_TEXTURE_DESC;
typedef struct CUDA_RESOURCE_VIEW_DESC_st CUDA_RESOURCE_VIEW_DESC;
/* Options of the compiler, which nothing here compiles for. */
typedef int CUjit_option;
typedef int CUlibraryOption;

typedef struct CUlaunchConfig_st {
    unsigned int gridDimX, gridDimY, gridDimZ;
    unsigned int blockDimX, blockDimY, blockDimZ;
    unsigned int sharedMemBytes;
    CUstream hStream;
    CUlaunchAttribute *attrs;
    unsigned int numAttrs;
} CUlaunchConfig;

typedef struct CUDA_RESOURCE_DESC_st {
    CUresourcetype resType;
    union {
        struct {
            CUarray hArray;
        } array;
        struct {
            CUmipmappedArray hMipmappedArray;
        } mipmap;
        struct {
            CUdeviceptr devPtr;
            CUarray_format format;
            unsigned int numChannels;
            size_t sizeInBytes;
        } linear;
        struct {
            int reserved[32];
        } reserved;
    } res;
    unsigned int flags;
} CUDA_RESOURCE_DESC;

typedef enum { CU_DEV_RESOURCE_TYPE_SM = 1 } CUdevResourceType;
enum { CU_GREEN_CTX_DEFAULT_STREAM = 1 };

typedef struct CUdevResource_st {
    CUdevResourceType type;
    unsigned char padding[92];
    union {
        struct {
            unsigned int smCount;
        } sm;
        unsigned char oversize[40];
    };
    struct CUdevResource_st *nextResource;
} CUdevResource;

/* Modules and libraries */
CUresult cuModuleLoad(CUmodule *module, const char *path);
CUresult cuModuleLoadData(CUmodule *module, const void *image);
CUresult cuModuleLoadDataEx(CUmodule *module, const void *image, unsigned int count,
                            CUjit_option *options, void **values);
CUresult cuModuleLoadFatBinary(CUmodule *module, const void *image);
CUresult cuModuleUnload(CUmodule module);
CUresult cuModuleGetFunction(CUfunction *function, CUmodule module, const char *name);
CUresult cuModuleGetGlobal(CUdeviceptr *pointer, size_t *bytes, CUmodule module, const char *name);
CUresult cuLibraryLoadData(CUlibrary *library, const void *image, CUjit_option *jit,
                           void **jitValues, unsigned int jitCount, CUlibraryOption *options,
                           void **values, unsigned int count);
CUresult cuLibraryLoadFromFile(CUlibrary *library, const char *path, CUjit_option *jit,
                               void **jitValues, unsigned int jitCount, CUlibraryOption *options,
                               void **values, unsigned int count);
CUresult cuLibraryUnload(CUlibrary library);
CUresult cuLibraryGetKernel(CUkernel *kernel, CUlibrary library, const char *name);
CUresult cuLibraryGetModule(CUmodule *module, CUlibrary library);
CUresult cuLibraryGetGlobal(CUdeviceptr *pointer, size_t *bytes, CUlibrary library,
                            const char *name);
CUresult cuLibraryGetManaged(CUdeviceptr *pointer, size_t *bytes, CUlibrary library,
                             const char *name);
CUresult cuKernelGetFunction(CUfunction *function, CUkernel kernel);

/* Launches */
CUresult cuLaunchKernel(CUfunction function, unsigned int gridX, unsigned int gridY,
                        unsigned int gridZ, unsigned int blockX, unsigned int blockY,
                        unsigned int blockZ, unsigned int shared, CUstream stream,
                        void **arguments, void **extra);
CUresult cuLaunchKernelEx(const CUlaunchConfig *config, CUfunction function, void **arguments,
                          void **extra);
CUresult cuLaunchCooperativeKernel(CUfunction function, unsigned int gridX, unsigned int gridY,
                                   unsigned int gridZ, unsigned int blockX, unsigned int blockY,
                                   unsigned int blockZ, unsigned int shared, CUstream stream,
                                   void **arguments);

/* Textures, surfaces, green contexts */
CUresult cuTexObjectCreate(CUtexObject *object, const CUDA_RESOURCE_DESC *resource,
                           const CUDA_TEXTURE_DESC *texture, const CUDA_RESOURCE_VIEW_DESC *view);
CUresult cuTexObjectDestroy(CUtexObject object);
CUresult cuSurfObjectCreate(CUsurfObject *object, const CUDA_RESOURCE_DESC *resource);
CUresult cuSurfObjectDestroy(CUsurfObject object);
CUresult cuDeviceGetDevResource(CUdevice device, CUdevResource *resource, CUdevResourceType type);
CUresult cuDevResourceGenerateDesc(CUdevResourceDesc *desc, CUdevResource *resources,
                                   unsigned int count);
CUresult cuGreenCtxCreate(CUgreenCtx *green, CUdevResourceDesc desc, CUdevice device,
                          unsigned int flags);
CUresult cuGreenCtxDestroy(CUgreenCtx green);
CUresult cuCtxFromGreenCtx(CUcontext *context, CUgreenCtx green);
CUresult cuGreenCtxStreamCreate(CUstream *stream, CUgreenCtx green, unsigned int flags,
                                int priority);

#ifdef __cplusplus
}
#endif

#endif
