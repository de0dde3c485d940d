"""Nanoseconds per pair of handing out and taking back a block, from a stack of some depth; `python` and `all` switch PyTorch's
own recorder on."""

import sys
import time

import torch

recorder = sys.argv[1] if len(sys.argv) > 1 else "off"
PAIRS = 20_000


def pairs():
    for _ in range(PAIRS):
        torch.empty(1 << 20, dtype=torch.uint8, device="cuda")


def deep(depth):
    return pairs() if depth == 0 else deep(depth - 1)


deep(10)
if recorder != "off":
    torch.cuda.memory._record_memory_history(stacks=recorder)
times = []
for _ in range(25):
    start = time.perf_counter()
    deep(10)
    times.append((time.perf_counter() - start) / PAIRS * 1e9)
times.sort()
print(f"pair-ns {times[len(times) // 2]:.1f}")
print(f"best-pair-ns {times[0]:.1f}")
