"""Attention taken apart: how well a key answers a query (scores), what becomes of the scores (weights), their sum.

c = Σᵢ αᵢ vᵢ with e = a(q, k), α = weighting(e) (N2 §5.5.2, N1 §12.1). PyTorch has the scaled dot product with softmax
only. Masks are boolean and say which pairs take part, as in `scaled_dot_product_attention`.
Shapes: queries (*, L, Q), keys (*, S, K), values (*, S, V); scores and weights (*, L, S); contexts (*, L, V).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import weft

from ...errors import OptionError, ShapeError, UnsupportedError
from ...tensor import Tensor
from .. import functional as F
from .. import init
from ..module import Module
from ..parameter import Parameter

__all__ = [
    "AdditiveScore",
    "Attention",
    "CosineScore",
    "DotScore",
    "GeneralScore",
    "NadarayaWatson",
    "ReducedRankScore",
    "ScaledDotScore",
    "Score",
    "hard_weights",
    "length_mask",
    "linear_weights",
    "masked_softmax",
    "nadaraya_watson",
    "nadaraya_watson_classify",
    "sampled_weights",
    "soft_weights",
]

Weighting = Callable[[Tensor, Tensor | None], Tensor]


class Attention(Module):
    """c = Σᵢ αᵢ vᵢ, α = weighting(score(q, k)): attention as an associative memory (N2 §5.5.2, N4 §11).

    In the call, `mask` broadcasts to (*, L, S); `lengths` are the numbers of keys in use, (B,) or (B, L); `prepared` is
    score.prepare(key), for those who come with the same keys again and again.
    Returns contexts and weights. Shape: (*, L, Q), (*, S, K), (*, S, V) → (*, L, V), (*, L, S)

    score: a module such as `AdditiveScore`; `ScaledDotScore` by default
    weighting: `soft_weights` (softmax, the default), `hard_weights` (largest score), `sampled_weights` (one key drawn) or
      `linear_weights` (the scores themselves)
    dropout: the probability of dropping a weight in training

    >>> contexts, weights = nn.Attention()(weft.randn(2, 3, 8), weft.randn(2, 5, 8), weft.randn(2, 5, 4))
    >>> contexts.shape, weights.shape
    (weft.Size([2, 3, 4]), weft.Size([2, 3, 5]))
    """

    random_in_training = True

    def __init__(self, score: Module | None = None, weighting: Weighting | None = None, dropout: float = 0.0) -> None:
        super().__init__()
        self.score = ScaledDotScore() if score is None else score
        self.weighting = soft_weights if weighting is None else weighting
        self.dropout = dropout

    def forward(
        self,
        query: Tensor,
        key: Tensor,
        value: Tensor,
        mask: Tensor | None = None,
        lengths: Tensor | None = None,
        *,
        prepared: Tensor | None = None,
    ) -> tuple[Tensor, Tensor]:
        scores = self.score(query, key) if prepared is None else self.score.compare(query, prepared)
        weights = self.weighting(scores, _merged_mask(scores, mask, lengths))
        return F.dropout(weights, self.dropout, self.training) @ value, weights

    def extra_repr(self) -> str:
        return f"weighting={getattr(self.weighting, '__name__', self.weighting)}, dropout={self.dropout}"


# --------------------------------------------------------------------------------------------- scores


class Score(Module):
    """e = a(q, k) in two parts: what is done with keys alone, once for any number of queries, and the comparison."""

    def forward(self, query: Tensor, key: Tensor) -> Tensor:
        return self.compare(query, self.prepare(key))

    def prepare(self, key: Tensor) -> Tensor:
        """What `compare` takes for keys. Shape: (*, S, K) → (*, S, ·)"""
        return key

    def compare(self, query: Tensor, prepared: Tensor) -> Tensor:
        """Shape: (*, L, Q), (*, S, ·) → (*, L, S)"""
        raise UnsupportedError(f"{type(self).__name__} must define compare")


class DotScore(Score):
    """e = qᵀ k (N1 eq. 318, N2 §5.5.3). Shape: (*, L, D), (*, S, D) → (*, L, S)

    >>> nn.DotScore()(weft.ones(1, 2), weft.ones(3, 2))
    tensor([[2., 2., 2.]])
    """

    def compare(self, query: Tensor, prepared: Tensor) -> Tensor:
        _check_width(query, prepared, "DotScore")
        return query @ prepared.mT


class ScaledDotScore(Score):
    """e = qᵀ k / √D, of variance 1 for independent entries of variance 1 (N2 §5.5.3, N4 §11).

    Shape: (*, L, D), (*, S, D) → (*, L, S)

    >>> nn.ScaledDotScore()(weft.ones(1, 4), weft.ones(3, 4))
    tensor([[2., 2., 2.]])
    """

    def compare(self, query: Tensor, prepared: Tensor) -> Tensor:
        _check_width(query, prepared, "ScaledDotScore")
        return query @ prepared.mT / math.sqrt(query.shape[-1])


class CosineScore(Score):
    """e = qᵀ k / (‖q‖ ‖k‖), in [−1, 1] (N1 eq. 319). Shape: (*, L, D), (*, S, D) → (*, L, S)

    eps: the least length that a vector counts as

    >>> nn.CosineScore()(weft.tensor([[3.0, 0.0]]), weft.tensor([[2.0, 0.0], [0.0, 5.0]]))
    tensor([[1., 0.]])
    """

    def __init__(self, eps: float = 1e-12) -> None:
        super().__init__()
        self.eps = eps

    def prepare(self, key: Tensor) -> Tensor:
        return F.normalize(key, dim=-1, eps=self.eps)

    def compare(self, query: Tensor, prepared: Tensor) -> Tensor:
        _check_width(query, prepared, "CosineScore")
        return F.normalize(query, dim=-1, eps=self.eps) @ prepared.mT


class GeneralScore(Score):
    """e = qᵀ W k: bilinear, for queries and keys of different widths (N1 example 12.1, general attention).

    Shape: (*, L, Q), (*, S, K) → (*, L, S); weight (Q, K) from U(±1/√K)

    query_features, key_features: Q and K

    >>> nn.GeneralScore(4, 6)(weft.randn(3, 4), weft.randn(5, 6)).shape
    weft.Size([3, 5])
    """

    def __init__(self, query_features: int, key_features: int, device: Any = None, dtype: Any = None) -> None:
        super().__init__()
        self.weight = Parameter(weft.empty(query_features, key_features, device=device, dtype=dtype))
        self.reset_parameters()

    def reset_parameters(self) -> None:
        _draw(self.weight)

    def prepare(self, key: Tensor) -> Tensor:
        return F.linear(key, self.weight)

    def compare(self, query: Tensor, prepared: Tensor) -> Tensor:
        return query @ prepared.mT

    def extra_repr(self) -> str:
        return "query_features={}, key_features={}".format(*self.weight.shape)


class ReducedRankScore(Score):
    """e = (U q)ᵀ (V k): the general score with W = Uᵀ V of rank r, r (Q + K) weights instead of Q K.

    N1 example 12.1, reduced-rank multiplicative attention. Shape: (*, L, Q), (*, S, K) → (*, L, S);
    query_weight U (r, Q) from U(±1/√Q), key_weight V (r, K) from U(±1/√K)

    query_features, key_features: Q and K
    rank: r

    >>> nn.ReducedRankScore(4, 6, rank=2)(weft.randn(3, 4), weft.randn(5, 6)).shape
    weft.Size([3, 5])
    """

    def __init__(
        self, query_features: int, key_features: int, rank: int, device: Any = None, dtype: Any = None
    ) -> None:
        super().__init__()
        self.query_weight = Parameter(weft.empty(rank, query_features, device=device, dtype=dtype))
        self.key_weight = Parameter(weft.empty(rank, key_features, device=device, dtype=dtype))
        self.reset_parameters()

    def reset_parameters(self) -> None:
        _draw(self.query_weight)
        _draw(self.key_weight)

    def prepare(self, key: Tensor) -> Tensor:
        return F.linear(key, self.key_weight)

    def compare(self, query: Tensor, prepared: Tensor) -> Tensor:
        return F.linear(query, self.query_weight) @ prepared.mT

    def extra_repr(self) -> str:
        (rank, queries), keys = self.query_weight.shape, self.key_weight.shape[1]
        return f"query_features={queries}, key_features={keys}, rank={rank}"


class AdditiveScore(Score):
    """e = vᵀ tanh(W k + V q): a network with one hidden layer of r units (N1 example 12.1, additive attention).

    Shape: (*, L, Q), (*, S, K) → (*, L, S), with (*, L, S, r) in between; query_weight V (r, Q) from U(±1/√Q),
    key_weight W (r, K) from U(±1/√K), vector v (r,) from U(±1/√r)

    query_features, key_features: Q and K
    hidden_features: r

    >>> nn.AdditiveScore(4, 6, hidden_features=8)(weft.randn(3, 4), weft.randn(5, 6)).shape
    weft.Size([3, 5])
    """

    def __init__(
        self, query_features: int, key_features: int, hidden_features: int, device: Any = None, dtype: Any = None
    ) -> None:
        super().__init__()
        self.query_weight = Parameter(weft.empty(hidden_features, query_features, device=device, dtype=dtype))
        self.key_weight = Parameter(weft.empty(hidden_features, key_features, device=device, dtype=dtype))
        self.vector = Parameter(weft.empty(hidden_features, device=device, dtype=dtype))
        self.reset_parameters()

    def reset_parameters(self) -> None:
        for parameter in self.parameters():
            _draw(parameter)

    def prepare(self, key: Tensor) -> Tensor:
        return F.linear(key, self.key_weight)

    def compare(self, query: Tensor, prepared: Tensor) -> Tensor:
        queries, keys = (
            F.linear(query, self.query_weight).unsqueeze(-2),
            prepared.unsqueeze(-3),
        )  # (*, L, 1, r), (*, 1, S, r)
        return (queries + keys).tanh() @ self.vector  # (*, L, S)

    def extra_repr(self) -> str:
        (hidden, queries), keys = self.query_weight.shape, self.key_weight.shape[1]
        return f"query_features={queries}, key_features={keys}, hidden_features={hidden}"


def _draw(weight: Tensor) -> None:
    """U(±1/√in) for weights (…, in), as in `Linear`."""
    bound = 1 / math.sqrt(max(weight.shape[-1], 1))
    init.uniform_(weight, -bound, bound)


def _check_width(query: Tensor, key: Tensor, name: str) -> None:
    if query.shape[-1] != key.shape[-1]:
        raise ShapeError(
            f"{name}: queries and keys must have the same width, got {tuple(query.shape)} and {tuple(key.shape)}; "
            f"GeneralScore compares different widths"
        )


# ------------------------------------------------------------------------------------------ weightings


def soft_weights(scores: Tensor, mask: Tensor | None = None) -> Tensor:
    """α = softmax(e) over the keys that `mask` lets in (N2 §5.5.2, §5.9.1); all 0 where it lets none in."""
    if mask is None:
        return scores.softmax(-1)
    return _lowered(scores, mask).softmax(-1) * mask


def hard_weights(scores: Tensor, mask: Tensor | None = None) -> Tensor:
    """αᵢ = 1 for the largest score, else 0 (N2 §5.5.2). Straight-through: the gradient is that of `soft_weights`."""
    return _chosen(scores, scores, mask)


def sampled_weights(scores: Tensor, mask: Tensor | None = None) -> Tensor:
    """One-hot α drawn with probabilities softmax(e), so that E[α] = softmax(e), by the largest of e + Gumbel noise.

    Hard attention (N2 §5.5.2, N3) in its stochastic form; the gradient is that of the mean, `soft_weights`.
    """
    gumbel = -weft.empty_like(scores.detach()).exponential_().log()
    return _chosen(scores + gumbel, scores, mask)


def linear_weights(scores: Tensor, mask: Tensor | None = None) -> Tensor:
    """α = e, without normalisation (N2 §5.5.2); 0 where `mask` is false."""
    return scores if mask is None else scores.masked_fill(~mask, 0)


def _chosen(ranking: Tensor, scores: Tensor, mask: Tensor | None) -> Tensor:
    """One-hot at the largest of `ranking` among the keys let in; backward, the softmax of `scores`."""
    ranking = (ranking if mask is None else _lowered(ranking, mask)).detach()
    one_hot = F.one_hot(ranking.argmax(-1), scores.shape[-1]).to(scores.dtype)
    soft = soft_weights(scores, mask)
    return (one_hot if mask is None else one_hot * mask) + (soft - soft.detach())


def _lowered(scores: Tensor, mask: Tensor) -> Tensor:
    """Scores with the lowest finite number where the mask is false: weight 0, and no NaN if all is masked."""
    if mask.dtype is not weft.bool:
        raise OptionError(f"attention weights: mask must be boolean (true: takes part), got {mask.dtype}")
    return scores.masked_fill(~mask, weft.finfo(scores.dtype).min)


# --------------------------------------------------------------------------------------- masks by length


def length_mask(lengths: Tensor, size: int) -> Tensor:
    """mask[…, j] = j < lengths[…]: which places of padded sequences are in use. Shape: (*) → (*, size)"""
    return weft.arange(size) < lengths.unsqueeze(-1)


def masked_softmax(scores: Tensor, lengths: Tensor | None = None) -> Tensor:
    """αᵢ = exp eᵢ / Σ_{j < l} exp eⱼ for i < l, else 0: softmax over the l keys in use (N4 §11, masked softmax).

    `lengths` is (B,), one l for each example, or (B, L), one for each query; l = 0 gives weights 0.
    Shape: (B, *, L, S) or (B, S) → the same
    """
    return soft_weights(scores, _merged_mask(scores, None, lengths))


def _merged_mask(scores: Tensor, mask: Tensor | None, lengths: Tensor | None) -> Tensor | None:
    """The mask and the mask of the lengths, broadcasting to scores (B, *, L, S)."""
    if lengths is None:
        return mask
    rows = scores.shape[:-1]
    expected = [tuple(rows[:1]), (rows[0], rows[-1])] if rows else []
    if tuple(lengths.shape) not in expected:
        raise ShapeError(
            f"attention: lengths of shape {tuple(lengths.shape)} do not fit scores {tuple(scores.shape)}; "
            f"expected (B,) or (B, L)"
        )
    between = (1,) * (len(rows) - lengths.ndim)
    lengths = lengths.reshape(rows[0], *between, *lengths.shape[1:])  # (B, 1, …) or (B, 1, …, L)
    used = length_mask(lengths, scores.shape[-1])
    return used if mask is None else mask & used


# -------------------------------------------------------------------------------------- kernel regression


def nadaraya_watson(
    query: Tensor, key: Tensor, value: Tensor, kernel: str = "gaussian", width: float | Tensor = 1.0
) -> Tensor:
    """f(q) = Σᵢ vᵢ α(q, kᵢ) / Σⱼ α(q, kⱼ): regression that needs no training (N4 §11, Nadaraya–Watson).

    With u = ‖(q − k) / width‖ the kernel α is exp(−u²/2) 'gaussian', [u ≤ 1] 'boxcar', or max(0, 1 − u)
    'epanechnikov', as the notes define it. `width` is a number or one number a coordinate, (D,). Where no key lies
    within reach of a query f is undefined and NaN. Shape: (*, L, D), (*, S, D), (*, S, V) → (*, L, V)
    """
    if kernel not in _KERNELS:
        raise OptionError(f"nadaraya_watson: kernel must be one of {', '.join(_KERNELS)}, got {kernel!r}")
    return _KERNELS[kernel](weft.cdist(query / width, key / width)) @ value


def nadaraya_watson_classify(
    query: Tensor,
    key: Tensor,
    labels: Tensor,
    num_classes: int = -1,
    kernel: str = "gaussian",
    width: float | Tensor = 1.0,
) -> Tensor:
    """P(c | q) = Σ_{i: yᵢ=c} α(q, kᵢ) / Σⱼ α(q, kⱼ): `nadaraya_watson` with one-hot labels as values (N4 §11).

    The class is `.argmax(-1)`. Shape: (*, L, D), (*, S, D), labels (*, S) → (*, L, C)

    query, key: where to tell, and the places whose labels are known
    labels: integers from 0 on
    num_classes: C; one more than the largest label if −1
    kernel, width: as in `nadaraya_watson`

    >>> places, labels = weft.tensor([[0.0], [1.0], [4.0]]), weft.tensor([0, 0, 1])
    >>> nn.nadaraya_watson_classify(weft.tensor([[0.5], [3.5]]), places, labels, kernel="boxcar")
    tensor([[1., 0.],
            [0., 1.]])
    """
    values = F.one_hot(labels.long(), num_classes).to(query.dtype)  # (*, S, C)
    return nadaraya_watson(query, key, values, kernel, width)


class NadarayaWatson(Module):
    """`nadaraya_watson` as a layer: values averaged by how near their keys are to the query (N4 §11).

    Shape: (*, L, D), (*, S, D), (*, S, V) → (*, L, V)

    kernel: how nearness falls with distance: 'gaussian', 'boxcar' or 'epanechnikov'
    width: the distance that counts as near, exp(log_width)
    features: D, for a width of each coordinate; None: one for all
    learnable: whether the width is a parameter, trained through log width

    >>> x = weft.linspace(0, 1, 5).unsqueeze(1)
    >>> nn.NadarayaWatson(width=0.01)(x, x, x.square()).flatten()
    tensor([0.0000, 0.0625, 0.2500, 0.5625, 1.0000])
    """

    def __init__(
        self, kernel: str = "gaussian", width: float = 1.0, features: int | None = None, learnable: bool = False
    ) -> None:
        super().__init__()
        if not width > 0:
            raise OptionError(f"NadarayaWatson: width must be positive, got {width}")
        self.kernel = kernel
        log_width = weft.full(() if features is None else (features,), math.log(width))
        self.log_width = Parameter(log_width, requires_grad=learnable)

    def forward(self, query: Tensor, key: Tensor, value: Tensor) -> Tensor:
        return nadaraya_watson(query, key, value, self.kernel, self.log_width.exp())

    def extra_repr(self) -> str:
        return f"kernel={self.kernel!r}, learnable={self.log_width.requires_grad}"


def _normalised(weights: Tensor) -> Tensor:
    return weights / weights.sum(-1, keepdim=True)


_KERNELS: dict[str, Callable[[Tensor], Tensor]] = {
    "gaussian": lambda u: (-u * u / 2).softmax(-1),
    "boxcar": lambda u: _normalised((u <= 1).to(u.dtype)),
    "epanechnikov": lambda u: _normalised((1 - u).relu()),
}
