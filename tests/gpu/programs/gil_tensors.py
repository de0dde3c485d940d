"""Tensors come and go in many threads, while another one holds the GIL and asks for the cache's figures again and again."""

import json
import sys
import threading
import time

import torch

MIB = 1 << 20
end = time.monotonic() + float(sys.argv[1])
done = [0] * 8
asked = 0


def work(number):
    # A matrix product releases nothing of the GIL for long, but the cache's lock is taken for each of them.
    while time.monotonic() < end:
        blocks = [torch.empty((1 + (number + turn) % 7) * MIB // 4, device="cuda") for turn in range(16)]
        done[number] += len(blocks)
        del blocks
        if number == 0 and done[0] % 512 == 0:
            torch.cuda.empty_cache()


torch.empty(1, device="cuda")
threads = [threading.Thread(target=work, args=(number,)) for number in range(len(done))]
for thread in threads:
    thread.start()
while time.monotonic() < end:
    torch.cuda.memory_allocated()
    asked += 1
for thread in threads:
    thread.join()
print("WITNESS", json.dumps({"done": done, "asked": asked,
                             "allocations": torch.cuda.memory_stats()["allocation.all.allocated"]}))
