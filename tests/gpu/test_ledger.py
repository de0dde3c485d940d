"""The ledger's lines beside what the driver and the management library say."""

import json
import os
import subprocess
import sys

import pytest

from conftest import ARTEFACTS, HERE

PROGRAMS = [
    ("training", {}),
    ("training", {"PYTORCH_ALLOC_CONF": "expandable_segments:True"}),
    ("training", {"PYTORCH_ALLOC_CONF": "backend:cudaMallocAsync"}),
    ("jax", {}),
    ("cupy", {}),
]


@pytest.mark.parametrize("kind, env", PROGRAMS)
def test_every_byte_is_explained(python, kind, env):
    ran = python("ledger", kind, env=env, same=False)
    assert ran.code == 0, ran.stderr
    device = ran.report["devices"][0]
    lines = {line["name"]: line["bytes"] for line in device["ledger"]["exit"]}
    peak = {line["name"]: line["bytes"] for line in device["ledger"]["peak"]}
    print(kind, env, "\nexit", lines, "\npeak", peak, "\nwitness", ran.witness, "\nlatest", device["latest"])
    for cost in device["costs"]:
        print(f"{cost['bytes'] / (1 << 20):10.1f} MiB {cost['name']:10} {cost['calls']:4} {cost['call']} {cost['label'][:90]}")
    process = device["latest"]["process_bytes"]
    assert lines["rest"] < process * 0.01, lines
    assert sum(lines.values()) == device["latest"]["total_bytes"] == ran.witness["total"]
    # What the lines say of this process, beside what the management library says of it.
    others = ("free", "driver", "other_processes", "rest")
    own = sum(value for name, value in lines.items() if name not in others)
    assert abs(own - process) <= process * 0.01, (own, process)
    assert peak["rest"] < sum(value for name, value in peak.items() if name not in others) * 0.01, peak


def start(program, *arguments, env=None):
    command = [sys.executable, str(HERE / "programs" / program), *arguments]
    return subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
                            env={**os.environ, **(env or {})})


def test_a_neighbour_is_named_where_memory_runs_out(python):
    neighbour = start("neighbour.py")
    try:
        assert neighbour.stdout.readline() == "ready\n"
        ran = python("pytorch_capacity", "caught", env={"OOMHOOK_CAPACITY": "8GiB"}, same=False)
    finally:
        neighbour.stdin.close()
        neighbour.wait()
    [group] = ran.report["oom"]
    others = {other["pid"]: other for other in group["others"]}
    print(group["ledger"], group["others"], ran.stderr)
    assert others[neighbour.pid]["bytes"] >= 2 << 30
    assert "python" in others[neighbour.pid]["name"]
    assert f"pid {neighbour.pid} " in ran.stderr
    lines = {line["name"]: line["bytes"] for line in group["ledger"]}
    assert sum(lines.values()) == group["total_bytes"] == 8 << 30
    assert lines["other_processes"] >= 2 << 30


def test_a_running_process_is_asked(runner):
    program = start("neighbour.py", env={"LD_PRELOAD": str(ARTEFACTS / "liboomhook.so"),
                                         "OOMHOOK_OUTPUT": str(runner.folder / "%p.trace")})
    try:
        assert program.stdout.readline() == "ready\n"
        shown = subprocess.run([ARTEFACTS / "oomhook", "snapshot", str(program.pid), "--json"], capture_output=True,
                               text=True, check=True, timeout=60)
        report = json.loads(shown.stdout)
        assert report["process"]["end"] == "running"
        assert report["devices"][0]["live_bytes"] == 2 << 30
    finally:
        program.stdin.close()
        assert program.wait() == 0


def test_the_doctor_sees_who_is_there():
    neighbour = start("neighbour.py")
    try:
        assert neighbour.stdout.readline() == "ready\n"
        shown = subprocess.run([ARTEFACTS / "oomhook", "doctor"], capture_output=True, text=True, check=False, timeout=60)
        print(shown.stdout, shown.stderr)
        assert shown.returncode == 0, shown.stderr
        assert str(neighbour.pid) in shown.stdout
        told = subprocess.run([ARTEFACTS / "oomhook", "doctor", "--json", "--", sys.executable, "x.py"],
                              capture_output=True, text=True, check=False, timeout=60)
        print(told.stdout)
        json.loads(told.stdout)
    finally:
        neighbour.stdin.close()
        neighbour.wait()
