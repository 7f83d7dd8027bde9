"""Gaussian mixtures whose modes are known, and digits stacked into colours: what shows that a generator has lost modes."""

from __future__ import annotations

import numpy as np

import weft

from ...errors import OptionError, ShapeError
from ...tensor import Tensor
from .common import check_count, check_noise, labelled, real, stream

__all__ = ["gaussian_grid", "gaussian_ring", "grid_centres", "ring_centres", "stacked_digits"]


def ring_centres(modes: int = 8, radius: float = 1.0) -> Tensor:
    """radius · (cos 2πk/K, sin 2πk/K): (K, 2)

    Example:
        >>> from weft.data.synthetic import ring_centres
        >>> ring_centres(4).round(decimals=3).tolist()
        [[1.0, 0.0], [0.0, 1.0], [-1.0, 0.0], [-0.0, -1.0]]
    """
    check_count("ring_centres", 1, modes=modes)
    angle = 2 * np.pi * np.arange(modes) / modes
    return real(radius * np.stack([np.cos(angle), np.sin(angle)], 1))


def gaussian_ring(
    n: int = 100,
    noise: float = 0.02,
    *,
    modes: int = 8,
    radius: float = 1.0,
    seed: int | None = None,
    generator: weft.Generator | None = None,
) -> tuple[Tensor, Tensor]:
    """Gaussians of standard deviation `noise` around `ring_centres`, each point of a mode drawn at random.

    Shape: points (n, 2), modes (n,)

    Example:
        >>> from weft.data.synthetic import gaussian_ring, ring_centres
        >>> points, modes = gaussian_ring(1000, seed=0)
        >>> bool((points - ring_centres()[modes]).norm(dim=1).max() < 0.1)
        True
    """
    return _around("gaussian_ring", n, noise, ring_centres(modes, radius), seed, generator)


def grid_centres(side: int = 5, spacing: float = 2.0) -> Tensor:
    """A square of side × side points about 0, row by row: (side², 2)

    Example:
        >>> from weft.data.synthetic import grid_centres
        >>> grid_centres(2).tolist()
        [[-1.0, -1.0], [-1.0, 1.0], [1.0, -1.0], [1.0, 1.0]]
    """
    check_count("grid_centres", 1, side=side)
    line = spacing * (np.arange(side) - (side - 1) / 2)
    return real(np.stack(np.meshgrid(line, line, indexing="ij"), -1).reshape(-1, 2))  # (side, side, 2) → (side², 2)


def gaussian_grid(
    n: int = 100,
    noise: float = 0.05,
    *,
    side: int = 5,
    spacing: float = 2.0,
    seed: int | None = None,
    generator: weft.Generator | None = None,
) -> tuple[Tensor, Tensor]:
    """Gaussians of standard deviation `noise` around `grid_centres`, each point of a mode drawn at random.

    Shape: points (n, 2), modes (n,)

    Example:
        >>> from weft.data.synthetic import gaussian_grid
        >>> points, modes = gaussian_grid(10_000, seed=0)
        >>> modes.bincount().min().item() > 300
        True
    """
    return _around("gaussian_grid", n, noise, grid_centres(side, spacing), seed, generator)


def stacked_digits(
    images: Tensor,
    labels: Tensor,
    n: int,
    *,
    seed: int | None = None,
    generator: weft.Generator | None = None,
) -> tuple[Tensor, Tensor]:
    """Three images drawn at random as red, green and blue: of ten digits 1,000 modes (stacked MNIST, Metz et al. 2017).

    The mode is 100 red + 10 green + blue. Shape: images (N, 1, H, W) or (N, H, W), labels (N,) → (n, 3, H, W), (n,)

    Example:
        >>> from weft.data.synthetic import stacked_digits
        >>> colours, modes = stacked_digits(weft.zeros(5, 1, 4, 4), weft.full((5,), 7), 2, seed=0)
        >>> colours.shape, modes.tolist()
        (weft.Size([2, 3, 4, 4]), [777, 777])
    """
    check_count("stacked_digits", n=n)
    if images.dim() == 4 and images.shape[1] == 1:
        images = images.squeeze(1)
    if images.dim() != 3 or tuple(labels.shape) != (len(images),) or not len(images):
        raise ShapeError(
            f"stacked_digits: expected grey images (N, 1, H, W) with labels (N,), got {tuple(images.shape)} and "
            f"{tuple(labels.shape)}"
        )
    if labels.is_floating_point() or labels.min() < 0 or labels.max() > 9:
        raise OptionError("stacked_digits: expected labels of ten classes, whole numbers from 0 to 9")
    chosen = weft.as_tensor(stream("stacked_digits", seed, generator).integers(0, len(images), (n, 3)))
    return images[chosen], (labels[chosen] * weft.tensor([100, 10, 1])).sum(1)  # (n, 3, H, W), (n,)


def _around(
    name: str, n: int, noise: float, centres: Tensor, seed: int | None, generator: weft.Generator | None
) -> tuple[Tensor, Tensor]:
    check_count(name, n=n)
    check_noise(name, noise)
    generator = stream(name, seed, generator)
    modes = generator.integers(0, len(centres), (n,))
    return labelled(centres.double().numpy()[modes], modes, noise, False, generator)
