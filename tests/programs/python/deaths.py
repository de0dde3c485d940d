"""How Python ends: deaths.py PART. Every part holds 3 MiB when it ends."""

import ctypes
import faulthandler
import os
import signal
import subprocess
import sys

from witness import mem_alloc, use_device

use_device()
block = ctypes.c_uint64()
assert mem_alloc(ctypes.byref(block), 3 << 20) == 0


def crash_with_faulthandler():
    faulthandler.enable(all_threads=False)
    faulthandler._sigsegv()


def fatal_error_with_faulthandler():
    faulthandler.enable(all_threads=False)
    faulthandler._sigabrt()


def raises():
    raise RuntimeError("nobody catches this")


def interrupted():
    os.kill(os.getpid(), signal.SIGINT)
    while True:
        pass


def terminated():
    os.kill(os.getpid(), signal.SIGTERM)
    while True:
        pass


def handles():
    def handler(number, frame):
        print("handled", number, flush=True)
        signal.signal(number, signal.SIG_DFL)
        os.kill(os.getpid(), number)

    assert signal.getsignal(signal.SIGTERM) == signal.SIG_DFL
    signal.signal(signal.SIGTERM, handler)
    os.kill(os.getpid(), signal.SIGTERM)
    while True:
        pass


def children():
    for close_fds in (True, False):
        try:
            subprocess.run(["/nonexistent/program"], close_fds=close_fds)
        except FileNotFoundError:
            print("not found", flush=True)
        assert subprocess.run(["sh", "-c", "exit 3"], close_fds=close_fds).returncode == 3
        done = subprocess.run(["sh", "-c", "kill -TERM $$"], close_fds=close_fds)
        assert done.returncode == -signal.SIGTERM
    child = os.fork()
    if child == 0:
        os.kill(os.getpid(), signal.SIGTERM)
        os._exit(1)
    assert os.WTERMSIG(os.waitpid(child, 0)[1]) == signal.SIGTERM
    sys.exit(4)


def executes():
    try:
        os.execv("/nonexistent/program", ["program"])
    except FileNotFoundError:
        pass
    try:
        os.execvp("oomhook-no-such-command", ["program"])
    except FileNotFoundError:
        pass
    os.execvp("sh", ["sh", "-c", "echo executed; exit 5"])


def broken_pipe():
    reader, writer = os.pipe()
    os.close(reader)
    signal.signal(signal.SIGPIPE, signal.SIG_DFL)
    os.write(writer, b"x")


globals()[sys.argv[1]]()
