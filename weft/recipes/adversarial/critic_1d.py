"""critic-1d: critics and discriminators where the truth is known, on the line: W₁ = ∫ |F − G|, and D* = p / (p + q).

What a critic says of W₁ is E f(x) − E f(y) divided by its largest slope, so never more than the truth; with a gradient penalty
it comes close, with clipped weights it stays below: such critics can hardly bend.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import weft

from ... import nn, optim
from ...distributions import Categorical, Distribution, MixtureSameFamily, Normal
from ...models.adversarial.losses import logistic_discriminator, wasserstein_discriminator
from ...models.adversarial.penalties import gradient_penalty
from ...models.adversarial.rows import mlp
from ...models.adversarial.theory import game_value, jensen_shannon, optimal_discriminator, wasserstein_of_cdfs
from ...models.generative.checks import grid
from ...tensor import Tensor
from .. import pictures
from ..base import Goal, Recipe, Run
from ..settings import Settings, option

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = ["Critic1D", "CriticSettings", "recipe"]

LIMITS, CELLS = (-10.0, 10.0), 4000


def densities() -> dict[str, tuple[Distribution, Distribution]]:
    """Data and draws: moved, spread, and in two heaps."""
    heaps = MixtureSameFamily(Categorical(weft.tensor([0.5, 0.5])), Normal(weft.tensor([-2.0, 2.0]), 0.5))
    normal = Normal(0.0, 1.0)
    return {"shift": (normal, Normal(2.0, 1.0)), "spread": (normal, Normal(0.0, 2.0)), "heaps": (heaps, normal)}


@dataclass(kw_only=True)
class CriticSettings(Settings):
    """Settings of critic-1d."""

    steps: int = option(1500, "steps of each network", at_least=1)
    batch_size: int = option(512, "draws of either side in a step", at_least=2)
    hidden: int = option(64, "units of each of two hidden layers", at_least=1)
    lr: float = option(3e-3, "learning rate, falling to 0", above=0)
    weight: float = option(300.0, "largest weight of the gradient penalty", above=0)
    clip: float = option(0.1, "largest weight of the clipped critic", above=0)


class Critic1D(Recipe):
    """Three pairs of densities; expectations of the trained networks are sums over a fine grid, without draws."""

    title = "Critics on the line: the earth mover's distance and the optimal discriminator"
    Settings = CriticSettings
    goal = Goal(
        "relative_error",
        at_most=0.02,
        data="three pairs of densities: of the critic's W₁ to ∫ |F − G|, the worst",
        baseline="a critic with clipped weights",
    )

    def fit(self, run: Run) -> tuple[dict[str, float], Any]:
        figures: dict[str, float] = {}
        curves = {}
        for number, (name, pair) in enumerate(densities().items()):
            row, curves[name] = self.measured(pair, run.settings)
            run.folder.append({"kind": "epoch", "epoch": number, "step": run.settings.steps, **row})
            figures |= {f"{name}_{key}": value for key, value in row.items()}
        run.draw(lambda: _picture(curves))
        worst = lambda key: max(figures[f"{name}_{key}"] for name in curves)
        return {"relative_error": worst("error"), self.goal.beside: worst("clipped_error"), **figures}, None

    def measured(self, pair: tuple[Distribution, ...], settings: CriticSettings) -> tuple[dict[str, float], Any]:
        """Figures of one pair, and curves over the grid."""
        points, cell = grid([LIMITS], CELLS)
        p, q = (_density(side, points[:, 0], cell) for side in pair)
        true = wasserstein_of_cdfs(p.cumsum(0) * cell, q.cumsum(0) * cell, cell)
        penalty = lambda f, x, y: gradient_penalty(f, x, y, one_sided=True)
        critic = learnt(pair, settings, wasserstein_discriminator, penalty)
        clipped = learnt(pair, settings, wasserstein_discriminator, clip=settings.clip)
        told = learnt(pair, settings, logistic_discriminator)
        with weft.no_grad():
            f, g, logits = (net(points.float())[:, 0].double() for net in (critic, clipped, told))
        best, value = optimal_discriminator(p, q), game_value(logits.sigmoid(), p, q, cell)
        found = {"wasserstein": true, "critic": estimated(f, p, q, cell), "clipped": estimated(g, p, q, cell)}
        found |= {f"{'clipped_' * (k == 'clipped')}error": abs(found[k] / true - 1) for k in ("critic", "clipped")}
        found["value"], found["best_value"] = value, 2 * jensen_shannon(p, q, cell) - weft.log(weft.tensor(4.0)).item()
        found["discriminator_error"] = ((logits.sigmoid() - best).abs() * (p + q) / 2).sum().item() * cell
        shown = {"D*": best, "D": logits.sigmoid(), "p": p, "q": q, "f": (f - f.mean()) / slope(f, cell)}
        return found, {"x": points[:, 0], **shown}


def learnt(
    pair: tuple[Distribution, ...],
    settings: CriticSettings,
    loss: Callable[[Tensor, Tensor], Tensor],
    penalty: Callable[..., Any] = lambda net, x, y: 0.0,
    clip: float | None = None,
) -> nn.Module:
    """A network after `steps` steps on fresh draws. The penalty's weight grows: a stiff critic would not turn round."""
    weft.manual_seed(settings.seed)
    net = mlp(1, (settings.hidden,) * 2, 1)
    adam = optim.Adam(net.parameters(), lr=settings.lr, betas=(0.5, 0.99))

    @weft.compile
    def step(weight: Tensor) -> None:
        adam.zero_grad()
        x, y = (side.sample((settings.batch_size, 1)) for side in pair)
        (loss(net(x), net(y)) + weight * penalty(net, x, y)).backward()
        adam.step()
        if clip is not None:
            with weft.no_grad():
                for weight in net.parameters():
                    weight.clamp_(-clip, clip)

    for number in range(settings.steps):
        done = number / settings.steps
        adam.param_groups[0]["lr"] = settings.lr * (1 - done)
        step(weft.tensor(1 + settings.weight * done))
    return net


def estimated(f: Tensor, p: Tensor, q: Tensor, cell: float) -> float:
    """∫ f (p − q) over the largest slope of f where there is anything: no more than W₁."""
    there = (p + q) > 1e-4
    return ((f * (p - q)).sum().item() * cell) / max(slope(f, cell, there), 1e-12)


def slope(f: Tensor, cell: float, there: Tensor | None = None) -> float:
    """The largest |f'| over the grid, or the part of it."""
    steep = f.diff().abs() / cell
    return (steep if there is None else steep[there[1:]]).max().item()


def _density(side: Distribution, x: Tensor, cell: float) -> Tensor:
    values = side.log_prob(x.float()).exp().double()
    return values / (values.sum() * cell)


def _picture(curves: dict[str, Any]) -> Figure:
    figure, axes = pictures.blank("What a discriminator and a critic learn", len(curves), width=3.6, height=3.4)
    for axis, (name, lines) in zip(axes, curves.items(), strict=True):
        near = lines["x"].abs() < 6
        for key, style, colour in (("p", ":", 2), ("q", ":", 3), ("D*", "-", 0), ("D", "--", 1)):
            axis.plot(lines["x"][near], lines[key][near], style, color=pictures.COLOURS[colour], label=key)
        axis.set(title=name, xlabel="x")
    axes[0].legend(fontsize=8)
    return figure


recipe = Critic1D()
