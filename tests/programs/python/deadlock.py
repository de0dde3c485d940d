"""A thread allocates while it holds a lock that another one, which holds the GIL, waits for."""

import ctypes
import sys

from witness import check, in_thread, testify, use_device

use_device()
# A call through CDLL releases the GIL, one through PyDLL keeps it.
released = ctypes.CDLL(sys.argv[1])
kept = ctypes.PyDLL(sys.argv[1])


def holder():
    check(released.hold_and_allocate())


def waiter():
    released.await_holder()
    kept.wait_for_lock()


threads = [in_thread(holder), in_thread(waiter)]
for thread in threads:
    thread.join()
print("done")
