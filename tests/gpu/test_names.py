"""Reports name the place that a person can change: lines of the script, nodes of the backward pass, owners of workspaces, and
in C++ programs the line of the call, also inlined, with the static runtime, stripped, and on another machine."""

import json
import pathlib
import re
import shutil
import subprocess

import pytest
from conftest import ARTEFACTS, HERE

PROGRAM = "pytorch_training"


def peak(ran):
    return ran.report["devices"][0]["peak"]["sites"]


def test_forward_allocations_name_lines_and_backward_ones_nodes(python, runner):
    ran = python(PROGRAM, env={"PYTORCH_NO_CUDA_MEMORY_CACHING": "1"})
    assert ran.code == 0
    rows = peak(ran)
    file = f"{PROGRAM}.py"

    def of_line(name):
        place = f"{file}:{ran.witness[name]} Net.forward"
        # (cuDNN's own small blocks of the same line are not tensors.)
        # With its cache off, PyTorch passes every request on: nothing is "via" a cache.
        assert all(row["via"] is None for row in rows)
        rows_of = [row for row in rows if row["python_site"] == place and row["library"].startswith("libtorch")]
        return sum(row["bytes"] for row in rows_of)

    first, tanh, second, _ = ran.witness["bytes"]
    # Without the cache each tensor is an allocation of its own, of its exact size.
    assert of_line("first") == first
    assert of_line("tanh") == tanh
    assert of_line("second") >= second
    backward = {}
    for row in rows:
        if row["autograd_node"]:
            backward[row["autograd_node"]] = backward.get(row["autograd_node"], 0) + row["bytes"]
    # The gradient of the wide layer's weights is what its product's backward node asked for.
    wide = ran.witness["gradients"]["wide.weight"]
    assert backward.get("AddmmBackward0", 0) >= wide, backward
    assert "ConvolutionBackward0" in backward, backward
    text = runner.text(ran.trace)
    assert f"< {file}:" in text
    assert "< AddmmBackward0" in text


def test_libraries_own_their_workspaces(python):
    ran = python(PROGRAM)
    assert ran.code == 0
    by_library = {}
    for row in peak(ran):
        name = row["library"].split(".")[0]
        by_library[name] = by_library.get(name, 0) + row["bytes"]
    print(by_library)
    assert by_library.get("libcublas", 0) >= 32 << 20, by_library
    assert any(name.startswith("libcudnn") for name in by_library), by_library
    # Whoever owns it: what came through the cache is what PyTorch has reserved.
    through = sum(row["bytes"] for row in peak(ran) if row["via"] == "libc10_cuda")
    assert through == ran.witness["reserved"]


@pytest.fixture(scope="module")
def inlined(tmp_path_factory):
    """The program with the static runtime (nvcc's default), with debug information."""
    if shutil.which("nvcc") is None:
        pytest.skip("no nvcc on this machine")
    program = tmp_path_factory.mktemp("inlined") / "inlined"
    source = HERE / "programs" / "inlined.cpp"
    done = subprocess.run(["nvcc", "-g", "-O2", "-std=c++17", source, "-o", program],
                          capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return program


def line_of(mark):
    lines = (HERE / "programs" / "inlined.cpp").read_text().splitlines()
    return next(number for number, line in enumerate(lines, 1) if f"// {mark}" in line)


def again(trace, *options):
    shown = subprocess.run([ARTEFACTS / "oomhook", "report", "--json", *options, trace], capture_output=True, text=True,
                           timeout=300, check=False)
    assert shown.returncode == 0, shown.stderr
    return json.loads(shown.stdout)


def leaks(report):
    return {row["bytes"] >> 20: row for row in report["leaks"]}


def is_named(report):
    rows = leaks(report)
    names = [(frame["function"], frame["line"]) for frame in rows[3]["stack"]]
    short = [(re.sub(r"\(.*", "", name or "").split(" ")[-1], line) for name, line in names]
    at = short.index(("reserve", line_of("LEAK")))
    assert short[at + 1] == ("cache", line_of("CALLER")), short
    assert short[at + 2][0] == "main", short
    assert "reserve" in rows[3]["site"]
    assert "other" in rows[1]["site"]
    assert rows[1]["stack"][rows[1]["site_frame"]]["line"] == line_of("OTHER")


def test_an_inlined_leak_names_its_line(inlined, runner):
    ran = runner.watched([str(inlined)])
    assert ran.code == 0
    is_named(ran.report)
    # The report that the process itself prints at its end, too.
    assert f"inlined.cpp:{line_of('LEAK')}" in ran.stderr, ran.stderr


def test_a_stripped_program_has_offsets_and_a_debug_file_mends_it(inlined, runner, tmp_path):
    stripped = tmp_path / "bin" / "inlined"
    stripped.parent.mkdir()
    debug = tmp_path / "debug" / "inlined.debug"
    debug.parent.mkdir()
    shutil.copy(inlined, stripped)
    subprocess.run(["objcopy", "--only-keep-debug", stripped, debug], check=True)
    subprocess.run(["strip", stripped], check=True)
    ran = runner.watched([str(stripped)])
    rows = leaks(ran.report)
    offsets = {rows[3]["site"], rows[1]["site"]}
    # Two functions of the program, though nothing says where the runtime inside it ends.
    assert len(offsets) == 2 and all(re.fullmatch(r"inlined\+0x[0-9a-f]+", one) for one in offsets), offsets
    assert all(row["site_estimated"] for row in rows.values())
    is_named(again(ran.trace, "--debug-dir", str(debug.parent)))
    subprocess.run(["objcopy", f"--add-gnu-debuglink={debug}", stripped], check=True)
    shutil.copy(debug, stripped.parent)
    is_named(again(ran.trace))


def test_another_machine_names_what_it_is_given(inlined, runner, tmp_path):
    program = tmp_path / "there" / "inlined"
    program.parent.mkdir()
    shutil.copy(inlined, program)
    ran = runner.watched([str(program)])
    sysroot = tmp_path / "sysroot"
    home = pathlib.Path(str(sysroot) + str(program.parent))
    home.mkdir(parents=True)
    shutil.move(program, home)
    without = leaks(again(ran.trace))
    frames = without[3]["stack"]
    nameless = [frame for frame in frames if frame["library"] == "inlined"]
    assert nameless and all(frame["function"] is None and len(frame["build_id"]) == 40 for frame in nameless), frames
    is_named(again(ran.trace, "--sysroot", str(sysroot)))
