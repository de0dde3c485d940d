/* A preloaded allocator that finds the next one by dlsym, and tells whether anybody allocated while that look-up was
 * under way (but for dlsym itself, which may ask for a little). */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

typedef void *(*malloc_t)(size_t);
typedef void *(*calloc_t)(size_t, size_t);
typedef void *(*realloc_t)(void *, size_t);
typedef void (*free_t)(void *);

static malloc_t next_malloc;
static calloc_t next_calloc;
static realloc_t next_realloc;
static free_t next_free;
static int looking, asked;

static char arena[1 << 16];
static size_t used;

static void *from_arena(size_t size) {
    asked++;
    size_t at = used;
    used += (size + 15) & ~(size_t)15;
    return used <= sizeof arena ? arena + at : NULL;
}

static void find(void) {
    looking = 1;
    next_malloc = (malloc_t)dlsym(RTLD_NEXT, "malloc");
    next_calloc = (calloc_t)dlsym(RTLD_NEXT, "calloc");
    next_realloc = (realloc_t)dlsym(RTLD_NEXT, "realloc");
    next_free = (free_t)dlsym(RTLD_NEXT, "free");
    looking = 0;
}

static int ready(void) {
    if (next_free == NULL && !looking) find();
    return !looking;
}

void *malloc(size_t size) {
    return ready() ? next_malloc(size) : from_arena(size);
}

void *calloc(size_t count, size_t size) {
    return ready() ? next_calloc(count, size) : from_arena(count * size);
}

void *realloc(void *block, size_t size) {
    if (block == NULL) return malloc(size);
    if ((char *)block < arena || (char *)block >= arena + sizeof arena)
        return ready() ? next_realloc(block, size) : NULL;
    void *bigger = malloc(size);
    if (bigger != NULL) memcpy(bigger, block, size < 256 ? size : 256);
    return bigger;
}

void free(void *block) {
    if ((char *)block >= arena && (char *)block < arena + sizeof arena) return;
    if (ready()) next_free(block);
}

__attribute__((destructor)) static void tell(void) {
    char line[64];
    int length = snprintf(line, sizeof line, "asked %d times meanwhile\n", asked);
    if (write(1, line, (size_t)length) != length) _exit(96);
}
