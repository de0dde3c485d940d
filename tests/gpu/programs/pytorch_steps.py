"""A training whose sequences get longer, which says so, and then runs out of memory: pytorch_steps.py."""

import json

import torch

torch.manual_seed(0)
model = torch.nn.Sequential(torch.nn.Linear(256, 2048), torch.nn.GELU(), torch.nn.Linear(2048, 256)).cuda()
optimizer = torch.optim.AdamW(model.parameters())
peaks = []
for step in range(40):
    seq_len = 1024 if step < 25 else 8192
    torch.cuda.reset_peak_memory_stats()
    batch = torch.randn(16, seq_len, 256, device="cuda")
    loss = model(batch).square().mean()
    loss.backward()
    optimizer.step()
    optimizer.zero_grad()
    value = loss.item()
    del batch, loss
    peaks.append((torch.cuda.max_memory_allocated(), torch.cuda.memory_allocated(), torch.cuda.memory_reserved()))
    print(f"step={step} loss={value:.4f} seq_len={seq_len}", flush=True)
print("WITNESS " + json.dumps({"peaks": peaks}), flush=True)
torch.empty(1 << 40, dtype=torch.uint8, device="cuda")
