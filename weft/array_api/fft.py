"""The Fourier extension of the standard."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import weft

from ..dtypes import as_dtype
from .array import Array, check_device, need_array
from .types import default_float

__all__ = [
    "fft",
    "fftfreq",
    "fftn",
    "fftshift",
    "hfft",
    "ifft",
    "ifftn",
    "ifftshift",
    "ihfft",
    "irfft",
    "irfftn",
    "rfft",
    "rfftfreq",
    "rfftn",
]


def _along_one(name: str, text: str) -> Callable[..., Array]:
    operation = getattr(weft.fft, name)

    def function(x: Array, /, *, n: int | None = None, axis: int = -1, norm: str = "backward") -> Array:
        return Array(operation(need_array(name, x), n, axis, norm))

    function.__name__ = function.__qualname__ = name
    function.__doc__ = f"{text} along one axis."
    return function


def _along_many(name: str, text: str) -> Callable[..., Array]:
    operation = getattr(weft.fft, name)

    def function(
        x: Array, /, *, s: Sequence[int] | None = None, axes: Sequence[int] | None = None, norm: str = "backward"
    ) -> Array:
        return Array(operation(need_array(name, x), s, axes, norm))

    function.__name__ = function.__qualname__ = name
    function.__doc__ = f"{text} along several axes."
    return function


fft = _along_one("fft", "The discrete Fourier transform")
ifft = _along_one("ifft", "The inverse discrete Fourier transform")
rfft = _along_one("rfft", "The non-negative frequencies of the transform of a real signal,")
irfft = _along_one("irfft", "The real signal with the given non-negative frequencies,")
hfft = _along_one("hfft", "The transform of a Hermitian signal,")
ihfft = _along_one("ihfft", "The inverse of hfft,")
fftn = _along_many("fftn", "The discrete Fourier transform")
ifftn = _along_many("ifftn", "The inverse discrete Fourier transform")
rfftn = _along_many("rfftn", "The non-negative frequencies of the transform of a real signal")
irfftn = _along_many("irfftn", "The real signal with the given non-negative frequencies")


def fftfreq(n: int, /, *, d: float = 1.0, dtype: Any = None, device: Any = None) -> Array:
    """The n frequencies of fft for samples d apart."""
    check_device(device)
    return Array(weft.fft.fftfreq(n, d, dtype=default_float() if dtype is None else as_dtype(dtype)))


def rfftfreq(n: int, /, *, d: float = 1.0, dtype: Any = None, device: Any = None) -> Array:
    """The ⌊n/2⌋ + 1 frequencies of rfft for samples d apart."""
    check_device(device)
    return Array(weft.fft.rfftfreq(n, d, dtype=default_float() if dtype is None else as_dtype(dtype)))


def fftshift(x: Array, /, *, axes: int | Sequence[int] | None = None) -> Array:
    """Frequency 0 moved to the middle."""
    return Array(weft.fft.fftshift(need_array("fftshift", x), axes))


def ifftshift(x: Array, /, *, axes: int | Sequence[int] | None = None) -> Array:
    """The inverse of fftshift."""
    return Array(weft.fft.ifftshift(need_array("ifftshift", x), axes))
