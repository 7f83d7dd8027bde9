"""What the linear-algebra files share: checks of arguments, batches for LAPACK, and triangle weights."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from typing import Any

import numpy as np

from ... import dtypes
from ...errors import ArgumentError, DtypeError, LinAlgError, ShapeError
from ...runtime.threads import ONE_BLAS_THREAD, get_num_threads
from ...tensor import Tensor, wrap
from .contract import adjoint

UNSHARED = 1 << 10  # elements of matrices for which no BLAS takes several threads
EXACT = (dtypes.float32, dtypes.float64, dtypes.complex64, dtypes.complex128)
__all__ = [
    "ByLapack",
    "adjoint",
    "each_matrix",
    "first_failure",
    "identity",
    "lapack",
    "need_finite",
    "need_inexact",
    "need_matrices",
    "need_square",
    "triangle_weights",
]


def need_inexact(name: str, *tensors: Any) -> None:
    """The arguments must be float32, float64, complex64 or complex128 tensors, all of one type."""
    for x in tensors:
        if not isinstance(x, Tensor):
            raise ArgumentError(f"{name}: expected a Tensor, got {type(x).__name__}")
        if x.dtype not in EXACT:
            low = "low precision dtypes are not supported" if x.dtype.is_floating_point else ""
            raise DtypeError(
                f"{name}: expected a floating point or complex tensor as input, got {x.dtype}"
                f"{f' ({low})' if low else ''}; convert it with .float() or .double()"
            )
        if x.dtype is not tensors[0].dtype:
            raise DtypeError(
                f"{name}: expected all tensors to have the same dtype, but found {tensors[0].dtype} and {x.dtype}; "
                "convert one with .to(...)"
            )


def need_matrices(name: str, x: Tensor, role: str = "the input tensor") -> None:
    """`x` must have at least two dimensions."""
    if not isinstance(x, Tensor):
        raise ArgumentError(f"{name}: {role} must be a Tensor, got {type(x).__name__}")
    if x.ndim < 2:
        raise ShapeError(
            f"{name}: {role} must have at least 2 dimensions, got shape {tuple(x.shape)}; unsqueeze a vector into a "
            "matrix"
        )


def need_square(name: str, x: Tensor, role: str = "A") -> None:
    """`x` must be a batch of square matrices."""
    need_matrices(name, x, role)
    if x.shape[-1] != x.shape[-2]:
        raise ShapeError(
            f"{name}: {role} must be batches of square matrices, but they are {x.shape[-2]} by {x.shape[-1]} matrices "
            f"(shape {tuple(x.shape)}); for rectangular ones see linalg.lstsq and linalg.pinv"
        )


@functools.lru_cache(maxsize=256)
def lapack(name: str, kind: np.dtype) -> Callable:
    """SciPy's LAPACK or BLAS routine for an element type: lapack('getrf', float64) is dgetrf."""
    from scipy.linalg import blas
    from scipy.linalg import lapack as routines

    full = {"f": "s", "d": "d", "F": "c", "D": "z"}[kind.char] + name
    routine = getattr(routines, full, None) or getattr(blas, full)

    @functools.wraps(routine)
    def alone(*args: Any, **options: Any) -> Any:
        with ONE_BLAS_THREAD:
            return routine(*args, **options)

    return alone


class ByLapack:
    """Of primitives that LAPACK computes: on one thread, because how BLAS shares its work out shows in the last bits."""

    def compute(self, *arrays: Any, **params: Any) -> Any:
        if get_num_threads() == 1 or all(math.prod(a.shape[-2:]) <= UNSHARED for a in arrays):
            return self.reference(*arrays, **params)
        with ONE_BLAS_THREAD:
            return self.reference(*arrays, **params)


def each_matrix(function: Callable, *arrays: np.ndarray) -> tuple[np.ndarray, ...]:
    """`function` of every matrix (or tuple of matrices) of the broadcast batch, its results stacked."""
    batch = np.broadcast_shapes(*(a.shape[:-2] for a in arrays))
    count = math.prod(batch)
    spread = [np.broadcast_to(a, batch + a.shape[-2:]).reshape(count, *a.shape[-2:]) for a in arrays]
    rows = [function(*matrices) for matrices in zip(*spread, strict=True)]
    if not rows:  # an empty batch: the identity tells the shapes
        rows = [function(*(np.eye(*a.shape[-2:], dtype=a.dtype) for a in arrays))]
    return tuple(np.stack(c)[:count].reshape(batch + np.shape(c[0])) for c in zip(*rows, strict=True))


def first_failure(name: str, info: np.ndarray, what: str) -> None:
    """Raise LinAlgError for the first matrix of the batch whose LAPACK info is not 0; `{}` in `what` is the info."""
    bad = np.flatnonzero(info)
    if bad.size:
        where = f"(Batch element {bad[0]}): " if info.ndim else ""
        raise LinAlgError(f"{name}: {where}{what.format(int(info.reshape(-1)[bad[0]]))}")


def need_finite(name: str, a: np.ndarray, uplo: str = "") -> None:
    """Refuse inf and NaN in what an iterative routine of LAPACK reads: it may never return from them.

    `uplo`: 'L' or 'U' where only that triangle is read.
    """
    finite = np.isfinite(a)
    if finite.all():
        return
    unread = {"L": np.triu(np.ones(a.shape[-2:], bool), 1), "U": np.tril(np.ones(a.shape[-2:], bool), -1)}.get(uplo)
    bad = ~finite if unread is None else ~finite & ~unread
    first_failure(
        name,
        np.asarray(bad.any((-2, -1)), np.int32),
        "The algorithm failed to converge because the input matrix contained non-finite values: input tensor should "
        "not contain infs or NaNs; find them with ~x.isfinite()",
    )


def identity(x: Tensor, size: int | None = None) -> Tensor:
    """The identity matrix in the type of `x`, of its last size unless given."""
    return wrap(np.eye(x.shape[-1] if size is None else size, dtype=x.dtype.np))


@functools.lru_cache(maxsize=256)
def _weights(size: int, below: float, on: float, above: float, kind: np.dtype) -> np.ndarray:
    weights = np.tri(size, k=-1) * below + np.eye(size) * on + np.tri(size, k=-1).T * above
    weights = weights.astype(kind)
    weights.flags.writeable = False
    return weights


def triangle_weights(x: Tensor, below: float, on: float, above: float) -> Tensor:
    """A constant square matrix with one number below, on and above the diagonal."""
    return wrap(_weights(x.shape[-1], below, on, above, x.dtype.to_real().np))
