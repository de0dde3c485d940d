"""The driver's own figures are the witnesses: cudaMemGetInfo, pool and graph attributes."""

import pathlib
import shutil
import subprocess

import pytest

HERE = pathlib.Path(__file__).resolve().parent
MIB = 1 << 20


@pytest.mark.parametrize("cudart", ["shared", "static"])
def test_the_drivers_own_figures(runner, cudart):
    if shutil.which("nvcc") is None:
        pytest.skip("no nvcc on this machine")
    program = runner.folder / "accounts"
    stubs = pathlib.Path(shutil.which("nvcc")).resolve().parent.parent / "lib64" / "stubs"
    subprocess.run(["nvcc", "-std=c++17", "-cudart", cudart, str(HERE / "programs" / "accounts.cpp"), "-o", str(program),
                    f"-L{stubs}", "-lcuda"], check=True)
    ran = runner.watched([str(program)])
    print(f"== accounts, {cudart}: {ran.code}\n{ran.stdout}\n{runner.text(ran.trace)}")
    assert ran.code == 0, ran.stderr
    said = dict((name, int(value)) for name, value in (line.split() for line in ran.stdout.splitlines()))
    device = ran.report["devices"][0]
    spaces = device["spaces"]
    assert spaces["device"]["live_bytes"] == 64 * MIB
    assert spaces["async"]["live_bytes"] == 64 * MIB == said["pool_used"]
    assert spaces["vmm"]["live_bytes"] == 64 * MIB
    live = sum(spaces[name]["live_bytes"] for name in ("device", "async", "vmm"))
    assert live + said["pool_reserved"] - said["pool_used"] == said["taken"]
    assert spaces["graph"]["live_bytes"] == said["graph_reserved"] == ran.report["graphs"]["reserved_bytes"]
    assert ran.report["graphs"]["alloc_nodes"] == 1
    assert ran.report["va"]["live_bytes"] == 128 * MIB


@pytest.mark.parametrize("cudart", ["shared", "static"])
def test_each_of_two_gpus_has_its_own_account(runner, cudart):
    if shutil.which("nvcc") is None:
        pytest.skip("no nvcc on this machine")
    program = runner.folder / "two_gpus"
    subprocess.run(["nvcc", "-std=c++17", "-cudart", cudart, str(HERE / "programs" / "two_gpus.cpp"), "-o", str(program)],
                   check=True)
    if runner.plain([str(program)]).returncode == 2:
        pytest.skip("fewer than two GPUs on this machine")
    ran = runner.watched([str(program)])
    print(f"== two GPUs, {cudart}: {ran.code}\n{ran.stdout}\n{runner.text(ran.trace)}")
    assert ran.code == 0, ran.stderr
    said = dict((name, int(value)) for name, value in (line.split() for line in ran.stdout.splitlines()))
    figures = [(device["device"], device["peak_bytes"], device["live_bytes"]) for device in ran.report["devices"]]
    assert figures == [(0, 320 * MIB, 64 * MIB), (1, 224 * MIB, 96 * MIB)]
    assert figures == [(device, said[f"peak_{device}"], said[f"live_{device}"]) for device in (0, 1)]


@pytest.mark.parametrize("cudart", ["shared", "static"])
def test_a_free_that_a_stream_may_not_make_frees_nothing(runner, cudart):
    if shutil.which("nvcc") is None:
        pytest.skip("no nvcc on this machine")
    program = runner.folder / "callbacks"
    subprocess.run(["nvcc", "-std=c++17", "-cudart", cudart, str(HERE / "programs" / "callbacks.cpp"), "-o", str(program)],
                   check=True)
    plain = runner.plain([str(program)])
    ran = runner.watched([str(program)])
    print(f"== callbacks, {cudart}: {ran.code}\n{ran.stdout}\n{runner.text(ran.trace)}")
    assert (ran.code, ran.stdout) == (plain.returncode, plain.stdout), ran.stderr
    said = dict((name, int(value)) for name, value in (line.split() for line in ran.stdout.splitlines()))
    refused = [code for code in (said["host_function"], said["callback"]) if code != 0]
    totals = ran.report["totals"]
    assert len(refused) == 2 and (totals["allocs"], totals["frees"]) == (2, 0)
    # The runtime refuses without asking the driver: one that is inside the program does so unseen.
    assert totals["failed_frees"] == (2 if cudart == "shared" else 0)
    assert ran.report["devices"][0]["live_bytes"] == said["taken"]
