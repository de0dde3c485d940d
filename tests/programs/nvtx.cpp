// Phases by NVIDIA's own headers, C and C++: ranges of the default domain and of one's own, registered strings, marks.
#include "check.h"

#include <cuda.h>
#include <nvtx3/nvtx3.hpp>

struct app {
    static constexpr char const *name{"app"};
};

static CUdeviceptr take(size_t bytes) {
    CUdeviceptr block = 0;
    CHECK(cuMemAlloc(&block, bytes));
    return block;
}

int main() {
    CUcontext context;
    CHECK(cuInit(0));
    CHECK(cuDevicePrimaryCtxRetain(&context, 0));
    CHECK(cuCtxSetCurrent(context));
    for (int step = 0; step < 3; step++) {
        nvtx3::scoped_range whole{"step " + std::to_string(step)};
        CUdeviceptr inputs = take((1 + step) * MIB);
        {
            nvtxRangePushA("forward");
            CHECK(cuMemFree(take(8 * MIB)));
            nvtxRangePop();
        }
        {
            nvtx3::scoped_range_in<app> range{nvtx3::registered_string_in<app>{"backward"}};
            CHECK(cuMemFree(take(16 * MIB)));
        }
        nvtxRangeId_t any = nvtxRangeStartA("copy");
        CHECK(cuMemFree(take(2 * MIB)));
        nvtxRangeEnd(any);
        CHECK(cuMemFree(inputs));
        nvtx3::mark("request");
    }
    return 0;
}
