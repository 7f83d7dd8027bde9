"""Fourier transforms of lines and of windows of them, the windows, and mel filters."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

import weft

from ...dtypes import dtype as element
from ...tensor import Tensor
from ..tensors import ELEMENT_TYPES
from .registry import ints, rule


def _complex(x: Tensor) -> Tensor:
    """(…, 1) real or (…, 2) with real and imaginary parts → complex (…)."""
    return weft.complex(x.select(-1, 0), x.select(-1, 1) if x.shape[-1] == 2 else weft.zeros_like(x.select(-1, 0)))


def _parts(x: Tensor) -> Tensor:
    return weft.stack([x.real, x.imag], -1)


def _transformed(x: Tensor, length: Any, axis: int, inverse: int, onesided: int) -> Tensor:
    axis = axis % x.ndim
    whole = 2 * (x.shape[axis] - 1) if inverse and onesided else x.shape[axis]
    count = whole if length is None else int(length.reshape(-1)[0])
    line = _complex(x)
    if inverse and onesided:
        return weft.fft.irfft(line, count, axis).unsqueeze(-1)
    y = (weft.fft.ifft if inverse else weft.fft.fft)(line, count, axis)
    return _parts(y.narrow(axis, 0, count // 2 + 1) if onesided else y)


@rule("DFT", 17, numbers=(1,))
def dft_old(x: Tensor, length: Any = None, *, axis: int = 1, inverse: int = 0, onesided: int = 0) -> Tensor:
    return _transformed(x, length, axis, inverse, onesided)


@rule("DFT", 20, numbers=(1, 2))
def dft(x: Tensor, length: Any = None, axis: Any = None, *, inverse: int = 0, onesided: int = 0) -> Tensor:
    return _transformed(x, length, -2 if axis is None else int(axis.reshape(-1)[0]), inverse, onesided)


@rule("STFT", numbers=(1, 3), fixed=(2,))
def stft(x: Tensor, step: np.ndarray, window: Tensor | None = None, length: Any = None, *, onesided: int = 1) -> Tensor:
    """(B, T, 1 or 2) → (B, frames, bins, 2)."""
    size = window.shape[0] if length is None and window is not None else int(length.reshape(-1)[0])
    hop = ints(step)[0]
    line = _complex(x) if x.ndim == 3 else x
    frames = line.unfold(1, size, hop)  # (B, frames, size)
    frames = frames if window is None else frames * window
    y = weft.fft.fft(frames, size, -1)
    return _parts(y.narrow(-1, 0, size // 2 + 1) if onesided else y)


def _window(size: Any, terms: tuple[float, ...], periodic: int, output: int) -> Tensor:
    """Σ (−1)ᵏ aₖ cos(2πkn / N)."""
    count = ints(size)[0]
    angles = 2 * math.pi * np.arange(count) / (count if periodic else max(count - 1, 1))
    made = sum((-1) ** k * a * np.cos(k * angles) for k, a in enumerate(terms))
    return weft.tensor(made, dtype=element.by_numpy[ELEMENT_TYPES[output]])


@rule("HannWindow", numbers=(0,))
def hann_window(size: np.ndarray, *, output_datatype: int = 1, periodic: int = 1) -> Tensor:
    return _window(size, (0.5, 0.5), periodic, output_datatype)


@rule("HammingWindow", numbers=(0,))
def hamming_window(size: np.ndarray, *, output_datatype: int = 1, periodic: int = 1) -> Tensor:
    return _window(size, (25 / 46, 21 / 46), periodic, output_datatype)


@rule("BlackmanWindow", numbers=(0,))
def blackman_window(size: np.ndarray, *, output_datatype: int = 1, periodic: int = 1) -> Tensor:
    return _window(size, (0.42, 0.5, 0.08), periodic, output_datatype)


@rule("MelWeightMatrix", numbers=(0, 1, 2, 3, 4))
def mel_weight_matrix(bins: Any, length: Any, rate: Any, low: Any, high: Any, *, output_datatype: int = 1) -> Tensor:
    """(spectrum bins, mel bins): triangles whose corners are equally far apart in mel."""
    count, size, sampling = ints(bins)[0], ints(length)[0], ints(rate)[0]
    mel = lambda hertz: 2595 * np.log10(1 + float(hertz.reshape(())) / 700)
    corners = mel(low) + np.arange(count + 2) * ((mel(high) - mel(low)) / (count + 2))
    places = np.floor((size + 1) * 700 * (10 ** (corners / 2595) - 1) / sampling).astype(np.int64)
    made = np.zeros((size // 2 + 1, count))
    for k in range(count):
        first, peak, last = places[k : k + 3]
        if peak == first:
            made[peak, k] = 1
        else:
            made[first : peak + 1, k] = (np.arange(first, peak + 1) - first) / (peak - first)
        if last > peak:
            made[peak:last, k] = (last - np.arange(peak, last)) / (last - peak)
    return weft.tensor(made, dtype=element.by_numpy[ELEMENT_TYPES[output_datatype]])
