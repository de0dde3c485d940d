"""CuPy at the edge of what it is allowed: arrays of 1 GiB until one does not fit, and that one is not caught."""

import json

import cupy

free, total = cupy.cuda.runtime.memGetInfo()
kept = []
try:
    for _ in range(16):
        kept.append(cupy.zeros(1 << 30, dtype=cupy.uint8))
except cupy.cuda.memory.OutOfMemoryError:
    print("WITNESS " + json.dumps({"total": total, "arrays": len(kept)}), flush=True)
    raise
