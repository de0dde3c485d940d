/* What programs need of the stand-in for PyTorch's cache (torch_cache.c). */
#pragma once
#include <stddef.h>
#include <stdint.h>

void *cache_malloc(size_t bytes);
void cache_free(void *block);
/* Gives wholly idle segments back, as torch.cuda.empty_cache() does. */
void cache_empty(void);
/* Refuses to hold more, as torch.cuda.set_per_process_memory_fraction() has it. */
void cache_limit(size_t bytes);
size_t cache_allocated(void), cache_allocated_peak(void);
size_t cache_reserved(void), cache_reserved_peak(void);
size_t cache_largest_hole(void), cache_segments(void);
/* Calls of the framework's own report functions (what its profiler would see). */
uint64_t cache_reports(void), cache_refusals(void);
