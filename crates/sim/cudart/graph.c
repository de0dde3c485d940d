/* Graphs, and the memory that they keep. */
#include "double.h"

#include <stdint.h>
#include <string.h>

_Static_assert(sizeof(struct cudaMemAllocNodeParams) == sizeof(CUDA_MEM_ALLOC_NODE_PARAMS),
               "one layout");
_Static_assert(sizeof(struct cudaGraphNodeParams) == sizeof(CUgraphNodeParams), "one layout");
_Static_assert(sizeof(cudaGraphInstantiateParams) == sizeof(CUDA_GRAPH_INSTANTIATE_PARAMS),
               "one layout");

cudaError_t cudaGraphCreate(cudaGraph_t *graph, unsigned int flags) {
    ENTER();
    return DO(graphCreate(graph, flags));
}

cudaError_t cudaGraphDestroy(cudaGraph_t graph) {
    ENTER();
    return DO(graphDestroy(graph));
}

cudaError_t cudaGraphAddMemAllocNode(cudaGraphNode_t *node, cudaGraph_t graph,
                                     const cudaGraphNode_t *after, size_t count,
                                     struct cudaMemAllocNodeParams *params) {
    ENTER();
    if (params == NULL) return cudart_double_note(cudaErrorInvalidValue);
    CUDA_MEM_ALLOC_NODE_PARAMS same;
    memcpy(&same, params, sizeof same);
    CUresult result = cudart_double.graphAddAlloc(node, graph, after, count, &same);
    if (result == CUDA_SUCCESS) params->dptr = (void *)(uintptr_t)same.dptr;
    return cudart_double_note(result);
}

cudaError_t cudaGraphAddMemFreeNode(cudaGraphNode_t *node, cudaGraph_t graph,
                                    const cudaGraphNode_t *after, size_t count, void *pointer) {
    ENTER();
    return DO(graphAddFree(node, graph, after, count, (CUdeviceptr)(uintptr_t)pointer));
}

static cudaError_t add_node(cudaGraphNode_t *node, cudaGraph_t graph, const cudaGraphNode_t *after,
                            const cudaGraphEdgeData *edges, size_t count,
                            struct cudaGraphNodeParams *params) {
    ENTER();
    if (params == NULL) return cudart_double_note(cudaErrorInvalidValue);
    CUgraphNodeParams same;
    memcpy(&same, params, sizeof same);
    CUresult result = cudart_double.graphAddNode(node, graph, after, edges, count, &same);
    if (result == CUDA_SUCCESS) memcpy(params, &same, sizeof same);
    return cudart_double_note(result);
}

#if CUDART_VERSION >= 13000
cudaError_t cudaGraphAddNode(cudaGraphNode_t *node, cudaGraph_t graph,
                             const cudaGraphNode_t *after, const cudaGraphEdgeData *edges,
                             size_t count, struct cudaGraphNodeParams *params) {
    return add_node(node, graph, after, edges, count, params);
}
#else
cudaError_t cudaGraphAddNode(cudaGraphNode_t *node, cudaGraph_t graph,
                             const cudaGraphNode_t *after, size_t count,
                             struct cudaGraphNodeParams *params) {
    return add_node(node, graph, after, NULL, count, params);
}
#endif

cudaError_t cudaGraphClone(cudaGraph_t *clone, cudaGraph_t graph) {
    ENTER();
    return DO(graphClone(clone, graph));
}

cudaError_t cudaGraphInstantiateWithParams(cudaGraphExec_t *exec, cudaGraph_t graph,
                                           cudaGraphInstantiateParams *params) {
    ENTER();
    return DO(graphInstantiateWithParams(exec, graph, (CUDA_GRAPH_INSTANTIATE_PARAMS *)params));
}

cudaError_t cudaGraphInstantiateWithParams_ptsz(cudaGraphExec_t *exec, cudaGraph_t graph,
                                                cudaGraphInstantiateParams *params) {
    ENTER();
    return DO(
        graphInstantiateWithParams_ptsz(exec, graph, (CUDA_GRAPH_INSTANTIATE_PARAMS *)params));
}

cudaError_t cudaGraphInstantiateWithFlags(cudaGraphExec_t *exec, cudaGraph_t graph,
                                          unsigned long long flags) {
    ENTER();
    CUgraphExec got = NULL;
    CUresult result = cudart_double.graphInstantiate(&got, graph, flags);
    if (result == CUDA_SUCCESS) *exec = got;
    return cudart_double_note(result);
}

cudaError_t cudaGraphInstantiate(cudaGraphExec_t *exec, cudaGraph_t graph,
                                 unsigned long long flags) {
    return cudaGraphInstantiateWithFlags(exec, graph, flags);
}

cudaError_t cudaGraphExecDestroy(cudaGraphExec_t exec) {
    ENTER();
    return DO(graphExecDestroy(exec));
}

cudaError_t cudaGraphUpload(cudaGraphExec_t exec, cudaStream_t stream) {
    ENTER();
    return DO(graphUpload(exec, stream));
}

cudaError_t cudaGraphUpload_ptsz(cudaGraphExec_t exec, cudaStream_t stream) {
    ENTER();
    return DO(graphUpload_ptsz(exec, stream));
}

cudaError_t cudaGraphLaunch(cudaGraphExec_t exec, cudaStream_t stream) {
    ENTER();
    return DO(graphLaunch(exec, stream));
}

cudaError_t cudaGraphLaunch_ptsz(cudaGraphExec_t exec, cudaStream_t stream) {
    ENTER();
    return DO(graphLaunch_ptsz(exec, stream));
}

cudaError_t cudaDeviceGraphMemTrim(int device) {
    ENTER();
    return DO(graphMemTrim(device));
}

cudaError_t cudaDeviceGetGraphMemAttribute(int device, enum cudaGraphMemAttributeType attribute,
                                           void *value) {
    ENTER();
    return DO(graphMemGet(device, (CUgraphMem_attribute)attribute, value));
}

cudaError_t cudaDeviceSetGraphMemAttribute(int device, enum cudaGraphMemAttributeType attribute,
                                           void *value) {
    ENTER();
    return DO(graphMemSet(device, (CUgraphMem_attribute)attribute, value));
}
