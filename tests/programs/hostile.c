/* Programs that do what is allowed at a bad moment: hostile PART [NUMBER]. */
#define _GNU_SOURCE
#include "check.h"

#include <cuda_runtime.h>
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <semaphore.h>
#include <signal.h>
#include <stdatomic.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

SITE static void *take(size_t size) {
    void *block = NULL;
    CHECK(cudaMalloc(&block, size));
    return block;
}

static int code;
static long number;

/* --- main ends before its threads --- */

static int main_has_ended(void) {
    char path[64], line[512] = "";
    snprintf(path, sizeof path, "/proc/self/task/%d/stat", (int)getpid());
    FILE *file = fopen(path, "r");
    if (file == NULL) return 1;
    REQUIRE(fgets(line, sizeof line, file) != NULL);
    fclose(file);
    return strstr(line, ") Z") != NULL;
}

static void *outlive_main(void *unused) {
    while (!main_has_ended()) wait_ms(1);
    /* Whoever looks now and then whether the process is over has looked by now. */
    wait_ms(1500);
    take(2 * MIB);
    fputs("the worker ends", stdout);
    if (code != 0) exit(code);
    return unused;
}

static void main_ends_first(void) {
    pthread_t thread;
    take(1 * MIB);
    CHECK(pthread_create(&thread, NULL, outlive_main, NULL));
    CHECK(pthread_detach(thread));
    fputs("main ends, ", stdout);
    pthread_exit(NULL);
}

static void main_ends_first_and_the_worker_exits(void) {
    code = 6;
    main_ends_first();
}

/* --- a constructor that waits for a thread --- */

static void constructor_waits(void) {
    take(1 * MIB);
    REQUIRE(dlopen("libjoins.so", RTLD_NOW) != NULL);
    puts("loaded");
}

/* --- output --- */

static void prints(void) {
    take(1 * MIB);
    for (int i = 0; i < 5000; i++) printf("%d\n", i);
    code = 7;
}

static void write_own(FILE *file) {
    REQUIRE(file != NULL);
    REQUIRE(fputs("mine", file) >= 0 && fclose(file) == 0);
}

/* The file that gets the number of stderr stays open until the process is gone. */
static void number_of_stderr(void) {
    close(STDERR_FILENO);
    int own = open("own", O_WRONLY | O_CREAT | O_TRUNC, 0600);
    if (own != STDERR_FILENO) exit(97);
    take(1 * MIB);
    if (write(own, "mine", 4) != 4) exit(96);
}

static void number_of_stderr_later(void) {
    take(1 * MIB);
    number_of_stderr();
}

/* Whoever started us has closed stderr. */
static void words_for_nobody(void) {
    if (fcntl(STDERR_FILENO, F_GETFD) != -1) exit(97);
    take(1 * MIB);
    fputs("words on a closed stderr\n", stderr);
    printf("%s\n", fcntl(STDERR_FILENO, F_GETFD) == -1 ? "closed" : "open");
}

static void closes_everything_at_once(void) {
    take(1 * MIB);
    for (int fd = 3; fd < 1024; fd++) close(fd);
    FILE *own[8];
    for (int i = 0; i < 8; i++) {
        char name[16];
        snprintf(name, sizeof name, "own.%d", i);
        own[i] = fopen(name, "w");
    }
    for (int i = 0; i < 100; i++) CHECK(cudaFree(take(4096)));
    for (int i = 0; i < 8; i++) write_own(own[i]);
    take(2 * MIB);
}

/* --- the environment and the folder, right after the first call --- */

static void grows_the_environment(void) {
    char name[32];
    take(1 * MIB);
    for (int i = 0; i < 3000; i++) {
        snprintf(name, sizeof name, "A_RATHER_LONG_NAME_%d", i);
        CHECK(setenv(name, "1", 1));
    }
}

static void goes_elsewhere(void) {
    take(1 * MIB);
    CHECK(chdir("elsewhere"));
    take(2 * MIB);
}

/* --- cancellation --- */

static sem_t ready, go;
static int answer = -1;

