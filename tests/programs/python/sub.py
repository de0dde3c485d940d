"""An allocation inside a subinterpreter that shares the thread."""

import ctypes
import sys

from witness import alloc, mem_alloc, use_device

try:
    import _interpreters
except ImportError:
    import _xxsubinterpreters as _interpreters

use_device()
address = ctypes.cast(mem_alloc, ctypes.c_void_p).value
script = f"""
import ctypes
mem_alloc = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_void_p, ctypes.c_size_t)({address})
def inner():
    block = ctypes.c_uint64()
    assert mem_alloc(ctypes.addressof(block), 5000) == 0
inner()
"""


def outer():
    if sys.version_info >= (3, 13):
        made = _interpreters.create("legacy")
        failed = _interpreters.exec(made, script)
    else:
        isolated = {"isolated": False} if sys.version_info >= (3, 9) else {}
        made = _interpreters.create(**isolated)
        failed = _interpreters.run_string(made, script)
    assert failed is None, failed
    _interpreters.destroy(made)


outer()
alloc(20)
