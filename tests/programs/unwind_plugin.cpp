/* A library whose constructor and function check the stack. Built with different NUMBERs, so that the same offsets hold
 * different code. */
extern "C" void checked(void);

template <int N> __attribute__((noinline)) void deeper(void (*work)(), int depth) {
    volatile char room[N * 16 + 8];
    room[0] = (char)depth;
    if (depth == 0)
        work();
    else
        deeper<(N + NUMBER) % 11>(work, depth - 1);
    room[N] = room[0];
}

__attribute__((constructor)) static void begin() { deeper<NUMBER>(checked, NUMBER); }

extern "C" void enter(void (*work)(), int depth) { deeper<(NUMBER * 3) % 11>(work, depth); }
