/* How signals and exec end processes: deaths PART. Every part holds 3 MiB when it ends. */
#include "check.h"

#include <cuda_runtime.h>
#include <exception>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <spawn.h>
#include <stdexcept>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

/* sigset is old, and programs that use it are, too. */
#pragma GCC diagnostic ignored "-Wdeprecated-declarations"

extern char **environ;

extern "C" SITE void *take(size_t size) {
    void *block = nullptr;
    CHECK(cudaMalloc(&block, size));
    return block;
}

/* Written by handlers: no buffers. */
static void say(const char *text) { REQUIRE(write(1, text, strlen(text)) == (ssize_t)strlen(text)); }

/* --- signals with their default action --- */

static void raises(int number) { raise(number); }

static void segfaults() {
    volatile int *nowhere = (volatile int *)8;
    *nowhere = 1;
}

static void divides_by_zero() {
    volatile int zero = 0;
    volatile int one = 1;
#if defined(__x86_64__)
    one = one / zero;
#else
    raise(SIGFPE);
#endif
    (void)one;
    (void)zero;
}

static void runs_an_illegal_instruction() { __builtin_trap(); }

static void reads_past_the_file() {
    char name[] = "/tmp/oomhook-test-XXXXXX";
    int file = mkstemp(name);
    REQUIRE(file >= 0 && unlink(name) == 0);
    volatile char *page = (volatile char *)mmap(nullptr, 4096, PROT_READ, MAP_SHARED, file, 0);
    char byte = *page;
    (void)byte;
}

static void is_sent_one(int number) {
    kill(getpid(), number);
    for (;;) pause();
}

static void aborts() { abort(); }

static void throws() { throw std::runtime_error("nobody catches this"); }

static void terminates() {
    std::set_terminate([] {
        say("terminate handler\n");
        _exit(17);
    });
    throw std::runtime_error("nobody catches this");
}

static void terminates_and_aborts() {
    std::set_terminate([] {
        say("terminate handler\n");
        abort();
    });
    throw std::runtime_error("nobody catches this");
}

/* glibc finds its lists broken and aborts with the lock of its heap held. */
static void breaks_the_heap() {
    /* Cut off the end of the heap: what lies behind is its free rest, and says how large it is. */
    size_t size = 100000;
    volatile char *block = nullptr;
    for (int i = 0; i < 50; i++) block = (volatile char *)malloc(size);
    for (int i = 0; i < 64; i++) block[size + i] = 0x7f;
    for (int i = 0; i < 100; i++) {
        void *volatile other = malloc(size);
        (void)other;
    }
    _exit(98);
}

static int too_deep(volatile int *at) {
    volatile int room[1024];
    room[0] = *at + 1;
    if (room[0] < 0) return 0;
    return too_deep(room) + room[0];
}

static char spare[65536];

static void overflows_its_stack() {
    stack_t stack = {};
    stack.ss_sp = spare;
    stack.ss_size = sizeof spare;
    CHECK(sigaltstack(&stack, nullptr));
    volatile int start = 0;
    too_deep(&start);
}

static void *crash(void *unused) {
    segfaults();
    return unused;
}

static void two_threads_crash() {
    pthread_t threads[2];
    for (auto &thread : threads) CHECK(pthread_create(&thread, nullptr, crash, nullptr));
    for (auto thread : threads) pthread_join(thread, nullptr);
}

static void *allocate_for_ever(void *unused) {
    for (;;) {
        void *block = nullptr;
        if (cudaMalloc(&block, 4096) == cudaSuccess) cudaFree(block);
    }
    return unused;
}

static void dies_under_load() {
    pthread_t thread;
    for (int i = 0; i < 3; i++) CHECK(pthread_create(&thread, nullptr, allocate_for_ever, nullptr));
    wait_ms(20);
    is_sent_one(SIGTERM);
}

/* --- handlers of the program's own --- */

