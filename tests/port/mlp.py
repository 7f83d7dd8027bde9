"""A multilayer perceptron on two interleaved spirals: Linear, ReLU, Dropout in eval, SGD with momentum, StepLR."""

import numpy as np


def data(torch):
    rng = np.random.default_rng(0)
    radius = rng.uniform(0.2, 1.0, 96)
    label = rng.integers(0, 2, 96)
    angle = 4 * radius + np.pi * label + 0.1 * rng.normal(size=96)
    points = np.stack([radius * np.cos(angle), radius * np.sin(angle)], 1).astype(np.float32)
    return torch.from_numpy(points), torch.from_numpy(label)


def build(torch):
    nn = torch.nn
    return nn.Sequential(
        nn.Linear(2, 32), nn.ReLU(), nn.Linear(32, 32), nn.Tanh(), nn.Dropout(0.5), nn.Linear(32, 2, bias=False)
    )


def run(torch, steps, start=None):
    model = build(torch)
    if start is not None:
        model.load_state_dict({name: torch.from_numpy(value) for name, value in start.items()})
    x, y = data(torch)
    model.eval()  # dropout draws from the library's own stream; the port compares numbers
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9, weight_decay=1e-4, nesterov=True)
    scheduler = torch.optim.lr_scheduler.StepLR(optimizer, step_size=10, gamma=0.5)
    losses = []
    for step in range(steps):
        batch = slice(32 * (step % 3), 32 * (step % 3 + 1))
        optimizer.zero_grad()
        loss = torch.nn.functional.cross_entropy(model(x[batch]), y[batch])
        loss.backward()
        optimizer.step()
        scheduler.step()
        losses.append(loss.item())
    return losses
