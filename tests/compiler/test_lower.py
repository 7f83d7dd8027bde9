"""Every operation with native code against what it computes eagerly, in every element type it takes."""

from __future__ import annotations

import functools
from typing import Any

import numpy as np
import pytest

import weft
from weft.errors import DtypeError
from weft.kernels.llvm import jit
from weft.kernels.llvm.values import type_of
from weft.ops.core.pointwise import Elementwise
from weft.ops.core.primitive import PRIMITIVES, Reduction

from .builder import Case, run, ulps

FLOATS = ("float32", "float64")
WHOLE = ("int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64")
TYPES = (*FLOATS, *WHOLE, "bool")
OWN_TEST = {"LogGammaSlope"}  # means nothing outside of its domain
ELEMENTWISE = [
    p for p in PRIMITIVES.values() if isinstance(p, Elementwise) and p.lower is not None and p.title not in OWN_TEST
]
REDUCTIONS = [p for p in PRIMITIVES.values() if isinstance(p, Reduction) and p.combine is not None]
DIVIDES = {"Remainder", "Fmod", "FloorDivide", "TruncDivide"}
PARAMS = {
    "Cast": [{"to": getattr(weft, t)} for t in TYPES],
    "Clone": [{"order": "K"}],
    "Polygamma": [{"n": n} for n in (1, 2, 3, 6)],
}
POLYNOMIALS = {p.title for p in ELEMENTWISE if hasattr(p, "recurrence")}
WAVES = {"BesselJ0", "BesselJ1", "BesselY0", "BesselY1", "SphericalBesselJ0", "AiryAi"}
BESSEL_K = {p.title for p in ELEMENTWISE if "BesselK" in p.title}
# Sums that may cancel: errors count relative to the largest number that takes part, or to 1.
CANCELS = {"Logaddexp", "Logaddexp2", "Lgamma", "Digamma", "LogNdtr", "Sinc", *POLYNOMIALS, *WAVES, *BESSEL_K}
# In float64 SciPy is up to 30 ulp off; test_math and test_special_functions have the exact bounds.
ROUGH = {
    "Erfc",
    "Ndtr",
    "Ndtri",
    "Erfinv",
    "Erfcx",
    "LogNdtr",
    "I0",
    "I0e",
    "I1",
    "I1e",
    "Polygamma",
    *POLYNOMIALS,
    *WAVES,
    *BESSEL_K,
}
POLES = {"Lgamma", "Digamma", *BESSEL_K}  # SciPy loses digits near theirs, and all at denormal numbers
UNSIGNED = {"Relu", "Erfinv", "I1", "I1e"}  # either zero is the larger; SciPy forgets the sign
BOUNDED = {
    **dict.fromkeys(("Sin", "Cos", "Tan", *WAVES), 1e5),  # the range in which angles are reduced on every processor
    **dict.fromkeys(POLYNOMIALS, 30),  # SciPy takes as many steps as the order says,
    "AiryAi": 100,  # SciPy's ends there
    "Zeta": 30,  # as there are terms left of 0,
    "Polygamma": 30,
}
FLOAT_VALUES = (0.0, -0.0, 1.0, -1.0, 0.5, -0.5, 2.0, -2.0, 7.0, 1e-3, 3.5, np.inf, -np.inf, np.nan)


@pytest.fixture(autouse=True, scope="module")
def own_cache(tmp_path_factory):
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("WEFT_CACHE_DIR", str(tmp_path_factory.mktemp("cache")))
        yield


def values(kind: str, count: int) -> list[np.ndarray]:
    """`count` arrays of one length: all combinations of special values, then random ones."""
    dtype, rng = np.dtype(kind), np.random.default_rng(3)
    if kind == "bool":
        edges, drawn = (False, True), rng.integers(0, 2, (count, 40)).astype(np.bool_)
    elif dtype.kind == "f":
        info = np.finfo(dtype)
        edges = (*FLOAT_VALUES, info.max, info.min, info.tiny, info.smallest_subnormal)
        drawn = np.concatenate([rng.normal(0, 2, (count, 500)), rng.uniform(0, 1, (count, 300))], axis=1)
    else:
        info = np.iinfo(dtype)
        edges = [v for v in (0, 1, 2, 3, 7, -1, -2, -7, info.min, info.max, info.max - 1) if v >= info.min]
        drawn = rng.integers(info.min, info.max, (count, 200), dtype=dtype, endpoint=True)
        drawn = np.concatenate([drawn, rng.integers(max(-9, info.min), 9, (count, 200), dtype=dtype)], axis=1)
    grid = [m.ravel() for m in np.meshgrid(*[np.array(edges, dtype)] * count)]
    return [np.concatenate([g, d.astype(dtype)]) for g, d in zip(grid, drawn, strict=True)]


