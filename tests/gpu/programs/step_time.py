"""Median time of a PyTorch training step, in milliseconds."""

import statistics
import time

import torch

torch.manual_seed(0)
layer = torch.nn.TransformerEncoderLayer(512, 8, 2048, batch_first=True)
model = torch.nn.TransformerEncoder(layer, 4, enable_nested_tensor=False).cuda()
optimizer = torch.optim.Adam(model.parameters())
times = []
for step in range(60):
    batch = torch.randn(16, 128 + 8 * (step % 8), 512, device="cuda")
    torch.cuda.synchronize()
    start = time.perf_counter()
    model(batch).square().mean().backward()
    optimizer.step()
    optimizer.zero_grad()
    torch.cuda.synchronize()
    times.append((time.perf_counter() - start) * 1e3)
print(f"step-ms {statistics.median(times[20:]):.3f}")
