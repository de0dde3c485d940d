"""Holds 2 GiB until its input ends."""

import sys

import torch

kept = torch.ones(2 << 30, dtype=torch.uint8, device="cuda")
torch.cuda.synchronize()
print("ready", flush=True)
sys.stdin.read()
