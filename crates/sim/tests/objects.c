/* Arrays, graphs and modules through the exported functions: their structs, and all forms of their
 * names. The first argument names the check; the exit code is 0 if it holds. */
#define _GNU_SOURCE
#include "check.h"

#include <stdint.h>

enum { MiB = 1 << 20 };

static int arrays(void) {
    begin();
    CUarray array, level;
    CUmipmappedArray mipmap;
    CUDA_ARRAY_DESCRIPTOR flat = {256, 256, CU_AD_FORMAT_FLOAT, 4}, read;
    CHECK(G(cuArrayCreate_v2)(&array, &flat) == 0 && used() == 1048576);
    CHECK(G(cuArrayGetDescriptor_v2)(&read, array) == 0 && memcmp(&read, &flat, sizeof read) == 0);
    CUDA_ARRAY_MEMORY_REQUIREMENTS wants;
    CHECK(G(cuArrayGetMemoryRequirements)(&wants, array, 0) == CUDA_ERROR_INVALID_VALUE);
    CUDA_ARRAY3D_DESCRIPTOR deep = {256, 256, 0, CU_AD_FORMAT_FLOAT, 1, 0}, level_shape;
    CHECK(G(cuMipmappedArrayCreate)(&mipmap, &deep, 9) == 0 && used() == 1048576 + 349524);
    CHECK(G(cuMipmappedArrayGetLevel)(&level, mipmap, 3) == 0);
    CHECK(G(cuArray3DGetDescriptor_v2)(&level_shape, level) == 0 && level_shape.Width == 32);
    CHECK(G(cuArrayDestroy)(array) == 0 && G(cuMipmappedArrayDestroy)(mipmap) == 0 && used() == 0);
    /* The old forms have sizes of 32 bits. */
    struct {
        unsigned width, height, format, channels;
    } old = {16, 16, CU_AD_FORMAT_UNSIGNED_INT8, 1}, old_read;
    CUresult (*create)(CUarray *, const void *) = (void *)dlsym(library, "cuArrayCreate");
    CUresult (*describe)(void *, CUarray) = (void *)dlsym(library, "cuArrayGetDescriptor");
    CHECK(create(&array, &old) == 0 && used() == 256);
    CHECK(describe(&old_read, array) == 0 && memcmp(&old, &old_read, sizeof old) == 0);
    struct {
        unsigned width, height, depth, format, channels, flags;
    } old_deep = {4, 4, 4, CU_AD_FORMAT_HALF, 2, 0};
    create = (void *)dlsym(library, "cuArray3DCreate");
    CHECK(create(&array, &old_deep) == 0 && used() == 256 + 256);
    CHECK(G(cuDevicePrimaryCtxReset_v2)(0) == 0);
    return 0;
}

static int sparse(void) {
    begin();
    CUarray array;
    CUmemGenericAllocationHandle memory;
    CUDA_ARRAY3D_DESCRIPTOR deep = {512, 512, 0, CU_AD_FORMAT_FLOAT, 1, CUDA_ARRAY3D_DEFERRED_MAPPING};
    CHECK(G(cuArray3DCreate_v2)(&array, &deep) == 0 && used() == 0);
    CUDA_ARRAY_MEMORY_REQUIREMENTS wants;
    CHECK(G(cuArrayGetMemoryRequirements)(&wants, array, 0) == 0 && wants.size == MiB);
    CUmemAllocationProp prop = {.type = CU_MEM_ALLOCATION_TYPE_PINNED,
                                .location = {CU_MEM_LOCATION_TYPE_DEVICE, 0}};
    CHECK(G(cuMemCreate)(&memory, 2 * MiB, &prop, 0) == 0);
    CUarrayMapInfo info = {.resourceType = CU_RESOURCE_TYPE_ARRAY,
                           .resource.array = array,
                           .memOperationType = CU_MEM_OPERATION_TYPE_MAP,
                           .memHandle.memHandle = memory,
                           .deviceBitMask = 1};
    CHECK(F(cuMemMapArrayAsync_ptsz, cuMemMapArrayAsync)(&info, 1, NULL) == 0);
    CHECK(G(cuMemRelease)(memory) == 0 && used() == 2 * MiB);
    CHECK(G(cuArrayDestroy)(array) == 0 && used() == 0);
    return 0;
}

