/* What the test programs share: stop at an unexpected code, functions that stay visible in stacks, and a program of
 * several parts, chosen by its first argument. */
#ifndef CHECK_H
#define CHECK_H

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define MIB ((size_t)1 << 20)
#define GIB ((size_t)1 << 30)

/* A function that has a frame of its own. */
#define SITE __attribute__((noinline))

/* The call must answer this code. */
#define EXPECT(wanted, call)                                                                       \
    do {                                                                                           \
        int code_ = (int)(call);                                                                   \
        if (code_ != (wanted)) {                                                                   \
            fprintf(stderr, "%s:%d: %s gives %d\n", __FILE__, __LINE__, #call, code_);             \
            exit(99);                                                                              \
        }                                                                                          \
    } while (0)

/* The call must succeed. */
#define CHECK(call) EXPECT(0, call)

/* The condition must hold. */
#define REQUIRE(condition) EXPECT(1, (condition) ? 1 : 0)

/* Lets time go by, for what is due some time after an event. */
static inline void wait_ms(long ms) {
    struct timespec rest = {ms / 1000, ms % 1000 * 1000000};
    while (nanosleep(&rest, &rest) != 0 && errno == EINTR) {}
}

/* Whether a library of this file name is mapped. */
static inline int is_loaded(const char *name) {
    char line[4096];
    int found = 0;
    FILE *maps = fopen("/proc/self/maps", "r");
    REQUIRE(maps != NULL);
    while (fgets(line, sizeof line, maps) != NULL) found |= strstr(line, name) != NULL;
    fclose(maps);
    return found;
}

struct part {
    const char *name;
    void (*run)(void);
};

/* Runs the part of this name. */
static inline void run_part(const struct part *parts, size_t count, const char *name) {
    for (size_t at = 0; at < count; at++) {
        if (name != NULL && strcmp(parts[at].name, name) == 0) {
            parts[at].run();
            return;
        }
    }
    fprintf(stderr, "no part %s\n", name != NULL ? name : "named");
    exit(98);
}

#define PARTS(...)                                                                                 \
    static const struct part parts[] = {__VA_ARGS__};                                              \
    run_part(parts, sizeof parts / sizeof *parts, argv[1])

#endif
