"""Code objects made and dropped all the time: new ones lie where old ones lay, with names and lines of their own."""

import gc

from witness import alloc, mem_free, check, testify, use_device

use_device()


def from_exec(i):
    source = "\n" * (i % 11) + "alloc(64)\n" + "\n" * (10 - i % 11)
    exec(compile(source, "<generated>", "exec"), {"alloc": alloc})


def from_functions(i):
    scope = {"alloc": alloc}
    exec("\n" * (i % 5) + f"def f_{i % 7}_{i % 3}():\n    return alloc(65)\n", scope)
    scope.pop(f"f_{i % 7}_{i % 3}")()


def from_files(i):
    scope = {"alloc": alloc}
    exec(compile("f = lambda: alloc(66)", f"<file {i % 13}>", "exec"), scope)
    scope.pop("f")()


gc.disable()
for number in range(6000):
    from_exec(number)
    from_functions(number)
    from_files(number)
testify()
