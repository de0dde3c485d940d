"""A loss that is added up with its graph, so that every step's activations stay."""

import torch


class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.first = torch.nn.Linear(1024, 4096)
        self.last = torch.nn.Linear(4096, 1024)

    def forward(self, x):
        hidden = torch.tanh(self.first(x))  # PLANTED
        return self.last(hidden)


def main():
    torch.manual_seed(0)
    model = Net().cuda()
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-4)
    total = 0
    for step in range(500):
        batch = torch.randn(2048, 1024, device="cuda")
        loss = model(batch).square().mean()
        optimizer.zero_grad()
        loss.backward(retain_graph=True)
        optimizer.step()
        total = total + loss
        if step % 20 == 0:
            print(f"step {step} mean {total.item() / (step + 1):.4f}", flush=True)


main()
