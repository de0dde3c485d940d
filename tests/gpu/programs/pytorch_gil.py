"""Two threads hold the GIL and wait for the cache's mutex (memory_stats) while a third asks the driver for memory under it."""

import json
import threading

import torch

stop = threading.Event()
asked = [0, 0]


def ask(number):
    while not stop.is_set():
        torch.cuda.memory_stats()
        asked[number] += 1


threads = [threading.Thread(target=ask, args=(number,)) for number in range(2)]
torch.empty(1, device="cuda")
for thread in threads:
    thread.start()
segments = 0
for turn in range(400):
    # Larger than all before: the cache must ask the driver.
    block = torch.empty((4 << 20) + turn * (2 << 20), dtype=torch.uint8, device="cuda")
    del block
    torch.cuda.empty_cache()
    segments += 1
stop.set()
for thread in threads:
    thread.join()
print("WITNESS", json.dumps({"segments": segments, "asked": asked}))