static void put_back_and_raise(int number) {
    say("handler\n");
    signal(number, SIG_DFL);
    raise(number);
}

static void handles(int number, int flags, void (*handler)(int)) {
    struct sigaction action = {};
    action.sa_handler = handler;
    action.sa_flags = flags;
    CHECK(sigaction(number, &action, nullptr));
}

static void raise_again(int number) {
    say("once\n");
    raise(number);
}

static void once_with_info(int number, siginfo_t *info, void *context) {
    REQUIRE(info->si_signo == number && context != nullptr);
    say("once with info\n");
    raise(number);
}

static void handler_once_with_info() {
    struct sigaction action = {};
    action.sa_sigaction = once_with_info;
    action.sa_flags = (int)(SA_RESETHAND | SA_SIGINFO);
    CHECK(sigaction(SIGTERM, &action, nullptr));
    struct sigaction now = {};
    CHECK(sigaction(SIGTERM, nullptr, &now));
    REQUIRE(now.sa_sigaction == once_with_info && (now.sa_flags & SA_RESETHAND) && (now.sa_flags & SA_SIGINFO));
    raise(SIGTERM);
}

static void counts(int) { say("handled\n"); }

/* Frees what it can and goes on where it was: nothing has ended. */
static void survives() {
    handles(SIGTERM, 0, counts);
    raise(SIGTERM);
    void *block = take(1 * MIB);
    CHECK(cudaFree(block));
    is_sent_one(SIGINT);
}

static void crash_handler(int number) {
    say("crash handler\n");
    handles(number, 0, SIG_DFL);
    /* Returns to the instruction that faulted. */
}

static void handler_on_its_own_stack() {
    stack_t stack = {};
    stack.ss_sp = spare;
    stack.ss_size = sizeof spare;
    CHECK(sigaltstack(&stack, nullptr));
    handles(SIGSEGV, SA_ONSTACK | (int)SA_RESETHAND, raise_again);
    volatile int start = 0;
    too_deep(&start);
}

/* What the program sees of dispositions is what it set, before and after. */
static void looks() {
    struct sigaction now = {};
    for (int number : {SIGHUP, SIGINT, SIGQUIT, SIGILL, SIGABRT, SIGBUS, SIGFPE, SIGSEGV, SIGTERM, SIGUSR1, SIGPIPE}) {
        CHECK(sigaction(number, nullptr, &now));
        REQUIRE(now.sa_handler == SIG_DFL);
        printf("%d %x %d\n", number, now.sa_flags, sigismember(&now.sa_mask, SIGUSR2));
        REQUIRE(signal(number, counts) == SIG_DFL);
        REQUIRE(signal(number, SIG_IGN) == counts);
        REQUIRE(signal(number, SIG_DFL) == SIG_IGN);
        struct sigaction set = {};
        set.sa_handler = SIG_DFL;
        set.sa_flags = SA_NODEFER;
        sigaddset(&set.sa_mask, SIGUSR2);
        sigaddset(&set.sa_mask, SIGKILL);
        CHECK(sigaction(number, &set, &now));
        printf("%d %x\n", number, now.sa_flags);
        CHECK(sigaction(number, nullptr, &now));
        printf("%d %x %d %d\n", number, now.sa_flags, sigismember(&now.sa_mask, SIGUSR2), sigismember(&now.sa_mask, SIGKILL));
        REQUIRE(now.sa_handler == SIG_DFL);
    }
    REQUIRE(sigset(SIGTERM, counts) == SIG_DFL);
    REQUIRE(sigset(SIGTERM, SIG_DFL) == counts);
    REQUIRE(sigset(SIGTERM, SIG_HOLD) == SIG_DFL);
    REQUIRE(sigset(SIGTERM, SIG_DFL) == SIG_HOLD);
    CHECK(siginterrupt(SIGTERM, 1));
    REQUIRE(signal(SIGTERM, counts) == SIG_DFL);
    CHECK(sigaction(SIGTERM, nullptr, &now));
    printf("interrupting %x\n", now.sa_flags);
    signal(SIGTERM, SIG_DFL);
    EXPECT(-1, sigaction(SIGKILL, &now, nullptr));
    EXPECT(-1, sigaction(99, nullptr, &now));
    REQUIRE(signal(SIGKILL, counts) == SIG_ERR && errno == EINVAL);
    REQUIRE(signal(-1, counts) == SIG_ERR && errno == EINVAL);
    fflush(stdout);
    raise(SIGHUP);
}

