"""More different functions than can be named, and a first one that is called again after all of them."""

from witness import alloc, check, mem_free, testify, use_device

use_device()


def made(number, size):
    scope = {}
    exec(f"def made_{number}(alloc):\n    return alloc({size})\n", scope)
    return scope[f"made_{number}"](alloc)


for number in range(40000):
    check(mem_free(made(number, 64)))
made(5, 128)
made(39999, 256)
