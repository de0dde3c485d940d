/* Two libraries, each with a runtime of its own: two_runtimes local|global. */
#define _GNU_SOURCE
#include "check.h"

#include <dlfcn.h>

struct plugin {
    int (*allocate)(size_t);
    int (*last_error)(void);
    int (*version)(void);
};

static void *function(void *library, const char *name) {
    void *found = dlsym(library, name);
    REQUIRE(found != NULL);
    return found;
}

static void *library(const char *name, int flags) {
    void *handle = dlopen(name, RTLD_NOW | flags);
    if (handle == NULL) fprintf(stderr, "%s\n", dlerror());
    REQUIRE(handle != NULL);
    return handle;
}

int main(int argc, char **argv) {
    REQUIRE(argc == 2);
    int flags = strcmp(argv[1], "global") == 0 ? RTLD_GLOBAL : RTLD_LOCAL;
    void *older = library("libolder.so", flags), *newer = library("libnewer.so", flags);
    struct plugin a = {function(older, "older_allocate"), function(older, "older_last_error"),
                       function(older, "older_version")};
    struct plugin b = {function(newer, "newer_allocate"), function(newer, "newer_last_error"),
                       function(newer, "newer_version")};
    CHECK(a.allocate(1 * MIB));
    CHECK(b.allocate(2 * MIB));
    /* Each failure is the last error of the runtime that was asked, and of no other. */
    EXPECT(2, a.allocate(1024 * GIB));
    CHECK(b.last_error());
    EXPECT(2, a.last_error());
    EXPECT(2, b.allocate(1024 * GIB));
    CHECK(a.last_error());
    EXPECT(2, b.last_error());
    printf("%d %d\n", a.version(), b.version());
    return 0;
}