static uint64_t graph_memory(CUgraphMem_attribute attribute) {
    uint64_t value = 7;
    CHECK(G(cuDeviceGetGraphMemAttribute)(0, attribute, &value) == 0);
    return value;
}

/* Captures 16 MiB that are allocated, used and freed. */
static CUgraph captured(CUstream stream) {
    CUgraph graph;
    CUdeviceptr p;
    CHECK(G(cuStreamBeginCapture_v2)(stream, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL) == 0);
    CHECK(G(cuMemAllocAsync)(&p, 16 * MiB, stream) == 0);
    CHECK(G(cuMemsetD8Async)(p, 0, 16 * MiB, stream) == 0);
    CHECK(G(cuMemFreeAsync)(p, stream) == 0);
    CHECK(G(cuStreamEndCapture)(stream, &graph) == 0);
    return graph;
}

static int graphs(void) {
    begin();
    CUstream stream;
    CUgraphExec exec;
    CHECK(G(cuStreamCreate)(&stream, CU_STREAM_NON_BLOCKING) == 0);
    CUgraph graph = captured(stream);
    size_t count = 0;
    CUgraphNode nodes[4];
    CUgraphNodeType types[3];
    CHECK(G(cuGraphGetNodes)(graph, NULL, &count) == 0 && count == 3);
    count = 4;
    CHECK(G(cuGraphGetNodes)(graph, nodes, &count) == 0 && count == 3 && nodes[3] == NULL);
    for (int i = 0; i < 3; i++) CHECK(G(cuGraphNodeGetType)(nodes[i], &types[i]) == 0);
    CHECK(types[0] == CU_GRAPH_NODE_TYPE_MEM_ALLOC && types[1] == CU_GRAPH_NODE_TYPE_MEMSET);
    CUDA_MEM_ALLOC_NODE_PARAMS made;
    CUdeviceptr freed;
    CHECK(G(cuGraphMemAllocNodeGetParams)(nodes[0], &made) == 0 && made.bytesize == 16 * MiB);
    CHECK(G(cuGraphMemFreeNodeGetParams)(nodes[2], &freed) == 0 && freed == made.dptr);
    /* All five ways to an executable graph. */
    for (int way = 0; way < 5; way++) {
        CUresult (*old)(CUgraphExec *, CUgraph, CUgraphNode *, char *, size_t);
        CUDA_GRAPH_INSTANTIATE_PARAMS params = {.result_out = CUDA_GRAPH_INSTANTIATE_ERROR};
        char log[8] = "unset";
        CUgraphNode error = nodes[0];
        if (way < 2) {
            old = (void *)dlsym(library, way == 0 ? "cuGraphInstantiate" : "cuGraphInstantiate_v2");
            CHECK(old(&exec, graph, &error, log, sizeof log) == 0 && error == NULL && log[0] == 0);
        } else if (way == 2) {
            CHECK(G(cuGraphInstantiateWithFlags)(&exec, graph, 0) == 0);
        } else {
            __typeof__(cuGraphInstantiateWithParams) *with =
                way == 3 ? G(cuGraphInstantiateWithParams)
                         : F(cuGraphInstantiateWithParams_ptsz, cuGraphInstantiateWithParams);
            CHECK(with(&exec, graph, &params) == 0 && params.result_out == 0);
        }
        CHECK(graph_memory(CU_GRAPH_MEM_ATTR_RESERVED_MEM_CURRENT) == 0 && used() == 0);
        for (int i = 0; i < 100; i++) CHECK(G(cuGraphLaunch)(exec, stream) == 0);
        CHECK(F(cuGraphLaunch_ptsz, cuGraphLaunch)(exec, NULL) == 0);
        CHECK(graph_memory(CU_GRAPH_MEM_ATTR_RESERVED_MEM_CURRENT) == 33554432);
        CHECK(graph_memory(CU_GRAPH_MEM_ATTR_USED_MEM_CURRENT) == 33554432 && used() == 33554432);
        CHECK(G(cuGraphExecDestroy)(exec) == 0 && G(cuDeviceGraphMemTrim)(0) == 0 && used() == 0);
    }
    CHECK(G(cuGraphDestroy)(graph) == 0);
    return 0;
}

