"""Most of what PyTorch's cache holds is idle, in pieces between blocks that live: a large tensor finds no place."""

import torch

MIB = 1 << 20


def block(mib):
    return torch.empty(mib * MIB, dtype=torch.uint8, device="cuda")  # PLANTED


def main():
    # Five blocks fill a segment of 20 MiB; four of them go again.
    blocks = [block(4) for _ in range(850)]
    kept = blocks[::5]
    del blocks
    print("kept", len(kept), "of", 5 * len(kept))
    large = torch.empty(1024 * MIB, dtype=torch.uint8, device="cuda")
    print("found a place", large.numel())


main()
