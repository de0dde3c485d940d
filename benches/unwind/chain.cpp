/* Sixteen functions with frames of different sizes; built four times with different NUMBERs, they call each other across
 * the four libraries, so that a stack of 64 frames has 64 different functions. */
struct Chain {
    void (*const (*tables[4])[16])(const Chain *, int);
    void (*work)(void *);
    void *argument;
};

template <int N> __attribute__((noinline)) static void step(const Chain *chain, int depth) {
    volatile char room[N % 7 * 24 + 8];
    room[0] = (char)depth;
    if (depth <= 1)
        chain->work(chain->argument);
    else
        (*chain->tables[(depth - 1) % 4])[(depth - 1) / 4 % 16](chain, depth - 1);
    room[1] = room[0];
}

#define S(N) step<N * 4 + NUMBER>
extern "C" __attribute__((visibility("default"))) void (*const chain_table[16])(const Chain *, int) = {
    S(0), S(1), S(2), S(3), S(4), S(5), S(6), S(7), S(8), S(9), S(10), S(11), S(12), S(13), S(14), S(15)};