static void ignores() {
    signal(SIGTERM, SIG_IGN);
    raise(SIGTERM);
    sigset_t set;
    sigemptyset(&set);
    sigaddset(&set, SIGINT);
    CHECK(sigprocmask(SIG_BLOCK, &set, nullptr));
    raise(SIGINT);
    sigset_t waiting;
    CHECK(sigpending(&waiting));
    REQUIRE(sigismember(&waiting, SIGINT));
    int number = 0;
    CHECK(sigwait(&set, &number));
    say("waited\n");
    raise(SIGUSR1);
}

/* Without a handler the kernel keeps these from the first process of a container. */
static void is_the_first_process() {
    REQUIRE(getpid() == 1);
    for (int number : {SIGTERM, SIGINT, SIGABRT}) {
        struct sigaction now = {};
        CHECK(sigaction(number, nullptr, &now));
        REQUIRE(now.sa_handler == SIG_DFL);
        CHECK(kill(1, number));
    }
    say("lives on after 15, 2, 6\n");
    segfaults();
}

/* --- ends in the middle of things --- */

static void exits_at_once(int) { _exit(5); }
static void exits(int) { exit(6); }

static void leaves_from_a_broken_heap(void (*handler)(int)) {
    signal(SIGABRT, handler);
    breaks_the_heap();
}

static void ends_at_once_under_load() {
    pthread_t thread;
    for (int i = 0; i < 8; i++) CHECK(pthread_create(&thread, nullptr, allocate_for_ever, nullptr));
    wait_ms(30);
    _exit(9);
}

static void *asks_for_the_end(void *) {
    for (;;) kill(getpid(), SIGTERM);
}

/* The signal comes while the process ends by itself: before, in the middle of it, or after. */
static void is_terminated_while_it_exits() {
    pthread_t thread;
    CHECK(pthread_create(&thread, nullptr, asks_for_the_end, nullptr));
    exit(12);
}

static void raises_in_a_child(int number) {
    say("child's handler\n");
    _exit(number);
}

/* The child of vfork runs a handler that the kernel is to forget; the parent's is still there after. */
static void once_in_a_child() {
    handles(SIGUSR1, (int)SA_RESETHAND, raises_in_a_child);
    pid_t child = vfork();
    if (child == 0) {
        raise(SIGUSR1);
        _exit(1);
    }
    int status = 0;
    REQUIRE(waitpid(child, &status, 0) == child && WIFEXITED(status) && WEXITSTATUS(status) == SIGUSR1);
    struct sigaction now = {};
    CHECK(sigaction(SIGUSR1, nullptr, &now));
    REQUIRE(now.sa_handler == raises_in_a_child);
    exit(8);
}

/* A handler that wants more room than the alternate stack has, and does not ask for that. */
static void wants_room(int) {
    volatile char room[65536];
    room[0] = room[65535] = 1;
    say("handled with room\n");
}

static void has_a_small_alternate_stack() {
    stack_t stack = {};
    stack.ss_sp = spare;
    stack.ss_size = 8192;
    CHECK(sigaltstack(&stack, nullptr));
    handles(SIGUSR2, 0, wants_room);
    raise(SIGUSR2);
    exit(3);
}

