"""polynomial-fit: one least-squares problem solved twice, in closed form and by stochastic gradient descent."""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

import weft

from ... import nn
from ...data.synthetic import sine
from ...models.classical.polynomial import BasisRegression, chebyshev, monomials
from ...tensor import Tensor
from .. import pictures
from ..base import Goal, Recipe, Root, Run, Splits
from ..inputs import as_rows
from ..settings import TrainSettings, option
from ..shared import Pair, in_order

__all__ = ["truth"]


@dataclass(kw_only=True)
class PolynomialSettings(TrainSettings):
    """Settings of polynomial-fit."""

    epochs: int = 400
    batch_size: int = 20
    lr: float = 0.2
    degree: int = option(7, "degree of the polynomial", at_least=1, at_most=30)
    examples: int = option(100, "training points; as many for testing", at_least=2)
    noise: float = option(0.2, "standard deviation of the noise", at_least=0)


class PolynomialFit(Recipe):
    """ŷ = b + Σₖ wₖ Tₖ(x) with Chebyshev's polynomials, which keep the problem well-conditioned for descent."""

    title = "A polynomial through noisy points, closed form beside SGD"
    Settings = PolynomialSettings
    goal = Goal(
        "gap",
        at_most=0.02,
        data="[−1, 1]: the root mean square distance of both curves",
        baseline="the same descent on powers of x",
        margin=0.02,
    )
    example = "numbers in [−1, 1], such as 0.1; 0.5"

    def data(self, settings: PolynomialSettings, root: Root = None) -> Splits:
        train, test = points(settings)
        return Splits(in_order(train), None, in_order(test))

    def task(self, settings: PolynomialSettings, splits: Splits | None = None) -> nn.Module:
        return BasisRegression(partial(chebyshev, degree=settings.degree), settings.degree)

    def fit(self, run: Run) -> tuple[dict[str, float], Any]:
        settings = run.settings
        train, test = points(settings)
        exact, descended = (self.task(settings) for _ in range(2))
        exact.solve(*train)
        powers = BasisRegression(partial(monomials, degree=settings.degree, constant=False), settings.degree)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # it is far from its minimum: that is what is to be shown
            _descend(powers, train, settings)
        for epoch, loss in enumerate(_descend(descended, train, settings)):
            run.folder.append({"kind": "epoch", "epoch": epoch, "step": epoch, "train_loss": loss})
        run.keep(descended)
        grid = weft.linspace(-1, 1, 200)[:, None]
        lines = {"closed form": _on(exact, grid), "SGD": _on(descended, grid), "truth": truth(grid.numpy()[:, 0])}
        title = f"polynomial-fit: degree {settings.degree}"
        run.draw(lambda: pictures.curves(title, grid.numpy()[:, 0], lines, tuple(p.numpy()[:, 0] for p in train)))
        return {
            "gap": _distance(lines["closed form"], lines["SGD"]),
            self.goal.beside: _distance(lines["closed form"], _on(powers, grid)),
            "test_rmse_closed_form": _distance(_on(exact, test[0]), test[1].numpy()[:, 0]),
            "test_rmse_sgd": _distance(_on(descended, test[0]), test[1].numpy()[:, 0]),
        }, descended

    def predict(self, task: nn.Module, input: Any) -> Any:
        return [{"y": round(float(y), 4)} for y in _on(task, as_rows(input, 1))]


def points(settings: PolynomialSettings) -> tuple[Pair, Pair]:
    """Training and test points of a noisy sine on [−1, 1]."""
    streams = weft.Generator().manual_seed(settings.seed).split(2)
    train, test = (sine(settings.examples, settings.noise, low=-1.0, high=1.0, generator=own) for own in streams)
    return train, test


def truth(x: np.ndarray) -> np.ndarray:
    """The sine without noise."""
    return np.sin(2 * np.pi * x)


def _descend(model: BasisRegression, train: Pair, settings: PolynomialSettings) -> list[float]:
    """SGD at the full rate, then at a tenth and a hundredth of it, to settle in the minimum."""
    thirds = [settings.epochs // 2, settings.epochs // 4, settings.epochs - settings.epochs // 2 - settings.epochs // 4]
    losses = []
    for number, epochs in enumerate(thirds):
        how = {"lr": settings.lr / 10**number, "batch_size": settings.batch_size, "seed": settings.seed + number}
        losses += model.fit(*train, epochs=epochs, **how)
    return losses


def _on(model: nn.Module, x: Tensor) -> np.ndarray:
    with weft.no_grad():
        return model(x).numpy()[:, 0]


def _distance(a: np.ndarray, b: np.ndarray) -> float:
    return float(np.sqrt(((a - b) ** 2).mean()))


recipe = PolynomialFit()
