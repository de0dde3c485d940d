"""What a training says of its steps, beside the memory that PyTorch itself counts."""


def test_steps_of_a_training_have_pytorchs_own_figures(python):
    ran = python("pytorch_steps")
    assert ran.code == 1, ran.stderr
    steps = [step for step in ran.report["log"]["steps"] if "seq_len" in step["keys"]]
    assert [step["keys"]["step"] for step in steps] == list(range(40))
    ours = [[step["allocated_peak_bytes"], step["allocated_bytes"], step["reserved_bytes"]] for step in steps]
    # Before the first line there was more than its step.
    assert ours[1:] == ran.witness["peaks"][1:]
    [jump] = ran.report["log"]["jumps"]
    assert jump["keys"] == [{"key": "seq_len", "before": "1024", "after": "8192"}]
    assert jump["step"] == {"key": "step", "number": "25"} and jump["of"] == "tensors"
    [group] = ran.report["oom"]
    assert [line["text"] for line in group["log"]][-2].startswith("step=39 loss=")
    assert group["jump"]["text"] in " ".join(ran.stderr.split())
    print(ran.stderr)