static int nodes(void) {
    begin();
    CUgraph graph;
    CUgraphNode node, after;
    CHECK(G(cuGraphCreate)(&graph, 0) == 0);
    CHECK(G(cuGraphAddEmptyNode)(&after, graph, NULL, 0) == 0);
    CUDA_MEM_ALLOC_NODE_PARAMS params = {.poolProps = {.allocType = CU_MEM_ALLOCATION_TYPE_PINNED,
                                                       .location = {CU_MEM_LOCATION_TYPE_DEVICE, 0}},
                                         .bytesize = MiB};
    CHECK(G(cuGraphAddMemAllocNode)(&node, graph, &after, 1, &params) == 0 && params.dptr != 0);
    CHECK(G(cuGraphAddMemFreeNode)(&node, graph, &node, 1, params.dptr) == 0);
    CHECK(G(cuGraphAddMemFreeNode)(&node, graph, NULL, 0, params.dptr) == CUDA_ERROR_INVALID_VALUE);
    CUgraphNodeParams any = {.type = CU_GRAPH_NODE_TYPE_MEM_ALLOC, .alloc = params};
    CUresult (*first)(CUgraphNode *, CUgraph, const CUgraphNode *, size_t, CUgraphNodeParams *) =
        (void *)dlsym(library, "cuGraphAddNode");
    CHECK(first(&node, graph, &after, 1, &any) == 0 && any.alloc.dptr != params.dptr);
    static const char *const names[] = {"cuGraphAddNode_v2", "cuGraphAddNode_v3"};
    CUgraphNodeParams freed = {.type = CU_GRAPH_NODE_TYPE_MEM_FREE, .free = {any.alloc.dptr}};
    for (int i = 0; i < 2; i++) {
        CUresult (*add)(CUgraphNode *, CUgraph, const CUgraphNode *, const CUgraphEdgeData *, size_t,
                        CUgraphNodeParams *) = (void *)dlsym(library, names[i]);
        CHECK(add(&after, graph, &node, NULL, 1, &freed) == (i == 0 ? 0 : CUDA_ERROR_INVALID_VALUE));
    }
    return 0;
}

/* Run with OOMHOOK_SIM_MODULE=2MiB. */
static int modules(void) {
    static const unsigned fat[4] = {0xba55ed50};
    static const char ptx[] = ".version 8.0\n.target sm_90\n.global .align 4 .b8 table[1048576];\n"
                              ".global .attribute(.managed) .u32 shared;\n";
    begin();
    CUmodule module, again;
    CUfunction function;
    CUdeviceptr p;
    size_t bytes;
    CHECK(G(cuModuleLoadData)(&module, "junk") == 200 && G(cuModuleLoadData)(&module, "") == 200);
    CHECK(G(cuModuleLoad)(&module, "/nonexistent") == CUDA_ERROR_FILE_NOT_FOUND);
    for (int i = 0; i < 98; i++) CHECK(G(cuModuleLoadData)(&module, "\x7f" "ELF") == 0);
    CHECK(G(cuModuleLoadFatBinary)(&module, fat) == 0);
    CHECK(G(cuModuleLoadDataEx)(&module, fat, 0, NULL, NULL) == 0 && used() == 209715200);
    CHECK(G(cuModuleGetFunction)(&function, module, "kernel") == 0);
    CHECK(G(cuLaunchKernel)(function, 1, 1, 1, 1, 1, 1, 0, NULL, NULL, NULL) == 0);
    CHECK(G(cuLaunchCooperativeKernel)(function, 1, 1, 1, 1, 1, 1, 0, NULL, NULL) == 0);
    CUlaunchConfig config = {.gridDimX = 1, .hStream = (CUstream)0x77};
    CHECK(G(cuLaunchKernelEx)(&config, function, NULL, NULL) == CUDA_ERROR_INVALID_HANDLE);
    config.hStream = NULL;
    CHECK(F(cuLaunchKernelEx_ptsz, cuLaunchKernelEx)(&config, function, NULL, NULL) == 0);
    CHECK(G(cuModuleUnload)(module) == 0 && used() == 99 * 2 * MiB);

    CUlibrary code;
    CUkernel kernel;
    CHECK(G(cuLibraryLoadData)(&code, ptx, NULL, NULL, 0, NULL, NULL, 0) == 0);
    CHECK(used() == 100 * 2 * MiB + MiB);
    CHECK(G(cuLibraryGetKernel)(&kernel, code, "kernel") == 0);
    CHECK(G(cuKernelGetFunction)(&function, kernel) == 0);
    CHECK(G(cuLibraryGetModule)(&again, code) == 0);
    CHECK(G(cuLibraryGetGlobal)(&p, &bytes, code, "table") == 0 && bytes == MiB);
    CHECK(F(cuMemFree_v2, cuMemFree_v2)(p) == CUDA_ERROR_INVALID_VALUE);
    CHECK(F(cuModuleGetGlobal_v2, cuModuleGetGlobal_v2)(NULL, &bytes, again, "table") == 0);
    CHECK(G(cuLibraryGetManaged)(&p, &bytes, code, "shared") == 0 && bytes == 4);
    *(int *)(uintptr_t)p = 7;
    CHECK(G(cuLibraryGetGlobal)(&p, &bytes, code, "none") == CUDA_ERROR_NOT_FOUND);
    CHECK(G(cuLibraryUnload)(code) == 0 && used() == 99 * 2 * MiB);
    return 0;
}

