"""`torch._foreach_…`: what a method of tensors does, for every tensor of a list. Optimisers of others are written with them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import weft

NAMES = """
abs acos add addcdiv addcmul asin atan ceil clamp_max clamp_min cos cosh div erf erfc exp expm1 floor frac lerp lgamma log
log10 log1p log2 maximum minimum mul neg pow reciprocal round rsqrt sigmoid sign sin sinh sqrt sub tan tanh trunc
"""
SCALED = ("addcdiv", "addcmul")  # their last argument, a number, has a name


def _columns(tensors: Sequence[Any], others: Sequence[Any]) -> list[Sequence[Any]]:
    """Each argument as a list as long as the tensors: one value, or a tensor of values, stands for all of them."""
    return [other if isinstance(other, (list, tuple)) else [other] * len(tensors) for other in others]


def _of(x: Any, name: str, row: Sequence[Any]) -> Any:
    """The method; the larger of a tensor and a number goes by another name."""
    if row and isinstance(row[0], (int, float)):
        name = name.replace("maximum", "clamp_min").replace("minimum", "clamp_max")
    return getattr(x, name)(*row)


def _each(name: str) -> Callable:
    def each(self: Any, *others: Any, **options: Any) -> list[Any]:
        if not isinstance(self, (list, tuple)):  # a number to the powers in a list
            return [getattr(weft, name)(self, other) for other in others[0]]
        if name.rstrip("_") in SCALED and len(others) > 2:
            values = others[2].tolist() if isinstance(others[2], weft.Tensor) else others[2]
            rows = zip(self, *_columns(self, (*others[:2], values)), strict=True)
            return [getattr(x, name)(a, b, value=value) for x, a, b, value in rows]
        if options:
            return [getattr(x, name)(*row, **options) for x, *row in zip(self, *_columns(self, others), strict=True)]
        return [_of(x, name, row) for x, *row in zip(self, *_columns(self, others), strict=True)]

    each.__name__, each.__doc__ = f"_foreach_{name}", f"`Tensor.{name}` of each tensor of a list."
    return each


def _each_in_place(name: str) -> Callable:
    changed = _each(name)

    def each(self: Any, *others: Any, **options: Any) -> None:
        for x, result in zip(self, changed(self, *others, **options), strict=True):
            x.copy_(result)

    each.__name__, each.__doc__ = f"_foreach_{name}_", f"Each tensor of a list becomes its `{name}`."
    return each


for _name in NAMES.split():
    globals()[f"_foreach_{_name}"] = _each(_name)
    globals()[f"_foreach_{_name}_"] = _each(f"{_name}_") if hasattr(weft.Tensor, f"{_name}_") else _each_in_place(_name)
_foreach_copy_, _foreach_zero_, _foreach_max = _each("copy_"), _each("zero_"), _each("max")


def _foreach_norm(self: Any, ord: float = 2, dtype: Any = None) -> list[Any]:
    """(Σ |xᵢ|ᵖ)^(1/p) of each tensor of a list, p = `ord`."""
    return [weft.linalg.vector_norm(x, ord, dtype=dtype) for x in self]


def _foreach_powsum(self: Any, ord: float = 2, dtype: Any = None) -> list[Any]:
    """Σ |xᵢ|ᵖ of each tensor of a list, p = `ord`."""
    return [x.abs().pow(ord).sum(dtype=dtype) for x in self]
