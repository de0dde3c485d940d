"""An evaluation that keeps scores without no_grad: each of them keeps the graph that made it."""

import torch


def main():
    torch.manual_seed(0)
    layers = [torch.nn.Sequential(torch.nn.Linear(2048, 2048), torch.nn.GELU()) for _ in range(4)]
    model = torch.nn.Sequential(*layers).cuda().eval()
    scores = []
    for number in range(400):
        batch = torch.randn(1024, 2048, device="cuda")
        scores.append(model(batch).mean())  # PLANTED
        if number % 20 == 0:
            print(f"batch {number} score {scores[-1].item():.4f}", flush=True)


main()
