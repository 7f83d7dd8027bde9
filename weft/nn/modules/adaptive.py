"""Adaptive softmax: a short list of frequent classes in the head, rarer ones in clusters of smaller width."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Any, NamedTuple

import weft

from ...errors import InvalidValueError, ShapeError
from ...tape.interpreter import interpreter_of
from ...tensor import Tensor
from .. import functional as F
from ..container import ModuleList, Sequential
from ..functional._common import any_true
from ..module import Module
from .linear import Linear

__all__ = ["AdaptiveLogSoftmaxWithLoss"]


class _ASMoutput(NamedTuple):
    """The log probability of each target, and the mean loss."""

    output: Tensor
    loss: Tensor


class AdaptiveLogSoftmaxWithLoss(Module):
    """log p(t | x) = log softmax(head)_t for t < cutoffs[0], else log softmax(head)_cluster + log softmax(tail_c)_t.

    Classes are numbered by falling frequency; cluster c holds cutoffs[c] … cutoffs[c+1] − 1 (Grave et al. 2017; N2 §4.5).
    Shape: (N, in_features) or (in_features,), target (N,) or () → output as the target, loss ()

    in_features: the size of x
    n_classes: how many classes there are
    cutoffs: the first class of each cluster of rarer classes, rising
    div_value: cluster c sees x in in_features / div_value^(c+1) dimensions
    head_bias: whether the head has a bias

    >>> layer = nn.AdaptiveLogSoftmaxWithLoss(16, 1000, cutoffs=[10, 100])
    >>> layer(weft.randn(5, 16), weft.tensor([0, 5, 50, 500, 999])).output.shape
    weft.Size([5])
    """

    def __init__(
        self,
        in_features: int,
        n_classes: int,
        cutoffs: Sequence[int],
        div_value: float = 4.0,
        head_bias: bool = False,
        device: Any = None,
        dtype: Any = None,
    ) -> None:
        super().__init__()
        cutoffs = list(cutoffs)
        _check_cutoffs(cutoffs, n_classes)
        self.in_features, self.n_classes, self.div_value, self.head_bias = in_features, n_classes, div_value, head_bias
        self.cutoffs = [*cutoffs, n_classes]
        self.shortlist_size, self.n_clusters = cutoffs[0], len(cutoffs)
        self.head_size = self.shortlist_size + self.n_clusters
        options = {"device": device, "dtype": dtype}
        self.head = Linear(in_features, self.head_size, bias=head_bias, **options)
        self.tail = ModuleList()
        for number, (start, stop) in enumerate(pairwise(self.cutoffs)):
            width = int(in_features // (div_value ** (number + 1)))
            down, up = (
                Linear(in_features, width, bias=False, **options),
                Linear(width, stop - start, bias=False, **options),
            )
            self.tail.append(Sequential(down, up))

    def reset_parameters(self) -> None:
        self.head.reset_parameters()
        for down, up in self.tail:  # pyright: ignore[reportGeneralTypeIssues]
            down.reset_parameters()
            up.reset_parameters()

    def forward(self, input_: Tensor, target_: Tensor) -> _ASMoutput:
        _check_pair(input_, target_, self.n_classes)
        single = target_.ndim == 0
        x, target = (input_.unsqueeze(0), target_.unsqueeze(0)) if single else (input_, target_)
        if interpreter_of(target) is not None:  # which rows a cluster gets is not known: every one, then
            output = self.log_prob(x).gather(1, target.unsqueeze(1)).squeeze(1)
            return _ASMoutput(output.squeeze(0) if single else output, -output.mean())
        head = F.log_softmax(self.head(x), 1)  # (N, shortlist + clusters)
        place = target
        extra = weft.zeros(x.shape[0], dtype=x.dtype)
        for number, (start, stop) in enumerate(pairwise(self.cutoffs)):
            rows = ((target >= start) & (target < stop)).nonzero().squeeze(1)
            if rows.numel() == 0:
                continue
            within = F.log_softmax(self.tail[number](x.index_select(0, rows)), 1)  # (n, size of the cluster)
            chosen = within.gather(1, (target.index_select(0, rows) - start).unsqueeze(1)).squeeze(1)
            extra = extra.index_add(0, rows, chosen)
            place = place.index_fill(0, rows, self.shortlist_size + number)
        output = head.gather(1, place.unsqueeze(1)).squeeze(1) + extra
        return _ASMoutput(output.squeeze(0) if single else output, -output.mean())

    def log_prob(self, input: Tensor) -> Tensor:
        """Log probabilities of all classes. Shape: (N, in_features) → (N, n_classes)."""
        head = F.log_softmax(self.head(input), 1)
        parts = [head[:, : self.shortlist_size]]
        for number, cluster in enumerate(self.tail):
            place = self.shortlist_size + number
            parts.append(F.log_softmax(cluster(input), 1) + head[:, place : place + 1])
        return weft.cat(parts, 1)

    def predict(self, input: Tensor) -> Tensor:
        """The most probable class. Shape: (N, in_features) → (N,)."""
        return self.log_prob(input).argmax(1)


def _check_cutoffs(cutoffs: list[Any], n_classes: int) -> None:
    if not cutoffs:
        raise InvalidValueError("cutoffs should be a sequence of length larger than 0")
    increasing = all(a < b for a, b in pairwise(cutoffs))
    whole = all(int(c) == c for c in cutoffs)
    if not (increasing and whole and min(cutoffs) > 0 and max(cutoffs) <= n_classes - 1):
        raise InvalidValueError(
            "cutoffs should be a sequence of unique, positive integers sorted in an increasing order, where each value "
            f"is between 1 and n_classes-1, got {cutoffs} with n_classes={n_classes}"
        )


def _check_pair(input: Tensor, target: Tensor, n_classes: int) -> None:
    if target.ndim == 1:
        if input.shape[0] != target.shape[0]:
            raise ShapeError(
                f"Input and target should have the same size in the batch dimension, got {tuple(input.shape)} and "
                f"{tuple(target.shape)}"
            )
        if input.ndim != 2:
            raise ShapeError(
                f"1D target tensor expects 2D input tensors, but found inputs with size {tuple(input.shape)}"
            )
    elif target.ndim == 0:
        if input.ndim != 1:
            raise ShapeError(
                f"0D target tensor expects 1D input tensors, but found inputs with size {tuple(input.shape)}"
            )
    else:
        raise ShapeError(f"0D or 1D target tensor expected, multi-target not supported, got {tuple(target.shape)}")
    if any_true((target < 0) | (target >= n_classes)):
        raise ShapeError(
            f"Target values should be in [0, {n_classes - 1}], but values in range [{int(target.min())}, "
            f"{int(target.max())}] were found."
        )