static void *take_while_cancelled(void *size) {
    int state;
    void *block = NULL;
    CHECK(pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &state));
    sem_post(&ready);
    sem_wait(&go);
    CHECK(pthread_setcancelstate(PTHREAD_CANCEL_ENABLE, &state));
    answer = cudaMalloc(&block, *(size_t *)size);
    pthread_testcancel();
    return NULL;
}

static void cancelled(size_t size) {
    pthread_t thread;
    void *result = NULL;
    CHECK(sem_init(&ready, 0, 0));
    CHECK(sem_init(&go, 0, 0));
    CHECK(pthread_create(&thread, NULL, take_while_cancelled, &size));
    sem_wait(&ready);
    CHECK(pthread_cancel(thread));
    sem_post(&go);
    CHECK(pthread_join(thread, &result));
    printf("%d %s\n", answer, result == PTHREAD_CANCELED ? "cancelled" : "returned");
    take(2 * MIB);
    code = 4;
}

static void cancelled_at_first(void) {
    cancelled(1 * MIB);
}

static void cancelled_out_of_memory(void) {
    take(1 * MIB);
    cancelled(1024 * GIB);
}

/* What PyTorch's cache reports of a block is no cancellation point, however many threads want memory of ours at once. */
typedef void report_t(void *, size_t, size_t, size_t, size_t);
static report_t *report;
static int cancelled_inside;

static void *report_while_cancelled(void *waits) {
    int state;
    while (__atomic_load_n((int *)waits, __ATOMIC_ACQUIRE)) {
    }
    report((void *)0x10000, 512, 512, 512, 1);
    CHECK(pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &state));
    return NULL;
}

static void *cancels_reports(void *unused) {
    (void)unused;
    for (int i = 0; i < 500; i++) {
        pthread_t thread;
        int waits = 1;
        void *result = NULL;
        CHECK(pthread_create(&thread, NULL, report_while_cancelled, &waits));
        CHECK(pthread_cancel(thread));
        __atomic_store_n(&waits, 0, __ATOMIC_RELEASE);
        CHECK(pthread_join(thread, &result));
        if (result == PTHREAD_CANCELED) __atomic_fetch_add(&cancelled_inside, 1, __ATOMIC_RELAXED);
    }
    return NULL;
}

static void cancelled_in_reports(void) {
    pthread_t threads[16];
    take(1 * MIB);
    report = (report_t *)dlsym(RTLD_DEFAULT, "_ZN3c1027reportMemoryUsageToProfilerEPvlmmNS_6DeviceE");
    for (int i = 0; report != NULL && i < 16; i++) CHECK(pthread_create(&threads[i], NULL, cancels_reports, NULL));
    for (int i = 0; report != NULL && i < 16; i++) CHECK(pthread_join(threads[i], NULL));
    printf("%d\n", cancelled_inside);
    code = 4;
}

/* --- exit inside a call --- */

static void exit_now(int signal) {
    (void)signal;
    exit(0);
}

static void exits_in_a_handler(void) {
    struct itimerval once = {.it_value = {0, number}};
    REQUIRE(number > 0);
    REQUIRE(signal(SIGALRM, exit_now) != SIG_ERR);
    take(1 * MIB);
    CHECK(setitimer(ITIMER_REAL, &once, NULL));
    for (;;) CHECK(cudaFree(take(4096)));
}

/* --- children that no handler of pthread_atfork sees --- */

static void child_exits(pid_t (*split)(void)) {
    struct timespec before, after;
    int status = -1;
    take(1 * MIB);
    CHECK(clock_gettime(CLOCK_MONOTONIC, &before));
    pid_t child = split();
    if (child == 0) exit(5);
    REQUIRE(child > 0 && waitpid(child, &status, 0) == child);
    CHECK(clock_gettime(CLOCK_MONOTONIC, &after));
    long ms = (after.tv_sec - before.tv_sec) * 1000 + (after.tv_nsec - before.tv_nsec) / 1000000;
    printf("%d %s\n", WIFEXITED(status) ? WEXITSTATUS(status) : -1, ms < 2500 ? "soon" : "late");
    take(2 * MIB);
}

static pid_t by_system_call(void) {
    return (pid_t)syscall(SYS_fork);
}

static void forks_past_the_handlers(void) {
    child_exits(_Fork);
}

static void forks_by_system_call(void) {
    child_exits(by_system_call);
}

