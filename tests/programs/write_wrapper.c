/* Wraps write and writev, as profilers of input and output do, and counts the calls for the two streams. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdio.h>
#include <sys/types.h>
#include <sys/uio.h>

static int writes, gathers;

ssize_t write(int fd, const void *buffer, size_t count) {
    static ssize_t (*real)(int, const void *, size_t);
    if (real == NULL) *(void **)&real = dlsym(RTLD_NEXT, "write");
    writes += fd == 1 || fd == 2;
    return real(fd, buffer, count);
}

ssize_t writev(int fd, const struct iovec *parts, int count) {
    static ssize_t (*real)(int, const struct iovec *, int);
    if (real == NULL) *(void **)&real = dlsym(RTLD_NEXT, "writev");
    gathers += fd == 1 || fd == 2;
    return real(fd, parts, count);
}

__attribute__((destructor)) static void tell(void) {
    char text[64];
    int length = snprintf(text, sizeof text, "[%d writes, %d writev]\n", writes, gathers);
    if (write(1, text, (size_t)length) < 0) writes = 0;
}
