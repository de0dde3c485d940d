"""CuPy's pool; the witness is its own count."""

import json

import cupy

arrays = [cupy.ones((1000, 1000 + 100 * i), dtype=cupy.float32) for i in range(10)]
del arrays[::2]
total = sum(float(array.sum()) for array in arrays)
print("sum", total)
print("WITNESS " + json.dumps({"total_bytes": cupy.get_default_memory_pool().total_bytes()}))
