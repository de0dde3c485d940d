/* What the files of the runtime double share: the driver's functions, and the state of a thread. */
#ifndef CUDART_DOUBLE_H
#define CUDART_DOUBLE_H

#include "cuda.h"
#include "cuda_runtime_api.h"

/* The driver's functions by the names that the real runtime asks for. */
struct cudart_double_driver {
#define DRIVER(field, type, base, version, flags, exact) __typeof__(type) *field;
#include "driver_table.h"
#undef DRIVER
};
extern struct cudart_double_driver cudart_double;

/* Finds the driver, once. */
cudaError_t cudart_double_find(void);
/* Finds and initialises the driver. */
cudaError_t cudart_double_init(void);
/* The same, and makes the primary context of the thread's device current if nothing is. */
cudaError_t cudart_double_enter(void);
/* Notes a driver's code as the thread's last error; the numbers are the runtime's too. */
cudaError_t cudart_double_note(int code);
/* Names asked for by the program itself. */
CUresult cudart_double_lookup(const char *name, void **function, unsigned version,
                              unsigned long long flags, CUdriverProcAddressQueryResult *status);

/* What an array looks like, in the driver's words; 0 if its channels are none that the driver knows. */
int cudart_double_describe(CUDA_ARRAY3D_DESCRIPTOR *shape,
                           const struct cudaChannelFormatDesc *desc, struct cudaExtent extent,
                           unsigned int flags);

/* Opens a function that needs a context. */
#define ENTER()                                                                                    \
    do {                                                                                           \
        cudaError_t entered = cudart_double_enter();                                               \
        if (entered != cudaSuccess) return cudart_double_note(entered);                            \
    } while (0)

/* Calls the driver and notes how that went. */
#define DO(call) cudart_double_note(cudart_double.call)

#endif
