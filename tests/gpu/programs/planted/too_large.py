"""A model whose weights, gradients and optimizer state do not fit together: the first optimizer step runs out."""

import torch

LAYERS, WIDTH = 12, 8192


def main():
    torch.manual_seed(0)
    model = torch.nn.Sequential(*(torch.nn.Linear(WIDTH, WIDTH, bias=False) for _ in range(LAYERS)))
    model = model.cuda()  # PLANTED
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-4)
    for step in range(10):
        batch = torch.randn(8, WIDTH, device="cuda")
        loss = model(batch).square().mean()
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        print("step", step, loss.item())


main()
