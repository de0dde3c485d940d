"""How a PyTorch program ends: pytorch_ends.py PART. It holds 64 MiB."""

import faulthandler
import os
import signal
import sys

import torch

kept = torch.ones(16 << 20, device="cuda")
torch.cuda.synchronize()


def hang():
    while True:
        signal.pause()


part = sys.argv[1]
if part == "raise":
    raise RuntimeError("nobody catches this")
elif part == "exit":
    sys.exit(3)
elif part == "_exit":
    os._exit(4)
elif part == "abort":
    os.abort()
elif part == "segfault":
    faulthandler.enable()
    faulthandler._sigsegv()
elif part == "terminated":
    os.kill(os.getpid(), signal.SIGTERM)
    hang()
elif part == "interrupted":
    os.kill(os.getpid(), signal.SIGINT)
    hang()
elif part == "exec":
    os.execv("/bin/sh", ["sh", "-c", "exit 5"])
