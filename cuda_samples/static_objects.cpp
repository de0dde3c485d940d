// Objects whose destructors free at exit: one is older than the driver and too late, the other is not.
//
// A report must say: 2 allocations, 1 free, 1 failed free; live at the end 1,048,576 bytes in 1 block, from
// fill() called by main. The destructor of the old object gets error 4 (the driver is shutting down):
// the program prints 0 for the young object, then 4 for the old one.
#include "check.h"

struct Buffer {
    const char *name;
    void *memory = nullptr;

    explicit Buffer(const char *name) : name(name) {}

    SITE void fill(size_t size) {
        check(cudaMalloc(&memory, size));
    }

    ~Buffer() {
        int code = cudaFree(memory);
        std::printf("static_objects: freeing the %s gives %d\n", name, code);
    }
};

// Constructed before main, so destroyed after everything that came later, the driver included.
static Buffer old_object("old object");

int main() {
    old_object.fill(1 * MiB);
    // Constructed after the driver, so destroyed before it.
    static Buffer young_object("young object");
    young_object.fill(2 * MiB);
}