def inputs_of(op: Elementwise, kind: str) -> list[np.ndarray]:
    if op.title == "Where":
        x, other = values(kind, 2)
        return [np.resize([True, False, False], x.shape), x, other]
    arrays = values(kind, op.arity)
    if op.title in DIVIDES and np.dtype(kind).kind in "iu":
        arrays[1] = np.where(arrays[1] == 0, 3, arrays[1]).astype(kind)  # eager refuses to divide by 0
    if op.title == "Pow" and np.dtype(kind).kind == "i":
        arrays[1] = np.maximum(arrays[1], np.iinfo(kind).min + 1)  # whose magnitude is a number of the type
    if op.title in BOUNDED and np.dtype(kind).kind in "iuf":
        arrays = [np.where(np.abs(a.astype(np.float64)) > BOUNDED[op.title], 1, a).astype(kind) for a in arrays]
    return arrays


def native(op: Elementwise, arrays: list[np.ndarray], params: dict[str, Any]) -> Case:
    """The operation as the compiler uses it: operands in the type it wants, the result in the type it states."""
    work, result = op.native_types([a.dtype for a in arrays], params)

    def function(f, *operands):
        if work is not None:
            operands = [f.cast(x, type_of(work)) for x in operands]
        return op.lower(f, *operands, **params)

    return Case(function, arrays, result)


@functools.cache
def computed(kind: str) -> dict[str, list[tuple[list[np.ndarray], dict[str, Any], np.ndarray]]]:
    """For each operation that takes the type: inputs, parameters and native results, from one kernel."""
    found = []
    for op in ELEMENTWISE:
        for params in PARAMS.get(op.title, [{}]):
            arrays = inputs_of(op, kind)
            try:
                found.append((op.title, arrays, params, native(op, arrays, params)))
            except DtypeError:
                break
    results: dict[str, list] = {}
    for (title, arrays, params, _), y in zip(found, run([case for *_, case in found]), strict=True):
        results.setdefault(title, []).append((arrays, params, y))
    return results


def eager(op: Elementwise, arrays: list[np.ndarray], params: dict[str, Any]) -> np.ndarray:
    return op(*(weft.from_numpy(a) for a in arrays), **params).numpy()


def compare(op: Elementwise, arrays: list[np.ndarray], params: dict[str, Any], found: np.ndarray) -> None:
    expected = eager(op, arrays, params)
    assert found.dtype == expected.dtype
    if found.dtype.kind != "f":
        np.testing.assert_array_equal(found, expected)
        return
    error = ulps(found, expected)
    if found.dtype == np.float32:  # or nearer to the result in float64
        wide = [a.astype(np.float64) if a.dtype.kind == "f" else a for a in arrays]
        work, _ = op.native_types([a.dtype for a in arrays], params)
        wide = wide if work is None or arrays[0].dtype.kind == "f" else [a.astype(np.float64) for a in arrays]
        error = np.minimum(error, 2 * ulps(found, eager(op, wide, params))) if not params else error
    if op.title in CANCELS:
        with np.errstate(all="ignore"):
            size = np.max([np.ones(len(found)), *(np.abs(np.nan_to_num(a.astype(np.float64))) for a in arrays)], axis=0)
            near = np.abs(found - expected) <= 8 * np.finfo(found.dtype).eps * size
            if op.title in POLES:
                near |= (arrays[0] < 0) & (np.abs(found - expected) <= 1e-12 * np.abs(expected))
                near |= np.abs(arrays[0]) < np.finfo(found.dtype).tiny
        error = np.where(near, 0, error)
    worst = int(np.argmax(error))
    place = ", ".join(repr(a[worst]) for a in arrays)
    limit = 40 if op.title in ROUGH and found.dtype == np.float64 else 4
    assert error[worst] <= limit, f"{op.title}({place}) = {found[worst]!r}, eagerly {expected[worst]!r}"


