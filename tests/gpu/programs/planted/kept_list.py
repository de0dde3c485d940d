"""Outputs that are collected on the GPU, and never used."""

import torch


def main():
    torch.manual_seed(0)
    model = torch.nn.Sequential(torch.nn.Linear(1024, 4096), torch.nn.ReLU(), torch.nn.Linear(4096, 8192)).cuda()
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-3)
    outputs = []
    for step in range(400):
        batch = torch.randn(1024, 1024, device="cuda")
        result = model(batch)
        loss = result.square().mean()
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        outputs.append(result.detach() * 0.5)  # PLANTED
        if step % 20 == 0:
            print(f"step {step} loss {loss.item():.4f}", flush=True)


main()
