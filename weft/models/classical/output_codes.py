"""Many classes by perceptrons with several outputs: every class has a code word of bits (N2 §2.4.3).

Which code matters: an output learns a bit only if a hyperplane separates the classes that have it from those that do not.
One output a class ("one-hot") may say none or several; 2^m classes in m bits ("binary") depend on who gets which word; words
that differ in many bits forgive some wrong ones (error-correcting output codes: Dietterich and Bakiri, 1995).
"""

from __future__ import annotations

import itertools

import numpy as np

import weft

from ... import nn
from ...errors import OptionError, ShapeError
from ...tensor import Tensor
from .perceptron import Perceptron, PerceptronHistory

__all__ = ["CodedPerceptron", "binary_code", "exhaustive_code", "least_distance", "one_hot_code"]


def one_hot_code(classes: int) -> Tensor:
    """Class c has a 1 at place c alone; two words differ in 2 bits. Shape: (K, K)"""
    return weft.eye(_at_least_two(classes), dtype=weft.int64)


def binary_code(classes: int) -> Tensor:
    """Class c is the number c in ⌈log₂ K⌉ bits, the highest first; two words may differ in one bit. Shape: (K, m)"""
    bits = max((_at_least_two(classes) - 1).bit_length(), 1)
    return weft.tensor([[c >> (bits - 1 - k) & 1 for k in range(bits)] for c in range(classes)])


def exhaustive_code(classes: int) -> Tensor:
    """Every way to part the classes in two: 2^(K−1) − 1 bits, two words differ in 2^(K−2) of them. (K, 2^(K−1) − 1)

    For 3 to 11 classes; ⌊(2^(K−2) − 1) / 2⌋ wrong bits are forgiven.
    """
    if not 3 <= classes <= 11:
        raise OptionError(f"exhaustive_code: expected 3 to 11 classes, got {classes}; more need too many outputs")
    columns = [(1, *rest) for rest in itertools.product((0, 1), repeat=classes - 1) if not all(rest)]
    return weft.tensor(np.array(columns).T)


def least_distance(code: Tensor) -> int:
    """d, the least number of bits in which two words differ; ⌊(d − 1) / 2⌋ wrong bits are forgiven. (K, m) → d"""
    words = code.numpy()
    apart = (words[:, None] != words[None]).sum(-1)
    return int(apart[~np.eye(len(words), dtype=bool)].min())


class CodedPerceptron(nn.Module):
    """A class by the nearest code word: argmin_c Σ_k [ŷ_k ≠ code_ck] over the outputs ŷ ∈ {0, 1}^m of a perceptron.

    Of words equally near, the one that the scores fit best, argmax_c Σ_k (2 code_ck − 1) s_k. code: (K, m) of 0 and 1, no
    word twice; `one_hot_code(K)` unless given. Shape: (N, in_features) → (N,) class numbers

    >>> corners, y = weft.tensor([[0.0, 0], [0, 1], [1, 0], [1, 1]]), weft.arange(4)
    >>> model = CodedPerceptron(2, 4, binary_code(4))
    >>> model.fit(corners, y).converged, model(corners).tolist()
    (True, [0, 1, 2, 3])
    """

    def __init__(self, in_features: int, classes: int, code: Tensor | None = None) -> None:
        super().__init__()
        code = one_hot_code(classes) if code is None else weft.as_tensor(code)
        self.register_buffer("code", _checked(code, classes))
        self.perceptron = Perceptron(in_features, code.shape[1])

    def forward(self, x: Tensor) -> Tensor:
        return self.decode(self.perceptron(x), self.perceptron.score(x))

    def fit(self, x: Tensor, y: Tensor, **options: float) -> PerceptronHistory:
        """Teach every output its bit of the class's word; options as in `Perceptron.fit`. y: (N,) of class numbers."""
        y = y.long()
        if y.ndim != 1 or len(y) != len(x):
            raise ShapeError(f"fit: expected a class for each of {len(x)} rows, got {tuple(y.shape)}")
        if len(y) and not (0 <= int(y.min()) and int(y.max()) < len(self.code)):
            raise OptionError(
                f"fit: expected classes from 0 to {len(self.code) - 1}, got {int(y.min())} … {int(y.max())}"
            )
        return self.perceptron.fit(x, self.code[y], **options)

    def decode(self, bits: Tensor, scores: Tensor | None = None) -> Tensor:
        """The classes of the nearest words. Shape: (N, m) of 0 and 1, (N, m) → (N,)"""
        wrong = (bits.unsqueeze(-2) != self.code).sum(-1)  # (N, K)
        if scores is None:
            return wrong.argmin(-1)
        fit = (scores @ (2 * self.code - 1).to(scores.dtype).mT).double()  # (N, K)
        return fit.masked_fill(wrong > wrong.amin(-1, keepdim=True), float("-inf")).argmax(-1)

    def undecided(self, x: Tensor) -> Tensor:
        """Where the outputs are no code word: none or several 1 of a one-hot code, say. Shape: (N, D) → (N,) of bool"""
        return (self.perceptron(x).unsqueeze(-2) != self.code).any(-1).all(-1)


def _at_least_two(classes: int) -> int:
    if classes < 2:
        raise OptionError(f"code: expected 2 classes or more, got {classes}")
    return classes


def _checked(code: Tensor, classes: int) -> Tensor:
    words = code.numpy()
    if words.ndim != 2 or len(words) != _at_least_two(classes) or not words.shape[1]:
        raise ShapeError(f"code: expected a word for each of {classes} classes, ({classes}, m), got {words.shape}")
    if not np.isin(words, (0, 1)).all() or len(np.unique(words, axis=0)) < classes:
        raise OptionError("code: expected words of 0 and 1, no word twice")
    return code.long()
