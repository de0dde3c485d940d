"""A DataLoader with workers made by fork: they use no GPU."""

import torch
from torch.utils.data import DataLoader, Dataset


class Numbers(Dataset):
    def __len__(self):
        return 64

    def __getitem__(self, at):
        return torch.full((1024,), float(at))


total = torch.zeros((), device="cuda")
for batch in DataLoader(Numbers(), batch_size=8, num_workers=4, pin_memory=True):
    total += batch.cuda(non_blocking=True).sum()
print(float(total))