/* Handles that have no memory; run with OOMHOOK_SIM_STACK=270336. */
static int handles(void) {
    begin();
    CUarray array;
    CUDA_ARRAY_DESCRIPTOR flat = {16, 16, CU_AD_FORMAT_FLOAT, 1};
    CHECK(G(cuArrayCreate_v2)(&array, &flat) == 0 && used() == 1024);
    CUDA_RESOURCE_DESC resource = {.resType = CU_RESOURCE_TYPE_ARRAY, .res.array.hArray = array};
    CUtexObject texture;
    CUsurfObject surface;
    CHECK(G(cuTexObjectCreate)(&texture, &resource, NULL, NULL) == 0);
    CHECK(G(cuSurfObjectCreate)(&surface, &resource) == 0 && used() == 1024);
    CHECK(G(cuTexObjectDestroy)(texture) == 0 && G(cuSurfObjectDestroy)(surface) == 0);

    CUdevResource multiprocessors;
    CUdevResourceDesc desc;
    CUgreenCtx green;
    CUcontext context;
    CUstream stream;
    CHECK(G(cuDeviceGetDevResource)(1, &multiprocessors, CU_DEV_RESOURCE_TYPE_SM) == 0);
    CHECK(multiprocessors.sm.smCount == 132);
    CHECK(G(cuDevResourceGenerateDesc)(&desc, &multiprocessors, 1) == 0);
    CHECK(G(cuGreenCtxCreate)(&green, desc, 1, CU_GREEN_CTX_DEFAULT_STREAM) == 0);
    CHECK(G(cuCtxFromGreenCtx)(&context, green) == 0);
    CHECK(G(cuGreenCtxStreamCreate)(&stream, green, CU_STREAM_NON_BLOCKING, 0) == 0);
    CHECK(G(cuGreenCtxDestroy)(green) == 0);

    size_t value;
    CHECK(G(cuCtxSetLimit)(CU_LIMIT_STACK_SIZE, 8192) == 0 && used() == 1024 + (size_t)1848 * MiB);
    CHECK(G(cuCtxGetLimit)(&value, CU_LIMIT_STACK_SIZE) == 0 && value == 8192);
    CHECK(G(cuDevicePrimaryCtxReset_v2)(0) == 0);
    return 0;
}

