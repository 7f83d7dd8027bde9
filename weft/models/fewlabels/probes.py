"""What an encoder's features are good for, without moving the encoder: a linear layer or nearest neighbours on top.

A "linear probe" whose encoder goes on learning, or whose batch normalisation goes on counting, measures something else. So
features are computed in evaluation mode and without gradients, and all parameters and buffers are compared bit by bit after it.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import minimize

import weft

from ... import nn
from ...errors import OptionError, ShapeError, StateError
from ...tape.modes import no_grad
from ...tensor import Tensor, wrap

__all__ = ["KNNProbe", "LinearProbe", "features", "frozen", "knn_probe", "linear_probe"]

F = nn.functional


@contextlib.contextmanager
def frozen(module: nn.Module) -> Iterator[nn.Module]:
    """The module in evaluation mode and without gradients, for the time of a `with`; StateError if anything in it moved.

    Every part gets the mode back that it had.

    >>> layer = nn.BatchNorm1d(2)
    >>> with frozen(layer):
    ...     _ = layer(weft.ones(3, 2))
    >>> layer.training, layer.num_batches_tracked.item()
    (True, 0)
    """
    before, modes = _bits(module), [(part, part.training) for part in module.modules()]
    module.eval()
    try:
        with no_grad():
            yield module
    finally:
        for part, mode in modes:
            part.training = mode
    after = _bits(module)
    moved = sorted(name for name in before.keys() | after.keys() if before.get(name) != after.get(name))
    if moved:
        raise StateError(
            f"frozen: {', '.join(moved[:5])}{' …' if len(moved) > 5 else ''} changed, so this encoder was not frozen; "
            "its forward pass must not write to parameters or buffers in evaluation mode"
        )


def _bits(module: nn.Module) -> dict[str, tuple[str, bytes]]:
    """Every parameter and buffer, those that are not saved included."""
    held = (*module.named_parameters(), *module.named_buffers())
    return {
        name: (str(x.dtype) + str(tuple(x.shape)), np.ascontiguousarray(x.detach().array).tobytes()) for name, x in held
    }


def features(encoder: Callable[[Tensor], Tensor], x: Tensor, batch_size: int = 500) -> Tensor:
    """f(x), piece by piece, from a frozen encoder: (N, *event) → (N, D).

    encoder: a module, or a method of one such as `model.embed`
    batch_size: examples at a time; a step of that size is compiled if there are several
    """
    module = encoder if isinstance(encoder, nn.Module) else getattr(encoder, "__self__", None)
    if not isinstance(module, nn.Module):
        raise OptionError(
            f"features: expected a module or a method of one, so that it can be frozen, got {encoder!r:.80}"
        )
    if not len(x) or batch_size < 1:
        raise ShapeError(
            f"features: expected examples (N, *event), N ≥ 1, and batch_size ≥ 1, got {tuple(x.shape)}, {batch_size}"
        )
    whole = len(x) // batch_size * batch_size
    with frozen(module):
        f = weft.compile(encoder) if whole > 2 * batch_size else encoder
        parts = [f(x[start : start + batch_size]) for start in range(0, whole, batch_size)]
        parts += [encoder(x[whole:])] if whole < len(x) else []
        found = weft.cat(parts)
    if found.ndim != 2 or len(found) != len(x):
        raise ShapeError(
            f"features: expected (N, D) of {len(x)} examples, the encoder gave {tuple(found.shape)}; flatten or pool"
        )
    return found


# ------------------------------------------------------------------------------------------- linear


class LinearProbe:
    """p(class | x) = softmax(W ẑ + b), ẑ the standardised features of a frozen encoder; made by `linear_probe`.

    mean, scale: of the features that it learned from (D,); weight (classes, D), bias (classes,)
    """

    def __init__(self, encoder: Callable[[Tensor], Tensor], batch_size: int, parts: tuple[NDArray, ...]) -> None:
        self.encoder, self.batch_size = encoder, batch_size
        self.mean, self.scale, self.weight, self.bias = (wrap(part) for part in parts)

    def scores(self, x: Tensor) -> Tensor:
        """Logits of the classes: (N, *event) → (N, classes) float64"""
        z = (features(self.encoder, x, self.batch_size).double() - self.mean) / self.scale
        return z @ self.weight.mT + self.bias

    def predict(self, x: Tensor) -> Tensor:
        """The likeliest class: (N, *event) → (N,)"""
        return self.scores(x).argmax(1)

    def accuracy(self, x: Tensor, y: Tensor) -> float:
        """The share of labels that are predicted."""
        return (self.predict(x) == y).double().mean().item()


def linear_probe(
    encoder: Callable[[Tensor], Tensor],
    x: Tensor,
    y: Tensor,
    *,
    ridge: float = 1.0,
    classes: int | None = None,
    batch_size: int = 500,
) -> LinearProbe:
    """The minimum of Σᵢ −log p(yᵢ | xᵢ) + ½ ridge ‖W‖² over W and b, the encoder standing still (see `frozen`).

    Features are standardised by their mean and deviation over x; one that is constant there is left out. The problem is
    convex, and L-BFGS in float64 goes to its end: nothing is left to a learning rate.
    encoder: a module, or a method of one; `nn.Identity()` for features that were computed before
    classes: how many there are; max(y) + 1 unless given
    Shape: x (N, *event), y (N,) int64

    >>> x = weft.tensor([[0.0, 5.0], [1.0, 5.0], [2.0, 5.0], [3.0, 5.0]])
    >>> linear_probe(nn.Identity(), x, weft.tensor([0, 0, 1, 1])).predict(x).tolist()
    [0, 0, 1, 1]
    """
    labels = _labels("linear_probe", x, y)
    count = int(labels.max()) + 1 if classes is None else classes
    if ridge <= 0 or labels.max() >= count:
        raise OptionError(f"linear_probe: expected ridge > 0 and labels below {count}, got {ridge} and {labels.max()}")
    z = features(encoder, x, batch_size).array.astype(np.float64)
    mean, deviation = z.mean(0), z.std(0)
    scale = np.where(deviation > 1e-6 * np.abs(z).max(initial=1e-30), deviation, np.inf)
    weight, bias = _softmax_regression((z - mean) / scale, np.eye(count)[labels], ridge)
    return LinearProbe(encoder, batch_size, (mean, scale, weight, bias))


def _softmax_regression(z: NDArray, onehot: NDArray, ridge: float) -> tuple[NDArray, NDArray]:
    rows = np.concatenate([z, np.ones((len(z), 1))], 1)  # (N, D + 1)
    decay = np.full(rows.shape[1], ridge)
    decay[-1] = 0.0

    def value(flat: NDArray) -> tuple[float, NDArray]:
        theta = flat.reshape(onehot.shape[1], -1)  # (C, D + 1)
        scores = rows @ theta.T
        scores -= scores.max(1, keepdims=True)
        chances = np.exp(scores)
        total = chances.sum(1, keepdims=True)
        lost = (np.log(total[:, 0]) - (scores * onehot).sum(1)).sum()
        slope = (chances / total - onehot).T @ rows + decay * theta
        return lost + (decay * theta**2).sum() / 2, slope.reshape(-1)

    start = np.zeros(onehot.shape[1] * rows.shape[1])
    found = minimize(value, start, jac=True, method="L-BFGS-B", options={"maxiter": 2000, "ftol": 1e-13, "gtol": 1e-7})
    theta = found.x.reshape(onehot.shape[1], -1)
    return theta[:, :-1], theta[:, -1]


# ------------------------------------------------------------------------------------------- neighbours


class KNNProbe:
    """The classes of the nearest training examples, by the cosine of features of a frozen encoder; made by `knn_probe`."""

    def __init__(
        self,
        encoder: Callable[[Tensor], Tensor],
        bank: Tensor,
        onehot: Tensor,
        k: int,
        temperature: float | None,
        batch: int,
    ) -> None:
        self.encoder, self.bank, self.onehot = encoder, bank, onehot
        self.k, self.temperature, self.batch_size = k, temperature, batch

    def scores(self, x: Tensor) -> Tensor:
        """Votes for the classes: (N, *event) → (N, classes)"""
        z = F.normalize(features(self.encoder, x, self.batch_size), dim=-1)
        rows = []
        with no_grad():
            for part in z.split(self.batch_size):
                near, which = (part @ self.bank.mT).topk(self.k, dim=1)  # (n, k)
                weight = weft.ones_like(near) if self.temperature is None else (near / self.temperature).exp()
                rows.append((self.onehot[which] * weight.unsqueeze(-1)).sum(1))  # (n, k, classes) → (n, classes)
        return weft.cat(rows)

    def predict(self, x: Tensor) -> Tensor:
        """The class with most votes: (N, *event) → (N,)"""
        return self.scores(x).argmax(1)

    def accuracy(self, x: Tensor, y: Tensor) -> float:
        """The share of labels that are predicted."""
        return (self.predict(x) == y).double().mean().item()


def knn_probe(
    encoder: Callable[[Tensor], Tensor],
    x: Tensor,
    y: Tensor,
    *,
    k: int = 20,
    temperature: float | None = 0.1,
    classes: int | None = None,
    batch_size: int = 500,
) -> KNNProbe:
    """k nearest neighbours vote with weights exp(cos / τ), the encoder standing still (Wu et al. 2018). Nothing is learned.

    k: neighbours, at most N; temperature: τ; None lets all of them count alike
    Other arguments are those of `linear_probe`.

    >>> x = weft.tensor([[1.0, 0.0], [1.0, 0.1], [0.0, 1.0]])
    >>> knn_probe(nn.Identity(), x, weft.tensor([0, 0, 1]), k=1).predict(weft.tensor([[0.1, 2.0]])).tolist()
    [1]
    """
    labels = _labels("knn_probe", x, y)
    count = int(labels.max()) + 1 if classes is None else classes
    if not 1 <= k <= len(labels) or labels.max() >= count or (temperature is not None and temperature <= 0):
        raise OptionError(
            f"knn_probe: expected 1 ≤ k ≤ {len(labels)}, labels below {count} and temperature > 0, got {k}, {labels.max()}, {temperature}"
        )
    bank = F.normalize(features(encoder, x, batch_size), dim=-1)
    return KNNProbe(encoder, bank, wrap(np.eye(count, dtype=np.float32)[labels]), k, temperature, batch_size)


def _labels(name: str, x: Tensor, y: Tensor) -> NDArray:
    labels = np.asarray(y.array if isinstance(y, Tensor) else y)
    if labels.shape != (len(x),) or labels.dtype.kind not in "iu" or not labels.size or labels.min() < 0:
        raise ShapeError(
            f"{name}: expected a class 0, 1, … for each of {len(x)} examples, got {labels.dtype} of shape {labels.shape}"
        )
    return labels
