"""The oracle of these tests: array-api-strict, given the same NumPy arrays as Weft, and a comparison of results."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import array_api_strict as strict
import numpy as np

import weft.array_api as xp

KINDS = {
    "bool": ["bool"],
    "signed": ["int8", "int16", "int32", "int64"],
    "unsigned": ["uint8", "uint16", "uint32", "uint64"],
    "real floating": ["float32", "float64"],
    "complex floating": ["complex64", "complex128"],
}
KINDS["integer"] = KINDS["signed"] + KINDS["unsigned"]
KINDS["integer or bool"] = KINDS["integer"] + KINDS["bool"]
KINDS["real"] = KINDS["integer"] + KINDS["real floating"]
KINDS["floating"] = KINDS["real floating"] + KINDS["complex floating"]
KINDS["numeric"] = KINDS["real"] + KINDS["complex floating"]
KINDS["all"] = KINDS["bool"] + KINDS["numeric"]

SHAPES = [(), (0,), (1,), (5,), (2, 3), (3, 3), (2, 0, 3), (2, 3, 3)]
PROMOTABLE = [
    (a, b)
    for a in KINDS["all"]
    for b in KINDS["all"]
    if any(a in KINDS[k] and b in KINDS[k] for k in ("bool", "integer", "floating"))
    and not ("uint64" in (a, b) and (a in KINDS["signed"] or b in KINDS["signed"]))
]


def drawn(dtype: str, shape: tuple[int, ...], seed: int = 0, low: int = -4) -> np.ndarray:
    """Small numbers of a type, the same in every run; unsigned ones are not negative."""
    rng = np.random.default_rng([seed, *shape, len(dtype)])
    kind = np.dtype(dtype).kind
    if kind == "b":
        return np.asarray(rng.integers(0, 2, shape), dtype)
    if kind in "iu":
        return np.asarray(rng.integers(0 if kind == "u" else low, 5, shape), dtype)
    parts = rng.integers(4 * low, 17, (2, *shape)) / 4 + 0.125
    return np.asarray(parts[0] + 1j * parts[1] if kind == "c" else parts[0], dtype)


def outcome(space: Any, call: Callable, *arrays: Any) -> Any:
    """The result of a call as NumPy arrays, or the error it raised."""
    try:
        found = call(space, *(space.asarray(a, copy=True) if isinstance(a, np.ndarray) else a for a in arrays))
    except Exception as error:
        return error
    return flat(found)


def flat(found: Any) -> Any:
    if isinstance(found, (tuple, list)):
        return [flat(part) for part in found]
    if isinstance(found, (xp.Array, type(strict.asarray(0)))):
        return np.asarray(found)
    return str(found).rpartition(".")[2] if isinstance(found, (type(xp.bool), type(strict.bool))) else found


def compare(call: Callable, *arrays: Any, note: str = "", values: bool = True) -> None:
    """The same result from Weft and from array-api-strict, or an error from both."""
    got = outcome(xp, call, *arrays)
    with np.errstate(all="ignore"), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        wanted = outcome(strict, call, *arrays)
    assert_same(got, wanted, note, values)


def assert_same(got: Any, wanted: Any, note: str, values: bool = True) -> None:
    if isinstance(wanted, Exception):
        assert isinstance(got, Exception), f"{note}: expected an error like {wanted!r}, got {got!r}"
        return
    if isinstance(got, Exception):
        raise AssertionError(f"{note}: {got!r}, expected {wanted!r}") from got
    if isinstance(wanted, list):
        assert len(got) == len(wanted), note
        for one, other in zip(got, wanted, strict=True):
            assert_same(one, other, note, values)
        return
    if not isinstance(wanted, np.ndarray):
        assert got == wanted, f"{note}: {got!r}, expected {wanted!r}"
        return
    assert got.dtype == wanted.dtype, f"{note}: {got.dtype}, expected {wanted.dtype}"
    assert got.shape == wanted.shape, f"{note}: {got.shape}, expected {wanted.shape}"
    if values:
        tolerance = 1e-4 if wanted.dtype in (np.float32, np.complex64) else 1e-9
        exact = wanted.dtype.kind in "biu"
        same = np.array_equal(got, wanted) if exact else np.allclose(got, wanted, tolerance, tolerance, equal_nan=True)
        assert same, f"{note}:\n{got}\nexpected\n{wanted}"
