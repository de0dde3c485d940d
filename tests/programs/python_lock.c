/* A library that allocates under a lock of its own, as PyTorch's cache does. */
#include "driver.h"

#include <pthread.h>

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static int is_held, is_waiting;

/* Allocates 4096 bytes under the lock, once the other thread waits for it. */
SITE int hold_and_allocate(void) {
    by_dlsym();
    CUdeviceptr block;
    CHECK(pthread_mutex_lock(&mutex));
    __atomic_store_n(&is_held, 1, __ATOMIC_RELEASE);
    while (!__atomic_load_n(&is_waiting, __ATOMIC_ACQUIRE)) wait_ms(1);
    /* It has said so just before it waits. */
    wait_ms(20);
    CHECK(CU(cuMemAlloc)(&block, 4096));
    CHECK(pthread_mutex_unlock(&mutex));
    return 0;
}

void await_holder(void) {
    while (!__atomic_load_n(&is_held, __ATOMIC_ACQUIRE)) wait_ms(1);
}

/* Called with the GIL held. */
SITE void wait_for_lock(void) {
    __atomic_store_n(&is_waiting, 1, __ATOMIC_RELEASE);
    CHECK(pthread_mutex_lock(&mutex));
    CHECK(pthread_mutex_unlock(&mutex));
}

/* From a thread that Python does not know, and back. */
static void *foreign(void *code) {
    use_device(0);
    CUdeviceptr block;
    *(CUresult *)code = CU(cuMemAlloc)(&block, 8192);
    return NULL;
}

SITE int allocate_in_foreign_thread(void) {
    by_dlsym();
    CUresult code = CUDA_ERROR_UNKNOWN;
    pthread_t thread;
    CHECK(pthread_create(&thread, NULL, foreign, &code));
    CHECK(pthread_join(thread, NULL));
    return code;
}
