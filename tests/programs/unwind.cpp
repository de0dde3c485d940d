/* Stacks of every kind, each handed to unwind_check (linked in), which ends the process where our unwinder and libgcc's
 * differ. Prints "KIND checks frames left", where `left` counts the stacks that our own walk left to libgcc's. */
#include <alloca.h>
#include <dlfcn.h>
#include <ftw.h>
#include <link.h>
#include <pthread.h>
#include <search.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <ucontext.h>
#include <unistd.h>

#include <functional>
#include <map>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

extern "C" long unwind_check(void);

#define SITE __attribute__((noinline, noclone))
#define KEEP __asm__ volatile("" ::: "memory")

/* What is put here is not optimised away. */
static volatile unsigned long sink;

static thread_local long checks, frames, left;

static SITE void check() {
    long found = unwind_check();
    checks++;
    if (found < 0) {
        left++;
        found = -found;
    }
    frames += found;
    KEEP;
}

static void tell(const char *kind) {
    printf("%s %ld %ld %ld\n", kind, checks, frames, left);
    fflush(stdout);
    checks = frames = left = 0;
}

/* Frames of many sizes, with saved registers and without. */
template <int N> SITE void sized(int depth) {
    volatile char room[N * 24 + 1];
    room[0] = (char)depth;
    if (depth == 0)
        check();
    else if (depth % 3 == 0)
        sized<(N * 7 + 3) % 23>(depth - 1);
    else
        sized<(N * 5 + 1) % 19>(depth - 1);
    KEEP;
    room[N] = room[0];
}

/* A frame whose size is known only when it runs. */
static SITE void variable(int depth) {
    volatile char *room = (char *)alloca((size_t)(depth % 7) * 33 + 1);
    room[0] = 1;
    if (depth == 0)
        check();
    else
        variable(depth - 1);
    KEEP;
}

/* Realigned, with a variable part as well: the caller's frame is found through a saved pointer. */
static SITE void realigned(int depth) {
    alignas(128) volatile char room[256];
    volatile char *more = (char *)alloca((size_t)(depth % 5) * 40 + 1);
    room[depth] = more[0] = 1;
    if (depth == 0)
        check();
    else
        realigned(depth - 1);
    KEEP;
    sink += (unsigned long)room[depth];
}

/* The same depth again and again, and then another function in the same place. */
static SITE void one() {
    check();
    sink = sink + 1;
}

static SITE void other() {
    check();
    sink = sink + 2;
}

static SITE void around(void (*site)(), int times) {
    for (int i = 0; i < times; i++) site();
    sink = sink + 1;
}

static void repeats() {
    for (int round = 0; round < 8; round++) {
        around(one, 1 + round % 4);
        around(other, 1 + round % 3);
        for (void (*site)() : {one, other, other, one, one, one, other}) site();
    }
}

static int compare(const void *a, const void *b) {
    check();
    return *(const int *)a - *(const int *)b;
}

static void visit(const void *, VISIT, int) { check(); }

static int look(const char *, const struct stat *, int, struct FTW *) {
    check();
    return 0;
}

static int object(struct dl_phdr_info *, size_t, void *) { return 0; }

static void callbacks() {
    int numbers[64];
    for (int at = 0; at < 64; at++) numbers[at] = at * 37 % 64;
    qsort(numbers, 64, sizeof *numbers, compare);
    int key = 17;
    bsearch(&key, numbers, 64, sizeof *numbers, compare);
    void *tree = nullptr;
    for (int &number : numbers) tsearch(&number, &tree, compare);
    twalk(tree, visit);
    for (int &number : numbers) tdelete(&number, &tree, compare);
    nftw("/etc/apt", look, 8, FTW_PHYS);
    dl_iterate_phdr(object, nullptr);
}

static SITE void functional(int depth, const std::function<void()> &work) {
    std::map<int, int> map;
    map[depth] = depth;
    if (depth == 0)
        work();
    else
        functional(depth - 1, [&] { work(); });
    KEEP;
}

struct Guard {
    ~Guard() { check(); }
};

static SITE void thrower(int depth) {
    Guard guard;
    if (depth == 0) throw std::runtime_error("x");
    thrower(depth - 1);
    KEEP;
}

static void exceptions() {
    for (int depth = 0; depth < 20; depth++) {
        try {
            thrower(depth);
        } catch (const std::exception &) {
            check();
        }
    }
}

static void handler(int) { check(); }

static SITE void raises(int depth) {
    if (depth == 0)
        raise(SIGUSR1);
    else
        raises(depth - 1);
    KEEP;
}

static volatile sig_atomic_t ticks;
static void tick(int) {
    ticks = ticks + 1;
    check();
}

/* The signal comes at any instruction: in prologues, epilogues, in libc, in the linkage table. */
static SITE unsigned long busy(int depth) {
    if (depth == 0) {
        char text[64];
        snprintf(text, sizeof text, "%lx", (unsigned long)random());
        return strlen(text);
    }
    return busy(depth - 1) + 1;
}

static void signals(bool on_alternate_stack) {
    static char room[1 << 17];
    stack_t stack = {};
    stack.ss_sp = room;
    stack.ss_size = sizeof room;
    if (on_alternate_stack) sigaltstack(&stack, nullptr);
    struct sigaction action = {};
    action.sa_handler = handler;
    action.sa_flags = on_alternate_stack ? SA_ONSTACK : 0;
    sigaction(SIGUSR1, &action, nullptr);
    for (int depth = 0; depth < 40; depth++) raises(depth);
    if (on_alternate_stack) {
        stack.ss_flags = SS_DISABLE;
        sigaltstack(&stack, nullptr);
    }
}

