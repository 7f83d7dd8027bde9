"""`torch.quasirandom`: points that fill a cube more evenly than random ones, over SciPy's Sobol' sequence."""

from __future__ import annotations

from typing import Any

import weft

__all__ = ["SobolEngine"]

MAXDIM, MAXBIT = 21201, 30


class SobolEngine:
    """Sobol's sequence in [0, 1)ᵈ with the direction numbers of Joe and Kuo, as PyTorch's (its first point is 0).

    scramble: random digital shifts and matrix scrambles (Owen), drawn by SciPy: other ones than PyTorch's for a seed
    """

    MAXDIM, MAXBIT = MAXDIM, MAXBIT

    def __init__(self, dimension: int, scramble: bool = False, seed: int | None = None) -> None:
        if not 1 <= dimension <= MAXDIM:
            raise weft.errors.InvalidValueError(
                f"Supported range of dimensionality for SobolEngine is [1, {MAXDIM}], got {dimension}"
            )
        self.dimension, self.scramble, self.seed, self.num_generated = dimension, scramble, seed, 0
        self._restart()

    def _restart(self) -> None:
        from scipy.stats import qmc

        self._engine = qmc.Sobol(self.dimension, scramble=self.scramble, bits=MAXBIT, rng=self.seed)

    def draw(self, n: int = 1, out: Any = None, dtype: Any = None) -> Any:
        """The next `n` points, (n, d)."""
        points = weft.from_numpy(self._drawn(n)).to(dtype or weft.get_default_dtype())
        self.num_generated += n
        if out is None:
            return points
        out.resize_(points.shape).copy_(points)
        return out

    def _drawn(self, n: int) -> Any:
        import warnings

        with warnings.catch_warnings():  # SciPy warns of numbers that are no powers of two
            warnings.simplefilter("ignore")
            return self._engine.random(n)

    def draw_base2(self, m: int, out: Any = None, dtype: Any = None) -> Any:
        """The next 2ᵐ points; the number drawn so far, with these, must be a power of two."""
        total = self.num_generated + 2**m
        if total & (total - 1):
            raise weft.errors.InvalidValueError(
                f"The balance properties of Sobol' points require n to be a power of 2. {self.num_generated} points "
                f"have been previously generated, then: n={self.num_generated}+2**{m}={total}."
            )
        return self.draw(2**m, out, dtype)

    def reset(self) -> SobolEngine:
        """Back to the first point."""
        self.num_generated = 0
        self._engine.reset()
        return self

    def fast_forward(self, n: int) -> SobolEngine:
        """Leave out `n` points."""
        if n:
            self._engine.fast_forward(n)
            self.num_generated += n
        return self

    def __repr__(self) -> str:
        words = [f"dimension={self.dimension}"] + ["scramble=True"] * self.scramble
        words += [f"seed={self.seed}"] * (self.seed is not None)
        words += [f"num_generated={self.num_generated}"] * bool(self.num_generated)
        return f"SobolEngine({', '.join(words)})"
