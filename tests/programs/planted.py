"""Programs with one planted fault each, on the stand-in for PyTorch; the lines to be named are marked."""

import sys
import time

import torch
from torch.nn.modules import Module
from torch.optim import Adam


class Net(Module):
    def forward(self, batch, keeps=1):
        hidden = torch.empty(batch * 4)  # long_sequence loss_with_graph
        return torch.Tensor(batch, *[hidden] * keeps)


def gradients(net):
    return [torch.empty(parameter.mib) for parameter in net.parameters]


def train(net, batches):
    optimizer = Adam(net.parameters)
    for step, batch in enumerate(batches):
        print(f"step={step} seq_len={batch * 32}", flush=True)
        data = torch.empty(batch)
        result = net(data.mib)
        left = gradients(net)
        optimizer.step()
        yield step, result
        del result, left


def too_large():
    net = Net(*[64] * 6).cuda()  # too_large
    for _ in train(net, [2] * 3):
        pass


def long_sequence():
    net = Net(16, 16).cuda()
    for _ in train(net, [4] * 35 + [150]):
        pass


def fragmentation():
    blocks = [torch.empty(4) for _ in range(200)]  # fragmentation
    kept = blocks[::5]
    del blocks
    torch.empty(512)
    del kept


def kept_list():
    net = Net(16, 16).cuda()
    outputs = []
    for _ in train(net, [4] * 400):
        outputs.append(torch.empty(8))  # kept_list


def cycle():
    class Sample:
        def __init__(self):
            self.me = self
            self.data = torch.empty(8)  # cycle

    import gc

    gc.disable()
    for _ in range(400):
        sample = Sample()
        torch.empty(sample.data.mib / 2)


def loss_with_graph():
    net = Net(16, 16).cuda()
    total = []
    for _, result in train(net, [2] * 400):
        total.append(result)


def reservation():
    server = Net(16).cuda()
    cache = torch.empty(700)  # reservation
    for turn in range(100):
        server(80 if turn == 80 else 1 + turn % 3)
    del cache


def healthy():
    net = Net(16, 16, 16).cuda()
    losses = []
    for step, result in train(net, [1 + step * 7 % 5 for step in range(300)]):
        losses.append(result.mib)
        if step % 50 == 49:
            check = [net(7) for _ in range(3)]
            del check


def empties():
    for _ in range(40):
        torch.empty(32)
        torch.empty_cache()
        # A step takes its time: calls in a row count as one.
        time.sleep(0.003)


globals()[sys.argv[1]]()
