"""Median and best time of a PyTorch training step, in milliseconds. `small`: the processor launches kernels one by one and the
GPU waits for it; `large`: the GPU has work to do, as in most trainings."""

import statistics
import sys
import time

import torch

torch.manual_seed(0)
large = sys.argv[1:] == ["large"]
width, layers, batch, length = (1024, 8, 32, 512) if large else (512, 4, 16, 128)
layer = torch.nn.TransformerEncoderLayer(width, 8, 4 * width, batch_first=True)
model = torch.nn.TransformerEncoder(layer, layers, enable_nested_tensor=False).cuda()
optimizer = torch.optim.Adam(model.parameters())
times = []
for step in range(40 if large else 100):
    tokens = torch.randn(batch, length + 8 * (step % 8), width, device="cuda")
    torch.cuda.synchronize()
    start = time.perf_counter()
    with torch.autocast("cuda", torch.bfloat16, enabled=large):
        loss = model(tokens).square().mean()
    loss.backward()
    optimizer.step()
    optimizer.zero_grad()
    torch.cuda.synchronize()
    # Steps of one length only: others take another time.
    if step % 8 == 0:
        times.append((time.perf_counter() - start) * 1e3)
print(f"step-ms {statistics.median(times[2:]):.3f}")
print(f"best-step-ms {min(times):.3f}")
