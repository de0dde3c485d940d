/* A stand-in for PyTorch's cache of device memory. Built twice: as libc10.so (-DC10), which has the functions that the cache
 * reports to, and as libc10_cuda.so, which asks the runtime for segments and hands out blocks of them by best fit, as the real
 * one does: sizes are rounded to 512, small requests come from 2 MiB segments, medium ones from 20 MiB, large ones get a
 * segment rounded to 2 MiB; a rest is split off; neighbours that are free are joined. It calls the report functions by their
 * exported names, with the lock held. */
#include <pthread.h>
#include <stdint.h>
#include <stdlib.h>

#ifndef REPORT
#define REPORT "_ZN3c1027reportMemoryUsageToProfilerEPvlmmNS_6DeviceE"
#define REFUSE "_ZN3c1027reportOutOfMemoryToProfilerElmmNS_6DeviceE"
#endif

typedef struct { int8_t type, index; } Device;

void report(void *block, int64_t size, size_t allocated, size_t reserved, Device device) __asm__(REPORT);
void refuse(int64_t size, size_t allocated, size_t reserved, Device device) __asm__(REFUSE);

#ifdef C10

static uint64_t reports, refusals;
uint64_t cache_reports(void) { return reports; }
uint64_t cache_refusals(void) { return refusals; }

void report(void *block, int64_t size, size_t allocated, size_t reserved, Device device) {
    (void)size, (void)allocated, (void)reserved;
    if (block != NULL && device.type == 1) reports++;
}

void refuse(int64_t size, size_t allocated, size_t reserved, Device device) {
    (void)allocated, (void)reserved;
    if (size > 0 && device.type == 1) refusals++;
}

#else

#include "torch_cache.h"

#include <cuda_runtime.h>

#define MIB ((size_t)1 << 20)

typedef struct Block {
    char *at;
    size_t size;
    int used, small;
    struct Block *before, *after; /* in the segment */
    struct Block *next;           /* in the list of all */
} Block;

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static Block *all;
static size_t allocated, allocated_peak, reserved, reserved_peak, limit = SIZE_MAX;

static Device device(void) {
    int index = 0;
    cudaGetDevice(&index);
    return (Device){1, (int8_t)index};
}

static size_t rounded(size_t size) {
    return size < 512 ? 512 : (size + 511) / 512 * 512;
}

static size_t segment_for(size_t size) {
    if (size <= MIB) return 2 * MIB;
    if (size < 10 * MIB) return 20 * MIB;
    return (size + 2 * MIB - 1) / (2 * MIB) * (2 * MIB);
}

static void give_back_idle(void) {
    for (Block **place = &all; *place != NULL;) {
        Block *block = *place;
        if (!block->used && block->before == NULL && block->after == NULL) {
            cudaFree(block->at);
            reserved -= block->size;
            *place = block->next;
            free(block);
        } else {
            place = &block->next;
        }
    }
}

static Block *best_fit(size_t size, int small) {
    Block *best = NULL;
    for (Block *block = all; block != NULL; block = block->next)
        if (!block->used && block->small == small && block->size >= size && (best == NULL || block->size < best->size))
            best = block;
    return best;
}

static Block *new_segment(size_t size, int small) {
    size_t bytes = segment_for(size);
    void *at = NULL;
    if (reserved + bytes > limit || cudaMalloc(&at, bytes) != cudaSuccess) return NULL;
    Block *block = calloc(1, sizeof *block);
    *block = (Block){.at = at, .size = bytes, .small = small, .next = all};
    all = block;
    reserved += bytes;
    if (reserved > reserved_peak) reserved_peak = reserved;
    return block;
}

static void split(Block *block, size_t size) {
    size_t rest = block->size - size;
    if (block->small ? rest < 512 : rest <= MIB) return;
    Block *right = calloc(1, sizeof *right);
    *right = (Block){.at = block->at + size, .size = rest, .small = block->small, .before = block, .after = block->after, .next = all};
    all = right;
    if (right->after != NULL) right->after->before = right;
    block->after = right;
    block->size = size;
}

void *cache_malloc(size_t bytes) {
    size_t size = rounded(bytes);
    int small = size <= MIB;
    pthread_mutex_lock(&lock);
    Block *block = best_fit(size, small);
    if (block == NULL) block = new_segment(size, small);
    if (block == NULL) {
        give_back_idle();
        block = new_segment(size, small);
    }
    if (block == NULL) {
        refuse((int64_t)size, allocated, reserved, device());
        pthread_mutex_unlock(&lock);
        return NULL;
    }
    split(block, size);
    block->used = 1;
    allocated += block->size;
    if (allocated > allocated_peak) allocated_peak = allocated;
    report(block->at, (int64_t)block->size, allocated, reserved, device());
    pthread_mutex_unlock(&lock);
    return block->at;
}

static void forget(Block *gone) {
    Block **place = &all;
    while (*place != gone) place = &(*place)->next;
    *place = gone->next;
    free(gone);
}

static void join_with_next(Block *block) {
    Block *next = block->after;
    if (next == NULL || next->used) return;
    block->size += next->size;
    block->after = next->after;
    if (next->after != NULL) next->after->before = block;
    forget(next);
}

void cache_free(void *at) {
    pthread_mutex_lock(&lock);
    Block *block = all;
    while (block != NULL && !(block->used && block->at == at)) block = block->next;
    if (block == NULL) abort();
    block->used = 0;
    allocated -= block->size;
    report(at, -(int64_t)block->size, allocated, reserved, device());
    join_with_next(block);
    if (block->before != NULL && !block->before->used) join_with_next(block->before);
    pthread_mutex_unlock(&lock);
}

void cache_empty(void) {
    pthread_mutex_lock(&lock);
    give_back_idle();
    pthread_mutex_unlock(&lock);
}

void cache_limit(size_t bytes) { limit = bytes; }
size_t cache_allocated(void) { return allocated; }
size_t cache_allocated_peak(void) { return allocated_peak; }
size_t cache_reserved(void) { return reserved; }
size_t cache_reserved_peak(void) { return reserved_peak; }

size_t cache_largest_hole(void) {
    size_t largest = 0;
    for (Block *block = all; block != NULL; block = block->next)
        if (!block->used && block->size > largest) largest = block->size;
    return largest;
}

size_t cache_segments(void) {
    size_t count = 0;
    for (Block *block = all; block != NULL; block = block->next) count += block->before == NULL;
    return count;
}

#endif
