"""Reductions and normalisations over the elements that a mask holds, in the names of `torch.masked`.

mask: a bool tensor that broadcasts to the input, True where an element counts. What it leaves out is replaced by the
neutral value of the operation; where it leaves out everything, that value (NaN for means and softmax) is the result.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import weft

from .dtypes import BOOL, INTEGER, as_dtype, float32, iinfo, int64
from .errors import DtypeError, InvalidValueError, ShapeError
from .runtime.lazy import later as _later
from .tensor import Tensor

__all__ = [
    *("amax", "amin", "argmax", "argmin", "cumprod", "cumsum", "log_softmax", "logaddexp", "logsumexp", "mean"),
    *("median", "norm", "normalize", "prod", "softmax", "softmin", "std", "sum", "var"),
]

Dims = int | Sequence[int] | None
Mask = Tensor | None

# -------------------------------------------------------------------------------------------- reductions


def sum(input: Tensor, dim: Dims = None, *, keepdim: bool = False, dtype: Any = None, mask: Mask = None) -> Tensor:
    """Σ of the elements that count, along `dim`; 0 where none does. Integers add up in int64.

    >>> weft.masked.sum(weft.tensor([1.0, 2.0, 4.0]), mask=weft.tensor([True, False, True]))
    tensor(5.)
    """
    kept = _kept(input, mask, 0, "sum")
    return kept.sum(_dims(dim, input), keepdim=keepdim, dtype=_summed_type(input, dtype))


def prod(input: Tensor, dim: Dims = None, *, keepdim: bool = False, dtype: Any = None, mask: Mask = None) -> Tensor:
    """Π of the elements that count, along `dim`; 1 where none does. Integers are multiplied in int64."""
    result = _kept(input, mask, 1, "prod").to(_summed_type(input, dtype))
    for d in sorted((d % max(input.ndim, 1) for d in _dims(dim, input)), reverse=True):
        result = result.prod(d, keepdim=keepdim)
    return result


def amax(input: Tensor, dim: Dims = None, *, keepdim: bool = False, dtype: Any = None, mask: Mask = None) -> Tensor:
    """The largest element that counts, along `dim`; −∞ (the least integer) where none does."""
    return _cast(_kept(input, mask, _least(input, "amax"), "amax").amax(_dims(dim, input), keepdim), dtype)


def amin(input: Tensor, dim: Dims = None, *, keepdim: bool = False, dtype: Any = None, mask: Mask = None) -> Tensor:
    """The smallest element that counts, along `dim`; ∞ (the largest integer) where none does."""
    return _cast(_kept(input, mask, _greatest(input, "amin"), "amin").amin(_dims(dim, input), keepdim), dtype)


def argmax(
    input: Tensor, dim: int | None = None, *, keepdim: bool = False, dtype: Any = None, mask: Mask = None
) -> Tensor:
    """Where the largest element that counts is, along `dim` or in the flattened input, as int64.

    PyTorch returns places in the type of the input, in which large ones are rounded.
    """
    return _cast(_kept(input, mask, _least(input, "argmax"), "argmax").argmax(dim, keepdim), dtype)


def argmin(
    input: Tensor, dim: int | None = None, *, keepdim: bool = False, dtype: Any = None, mask: Mask = None
) -> Tensor:
    """Where the smallest element that counts is, along `dim` or in the flattened input, as int64 (see `argmax`)."""
    return _cast(_kept(input, mask, _greatest(input, "argmin"), "argmin").argmin(dim, keepdim), dtype)


def mean(input: Tensor, dim: Dims = None, *, keepdim: bool = False, dtype: Any = None, mask: Mask = None) -> Tensor:
    """The mean of the elements that count, along `dim`; NaN where none does."""
    kind = input.dtype if dtype is None else as_dtype(dtype)
    if not (kind.is_floating_point or kind.is_complex):
        raise DtypeError(f"masked.mean: expected a floating-point or complex type, got {kind}; give dtype=weft.float32")
    return sum(input, dim, keepdim=keepdim, dtype=kind, mask=mask) / _count(input, dim, keepdim, mask)


def var(
    input: Tensor,
    dim: Dims = None,
    unbiased: bool | None = None,
    *,
    correction: float | None = None,
    keepdim: bool = False,
    dtype: Any = None,
    mask: Mask = None,
) -> Tensor:
    """Σ |x − mean|² / max(count − correction, 0) over the n = count elements that count; correction is 1 by default."""
    if unbiased is not None and correction is not None:
        raise InvalidValueError("masked.var: give one of unbiased and correction, not both")
    taken = (1.0 if unbiased in (None, True) else 0.0) if correction is None else float(correction)
    kind = dtype or (float32 if input.dtype.category <= INTEGER else input.dtype)
    x = input.to(kind)
    away = x - mean(x, dim, keepdim=True, mask=mask)
    squares = sum((away * away.conj()), dim, keepdim=keepdim, mask=mask)
    return squares / (_count(input, dim, keepdim, mask) - taken).clamp(min=0)


def std(
    input: Tensor,
    dim: Dims = None,
    unbiased: bool | None = None,
    *,
    correction: float | None = None,
    keepdim: bool = False,
    dtype: Any = None,
    mask: Mask = None,
) -> Tensor:
    """The square root of `var`."""
    return var(input, dim, unbiased, correction=correction, keepdim=keepdim, dtype=dtype, mask=mask).sqrt()


def norm(
    input: Tensor,
    ord: float | None = 2.0,
    dim: Dims = None,
    *,
    keepdim: bool = False,
    dtype: Any = None,
    mask: Mask = None,
) -> Tensor:
    """(Σ |x|^ord)^(1/ord) over the elements that count; 0 (∞ for ord = −∞) where none does."""
    kept = _kept(input, mask, math.inf if ord == -math.inf else 0, "norm")
    return weft.linalg.vector_norm(kept, 2.0 if ord is None else ord, _dims(dim, input), keepdim, dtype=dtype)


def median(input: Tensor, dim: int = -1, *, keepdim: bool = False, dtype: Any = None, mask: Mask = None) -> Tensor:
    """The median (the lower of two) of the elements that count, along `dim`; NaN where none does."""
    real = input.dtype.is_floating_point
    x = input if real else input.to(float32)
    found = _kept(x, mask, math.nan, "median").nanmedian(dim, keepdim).values
    if real:
        return found
    if bool(found.isnan().any()):
        raise DtypeError(
            f"masked.median: a line of {input.dtype} without any element that counts has no median; convert to float"
        )
    return found.to(dtype or input.dtype)


def logsumexp(
    input: Tensor, dim: Dims = None, *, keepdim: bool = False, dtype: Any = None, mask: Mask = None
) -> Tensor:
    """log Σ eˣ over the elements that count; −∞ where none does."""
    kept = _kept(input, mask, _least(input, "logsumexp"), "logsumexp")
    return _cast(kept.logsumexp(_dims(dim, input), keepdim), dtype or input.dtype)


def logaddexp(
    input: Tensor, other: Tensor, *, dtype: Any = None, input_mask: Mask = None, other_mask: Mask = None
) -> Tensor:
    """log(eˣ + eʸ), of the two only what its mask holds; −∞ where neither counts."""
    x = _kept(input, input_mask, _least(input, "logaddexp"), "logaddexp", "input_mask")
    y = _kept(other, other_mask, _least(other, "logaddexp"), "logaddexp", "other_mask")
    return _cast(x.logaddexp(y), dtype or input.dtype)


# ------------------------------------------------------------------------------- results of the input's shape


def cumsum(input: Tensor, dim: int, *, dtype: Any = None, mask: Mask = None) -> Tensor:
    """Running sums along `dim` that pass over what the mask leaves out, in the type of the input."""
    return _kept(input, mask, 0, "cumsum").cumsum(dim, dtype=dtype or input.dtype)


def cumprod(input: Tensor, dim: int, *, dtype: Any = None, mask: Mask = None) -> Tensor:
    """Running products along `dim` that pass over what the mask leaves out, in the type of the input."""
    return _kept(input, mask, 1, "cumprod").cumprod(dim, dtype=dtype or input.dtype)


def softmax(input: Tensor, dim: int, *, dtype: Any = None, mask: Mask = None) -> Tensor:
    """`softmax` over the elements that count: 0 for the others, NaN along a line where none does.

    >>> weft.masked.softmax(weft.zeros(3), 0, mask=weft.tensor([True, False, True]))
    tensor([0.5000, 0.0000, 0.5000])
    """
    return _kept(input, mask, _least(input, "softmax"), "softmax").softmax(dim, dtype=dtype)


def log_softmax(input: Tensor, dim: int, *, dtype: Any = None, mask: Mask = None) -> Tensor:
    """log of `softmax`: −∞ for what the mask leaves out."""
    return _kept(input, mask, _least(input, "log_softmax"), "log_softmax").log_softmax(dim, dtype=dtype)


def softmin(input: Tensor, dim: int, *, dtype: Any = None, mask: Mask = None) -> Tensor:
    """`softmax` of −x over the elements that count."""
    return (-_kept(input, mask, _greatest(input, "softmin"), "softmin")).softmax(dim, dtype=dtype)


def normalize(
    input: Tensor, ord: float, dim: int, *, eps: float = 1e-12, dtype: Any = None, mask: Mask = None
) -> Tensor:
    """x / max(‖x‖, eps), the norm of order `ord` along `dim` over the elements that count, 0 for the others."""
    length = norm(input, ord, dim, keepdim=True, dtype=dtype, mask=mask)
    return _kept(input, mask, 0, "normalize") / length.clamp(min=eps)


# ----------------------------------------------------------------------------------------------- helpers


def _kept(input: Tensor, mask: Mask, neutral: Any, name: str, argument: str = "mask") -> Tensor:
    """The input with the neutral value where the mask does not hold."""
    return input if mask is None else input.masked_fill(~_checked(mask, input, name, argument), neutral)


def _checked(mask: Tensor, input: Tensor, name: str, argument: str = "mask") -> Tensor:
    if not isinstance(mask, Tensor) or mask.dtype.category != BOOL:
        got = mask.dtype if isinstance(mask, Tensor) else type(mask).__name__
        raise DtypeError(f"masked.{name}: {argument} must be a bool tensor, got {got}; compare first, or use .bool()")
    fits = mask.ndim <= input.ndim and all(
        m in (1, n) for m, n in zip(reversed(mask.shape), reversed(input.shape), strict=False)
    )
    if not fits:
        raise ShapeError(
            f"masked.{name}: {argument} of shape {tuple(mask.shape)} does not broadcast to the input, {tuple(input.shape)}"
        )
    return mask


def _count(input: Tensor, dim: Dims, keepdim: bool, mask: Mask) -> Tensor:
    """How many elements count, in int64."""
    held = (
        weft.ones(input.shape, dtype=weft.bool) if mask is None else _checked(mask, input, "mean").expand(input.shape)
    )
    return held.sum(_dims(dim, input), keepdim=keepdim)


def _dims(dim: Dims, input: Tensor) -> tuple[int, ...]:
    """All dimensions for None and for ()."""
    if dim is None or dim == ():
        return tuple(range(input.ndim))
    return (dim,) if isinstance(dim, int) else tuple(dim)


def _summed_type(input: Tensor, dtype: Any) -> Any:
    return dtype or (int64 if input.dtype.category <= INTEGER else input.dtype)


def _least(input: Tensor, name: str) -> float | int:
    return -math.inf if input.dtype.is_floating_point else iinfo(_integer(input, name)).min


def _greatest(input: Tensor, name: str) -> float | int:
    return math.inf if input.dtype.is_floating_point else iinfo(_integer(input, name)).max


def _integer(input: Tensor, name: str) -> Any:
    if input.dtype.category != INTEGER:
        raise DtypeError(f"masked.{name}: {input.dtype} has no order; convert it, for example with .float()")
    return input.dtype


def _cast(x: Tensor, dtype: Any) -> Tensor:
    return x if dtype is None else x.to(dtype)


__getattr__, __dir__ = _later(__name__)
