/* A driver that has hardly anything. */
int cuInit(unsigned flags) { return flags == 0 ? 0 : 1; }
int cuMemAlloc_v2(unsigned long long *pointer, unsigned long size) {
    (void)pointer, (void)size;
    return 201;
}
