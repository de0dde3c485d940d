"""The frameworks' own accounts are the witnesses."""

import pytest

CACHE = "libc10_cuda"


@pytest.mark.parametrize("conf", ["", "expandable_segments:True"])
def test_pytorch_cache_equals_reserved(python, conf):
    ran = python("pytorch", env={"PYTORCH_ALLOC_CONF": conf} if conf else None)
    assert ran.code == 0
    space = "vmm" if conf else "device"
    assert ran.live(via=CACHE, space=space) == ran.witness["reserved"]
    assert ran.live(via=CACHE) == ran.witness["reserved"]
    assert ran.report["complete"]


def test_pytorch_cuda_malloc_async(python):
    ran = python("pytorch", env={"PYTORCH_ALLOC_CONF": "backend:cudaMallocAsync"})
    assert ran.code == 0
    # Stream-ordered blocks are the tensors themselves, in exact sizes. (The interpreter frees some at its end, so the
    # peak is compared; what PyTorch calls reserved is the pool's own figure.)
    assert ran.space("async")["peak_bytes"] == ran.witness["allocated_peak"]
    assert ran.space("async")["allocs"] > 50


def test_pytorch_out_of_memory_is_reported_and_unchanged(python):
    ran = python("pytorch_oom")
    assert ran.code == 1
    assert "OutOfMemoryError" in ran.stderr
    group = ran.report["oom"][-1]
    assert group["requested_bytes"] == 1 << 40
    assert group["call"] == "cudaMalloc"
    assert group["total_bytes"] > group["free_bytes"] > 0
    assert sum(site["bytes"] for site in group["sites"]) >= 4 << 30


def test_cupy_pool_equals_total_bytes(python):
    ran = python("cupy_pool")
    assert ran.code == 0
    assert ran.live(via="cupy", space="device") == ran.witness["total_bytes"]


def test_jax_arena_is_one_allocation_of_bytes_limit(python):
    ran = python("jax_arena")
    assert ran.code == 0
    limit = ran.witness["bytes_limit"]
    # JAX gives the arena back at its end, so it is looked for at the peak.
    rows = [row for row in ran.report["devices"][0]["peak"]["sites"] if row["bytes"] == limit]
    assert len(rows) == 1 and rows[0]["blocks"] == 1 and rows[0]["space"] == "vmm", rows
    assert rows[0]["via"] == "xla_bfc"


def test_numba_arrays(python):
    ran = python("numba_arrays")
    assert ran.code == 0
    assert ran.report["totals"]["allocs"] >= 2
    assert ran.space("device")["peak_bytes"] >= ran.witness["bytes"]


def test_pytorch_stacks_are_those_of_traceback(python, runner):
    # Each tensor is an allocation of its own, at its own size; nothing is freed before the end.
    ran = python("pytorch_lines", env={"PYTORCH_NO_CUDA_MEMORY_CACHING": "1"})
    assert ran.code == 0
    recorded = {}
    for site in ran.report["devices"][0]["peak"]["sites"]:
        frames = [frame for frame in site["stack"] if frame["language"] == "python"]
        frames = tuple((frame["file"], frame["line"], frame["function"]) for frame in frames)
        key = (site["requested_bytes"] // site["blocks"], frames)
        recorded[key] = recorded.get(key, 0) + site["blocks"]
    wanted = {}
    for size, frames in ran.witness["rows"]:
        key = (size, tuple(tuple(frame) for frame in frames))
        wanted[key] = wanted.get(key, 0) + 1
    assert len(wanted) == 6
    for key, blocks in wanted.items():
        assert recorded.get(key) == blocks, key
    # A native place is shown with the line of the script, not with one of PyTorch's own.
    text = runner.text(ran.trace)
    assert "pytorch_lines.py:" in text and "module.py" not in text, text
    assert ran.report["notes"] == []


def test_a_thread_with_the_gil_waits_for_an_allocating_one(python):
    # A hook that took the GIL would stop both for good; the runner gives up after five minutes.
    ran = python("pytorch_gil", same=False)
    assert ran.code == 0
    assert min(ran.witness["asked"]) > 0
    assert ran.report["totals"]["allocs"] >= ran.witness["segments"]
