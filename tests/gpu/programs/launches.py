"""What a launch and a look of NVML's cost: nanoseconds of a launch, microseconds of the two questions of a look."""

import ctypes
import time

import torch

from nvml import Memory, Process

x = torch.zeros(1, device="cuda")


def launches(number):
    torch.cuda.synchronize()
    start = time.perf_counter()
    for _ in range(number):
        x.add_(1)
    torch.cuda.synchronize()
    return (time.perf_counter() - start) / number * 1e9


launches(20_000)
print(f"launch-ns {min(launches(100_000) for _ in range(5)):.1f}")

library = ctypes.CDLL("libnvidia-ml.so.1")
assert library.nvmlInit_v2() == 0
device = ctypes.c_void_p()
assert library.nvmlDeviceGetHandleByIndex_v2(0, ctypes.byref(device)) == 0


def asked(question, number=200):
    start = time.perf_counter()
    for _ in range(number):
        assert question() == 0
    return (time.perf_counter() - start) / number * 1e6


memory = Memory(version=ctypes.sizeof(Memory) | 2 << 24)
processes = (Process * 64)()


def list_processes():
    count = ctypes.c_uint(64)
    return library.nvmlDeviceGetComputeRunningProcesses_v3(device, ctypes.byref(count), processes)


print(f"memory-us {asked(lambda: library.nvmlDeviceGetMemoryInfo_v2(device, ctypes.byref(memory))):.2f}")
print(f"processes-us {asked(list_processes):.2f}")
