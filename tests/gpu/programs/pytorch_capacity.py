"""PyTorch at the edge of what it is allowed: pytorch_capacity.py PART."""

import json
import sys
import time

import torch

GIB = 1 << 30
free, total = torch.cuda.mem_get_info()
witness = {"total": total, "properties": torch.cuda.get_device_properties(0).total_memory}


def block(size):
    return torch.empty(size, dtype=torch.uint8, device="cuda")


kept = block(GIB // 2)
if sys.argv[1] == "retry":
    # Idle in the cache; what is asked next does not fit beside it, and not into it.
    del_me = block(2 * GIB)
    del del_me
    large = block(2 * GIB + GIB // 4)
    witness["retries"] = torch.cuda.memory_stats()["num_alloc_retries"]
    witness["ooms"] = torch.cuda.memory_stats()["num_ooms"]
elif sys.argv[1] == "caught":
    begin = time.perf_counter()
    try:
        block(8 * GIB)
    except torch.OutOfMemoryError as error:
        witness["seconds"] = time.perf_counter() - begin
        witness["error"] = str(error)
    witness["ooms"] = torch.cuda.memory_stats()["num_ooms"]
    # It lives on.
    kept += 1
    torch.cuda.synchronize()
print("WITNESS " + json.dumps(witness), flush=True)
if sys.argv[1] == "fatal":
    block(8 * GIB)
