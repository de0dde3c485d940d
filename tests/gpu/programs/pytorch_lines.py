"""Tensors of sizes of their own, each with a witness: what `traceback` says beside the call that makes it."""

import json
import sys
import threading
import traceback

import torch

device = torch.device("cuda")
torch.empty(1 << 20, dtype=torch.uint8, device=device)
rows = []
kept = []


def witness(tensor, frame):
    """The tensor was just made on the line where this frame is."""
    size = tensor.numel() * tensor.element_size()
    frames = []
    for frame, line in traceback.walk_stack(frame):
        code = frame.f_code
        frames.append([code.co_filename, line, getattr(code, "co_qualname", code.co_name)])
    rows.append([size, frames])
    kept.append(tensor)
    return tensor


def plain():
    a = torch.empty(3_000_001, dtype=torch.uint8, device=device); witness(a, sys._getframe())


class Net(torch.nn.Module):
    def forward(self, x):
        y = x + 1; witness(y, sys._getframe())
        z = [torch.empty(5_000_003 + i, dtype=torch.uint8, device=device) for i in range(1)]; kept.extend(z)
        return (lambda: torch.relu(y))()


def recursion(depth):
    if depth == 0:
        a = torch.empty(7_000_001, dtype=torch.uint8, device=device); return witness(a, sys._getframe())
    return recursion(depth - 1)


def generator():
    a = torch.empty(9_000_001, dtype=torch.uint8, device=device); yield witness(a, sys._getframe())


plain()
x = torch.ones(1_234_567, device=device); witness(x, sys._getframe())
x = x[:1_000_001]
kept.append(torch.nn.Sequential(Net(), Net())(x))
recursion(40)
list(generator())
thread = threading.Thread(target=plain)
thread.start()
thread.join()
torch.cuda.synchronize()
# The same sizes may be asked for from several lines.
print("WITNESS " + json.dumps({"rows": rows, "python": list(sys.version_info[:2])}))
