"""Frameworks that run out of a pretended memory, and the ends that programs have."""

import signal
import subprocess
import sys

import pytest

from conftest import ARTEFACTS, HERE

GIB = 1 << 30
CAPACITY = {"OOMHOOK_CAPACITY": "4GiB"}


def test_pytorch_is_told_of_less_memory_and_recovers_as_ever(python):
    ran = python("pytorch_capacity", "retry", env=CAPACITY, same=False)
    assert ran.code == 0, ran.stderr
    assert ran.witness["total"] == ran.witness["properties"] == 4 * GIB
    assert (ran.witness["retries"], ran.witness["ooms"]) == (1, 0)
    [group] = ran.report["oom"]
    assert group["class"] == "recovered"
    assert group["requested_bytes"] == 2 * GIB + GIB // 4
    assert group["freed_between_bytes"] == 2 * GIB
    assert group["total_bytes"] == 4 * GIB
    assert sum(line["bytes"] for line in group["ledger"]) == 4 * GIB
    assert any("pretended to have 4.0 GiB" in note for note in ran.report["notes"])
    # A routine retry is one line, and nothing more.
    said = [line for line in ran.stderr.splitlines() if line.startswith("oomhook: ") and "emory" in line]
    assert sum("out of memory:" in line for line in said) == 1, ran.stderr
    assert "OUT OF MEMORY" not in ran.stderr


def test_pytorch_catches_its_own_error(python):
    ran = python("pytorch_capacity", "caught", env=CAPACITY, same=False)
    assert ran.code == 0, ran.stderr
    assert "Tried to allocate 8.00 GiB" in ran.witness["error"]
    assert ran.witness["ooms"] == 1
    [group] = ran.report["oom"]
    assert group["class"] == "caught"
    assert group["requested_bytes"] == 8 * GIB
    assert "pytorch_capacity.py" in group["python_site"]
    # PyTorch gave up: the whole story follows at once, with the line of the script.
    assert "OUT OF MEMORY: cudaMalloc asked 8.0 GiB on GPU 0" in ran.stderr
    assert "pytorch_capacity.py" in ran.stderr
    print(ran.stderr)


def test_pytorch_dies_of_it(python):
    ran = python("pytorch_capacity", "fatal", env=CAPACITY, same=False)
    assert ran.code == 1
    assert "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 8.00 GiB" in ran.stderr
    [group] = ran.report["oom"]
    assert (group["class"], group["requested_bytes"]) == ("fatal", 8 * GIB)
    print(ran.stderr)


def test_jax_takes_its_share_of_less_memory(python):
    ran = python("jax_capacity", env=CAPACITY, same=False)
    assert ran.code == 0, ran.stderr
    assert ran.witness["bytes_limit"] < 4 * GIB
    assert "error" in ran.witness


def test_jax_without_its_arena_runs_out(python):
    ran = python("jax_capacity", env={**CAPACITY, "XLA_PYTHON_CLIENT_ALLOCATOR": "platform"}, same=False)
    assert ran.code == 0, ran.stderr
    assert "error" in ran.witness
    rows = [group for group in ran.report["oom"] if group["requested_bytes"] == 8 * GIB]
    assert rows and {row["class"] for row in rows} == {"caught"}, ran.report["oom"]


def test_cupy_runs_out(python):
    ran = python("cupy_capacity", env=CAPACITY, same=False)
    assert ran.code == 1
    assert ran.witness["total"] == 4 * GIB and 2 <= ran.witness["arrays"] <= 3
    group = ran.report["oom"][-1]
    assert (group["class"], group["requested_bytes"]) == ("fatal", GIB)


@pytest.mark.parametrize("part, end, code", [
    ("raise", "exit", 1), ("exit", "exit", 3), ("_exit", "_exit", 4), ("exec", "exec", 5),
    ("abort", "signal", -signal.SIGABRT), ("segfault", "signal", -signal.SIGSEGV),
    ("terminated", "signal", -signal.SIGTERM), ("interrupted", "signal", -signal.SIGINT),
])
def test_ends(python, part, end, code):
    ran = python("pytorch_ends", part)
    assert ran.code == code
    assert ran.report["complete"] and ran.report["process"]["end"] == end
    assert ran.live(via="libc10_cuda") >= 64 << 20 or part in ("raise", "exit")


def run_under_the_command(runner, *command):
    return runner.plain([str(ARTEFACTS / "oomhook"), "run", "-o", "traces", "--", *command])


def test_workers_of_a_data_loader_leave_no_traces(runner):
    done = run_under_the_command(runner, sys.executable, str(HERE / "programs" / "pytorch_workers.py"))
    assert done.returncode == 0, done.stderr
    assert done.stdout == "2064384.0\n"
    assert len(list((runner.folder / "traces").glob("*.trace"))) == 1
    assert done.stderr.count("Peak ") == 1, done.stderr


def test_ranks_of_torchrun_give_one_trace_each_and_one_report(runner):
    done = run_under_the_command(
        runner, sys.executable, "-m", "torch.distributed.run", "--nproc-per-node", "2", "--master-port", "29431",
        str(HERE / "programs" / "pytorch_ranks.py"))
    assert done.returncode == 0, done.stderr
    traces = list((runner.folder / "traces").glob("*.trace"))
    assert len(traces) == 2, traces
    shown = subprocess.run([ARTEFACTS / "oomhook", "report", runner.folder / "traces"], capture_output=True, text=True,
                           check=True, timeout=60)
    print(done.stderr, shown.stdout)
    assert "rank 0" in shown.stdout and "rank 1" in shown.stdout
