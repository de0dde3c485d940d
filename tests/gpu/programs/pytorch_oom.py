"""PyTorch runs out of memory and the program ends with its traceback."""

import torch

held = [torch.empty(1 << 30, dtype=torch.uint8, device="cuda") for _ in range(4)]
print("holding", len(held), "GiB", flush=True)
torch.empty(1 << 40, dtype=torch.uint8, device="cuda")
