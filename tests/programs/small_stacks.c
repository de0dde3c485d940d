/* Stacks that are not what a thread usually has: small_stacks fibres | thread BYTES | exit. */
#include "driver.h"

#include <limits.h>
#include <pthread.h>
#include <sys/mman.h>

SITE static CUdeviceptr take(size_t size) {
    CUdeviceptr block = 0;
    CHECK(CU(cuMemAlloc)(&block, size));
    __asm__ volatile("" : : "r"(&block) : "memory");
    return block;
}

#ifdef __x86_64__
/* Fibres as many libraries have them: the only word above a fibre's first frame is where it goes when it ends. */
void *back_to;
extern void fibre_ends(void);
extern void begin_on(void *stack, void (*entry)(void));
__asm__(".text\n"
        ".type fibre_ends, @function\n"
        "fibre_ends:\n.cfi_startproc\nnop\nmov back_to(%rip), %rsp\nret\n.cfi_endproc\n.size fibre_ends, . - fibre_ends\n"
        ".type begin_on, @function\n"
        "begin_on:\n.cfi_startproc\n"
        "push %rbp\npush %rbx\npush %r12\npush %r13\npush %r14\npush %r15\nsub $8, %rsp\n"
        "call 1f\n"
        "add $8, %rsp\npop %r15\npop %r14\npop %r13\npop %r12\npop %rbx\npop %rbp\nret\n"
        "1: mov %rsp, back_to(%rip)\nmov %rdi, %rsp\njmp *%rsi\n"
        ".cfi_endproc\n.size begin_on, . - begin_on\n");

SITE static void deep(void) {
    volatile char room[200 << 10];
    room[0] = 1;
    take(MIB);
    room[1] = room[0];
}

static void flat(void) {
    take(2 * MIB);
}

static void run_on(char *end, void (*entry)(void)) {
    void **stack = (void **)end;
    *--stack = (char *)fibre_ends + 1;
    begin_on(stack, entry);
}

/* A large stack is given back, and a smaller one lies where it lay. */
static void fibres(void) {
    size_t large = 256 << 10, small = 64 << 10;
    int flags = MAP_PRIVATE | MAP_ANONYMOUS;
    /* Before the driver is loaded, so that the stack lies right below everything else that is mapped. */
    char *first = mmap(NULL, large, PROT_READ | PROT_WRITE, flags, -1, 0);
    REQUIRE(first != MAP_FAILED);
    open_driver("dlsym");
    use_device(0);
    run_on(first + large, deep);
    CHECK(munmap(first, large));
    char *second = mmap(first, small, PROT_READ | PROT_WRITE, flags | MAP_FIXED, -1, 0);
    REQUIRE(second == first);
    run_on(second + small, flat);
}
#else
static void fibres(void) {
    open_driver("dlsym");
    use_device(0);
    take(MIB);
    take(2 * MIB);
}
#endif

static void *in_thread(void *unused) {
    use_device(0);
    take(MIB);
    take(2 * MIB);
    return unused;
}

static void at_exit(void) {
    take(512);
}

int main(int argc, char **argv) {
    REQUIRE(argc >= 2);
    if (strcmp(argv[1], "fibres") == 0) {
        fibres();
    } else if (strcmp(argv[1], "exit") == 0) {
        open_driver("dlsym");
        use_device(0);
        CHECK(atexit(at_exit));
        take((size_t)1 << 30);
    } else {
        REQUIRE(argc == 3);
        open_driver("dlsym");
        use_device(0);
        pthread_attr_t attributes;
        pthread_t thread;
        CHECK(pthread_attr_init(&attributes));
        CHECK(pthread_attr_setstacksize(&attributes, strtoul(argv[2], NULL, 10)));
        CHECK(pthread_create(&thread, &attributes, in_thread, NULL));
        CHECK(pthread_join(thread, NULL));
    }
    puts("ok");
    return 0;
}
