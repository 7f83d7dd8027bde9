"""Generative models: training steps, chains and annealing, Weft, compiled, against the same program in PyTorch, in turns.

Prints medians and the ratio Weft / PyTorch (below 1: Weft is faster). PyTorch's programs are in `generative_peers`: plain
eager code with the same sizes, the same number of draws and the same gradient.

    python bench/generative.py [--rounds 7] [--threads 1] [--only gibbs] [--json FILE]
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import generative_codes as codes
import generative_diffusion as diffusion
import generative_flows as flows
import generative_games as games
import generative_maps as maps
import generative_peers as peers
import generative_variational as variational
from turns import run

PIXELS, HIDDEN, BATCH, CHAINS = 784, 500, 100, 20
SWEEPS = TEMPERATURES = 1000
Program = Callable[[], Any]


def programs(library: Any) -> dict[str, Program]:
    """Every program, made when it is first called."""
    made = OURS | games.OURS if library.__name__ == "weft" else PEERS | games.PROGRAMS
    return {name: later(make) for name, make in made.items()}


def later(make: Callable[[], Program]) -> Program:
    made = functools.cache(make)
    return lambda: made()()


def machine(hidden: int = HIDDEN) -> Any:
    from weft.models.energy import BernoulliRBM

    return BernoulliRBM(PIXELS, hidden)


def bits(rows: int = BATCH) -> Any:
    import weft

    return weft.bernoulli(weft.full((rows, PIXELS), 0.13))


def learning(kind: str) -> Program:
    """CD-1, or PCD-1 with centred gradients, and a step of gradient descent."""
    import weft
    from weft.models.energy import ContrastiveDivergence, PersistentContrastiveDivergence

    rbm, v, generator = machine(), bits(), weft.Generator()
    loss = ContrastiveDivergence(rbm) if kind == "cd" else PersistentContrastiveDivergence(rbm, BATCH, centred=True)
    return training(rbm, lambda: loss(v, generator), lr=0.05)


def training(model: Any, loss: Callable[[], Any], lr: float = 1e-3) -> Program:
    import weft

    optimizer = weft.optim.SGD(model.parameters(), lr=lr)

    @weft.compile
    def step() -> None:
        optimizer.zero_grad()
        loss().backward()
        optimizer.step()

    return step


def deep_energy() -> Program:
    """A network over 64 numbers, twenty Langevin steps of replayed chains, two passes, a step."""
    import weft
    from weft import nn
    from weft.models.energy import DeepEnergy, ReplayBuffer

    net = nn.Sequential(nn.Linear(64, 128), nn.SiLU(), nn.Linear(128, 128), nn.SiLU(), nn.Linear(128, 1))
    model = DeepEnergy(net, (64,), step=0.01, steps=20)
    buffer, x, generator = ReplayBuffer(model, 1000), weft.randn(BATCH, 64), weft.Generator()
    return training(model, lambda: buffer(x, generator))


def autoencoder() -> Program:
    """784–256–32–256–784 with a logistic loss."""
    import weft
    from weft import nn

    sizes, x = (PIXELS, 256, 32, 256, PIXELS), bits()
    layers = [part for i in range(4) for part in (nn.Linear(sizes[i], sizes[i + 1]), nn.ReLU())][:-1]
    net = nn.Sequential(*layers)
    return training(net, lambda: weft.nn.functional.binary_cross_entropy_with_logits(net(x), x))


def gibbs() -> Program:
    from weft.models.generative import planned

    rbm, start = machine(), bits(CHAINS)
    walk = planned(rbm.gibbs)
    return lambda: walk(start, SWEEPS)


def ising() -> Program:
    import weft
    from weft.models.energy import IsingLattice
    from weft.models.generative import planned

    walk, start = planned(IsingLattice(64, 64, 0.4).gibbs), weft.ones(8, 64, 64)
    return lambda: walk(start, SWEEPS)


def annealing() -> Program:
    from weft.models.energy import ais
    from weft.models.generative import planned

    rbm = machine()
    walk = planned(lambda generator: ais(rbm, CHAINS, TEMPERATURES, generator=generator).value)
    return walk


def langevin() -> Program:
    import weft
    from weft import nn
    from weft.models.energy import langevin
    from weft.models.generative import planned

    net = nn.Sequential(nn.Linear(64, 128), nn.SiLU(), nn.Linear(128, 128), nn.SiLU(), nn.Linear(128, 1))
    walk = planned(lambda x, generator: langevin(lambda x: net(x)[:, 0], x, 200, 0.01, generator))
    start = weft.randn(BATCH, 64)
    return lambda: walk(start)


def nade() -> Program:
    from weft.models.autoregressive import NADE

    model, x = NADE(PIXELS, HIDDEN), bits()
    return training(model, lambda: -model.log_prob(x).mean())


def made() -> Program:
    from weft.models.autoregressive import MADE

    model, x = MADE(PIXELS, (HIDDEN,)), bits()
    return training(model, lambda: -model.log_prob(x).mean())


def pixelcnn() -> Any:
    from weft.models.autoregressive import PixelCNN

    return PixelCNN((1, 28, 28), peers.FEATURES, peers.LAYERS)


def pixelcnn_step() -> Program:
    model, x = pixelcnn(), bits(16).reshape(-1, 1, 28, 28)
    return training(model, lambda: -model.log_prob(x).mean())


def pixelcnn_sampling(cached: bool) -> Program:
    import weft
    from weft.models.generative import planned

    model = pixelcnn()
    draw = planned(weft.no_grad()(model.naive_sample))
    return (lambda: model.sample(peers.DRAWN)) if cached else (lambda: draw(peers.DRAWN))


OURS: dict[str, Callable[[], Program]] = {
    "rbm cd-1 step, 784–500, 100 images": lambda: learning("cd"),
    "rbm pcd-1 centred step, 784–500, 100 images": lambda: learning("pcd"),
    "deep energy step, 20 langevin steps": deep_energy,
    "autoencoder step, 784–256–32": autoencoder,
    "nade step, 784–500, 100 images": nade,
    "made step, 784–500, 100 images": made,
    "pixelcnn step, 4 × 32 features, 16 images": pixelcnn_step,
    "pixelcnn, cached sampling of 4 images": lambda: pixelcnn_sampling(True),
    "pixelcnn, naive sampling of 4 images": lambda: pixelcnn_sampling(False),
    "langevin, 100 chains, 200 steps": langevin,
    "ising 64², 8 chains, 1000 sweeps": ising,
    "rbm gibbs 784–500, 20 chains, 1000 sweeps": gibbs,
    "ais 784–500, 20 chains, 1000 temperatures": annealing,
    **variational.OURS,
    **diffusion.OURS,
    **codes.OURS,
    **flows.OURS,
    **maps.OURS,
}
PEERS = peers.PROGRAMS | variational.PROGRAMS | diffusion.PROGRAMS | codes.PROGRAMS | flows.PROGRAMS | maps.PROGRAMS


if __name__ == "__main__":
    run("generative models", __doc__, programs, rounds=7, seconds=0.01, processor=True)
