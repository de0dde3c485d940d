"""The witness: what NVIDIA's management library says of this process and its device."""

import ctypes
import os


class Memory(ctypes.Structure):
    _fields_ = [("version", ctypes.c_uint), ("total", ctypes.c_ulonglong), ("reserved", ctypes.c_ulonglong),
                ("free", ctypes.c_ulonglong), ("used", ctypes.c_ulonglong)]


class Process(ctypes.Structure):
    _fields_ = [("pid", ctypes.c_uint), ("bytes", ctypes.c_ulonglong), ("gpu", ctypes.c_uint), ("compute", ctypes.c_uint)]


def look():
    """Bytes of this process (None if it is not listed under its number), used and total of device 0."""
    library = ctypes.CDLL("libnvidia-ml.so.1")
    assert library.nvmlInit_v2() == 0
    device = ctypes.c_void_p()
    assert library.nvmlDeviceGetHandleByIndex_v2(0, ctypes.byref(device)) == 0
    memory = Memory(version=ctypes.sizeof(Memory) | 2 << 24)
    assert library.nvmlDeviceGetMemoryInfo_v2(device, ctypes.byref(memory)) == 0
    count = ctypes.c_uint(64)
    processes = (Process * 64)()
    code = library.nvmlDeviceGetComputeRunningProcesses_v3(device, ctypes.byref(count), processes)
    own = None
    listed = []
    if code == 0:
        listed = [(process.pid, process.bytes) for process in processes[:count.value]]
        own = dict(listed).get(os.getpid())
    return {"process": own, "listed": listed, "pid": os.getpid(), "used": memory.used,
            "total": memory.total - memory.reserved}
