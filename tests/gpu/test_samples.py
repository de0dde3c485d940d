"""The samples, built by nvcc with the shared and the static runtime, give the numbers that their comments promise."""

import pathlib
import shutil
import subprocess

import pytest

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent


@pytest.fixture(scope="module")
def built(tmp_path_factory):
    if shutil.which("nvcc") is None:
        pytest.skip("no nvcc on this machine")
    folder = tmp_path_factory.mktemp("samples")
    shutil.copytree(ROOT / "cuda_samples", folder / "cuda_samples", ignore=shutil.ignore_patterns("build"))
    made = subprocess.run(["make", "-j8"], cwd=folder / "cuda_samples", capture_output=True, text=True, check=False)
    assert made.returncode == 0, made.stdout + made.stderr
    return folder / "cuda_samples" / "build"


ROUTES = ["shared", "static"]
MIB = 1 << 20


@pytest.fixture
def sample(built, runner):
    def run(route, name):
        program = built / route / name
        ran = runner.watched([str(program)])
        plain = runner.plain([str(program)])
        print(f"== {route}/{name}: {ran.code}\n{runner.text(ran.trace)}")
        assert plain.returncode == ran.code, ran.stderr
        return ran

    return run


@pytest.mark.parametrize("route", ROUTES)
def test_leak(sample, route):
    ran = sample(route, "leak")
    totals, device = ran.report["totals"], ran.report["devices"][0]
    assert (totals["allocs"], totals["frees"]) == (14, 12)
    assert (device["peak_bytes"], device["peak_event"]) == (23_068_672, 14)
    assert [(row["bytes"], row["blocks"]) for row in ran.report["leaks"]] == [(2 * MIB, 2)]
    assert "buffers_for_requests" in ran.report["leaks"][0]["site"]


@pytest.mark.parametrize("route", ROUTES)
@pytest.mark.parametrize("name", ["peak", "growing", "async_pool", "vmm", "managed_pinned", "threads", "bad_frees",
                                  "static_objects", "pitched", "driver_only"])
def test_runs_unchanged(sample, route, name):
    ran = sample(route, name)
    assert ran.code == 0
    assert ran.report["totals"]["allocs"] > 0
    assert ran.report["complete"]


@pytest.mark.parametrize("route", ROUTES)
def test_out_of_memory(sample, route):
    ran = sample(route, "out_of_memory")
    assert ran.code == 2
    group = ran.report["oom"][-1]
    assert group["free_bytes"] < group["requested_bytes"]
    assert group["short_by_bytes"] == group["requested_bytes"] - group["free_bytes"]


@pytest.mark.parametrize("route", ROUTES)
def test_arrays_and_graphs(sample, route):
    ran = sample(route, "arrays")
    assert ran.code == 0, ran.stderr
    assert ran.space("array")["peak_bytes"] >= 1_048_576
    ran = sample(route, "graph")
    assert ran.code == 0, ran.stderr
    assert ran.report["graphs"]["alloc_nodes"] == 1
    assert ran.report["graphs"]["reserved_peak_bytes"] == 32 * MIB


@pytest.mark.parametrize("route", ROUTES)
def test_ipc_between_two_processes(built, runner, route):
    before = set(runner.folder.glob("*.trace"))
    ran = runner.watched([str(built / route / "ipc")])
    print(f"== {route}/ipc: {ran.code}\n{ran.stdout}{ran.stderr}")
    assert ran.code == 0
    traces = sorted(set(runner.folder.glob("*.trace")) - before)
    for trace in traces:
        print(runner.text(trace))
    # The exporter and the importer, a trace each.
    assert len(traces) == 2
