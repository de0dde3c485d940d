"""Ranges of NVTX beside PyTorch's own peaks, and who else injects into NVTX."""

import pytest


def test_the_parts_of_a_step_have_pytorchs_own_peaks(python):
    ran = python("phases", same=False)
    assert ran.code == 0, ran.stderr
    phases = {phase["name"]: phase for phase in ran.report["phases"]}
    for name, peaks in ran.witness.items():
        instances = phases[name]["instances"]
        assert [one["devices"][0]["tensors_peak_bytes"] for one in instances] == peaks, name
        assert phases[name]["tensors_peak_bytes"] == max(peaks)
    assert phases["step #"]["count"] == 12
    assert phases["step #"]["tensors_peak_bytes"] == max(max(peaks) for peaks in ran.witness.values())


@pytest.mark.parametrize("path", ["/nowhere/libToolsInjection64.so", ""])
def test_another_injection_is_left_alone(python, path):
    ran = python("phases", env={"NVTX_INJECTION64_PATH": path}, same=False)
    assert ran.code == 0, ran.stderr
    # A variable that is set to nothing is set.
    assert ran.report["phases"] == []
