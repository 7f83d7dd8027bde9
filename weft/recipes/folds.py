"""What densities of red wines share: ten folds, the loop that learns one, early stopping, the figures.

Protocol (Uria, Murray, Larochelle 2013): the eleven measurements of 1,599 wines; the quality, a small whole number, is left
out, since a density of discrete numbers has no bound. Each fold is standardised by its own training rows, so no figure
knows its test rows; a tenth of these rows decides when to stop.
"""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

import weft

from .. import optim
from ..data.sources import uci
from ..models.generative.baselines import FactorisedGaussian, FullGaussian
from ..models.generative.protocol import GenerativeModel
from ..tensor import Tensor
from .base import Recipe, Run
from .settings import TrainSettings, option

__all__ = ["FoldSettings", "WineFolds"]

Arrays = tuple[NDArray, NDArray, NDArray]  # training, validation, test


@dataclass(kw_only=True)
class FoldSettings(TrainSettings):
    """Settings of densities of red wines."""

    epochs: int = 120
    batch_size: int = 100
    lr: float = 0.01
    weight_decay: float = option(0.2, "decay of the weights (AdamW)", at_least=0)
    folds: int = option(10, "folds; of each, the figure is on rows that no other fold tests", at_least=2)
    limit: int | None = option(None, "run only so many of the folds", at_least=1)


class WineFolds(Recipe):
    """A density of red wines; a recipe states its model."""

    @abstractmethod
    def model(self, settings: Any, features: int) -> GenerativeModel:
        """A fresh model of so many numbers."""

    def fit(self, run: Run) -> tuple[dict[str, float], Any]:
        settings = run.settings
        table = uci("wine-quality-red", run.root, download=run.root is None)
        rows = table.to_tensor(table.columns[:-1], weft.float64).numpy()  # (N, 11), without the quality
        run.check_folder()
        names = ("log_likelihood", "gaussian", "factorised", "validation")
        parts = list(_folds(rows, settings))[: settings.limit]
        learner = _Learner(settings, lambda: self.model(settings, rows.shape[1]))
        scores = []
        for number, fold in enumerate(parts):
            train, _, test = fold
            each, best = learner.learned(fold, settings.seed + number)
            simple = (_log_likelihood(kind(rows.shape[1]), train, test) for kind in (FullGaussian, FactorisedGaussian))
            figures = (each.mean(), *simple, best)
            scores.append((len(test), *figures))
            run.folder.append({"kind": "fold", "fold": number, **dict(zip(names, map(float, figures), strict=True))})
        weights, *columns = np.array(scores).T
        means = dict(zip(names, ((weights * column).sum() / weights.sum() for column in columns), strict=True))
        spread = np.std(columns[0], ddof=1) / math.sqrt(len(parts)) if len(parts) > 1 else math.nan
        found = {
            "test_log_likelihood": means["log_likelihood"],
            "test_log_likelihood_error": spread,
            self.goal.beside: means["gaussian"],
            "factorised_log_likelihood": means["factorised"],
            "validation_log_likelihood": means["validation"],
        }
        return {name: float(value) for name, value in found.items()}, None


class _Learner:
    """One compiled step for all folds: the model's weights start anew each time."""

    def __init__(self, settings: FoldSettings, fresh: Callable[[], GenerativeModel]) -> None:
        self.settings, self.fresh = settings, fresh
        self.model = fresh()
        self.optimizer = optim.AdamW(self.model.parameters(), lr=settings.lr, weight_decay=settings.weight_decay)
        self.step = weft.compile(self._step)
        self.ask = weft.compile(self._ask)

    def _step(self, x: Tensor) -> None:
        self.optimizer.zero_grad()
        (-self.model.log_prob(x).mean()).backward()
        self.optimizer.step()

    def _ask(self, x: Tensor) -> Tensor:
        with weft.no_grad():
            return self.model.log_prob(x)

    def learned(self, fold: Arrays, seed: int) -> tuple[NDArray, float]:
        """log p of each test row by the weights that were best on the validation rows, and how good they were there."""
        self._restart(seed)
        settings, generator = self.settings, weft.Generator().manual_seed(seed)
        train, held, test = (weft.tensor(part.astype(np.float32)) for part in fold)
        best, kept = -math.inf, {}
        for epoch in range(settings.epochs):
            for group in self.optimizer.param_groups:
                group["lr"] = settings.lr * (0.5 + 0.5 * math.cos(math.pi * epoch / settings.epochs))
            order = weft.randperm(len(train), generator=generator)
            for part in order.split(min(settings.batch_size, len(train)))[: len(train) // settings.batch_size or 1]:
                self.step(train[part])
            found = self.ask(held).mean().item()
            if found > best:
                best, kept = found, {name: value.clone() for name, value in self.model.state_dict().items()}
        if kept:
            self.model.load_state_dict(kept)
        return self.ask(test).numpy(), best

    def _restart(self, seed: int) -> None:
        weft.manual_seed(seed)
        self.model.load_state_dict(self.fresh().state_dict())
        for state in self.optimizer.state.values():
            for value in state.values():
                if isinstance(value, Tensor):
                    value.zero_()


def _folds(rows: NDArray, settings: FoldSettings) -> Any:
    """Training, validation and test rows of each fold, standardised by the first two."""
    order = np.random.default_rng(0).permutation(len(rows))  # the same folds for every seed
    for test in np.array_split(order, settings.folds):
        rest = np.setdiff1d(order, test, assume_unique=True)
        rest = np.random.default_rng(settings.seed + 1).permutation(rest)
        mean, std = rows[rest].mean(0), rows[rest].std(0)
        held = max(len(rest) // 10, 1)
        yield tuple((rows[part] - mean) / std for part in (rest[held:], rest[:held], test))


def _log_likelihood(model: FullGaussian | FactorisedGaussian, train: NDArray, test: NDArray) -> float:
    return model.fit(weft.tensor(train)).log_prob(weft.tensor(test)).mean().item()
