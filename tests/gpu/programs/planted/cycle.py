"""Samples that refer to themselves: only the collector frees them, and it hardly ever runs."""

import gc

import torch


class Sample:
    def __init__(self, number):
        self.number = number
        self.me = self
        self.data = torch.randn(16, 1024, 1024, device="cuda")  # PLANTED


def main():
    gc.disable()
    weight = torch.randn(1024, 1024, device="cuda")
    for step in range(400):
        sample = Sample(step)
        score = (sample.data @ weight).mean().item()
        if step % 20 == 0:
            print(f"step {step} score {score:.4f}", flush=True)


main()
