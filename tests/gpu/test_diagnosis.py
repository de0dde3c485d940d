"""Programs with one planted fault each: the verdict names its kind and its line. Healthy programs hear nothing."""

import shutil
import subprocess
import sys

import pytest

from conftest import HERE

PLANTED = HERE / "programs" / "planted"
CASES = {
    "too_large": ("8GiB", "capacity"),
    "long_sequence": ("6GiB", "activation_peak"),
    "fragmentation": ("4GiB", "fragmentation"),
    "kept_list": ("4GiB", "retention"),
    "cycle": ("4GiB", "retention"),
    "loss_with_graph": ("4GiB", "retention"),
    "no_grad": ("4GiB", "retention"),
    "reservation": ("8GiB", "reservation"),
}


def is_planted(name, place):
    """True if the place is a line that is marked; of a long sequence both lines with its square are as good."""
    lines = (PLANTED / f"{name}.py").read_text().splitlines()
    marked = [number for number, text in enumerate(lines, 1) if "# PLANTED" in text]
    return place.split()[0] in [f"{name}.py:{number}" for number in marked]


@pytest.mark.parametrize("name", CASES)
def test_the_verdict_names_kind_and_line(runner, name):
    capacity, kind = CASES[name]
    ran = runner.watched([sys.executable, str(PLANTED / f"{name}.py")], {"OOMHOOK_CAPACITY": capacity})
    print(ran.stderr)
    print(runner.text(ran.trace))
    assert ran.code == 1 and "OutOfMemoryError" in ran.stderr
    verdict = ran.report["oom"][-1]["verdict"]
    print(verdict)
    assert verdict["class"] == kind
    assert is_planted(name, verdict["place"]), verdict
    assert verdict["evidence"] and verdict["advice"]
    # The story is told while the program is still there to be looked at.
    assert "  why      " in ran.stderr


@pytest.mark.parametrize("settings", [{}, {"PYTORCH_ALLOC_CONF": "expandable_segments:True"}], ids=["native", "expandable"])
@pytest.mark.parametrize("name", ["healthy_training", "healthy_images"])
def test_healthy_trainings_hear_nothing(python, name, settings):
    ran = python(name, env=settings, same=False)
    assert ran.code == 0, ran.stderr
    assert ran.report["oom"] == [] and ran.report["findings"] == []


@pytest.mark.parametrize("name", ["healthy_server", "healthy_solver"])
def test_healthy_programs_hear_nothing(runner, name, tmp_path):
    if shutil.which("nvcc") is None:
        pytest.skip("no nvcc on this machine")
    source, program = HERE / "programs" / f"{name}.cu", tmp_path / name
    subprocess.run(["nvcc", "-O2", "-std=c++17", "-o", program, source], check=True, timeout=300)
    ran = runner.watched([str(program)])
    print(runner.text(ran.trace))
    assert ran.code == 0, ran.stderr
    assert ran.report["oom"] == [] and ran.report["findings"] == [] and ran.report["leaks"] == []


@pytest.mark.parametrize("name", ["kept_list", "cycle"])
def test_what_stays_is_found_before_memory_runs_out(runner, name):
    # On the whole GPU the same programs end well; what they keep is told all the same.
    ran = runner.watched([sys.executable, str(PLANTED / f"{name}.py")])
    print(runner.text(ran.trace))
    assert ran.code == 0, ran.stderr
    [finding] = ran.report["findings"]
    assert finding["class"] == "retention"
    assert is_planted(name, finding["place"]), finding
