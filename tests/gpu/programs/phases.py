"""Ranges of NVTX around the parts of training steps, and PyTorch's own peak in each of them."""

import json

import torch

torch.manual_seed(0)
model = torch.nn.Sequential(torch.nn.Linear(1024, 4096), torch.nn.GELU(), torch.nn.Linear(4096, 1024)).cuda()
optimizer = torch.optim.Adam(model.parameters())
peaks = {}


class Part:
    def __init__(self, name):
        self.name = name

    def __enter__(self):
        torch.cuda.reset_peak_memory_stats()
        torch.cuda.nvtx.range_push(self.name)

    def __exit__(self, *_):
        torch.cuda.nvtx.range_pop()
        peaks.setdefault(self.name, []).append(torch.cuda.max_memory_allocated())


for step in range(12):
    torch.cuda.nvtx.range_push(f"step {step}")
    batch = torch.randn(256 * (1 + step % 5), 1024, device="cuda")
    with Part("forward"):
        loss = (model(batch) - batch).square().mean()
    with Part("backward"):
        loss.backward()
    with Part("optimizer"):
        optimizer.step()
        optimizer.zero_grad()
    torch.cuda.nvtx.range_pop()
print("WITNESS", json.dumps(peaks))
