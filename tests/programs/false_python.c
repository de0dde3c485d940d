/* A program that looks like CPython 3.11 from outside and has something else inside: argv[1] says what. Built with
 * -rdynamic. */
#include "driver.h"

#include <stdint.h>
#include <sys/mman.h>

unsigned long Py_Version = 0x030b02f0;
uint64_t _PyRuntime[64], PyCode_Type[52], PyUnicode_Type[52], PyBytes_Type[52];
static uint64_t *state;

int Py_IsInitialized(void) {
    return 1;
}

void *PyGILState_GetThisThreadState(void) {
    return state;
}

static uint64_t at(const void *object) {
    return (uint64_t)(uintptr_t)object;
}

/* A thread with one frame that runs one code object, as 3.11 has them. */
static uint64_t thread[16], mark[3], frame[10], code[24], text[16], bytes[8];

static void make_sound(void) {
    static const char name[] = "sound";
    text[1] = at(PyUnicode_Type);
    text[2] = sizeof name - 1;
    text[4] = 1 << 2 | 1 << 5 | 1 << 6;
    memcpy(&text[6], name, sizeof name);
    bytes[1] = at(PyBytes_Type);
    code[1] = at(PyCode_Type);
    code[14] = code[16] = at(text);
    code[17] = at(bytes);
    frame[4] = at(code);
    frame[7] = at(&code[23]);
    mark[1] = at(frame);
    thread[7] = at(mark);
    state = thread;
}

static void *hole(void) {
    void *page = mmap(NULL, 1 << 16, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    REQUIRE(page != MAP_FAILED);
    return page;
}

/* Words of all kinds, many of them addresses of others. */
static void make_noise(void) {
    enum { WORDS = 1 << 16 };
    static uint64_t words[WORDS];
    uint64_t seed = 1;
    for (size_t index = 0; index < WORDS; index++) {
        seed = seed * 6364136223846793005u + 1442695040888963407u;
        uint64_t random = seed >> 33;
        words[index] = random % 4 ? at(&words[random % (WORDS - 64)]) : random % 8 ? at(PyCode_Type) : seed;
    }
    state = words;
}

SITE void take(void) {
    CUdeviceptr block;
    CHECK(CU(cuMemAlloc)(&block, MIB));
}

int main(int argc, char **argv) {
    REQUIRE(argc == 2);
    const char *what = argv[1];
    make_sound();
    if (strcmp(what, "a cycle") == 0) frame[6] = at(frame);
    if (strcmp(what, "no thread") == 0) state = NULL;
    if (strcmp(what, "no state") == 0) state = hole();
    if (strcmp(what, "no mark") == 0) thread[7] = at(hole());
    if (strcmp(what, "no frame") == 0) mark[1] = at(hole());
    if (strcmp(what, "no code") == 0) frame[4] = at(hole());
    if (strcmp(what, "other code") == 0) code[1] = at(PyBytes_Type);
    if (strcmp(what, "no name") == 0) code[16] = at(hole());
    if (strcmp(what, "odd name") == 0) code[16] = at(text) + 3;
    if (strcmp(what, "a kernel's name") == 0) code[16] = 0xffff800000000000;
    if (strcmp(what, "an endless name") == 0) text[2] = (uint64_t)1 << 60;
    if (strcmp(what, "no lines") == 0) code[17] = at(hole());
    if (strcmp(what, "endless lines") == 0) bytes[2] = (uint64_t)1 << 60;
    if (strcmp(what, "noise") == 0) make_noise();
    by_dlsym();
    use_device(0);
    take();
    take();
    return 0;
}
