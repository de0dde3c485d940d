/* How processes end: endings PART. */
#define _GNU_SOURCE
#include "check.h"

#include <cuda_runtime.h>
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

SITE static void *take(size_t size) {
    void *block = NULL;
    CHECK(cudaMalloc(&block, size));
    return block;
}

static int code;
static void *late;

static void by_return(void) {
    take(1 * MIB);
    code = 3;
}

static void by_exit(void) {
    take(1 * MIB);
    exit(4);
}

static void by_exit_in_thread_part(void) {
    take(2 * MIB);
    exit(5);
}

static void *exit_in_thread(void *unused) {
    (void)unused;
    by_exit_in_thread_part();
    return NULL;
}

static void by_exit_in_thread(void) {
    pthread_t thread;
    CHECK(pthread_create(&thread, NULL, exit_in_thread, NULL));
    pthread_join(thread, NULL);
}

static void by_quick_exit(void) {
    take(1 * MIB);
    quick_exit(6);
}

static void by_immediate_exit(void) {
    take(1 * MIB);
    _exit(7);
}

static void by_abort(void) {
    take(1 * MIB);
    wait_ms(300);
    abort();
}

static void by_signal(void) {
    take(1 * MIB);
    wait_ms(300);
    raise(SIGTERM);
}

/* --- frees at the very end --- */

static void free_at_exit(void) {
    printf("at exit: %d\n", cudaFree(late));
    fflush(stdout);
}

__attribute__((destructor)) static void free_in_destructor(void) {
    if (late == NULL) return;
    printf("in the destructor: %d\n", cudaFree(late));
    fflush(stdout);
}

/* The handler is younger than the driver, so the driver still answers it. */
static void late_free(void) {
    late = take(2 * MIB);
    CHECK(atexit(free_at_exit));
}

/* The destructor is older than the driver. */
static void too_late_free(void) {
    late = take(2 * MIB);
}

/* --- killed --- */

static void killed_while_allocating(void) {
    for (int count = 1;; count++) {
        take(4096);
        printf("%d\n", count);
        fflush(stdout);
        wait_ms(1);
    }
}

/* --- out of memory, and nothing after it --- */

SITE static int one_too_many(void) {
    void *block = NULL;
    int error = cudaMalloc(&block, 1 * GIB);
    return error;
}

static void fill(void) {
    for (int i = 0; i < 16; i++) take(1 * GIB);
    EXPECT(2, one_too_many());
}

static void exits_out_of_memory(void) {
    fill();
    _exit(8);
}

static void dies_out_of_memory(void) {
    fill();
    raise(SIGKILL);
}

/* --- no room for the trace --- */

static void many_events(void) {
    take(3 * MIB);
    for (int i = 0; i < 20000; i++) CHECK(cudaFree(take(4096 * (1 + i % 7))));
    puts("done");
    code = 9;
}

static void no_room(void) {
    struct rlimit small = {8192, 8192};
    CHECK(setrlimit(RLIMIT_FSIZE, &small));
    many_events();
}

/* --- forks --- */

static atomic_int stop;

static void *allocate_on_and_on(void *counter) {
    long count = 0;
    while (!atomic_load(&stop)) {
        CHECK(cudaFree(take(4096)));
        count++;
    }
    *(long *)counter = count;
    return NULL;
}

static void wait_for(pid_t child) {
    int status = -1;
    REQUIRE(child > 0 && waitpid(child, &status, 0) == child);
    REQUIRE(WIFEXITED(status) && WEXITSTATUS(status) == 0);
}

/* The child shares our memory, and ends by the very function that we would end by. */
static void by_vfork(void) {
    void *block = take(1 * MIB);
    pid_t child = vfork();
    if (child == 0) _exit(0);
    wait_for(child);
    CHECK(cudaFree(block));
    take(2 * MIB);
}

static void forks_under_load(void) {
    pthread_t threads[2];
    long counts[2];
    alarm(120);
    take(1 * MIB);
    for (int i = 0; i < 2; i++) CHECK(pthread_create(&threads[i], NULL, allocate_on_and_on, &counts[i]));
    for (int i = 0; i < 1000; i++) {
        pid_t child = fork();
        if (child == 0) {
            /* CUDA is of no use here. */
            void *block = NULL;
            if (cudaMalloc(&block, 1 * MIB) == cudaSuccess) _exit(1);
            if (i % 2 == 0) _exit(0);
            exit(0);
        }
        wait_for(child);
    }
    CHECK(system("true"));
    atomic_store(&stop, 1);
    for (int i = 0; i < 2; i++) CHECK(pthread_join(threads[i], NULL));
    printf("%ld\n", 1 + counts[0] + counts[1]);
}

static void forks_first(void) {
    pid_t child = fork();
    if (child == 0) {
        take(2 * MIB);
        wait_ms(300);
        _exit(0);
    }
    wait_for(child);
    CHECK(cudaFree(take(8 * MIB)));
}

/* Daemons close whatever is open; the next file then gets the number of one that was. */
static void closes_everything(void) {
    take(1 * MIB);
    wait_ms(50);
    for (int fd = 3; fd < 1024; fd++) close(fd);
    FILE *own[8];
    for (int i = 0; i < 8; i++) {
        char name[16];
        snprintf(name, sizeof name, "own.%d", i);
        own[i] = fopen(name, "w");
        REQUIRE(own[i] != NULL);
    }
    take(2 * MIB);
    wait_ms(50);
    for (int i = 0; i < 8; i++) REQUIRE(fputs("mine", own[i]) >= 0 && fclose(own[i]) == 0);
    take(4 * MIB);
}

/* Threads that are still at it when the process ends. */
static void *allocate_for_ever(void *unused) {
    for (;;) {
        void *block = NULL;
        if (cudaMalloc(&block, 4096) == cudaSuccess) cudaFree(block);
    }
    return unused;
}

static void exits_under_load(void) {
    pthread_t thread;
    alarm(60);
    take(1 * MIB);
    for (int i = 0; i < 4; i++) CHECK(pthread_create(&thread, NULL, allocate_for_ever, NULL));
    wait_ms(20);
    code = 10;
}

static void executes_another(void) {
    take(1 * MIB);
    wait_ms(50);
    execl("/bin/sh", "sh", "-c", "ls -l /proc/self/fd", (char *)NULL);
    _exit(98);
}

int main(int argc, char **argv) {
    (void)argc;
    PARTS({"return", by_return}, {"exit", by_exit}, {"exit in a thread", by_exit_in_thread},
          {"quick exit", by_quick_exit}, {"immediate exit", by_immediate_exit}, {"abort", by_abort}, {"vfork", by_vfork},
          {"signal", by_signal}, {"late free", late_free}, {"too late free", too_late_free},
          {"killed while allocating", killed_while_allocating},
          {"exits out of memory", exits_out_of_memory}, {"dies out of memory", dies_out_of_memory},
          {"many events", many_events}, {"no room", no_room}, {"forks under load", forks_under_load},
          {"forks first", forks_first}, {"executes another", executes_another},
          {"exits under load", exits_under_load}, {"closes everything", closes_everything});
    return code;
}