/* Somebody reads what is written only when it is all over. */
static void writes_into_a_full_pipe() {
    int ends[2];
    CHECK(pipe(ends));
    CHECK(fcntl(ends[1], F_SETFL, O_NONBLOCK));
    char page[4096] = {};
    while (write(ends[1], page, sizeof page) > 0) {}
    CHECK(fcntl(ends[1], F_SETFL, 0));
    REQUIRE(dup2(ends[1], 2) == 2);
    exit(7);
}

/* --- exec --- */

static void executes(int form) {
    char shell[] = "/bin/sh", name[] = "sh", flag[] = "-c", script[] = "echo $0 $1 $2 $3 $4 $5 $VARIABLE; exit 5";
    char zero[] = "zero", a[] = "a", b[] = "b", c[] = "c", d[] = "d", e[] = "e", variable[] = "VARIABLE=set";
    char *list[] = {name, flag, script, zero, a, b, c, d, e, nullptr};
    char *environment[] = {variable, nullptr};
    switch (form) {
    case 0: execv(shell, list); break;
    case 1: execve(shell, list, environment); break;
    case 2: execvp(name, list); break;
    case 3: execvpe(name, list, environment); break;
    case 4: execl(shell, name, flag, script, zero, a, b, c, d, e, (char *)nullptr); break;
    case 5: execlp(name, name, flag, script, zero, a, b, c, d, e, (char *)nullptr); break;
    case 6: execle(shell, name, flag, script, zero, a, b, c, d, e, (char *)nullptr, environment); break;
    case 7: fexecve(open(shell, O_RDONLY | O_CLOEXEC), list, environment); break;
    }
    _exit(97);
}

/* One failing exec right after the other, while another thread works. */
static void fails_again_and_again() {
    pthread_t thread;
    CHECK(pthread_create(&thread, nullptr, allocate_for_ever, nullptr));
    char folder[] = "/tmp/oomhook-test-XXXXXX", name[64];
    REQUIRE(mkdtemp(folder) != nullptr);
    snprintf(name, sizeof name, "%s/busy", folder);
    /* Machine code to all appearance, but open for writing. */
    int file = open(name, O_CREAT | O_WRONLY, 0700);
    REQUIRE(file >= 0 && write(file, "\177ELF", 4) == 4);
    char *list[] = {name, nullptr};
    for (int i = 0; i < 5; i++) {
        EXPECT(-1, execv(name, list));
        EXPECT(ETXTBSY, errno);
    }
    CHECK(unlink(name));
    CHECK(rmdir(folder));
    exit(4);
}

/* A file that may be executed and cannot be. */
static void fails_to_execute() {
    char name[] = "./no-program-XXXXXX";
    int file = mkstemp(name);
    REQUIRE(file >= 0 && write(file, "\177ELF junk", 9) == 9 && fchmod(file, 0700) == 0 && close(file) == 0);
    char *list[] = {name, nullptr};
    EXPECT(-1, execv(name, list));
    EXPECT(ENOEXEC, errno);
    CHECK(unlink(name));
    EXPECT(-1, execl("/nonexistent/program", "program", (char *)nullptr));
    EXPECT(ENOENT, errno);
    EXPECT(-1, execvp("oomhook-no-such-command", list));
    EXPECT(ENOENT, errno);
    CHECK(cudaFree(take(1 * MIB)));
    exit(4);
}

