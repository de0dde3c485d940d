"""A small training; the witness is PyTorch's own account of its cache."""

import json

import torch

torch.manual_seed(0)
device = torch.device("cuda")
model = torch.nn.Sequential(*[torch.nn.Linear(2048, 2048) for _ in range(8)]).to(device)
optimizer = torch.optim.Adam(model.parameters())
for step in range(5):
    batch = torch.randn(512 * (1 + step % 3), 2048, device=device)
    loss = model(batch).square().mean()
    loss.backward()
    optimizer.step()
    optimizer.zero_grad()
print("steps done", bool(torch.isfinite(loss).item()))
torch.cuda.synchronize()
print("WITNESS " + json.dumps({
    "reserved": torch.cuda.memory_reserved(),
    "reserved_peak": torch.cuda.max_memory_reserved(),
    "allocated": torch.cuda.memory_allocated(),
    "allocated_peak": torch.cuda.max_memory_allocated(),
}))
