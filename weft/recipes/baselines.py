"""Strong simple methods that recipes are compared with: closed forms and counts, done in seconds.

Each is fitted to the training data of the recipe, and what has to be chosen is chosen on its validation data.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.sparse.linalg import svds

import weft

from ..models.classical.polynomial import random_relu
from ..tensor import Tensor
from .base import Splits

__all__ = [
    "FEATURES_BASELINE",
    "PIXELS_BASELINE",
    "SeasonAndLag",
    "features_accuracy",
    "grown",
    "line_nll",
    "naive_bayes_accuracy",
    "neighbour_counts",
    "pixels_accuracy",
    "ppmi",
    "svd_vectors",
]

Array = NDArray[np.float64]
STRENGTHS = (1e-4, 1e-3, 1e-2, 1e-1, 1.0)  # of ridge regression, as shares of the mean eigenvalue
FEATURES = 1000
PIXELS_BASELINE = "ridge regression on the pixels"
FEATURES_BASELINE = f"ridge regression on {FEATURES:,} random features"


# ------------------------------------------------------------------------------------------- classes of images


def pixels_accuracy(splits: Splits) -> float:
    """Test accuracy of ridge regression on the pixels: x → argmax_k w_k·x + b_k."""
    return _ridge_accuracy(splits, lambda x: x.reshape(len(x), -1))


def features_accuracy(splits: Splits, seed: int = 0, features: int = FEATURES) -> float:
    """Test accuracy of ridge regression on random features of the pixels, max(0, v·x + v₀) with fixed normal v."""
    train = _arrays(splits.train)[0]
    mean, spread = train.mean(), max(float(train.std()) * math.sqrt(train[0].size), 1e-12)

    def made(x: NDArray) -> NDArray:
        rows = (x.reshape(len(x), -1) - mean) / spread  # of length near 1, as the constant beside them
        return random_relu(weft.tensor(rows), features, seed).numpy()

    return _ridge_accuracy(splits, made)


def _ridge_accuracy(splits: Splits, features: Callable[[NDArray], NDArray]) -> float:
    """The strength of the ridge is the one with the best accuracy on the validation data."""
    (x, y), (x_held, y_held), (x_test, y_test) = _three(splits)
    fits = ridge(features(x), np.eye(int(y.max()) + 1)[y], STRENGTHS)
    held = features(x_held)
    best = max(fits, key=lambda fit: _accuracy(held, y_held, fit))
    return _accuracy(features(x_test), y_test, best)


def ridge(x: NDArray, y: NDArray, strengths: tuple[float, ...]) -> list[tuple[Array, Array]]:
    """W, b that minimise |x W + b − y|² + λ |W|², λ = strength · the mean squared singular value of x − mean.

    Shape: (N, D), (N, K) → (D, K), (K,) for each strength
    """
    middle, target = x.mean(0, dtype=np.float64), y.mean(0)
    solve = _by_rows if len(x) < x.shape[1] else _by_columns
    return [(weights, target - middle @ weights) for weights in solve(x, y - target, middle, strengths)]


def _by_columns(x: NDArray, y: Array, middle: Array, strengths: tuple[float, ...]) -> list[Array]:
    """(XᵀX + λ I)⁻¹ Xᵀ y with X = x − middle."""
    inner = (x.T @ x).astype(np.float64) - len(x) * np.outer(middle, middle)  # (D, D)
    outer = x.T.astype(np.float64) @ y  # (D, K); y has mean 0
    return [np.linalg.solve(inner + ridge, outer) for ridge in _ridges(inner, len(inner), strengths)]


def _by_rows(x: NDArray, y: Array, middle: Array, strengths: tuple[float, ...]) -> list[Array]:
    """The same as Xᵀ (X Xᵀ + λ I)⁻¹ y, where there are fewer rows than columns."""
    centred = x - middle
    inner = centred @ centred.T  # (N, N)
    return [centred.T @ np.linalg.solve(inner + ridge, y) for ridge in _ridges(inner, x.shape[1], strengths)]


def _ridges(inner: Array, columns: int, strengths: tuple[float, ...]) -> list[Array]:
    mean = inner.trace() / columns
    return [(strength * mean + 1e-12) * np.eye(len(inner)) for strength in strengths]


def _accuracy(x: NDArray, y: NDArray, fit: tuple[Array, Array]) -> float:
    weights, offset = fit
    return float(((x @ weights + offset).argmax(1) == y).mean())


def _three(splits: Splits) -> list[tuple[NDArray, NDArray]]:
    """Arrays of the three parts; without validation data a fifth of the training data stands for them."""
    train, test = _arrays(splits.train), _arrays(splits.test)
    if splits.validation is not None:
        return [train, _arrays(splits.validation), test]
    border = len(train[1]) // 5
    return [tuple(part[border:] for part in train), tuple(part[:border] for part in train), test]


def _arrays(loader: weft.data.DataLoader) -> tuple[NDArray, NDArray]:
    return tuple(part.numpy() for part in loader.dataset.tensors)


# ------------------------------------------------------------------------------------------- numbers


def line_nll(splits: Splits) -> float:
    """Mean −ln p of the test targets under N(w·x + b, σ²), fitted by maximum likelihood; NaN in x counts as the mean."""
    (x, y), (x_test, y_test) = _arrays(splits.train), _arrays(splits.test)
    mean, std = np.nanmean(x, 0), np.nanstd(x, 0).clip(1e-6)
    rows, others = (_with_one(np.nan_to_num((part - mean) / std)) for part in (x, x_test))
    weights = np.linalg.lstsq(rows, y.astype(np.float64), rcond=None)[0]
    variance = ((rows @ weights - y) ** 2).mean()
    return float(((others @ weights - y_test) ** 2).mean() / (2 * variance) + math.log(2 * math.pi * variance) / 2)


# ------------------------------------------------------------------------------------------- series


def grown(past: Tensor) -> Tensor:
    """Last year × growth: each month of the last twelve, times their sum over that of the twelve before.

    Shape: (B, 24) → (B, 12)
    """
    last = past[:, -12:]
    return last * (last.sum(1, keepdim=True) / past[:, -24:-12].sum(1, keepdim=True))


class SeasonAndLag:
    """z_t = s_t + φ (z_{t−1} − s_{t−1}) + σ ε_t with the season s = x·w: sines and cosines by least squares, then AR(1).

    Fitted to one long series: z (N,), x (N, D).
    """

    def __init__(self, z: NDArray, x: NDArray) -> None:
        self.weights = np.linalg.lstsq(_with_one(x), z.astype(np.float64), rcond=None)[0]
        rest = z - self.season(x)
        self.phi = float(rest[1:] @ rest[:-1] / (rest[:-1] @ rest[:-1]))
        self.sigma = float(np.sqrt(((rest[1:] - self.phi * rest[:-1]) ** 2).mean()))

    def season(self, x: NDArray) -> Array:
        """The mean of each day. Shape: (*, D) → (*)"""
        return _with_one(x) @ self.weights

    def nll(self, z: NDArray, x: NDArray, past: int) -> float:
        """Mean −ln p of the days after the first `past`, each given the one before it. Shape: (B, T), (B, T, D)"""
        rest = z - self.season(x)
        error = (rest[:, past:] - self.phi * rest[:, past - 1 : -1]) / self.sigma
        return float((error**2 / 2).mean() + math.log(self.sigma) + math.log(2 * math.pi) / 2)

    def ahead(self, z: NDArray, x: NDArray, past: int) -> tuple[Array, Array]:
        """Mean and standard deviation of every day after `past`, told at once. Shape: (B, T), (B, T, D) → (B, H), (H,)

        E z_{t+h} = s_{t+h} + φʰ (z_t − s_t),  Var = σ² (1 − φ²ʰ) / (1 − φ²)
        """
        season = self.season(x)
        steps = np.arange(1, z.shape[1] - past + 1)
        mean = season[:, past:] + self.phi**steps * (z[:, past - 1, None] - season[:, past - 1, None])
        return mean, self.sigma * np.sqrt((1 - self.phi ** (2 * steps)) / (1 - self.phi**2))


def _with_one(x: NDArray) -> Array:
    return np.concatenate([np.ones((*x.shape[:-1], 1)), x], -1)


# ------------------------------------------------------------------------------------------- words


def ppmi(tokens: NDArray, size: int, window: int, power: float = 0.75) -> Array:
    """max(0, ln P(a, b) / (P(a) P(b)^power)) of words within a window. Shape: (N,) → (V, V)

    The power smooths the contexts (Levy, Goldberg, Dagan 2015).
    """
    counts = neighbour_counts(tokens, size, window)
    contexts = counts.sum(0) ** power
    expected = np.outer(counts.sum(1), contexts / max(contexts.sum(), 1e-12))
    with np.errstate(divide="ignore", invalid="ignore"):
        found = np.log(counts / expected)
    return np.where(counts > 0, found, 0).clip(0)


def neighbour_counts(tokens: NDArray, size: int, window: int) -> Array:
    """How often each word is near each other one; at distance d it counts (window + 1 − d) / window. Shape: → (V, V)"""
    counts = np.zeros((size, size))
    for distance in range(1, window + 1):
        pairs = np.bincount(tokens[:-distance] * size + tokens[distance:], minlength=size**2).reshape(size, size)
        counts += (window + 1 - distance) / window * (pairs + pairs.T)
    return counts


def svd_vectors(matrix: Array, dim: int) -> Array:
    """U √Σ of the leading singular vectors. Shape: (V, V) → (V, dim)"""
    if dim >= len(matrix) // 2 or not matrix.any():
        basis, values, _ = np.linalg.svd(matrix)
        return basis[:, :dim] * np.sqrt(values[:dim])
    basis, values, _ = svds(matrix, dim, v0=np.ones(len(matrix)))
    return basis[:, ::-1] * np.sqrt(values[::-1])


Labelled = list[tuple[list[int], int]]  # words of a sentence, and 0 or 1


def naive_bayes_accuracy(train: Labelled, held: Labelled, test: Labelled, size: int) -> float:
    """Test accuracy of multinomial naive Bayes, each word of a sentence counted once; smoothing by the held sentences."""
    counts, classes = np.zeros((2, size)), np.zeros(2)
    for words, label in train:
        counts[int(label), sorted(set(words))] += 1
        classes[int(label)] += 1
    fits = [_log_odds(counts + amount, classes) for amount in (0.1, 0.5, 1.0, 2.0)]
    best = max(fits, key=lambda fit: _sentence_accuracy(held, *fit))
    return _sentence_accuracy(test, *best)


def _log_odds(counts: Array, classes: Array) -> tuple[Array, float]:
    """ln P(word | 1) / P(word | 0) of each word, and of the classes themselves."""
    odds = np.log(counts / counts.sum(1, keepdims=True))
    return odds[1] - odds[0], float(np.log(max(classes[1], 1e-12)) - np.log(max(classes[0], 1e-12)))


def _sentence_accuracy(rows: Labelled, odds: Array, prior: float) -> float:
    return float(np.mean([(odds[sorted(set(words))].sum() + prior > 0) == label for words, label in rows]))


Sentence = list[str]


def dictionary(source: list[Sentence], target: list[Sentence], sweeps: int = 5) -> dict[str, str]:
    """The likeliest translation of each word by IBM's model 1: argmax_e t(e | f) (Brown et al. 1993).

    Every word e of a target comes from a word f of its source, or from none: t(e | f) ∝ Σ t(e | f) / Σ_f' t(e | f') over
    all sentences, repeated.
    """
    words, others = _numbered([["", *s] for s in source]), _numbered(target)
    pairs, places = _aligned(words.rows, others.rows, len(others.names))
    known, which = np.unique(pairs, return_inverse=True)
    of = known // len(others.names)  # the source word of each pair that occurs
    chance = np.ones(len(known))
    for _ in range(sweeps):
        found = chance[which]
        chance = np.bincount(which, found / np.bincount(places, found)[places])
        chance /= np.bincount(of, chance)[of]
    order = np.lexsort((-chance, of))
    first = order[np.unique(of[order], return_index=True)[1]]
    return {words.names[k // len(others.names)]: others.names[k % len(others.names)] for k in known[first]}


@dataclass
class _Numbered:
    """Sentences as numbers of words, and the words."""

    rows: list[NDArray]
    names: list[str]


def _numbered(sentences: list[Sentence]) -> _Numbered:
    numbers: dict[str, int] = {}
    rows = [np.array([numbers.setdefault(word, len(numbers)) for word in row], np.int64) for row in sentences]
    return _Numbered(rows, list(numbers))


def _aligned(source: list[NDArray], target: list[NDArray], size: int) -> tuple[NDArray, NDArray]:
    """Every pair (f, e) within a sentence as f · size + e, and which word of all the targets it is for."""
    pairs = [(f[None] * size + e[:, None]).reshape(-1) for f, e in zip(source, target, strict=True)]
    repeats = np.concatenate([np.full(len(e), len(f)) for f, e in zip(source, target, strict=True)])
    return np.concatenate(pairs), np.repeat(np.arange(len(repeats)), repeats)
