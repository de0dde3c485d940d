"""Programs whose whole device memory is to be explained: ledger.py KIND. What the witnesses say at the end is printed."""

import json
import sys

from nvml import look

kind = sys.argv[1]
if kind == "training":
    import torch

    torch.manual_seed(0)
    model = torch.nn.Sequential(
        torch.nn.Conv2d(3, 64, 3, padding=1), torch.nn.ReLU(), torch.nn.Conv2d(64, 64, 3, padding=1), torch.nn.ReLU(),
        torch.nn.Flatten(), torch.nn.Linear(64 * 32 * 32, 512), torch.nn.ReLU(), torch.nn.Linear(512, 10)).cuda()
    optimizer = torch.optim.Adam(model.parameters())
    for step in range(10):
        x = torch.randn(256, 3, 32, 32, device="cuda")
        y = torch.randint(0, 10, (256,), device="cuda")
        loss = torch.nn.functional.cross_entropy(model(x), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    torch.cuda.synchronize()
    free, total = torch.cuda.mem_get_info()
elif kind == "jax":
    import jax
    import jax.numpy as jnp

    x = jnp.ones((4096, 4096))
    (x @ x).block_until_ready()
    free = total = None
elif kind == "cupy":
    import cupy

    x = cupy.random.rand(2048, 2048)
    y = cupy.linalg.svd(x @ x)[1].sum()
    cupy.cuda.Device().synchronize()
    free, total = cupy.cuda.runtime.memGetInfo()
print("WITNESS " + json.dumps({**look(), "free": free, "driver_total": total}), flush=True)
