"""Shapes, element types and parameters of random draws: what is allowed, and what is said otherwise."""

import operator
import warnings
from collections.abc import Sequence
from typing import NamedTuple

import ml_dtypes
import numpy as np
from numpy.typing import ArrayLike, DTypeLike, NDArray

from ..errors import DtypeError, GeneratorError

__all__ = ["FLOATS", "RandomError", "Shape"]

Shape = int | Sequence[int]


class RandomError(GeneratorError, ValueError):
    """A parameter that no distribution has, or bytes that are no state; also a RuntimeError, as PyTorch's."""


class _Float(NamedTuple):
    """What a sampler asks about a floating dtype; it holds every integer up to `exact`."""

    exact: int
    largest: float
    tiny: float


def _describe(dtype: DTypeLike, bits: int) -> tuple[np.dtype, _Float]:
    limits = ml_dtypes.finfo(dtype)
    return np.dtype(dtype), _Float(2**bits, float(limits.max), float(limits.smallest_normal))


FLOATS = dict(map(_describe, (np.float16, ml_dtypes.bfloat16, np.float32, np.float64), (11, 8, 24, 53)))


def _check(condition: bool, message: str) -> None:
    if not condition:
        raise RandomError(message)


def _check_all(good: ArrayLike, values: ArrayLike, expectation: str) -> None:
    good = np.asarray(good)
    if not good.all():
        raise RandomError(f"{expectation}, but found {np.asarray(values)[~good].flat[0]}")


def _shape(shape: Shape) -> tuple[int, ...]:
    sizes = (shape,) if hasattr(shape, "__index__") else tuple(shape)
    sizes = tuple(operator.index(size) for size in sizes)
    for size in sizes:
        _check(size >= 0, f"Trying to create tensor with negative dimension {size}: {list(sizes)}")
    return sizes


def _floating(dtype: DTypeLike, name: str, complex_too: bool = False) -> np.dtype:
    dtype = np.dtype(dtype)
    if dtype in FLOATS or (complex_too and dtype in (np.complex64, np.complex128)):
        return dtype
    known = ", ".join(str(kind) for kind in FLOATS)
    raise DtypeError(f'"{name}" not implemented for {dtype}: expected one of {known}')


def _wide(dtype: np.dtype) -> np.dtype:
    """The dtype that numbers of this dtype are computed in."""
    return dtype if dtype == np.float64 else np.dtype(np.float32)


def _part(dtype: np.dtype) -> np.dtype:
    return np.dtype(np.float32 if dtype == np.complex64 else np.float64)


def _join_parts(parts: NDArray, dtype: np.dtype) -> NDArray:
    return np.ascontiguousarray(parts).view(dtype)[..., 0]  # (…, 2) → (…, 1) → (…)


def _affine(z: NDArray, mean: ArrayLike, std: ArrayLike) -> NDArray:
    """mean + std · z, in place."""
    if np.ndim(std) or std != 1:
        z *= np.asarray(std, z.real.dtype)
    if np.ndim(mean) or mean != 0:
        z += np.asarray(mean, z.dtype)
    return z


def _round(x: NDArray, dtype: np.dtype) -> NDArray:
    with np.errstate(over="ignore"):
        return np.asarray(x).astype(dtype, copy=False)


def _saturate(x: NDArray, dtype: np.dtype) -> NDArray:
    """Whole float64 numbers ≥ 0 as dtype; those beyond an integer dtype become its largest number."""
    if dtype.kind not in "iu":
        return _round(x, dtype)
    largest = np.iinfo(dtype).max
    fits = x < float(largest)
    return np.where(fits, np.where(fits, x, 0.0).astype(dtype), dtype.type(largest))


def _result_dtype(dtype: DTypeLike | None, name: str, *parameters: ArrayLike, any_kind: bool = False) -> np.dtype:
    """The dtype asked for, or that of the floating arrays among the parameters, or float32."""
    if dtype is not None:
        return np.dtype(dtype) if any_kind else _floating(dtype, name)
    found = [p.dtype for p in parameters if isinstance(p, np.ndarray) and p.dtype in FLOATS]
    return np.result_type(*found) if found else np.dtype(np.float32)


def _parameters(*parameters: ArrayLike) -> tuple[tuple[int, ...], list[NDArray]]:
    """The common shape, and each parameter in float64, broadcast to it and flat."""
    arrays = np.broadcast_arrays(*(np.asarray(parameter, np.float64) for parameter in parameters))
    return arrays[0].shape, [np.ascontiguousarray(array).reshape(-1) for array in arrays]


def _largest_integer(dtype: np.dtype) -> int:
    """The largest n such that dtype holds 0, 1, …, n."""
    if dtype == np.bool_:
        return 1
    return int(np.iinfo(dtype).max) if dtype.kind in "iu" else FLOATS[_floating(dtype, "random_")].exact


def _check_integers(first: int, last: int, dtype: np.dtype) -> None:
    smallest, largest = _integer_limits(dtype)
    _check(first >= smallest, f"from={first} is out of bounds for {dtype}, whose smallest value is {smallest}")
    _check(last <= largest, f"to - 1={last} is out of bounds for {dtype}, whose largest value is {largest}")
    if dtype in FLOATS and max(-first, last) > FLOATS[dtype].exact:
        exact = FLOATS[dtype].exact
        message = f"integers from {first} to {last}: {dtype} holds every integer only in [-{exact}, {exact}]"
        warnings.warn(message, stacklevel=4)


def _integer_limits(dtype: np.dtype) -> tuple[int, int]:
    """The integers that `integers` may draw: a dtype's own, within those of 64 bits."""
    if dtype in FLOATS:
        largest = int(min(FLOATS[dtype].largest, 2**63 - 1))
        return max(-largest, -(2**63)), largest
    largest = _largest_integer(dtype)
    return 0 if dtype == np.bool_ else int(np.iinfo(dtype).min), largest


def _check_bounds(low: float, high: float, dtype: np.dtype) -> None:
    largest = FLOATS[dtype].largest
    if -largest <= low <= high <= largest and high - low <= largest:
        return
    _check(abs(low) <= largest, f"uniform_: from={low} is out of bounds for {dtype}")
    _check(abs(high) <= largest, f"uniform_: to={high} is out of bounds for {dtype}")
    _check(low <= high, f"uniform_ expects to return a [from, to) range, but found from={low} > to={high}")
    raise RandomError(f"uniform_ expects to-from <= {largest}, but found to={high} and from={low}")


def _check_weights(weights: NDArray, num_samples: int, replacement: bool) -> None:
    _check(weights.ndim in (1, 2), f"prob_dist must be 1 or 2 dim, got shape {weights.shape}")
    if weights.dtype not in FLOATS:
        raise DtypeError(f"multinomial only supports floating-point dtypes for input, got: {weights.dtype}")
    _check(num_samples > 0, f"cannot sample n_sample <= 0 samples, got {num_samples}")
    if not replacement and num_samples > weights.shape[-1]:
        found = f"{num_samples} from shape {weights.shape}"
        raise RandomError(f"cannot sample n_sample > prob_dist.size(-1) samples without replacement: {found}")
    valid = (weights >= 0) & (weights < np.inf)
    _check_all(valid, weights, "probability tensor contains either `inf`, `nan` or element < 0")
    drawable = np.count_nonzero(weights, axis=-1)
    _check(np.all(drawable > 0), "invalid multinomial distribution (sum of probabilities <= 0)")
    if not replacement:
        few = f"invalid multinomial distribution (n_sample={num_samples} without replacement needs as many"
        _check_all(drawable >= num_samples, drawable, f"{few} categories of non-zero probability)")
