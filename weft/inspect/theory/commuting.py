"""Whether a layer commutes with what is done to its input: permutations (N2 §5.7), translations (N0 §5.1), anything.

f is equivariant under T if f(T x) = T f(x), and invariant if f(T x) = f(x). Each check runs the layer as it is, in
evaluation mode, and says by how much that fails.
"""

from __future__ import annotations

import contextlib
import dataclasses
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

import weft

from ...errors import OptionError, ShapeError
from ...nn.module import Module
from ...tensor import Tensor, wrap
from ..flops import first_tensor
from ..observe import evaluating

__all__ = [
    *("Symmetry", "equivariance", "invariance", "permutation_equivariance", "permutation_invariance"),
    *("translation_equivariance", "translation_invariance"),
]


@dataclasses.dataclass(frozen=True)
class Symmetry:
    """error: the largest |f(T x) − T f(x)| over all trials, relative to the largest |f(x)|; holds: error ≤ tolerance."""

    error: float
    tolerance: float

    @property
    def holds(self) -> bool:
        return self.error <= self.tolerance

    def __bool__(self) -> bool:
        return self.holds


def equivariance(
    layer: Callable, x: Tensor, change: Callable, change_output: Callable | None = None, tolerance: float = 1e-5
) -> Symmetry:
    """f(T x) = T′ f(x) for one T, given as a function of tensors; T′ is T unless `change_output` is given.

    `layer` is a module or any function; of several results the first tensor counts.

    >>> bool(equivariance(nn.ReLU(), weft.randn(4, 3), lambda x: 2 * x))
    True
    >>> bool(equivariance(nn.Tanh(), weft.randn(4, 3), lambda x: 2 * x))
    False
    """
    with weft.no_grad(), _as_evaluated(layer):
        y = first_tensor(layer(x))
        found, expected = first_tensor(layer(change(x))), (change_output or change)(y)
    if found.shape != expected.shape:
        raise ShapeError(
            f"equivariance: f(T x) has shape {tuple(found.shape)}, T f(x) {tuple(expected.shape)}; give change_output, "
            "what T does to the output"
        )
    return _compared(y, found, expected, tolerance)


def invariance(layer: Callable, x: Tensor, change: Callable, tolerance: float = 1e-5) -> Symmetry:
    """f(T x) = f(x) for one T."""
    return equivariance(layer, x, change, lambda y: y, tolerance)


def permutation_equivariance(
    layer: Callable,
    x: Tensor,
    dim: int = -2,
    trials: int = 5,
    tolerance: float = 1e-5,
    generator: weft.Generator | None = None,
) -> Symmetry:
    """f(P x) = P f(x) for permutations P along `dim` of input and output: what sets want, and attention has (N2 §5.7).

    >>> attention = nn.MultiheadAttention(8, 2, batch_first=True)
    >>> bool(permutation_equivariance(lambda x: attention(x, x, x), weft.randn(3, 5, 8)))
    True
    """
    return _worst(
        equivariance(layer, x, change, None, tolerance) for change in _permutations(x, dim, trials, generator)
    )


def permutation_invariance(
    layer: Callable,
    x: Tensor,
    dim: int = -2,
    trials: int = 5,
    tolerance: float = 1e-5,
    generator: weft.Generator | None = None,
) -> Symmetry:
    """f(P x) = f(x) for permutations P along `dim`: a function of a set."""
    return _worst(invariance(layer, x, change, tolerance) for change in _permutations(x, dim, trials, generator))


def translation_equivariance(
    layer: Callable,
    x: Tensor,
    shift: int | Sequence[int] = 1,
    dims: Sequence[int] = (-1,),
    stride: int = 1,
    border: int = 0,
    tolerance: float = 1e-5,
) -> Symmetry:
    """f(shifted x) = shifted f(x) along `dims` (N0 §5.1), as on a circle; a convolution with circular padding has it.

    `stride` is by how much the layer shortens these dimensions: the output then moves by shift / stride, and only
    multiples of the stride can be asked for. Layers that end at borders, such as those padded with zeros, have it
    away from them: `border` cells at each end of the output are not compared.

    >>> bool(translation_equivariance(nn.Conv1d(2, 3, 3, padding=1), weft.randn(1, 2, 9), border=2))
    True
    """
    shifts = _shifts(shift, dims)
    if any(s % stride for s in shifts):
        raise OptionError(f"translation_equivariance: shifts {shifts} are no multiples of the stride {stride}")
    moved = tuple(s // stride for s in shifts)
    with weft.no_grad(), _as_evaluated(layer):
        y, found = first_tensor(layer(x)), first_tensor(layer(x.roll(shifts, tuple(dims))))
    pairs = [_inner(z, dims, border) for z in (y, found, y.roll(moved, tuple(dims)))]
    return _compared(*pairs, tolerance)


def translation_invariance(
    layer: Callable, x: Tensor, shift: int | Sequence[int] = 1, dims: Sequence[int] = (-1,), tolerance: float = 1e-5
) -> Symmetry:
    """f(shifted x) = f(x) along `dims`, as on a circle: a convolution and a global pool together."""
    return invariance(layer, x, lambda x: x.roll(_shifts(shift, dims), tuple(dims)), tolerance)


def _permutations(x: Tensor, dim: int, trials: int, generator: weft.Generator | None) -> list[Callable]:
    if not -x.ndim <= dim < x.ndim:
        raise OptionError(f"permutations: dim {dim} is outside of an input of shape {tuple(x.shape)}")
    generator = weft.Generator().manual_seed(0) if generator is None else generator
    orders = [wrap(np.argsort(generator.normal((x.shape[dim],), np.float64))) for _ in range(trials)]
    return [lambda y, order=order: y.index_select(dim, order) for order in orders]


def _worst(checks: Any) -> Symmetry:
    return max(checks, key=lambda check: check.error)


def _shifts(shift: int | Sequence[int], dims: Sequence[int]) -> tuple[int, ...]:
    shifts = (shift,) * len(dims) if isinstance(shift, int) else tuple(shift)
    if len(shifts) != len(dims):
        raise OptionError(f"translations: {len(shifts)} shifts for {len(dims)} dimensions; give one for each")
    return shifts


def _as_evaluated(layer: Callable) -> contextlib.AbstractContextManager:
    return evaluating(layer) if isinstance(layer, Module) else contextlib.nullcontext()


def _compared(y: Tensor, found: Tensor, expected: Tensor, tolerance: float) -> Symmetry:
    size, error = (float(z.abs().max()) if z.numel() else 0.0 for z in (y, found - expected))
    return Symmetry(error / size if size else error, tolerance)


def _inner(y: Tensor, dims: Sequence[int], border: int) -> Tensor:
    for dim in dims:
        length = y.shape[dim] - 2 * border
        if length < 1:
            raise OptionError(
                f"translation_equivariance: nothing is left of {tuple(y.shape)} inside a border of {border}"
            )
        y = y.narrow(dim, border, length)
    return y
