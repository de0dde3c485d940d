"""Allocations while Python ends, in threads that it does not know, and around forks."""

import atexit
import ctypes
import os
import sys
import threading

import witness
from witness import alloc, check, context, cuda, in_thread, use_device

use_device()
library = ctypes.CDLL(sys.argv[1])


class Module:
    # At the end globals may be gone.
    def __del__(self, ctypes=ctypes, mem_alloc=witness.mem_alloc):
        address = ctypes.c_uint64()
        mem_alloc(ctypes.byref(address), 3000)


def at_exit():
    alloc(1000)


def daemon():
    started.set()
    while True:
        address = ctypes.c_uint64()
        check(witness.mem_alloc(ctypes.byref(address), 64))
        check(witness.mem_free(address))


atexit.register(at_exit)
check(library.allocate_in_foreign_thread())
child = os.fork()
if child == 0:
    address = ctypes.c_uint64()
    witness.mem_alloc(ctypes.byref(address), 64)
    os._exit(0)
check(os.waitpid(child, 0)[1])
started = threading.Event()
thread = threading.Thread(target=lambda: (check(cuda.cuCtxSetCurrent(context)), daemon()), daemon=True)
thread.start()
started.wait()
sys.modules["kept until the end"] = Module()
alloc(2000)
