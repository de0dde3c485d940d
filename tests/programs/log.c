/* A program that says what it does, in every way there is: log PART. */
#define _GNU_SOURCE
#include "check.h"

#include <cuda.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <sys/time.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>

SITE static CUdeviceptr work(size_t bytes) {
    CUdeviceptr block = 0;
    CHECK(cuMemAlloc(&block, bytes));
    return block;
}

static void give(CUdeviceptr block) { CHECK(cuMemFree(block)); }

static void begin(void) {
    CUcontext context;
    CHECK(cuInit(0));
    CHECK(cuDevicePrimaryCtxRetain(&context, 0));
    CHECK(cuCtxSetCurrent(context));
}

static void say(int fd, const char *text) {
    REQUIRE(write(fd, text, strlen(text)) == (ssize_t)strlen(text));
}

/* Before and after the recording begins, to both streams and to another descriptor. */
static void streams(void) {
    say(1, "before\n");
    begin();
    CUdeviceptr block = work(10 * MIB);
    say(1, "to stdout\n");
    say(2, "to stderr\n");
    int other = open("/dev/null", O_WRONLY);
    REQUIRE(other > 2);
    say(other, "to another\n");
    give(block);
    struct iovec parts[4] = {{"in ", 3}, {"", 0}, {"parts\nand ", 10}, {"another\n", 8}};
    REQUIRE(writev(1, parts, 4) == 21);
    /* As an unsynchronised stream of C++ does it. */
    for (int i = 0; i < 3; i++) {
        say(1, "step=");
        say(1, "7");
        say(1, "\n");
    }
    say(1, "no end");
}

/* Twelve steps; with the eighth the sequences get longer, and memory runs out in the last one. */
static void steps(void) {
    begin();
    CUdeviceptr model = work(1 * GIB);
    char line[128];
    for (int step = 1275; step < 1287; step++) {
        size_t length = step < 1282 ? 1024 : 2048;
        CUdeviceptr block = work(length * MIB);
        give(block);
        snprintf(line, sizeof line, "step=%d loss=%.2f seq_len=%zu\n", step, 3000.0 / step, length);
        say(1, line);
    }
    CUdeviceptr never = 0;
    EXPECT(2, cuMemAlloc(&never, 20 * GIB));
    give(model);
    exit(3);
}

/* The line tells what comes: memory runs out in the first long step. */
static void announced(void) {
    begin();
    work(1 * GIB);
    char line[128];
    for (int step = 0; step < 8; step++) {
        size_t length = step < 7 ? 1 : 16;
        snprintf(line, sizeof line, "step %d: batch_size %zu\n", step, length);
        say(2, line);
        CUdeviceptr block = 0;
        int code = cuMemAlloc(&block, length * GIB);
        if (code != 0) exit(code);
        give(block);
    }
}

/* A healthy run with all that makes its memory move: loading, warming up, an evaluation now and then. */
static void healthy(void) {
    begin();
    char line[128];
    for (int shard = 1; shard <= 8; shard++) {
        work(256 * MIB);
        snprintf(line, sizeof line, "loaded shard=%d of=8\n", shard);
        say(1, line);
    }
    for (int step = 1; step <= 200; step++) {
        if (step == 2) work(2 * GIB);
        CUdeviceptr block = work((1024 + (size_t)(step * 37 % 100)) * MIB);
        give(block);
        snprintf(line, sizeof line, "step %d | loss %.3f | lr %.5f | time %d ms\n", step, 3.0 / step, 0.001 * step,
                 step * 7919 % 50 + 90);
        say(1, line);
        if (step % 50 == 0) {
            give(work(1500 * MIB));
            snprintf(line, sizeof line, "eval_loss=%.3f epoch=%d\n", 2.0 / step, step / 50);
            say(1, line);
        }
    }
}

/* A bar that overwrites itself, several times a millisecond. */
static void progress(void) {
    begin();
    work(MIB);
    char line[128];
    for (int i = 0; i <= 1000; i++) {
        snprintf(line, sizeof line, "\r%3d%%|#####     | %d/1000 [00:01<00:00]", i / 10, i);
        say(2, line);
    }
    say(2, "\n");
    say(1, "done\r\n");
    say(2, "\r 0%|bar");
    say(2, "\r50%|bar");
}

static void secrets(void) {
    begin();
    work(MIB);
    say(1, "login token=abcdefgh12345678 for alice\n");
    say(1, "\x1b[31mtokens=4096\x1b[0m tokens/s: 12.3k\n");
    say(2, "using hf_abcdefghijklmnopqrstuv\n");
    say(2, "clone https://me:geheim@host/x\n");
}

/* What stdio writes goes past: into a file it is found there, in a pipe it is not. */
static void stdio(void) {
    printf("early\n");
    begin();
    work(MIB);
    for (int i = 1; i <= 5; i++) printf("line %d\n", i);
    fflush(stdout);
    say(1, "by write\n");
    fprintf(stderr, "by stdio\n");
    CUdeviceptr never = 0;
    EXPECT(2, cuMemAlloc(&never, 20 * GIB));
    printf("after\n");
    printf("not flushed");
    fflush(stdout);
    exit(1);
}

/* A buffer of many lines at once. */
static void buffered(void) {
    begin();
    work(MIB);
    char block[8192];
    size_t length = 0;
    for (int i = 0; length < 6000; i++) length += (size_t)snprintf(block + length, 64, "line number %d\n", i);
    REQUIRE(write(1, block, length) == (ssize_t)length);
    say(1, "a\nbundle\n");
    say(1, "by itself\n");
    say(1, "two\nlines\n");
    say(2, "one\nand two\n");
}

