"""PyTorch's programs for bench/generative.py: plain eager code, what a reader of the papers would write."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable
from typing import Any

PIXELS, HIDDEN, BATCH, CHAINS = 784, 500, 100, 20
SWEEPS = TEMPERATURES = 1000
FEATURES, LAYERS, DRAWN = 32, 4, 4  # of the PixelCNN, and images drawn
Program = Callable[[], Any]


class Machine:
    """An RBM as three tensors."""

    def __init__(self) -> None:
        import torch

        self.weight, self.b, self.c = 0.01 * torch.randn(PIXELS, HIDDEN), torch.zeros(PIXELS), torch.zeros(HIDDEN)

    def step(self, v: Any, beta: float = 1.0) -> Any:
        """v → h → v"""
        import torch

        h = torch.bernoulli(torch.sigmoid(beta * (v @ self.weight + self.c)))
        return torch.bernoulli(torch.sigmoid(beta * (h @ self.weight.T) + self.b))

    def free_energy(self, v: Any, beta: float) -> Any:
        import torch

        return -(v @ self.b) - torch.nn.functional.softplus(beta * (v @ self.weight + self.c)).sum(1)


def bits(rows: int = BATCH) -> Any:
    import torch

    return torch.bernoulli(torch.full((rows, PIXELS), 0.13))


def contrastive(centred: bool) -> Program:
    """CD-1, or PCD-1 with centred gradients, and the update."""
    import torch

    m, v = Machine(), bits()
    state = {"chains": bits(), "mu": torch.zeros(PIXELS), "lam": torch.zeros(HIDDEN)}

    def step() -> None:
        with torch.no_grad():
            negatives = m.step(state["chains"] if centred else v)
            h, g = torch.sigmoid(v @ m.weight + m.c), torch.sigmoid(negatives @ m.weight + m.c)
            slope = v.T @ h / len(v) - negatives.T @ g / len(negatives)
            visible, hidden = v.mean(0) - negatives.mean(0), h.mean(0) - g.mean(0)
            if centred:
                state["chains"] = negatives
                state["mu"] += 0.01 * (v.mean(0) - state["mu"])
                state["lam"] += 0.01 * (h.mean(0) - state["lam"])
                slope = slope - torch.outer(state["mu"], hidden) - torch.outer(visible, state["lam"])
                visible, hidden = visible - slope @ state["lam"], hidden - state["mu"] @ slope
            m.weight += 0.05 * slope
            m.b += 0.05 * visible
            m.c += 0.05 * hidden

    return step


def energy_network() -> Any:
    from torch import nn

    return nn.Sequential(nn.Linear(64, 128), nn.SiLU(), nn.Linear(128, 128), nn.SiLU(), nn.Linear(128, 1))


def walked(net: Any, x: Any, steps: int, step: float) -> Any:
    """Langevin steps."""
    import torch

    for _ in range(steps):
        x = x.detach().requires_grad_()
        (slope,) = torch.autograd.grad(net(x).sum(), x)
        x = x - step * slope + math.sqrt(2 * step) * torch.randn_like(x)
    return x.detach()


def deep_energy() -> Program:
    import torch

    net, chains, x = energy_network(), torch.randn(1000, 64), torch.randn(BATCH, 64)
    optimizer = torch.optim.SGD(net.parameters(), lr=1e-3)

    def step() -> None:
        places = torch.randint(1000, (BATCH,))
        start = torch.where(torch.rand(BATCH, 1) < 0.05, torch.randn(BATCH, 64), chains[places])
        negatives = walked(net, start, 20, 0.01)
        chains[places] = negatives
        here, there = net(x)[:, 0], net(negatives)[:, 0]
        optimizer.zero_grad()
        (here.mean() - there.mean() + 0.1 * ((here**2).mean() + (there**2).mean())).backward()
        optimizer.step()

    return step


def autoencoder() -> Program:
    import torch
    from torch import nn

    sizes, x = (PIXELS, 256, 32, 256, PIXELS), bits()
    layers = [part for i in range(4) for part in (nn.Linear(sizes[i], sizes[i + 1]), nn.ReLU())][:-1]
    net = nn.Sequential(*layers)
    optimizer = torch.optim.SGD(net.parameters(), lr=1e-3)

    def step() -> None:
        optimizer.zero_grad()
        nn.functional.binary_cross_entropy_with_logits(net(x), x).backward()
        optimizer.step()

    return step


def langevin() -> Program:
    import torch

    net, start = energy_network(), torch.randn(BATCH, 64)
    return lambda: walked(net, start, 200, 0.01)


def ising() -> Program:
    import torch

    board = (torch.arange(64).unsqueeze(1) + torch.arange(64)) % 2 == 0
    start = torch.ones(8, 64, 64)

    def sweep(x: Any) -> Any:
        for colour in (board, ~board):
            around = x.roll(1, -1) + x.roll(-1, -1) + x.roll(1, -2) + x.roll(-1, -2)
            x = torch.where(colour, 2 * torch.bernoulli(torch.sigmoid(0.8 * around)) - 1, x)
        return x

    return repeated(sweep, start)


def gibbs() -> Program:
    m = Machine()
    return repeated(m.step, bits(CHAINS))


def repeated(step: Callable[[Any], Any], start: Any) -> Program:
    def walk() -> Any:
        import torch

        x = start
        with torch.no_grad():
            for _ in range(SWEEPS):
                x = step(x)
        return x

    return walk


def annealing() -> Program:
    import torch

    m = Machine()

    def walk() -> Any:
        beta = torch.linspace(0, 1, TEMPERATURES + 1).tolist()
        v, log_weight = torch.bernoulli(torch.sigmoid(m.b).expand(CHAINS, -1)), torch.zeros(CHAINS)
        with torch.no_grad():
            for now, after in itertools.pairwise(beta):
                log_weight += m.free_energy(v, now) - m.free_energy(v, after)
                v = m.step(v, after)
        return log_weight.logsumexp(0)

    return walk


def training(model: Any, loss: Callable[[], Any]) -> Program:
    import torch

    optimizer = torch.optim.SGD(model.parameters(), lr=1e-3)

    def step() -> None:
        optimizer.zero_grad()
        loss().backward()
        optimizer.step()

    return step


def nade() -> Program:
    """The running sum of the paper, one element after the other."""
    import torch
    from torch import nn

    model, x = nn.ParameterList(), bits()
    for shape in ((PIXELS, HIDDEN), (PIXELS, HIDDEN), (PIXELS,), (HIDDEN,)):
        model.append(nn.Parameter(0.01 * torch.randn(shape)))

    def loss() -> Any:
        weight, outward, b, c = model
        a, logits = c.expand(len(x), -1), []
        for i in range(PIXELS):
            logits.append(torch.sigmoid(a) @ outward[i] + b[i])
            a = a + x[:, i : i + 1] * weight[i]
        found = torch.stack(logits, 1)
        return nn.functional.binary_cross_entropy_with_logits(found, x, reduction="sum") / len(x)

    return training(model, loss)


def made() -> Program:
    import torch
    from torch import nn

    x = bits()
    model = nn.ModuleList([nn.Linear(PIXELS, HIDDEN), nn.Linear(HIDDEN, PIXELS)])
    degrees = torch.randint(0, PIXELS - 1, (HIDDEN,))
    into = (degrees.unsqueeze(1) >= torch.arange(PIXELS)).float()
    out = (torch.arange(PIXELS).unsqueeze(1) > degrees).float()

    def loss() -> Any:
        h = torch.relu(nn.functional.linear(x, model[0].weight * into, model[0].bias))
        found = nn.functional.linear(h, model[1].weight * out, model[1].bias)
        return nn.functional.binary_cross_entropy_with_logits(found, x, reduction="sum") / len(x)

    return training(model, loss)


def pixelcnn_network() -> tuple[Any, Callable[..., Any]]:
    """The layers and the pass through them; `see` applies a layer that looks beyond a pixel, with its masked kernel."""
    import torch
    from torch import nn

    half = FEATURES // 2
    first = nn.Conv2d(1, FEATURES, 7, padding=3)
    block = lambda: nn.ModuleList(
        [nn.Conv2d(FEATURES, half, 1), nn.Conv2d(half, half, 3, padding=1), nn.Conv2d(half, FEATURES, 1)]
    )
    last = nn.ModuleList([nn.Conv2d(FEATURES, FEATURES, 1), nn.Conv2d(FEATURES, 1, 1)])
    model = nn.ModuleList([first, nn.ModuleList([block() for _ in range(LAYERS)]), last])

    def forward(x: Any, see: Callable[[int, Any, Any], Any]) -> Any:
        h = see(0, first, x)
        for number, (shrink, spread, grow) in enumerate(model[1], 1):
            h = h + grow(torch.relu(see(number, spread, torch.relu(shrink(torch.relu(h))))))
        return last[1](torch.relu(last[0](torch.relu(h))))

    return model, forward


def masked(number: int, layer: Any) -> Any:
    """The kernel without what comes later; the first layer is also without the centre."""
    import torch

    size = layer.weight.shape[-1]
    mask = torch.ones(size, size)
    mask[size // 2, size // 2 + (number > 0) :] = 0
    mask[size // 2 + 1 :] = 0
    return layer.weight * mask


def whole(number: int, layer: Any, x: Any) -> Any:
    from torch.nn import functional as F

    return F.conv2d(x, masked(number, layer), layer.bias, padding=layer.padding)


def pixelcnn_step() -> Program:
    from torch.nn import functional as F

    model, forward = pixelcnn_network()
    x = bits(16).reshape(-1, 1, 28, 28)
    return training(model, lambda: F.binary_cross_entropy_with_logits(forward(x, whole), x, reduction="sum") / 16)


def naive_sampling() -> Program:
    """A pass over the whole image for every pixel."""
    import torch

    _, forward = pixelcnn_network()

    def draw() -> Any:
        x = torch.zeros(DRAWN, 1, 28, 28)
        with torch.no_grad():
            for place in range(PIXELS):
                i, j = divmod(place, 28)
                x[:, :, i, j] = torch.bernoulli(torch.sigmoid(forward(x, whole)[:, :, i, j]))
        return x

    return draw


def cached_sampling() -> Program:
    """Every layer keeps its padded inputs, and is asked for one pixel at a time."""
    import torch

    model, forward = pixelcnn_network()
    layers = [model[0], *(block[1] for block in model[1])]

    def draw() -> Any:
        kernels = [masked(number, layer).flatten(1).T for number, layer in enumerate(layers)]
        reach = [layer.padding[0] for layer in layers]
        kept = [torch.zeros(DRAWN, m.in_channels, 28 + 2 * r, 28 + 2 * r) for m, r in zip(layers, reach, strict=True)]
        for place in range(PIXELS):
            i, j = divmod(place, 28)

            def see(number: int, layer: Any, x: Any, i: int = i, j: int = j) -> Any:
                r = reach[number]
                kept[number][:, :, i + r, j + r] = x[:, :, 0, 0]
                patch = kept[number][:, :, i : i + 2 * r + 1, j : j + 2 * r + 1].flatten(1)
                return (patch @ kernels[number] + layer.bias)[:, :, None, None]

            pixel = torch.bernoulli(torch.sigmoid(forward(torch.zeros(DRAWN, 1, 1, 1), see)))
            kept[0][:, :, i + 3, j + 3] = pixel[:, :, 0, 0]
        return kept[0]

    return torch.no_grad()(draw)


PROGRAMS: dict[str, Callable[[], Program]] = {
    "rbm cd-1 step, 784–500, 100 images": lambda: contrastive(False),
    "rbm pcd-1 centred step, 784–500, 100 images": lambda: contrastive(True),
    "deep energy step, 20 langevin steps": deep_energy,
    "autoencoder step, 784–256–32": autoencoder,
    "nade step, 784–500, 100 images": nade,
    "made step, 784–500, 100 images": made,
    "pixelcnn step, 4 × 32 features, 16 images": pixelcnn_step,
    "pixelcnn, cached sampling of 4 images": cached_sampling,
    "pixelcnn, naive sampling of 4 images": naive_sampling,
    "langevin, 100 chains, 200 steps": langevin,
    "ising 64², 8 chains, 1000 sweeps": ising,
    "rbm gibbs 784–500, 20 chains, 1000 sweeps": gibbs,
    "ais 784–500, 20 chains, 1000 temperatures": annealing,
}