static void spawns() {
    char shell[] = "/bin/sh", flag[] = "-c", script[] = "kill -TERM $$";
    char *list[] = {shell, flag, script, nullptr};
    pid_t child;
    int status = 0;
    CHECK(posix_spawn(&child, shell, nullptr, nullptr, list, environ));
    REQUIRE(waitpid(child, &status, 0) == child && WIFSIGNALED(status) && WTERMSIG(status) == SIGTERM);
    char gone[] = "/nonexistent/program";
    char *none[] = {gone, nullptr};
    EXPECT(ENOENT, posix_spawn(&child, gone, nullptr, nullptr, none, environ));
    child = vfork();
    if (child == 0) {
        execv(gone, none);
        execl(gone, gone, (char *)nullptr);
        _exit(9);
    }
    REQUIRE(waitpid(child, &status, 0) == child && WIFEXITED(status) && WEXITSTATUS(status) == 9);
    child = vfork();
    if (child == 0) {
        signal(SIGTERM, SIG_DFL);
        raise(SIGTERM);
        _exit(10);
    }
    REQUIRE(waitpid(child, &status, 0) == child && WIFSIGNALED(status) && WTERMSIG(status) == SIGTERM);
    child = fork();
    if (child == 0) {
        segfaults();
        _exit(11);
    }
    REQUIRE(waitpid(child, &status, 0) == child && WIFSIGNALED(status) && WTERMSIG(status) == SIGSEGV);
    REQUIRE(system("kill -INT $$") == SIGINT);
    CHECK(cudaFree(take(1 * MIB)));
    exit(6);
}

/* --- at the end --- */

static void *late;

/* Registered before the driver was there: it runs when that is gone already. Then the process is gone without a word. */
static void free_and_end_at_once() {
    if (late == nullptr) return;
    EXPECT(4, cudaFree(late));
    syscall(SYS_exit_group, 21);
}

static void vanishes_in_an_exit_handler() {
    late = take(1 * MIB);
    exit(3);
}

int main(int argc, char **argv) {
    struct rlimit none = {0, 0};
    CHECK(setrlimit(RLIMIT_CORE, &none));
    alarm(60);
    CHECK(atexit(free_and_end_at_once));
    const char *name = argc > 1 ? argv[1] : "";
    static int number = argc > 2 ? atoi(argv[2]) : 0;
    /* Before anything of CUDA is there. */
    if (strcmp(name, "early once") == 0) handles(SIGTERM, (int)SA_RESETHAND, raise_again);
    take(3 * MIB);
    PARTS({"raise", [] { raises(number); }}, {"kill", [] { is_sent_one(number); }}, {"segfault", segfaults},
          {"divide", divides_by_zero}, {"illegal", runs_an_illegal_instruction}, {"past the file", reads_past_the_file},
          {"abort", aborts}, {"throw", throws}, {"terminate", terminates}, {"terminate and abort", terminates_and_aborts},
          {"broken heap", breaks_the_heap}, {"deep", overflows_its_stack}, {"two crash", two_threads_crash},
          {"under load", dies_under_load},
          {"handler", [] { signal(number, put_back_and_raise); raise(number); }},
          {"handler once", [] { handles(number, (int)(SA_RESETHAND | SA_NODEFER), raise_again); raise(number); }},
          {"handler once, deferred", [] { handles(number, (int)SA_RESETHAND, raise_again); raise(number); }},
          {"system v", [] { __sysv_signal(number, raise_again); raise(number); }},
          {"once with info", handler_once_with_info}, {"crash handler", [] { handles(SIGSEGV, 0, crash_handler); segfaults(); }},
          {"own stack", handler_on_its_own_stack}, {"survive", survives}, {"look", looks}, {"ignore", ignores},
          {"exec", [] { executes(number); }}, {"failing exec", fails_to_execute}, {"spawn", spawns},
          {"vanish", vanishes_in_an_exit_handler}, {"first process", is_the_first_process},
          {"early once", [] { raise(SIGTERM); }}, {"heap at once", [] { leaves_from_a_broken_heap(exits_at_once); }},
          {"heap exit", [] { leaves_from_a_broken_heap(exits); }}, {"at once under load", ends_at_once_under_load},
          {"terminated in exit", is_terminated_while_it_exits}, {"once in a child", once_in_a_child},
          {"small stack", has_a_small_alternate_stack}, {"full pipe", writes_into_a_full_pipe},
          {"failing execs", fails_again_and_again});
    return 0;
}
