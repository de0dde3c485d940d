/* NVTX as the header-only library does it: at the first call the library named by NVTX_INJECTION64_PATH is loaded and may
 * replace the functions, which do nothing otherwise. */
#pragma once
#include <dlfcn.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef void (*nvtx_function)(void);

typedef struct {
    uint16_t version, size;
    uint32_t category;
    int32_t color_type;
    uint32_t color;
    int32_t payload_type, reserved;
    uint64_t payload;
    int32_t message_type;
    const void *message;
} nvtx_attributes;

static nvtx_function nvtx_core[16], nvtx_core2[16];
static nvtx_function *nvtx_core_places[17], *nvtx_core2_places[17];

static int nvtx_get_table(int module, nvtx_function ***table, unsigned *size) {
    if (module != 1 && module != 5) return 0;
    nvtx_function *functions = module == 1 ? nvtx_core : nvtx_core2;
    nvtx_function **places = module == 1 ? nvtx_core_places : nvtx_core2_places;
    for (int i = 1; i < 16; i++) places[i] = &functions[i];
    *table = places;
    *size = 16;
    return 1;
}

static struct {
    size_t size;
    int (*get_table)(int, nvtx_function ***, unsigned *);
} nvtx_callbacks = {sizeof nvtx_callbacks, nvtx_get_table};

static const void *nvtx_export_table(uint32_t id) { return id == 1 ? &nvtx_callbacks : NULL; }

/* 1 if somebody was injected. */
static int nvtx_begin(void) {
    const char *path = getenv("NVTX_INJECTION64_PATH");
    if (path == NULL) return 0;
    void *library = dlopen(path, RTLD_LAZY);
    if (library == NULL) return 0;
    int (*inject)(const void *(*)(uint32_t)) = (int (*)(const void *(*)(uint32_t)))dlsym(library, "InitializeInjectionNvtx2");
    return inject != NULL && inject(nvtx_export_table);
}

static int nvtx_push(const char *name) { return nvtx_core[9] != NULL ? ((int (*)(const char *))nvtx_core[9])(name) : -2; }
static int nvtx_pop(void) { return nvtx_core[11] != NULL ? ((int (*)(void))nvtx_core[11])() : -2; }
static void nvtx_mark(const char *name) {
    if (nvtx_core[2] != NULL) ((void (*)(const char *))nvtx_core[2])(name);
}
static uint64_t nvtx_start(const char *name) { return nvtx_core[5] != NULL ? ((uint64_t (*)(const char *))nvtx_core[5])(name) : 0; }
static void nvtx_end(uint64_t range) {
    if (nvtx_core[7] != NULL) ((void (*)(uint64_t))nvtx_core[7])(range);
}
static void *nvtx_domain(const char *name) { return nvtx_core2[12] != NULL ? ((void *(*)(const char *))nvtx_core2[12])(name) : NULL; }
static void *nvtx_register(void *domain, const char *text) {
    return nvtx_core2[10] != NULL ? ((void *(*)(void *, const char *))nvtx_core2[10])(domain, text) : NULL;
}
static int nvtx_domain_push(void *domain, int type, const void *message) {
    nvtx_attributes attributes = {.version = 3, .size = sizeof attributes, .message_type = type, .message = message};
    return nvtx_core2[4] != NULL ? ((int (*)(void *, const nvtx_attributes *))nvtx_core2[4])(domain, &attributes) : -2;
}
static int nvtx_domain_pop(void *domain) { return nvtx_core2[5] != NULL ? ((int (*)(void *))nvtx_core2[5])(domain) : -2; }
