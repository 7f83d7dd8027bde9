"""Whether two trees of results are equal: structure, types, sizes, and values within a tolerance."""

from __future__ import annotations

from typing import Any

import numpy as np

import weft
from weft.utils.pytree import tree_flatten

# relative to the largest magnitude of a result
TOLERANCE = {
    "float64": 1e-12,
    "complex128": 1e-12,
    "float32": 1e-5,
    "complex64": 1e-5,
    "float16": 2e-3,
    "bfloat16": 2e-2,
}
EPSILON = {"float64": 2.0**-52, "complex128": 2.0**-52, "float16": 2.0**-10, "bfloat16": 2.0**-7}


def difference(expected: Any, found: Any) -> str | None:
    """None when equal, else where they are not."""
    expected, spec = tree_flatten(expected)
    found, other = tree_flatten(found)
    if spec != other:
        return f"structure {other}, want {spec}"
    for place, (x, y) in enumerate(zip(expected, found, strict=True)):
        reason = leaf_difference(x, y)
        if reason:
            return f"result {place}: {reason}"
    return None


def leaf_difference(x: Any, y: Any, exact: bool = False, noise: float = 0.0, kind: str | None = None) -> str | None:
    """`exact`: no tolerance; `noise`: what rounding may change besides; `kind`: the type whose tolerance is taken."""
    if not isinstance(x, weft.Tensor):
        return None if x == y or (x != x and y != y) else f"{y!r}, want {x!r}"
    if x.dtype is not y.dtype or x.shape != y.shape:
        return f"{y.dtype} {tuple(y.shape)}, want {x.dtype} {tuple(x.shape)}"
    a, b = plain(x), plain(y)
    kind = kind or x.dtype.name
    with np.errstate(all="ignore"):
        equal = (a == b) | ((a != a) & (b != b))
        if not exact and a.dtype.kind in "fc":
            finite = np.abs(a[np.isfinite(a)])
            scale = float(finite.max(initial=0))
            rounding = 16 * EPSILON.get(kind, 2.0**-23)  # of some dozens of terms near 1 that cancel
            equal |= np.abs(a - b) <= max(TOLERANCE[kind] * scale, rounding) + noise
    if equal.all():
        return None
    at = tuple(int(i) for i in np.argwhere(~equal)[0])
    return f"{x.dtype} {tuple(x.shape)}: {(~equal).sum()} of {equal.size} differ, at {at}: {b[at]}, want {a[at]}"


def plain(x: weft.Tensor) -> np.ndarray:
    """The values in a type that holds them all."""
    array = x.detach().numpy()
    if array.dtype.kind == "V":
        array = array.astype(np.float32)
    return array.astype({"f": np.float64, "c": np.complex128}.get(array.dtype.kind, array.dtype))
