"""blocks.py PAIRS BLOCKS FRAMES TURN: nanoseconds per block handed out and taken back, below so many Python frames; from two stacks in
turn if TURN is 1."""

import ctypes
import sys

driver, library = (ctypes.CDLL(path) for path in sys.argv[1:3])
library.blocks.restype = driver.pairs.restype = ctypes.c_double
# The recording begins with a context and an allocation.
assert driver.prepare() == 0 and driver.pairs(1, 0) > 0


def descend(depth):
    if depth > 1:
        return descend(depth - 1)
    # As deep as torch.empty is in C and C++.
    return library.blocks(5000, 15, int(sys.argv[4]))


print(descend(int(sys.argv[3]) - 1))
