"""Samples of the Ising model: spins ±1 on a grid that like to agree with their neighbours.

    E(s) = −J Σ₍ᵢⱼ₎ sᵢ sⱼ − h Σᵢ sᵢ,     P(s) ∝ exp(−E(s) / T)

The grid is a torus of any dimension: the sum runs over each place and its next neighbour along each axis, the last
next to the first. An axis of size 1 has no neighbours; along one of size 2 the pair counts twice. In two dimensions with
h = 0 order appears below T = 2J / ln(1 + √2) ≈ 2.269 J (Onsager).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import ArrayLike, NDArray

import weft

from ...errors import OptionError, ShapeError
from ...tensor import Tensor
from .common import check_count, real, stream

__all__ = ["ising", "ising_energy"]


def ising(
    n: int = 100,
    size: int | Sequence[int] = 16,
    temperature: float | ArrayLike = 2.269,
    *,
    coupling: float = 1.0,
    field: float = 0.0,
    sweeps: int = 200,
    method: str = "gibbs",
    seed: int | None = None,
    generator: weft.Generator | None = None,
) -> Tensor:
    """n independent samples, each the end of its own chain of `sweeps` updates of all spins from a random start.

    size: L for a square L × L, or one size an axis. temperature: one for all or one a sample, (n,).
    method: "gibbs" draws each spin from its distribution given its neighbours, P(sᵢ = 1 | rest) = σ(2 fᵢ / T) with
    fᵢ = J Σⱼ sⱼ + h; "metropolis" proposes, with probability 0.9, to flip it, and accepts with probability
    min(1, exp(−2 sᵢ fᵢ / T)). Places of one colour of a colouring without equal neighbours are updated together.
    Near and below the critical temperature large grids need more sweeps.
    Shape: (n, *size), ±1

    Example:
        >>> from weft.data.synthetic import ising
        >>> ising(4, 8, temperature=0.1, field=5.0, sweeps=10, seed=0).mean().item()
        1.0
    """
    shape = (size, size) if isinstance(size, int) else tuple(size)
    check_count("ising", n=n, sweeps=sweeps)
    check_count("ising", 1, **{f"size[{axis}]": length for axis, length in enumerate(shape)})
    update = _method(method)
    beta = _inverse_temperature(temperature, n, len(shape))
    generator = stream("ising", seed, generator)
    spins = 1.0 - 2 * generator.integers(0, 2, (n, *shape))
    colours = _colouring(shape)
    for _ in range(sweeps):
        for colour in range(colours.max() + 1):
            force = 2 * beta * (coupling * _neighbours(spins) + field)
            proposed = update(generator.uniform(spins.shape, np.float64), spins, force)
            spins = np.where(colours == colour, proposed, spins)
    return real(spins)


def ising_energy(spins: Tensor | ArrayLike, *, coupling: float = 1.0, field: float = 0.0) -> Tensor:
    """E(s) = −J Σ₍ᵢⱼ₎ sᵢ sⱼ − h Σᵢ sᵢ of each sample. Shape: (n, *size) → (n,)

    Example:
        >>> import weft
        >>> from weft.data.synthetic import ising_energy
        >>> ising_energy(weft.ones(1, 4, 4)).item()  # two bonds a place
        -32.0
    """
    s = np.asarray(spins, np.float64)
    if s.ndim < 2:
        raise ShapeError(
            f"ising_energy: expected spins of shape (n, *size), got {s.shape}; unsqueeze(0) for one sample"
        )
    axes = tuple(range(1, s.ndim))
    return real(-(0.5 * coupling * s * _neighbours(s) + field * s).sum(axes))


def _neighbours(s: NDArray) -> NDArray:
    """The sum of the spins before and after each place, along every axis of more than one place. (n, *size)"""
    axes = [axis for axis in range(1, s.ndim) if s.shape[axis] > 1]
    return sum((np.roll(s, step, axis) for axis in axes for step in (1, -1)), np.zeros_like(s))


def _gibbs(uniform: NDArray, spins: NDArray, force: NDArray) -> NDArray:
    with np.errstate(over="ignore"):  # exp(-force) = ∞ stands for a probability of 0
        return np.where(uniform < 1 / (1 + np.exp(-force)), 1.0, -1.0)


def _metropolis(uniform: NDArray, spins: NDArray, force: NDArray) -> NDArray:
    """One number decides: below PROPOSED · min(1, exp(−s f)) the spin is proposed and its flip accepted."""
    return np.where(uniform < PROPOSED * np.exp(np.minimum(-spins * force, 0)), -spins, spins)


# Were all flips of one colour proposed at once, the walls between domains of a ring would march in step and never meet.
PROPOSED = 0.9
UPDATES: dict[str, Callable[[NDArray, NDArray, NDArray], NDArray]] = {"gibbs": _gibbs, "metropolis": _metropolis}


def _method(name: str) -> Callable[[NDArray, NDArray, NDArray], NDArray]:
    if name not in UPDATES:
        raise OptionError(f"ising: expected method to be one of {', '.join(map(repr, UPDATES))}, got {name!r}")
    return UPDATES[name]


def _inverse_temperature(temperature: float | ArrayLike, n: int, axes: int) -> NDArray:
    """1 / T, shaped to broadcast against (n, *size)."""
    t = np.asarray(temperature, np.float64)
    if t.shape not in ((), (n,)):
        raise ShapeError(f"ising: expected one temperature or {n} of them, got an array of shape {t.shape}")
    if not np.all(t > 0):
        raise OptionError(f"ising: expected temperatures above 0, got {t.min()}")
    return 1 / t.reshape(-1, *[1] * axes)


def _colouring(shape: tuple[int, ...]) -> NDArray[np.int64]:
    """Colours 0, 1 (and 2, where a cycle is odd) such that neighbours differ: the sum of each axis's colours.

    Along an even cycle 0101…, along an odd one 0101…2: next neighbours differ by ±1 or ±2, which is never 0 modulo 3.
    """
    colours = np.zeros(shape, np.int64)
    for axis, length in enumerate(shape):
        along = np.arange(length) % 2
        if length % 2 and length > 1:
            along[-1] = 2
        colours += along.reshape([-1 if a == axis else 1 for a in range(len(shape))])
    return colours % (3 if any(length % 2 and length > 1 for length in shape) else 2)
