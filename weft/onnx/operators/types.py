"""Constants, copies, and conversions between element types, those included that tensors do not have."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np

from ...dtypes import dtype
from ...errors import DtypeError
from ...tensor import Tensor, wrap
from ..tensors import ELEMENT_TYPES
from .registry import as_array, rule

__all__ = ["converted"]

_NARROW_FLOATS = {ELEMENT_TYPES[n] for n in (17, 18, 19, 20)}


@rule("Constant", raw=True)
def constant(
    *,
    value: np.ndarray | None = None,
    value_float: float | None = None,
    value_floats: list[float] | None = None,
    value_int: int | None = None,
    value_ints: list[int] | None = None,
    value_string: str | None = None,
    value_strings: list[str] | None = None,
    sparse_value: Any = None,
) -> np.ndarray:
    if value is not None:
        return value
    if value_float is not None or value_floats is not None:
        return np.array(value_float if value_floats is None else value_floats, np.float32)
    if value_int is not None or value_ints is not None:
        return np.array(value_int if value_ints is None else value_ints, np.int64)
    if sparse_value is not None:
        raise DtypeError("Constant: sparse values are not supported; store the dense tensor")
    return np.array(value_string if value_strings is None else value_strings, object)


@rule("Identity", raw=True)
def identity(x: Any) -> Any:
    return x


@rule("Cast", raw=True)
def cast(x: Any, *, to: int, saturate: int = 1, round_mode: str = "up") -> Any:
    return converted(x, ELEMENT_TYPES[to], bool(saturate), round_mode)


@rule("CastLike", raw=True)
def cast_like(x: Any, like: Any, *, saturate: int = 1, round_mode: str = "up") -> Any:
    kind = like.dtype.np if isinstance(like, Tensor) else like.dtype
    return converted(x, kind, bool(saturate), round_mode)


def converted(x: Any, kind: np.dtype, saturate: bool = True, round_mode: str = "up") -> Any:
    """x in another element type: a tensor where both types are those of tensors, else an array."""
    if isinstance(x, Tensor) and kind in dtype.by_numpy:
        return x.to(dtype.by_numpy[kind])
    array = as_array(x)
    if array.dtype == object:
        return _from_strings(array, kind)
    if kind == np.dtype(object):
        return _as_strings(array)
    made = _narrowed(array, kind, saturate, round_mode)
    return wrap(made) if isinstance(x, Tensor) and kind in dtype.by_numpy else made


def _from_strings(array: np.ndarray, kind: np.dtype) -> np.ndarray:
    if kind == np.dtype(object):
        return array
    exact = np.int64 if kind.kind in "iu" else np.float64
    return (
        np.array([float(s) if exact is np.float64 else int(s) for s in array.reshape(-1)], exact)
        .reshape(array.shape)
        .astype(kind)
    )


def _as_strings(array: np.ndarray) -> np.ndarray:
    numbers = array.astype(np.float32) if array.dtype.kind == "V" or "float" in array.dtype.name else array
    texts = [_text(n) for n in numbers.reshape(-1)]
    return np.array([*texts, None], object)[:-1].reshape(array.shape)


def _text(number: Any) -> str:
    return (
        str(int(number))
        if isinstance(number, (np.integer, np.bool_))
        else np.format_float_positional(number, trim="-")
        if np.isfinite(number)
        else {np.inf: "INF", -np.inf: "-INF"}.get(number, "NaN")
    )


def _narrowed(array: np.ndarray, kind: np.dtype, saturate: bool, round_mode: str) -> np.ndarray:
    if kind in dtype.by_numpy:
        return array.astype(np.float32).astype(kind) if array.dtype not in dtype.by_numpy else array.astype(kind)
    if kind == ELEMENT_TYPES[24]:
        return _powers_of_two(array, saturate, round_mode)
    wide = array.astype(np.float32) if array.dtype not in dtype.by_numpy or array.dtype.kind == "V" else array
    if kind in _NARROW_FLOATS:
        return _eight_bits(wide, kind, saturate)
    if "int" in kind.name:
        bits = int(kind.name.strip("uint"))
        whole = (
            np.rint(wide).astype(np.int64) & ((1 << bits) - 1)
            if not np.issubdtype(wide.dtype, np.integer)
            else wide.astype(np.int64) & ((1 << bits) - 1)
        )
        return (whole - (whole >> (bits - 1) << bits) if kind.name[0] == "i" else whole).astype(np.int8).astype(kind)
    return wide.astype(np.float32).astype(kind)


def _eight_bits(wide: np.ndarray, kind: np.dtype, saturate: bool) -> np.ndarray:
    """Floats of eight bits; too large ones become the largest, or what the format has for infinity."""
    floats = wide.astype(np.float32)
    limit = float(ml_dtypes.finfo(kind).max)
    if saturate:
        floats = np.where(np.isnan(floats), floats, np.clip(floats, -limit, limit))
        return floats.astype(kind)
    return floats.astype(kind)


def _powers_of_two(array: np.ndarray, saturate: bool, round_mode: str) -> np.ndarray:
    """float8e8m0: 2^(e − 127), rounded up, down or to the nearest."""
    floats = np.abs(array.astype(np.float32))
    fraction, exponent = np.frexp(floats)  # floats = fraction · 2^exponent with fraction in [½, 1)
    lower = exponent - 1
    grown = {"up": fraction > 0.5, "down": np.zeros_like(fraction, bool), "nearest": fraction >= 0.75}[round_mode]
    power = lower + grown
    code = np.clip(power + 127, 0, 254)
    too_large = (power + 127 > 254) | np.isinf(floats)
    if not saturate:
        code = np.where(too_large, 255, code)
    else:
        code = np.where(too_large, 254, code)
    code = np.where(np.isnan(floats), 255, np.where(floats == 0, 0, code))
    return code.astype(np.uint8).view(ELEMENT_TYPES[24])


@rule("BitCast", raw=True)
def bit_cast(x: Any, *, to: int) -> Any:
    """The same bytes under another type of the same width."""
    made = as_array(x).reshape(-1).view(ELEMENT_TYPES[to]).reshape(tuple(x.shape))
    return wrap(made) if isinstance(x, Tensor) and made.dtype in dtype.by_numpy else made
