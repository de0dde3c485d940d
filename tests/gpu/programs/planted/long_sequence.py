"""A transformer that trains well on short sequences, until one long sequence comes."""

import torch

WIDTH, HEADS, LAYERS = 512, 8, 4


class Attention(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.qkv = torch.nn.Linear(WIDTH, 3 * WIDTH)
        self.out = torch.nn.Linear(WIDTH, WIDTH)

    def forward(self, x):
        batch, length, _ = x.shape
        q, k, v = self.qkv(x).view(batch, length, 3, HEADS, WIDTH // HEADS).permute(2, 0, 3, 1, 4)
        scores = q @ k.transpose(-2, -1) / 8  # PLANTED
        weights = torch.softmax(scores, dim=-1)  # PLANTED
        return self.out((weights @ v).transpose(1, 2).reshape(batch, length, WIDTH))


class Block(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.attention = Attention()
        self.norm = torch.nn.LayerNorm(WIDTH)
        self.mlp = torch.nn.Sequential(torch.nn.Linear(WIDTH, 4 * WIDTH), torch.nn.GELU(), torch.nn.Linear(4 * WIDTH, WIDTH))

    def forward(self, x):
        x = x + self.attention(self.norm(x))
        return x + self.mlp(x)


def main():
    torch.manual_seed(0)
    model = torch.nn.Sequential(*(Block() for _ in range(LAYERS))).cuda()
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-4)
    for step in range(60):
        length = 4096 if step == 40 else 128 + 32 * (step % 5)
        batch = torch.randn(4, length, WIDTH, device="cuda")
        loss = model(batch).square().mean()
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        print(f"step={step} loss={loss.item():.4f} seq_len={length}", flush=True)


main()