/* --- what the loader says --- */

static void pending_error(void) {
    void *block = NULL;
    /* The runtime asks the loader for its driver at its first call. */
    take(1 * MIB);
    REQUIRE(dlsym(RTLD_DEFAULT, "no_such_function") == NULL);
    CHECK(cudaMallocHost(&block, 2 * MIB));
    const char *error = dlerror();
    puts(error != NULL ? error : "no error");
}

/* --- failures without end --- */

static void fails_again_and_again(void) {
    void *block = NULL;
    take(1 * MIB);
    for (int i = 0; i < 10000; i++) EXPECT(2, cudaMalloc(&block, 1024 * GIB));
    puts("done");
}

/* --- libraries that come and go --- */

static atomic_int stop;

static void *take_on_and_on(void *counter) {
    long count = 0;
    while (!atomic_load(&stop)) {
        CHECK(cudaFree(take(4096)));
        count++;
    }
    *(long *)counter = count;
    return NULL;
}

static void leak_from(const char *library, const char *name, size_t size) {
    void *handle = dlopen(library, RTLD_NOW | RTLD_LOCAL);
    REQUIRE(handle != NULL);
    int (*function)(size_t) = (int (*)(size_t))dlsym(handle, name);
    REQUIRE(function != NULL);
    CHECK(function(size));
    CHECK(dlclose(handle));
    REQUIRE(dlopen(library, RTLD_NOW | RTLD_NOLOAD) == NULL);
}

static void plugins(void) {
    pthread_t threads[2];
    long counts[2];
    CHECK(cudaFree(NULL));
    for (int i = 0; i < 2; i++) CHECK(pthread_create(&threads[i], NULL, take_on_and_on, &counts[i]));
    for (int i = 0; i < 150; i++) {
        leak_from("libodd.so", "odd_allocate", 3 * 4096);
        leak_from("libeven.so", "even_allocate", 4 * 4096);
    }
    atomic_store(&stop, 1);
    for (int i = 0; i < 2; i++) CHECK(pthread_join(threads[i], NULL));
    printf("%ld\n", counts[0] + counts[1]);
}

/* --- little memory --- */

/* Bytes of a line of /proc/self/status that is in kB. */
static size_t own(const char *key) {
    char line[256];
    unsigned long kb = 0;
    FILE *status = fopen("/proc/self/status", "r");
    REQUIRE(status != NULL);
    while (fgets(line, sizeof line, status) != NULL) {
        if (strncmp(line, key, strlen(key)) == 0) kb = strtoul(line + strlen(key), NULL, 10);
    }
    fclose(status);
    REQUIRE(kb > 0);
    return (size_t)kb << 10;
}

static void no_room_at_first(void) {
    /* The simulator and its runtime are mapped and ready by then. */
    int count = 0;
    CHECK(cudaGetDeviceCount(&count));
    size_t room = own("VmSize:") + 8 * MIB;
    struct rlimit small = {room, room};
    CHECK(setrlimit(RLIMIT_AS, &small));
    for (int i = 0; i < 100; i++) CHECK(cudaFree(take(1 * MIB)));
    puts("done");
    code = 3;
}

int main(int argc, char **argv) {
    if (argc > 2) number = atol(argv[2]);
    PARTS({"main ends first", main_ends_first},
          {"main ends first and the worker exits", main_ends_first_and_the_worker_exits},
          {"constructor waits", constructor_waits}, {"prints", prints},
          {"number of stderr", number_of_stderr}, {"number of stderr later", number_of_stderr_later},
          {"words for nobody", words_for_nobody},
          {"closes everything at once", closes_everything_at_once},
          {"grows the environment", grows_the_environment}, {"goes elsewhere", goes_elsewhere},
          {"cancelled at first", cancelled_at_first},
          {"cancelled out of memory", cancelled_out_of_memory},
          {"cancelled in reports", cancelled_in_reports},
          {"exits in a handler", exits_in_a_handler},
          {"forks past the handlers", forks_past_the_handlers},
          {"forks by system call", forks_by_system_call}, {"pending error", pending_error},
          {"fails again and again", fails_again_and_again}, {"plugins", plugins},
          {"no room at first", no_room_at_first});
    return code;
}
