"""Distances between all pairs of points."""

from __future__ import annotations

from ...errors import DtypeError, OptionError, ShapeError
from ...tensor import Tensor
from ..core.operands import is_number
from ..core.primitive import operation
from ..math.elementwise import where
from .contract import need_tensors, product, same_dtype


def _check_cdist(x1: Tensor, x2: Tensor, p: float) -> None:
    need_tensors("cdist", x1, x2)
    for role, x in (("X1", x1), ("X2", x2)):
        if not x.dtype.is_floating_point:
            raise DtypeError(f"cdist: cdist only supports floating-point dtypes, {role} got: {x.dtype}; use .float()")
        if x.ndim < 2:
            raise ShapeError(f"cdist: {role} must be at least two-dimensional (…, P, M), got shape {tuple(x.shape)}")
    same_dtype("cdist", x1, x2)
    if x1.shape[-1] != x2.shape[-1]:
        raise ShapeError(
            f"cdist: X1 and X2 must have the same number of columns, got {tuple(x1.shape)} and {tuple(x2.shape)}"
        )
    if not is_number(p) or p < 0:
        raise OptionError(f"cdist: p must be non-negative, got {p}")


MODES = ("use_mm_for_euclid_dist_if_necessary", "use_mm_for_euclid_dist", "donot_use_mm_for_euclid_dist")


@operation(method=False)
def cdist(x1: Tensor, x2: Tensor, p: float = 2.0, compute_mode: str | None = MODES[0]) -> Tensor:
    """‖x1ᵢ − x2ⱼ‖ₚ for all pairs of rows: (…, P, M), (…, R, M) → (…, P, R).

    The gradient at distance 0 is 0. Many rows at p = 2 go through one matrix product.
    """
    _check_cdist(x1, x2, p)
    if compute_mode is None:
        compute_mode = MODES[0]
    if compute_mode not in MODES and compute_mode not in range(3):
        raise OptionError(
            f"cdist: {compute_mode!r} is not a valid value for compute_mode; choose one of {', '.join(MODES)}"
        )
    number = compute_mode if isinstance(compute_mode, int) else MODES.index(compute_mode)
    many = x1.shape[-2] > 25 or x2.shape[-2] > 25
    if p == 2 and (number == 1 or (number == 0 and many)):
        return _root(_squared_by_product(x1, x2))
    difference = x1.unsqueeze(-2) - x2.unsqueeze(-3)  # (…, P, R, M)
    return _length(difference, p).contiguous()


def _squared_by_product(x1: Tensor, x2: Tensor) -> Tensor:
    """|a|² + |b|² − 2 a·b, kept at or above 0 against rounding."""
    products = product(x1, x2.transpose(-2, -1), "cdist")
    squares = (x1 * x1).sum(-1, keepdim=True) + (x2 * x2).sum(-1).unsqueeze(-2)
    return (squares - 2 * products).relu()


def _root(squared: Tensor) -> Tensor:
    """√x whose gradient at 0 is 0."""
    return where(squared == 0, 0, where(squared == 0, 1, squared).sqrt())


def _length(difference: Tensor, p: float) -> Tensor:
    """The p-norm over the last dimension, with gradient 0 for the zero vector."""
    size = difference.abs()
    if p == 0:
        return where(size == 0, size, 1).sum(-1)
    if p == 1:
        return size.sum(-1)
    if p == 2:
        return _root(difference.square().sum(-1))
    if p == float("inf"):
        return size.amax(-1) if difference.shape[-1] else size.sum(-1)
    nonzero = where(size == 0, 1, size)
    total = where(size == 0, 0, nonzero**p).sum(-1)
    return where(total == 0, 0, where(total == 0, 1, total) ** (1 / p))
