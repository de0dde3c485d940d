"""A transformer that trains on sequences of many lengths, with checks in between. Nothing is wrong with it."""

import torch

torch.manual_seed(0)
layer = torch.nn.TransformerEncoderLayer(256, 8, 1024, batch_first=True)
model = torch.nn.Sequential(torch.nn.Embedding(1000, 256), torch.nn.TransformerEncoder(layer, 4, enable_nested_tensor=False),
                            torch.nn.Linear(256, 1000)).cuda()
optimizer = torch.optim.AdamW(model.parameters(), lr=3e-4)
history = []


def loss_of(length):
    tokens = torch.randint(0, 1000, (16, length), device="cuda")
    return torch.nn.functional.cross_entropy(model(tokens).flatten(0, 1), tokens.flatten())


for step in range(150):
    loss = loss_of(64 + 8 * (step * 7 % 13))
    loss.backward()
    optimizer.step()
    optimizer.zero_grad()
    history.append(loss.item())
    if step % 50 == 49:
        model.eval()
        with torch.no_grad():
            check = sum(loss_of(192).item() for _ in range(5)) / 5
        model.train()
        print(f"step {step} loss {history[-1]:.3f} check {check:.3f}")
print("peak", torch.cuda.max_memory_allocated() >> 20, "MiB")
