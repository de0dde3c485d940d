/* Streams, events and stream capture. */
#include "double.h"

/* A function that works on a stream, and its twin for per-thread default streams. */
#define TWINS(name, parameters, field, arguments)                                                  \
    cudaError_t name parameters {                                                                  \
        ENTER();                                                                                   \
        return DO(field arguments);                                                                \
    }                                                                                              \
    cudaError_t name##_ptsz parameters {                                                           \
        ENTER();                                                                                   \
        return DO(field##_ptsz arguments);                                                         \
    }

TWINS(cudaStreamSynchronize, (cudaStream_t stream), streamSynchronize, (stream))
TWINS(cudaStreamQuery, (cudaStream_t stream), streamQuery, (stream))
TWINS(cudaStreamWaitEvent, (cudaStream_t stream, cudaEvent_t event, unsigned int flags),
      streamWaitEvent, (stream, event, flags))
TWINS(cudaStreamBeginCapture, (cudaStream_t stream, enum cudaStreamCaptureMode mode), beginCapture,
      (stream, (CUstreamCaptureMode)mode))
TWINS(cudaStreamBeginCaptureToGraph,
      (cudaStream_t stream, cudaGraph_t graph, const cudaGraphNode_t *after,
       const cudaGraphEdgeData *edges, size_t count, enum cudaStreamCaptureMode mode),
      beginCaptureToGraph, (stream, graph, after, edges, count, (CUstreamCaptureMode)mode))
TWINS(cudaStreamEndCapture, (cudaStream_t stream, cudaGraph_t *graph), endCapture, (stream, graph))
TWINS(cudaStreamIsCapturing, (cudaStream_t stream, enum cudaStreamCaptureStatus *status),
      isCapturing, (stream, (CUstreamCaptureStatus *)status))
TWINS(cudaEventRecord, (cudaEvent_t event, cudaStream_t stream), eventRecord, (event, stream))

cudaError_t cudaStreamCreate(cudaStream_t *stream) {
    ENTER();
    return DO(streamCreate(stream, CU_STREAM_DEFAULT));
}

cudaError_t cudaStreamCreateWithFlags(cudaStream_t *stream, unsigned int flags) {
    ENTER();
    return DO(streamCreate(stream, flags));
}

cudaError_t cudaStreamCreateWithPriority(cudaStream_t *stream, unsigned int flags, int priority) {
    ENTER();
    return DO(streamCreateWithPriority(stream, flags, priority));
}

cudaError_t cudaStreamDestroy(cudaStream_t stream) {
    ENTER();
    return DO(streamDestroy(stream));
}

cudaError_t cudaThreadExchangeStreamCaptureMode(enum cudaStreamCaptureMode *mode) {
    ENTER();
    return DO(exchangeCaptureMode((CUstreamCaptureMode *)mode));
}

cudaError_t cudaEventCreate(cudaEvent_t *event) {
    ENTER();
    return DO(eventCreate(event, 0));
}

cudaError_t cudaEventCreateWithFlags(cudaEvent_t *event, unsigned int flags) {
    ENTER();
    return DO(eventCreate(event, flags));
}

cudaError_t cudaEventSynchronize(cudaEvent_t event) {
    ENTER();
    return DO(eventSynchronize(event));
}

cudaError_t cudaEventQuery(cudaEvent_t event) {
    ENTER();
    return DO(eventQuery(event));
}

cudaError_t cudaEventDestroy(cudaEvent_t event) {
    ENTER();
    return DO(eventDestroy(event));
}
