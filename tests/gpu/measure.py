"""What the library costs on a real GPU: the same programs without it, with stacks off and with native stacks, in turn;
medians of some rounds (of what is a best already the lowest), and ratios to the runs without it. Not a test.

    OOMHOOK_ARTEFACTS=folder python3 tests/gpu/measure.py [tensors [loop | steps]]
"""

import json
import os
import pathlib
import statistics
import subprocess
import sys
import tempfile
import time

HERE = pathlib.Path(__file__).resolve().parent
ARTEFACTS = pathlib.Path(os.environ.get("OOMHOOK_ARTEFACTS", HERE.parent.parent / "target" / "release")).resolve()
MODES = {
    "without": {},
    "stacks off": {"OOMHOOK_STACKS": "off"},
    "native stacks": {"OOMHOOK_STACKS": "native"},
    "all stacks": {},
}
TENSORS = {
    "without": {},
    "tensors off": {"OOMHOOK_TENSORS": "off"},
    "tensors on": {},
}
LOOP = {**TENSORS, "stacks off": {"OOMHOOK_STACKS": "off"}}
SAMPLING = {
    "without": {},
    "no looks": {"OOMHOOK_SAMPLE": "off"},
    "each second": {},
    "each 50 ms": {"OOMHOOK_SAMPLE": "50ms"},
}


def run(command, settings, mode, folder):
    env = dict(os.environ)
    if mode != "without":
        env.update(settings, LD_PRELOAD=str(ARTEFACTS / "liboomhook.so"), OOMHOOK_REPORT="off",
                   OOMHOOK_OUTPUT=f"{folder}/%p.trace")
    out = subprocess.run(command, env=env, capture_output=True, text=True, check=True, cwd=folder).stdout
    return {name: float(value) for name, value in (line.split() for line in out.splitlines())}


def compare(command, rounds, folder, modes=MODES):
    figures = {mode: [] for mode in modes}
    for _ in range(rounds):
        for mode, settings in modes.items():
            figures[mode].append(run(command, settings, mode, folder))
    for name in figures["without"][0]:
        # Of the best of each run the best: a machine that is shared runs at half its speed now and then.
        pick = min if name.startswith("best") else statistics.median
        medians = {mode: pick(one[name] for one in runs) for mode, runs in figures.items()}
        base = medians["without"]
        shown = "  ".join(f"{mode} {value:10.1f} ({value / base:.2f}x)" for mode, value in medians.items())
        print(f"{name:28} {shown}", flush=True)


def tensor_loop(folder):
    """Blocks inside PyTorch's cache, beside PyTorch's own recorder."""
    loop = [sys.executable, str(HERE / "programs/empty_loop.py")]
    compare(loop, 5, folder, LOOP)
    for recorder in ("python", "all"):
        runs = [run([*loop, recorder], {}, "without", folder) for _ in range(3)]
        pair, best = statistics.median(one["pair-ns"] for one in runs), min(one["best-pair-ns"] for one in runs)
        print(f"PyTorch's own recorder, {recorder}: {pair:.1f} ns, best {best:.1f} ns", flush=True)


def tensor_steps(folder):
    for size in ("small", "large"):
        print(f"training step, {size}", flush=True)
        compare([sys.executable, str(HERE / "programs/step_time.py"), size], 3, folder, TENSORS)


def name(folder):
    """Seconds that it takes to name a training's stacks, and the frames."""
    env = dict(os.environ, LD_PRELOAD=str(ARTEFACTS / "liboomhook.so"), OOMHOOK_REPORT="off",
               OOMHOOK_OUTPUT=f"{folder}/named.trace", PYTORCH_NO_CUDA_MEMORY_CACHING="1")
    subprocess.run([sys.executable, str(HERE / "programs/pytorch_training.py")], env=env, check=True, capture_output=True)
    start = time.monotonic()
    shown = subprocess.run([str(ARTEFACTS / "oomhook"), "report", "--json", f"{folder}/named.trace"], check=True,
                           capture_output=True, text=True)
    took = time.monotonic() - start
    report = json.loads(shown.stdout)
    rows = report["leaks"] + [row for device in report["devices"] for row in device["peak"]["sites"]]
    places = {(frame["library"], frame["offset"], frame["file"], frame["line"]) for row in rows for frame in row["stack"]}
    print(f"naming {len(places)} places of {len(rows)} rows, {report['totals']['allocs']} allocations: {took:.2f} s")


def main():
    with tempfile.TemporaryDirectory() as folder:
        if sys.argv[1:2] == ["tensors"]:
            if sys.argv[2:] != ["steps"]:
                tensor_loop(folder)
            if sys.argv[2:] != ["loop"]:
                tensor_steps(folder)
            return
        program = pathlib.Path(folder) / "call_cost"
        subprocess.run(["nvcc", "-O2", "-std=c++17", str(HERE / "programs/call_cost.cpp"), "-o", str(program)], check=True)
        print("nanoseconds per call, static CUDA runtime")
        compare([str(program)], 5, folder)
        print("PyTorch training step")
        compare([sys.executable, str(HERE / "programs/step_time.py")], 3, folder)
        print("looks at the device")
        compare([sys.executable, str(HERE / "programs/launches.py")], 3, folder, SAMPLING)
        compare([sys.executable, str(HERE / "programs/step_time.py")], 3, folder, SAMPLING)
        name(folder)


main()
