"""PyTorch's own figures are the witnesses for the blocks of its cache."""

import json
import os

import pytest

EXPANDABLE = {"PYTORCH_ALLOC_CONF": "expandable_segments:True"}
MIB = 1 << 20


def compare(tensors, witness):
    ours = {
        "allocated": tensors["allocated_bytes"],
        "allocated_peak": tensors["allocated_peak_bytes"],
        "reserved": tensors["reserved_bytes"],
        "reserved_peak": tensors["reserved_peak_bytes"],
        "allocations": tensors["allocs"],
        "frees": tensors["frees"],
    }
    assert ours == {key: witness[key] for key in ours}
    assert sum(site["bytes"] for site in tensors["peak"]["sites"]) == witness["allocated_peak"]
    assert sum(site["bytes"] for site in tensors["live_sites"]) == witness["allocated"]


def segments(tensors, witness):
    """The map of the segments, beside `torch.cuda.memory_snapshot()`."""
    ours = tensors["segments"]
    assert ours["outside_bytes"] == 0, ours
    assert (ours["bytes"], ours["idle_bytes"]) == (witness["segment_bytes"], witness["idle"])
    assert ours["largest_hole_bytes"] == witness["largest_hole"]
    if not ours["expandable"]:
        assert (ours["count"], ours["empty"]) == (witness["segments"], witness["empty"])


@pytest.mark.parametrize("settings", [{}, EXPANDABLE], ids=["native", "expandable"])
@pytest.mark.parametrize("kind", ["training", "streams", "graphs", "pools", "emptied"])
def test_the_cache_is_counted_to_the_byte(python, kind, settings):
    ran = python("tensors", kind, env=settings, same=False)
    assert ran.code == 0, ran.stderr
    [device] = [device for device in ran.report["devices"] if device["tensors"]]
    print(json.dumps(device["tensors"]["segments"]))
    compare(device["tensors"], ran.witness[0])
    segments(device["tensors"], ran.witness[0])


def test_two_devices_have_a_cache_each(python, gpus):
    if gpus < 2:
        pytest.skip(f"{gpus} GPU here")
    ran = python("tensors", "two", same=False)
    assert ran.code == 0, ran.stderr
    for number, witness in enumerate(ran.witness):
        [device] = [device for device in ran.report["devices"] if device["device"] == number]
        compare(device["tensors"], witness)
        segments(device["tensors"], witness)


def test_the_state_of_adam_is_told(python):
    ran = python("optimizer_state", same=False)
    assert ran.code == 0, ran.stderr
    roles = {role["role"]: role["bytes"] for role in ran.report["devices"][0]["tensors"]["peak"]["roles"]}
    print(ran.witness, roles)
    parameters = ran.witness["parameters"]
    assert abs(roles["optimizer_state"] / (8 * parameters) - 1) < 0.01
    assert abs(roles["weights"] / (4 * parameters) - 1) < 0.02


def test_without_the_cache_every_tensor_is_a_block_of_the_driver(python):
    ran = python("pytorch_training", env={"PYTORCH_NO_CUDA_MEMORY_CACHING": "1"}, same=False)
    assert ran.code == 0, ran.stderr
    # The peak's last block is named by the driver's own call.
    sites = ran.report["devices"][0]["peak"]["sites"]
    assert sites[0]["bytes"] == 1 << 32


def test_switched_off_there_are_no_tensors(python):
    ran = python("optimizer_state", env={"OOMHOOK_TENSORS": "off"}, same=False)
    assert ran.code == 0, ran.stderr
    assert ran.report["devices"][0]["tensors"] is None


def test_nothing_hangs_while_another_thread_holds_the_gil(python):
    seconds = os.environ.get("OOMHOOK_GIL_SECONDS", "60")
    ran = python("gil_tensors", seconds, same=False)
    assert ran.code == 0, ran.stderr
    tensors = ran.report["devices"][0]["tensors"]
    assert tensors["allocs"] == ran.witness["allocations"] > 10_000
    assert ran.witness["asked"] > 1000 and all(ran.witness["done"])
