"""An Adam training whose state's size is known: two numbers of 4 bytes for each parameter."""

import json

import torch

torch.manual_seed(0)
layer = torch.nn.TransformerEncoderLayer(512, 8, 2048, batch_first=True)
model = torch.nn.TransformerEncoder(layer, 6, enable_nested_tensor=False).cuda()
optimizer = torch.optim.Adam(model.parameters())
for step in range(20):
    batch = torch.randn(8, 128, 512, device="cuda")
    model(batch).square().mean().backward()
    optimizer.step()
    optimizer.zero_grad()
print("WITNESS", json.dumps({"parameters": sum(p.numel() for p in model.parameters())}))
