"""cyclegan-moons: a map between two sets of points that nobody has paired, compared with the map that made the second.

X is two moons of unequal weight, Y other moons under y = A x + b: turned by 60°, stretched, moved. Nothing tells which y belongs to
which x; the weights and the shape do. The map is judged on fresh points: mean |G(x) − A x − b|, in deviations of Y.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import weft

from ... import nn
from ...data import DataLoader, TensorDataset
from ...data.synthetic.points import moons
from ...models.adversarial.cyclegan import CycleGAN, History
from ...models.adversarial.rows import mlp
from ...models.adversarial.training import AdversarialTraining
from ...tensor import Tensor
from ...train import Trainer
from .. import pictures
from ..base import Goal, Recipe, Run
from ..settings import Settings, option

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = ["CycleMoons", "CycleSettings", "Near", "recipe"]

ANGLE, STRETCH, SHIFT = math.pi / 3, (1.3, 0.8), (0.5, -0.3)
EPOCH = 100  # steps


@dataclass(kw_only=True)
class CycleSettings(Settings):
    """Settings of cyclegan-moons."""

    steps: int = option(3000, "steps of both players", at_least=1)
    batch_size: int = option(256, "points of each set in a step", at_least=2)
    hidden: int = option(
        64, "units of each of two hidden layers of the maps; the discriminators have twice as many", at_least=1
    )
    lr: float = option(1e-3, "learning rate, falling to 0 in the second half", above=0)
    cycle: float = option(1.0, "weight of the way there and back", at_least=0)
    identity: float = option(0.0, "weight of leaving points of the other set alone", at_least=0)
    noise: float = option(0.08, "deviation of the points around the moons", at_least=0)


class Near(nn.Module):
    """x + net(x): a map that starts near the identity. Shape: (B, 2) → (B, 2)"""

    def __init__(self, hidden: int) -> None:
        super().__init__()
        self.net = mlp(2, (hidden, hidden), 2, "silu")

    def forward(self, x: Tensor) -> Tensor:
        return x + self.net(x)


class CycleMoons(Recipe):
    """Two maps, two discriminators, a history of draws, non-saturating losses."""

    title = "CycleGAN: moons turned, stretched and moved, without pairs"
    Settings = CycleSettings
    goal = Goal(
        "distance",
        at_most=0.15,
        data="5,000 fresh points: mean distance of G(x) to the true image, in deviations of Y",
        baseline="the linear map that moves mean and covariance (optimal transport of Gaussians)",
        margin=0.1,
    )

    def fit(self, run: Run) -> tuple[dict[str, float], Any]:
        settings = run.settings
        streams = weft.Generator().manual_seed(settings.seed).split(3)
        sizes = settings.batch_size * EPOCH, settings.batch_size * EPOCH, 5000
        x, other, test = (lopsided(n, settings.noise, g) for n, g in zip(sizes, streams, strict=True))
        y = truth(other)
        model = fitted(x, y, settings)
        with weft.no_grad():
            mapped, back = model.encode(test), model.reconstruct(test)
        spread = truth(test).std(0).norm().item()
        distance = lambda a, b: (a - b).norm(dim=1).mean().item() / spread
        figures = {
            "distance": distance(mapped, truth(test)),
            self.goal.beside: distance(gaussian_transport(x, y)(test), truth(test)),
            "identity_distance": distance(test, truth(test)),
            "cycle_distance": distance(back, test),
        }
        run.folder.append({"kind": "epoch", "epoch": 0, "step": settings.steps, **figures})
        run.draw(lambda: _picture(test, mapped))
        return figures, None


def lopsided(n: int, noise: float, generator: Any) -> Tensor:
    """Moons, three quarters of the points on the upper one, about their mean: (n, 2)"""
    points, labels = moons(4 * n, noise, generator=generator)
    upper, lower = points[labels == 0][: n - n // 4], points[labels == 1][: n // 4]
    return weft.cat([upper, lower])[weft.randperm(n, generator=generator)] - weft.tensor([0.25, 0.45])


def truth(x: Tensor) -> Tensor:
    """A x + b: (n, 2) → (n, 2)"""
    cos, sin = math.cos(ANGLE), math.sin(ANGLE)
    turn = weft.tensor([[cos, -sin], [sin, cos]])
    return (x * weft.tensor(STRETCH)) @ turn.mT + weft.tensor(SHIFT)


def gaussian_transport(x: Tensor, y: Tensor) -> Any:
    """x ↦ m_Y + T (x − m_X), T = Σ_X^−½ (Σ_X^½ Σ_Y Σ_X^½)^½ Σ_X^−½"""
    (a, b), (m, n) = (weft.cov(s.double().mT) for s in (x, y)), (s.double().mean(0) for s in (x, y))
    half, inverse = _power(a, 0.5), _power(a, -0.5)
    t = inverse @ _power(half @ b @ half, 0.5) @ inverse
    return lambda z: (n + (z.double() - m) @ t.mT).float()


def _power(matrix: Tensor, exponent: float) -> Tensor:
    values, vectors = weft.linalg.eigh(matrix)
    return (vectors * values**exponent) @ vectors.mT


def fitted(x: Tensor, y: Tensor, settings: CycleSettings) -> CycleGAN:
    """A model of the two sets."""
    weft.manual_seed(settings.seed)
    tellers = [mlp(2, (2 * settings.hidden, 2 * settings.hidden), 1, "leaky_relu") for _ in range(2)]
    keeping = [History(4 * settings.batch_size, (2,)) for _ in range(2)]
    maps = Near(settings.hidden), Near(settings.hidden)
    weights = {"cycle": settings.cycle, "identity": settings.identity}
    model = CycleGAN(*maps, *tellers, "non_saturating", histories=tuple(keeping), **weights)
    epochs = max(settings.steps // EPOCH, 1)
    task = AdversarialTraining(model, (settings.lr, settings.lr), betas=(0.5, 0.9), epochs=epochs)
    order = {"batch_size": settings.batch_size, "shuffle": True, "drop_last": True, "seed": settings.seed}
    data = DataLoader(TensorDataset(x, y), **order)
    Trainer(max_epochs=epochs, run_folder=False, progress=False).fit(task, data)
    return model


def _picture(x: Tensor, mapped: Tensor) -> Figure:
    figure, axes = pictures.blank("cyclegan-moons: colours show where points come from", 3, width=3.4, height=3.6)
    shown = {"X": x, "G(X)": mapped, "the true image": truth(x)}
    for axis, (name, points) in zip(axes, shown.items(), strict=True):
        axis.scatter(*points[:1500].numpy().T, c=x[:1500, 0].numpy(), s=3, cmap="viridis")
        axis.set(title=name, aspect="equal", xticks=[], yticks=[])
    return figure


recipe = CycleMoons()