static int places(void) {
    begin();
    CUmemLocation host = {CU_MEM_LOCATION_TYPE_HOST, 0}, nowhere = {CU_MEM_LOCATION_TYPE_NONE, 0};
    CUmemoryPool pool, other;
    CUdeviceptr p;
    CHECK(G(cuMemGetDefaultMemPool)(&pool, &host, CU_MEM_ALLOCATION_TYPE_PINNED) == 0);
    CHECK(G(cuMemAllocFromPoolAsync)(&p, MiB, pool, NULL) == 0 && used() == 0);
    *(char *)(uintptr_t)p = 1;
    CHECK(G(cuMemFreeAsync)(p, NULL) == 0);
    CHECK(G(cuMemGetMemPool)(&pool, &nowhere, CU_MEM_ALLOCATION_TYPE_MANAGED) == 0);
    CHECK(G(cuMemAllocFromPoolAsync)(&p, MiB, pool, NULL) == 0 && used() == 0);
    CHECK(F(cuMemAdvise_v2, cuMemAdvise_v2)(p, MiB, CU_MEM_ADVISE_SET_READ_MOSTLY, host) == 0);
    CHECK(F(cuMemPrefetchAsync_v2, cuMemPrefetchAsync_v2)(p, MiB, host, 0, NULL) == 0);
    CHECK(F(cuMemPrefetchAsync_v2_ptsz, cuMemPrefetchAsync_v2)(p, 2 * MiB, host, 0, NULL) == 1);
    CUmemPoolProps props = {.allocType = CU_MEM_ALLOCATION_TYPE_PINNED, .location = host};
    CHECK(G(cuMemPoolCreate)(&other, &props) == 0);
    CHECK(G(cuMemSetMemPool)(&nowhere, CU_MEM_ALLOCATION_TYPE_MANAGED, other) == 1);
    CHECK(G(cuMemSetMemPool)(&host, CU_MEM_ALLOCATION_TYPE_PINNED, other) == 0);
    CHECK(G(cuMemGetMemPool)(&pool, &host, CU_MEM_ALLOCATION_TYPE_PINNED) == 0 && pool == other);
    return 0;
}

static int multicast(void) {
    begin();
    CUmulticastObjectProp prop = {.numDevices = 1, .size = 4 * MiB};
    CUmemAllocationProp plain = {.type = CU_MEM_ALLOCATION_TYPE_PINNED,
                                 .location = {CU_MEM_LOCATION_TYPE_DEVICE, 0}};
    CUmemGenericAllocationHandle object, memory;
    size_t step;
    CHECK(G(cuMulticastGetGranularity)(&step, &prop, CU_MULTICAST_GRANULARITY_MINIMUM) == 0);
    CHECK(step == 2 * MiB && G(cuMulticastCreate)(&object, &prop) == 0 && used() == 0);
    CHECK(G(cuMulticastAddDevice)(object, 0) == 0);
    CHECK(G(cuMemCreate)(&memory, 2 * MiB, &plain, 0) == 0);
    CHECK(G(cuMulticastBindMem)(object, 0, memory, 0, 2 * MiB, 0) == 0);
    CUresult (*bind)(CUmemGenericAllocationHandle, CUdevice, size_t, CUmemGenericAllocationHandle,
                     size_t, size_t, unsigned long long) = (void *)dlsym(library, "cuMulticastBindMem_v2");
    CHECK(bind(object, 1, 2 * MiB, memory, 0, 2 * MiB, 0) == CUDA_ERROR_INVALID_VALUE);
    CHECK(bind(object, 0, 2 * MiB, memory, 0, 2 * MiB, 0) == 0);
    CHECK(G(cuMemRelease)(memory) == 0 && used() == 2 * MiB);
    CHECK(G(cuMulticastUnbind)(object, 0, 0, 2 * MiB) == 0 && used() == 2 * MiB);
    CHECK(G(cuMemRelease)(object) == 0 && used() == 0);
    return 0;
}

int main(int count, char **arguments) {
    const char *check = count == 2 ? arguments[1] : "";
    load();
#define RUN(name) if (strcmp(check, #name) == 0) return name()
    RUN(arrays);
    RUN(sparse);
    RUN(graphs);
    RUN(nodes);
    RUN(modules);
    RUN(handles);
    RUN(places);
    RUN(multicast);
    return 2;
}
