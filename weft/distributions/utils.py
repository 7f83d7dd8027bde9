"""What distributions share: broadcasting of parameters, probabilities and log-odds, properties computed once."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import weft

from ..autograd import enable_grad
from ..dtypes import finfo, get_default_dtype
from ..errors import InvalidValueError
from ..nn import functional as F
from ..ops.core.operands import is_number
from ..tensor import Tensor

__all__ = [
    "broadcast_all",
    "clamp_probs",
    "euler_constant",
    "lazy_property",
    "logits_to_probs",
    "probs_to_logits",
    "sum_rightmost",
    "tril_matrix_to_vec",
    "vec_to_tril_matrix",
]

euler_constant = 0.57721566490153286060  # Euler and Mascheroni's constant γ


def broadcast_all(*values: Any) -> tuple[Tensor, ...]:
    """Tensors and numbers as tensors of one shape; numbers take the type of the first tensor, or the default."""
    if not all(isinstance(v, Tensor) or is_number(v) for v in values):
        found = ", ".join(type(v).__name__ for v in values)
        raise InvalidValueError(f"Input arguments must all be instances of Number or weft.Tensor, got {found}.")
    first = next((v for v in values if isinstance(v, Tensor)), None)
    kind = get_default_dtype() if first is None else first.dtype
    return weft.broadcast_tensors(*(v if isinstance(v, Tensor) else weft.tensor(v, dtype=kind) for v in values))


def broadcast_parameters(*values: Any) -> tuple[weft.Size, tuple[Tensor, ...]]:
    """The batch shape of scalar parameters, and the parameters in that shape."""
    tensors = broadcast_all(*values)
    return tensors[0].shape, tensors


def sum_rightmost(value: Any, dim: int) -> Any:
    """The sum over the last `dim` dimensions: (*, d₁, …, d_dim) → (*)."""
    return value if dim == 0 or not isinstance(value, Tensor) else value.sum(tuple(range(-dim, 0)))


def clamp_probs(probs: Tensor) -> Tensor:
    """Probabilities moved into [ε, 1 − ε], where their logarithms are finite."""
    epsilon = finfo(probs.dtype).eps
    return probs.clamp(min=epsilon, max=1 - epsilon)


def logits_to_probs(logits: Tensor, is_binary: bool = False) -> Tensor:
    """Probabilities of log-odds (binary: sigmoid) or of unnormalised log-probabilities (softmax)."""
    return logits.sigmoid() if is_binary else logits.softmax(dim=-1)


def probs_to_logits(probs: Tensor, is_binary: bool = False) -> Tensor:
    """Log-odds of probabilities (binary), or their logarithms; probabilities are kept away from 0 and 1."""
    kept = clamp_probs(probs)
    return kept.log() - (-kept).log1p() if is_binary else kept.log()


def tril_matrix_to_vec(mat: Tensor, diag: int = 0) -> Tensor:
    """The lower triangle of matrices, row by row, up to diagonal `diag`: (*, D, D) → (*, N)."""
    size = mat.shape[-1]
    if not -size <= diag < size:
        raise InvalidValueError(f"diag ({diag}) provided is outside [{-size}, {size - 1}].")
    rows, columns = weft.tril_indices(size, size, diag)
    return mat[..., rows, columns]


def vec_to_tril_matrix(vec: Tensor, diag: int = 0) -> Tensor:
    """Matrices whose lower triangle up to diagonal `diag` holds `vec` row by row: (*, N) → (*, D, D)."""
    size, count = max(1, -diag), vec.shape[-1]
    while _triangle(size, diag) < count:
        size += 1
    if _triangle(size, diag) != count:
        raise InvalidValueError(
            f"The size of last dimension is {count} which cannot be expressed as the lower triangular part of "
            "a square D x D matrix."
        )
    rows, columns = weft.tril_indices(size, size, diag)
    flat = vec.new_zeros((*vec.shape[:-1], size * size))
    places = (rows * size + columns).expand(vec.shape)
    return flat.scatter(-1, places, vec).reshape((*vec.shape[:-1], size, size))  # (*, D·D) → (*, D, D)


def _triangle(size: int, diag: int) -> int:
    """The number of places in the lower triangle of a D × D matrix up to diagonal `diag`.

    With diag ≤ 0 it has m(m + 1)/2 for m = D + diag; else r(r + 1)/2 of D² are missing, r = D − 1 − diag.
    """
    if diag <= 0:
        return (size + diag) * (size + diag + 1) // 2
    missing = max(size - 1 - diag, 0)
    return size * size - missing * (missing + 1) // 2


class lazy_property:
    """A property computed when first asked for (recording gradients) and kept in the instance."""

    def __init__(self, wrapped: Callable[[Any], Tensor]) -> None:
        self.wrapped, self.__doc__ = wrapped, wrapped.__doc__

    def __get__(self, instance: Any, owner: type | None = None) -> Any:
        if instance is None:
            return self
        with enable_grad():
            value = self.wrapped(instance)
        instance.__dict__[self.wrapped.__name__] = value
        return value


class ProbsOrLogits:
    """Keeps the one of `probs` and `logits` that was given, and computes the other when it is asked for.

    probs: p; or
    logits: its log-odds, log p/(1 − p)
    """

    is_binary = True

    def _take_parameter(self, probs: Any, logits: Any) -> Any:
        """Check that just one is given and return it."""
        if (probs is None) == (logits is None):
            raise InvalidValueError("Either `probs` or `logits` must be specified, but not both.")
        self._by_probs = probs is not None
        return probs if self._by_probs else logits

    def _keep_parameter(self, value: Tensor) -> None:
        self.__dict__["probs" if self._by_probs else "logits"] = value

    @property
    def _param(self) -> Tensor:
        """The parameter that was given."""
        return self.probs if self._by_probs else self.logits

    @lazy_property
    def logits(self) -> Tensor:
        """Log-odds, or log-probabilities of several classes."""
        return probs_to_logits(self.probs, self.is_binary)

    @lazy_property
    def probs(self) -> Tensor:
        """Probabilities."""
        return logits_to_probs(self.logits, self.is_binary)

    @property
    def param_shape(self) -> weft.Size:
        """The shape of the parameter that was given."""
        return self._param.shape


def binary_entropy(logits: Tensor, probs: Tensor) -> Tensor:
    """−p log p − (1 − p) log(1 − p), element by element."""
    return F.binary_cross_entropy_with_logits(logits, probs, reduction="none")


def standard_normal(shape: Any, like: Tensor) -> Tensor:
    """Independent N(0, 1) numbers of the type of `like`."""
    return weft.randn(tuple(shape), dtype=like.dtype)


def uniform(shape: Any, like: Tensor) -> Tensor:
    """Independent numbers uniform on (0, 1), both ends left out, of the type of `like`."""
    limits = finfo(like.dtype)
    return weft.rand(tuple(shape), dtype=like.dtype).clamp(min=limits.tiny, max=1 - limits.eps / 2)
