"""Work of several kinds, and PyTorch's own figures of its cache: peaks, live bytes, allocations and the map of its segments."""

import json
import sys

import torch

MIB = 1 << 20


def training():
    torch.manual_seed(0)
    model = torch.nn.Sequential(torch.nn.Linear(1024, 4096), torch.nn.ReLU(), torch.nn.Linear(4096, 1024)).cuda()
    optimizer = torch.optim.Adam(model.parameters())
    kept = [model, optimizer]
    for step in range(30):
        batch = torch.randn(64 + 32 * (step * 7 % 11), 1024, device="cuda")
        loss = (model(batch) - batch).square().mean()
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        if step % 10 == 0:
            kept.append(batch)
    torch.cuda.empty_cache()
    return kept


def streams():
    kept = []
    side = [torch.cuda.Stream() for _ in range(3)]
    for turn in range(60):
        stream = side[turn % 3]
        with torch.cuda.stream(stream):
            work = torch.randn((1 + turn % 5) * MIB, device="cuda")
            result = work * 2
        # The cache may not hand the block out again before the other stream is done with it.
        result.record_stream(torch.cuda.current_stream())
        torch.cuda.current_stream().wait_stream(stream)
        if turn % 6 == 0:
            kept.append(result)
        del work, result
    torch.cuda.synchronize()
    torch.empty(8 * MIB, device="cuda")
    return kept


def graphs():
    kept = []
    fixed = torch.randn(512, 512, device="cuda")
    (fixed @ fixed).relu()
    pool = torch.cuda.graph_pool_handle()
    for size in (2, 3, 5):
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph, pool=pool):
            work = torch.zeros(size * 4 * MIB, device="cuda")
            result = work + 1
            del work
        graph.replay()
        kept.append((graph, result))
    torch.cuda.synchronize()
    return kept


def pools():
    kept = []
    pool = torch.cuda.MemPool()
    for turn in range(20):
        with torch.cuda.use_mem_pool(pool):
            inside = torch.randn((1 + turn % 4) * MIB, device="cuda")
        outside = torch.randn(2 * MIB, device="cuda")
        if turn % 5 == 0:
            kept.append((inside, outside))
        del inside, outside
    return kept + [pool]


def emptied():
    kept = torch.empty(75 * MIB, device="cuda")
    work = torch.empty(125 * MIB, device="cuda")
    small = [torch.empty(100, device="cuda") for _ in range(3)]
    del work, small[1:]
    # The cache says nothing of what it gives back here, and hands out nothing afterwards.
    torch.cuda.empty_cache()
    return [kept, small]


def two():
    kept = []
    for turn in range(40):
        device = f"cuda:{turn % 2}"
        block = torch.randn((1 + turn % 7) * MIB, device=device)
        if turn % 8 < 2:
            kept.append(block)
        del block
    return kept


def figures(device):
    stats = torch.cuda.memory_stats(device)
    segments = [segment for segment in torch.cuda.memory_snapshot() if segment["device"] == device]
    holes = []
    for segment in segments:
        hole = 0
        for block in segment["blocks"]:
            if block["state"] == "inactive":
                hole += block["size"]
                holes.append(hole)
            else:
                hole = 0
    return {
        "allocated": torch.cuda.memory_allocated(device),
        "allocated_peak": torch.cuda.max_memory_allocated(device),
        "reserved": torch.cuda.memory_reserved(device),
        "reserved_peak": torch.cuda.max_memory_reserved(device),
        "allocations": stats["allocation.all.allocated"],
        "frees": stats["allocation.all.freed"],
        "segments": len(segments),
        "segment_bytes": sum(segment["total_size"] for segment in segments),
        "idle": sum(segment["total_size"] - segment["allocated_size"] for segment in segments),
        "largest_hole": max(holes, default=0),
        "empty": sum(segment["allocated_size"] == 0 for segment in segments),
    }


def main():
    torch.cuda.init()
    kept = globals()[sys.argv[1]]()
    torch.cuda.synchronize()
    devices = range(2 if sys.argv[1] == "two" else 1)
    print("WITNESS", json.dumps([figures(device) for device in devices]), flush=True)
    # What is kept goes without a trace: the figures are those of the end.
    import os
    os._exit(0 if kept else 1)


main()
