"""Windows: weights that fade a stretch of a signal out at its ends, for spectra and filters.

`signal.windows.NAME(M, sym=True)` are PyTorch's newer functions, `NAME_window(length, periodic=True)` its
older ones; both take their samples from the same formulas of the place k and the last place n. A window
that is not symmetric (periodic) is a symmetric one of one more sample without the last.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ... import dtypes
from ...device import device as device_type
from ...dtypes import FLOAT, DtypeLike
from ...errors import ArgumentError, DtypeError, InvalidValueError, ShapeError
from ...runtime.lazy import LazyModule
from ...tensor import Tensor
from ..core.operands import python_int
from ..core.primitive import operation
from ..create.create import check_layout, constructor, kind_of, made

special = LazyModule("scipy.special")

Weights = Sequence[float]
BLACKMAN = (0.42, 0.5, 0.08)
NUTTALL = (0.3635819, 0.4891775, 0.1365995, 0.0106411)

# --------------------------------------------------------------------------------------- formulas


def _cosines(k: np.ndarray, last: int, weights: Weights) -> np.ndarray:
    """Σᵢ (−1)ⁱ aᵢ cos(2πik / n)."""
    return sum((-1) ** i * a * np.cos(2 * np.pi * i * k / last) for i, a in enumerate(weights))


def _triangle(k: np.ndarray, last: int) -> np.ndarray:
    """1 − |2k / n − 1|."""
    return 1 - np.abs(2 * k / last - 1)


def _kaiser(k: np.ndarray, last: int, beta: float) -> np.ndarray:
    """I₀(β √(1 − (2k / n − 1)²)) / I₀(β)."""
    return special.i0(beta * np.sqrt(1 - (2 * k / last - 1) ** 2)) / special.i0(beta)


# --------------------------------------------------------------------------------- signal.windows


def window(body: Callable[..., np.ndarray]) -> Callable[..., Tensor]:
    """Publish `signal.windows.NAME(M, *, …)`; `body(k, last, **options)` gives the samples at places k."""
    name = f"signal.windows.{body.__name__}"

    def public(
        M: int,
        *,
        sym: bool = True,
        dtype: DtypeLike | None = None,
        layout: str | None = None,
        device: device_type | str | None = None,
        requires_grad: bool = False,
        **options: Any,
    ) -> Tensor:
        count, kind = python_int(M, name), kind_of(dtype)
        if count < 0:
            raise InvalidValueError(f"{name}: requires non-negative window length, got M={count}")
        if kind not in (dtypes.float32, dtypes.float64):
            raise InvalidValueError(f"{name}: expects float32 or float64 dtypes, got: {kind}")
        check_layout(layout, name)
        samples = body(np.arange(count), count - 1 if sym else count, **options)
        samples = np.ones(1) if count == 1 else np.asarray(samples)
        return made(samples.astype(kind.np), requires_grad, device)

    own = [p for p in inspect.signature(body).parameters.values() if p.kind is inspect.Parameter.KEYWORD_ONLY]
    first, *shared, _ = inspect.signature(public).parameters.values()
    functools.update_wrapper(public, body)
    public.__signature__ = inspect.Signature([first, *own, *shared], return_annotation=Tensor)
    return operation(name, method=False, differentiable=False, kind="constructor")(public)


@window
def bartlett(k: np.ndarray, last: int) -> np.ndarray:
    """The triangle 1 − |2k / n − 1|."""
    return _triangle(k, max(last, 1))


@window
def cosine(k: np.ndarray, last: int) -> np.ndarray:
    """Half a sine wave: sin(π (k + ½) / (n + 1))."""
    return np.sin(np.pi * (k + 0.5) / (last + 1))


@window
def exponential(k: np.ndarray, last: int, *, center: float | None = None, tau: float = 1.0) -> np.ndarray:
    """exp(−|k − center| / tau); the center is n / 2, and free only with sym=False."""
    if tau <= 0:
        raise InvalidValueError(f"signal.windows.exponential: tau must be positive, got {tau}")
    if center is not None and last + 1 == len(k):
        raise InvalidValueError("signal.windows.exponential: center must be None for symmetric windows; give sym=False")
    return np.exp(-np.abs(k - (last / 2 if center is None else center)) / tau)


@window
def gaussian(k: np.ndarray, last: int, *, std: float = 1.0) -> np.ndarray:
    """exp(−½ ((k − n / 2) / std)²)."""
    if std <= 0:
        raise InvalidValueError(f"signal.windows.gaussian: standard deviation must be positive, got {std}")
    return np.exp(-0.5 * ((k - last / 2) / std) ** 2)


@window
def kaiser(k: np.ndarray, last: int, *, beta: float = 12.0) -> np.ndarray:
    """I₀(β √(1 − (2k / n − 1)²)) / I₀(β), I₀ a Bessel function."""
    if beta < 0:
        raise InvalidValueError(f"signal.windows.kaiser: beta must be non-negative, got {beta}")
    return _kaiser(k, max(last, 1), beta)


@window
def general_cosine(k: np.ndarray, last: int, *, a: Weights) -> np.ndarray:
    """Σᵢ (−1)ⁱ aᵢ cos(2πik / n)."""
    if not isinstance(a, (list, tuple)):
        raise ArgumentError(
            f"signal.windows.general_cosine: coefficients must be a list or tuple, got {type(a).__name__}"
        )
    if not a:
        raise InvalidValueError("signal.windows.general_cosine: coefficients cannot be empty")
    return _cosines(k, max(last, 1), a)


@window
def general_hamming(k: np.ndarray, last: int, *, alpha: float = 0.54) -> np.ndarray:
    """α − (1 − α) cos(2πk / n)."""
    return _cosines(k, max(last, 1), (alpha, 1 - alpha))


@window
def hamming(k: np.ndarray, last: int) -> np.ndarray:
    """0.54 − 0.46 cos(2πk / n)."""
    return _cosines(k, max(last, 1), (0.54, 0.46))


@window
def hann(k: np.ndarray, last: int) -> np.ndarray:
    """½ − ½ cos(2πk / n) = sin²(πk / n)."""
    return _cosines(k, max(last, 1), (0.5, 0.5))


@window
def blackman(k: np.ndarray, last: int) -> np.ndarray:
    """0.42 − 0.5 cos(2πk / n) + 0.08 cos(4πk / n)."""
    return _cosines(k, max(last, 1), BLACKMAN)


@window
def nuttall(k: np.ndarray, last: int) -> np.ndarray:
    """The sum of four cosines with the least side lobes (Nuttall 1981)."""
    return _cosines(k, max(last, 1), NUTTALL)


# ------------------------------------------------------------------------------- the older functions


def _older(name: str, length: Any, periodic: bool, dtype: Any, formula: Callable) -> np.ndarray:
    count, kind = python_int(length, name), kind_of(dtype)
    if count < 0:
        raise ShapeError(f"{name}: requires non-negative window_length, got window_length={count}")
    if kind.category != FLOAT:
        raise DtypeError(f"{name}: expects floating point dtypes, got {kind}")
    samples = np.ones(1) if count == 1 else formula(np.arange(count), max(count if periodic else count - 1, 1))
    return np.asarray(samples).astype(kind.np)


@constructor
def hann_window(window_length: int, periodic: bool = True, *, dtype: Any) -> np.ndarray:
    """½ − ½ cos(2πk / n), n the length (less 1 if not periodic)."""
    return _older("hann_window", window_length, periodic, dtype, lambda k, last: _cosines(k, last, (0.5, 0.5)))


@constructor
def hamming_window(
    window_length: int, periodic: bool = True, alpha: float = 0.54, beta: float = 0.46, *, dtype: Any
) -> np.ndarray:
    """α − β cos(2πk / n), n the length (less 1 if not periodic)."""
    return _older("hamming_window", window_length, periodic, dtype, lambda k, last: _cosines(k, last, (alpha, beta)))


@constructor
def blackman_window(window_length: int, periodic: bool = True, *, dtype: Any) -> np.ndarray:
    """0.42 − 0.5 cos(2πk / n) + 0.08 cos(4πk / n), n the length (less 1 if not periodic)."""
    return _older("blackman_window", window_length, periodic, dtype, lambda k, last: _cosines(k, last, BLACKMAN))


@constructor
def bartlett_window(window_length: int, periodic: bool = True, *, dtype: Any) -> np.ndarray:
    """The triangle 1 − |2k / n − 1|, n the length (less 1 if not periodic)."""
    return _older("bartlett_window", window_length, periodic, dtype, _triangle)


@constructor
def kaiser_window(window_length: int, periodic: bool = True, beta: float = 12.0, *, dtype: Any) -> np.ndarray:
    """I₀(β √(1 − (2k / n − 1)²)) / I₀(β), n the length (less 1 if not periodic)."""
    return _older("kaiser_window", window_length, periodic, dtype, lambda k, last: _kaiser(k, last, beta))
