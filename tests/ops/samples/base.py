"""How a test input is described, so that PyTorch and Weft can be given the same one.

A `T` describes a tensor: its shape, the kind of its elements and the range they are drawn from. An
`S` is one call: positional and keyword arguments, some of which are `T`s (also inside lists).
"""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np


@dataclasses.dataclass(frozen=True)
class T:
    """A tensor argument.

    kind: 'float' (takes the dtype under test, gradient wanted), 'fixed' (takes the dtype under test,
    no gradient), 'index' (int64 in [low, high)), 'bool', 'spd' (symmetric positive definite, dtype under
    test), 'complex' (complex of the dtype under test), or the name of an element type.
    distinct: no two elements are closer than some gap (for sorting, max and their gradients).
    """

    shape: tuple[int, ...] = (3, 4)
    low: float = -2.0
    high: float = 2.0
    kind: str = "float"
    distinct: bool = False

    def draw(self, rng: np.random.Generator, dtype: str) -> np.ndarray:
        """A NumPy array for this description; `dtype` is the type under test."""
        return np.asarray(self._draw(rng, dtype))

    def _draw(self, rng: np.random.Generator, dtype: str) -> np.ndarray:
        shape = self.shape
        if self.kind == "index":
            return rng.integers(int(self.low), int(self.high), shape)
        if self.kind == "bool":
            return rng.random(shape) < 0.5
        name = dtype if self.kind in ("float", "fixed", "spd", "complex") else self.kind
        if name == "bool":
            return rng.random(shape) < 0.5
        if name.startswith(("int", "uint")):
            low = max(int(np.ceil(self.low)), 0 if name.startswith("u") else -100)
            return rng.integers(low, max(int(self.high) + 3, low + 1), shape).astype(name)
        values = np.asarray(self._floats(rng))
        if self.kind == "spd" and len(shape) > 1:
            values = values @ np.swapaxes(values, -1, -2) + 2 * np.eye(shape[-1])
        if self.kind == "complex" or name.startswith("complex"):
            values = values + 1j * self._floats(rng)
            return values.astype("complex64" if name in ("float32", "complex64") else "complex128")
        if name == "bfloat16":
            import ml_dtypes

            return values.astype(ml_dtypes.bfloat16)
        return values.astype(name)

    def __repr__(self) -> str:
        return f"T({self.shape}{'' if self.kind == 'float' else ', ' + self.kind})"

    def _floats(self, rng: np.random.Generator) -> np.ndarray:
        count = int(np.prod(self.shape))
        if self.distinct:
            grid = np.linspace(self.low, self.high, max(count, 2))[:count]
            return rng.permutation(grid).reshape(self.shape)
        return rng.uniform(self.low, self.high, self.shape)


class S:
    """One call of an operation: `S(T((3, 4)), dim=1)`."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        self.args, self.kwargs = args, kwargs

    def __repr__(self) -> str:
        parts = [repr(a) for a in self.args] + [f"{k}={v!r}" for k, v in self.kwargs.items()]
        return f"S({', '.join(parts)})"