@pytest.mark.parametrize("kind", TYPES)
def test_native_code_agrees_with_eager(kind):
    for title, calls in computed(kind).items():
        for arrays, params, found in calls:
            compare(PRIMITIVES[title], arrays, params, found)


def test_operations_are_covered():
    """Every lowered operation was tried in some type, and those of float32 are nearly all."""
    assert {op.title for op in ELEMENTWISE} == {t for kind in TYPES for t in computed(kind)}
    assert len(computed("float32")) >= 75


@pytest.mark.parametrize("kind", FLOATS)
def test_zeros_have_their_signs(kind):
    zeros = np.array([0.0, -0.0], kind)
    for title, calls in computed(kind).items():
        op = PRIMITIVES[title]
        if op.arity != 1 or op.result == "bool":
            continue
        for _, params, found in calls:
            expected = eager(op, [zeros], params)
            if found.dtype.kind == "f" and not np.isnan(expected).any() and title not in UNSIGNED:
                np.testing.assert_array_equal(np.signbit(found[:2]), np.signbit(expected), err_msg=title)


def test_integer_division_by_zero_gives_zero_and_does_not_trap():
    x, zero = np.array([5, -5, 0, -(2**31)], np.int32), np.zeros(4, np.int32)
    ops = [op for op in ELEMENTWISE if op.title in DIVIDES]
    for found in run([native(op, [x, zero], {}) for op in ops]):
        np.testing.assert_array_equal(found, 0)


def test_costs_are_ordered():
    cost = {op.title: op.cost for op in ELEMENTWISE}
    assert cost["Add"] == cost["Mul"] == 1 < cost["Div"] < cost["Exp"] < cost["Pow"]


# ----------------------------------------------------------------------------------------- reductions


def reduced(op: Reduction, x: np.ndarray) -> Case:
    """Partial results in the lanes, combined to one: every lane of the result holds it."""
    _, result = op.native_types([x.dtype], {"dim": (0,), "keepdim": False})
    kind, lanes = type_of(result), jit.Target.host().vector_bytes // 4
    count = len(x)
    parts = np.split(x, count // lanes)

    def function(f, *values):
        total = f.const(kind, op.identity(kind), lanes)
        for value in values:
            value = f.cast(value if op.prepare is None else op.prepare(f, value), kind)
            total = op.combine(f, total, value)
        total = f.fold(total, lambda a, b: op.combine(f, a, b))
        return total if op.finish is None else op.finish(f, total, count)

    return Case(function, parts, result)


@pytest.mark.parametrize("kind", TYPES)
def test_reductions(kind):
    rng = np.random.default_rng(4)
    plain = rng.normal(0, 3, 64) if kind in FLOATS else rng.integers(0, 2 if kind == "bool" else 100, 64)
    inputs = [plain.astype(kind), np.ones(64, kind), np.zeros(64, kind)]
    if kind in FLOATS:
        inputs += [np.where(np.arange(64) == 20, bad, plain).astype(kind) for bad in (np.nan, np.inf, -np.inf)]
    tried = [(op, x) for op in REDUCTIONS for x in inputs if op.title != "Mean" or kind in FLOATS]
    for (op, x), found in zip(tried, run([reduced(op, x) for op, x in tried]), strict=True):
        expected = np.asarray(op.reference(x, dim=(0,), keepdim=False))
        assert found.dtype == expected.dtype, op.title
        if kind in FLOATS:
            np.testing.assert_allclose(found, expected, rtol=64 * np.finfo(kind).eps, err_msg=op.title)
        else:
            np.testing.assert_array_equal(found, expected, err_msg=op.title)


def test_reductions_have_native_code():
    assert {op.title for op in REDUCTIONS} >= {"Sum", "Mean", "Prod", "Amax", "Amin", "AllTrue", "AnyTrue"}
