"""Stacks through CPython, ctypes, libffi and the C libraries that call back, each handed to unwind_check."""

import ctypes
import functools
import json
import re
import sqlite3
import sys
import threading
import xml.parsers.expat

library = ctypes.CDLL(sys.argv[1])
counts = {"checks": 0, "frames": 0, "left": 0}


def check(*_):
    found = library.unwind_check()
    counts["checks"] += 1
    counts["frames"] += abs(found)
    counts["left"] += found < 0
    return 0


library.unwind_check.restype = ctypes.c_long


class Key:
    def __init__(self, value):
        self.value = value

    def __lt__(self, other):
        check()
        return self.value < other.value

    def __hash__(self):
        check()
        return self.value

    def __eq__(self, other):
        check()
        return self.value == other.value

    def __del__(self):
        check()


def recurse(depth, work):
    return work() if depth == 0 else recurse(depth - 1, work)


def generate(depth):
    if depth:
        yield from generate(depth - 1)
    check()
    yield depth


for depth in range(0, 60, 3):
    recurse(depth, check)
    recurse(depth, lambda: sorted([Key(n * 7 % 20) for n in range(20)]))
    recurse(depth, functools.partial(dict.fromkeys, [Key(n % 3) for n in range(9)]))
    recurse(depth, lambda: list(generate(depth % 10)))
    recurse(depth, lambda: json.loads('{"a": [1, {"b": 2}]}', object_hook=check))
    recurse(depth, lambda: re.sub("a+", lambda match: str(check()), "aabaab"))
    recurse(depth, lambda: exec("check()", {"check": check}))

callback = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_void_p, ctypes.c_void_p)(check)
numbers = (ctypes.c_int * 32)(*[n * 11 % 32 for n in range(32)])
ctypes.CDLL(None).qsort(numbers, 32, 4, callback)

database = sqlite3.connect(":memory:")
database.create_function("checked_value", 1, check)
database.create_collation("checked", lambda a, b: check() or (a > b) - (a < b))
database.execute("create table t (x)")
database.executemany("insert into t values (?)", [(str(n * 13 % 50),) for n in range(50)])
database.execute("select checked_value(x) from t order by x collate checked").fetchall()

parser = xml.parsers.expat.ParserCreate()
parser.StartElementHandler = check
parser.CharacterDataHandler = check
parser.Parse("<a>" * 30 + "x" + "</a>" * 30, True)

for _ in range(5):
    thread = threading.Thread(target=recurse, args=(20, check))
    thread.start()
    thread.join()

print(counts["checks"], counts["frames"], counts["left"])
