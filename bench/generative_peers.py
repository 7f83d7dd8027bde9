"""PyTorch's programs for bench/generative.py: plain eager code, what a reader of the papers would write."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable
from typing import Any

PIXELS, HIDDEN, BATCH, CHAINS = 784, 500, 100, 20
SWEEPS = TEMPERATURES = 1000
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


PROGRAMS: dict[str, Callable[[], Program]] = {
    "rbm cd-1 step, 784–500, 100 images": lambda: contrastive(False),
    "rbm pcd-1 centred step, 784–500, 100 images": lambda: contrastive(True),
    "deep energy step, 20 langevin steps": deep_energy,
    "autoencoder step, 784–256–32": autoencoder,
    "langevin, 100 chains, 200 steps": langevin,
    "ising 64², 8 chains, 1000 sweeps": ising,
    "rbm gibbs 784–500, 20 chains, 1000 sweeps": gibbs,
    "ais 784–500, 20 chains, 1000 temperatures": annealing,
}
