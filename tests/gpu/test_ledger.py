"""The ledger's lines beside what the driver and the management library say."""

import pytest

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
    used = sum(value for name, value in lines.items() if name != "free")
    process = ran.witness["process"] or ran.witness["used"]
    assert lines["rest"] < process * 0.01, lines
    assert abs(used - device["latest"]["used_bytes"]) <= process * 0.01
