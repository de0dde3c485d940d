// What all samples share: stop at an unexpected error, and functions that stay visible in stacks.
#pragma once

#include <cuda_runtime.h>

#include <cstdio>
#include <cstdlib>

#define SITE __attribute__((noinline))

constexpr size_t MiB = size_t(1) << 20;
constexpr size_t GiB = size_t(1) << 30;

inline void check(cudaError_t error) {
    if (error == cudaSuccess) return;
    std::fprintf(stderr, "unexpected: %s (%d)\n", cudaGetErrorString(error), int(error));
    std::exit(1);
}
