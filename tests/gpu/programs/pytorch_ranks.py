"""Two ranks on one GPU, as torchrun starts them; gloo, so that one GPU is enough."""

import os

import torch
import torch.distributed as dist

dist.init_process_group("gloo")
rank = dist.get_rank()
kept = torch.ones((rank + 1) << 20, dtype=torch.uint8, device="cuda:0")
dist.barrier()
print("rank", rank, os.getpid(), flush=True)
dist.destroy_process_group()
