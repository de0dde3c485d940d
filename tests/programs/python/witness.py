"""What the tests' Python programs share: the driver by ctypes, and a witness of each allocation's stack.

The witness is what `traceback.walk_stack` (so `traceback.extract_stack`) says beside the call; `testify` prints all of it,
summed by stack.
"""

import ctypes
import json
import sys
import threading
import traceback

INNERMOST, OUTERMOST = 96, 32

cuda = ctypes.CDLL("libcuda.so.1")
mem_alloc = cuda.cuMemAlloc_v2
mem_alloc.argtypes = [ctypes.c_void_p, ctypes.c_size_t]
mem_free = cuda.cuMemFree_v2
mem_free.argtypes = [ctypes.c_uint64]

seen = {}
lock = threading.Lock()
context = ctypes.c_void_p()


def check(code):
    assert code == 0, code


def use_device():
    device = ctypes.c_int()
    check(cuda.cuInit(0))
    check(cuda.cuDeviceGet(ctypes.byref(device), 0))
    check(cuda.cuDevicePrimaryCtxRetain(ctypes.byref(context), device))
    check(cuda.cuCtxSetCurrent(context))


def printable(text):
    return "".join("\ufffd" if 0xD800 <= ord(c) <= 0xDFFF else c for c in text)


def stack(frame):
    """Innermost first: [file, line, qualified name], long ones as they are kept."""
    frames = []
    for frame, line in traceback.walk_stack(frame):
        code = frame.f_code
        name = getattr(code, "co_qualname", code.co_name)
        frames.append([printable(code.co_filename), line, printable(name)])
    left_out = len(frames) - INNERMOST - OUTERMOST
    if left_out > 0:
        plural = "frame" if left_out == 1 else "frames"
        gap = [None, None, "... {:,} Python {} left out ...".format(left_out, plural)]
        frames = frames[:INNERMOST] + [gap] + frames[-OUTERMOST:]
    return frames


def note(size, frame):
    key = json.dumps(stack(frame))
    with lock:
        blocks, total = seen.get(key, (0, 0))
        seen[key] = (blocks + 1, total + size)


def alloc(size):
    address = ctypes.c_uint64()
    code = mem_alloc(ctypes.byref(address), size); note(size, sys._getframe())
    check(code)
    return address.value


def in_thread(work):
    """Runs it in a thread that has the device."""

    def run():
        check(cuda.cuCtxSetCurrent(context))
        work()

    thread = threading.Thread(target=run)
    thread.start()
    return thread


def testify():
    rows = [[json.loads(key), blocks, total] for key, (blocks, total) in seen.items()]
    print(json.dumps({"python": list(sys.version_info[:3]), "rows": rows}))
