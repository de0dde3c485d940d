"""What the GPU tests share: prebuilt artefacts, and a run of a program under the library.

OOMHOOK_ARTEFACTS names a folder with `liboomhook.so` and `oomhook` (default: target/release). Without a GPU every test
is skipped, with the reason; a skipped test is no passed test.
"""

import ctypes
import json
import os
import pathlib
import subprocess
import sys

import pytest

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parent.parent
ARTEFACTS = pathlib.Path(os.environ.get("OOMHOOK_ARTEFACTS", ROOT / "target" / "release")).resolve()


def _no_gpu():
    try:
        driver = ctypes.CDLL("libcuda.so.1")
    except OSError as error:
        return f"no CUDA driver: {error}"
    code = driver.cuInit(0)
    count = ctypes.c_int(0)
    if code != 0 or driver.cuDeviceGetCount(ctypes.byref(count)) != 0 or count.value == 0:
        return f"no CUDA device (cuInit says {code})"
    return None


# Asked in a process of its own: a CUDA context here would show in the figures of the tests.
def _ask():
    answer = subprocess.run(
        [sys.executable, "-c", "import conftest; print(conftest._no_gpu() or '')"],
        cwd=HERE, capture_output=True, text=True, check=False,
    )
    return answer.stdout.strip() if answer.returncode == 0 else answer.stderr.strip()[-200:]


def pytest_collection_modifyitems(items):
    reason = _ask()
    if not reason:
        for name in ("liboomhook.so", "oomhook"):
            if not (ARTEFACTS / name).exists():
                reason = f"{ARTEFACTS / name} is missing: build it, or set OOMHOOK_ARTEFACTS"
    if reason:
        for item in items:
            item.add_marker(pytest.mark.skip(reason=reason))


class Ran:
    """A finished run: exit code, output, the witness it printed and the report of its trace."""

    def __init__(self, done, trace, report):
        self.code = done.returncode
        self.stdout = done.stdout
        self.stderr = done.stderr
        self.trace = trace
        self.report = report
        lines = [line for line in done.stdout.splitlines() if line.startswith("WITNESS ")]
        self.witness = json.loads(lines[-1][len("WITNESS "):]) if lines else None

    def live(self, **wanted):
        """Live bytes of the leaks rows whose keys have these values."""
        rows = [row for row in self.report["leaks"] if all(row[key] == value for key, value in wanted.items())]
        return sum(row["bytes"] for row in rows)

    def space(self, name):
        """A space's figures, over all devices."""
        rows = [device["spaces"].get(name) for device in self.report["devices"]]
        rows = [row for row in rows if row]
        return {key: sum(row[key] for row in rows) for key in rows[0]} if rows else None


class Runner:
    """Runs programs with and without the library."""

    def __init__(self, folder):
        self.folder = folder

    def plain(self, command, env=None):
        environment = {key: value for key, value in os.environ.items() if not key.startswith("OOMHOOK_")}
        environment.update(env or {})
        return subprocess.run(command, cwd=self.folder, env=environment, capture_output=True, text=True,
                              timeout=300, check=False)

    def watched(self, command, env=None):
        before = set(self.folder.glob("*.trace"))
        environment = {"LD_PRELOAD": str(ARTEFACTS / "liboomhook.so"), "OOMHOOK_OUTPUT": "%c.%p.trace"}
        environment.update(env or {})
        done = self.plain(command, environment)
        new = sorted(set(self.folder.glob("*.trace")) - before, key=lambda path: path.stat().st_size)
        assert new, f"no trace\n{done.stdout}\n{done.stderr}"
        # The largest trace is the program's own; helpers of frameworks may leave small ones.
        trace = new[-1]
        shown = subprocess.run([ARTEFACTS / "oomhook", "report", "--json", trace], capture_output=True, text=True,
                               timeout=300, check=False)
        assert shown.returncode == 0, shown.stderr
        return Ran(done, trace, json.loads(shown.stdout))

    def text(self, trace):
        shown = subprocess.run([ARTEFACTS / "oomhook", "report", trace], capture_output=True, text=True,
                               timeout=300, check=False)
        assert shown.returncode == 0, shown.stderr
        return shown.stdout


@pytest.fixture
def runner(tmp_path):
    return Runner(tmp_path)


@pytest.fixture
def python(runner):
    """Runs `programs/NAME.py` under the library and shows its report (kept by `pytest -rP`)."""

    def run(name, *arguments, env=None, same=True):
        command = [sys.executable, str(HERE / "programs" / f"{name}.py"), *arguments]
        ran = runner.watched(command, env)
        print(f"== {name} {' '.join(arguments)} {env or ''}: {ran.code}\nwitness: {ran.witness}")
        print(runner.text(ran.trace))
        if same:
            plain = runner.plain(command, env)
            assert plain.returncode == ran.code, ran.stderr
            keep = lambda text: [line for line in text.splitlines() if not line.startswith("WITNESS ")]
            assert keep(plain.stdout) == keep(ran.stdout)
        return ran

    return run


@pytest.fixture
def gpus():
    """How many GPUs there are."""
    asked = subprocess.run([sys.executable, "-c", "import torch; print(torch.cuda.device_count())"], capture_output=True,
                           text=True, check=True)
    return int(asked.stdout)