static void instructions() {
    struct sigaction action = {};
    action.sa_handler = tick;
    sigaction(SIGALRM, &action, nullptr);
    timer_t timer;
    struct sigevent event = {};
    event.sigev_notify = SIGEV_SIGNAL;
    event.sigev_signo = SIGALRM;
    timer_create(CLOCK_MONOTONIC, &event, &timer);
    struct itimerspec every = {{0, 50000}, {0, 50000}};
    timer_settime(timer, 0, &every, nullptr);
    while (ticks < 1500) sink += busy((int)(sink % 30));
    timer_delete(timer);
    signal(SIGALRM, SIG_IGN);
}

static ucontext_t scheduler, coroutine;
static void body() {
    for (int round = 0; round < 10; round++) {
        sized<3>(round);
        variable(round);
        swapcontext(&coroutine, &scheduler);
    }
}

static const size_t stack_size = 1 << 16;

static SITE void coroutine_on(void *stack) {
    getcontext(&coroutine);
    coroutine.uc_stack.ss_sp = stack;
    coroutine.uc_stack.ss_size = stack_size;
    coroutine.uc_link = &scheduler;
    makecontext(&coroutine, body, 0);
    for (volatile int round = 0; round < 10; round = round + 1) {
        swapcontext(&scheduler, &coroutine);
        sized<2>(round);
    }
    swapcontext(&scheduler, &coroutine);
}

/* On the heap, and in a mapping of its own that goes when it has ended. */
static void coroutines() {
    for (int number = 0; number < 10; number++) {
        void *stack = malloc(stack_size);
        coroutine_on(stack);
        free(stack);
        stack = mmap(nullptr, stack_size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        coroutine_on(stack);
        munmap(stack, stack_size);
    }
}

/* Code made at run time: push %rbp; mov %rsp, %rbp; call *%rdi; pop %rbp; ret */
static void (*made())(void (*)()) {
    static const unsigned char code[] = {0x55, 0x48, 0x89, 0xe5, 0xff, 0xd7, 0x5d, 0xc3};
    void *page = mmap(nullptr, 4096, PROT_READ | PROT_WRITE | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    memcpy(page, code, sizeof code);
    return (void (*)(void (*)()))page;
}

extern "C" void __register_frame(void *);
extern "C" void __deregister_frame(void *);

/* Unwind information for such code, as a compiler at run time registers it. */
static std::vector<unsigned char> information(const void *code) {
    std::vector<unsigned char> bytes = {
        20, 0, 0, 0, 0, 0, 0, 0, 1, 0, 1, 0x78, 16, 0x0c, 7, 8, 0x90, 1, 0, 0, 0, 0, 0, 0,
        28, 0, 0, 0, 28, 0, 0, 0,
    };
    auto put = [&](uint64_t value) {
        for (int at = 0; at < 8; at++) bytes.push_back((unsigned char)(value >> at * 8));
    };
    put((uint64_t)code);
    put(8);
    for (unsigned char byte : {0x41, 0x0e, 0x10, 0x86, 0x02, 0x43, 0x0d, 0x06}) bytes.push_back(byte);
    for (int at = 0; at < 4; at++) bytes.push_back(0);
    return bytes;
}

static void compiled(bool is_registered) {
    for (int number = 0; number < 10; number++) {
        auto call = made();
        auto bytes = information((void *)call);
        if (is_registered) __register_frame(bytes.data());
        for (int round = 0; round < 5; round++) call(check);
        if (is_registered) __deregister_frame(bytes.data());
        /* The same place without information, or as it was: neither may be remembered. */
        for (int round = 0; round < 2; round++) call(check);
        munmap((void *)call, 4096);
    }
}

static void at_thread_end(void *) { check(); }

static void threads() {
    long sums[3] = {};
    for (int number = 0; number < 50; number++) {
        std::thread([&, number] {
            sized<4>(number % 20);
            static pthread_key_t key;
            static pthread_once_t once = PTHREAD_ONCE_INIT;
            pthread_once(&once, [] { pthread_key_create(&key, at_thread_end); check(); });
            pthread_setspecific(key, &key);
            sums[0] += checks, sums[1] += frames, sums[2] += left;
        }).join();
    }
    checks += sums[0], frames += sums[1], left += sums[2];
}

/* A library that checks in its constructor (the loader's own frames) and in a function, opened and closed: others come to
 * lie where it lay. */
static void opened(int count, char **paths) {
    for (int round = 0; round < 60; round++) {
        void *library = dlopen(paths[round % count], RTLD_NOW);
        if (!library) {
            fprintf(stderr, "%s\n", dlerror());
            exit(1);
        }
        auto enter = (void (*)(void (*)(), int))dlsym(library, "enter");
        for (int depth = 0; depth < 8; depth++) enter(check, depth);
        dlclose(library);
    }
}

extern "C" void checked(void) { check(); }

int main(int argc, char **argv) {
    for (int depth = 0; depth < 60; depth++) sized<5>(depth);
    tell("sized");
    for (int depth = 0; depth < 60; depth++) variable(depth);
    tell("variable");
    for (int depth = 0; depth < 60; depth++) realigned(depth);
    tell("realigned");
    repeats();
    tell("repeats");
    callbacks();
    tell("callbacks");
    for (int depth = 0; depth < 40; depth++) functional(depth, check);
    tell("functional");
    exceptions();
    tell("exceptions");
    signals(false);
    tell("signals");
    signals(true);
    tell("alternate");
    instructions();
    tell("instructions");
    coroutines();
    tell("coroutines");
    compiled(false);
    tell("compiled");
    compiled(true);
    tell("registered");
    threads();
    tell("threads");
    opened(argc - 1, argv + 1);
    tell("opened");
    return 0;
}