/* All bytes that there are, whole and in pieces, come out as they went in. */
static void bytes(void) {
    begin();
    work(MIB);
    static char all[70000];
    for (size_t i = 0; i < sizeof all; i++) all[i] = (char)(i * 7919 >> 3);
    REQUIRE(write(1, all, sizeof all) == sizeof all);
    for (size_t i = 1; i < 700; i++) REQUIRE(write(1, all + i, i) == (ssize_t)i);
    struct iovec parts[3] = {{all, 300}, {all + 5, 0}, {all + 1000, 5000}};
    REQUIRE(writev(2, parts, 3) == 5300);
}

static volatile sig_atomic_t alarms;
static void on_alarm(int signal) {
    (void)signal;
    const char text[] = "from a handler\n";
    if (write(2, text, sizeof text - 1) < 0) _exit(97);
    alarms++;
}

/* From a signal handler, anywhere: in the driver, in our own work, in write. */
static void handler(void) {
    begin();
    struct sigaction action = {0};
    action.sa_handler = on_alarm;
    action.sa_flags = SA_RESTART;
    CHECK(sigaction(SIGALRM, &action, NULL));
    struct itimerval often = {{0, 200}, {0, 200}}, never = {0};
    CHECK(setitimer(ITIMER_REAL, &often, NULL));
    while (alarms < 200) {
        for (int j = 0; j < 20; j++) give(work(4096));
        say(1, "in between\n");
    }
    CHECK(setitimer(ITIMER_REAL, &never, NULL));
}

/* What the functions answer when they fail, and what errno says then. */
static void answers(void) {
    begin();
    work(MIB);
    signal(SIGPIPE, SIG_IGN);
    int ends[2];
    CHECK(pipe(ends));
    CHECK(fcntl(ends[1], F_SETFL, O_NONBLOCK));
    int old = dup(1);
    REQUIRE(dup2(ends[1], 1) == 1);
    static char much[200000];
    memset(much, 'x', sizeof much);
    errno = 0;
    /* A part fits, then nothing. */
    REQUIRE(write(1, much, sizeof much) == 65536 && errno == 0);
    REQUIRE(write(1, much, 10) == -1 && errno == EAGAIN);
    struct iovec part = {much, 10};
    REQUIRE(writev(1, &part, 1) == -1 && errno == EAGAIN);
    CHECK(close(ends[0]));
    REQUIRE(write(1, much, 10) == -1 && errno == EPIPE);
    errno = EXDEV;
    REQUIRE(dup2(old, 1) == 1 && write(1, "", 0) == 0);
    REQUIRE(write(1, "ok\n", 3) == 3 && errno == EXDEV);
    /* Not known to the compiler, which knows better. */
    void *volatile nowhere = (void *)8;
    volatile int negative = -1;
    REQUIRE(write(1, nowhere, 3) == -1 && errno == EFAULT);
    REQUIRE(writev(1, nowhere, 3) == -1 && errno == EFAULT);
    REQUIRE(writev(1, &part, negative) == -1 && errno == EINVAL);
    CHECK(close(1));
    REQUIRE(write(1, "x", 1) == -1 && errno == EBADF);
    REQUIRE(write(negative, "x", 1) == -1 && errno == EBADF);
    say(2, "closed\n");
    REQUIRE(dup2(old, 1) == 1);
    say(1, "back\n");
}

/* Children of all kinds say something; only the parent is recorded. */
static void children(void) {
    begin();
    work(MIB);
    pid_t child = fork();
    if (child == 0) {
        say(1, "child of fork\n");
        _exit(0);
    }
    int status = 0;
    REQUIRE(waitpid(child, &status, 0) == child && status == 0);
    child = vfork();
    if (child == 0) {
        if (write(1, "child of vfork\n", 15) != 15) _exit(1);
        _exit(0);
    }
    REQUIRE(waitpid(child, &status, 0) == child && status == 0);
    say(1, "parent\n");
}

/* A thread is cancelled while it waits in write. */
static int full[2];
static void *writer(void *unused) {
    (void)unused;
    char piece[4096] = {0};
    for (;;)
        if (write(1, piece, sizeof piece) < 0) return NULL;
}

static void cancelled(void) {
    begin();
    work(MIB);
    CHECK(pipe(full));
    int old = dup(1);
    REQUIRE(dup2(full[1], 1) == 1);
    pthread_t thread;
    void *result = NULL;
    CHECK(pthread_create(&thread, NULL, writer, NULL));
    wait_ms(50);
    CHECK(pthread_cancel(thread));
    CHECK(pthread_join(thread, &result));
    REQUIRE(result == PTHREAD_CANCELED);
    REQUIRE(dup2(old, 1) == 1);
    say(1, "cancelled\n");
}

/* Many threads at once, faster than anybody can keep up with. */
static void *shouter(void *number) {
    char line[64];
    for (int i = 0; i < 5000; i++) {
        snprintf(line, sizeof line, "thread %d line %d\n", (int)(size_t)number, i);
        say(1, line);
    }
    return NULL;
}

static void shouting(void) {
    begin();
    work(MIB);
    pthread_t threads[4];
    for (size_t i = 0; i < 4; i++) CHECK(pthread_create(&threads[i], NULL, shouter, (void *)i));
    for (size_t i = 0; i < 4; i++) CHECK(pthread_join(threads[i], NULL));
    say(1, "quiet\n");
}

int main(int argc, char **argv) {
    (void)argc;
    PARTS({"streams", streams}, {"steps", steps}, {"announced", announced}, {"healthy", healthy},
          {"progress", progress}, {"secrets", secrets}, {"stdio", stdio}, {"buffered", buffered},
          {"bytes", bytes}, {"handler", handler}, {"answers", answers}, {"children", children},
          {"cancelled", cancelled}, {"shouting", shouting});
    return 0;
}
