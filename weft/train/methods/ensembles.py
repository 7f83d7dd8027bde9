"""Ensembles: several models whose mean predicts better than each, and whose spread says how sure it is.

Members differ by their first weights and the order of data (deep ensembles; Lakshminarayanan et al. 2017) or by
bootstrap samples of the data (bagging; Breiman 1996).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

import weft

from ...data.sampler import Sampler, draw_seed
from ...errors import OptionError
from ...nn.container import ModuleList
from ...nn.module import Module
from ...ops.create.sample import Generator
from ...tensor import Tensor
from .parts import evaluating

__all__ = [
    "BootstrapSampler",
    "Ensemble",
    "EnsemblePrediction",
    "ambiguity",
    "bagging",
    "deep_ensemble",
    "gaussian_mixture",
    "out_of_bag_mean",
    "variance_of_mean",
]


@dataclass(frozen=True)
class EnsemblePrediction:
    """Predictions of M members, their mean, and their variance (divided by M): members (M, B, …), others (B, …)."""

    members: Tensor
    mean: Tensor
    variance: Tensor

    @property
    def entropy(self) -> Tensor:
        """For probabilities (M, B, C): the entropy of their mean, all uncertainty there is: (B,)."""
        return _entropy(self.mean)

    @property
    def disagreement(self) -> Tensor:
        """For probabilities: the entropy of the mean less the mean entropy, what more data could remove: (B,)."""
        return self.entropy - _entropy(self.members).mean(0)


class Ensemble(Module):
    """The mean of its members, f̄(x) = 1/M Σ f_m(x).

    transform: applied to each member's output before the mean, say `lambda scores: scores.softmax(1)`.

    >>> ensemble = Ensemble([first, second], transform=lambda scores: scores.softmax(1))
    >>> ensemble.predict(x).variance
    """

    def __init__(self, members: Iterable[Module], transform: Callable[[Tensor], Tensor] | None = None) -> None:
        super().__init__()
        self.members, self.transform = ModuleList(members), transform
        if not len(self.members):
            raise OptionError("Ensemble: expected at least one member")

    def forward(self, *inputs: Any) -> Tensor:
        return self._stacked(inputs).mean(0)

    def predict(self, *inputs: Any) -> EnsemblePrediction:
        """Mean, variance and the single predictions, without gradients and in evaluation mode."""
        with weft.no_grad(), evaluating(self):
            members = self._stacked(inputs)
        return EnsemblePrediction(members, members.mean(0), members.var(0, unbiased=False))

    def _stacked(self, inputs: tuple[Any, ...]) -> Tensor:
        outputs = [member(*inputs) for member in self.members]
        return weft.stack(outputs if self.transform is None else [self.transform(y) for y in outputs])  # (M, B, …)


def deep_ensemble(
    make: Callable[[int], Module],
    fit: Callable[[Module, int], Any],
    members: int = 5,
    *,
    transform: Callable[[Tensor], Tensor] | None = None,
) -> Ensemble:
    """Train `members` models alike: fit(make(m), m) for m = 0, 1, …; m is a seed for weights and order.

    What `make` gives is the member: a model, or a Task around one.
    """
    return Ensemble(_trained(make, fit, range(members)), transform)


def bagging(
    make: Callable[[int], Module],
    fit: Callable[[Module, BootstrapSampler], Any],
    rows: int,
    members: int = 10,
    *,
    seed: int = 0,
    transform: Callable[[Tensor], Tensor] | None = None,
) -> tuple[Ensemble, list[BootstrapSampler]]:
    """Train member m on bootstrap sample m of a set of `rows` examples: fit(make(m), sampler).

    The samplers come back too: their `out_of_bag` examples test a member on what it has not seen.
    """
    samplers = [BootstrapSampler(rows, seed=seed, member=number) for number in range(members)]
    return Ensemble(_trained(make, fit, samplers), transform), samplers


def _trained(make: Callable[[int], Module], fit: Callable[[Module, Any], Any], each: Iterable[Any]) -> list[Module]:
    models = []
    for number, given in enumerate(each):
        model = make(number)
        fit(model, given)
        models.append(model)
    return models


class BootstrapSampler(Sampler[int]):
    """n draws with replacement from n examples, made once; every epoch visits them in another order.

    A share (1 − 1/n)ⁿ → 1/e of the examples is in no draw: `out_of_bag`.

    >>> DataLoader(data, batch_size=32, sampler=BootstrapSampler(len(data), seed=0, member=3))
    """

    def __init__(
        self, rows: int, generator: Generator | None = None, *, seed: int | None = None, member: int = 0
    ) -> None:
        if rows < 1:
            raise OptionError(f"BootstrapSampler: expected rows ≥ 1, got {rows}")
        self.rows, self.seed, self.member = rows, draw_seed(seed, generator, "BootstrapSampler"), member

    def _stream(self) -> Generator:
        return Generator().manual_seed(self.seed).fold_in(self.member)

    @property
    def sample(self) -> NDArray[np.int64]:
        """The bootstrap sample: (n,), with repetitions."""
        return self._stream().integers(0, self.rows, self.rows)

    @property
    def out_of_bag(self) -> NDArray[np.int64]:
        """The examples that were not drawn, in order."""
        return np.setdiff1d(np.arange(self.rows), self.sample)

    def order(self, epoch: int) -> NDArray[np.int64]:
        return self.sample[self._stream().fold_in(1 + epoch).permutation(self.rows)]

    def __iter__(self) -> Iterator[int]:
        order = self.order(self.epoch)
        self.epoch += 1
        return iter(order.tolist())

    def __len__(self) -> int:
        return self.rows


# ------------------------------------------------------------------------------------------- formulas


def variance_of_mean(variance: float, correlation: float, members: int) -> float:
    """Var(1/M Σ f_m) = ρ σ² + (1 − ρ) σ² / M: what an ensemble can remove is the part that members do not share."""
    return correlation * variance + (1 - correlation) * variance / members


def ambiguity(members: Tensor, target: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """(f̄ − y)² = mean (f_m − y)² − mean (f_m − f̄)²: squared error of the mean, mean error, ambiguity.

    The ensemble is better than its members by what they disagree (Krogh and Vedelsby 1995). Shape: (M, …), (…) → (…) ×3
    """
    mean = members.mean(0)
    return (mean - target) ** 2, ((members - target) ** 2).mean(0), ((members - mean) ** 2).mean(0)


def gaussian_mixture(means: Tensor, variances: Tensor) -> tuple[Tensor, Tensor]:
    """Mean and variance of members that predict normal distributions: μ̄, mean(σ² + μ²) − μ̄². Shape: (M, …) → (…)."""
    mean = means.mean(0)
    return mean, variances.mean(0) + ((means - mean) ** 2).mean(0)


def out_of_bag_mean(predictions: NDArray, samplers: Sequence[BootstrapSampler]) -> NDArray:
    """For every example the mean over the members that have not seen it; NaN where all have.

    predictions (M, n, …), one row for each sampler → (n, …)
    """
    total, count = np.zeros(predictions.shape[1:]), np.zeros(predictions.shape[1])
    for row, sampler in zip(predictions, samplers, strict=True):
        total[sampler.out_of_bag] += row[sampler.out_of_bag]
        count[sampler.out_of_bag] += 1
    with np.errstate(invalid="ignore"):
        return total / count.reshape(-1, *[1] * (predictions.ndim - 2))


def _entropy(probabilities: Tensor) -> Tensor:
    """−Σ p log p over the last dimension, with 0 log 0 = 0."""
    return -weft.special.xlogy(probabilities, probabilities).sum(-1)
