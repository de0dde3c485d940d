"""A convolutional network that trains on images from loader processes, with mixed precision and an average of its weights.
Nothing is wrong with it."""

import torch

SIZE = 64


class Images(torch.utils.data.Dataset):
    def __len__(self):
        return 640

    def __getitem__(self, index):
        generator = torch.Generator().manual_seed(index)
        return torch.randn(3, SIZE, SIZE, generator=generator), index % 10


def block(inside, outside):
    return torch.nn.Sequential(torch.nn.Conv2d(inside, outside, 3, stride=2, padding=1), torch.nn.BatchNorm2d(outside),
                               torch.nn.ReLU())


def main():
    torch.manual_seed(0)
    model = torch.nn.Sequential(block(3, 64), block(64, 128), block(128, 256), torch.nn.AdaptiveAvgPool2d(1),
                                torch.nn.Flatten(), torch.nn.Linear(256, 10)).cuda()
    average = torch.optim.swa_utils.AveragedModel(model)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
    scaler = torch.amp.GradScaler("cuda")
    loader = torch.utils.data.DataLoader(Images(), batch_size=32, num_workers=2, pin_memory=True)
    for epoch in range(5):
        total = 0.0
        for images, labels in loader:
            images, labels = images.cuda(non_blocking=True), labels.cuda(non_blocking=True)
            with torch.autocast("cuda"):
                loss = torch.nn.functional.cross_entropy(model(images), labels)
            scaler.scale(loss).backward()
            scaler.step(optimizer)
            scaler.update()
            optimizer.zero_grad()
            average.update_parameters(model)
            total += loss.item()
        print(f"epoch {epoch} loss {total / len(loader):.3f}")


if __name__ == "__main__":
    main()
