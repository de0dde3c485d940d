/* Does what the lines on stdin say, and answers each with a line: a process that is watched from outside while it goes on.
 * Nothing of CUDA happens before `init`. */
#define _GNU_SOURCE
#include "driver.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#define MOST 4096

static CUdeviceptr blocks[MOST];
static int live;
static volatile sig_atomic_t handled;
static pid_t child;

SITE static void take(size_t bytes) {
    REQUIRE(live < MOST);
    CHECK(CU(cuMemAlloc)(&blocks[live++], bytes));
}

static void give_back(void) { CHECK(CU(cuMemFree)(blocks[--live])); }

static void plain(int number) {
    (void)number;
    handled++;
}

static void told(int number, siginfo_t *info, void *context) {
    REQUIRE(number == SIGUSR2 && info->si_signo == SIGUSR2 && context != NULL);
    handled++;
}

static void install(int flags) {
    struct sigaction action = {.sa_flags = flags};
    if (flags & SA_SIGINFO) {
        action.sa_sigaction = told;
    } else {
        action.sa_handler = plain;
    }
    CHECK(sigaction(SIGUSR2, &action, NULL));
}

/* One line; a read that a signal interrupts is told of. */
static int next_line(char *line, size_t room) {
    size_t length = 0;
    while (length + 1 < room) {
        char one;
        ssize_t got = read(STDIN_FILENO, &one, 1);
        if (got < 0 && errno == EINTR) {
            printf("interrupted\n");
            fflush(stdout);
            continue;
        }
        if (got <= 0) return 0;
        if (one == '\n') break;
        line[length++] = one;
    }
    line[length] = 0;
    return 1;
}

static void raise_often(long times) {
    for (long at = 0; at < times; at++) {
        errno = 77;
        kill(getpid(), SIGUSR2);
        REQUIRE(errno == 77);
    }
}

/* Allocates and frees until there is an order; how often. */
static long churn(void) {
    struct pollfd orders = {.fd = STDIN_FILENO, .events = POLLIN};
    long times = 0;
    while (times % 1000 != 0 || poll(&orders, 1, 0) == 0) {
        take(1 + times++ % 5000);
        give_back();
    }
    return times;
}

/* In the child: the signal's disposition, by its effect, in a child of its own. */
static int child_dies_of_it(void) {
    pid_t pid = fork();
    if (pid == 0) {
        kill(getpid(), SIGUSR2);
        _Exit(0);
    }
    int status = 0;
    REQUIRE(waitpid(pid, &status, 0) == pid);
    return WIFSIGNALED(status) ? WTERMSIG(status) : 0;
}

int main(void) {
    char line[256], word[64];
    while (next_line(line, sizeof line)) {
        long number = 0, answer = 0;
        word[0] = 0;
        sscanf(line, "%63s %ld", word, &number);
        if (strcmp(word, "init") == 0) {
            open_driver("dlsym");
            use_device(0);
        } else if (strcmp(word, "alloc") == 0) {
            take(number * MIB);
        } else if (strcmp(word, "free") == 0) {
            give_back();
        } else if (strcmp(word, "churn") == 0) {
            answer = churn();
        } else if (strcmp(word, "many") == 0) {
            /* The signal after each allocation. */
            for (long at = 0; at < number; at++) {
                take(MIB);
                raise_often(1);
            }
        } else if (strcmp(word, "raise") == 0) {
            raise_often(number);
        } else if (strcmp(word, "plain") == 0) {
            install(SA_RESTART);
        } else if (strcmp(word, "told") == 0) {
            install(SA_RESTART | SA_SIGINFO);
        } else if (strcmp(word, "interrupting") == 0) {
            install(0);
        } else if (strcmp(word, "ignore") == 0) {
            signal(SIGUSR2, SIG_IGN);
        } else if (strcmp(word, "handled") == 0) {
            answer = handled;
        } else if (strcmp(word, "fork") == 0) {
            fflush(stdout);
            child = fork();
            if (child == 0) {
                for (;;) pause();
            }
            answer = child;
        } else if (strcmp(word, "child") == 0) {
            answer = child_dies_of_it();
        } else if (strcmp(word, "close") == 0) {
            /* As daemons do. */
            for (int at = 3; at < 256; at++) close(at);
        } else if (strcmp(word, "peek") == 0) {
            /* A tool that reads its own trace: closing the file loses the process's locks on it. */
            char path[256];
            for (int at = 3; at < 256; at++) {
                snprintf(path, sizeof path, "/proc/self/fd/%d", at);
                int again = open(path, O_RDONLY);
                if (again >= 0) close(again);
            }
        } else if (strcmp(word, "exec") == 0) {
            execl("/proc/self/exe", "on_demand", NULL);
        } else if (strcmp(word, "exit") == 0) {
            exit((int)number);
        }
        printf("%s %ld\n", word, answer);
        fflush(stdout);
    }
    return 0;
}
