"""The perceptron and its learning rule, with the margin that bounds the number of mistakes (N1 §1.1, N2 §2.4.2)."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

import weft

from ... import nn
from ...errors import OptionError, ShapeError
from ...tensor import Tensor

__all__ = ["Perceptron", "PerceptronHistory", "margin", "mistake_bound"]


@dataclass
class PerceptronHistory:
    """What `Perceptron.fit` did: corrections made in each pass over the data; `converged` if the last made none."""

    mistakes: list[int] = field(default_factory=list)

    @property
    def total(self) -> int:
        return sum(self.mistakes)

    @property
    def converged(self) -> bool:
        return bool(self.mistakes) and self.mistakes[-1] == 0


class Perceptron(nn.Module):
    """ŷ = 1 if ⟨w, x⟩ + b ≥ 0, else 0, for each of `out_features` binary outputs.

    The learning rule passes over the examples in their order. With signs s = 2y − 1, an example on the wrong side of
    the hyperplane, or not further than `margin` from it, s (⟨w, x⟩ + b) ≤ margin, corrects

        w ← w + lr · s x,   b ← b + lr · s.

    From w = 0 and for margin 0, separable data are separated after at most R² / γ² corrections (Novikoff 1962;
    `mistake_bound`); data that no hyperplane separates (XOR) keep it correcting for ever.
    Shape: (N, in_features) → (N, out_features); weight (out_features, in_features), bias (out_features,), both 0.

    >>> x, y = weft.tensor([[0.0, 0], [0, 1], [1, 0], [1, 1]]), weft.tensor([0, 0, 0, 1])
    >>> model = Perceptron(2)
    >>> model.fit(x, y).converged, model(x)[:, 0].tolist()
    (True, [0.0, 0.0, 0.0, 1.0])
    """

    def __init__(self, in_features: int, out_features: int = 1) -> None:
        super().__init__()
        self.in_features, self.out_features = in_features, out_features
        self.weight = nn.Parameter(weft.zeros(out_features, in_features))
        self.bias = nn.Parameter(weft.zeros(out_features))

    def score(self, x: Tensor) -> Tensor:
        """⟨w, x⟩ + b: the sign tells the side, the size the distance times ‖w‖."""
        return nn.functional.linear(x, self.weight, self.bias)

    def forward(self, x: Tensor) -> Tensor:
        return (self.score(x) >= 0).to(self.weight.dtype)

    def fit(
        self, x: Tensor, y: Tensor, *, max_epochs: int = 1000, lr: float = 1.0, margin: float = 0.0
    ) -> PerceptronHistory:
        """Apply the rule until a pass makes no correction, or `max_epochs` passes. y: 0 or 1, (N,) or (N, outputs)."""
        rows, signs = _extended(x), _signs(y, self.out_features)  # (N, D + 1), (N, M)
        weights = np.column_stack([self.weight.numpy(force=True), self.bias.numpy(force=True)]).astype(np.float64)
        history = PerceptronHistory()
        for _ in range(max_epochs):
            history.mistakes.append(_pass(weights, rows, signs, lr, margin))
            if history.converged:
                break
        with weft.no_grad():
            self.weight.copy_(weft.tensor(weights[:, :-1]))
            self.bias.copy_(weft.tensor(weights[:, -1]))
        return history

    def extra_repr(self) -> str:
        return f"in_features={self.in_features}, out_features={self.out_features}"


def margin(weight: Tensor, bias: Tensor, x: Tensor, y: Tensor) -> float:
    """γ = minᵢ sᵢ (⟨w, xᵢ⟩ + b) / ‖(w, b)‖, the least distance of the points (x, 1) to a hyperplane through 0.

    Negative if a point lies on the wrong side. weight (D,) or (1, D); bias one number; y (N,) of 0 and 1.
    """
    vector = np.append(np.asarray(weight.numpy(force=True), np.float64).ravel(), bias.numpy(force=True))
    scores = _extended(x) @ vector
    return float((_signs(y, 1)[:, 0] * scores).min() / np.linalg.norm(vector))


def mistake_bound(weight: Tensor, bias: Tensor, x: Tensor, y: Tensor) -> float:
    """R² / γ² with R = maxᵢ ‖(xᵢ, 1)‖ and γ the `margin` of a separating hyperplane (w, b).

    The rule, started at 0, makes no more corrections than that, whatever the order of the examples and `lr`. Proof:
    each correction lets ⟨v, u⟩ grow by at least γ (u the unit vector of the separator) and ‖v‖² by at most R², so after
    k of them k γ ≤ ⟨v, u⟩ ≤ ‖v‖ ≤ √k R. The separator with the largest margin gives the best bound.
    """
    gamma = margin(weight, bias, x, y)
    if gamma <= 0:
        raise OptionError(f"mistake_bound: expected a hyperplane that separates the data, got margin {gamma:.3g} ≤ 0")
    return float((_extended(x) ** 2).sum(1).max() / gamma**2)


def _pass(weights: NDArray, rows: NDArray, signs: NDArray, lr: float, margin: float) -> int:
    """One pass over the examples that corrects `weights` (M, D + 1) in place: the number of corrections."""
    corrections = 0
    for row, sign in zip(rows, signs, strict=True):
        wrong = sign * (weights @ row) <= margin  # (M,)
        if wrong.any():
            weights += lr * np.outer(wrong * sign, row)
            corrections += int(wrong.sum())
    return corrections


def _extended(x: Tensor) -> NDArray[np.float64]:
    """(N, D) → (N, D + 1): a column of ones takes the bias in."""
    rows = np.asarray(x.numpy(force=True), np.float64)
    if rows.ndim != 2:
        raise ShapeError(f"perceptron: expected x of shape (N, D), got {tuple(rows.shape)}")
    return np.column_stack([rows, np.ones(len(rows))])


def _signs(y: Tensor, outputs: int) -> NDArray[np.float64]:
    """0 and 1 as −1 and +1, (N, outputs)."""
    labels = np.asarray(y.numpy(force=True), np.float64).reshape(-1, outputs)
    if not np.isin(labels, (0, 1)).all():
        raise OptionError(f"perceptron: expected targets 0 and 1, got {np.unique(labels)[:5].tolist()}")
    return 2 * labels - 1
