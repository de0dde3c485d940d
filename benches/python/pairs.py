"""pairs.py LIBRARY FRAMES COLD THREADS: nanoseconds per pair below so many Python frames, the mean over the threads."""

import ctypes
import sys
import threading

library = ctypes.CDLL(sys.argv[1])
frames, cold, count = (int(word) for word in sys.argv[2:])
library.pairs.restype = ctypes.c_double
results = []
ready = threading.Barrier(count)


def descend(depth):
    if depth > 1:
        descend(depth - 1)
        return
    ready.wait()
    results.append(library.pairs(2000, cold))


def work(extra):
    assert library.prepare() == 0
    # The frames of this thread so far count, too.
    descend(frames - extra)


if count == 1:
    work(2)
else:
    threads = [threading.Thread(target=work, args=(4,)) for _ in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
assert len(results) == count and min(results) > 0
print(sum(results) / count)
