/* The naked stubs of the doors, assembled as they are, with C functions in the places of ours: do arguments, return
 * address and answers come through, and can an unwinder walk through them? */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unwind.h>

#define CHECK(what) do { if (!(what)) { fprintf(stderr, "line %d: %s\n", __LINE__, #what); exit(1); } } while (0)

struct decision { const void *answer; size_t decided; };

void *stub_dlsym(void *handle, const char *name);
long stub_runtime(long a, long b, long c, long d, long e, long f, long g, long h);

static int decide_yes;
static int frames_seen;
static void *seen_return;

static _Unwind_Reason_Code count(struct _Unwind_Context *context, void *found) {
    extern int main(void);
    void *function = _Unwind_FindEnclosingFunction((void *)_Unwind_GetIP(context));
    frames_seen++;
    if (function == (void *)main) *(int *)found = 1;
    return _URC_NO_REASON;
}

/* True if main is found on the way out. */
static int main_is_reached(void) {
    int found = 0;
    _Unwind_Backtrace(count, &found);
    return found;
}

struct decision decide(void *handle, const char *name) {
    CHECK(handle == (void *)0x1234 && strcmp(name, "cuMemAlloc_v2") == 0);
    CHECK(main_is_reached());
    struct decision decision = {decide_yes == 1 ? (void *)0x77 : NULL, decide_yes != 0};
    return decision;
}

static void *real_dlsym(void *handle, const char *name) {
    CHECK(handle == (void *)0x1234 && strcmp(name, "cuMemAlloc_v2") == 0);
    seen_return = __builtin_return_address(0);
    CHECK(main_is_reached());
    return (void *)0x99;
}
void *(*REAL)(void *, const char *) = real_dlsym;

static void *asked_return;

static long runtime(long a, long b, long c, long d, long e, long f, long g, long h) {
    CHECK(a == 1 && b == 2 && c == 3 && d == 4 && e == 5 && f == 6 && g == 7 && h == 8);
    CHECK(__builtin_return_address(0) == asked_return);
    CHECK(main_is_reached());
    return 55;
}

const void *target(uint16_t row, void *return_address) {
    CHECK(row == 300);
    asked_return = return_address;
    CHECK(main_is_reached());
    return (const void *)runtime;
}

int main(void) {
    decide_yes = 0;
    CHECK(stub_dlsym((void *)0x1234, "cuMemAlloc_v2") == (void *)0x99);
    void *function = _Unwind_FindEnclosingFunction(seen_return);
    CHECK(function == (void *)main);
    decide_yes = 1;
    CHECK(stub_dlsym((void *)0x1234, "cuMemAlloc_v2") == (void *)0x77);
    decide_yes = 2;
    CHECK(stub_dlsym((void *)0x1234, "cuMemAlloc_v2") == NULL);
    CHECK(stub_runtime(1, 2, 3, 4, 5, 6, 7, 8) == 55);
    CHECK(_Unwind_FindEnclosingFunction(asked_return) == (void *)main);
    CHECK(frames_seen > 0);
    puts("stubs: right");
    return 0;
}
