"""Allocations from everywhere that Python code can be called from."""

import asyncio
import ctypes
import functools
import gc
import sys
import threading

from witness import alloc, check, cuda, context, in_thread, mem_alloc, note, testify, use_device

use_device()
alloc(100)


def plain():
    alloc(1001)


class Model:
    count = [alloc(1002 + i) for i in range(2)]

    def __init__(self):
        self.weights = alloc(1010)

    def step(self):
        def inner():
            return alloc(1011)

        return inner()

    @staticmethod
    def shared():
        return alloc(1012)

    @classmethod
    def made(cls):
        return alloc(1013)

    @property
    def size(self):
        return alloc(1014)

    class Nested:
        def deep(self):
            return alloc(1015)

    def __call__(self):
        return alloc(1016)

    def __del__(self):
        alloc(1017)


def classes():
    model = Model()
    model.step()
    Model.shared()
    Model.made()
    model.size
    Model.Nested().deep()
    model()
    del model


class Meta(type):
    def __new__(mcs, name, bases, body):
        alloc(1020)
        return super().__new__(mcs, name, bases, body)


def metaclass():
    class Made(metaclass=Meta):
        size = alloc(1021)


def generators():
    def numbers():
        yield alloc(1030)
        yield from [alloc(1031 + i) for i in range(2)]
        yield from more()

    def more():
        alloc(1033)
        yield 1

    first = numbers()
    next(first)
    list(first)
    sum(alloc(1040 + i) for i in range(3))


async def leaf(size):
    alloc(size)
    await asyncio.sleep(0)
    alloc(size + 1)


async def tree():
    await leaf(1050)
    await asyncio.gather(leaf(1052), leaf(1054))

    async def items():
        for i in range(2):
            yield alloc(1056 + i)

    async for _ in items():
        alloc(1058)


def coroutines():
    loop = asyncio.new_event_loop()
    loop.run_until_complete(tree())
    loop.close()


def recursion(depth):
    if depth == 0:
        return alloc(1060)
    return recursion(depth - 1)


def through_c(depth):
    # Each level goes through C.
    if depth == 0:
        return alloc(1061)
    return list(map(through_c, [depth - 1]))


def small_code():
    (lambda: alloc(1070))()
    [alloc(1071) for _ in range(2)]
    {alloc(1072): alloc(1073)}
    {i: alloc(1074 + i) for i in range(2)}
    {alloc(1076 + i) for i in range(2)}
    [[alloc(1078) for _ in range(2)] for _ in range(2)]


def decorated(function):
    @functools.wraps(function)
    def wrapper(*args):
        alloc(1080)
        return function(*args)

    return wrapper


@decorated
@decorated
def twice():
    alloc(1081)


def generated():
    exec("alloc(1090)")
    exec(compile("\n\ndef made():\n    alloc(1091)\nmade()", "<made here>", "exec"))
    eval("alloc(1092)")
    eval("(lambda: alloc(1093))()")


class Cycle:
    def __init__(self):
        self.me = self

    def __del__(self):
        alloc(1100)


def collected():
    Cycle()
    gc.collect()


def nach_unten_größe():
    alloc(1110)
    exec(compile("def \u8bad\u7ec3():\n  alloc(1111)\n\u8bad\u7ec3()", "/tmp/\u6a21\u578b/\u00e9.py", "exec"))
    exec(compile("def \U0001d4dc():\n  alloc(1112)\n\U0001d4dc()", "/tmp/\U0001f40d.py", "exec"))
    exec(compile("alloc(1113)", "/tmp/undecodable-\udcff.py", "exec"))


def traced():
    def trace(frame, event, argument):
        return trace

    sys.settrace(trace)
    alloc(1120)
    plain()
    sys.settrace(None)

    def at_call(frame, event, argument):
        if event == "call" and frame.f_code.co_name == "watched":
            alloc(1121)

    def watched():
        return 1

    sys.settrace(at_call)
    watched()
    sys.settrace(None)
    sys.setprofile(at_call)
    watched()
    sys.setprofile(None)


def from_c():
    sorted([3, 1, 2], key=lambda value: alloc(1130 + value))
    functools.partial(alloc, 1140)()
    functools.reduce(lambda a, b: alloc(1141), [1, 2, 3])
    callback_type = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_void_p, ctypes.c_void_p)

    def compare(a, b):
        alloc(1142)
        return 0

    numbers = (ctypes.c_int * 2)(2, 1)
    ctypes.CDLL(None).qsort(numbers, 2, 4, callback_type(compare))


def long_calls():
    alloc(
        1150
        +
        1
    )
    [
        alloc(1152),
        plain(),
        alloc(
            1153
        ),
    ]
    (functools
     .partial(alloc, 1154)
     ())
    assert (
        alloc(1155)
        and
        alloc(1156)
    )


def raising():
    try:
        alloc(1160)
        raise ValueError
    except ValueError:
        alloc(1161)
    finally:
        alloc(1162)
    with Manager():
        alloc(1163)


class Manager:
    def __enter__(self):
        alloc(1164)

    def __exit__(self, *_):
        alloc(1165)


def far_away():
    pass
# A function of many lines: its table has long forms.
exec(compile("def long():\n" + "    x = 1\n" * 300 + "\n" * 300 + "    alloc(1170)\n" + "\n" * 40000
             + "    alloc(1171)\nlong()", "<long>", "exec"))


def threads():
    barrier = threading.Barrier(4)

    def work():
        barrier.wait()
        for i in range(50):
            alloc(2000)
            Model.shared()

    running = [in_thread(work) for _ in range(4)]
    for thread in running:
        thread.join()


def greenlets():
    import greenlet

    def child():
        alloc(1180)
        parent.switch()
        alloc(1181)

    def grandchild():
        alloc(1182)
        one.switch()
        alloc(1183)

    parent = greenlet.getcurrent()
    one = greenlet.greenlet(child)
    two = greenlet.greenlet(grandchild)
    one.switch()
    two.switch()
    alloc(1184)


def main():
    plain()
    classes()
    metaclass()
    generators()
    coroutines()
    for depth in [0, 1, 50, 100, 130, 1000]:
        recursion(depth)
    through_c(40)
    small_code()
    twice()
    generated()
    collected()
    nach_unten_größe()
    traced()
    from_c()
    long_calls()
    raising()
    threads()
    if "greenlets" in sys.argv:
        greenlets()


sys.setrecursionlimit(5000)
main()
testify()
