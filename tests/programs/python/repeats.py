"""The same stack again and again, and then one that differs in a single place: where it is no walk is done, so each change must be
seen."""

import gc
import sys
import types

from witness import alloc, in_thread, testify, use_device

use_device()
ROUNDS = 2
AGAIN = 16


def lines():
    for _ in range(AGAIN):
        alloc(100)
    for _ in range(AGAIN):
        alloc(
            101
        ), alloc(102)
    for _ in range(AGAIN):
        alloc(103); alloc(
            104)


def callee():
    for _ in range(AGAIN):
        alloc(110)


def outer_line():
    callee()
    callee()
    for _ in range(3):
        callee(); (
            callee())


def deep(depth, of_one):
    if depth == 0:
        return callee()
    if of_one:
        return deep(depth - 1, of_one)
    return deep(depth - 1, of_one)


def deep_stacks():
    for depth in (5, 94, 95, 96, 97, 130, 131, 200):
        deep(depth, True)
        deep(depth, False)
        # Only one frame far out differs.
        for of_one in (True, False, True):
            deep(depth, of_one)


def code_that_comes_and_goes():
    for number in range(12):
        scope = {"alloc": alloc, "AGAIN": AGAIN}
        source = "\n" * (number % 5) + f"def made_{number % 4}():\n for _ in range(AGAIN):\n  alloc(120)\n"
        exec(compile(source, f"<made {number % 3}>", "exec"), scope)
        scope[f"made_{number % 4}"]()
        del scope


def base():
    for _ in range(AGAIN):
        alloc(125)


def code_in_the_same_place():
    for number in range(20):
        code = base.__code__.replace(co_firstlineno=1000 * (1 + number % 7))
        types.FunctionType(code, globals())()
        del code


def new_code():
    def first():
        for _ in range(AGAIN):
            alloc(130)

    def second():
        for _ in range(AGAIN):
            alloc(130)

    def work():
        pass

    for code in (first, second, first, second):
        work.__code__ = code.__code__
        work()


def generators():
    def numbers(size):
        while True:
            yield alloc(size)

    one, other = numbers(140), numbers(140)
    for _ in range(AGAIN):
        next(one)
    for _ in range(AGAIN):
        next(other)
    for _ in range(AGAIN):
        next(one), next(other)


def at_once():
    # The same place by another way: the frames of C between them differ.
    for _ in range(AGAIN):
        list(map(alloc, [150]))
    for _ in range(AGAIN):
        [alloc(size) for size in [150]]
    for _ in range(AGAIN):
        sorted([150], key=alloc)
    for _ in range(AGAIN):
        max([150], key=alloc)


def classes():
    class Base:
        def work(self):
            for _ in range(AGAIN):
                alloc(160)

    class Other(Base):
        def work(self):
            super().work()

    for kind in (Base, Other, Base, Other):
        kind().work()


def rounds(work):
    """Each in a thread of its own: where notes were in vain they are taken less and less."""
    in_thread(lambda: [work() for _ in range(ROUNDS)]).join()


sys.setrecursionlimit(2000)
gc.disable()
for work in (lines, outer_line, code_that_comes_and_goes, code_in_the_same_place, new_code, generators, at_once, classes, deep_stacks):
    rounds(work)
testify()
