"""Comparison for tests: `assert_close`, with PyTorch's tolerances."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from .dtypes import bfloat16, complex64, complex128, float16, float32, float64
from .errors import ConditionError, InvalidValueError
from .ops.create.interchange import as_tensor
from .runtime.lazy import later as _later
from .tensor import Tensor

__all__ = ["assert_close"]

# Relative and absolute tolerance of each element type; of two types the larger ones. Others must be equal.
_TOLERANCES = {
    float16: (1e-3, 1e-5),
    bfloat16: (1.6e-2, 1e-5),
    float32: (1.3e-6, 1e-5),
    float64: (1e-7, 1e-7),
    complex64: (1.3e-6, 1e-5),
    complex128: (1e-7, 1e-7),
}


def assert_close(
    actual: Any,
    expected: Any,
    *,
    rtol: float | None = None,
    atol: float | None = None,
    equal_nan: bool = False,
    check_dtype: bool = True,
    msg: str | Callable[[str], str] | None = None,
) -> None:
    """Raise AssertionError unless |actual − expected| ≤ atol + rtol·|expected| everywhere.

    Both are tensors, arrays or numbers, or sequences and mappings of them. Tolerances are given together or not at all.
    """
    if (rtol is None) != (atol is None):
        raise InvalidValueError("assert_close: rtol and atol must both be given or both be left away")
    options: dict[str, Any] = dict(rtol=rtol, atol=atol, equal_nan=equal_nan, check_dtype=check_dtype)
    for found, wanted, place in _pairs(actual, expected, ""):
        problem = _difference(as_tensor(found), as_tensor(wanted), **options)
        if problem:
            text = f"{problem}{f' (at {place})' if place else ''}"
            raise ConditionError(msg(text) if callable(msg) else msg or text)


def _pairs(actual: Any, expected: Any, place: str) -> Any:
    """The tensors and numbers of two trees side by side, with the path to each."""
    if isinstance(actual, Mapping) and isinstance(expected, Mapping):
        if set(actual) != set(expected):
            raise ConditionError(f"The keys of the mappings do not match: {sorted(actual)} and {sorted(expected)}")
        for key in actual:
            yield from _pairs(actual[key], expected[key], f"{place}[{key!r}]")
    elif isinstance(actual, Sequence) and isinstance(expected, Sequence):
        if len(actual) != len(expected):
            raise ConditionError(f"The length of the sequences do not match: {len(actual)} != {len(expected)}")
        for index, (left, right) in enumerate(zip(actual, expected, strict=True)):
            yield from _pairs(left, right, f"{place}[{index}]")
    else:
        yield actual, expected, place


def _difference(
    x: Tensor, y: Tensor, rtol: float | None, atol: float | None, equal_nan: bool, check_dtype: bool
) -> str | None:
    """What keeps two tensors from being close, or None."""
    if x.shape != y.shape:
        return f"The values for attribute 'shape' do not match: {x.shape} != {y.shape}."
    if check_dtype and x.dtype is not y.dtype:
        return f"The values for attribute 'dtype' do not match: {x.dtype} != {y.dtype}."
    if rtol is None or atol is None:
        pairs = [_TOLERANCES.get(kind, (0.0, 0.0)) for kind in (x.dtype, y.dtype)]
        rtol, atol = max(first for first, _ in pairs), max(second for _, second in pairs)
    wide = np.complex128 if x.is_complex() or y.is_complex() else np.float64
    a, b = x.detach().numpy().astype(wide), y.detach().numpy().astype(wide)
    close = np.isclose(a, b, rtol=rtol, atol=atol, equal_nan=equal_nan)
    return None if close.all() else _described(a, b, close, rtol, atol)


def _described(a: np.ndarray, b: np.ndarray, close: np.ndarray, rtol: float, atol: float) -> str:
    """How many elements differ and where they differ most."""
    with np.errstate(all="ignore"):
        gap = np.where(close, 0.0, np.abs(a - b))
        ratio = np.where(close, 0.0, gap / np.abs(b))
    worst, worst_ratio = (np.unravel_index(np.argmax(v), v.shape) for v in (gap, ratio))
    where, where_ratio = (tuple(int(i) for i in place) for place in (worst, worst_ratio))
    bad = int((~close).sum())
    return (
        "Tensor-likes are not close!\n\n"
        f"Mismatched elements: {bad} / {close.size} ({100 * bad / close.size:.1f}%)\n"
        f"Greatest absolute difference: {gap[worst]} at index {where} (up to {atol} allowed)\n"
        f"Greatest relative difference: {ratio[worst_ratio]} at index {where_ratio} (up to {rtol} allowed)"
    )


__getattr__, __dir__ = _later(__name__)
