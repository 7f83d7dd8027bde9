"""Convolution and cross-correlation of signals, and the classical image filters with fixed kernels."""

from __future__ import annotations

from typing import Any

import weft

from ...errors import InvalidValueError
from ...tensor import Tensor
from .. import functional as F
from ..module import Module

__all__ = ["FILTER_KERNELS", "FixedFilter2d", "convolution", "cross_correlation", "filter_kernel", "gaussian_kernel"]

_CONVOLUTIONS = {1: F.conv1d, 2: F.conv2d, 3: F.conv3d}

FILTER_KERNELS: dict[str, tuple[list[list[float]], float]] = {  # name: (kernel, divisor)
    # N2 §6.2.1
    "identity": ([[0, 0, 0], [0, 1, 0], [0, 0, 0]], 1),
    "edge": ([[0, -1, 0], [-1, 4, -1], [0, -1, 0]], 1),
    "box_blur": ([[1, 1, 1], [1, 1, 1], [1, 1, 1]], 9),
    "sharpen": ([[0, -1, 0], [-1, 5, -1], [0, -1, 0]], 1),
    # N1 example 3.1 ("sharpen" as above; its "original" is printed as a unit matrix, "identity" is what is meant)
    "mean": ([[1] * 5] * 5, 25),
    "gaussian": (
        [[1, 4, 7, 4, 1], [4, 16, 26, 16, 4], [7, 26, 41, 26, 7], [4, 16, 26, 16, 4], [1, 4, 7, 4, 1]],
        273,
    ),
    "sobel_horizontal": ([[-1, 0, 1], [-2, 0, 2], [-1, 0, 1]], 1),
    "sobel_vertical": ([[-1, -2, -1], [0, 0, 0], [1, 2, 1]], 1),
}


def filter_kernel(name: str, dtype: Any = None) -> Tensor:
    """One of the kernels of N1 example 3.1 and N2 §6.2.1 by name: (K, K)."""
    if name not in FILTER_KERNELS:
        raise InvalidValueError(f"filter_kernel: no filter {name!r}; there are {', '.join(FILTER_KERNELS)}")
    rows, divisor = FILTER_KERNELS[name]
    return weft.tensor(rows, dtype=dtype or weft.get_default_dtype()) / divisor


def gaussian_kernel(size: int, sigma: float, dtype: Any = None) -> Tensor:
    """exp(−(i² + j²) / 2σ²) around the middle, divided by its sum: (size, size)."""
    place = weft.arange(size, dtype=dtype or weft.get_default_dtype()) - (size - 1) / 2
    line = (-place.square() / (2 * sigma**2)).exp()
    line = line / line.sum()
    return line.unsqueeze(1) * line.unsqueeze(0)  # (size, size)


class FixedFilter2d(Module):
    """Filter every channel of an image with the same fixed kernel (cross-correlation, N2 §6.2.1).

    The kernel is a buffer: it moves with the module and is not trained.
    Shape: (N, C, H, W) or (C, H, W) → the same with padding 'same', smaller with 'valid'

    kernel: a name of `FILTER_KERNELS`, or a (K, K) tensor
    padding: 'same', 'valid' or how many zeros go on each side
    dtype: the element type of a kernel given by name

    >>> nn.FixedFilter2d("edge")(weft.ones(1, 1, 5, 5))[0, 0, 2, 2]
    tensor(0.)
    """

    def __init__(self, kernel: str | Tensor, padding: Any = "same", dtype: Any = None) -> None:
        super().__init__()
        self.padding = padding
        self.name = kernel if isinstance(kernel, str) else "custom"
        self.register_buffer("kernel", filter_kernel(kernel, dtype) if isinstance(kernel, str) else kernel)

    def forward(self, input: Tensor) -> Tensor:
        channels = input.shape[-3]
        weight = self.kernel.expand(channels, 1, *self.kernel.shape)  # (C, 1, K, K)
        return F.conv2d(input, weight, padding=self.padding, groups=channels)

    def extra_repr(self) -> str:
        return f"{self.name!r}, kernel_size={tuple(self.kernel.shape)}, padding={self.padding!r}"


def cross_correlation(input: Tensor, kernel: Tensor, mode: str = "full") -> Tensor:
    """s(t) = Σ_τ x(t + τ) w(τ): slide the kernel as it is (N2 §6.1.3).

    Shape: (*, L₁ … Lₙ), kernel (K₁ … Kₙ), n = 1, 2, 3 → (*, L′…) with L′ = L + K − 1 for mode 'full' (every overlap),
    L for 'same' (its middle), L − K + 1 for 'valid' (whole overlaps).
    """
    n = kernel.ndim
    if n not in _CONVOLUTIONS or input.ndim < n:
        raise InvalidValueError(
            f"cross_correlation: kernel {tuple(kernel.shape)} needs 1 to 3 dimensions, input as many"
        )
    lead, lengths = input.shape[: input.ndim - n], input.shape[input.ndim - n :]
    x = F.pad(input.reshape(-1, 1, *lengths), _overlap(kernel.shape, mode))  # (Π lead, 1, L + padding …)
    y = _CONVOLUTIONS[n](x, kernel.reshape(1, 1, *kernel.shape))
    return y.reshape(*lead, *y.shape[2:])


def convolution(input: Tensor, kernel: Tensor, mode: str = "full") -> Tensor:
    """(x ∗ w)(t) = Σ_τ x(τ) w(t − τ): the kernel is flipped, so that x ∗ w = w ∗ x (N2 §6.1.2).

    Shapes and modes as `cross_correlation`.
    """
    return cross_correlation(input, kernel.flip(tuple(range(kernel.ndim))), mode)


def _overlap(size: tuple[int, ...], mode: str) -> list[int]:
    """Zeros before and after each dimension, the last one first."""
    sides = {
        "full": [(k - 1, k - 1) for k in size],
        "same": [(k // 2, (k - 1) // 2) for k in size],
        "valid": [(0, 0) for _ in size],
    }
    if mode not in sides:
        raise InvalidValueError(f"mode must be one of {tuple(sides)}, but got {mode!r}")
    return [side for pair in reversed(sides[mode]) for side in pair]
