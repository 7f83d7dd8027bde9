"""LeNet with batch normalisation on small made-up images: Conv2d, BatchNorm2d, pooling, Adam, evaluation at the end.

Convolutions before batch normalisation have no bias: its gradient would be rounding noise, which Adam blows up.
"""

import numpy as np


def data(torch):
    rng = np.random.default_rng(1)
    label = rng.integers(0, 10, 32)
    pattern = rng.normal(size=(10, 1, 20, 20))
    images = pattern[label] + 0.5 * rng.normal(size=(32, 1, 20, 20))
    return torch.from_numpy(images.astype(np.float32)), torch.from_numpy(label)


def build(torch):
    nn = torch.nn

    class LeNet(nn.Module):
        def __init__(self):
            super().__init__()
            self.features = nn.Sequential(
                nn.Conv2d(1, 6, kernel_size=5, padding=2, bias=False),
                nn.BatchNorm2d(6),
                nn.ReLU(inplace=True),
                nn.MaxPool2d(2),
                nn.Conv2d(6, 16, kernel_size=5, bias=False),
                nn.BatchNorm2d(16),
                nn.ReLU(inplace=True),
                nn.AvgPool2d(2),
            )
            self.classifier = nn.Sequential(nn.Flatten(), nn.Linear(16 * 3 * 3, 32), nn.ReLU(), nn.Linear(32, 10))

        def forward(self, x):
            return self.classifier(self.features(x))

    return LeNet()


def run(torch, steps, start=None):
    model = build(torch)
    if start is not None:
        model.load_state_dict({name: torch.from_numpy(value) for name, value in start.items()})
    x, y = data(torch)
    criterion = torch.nn.CrossEntropyLoss(label_smoothing=0.05)
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
    losses = []
    model.train()
    for step in range(steps):
        batch = slice(16 * (step % 2), 16 * (step % 2 + 1))
        optimizer.zero_grad()
        loss = criterion(model(x[batch]), y[batch])
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    model.eval()
    with torch.no_grad():
        losses.append(criterion(model(x), y).item())
    return losses
