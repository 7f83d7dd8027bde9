"""The Ising model on a square lattice: a chessboard's worth of spins drawn at once, and Onsager's exact solution."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

import weft

from ...errors import ShapeError
from ...runtime.lazy import LazyModule
from ...tensor import Tensor
from ..generative.plans import in_one_plan
from ..generative.protocol import GenerativeModel, estimate, exact
from .enumeration import ENUMERABLE, log_sum, mean_over

__all__ = ["CRITICAL", "IsingLattice", "onsager_energy", "onsager_magnetisation"]

special = LazyModule("scipy.special")
CRITICAL = float(np.log(1 + np.sqrt(2)) / 2)  # the coupling at which an infinite lattice begins to order: 0.4407


class IsingLattice(GenerativeModel):
    """p(s) = exp(K Σ sᵢ sⱼ + h Σ sᵢ) / Z over spins ±1, neighbours on a torus of even sides.

    coupling: K = J / kT, the inverse temperature; field: h. Given the black fields of the chessboard the white ones are
    independent, so a sweep is two steps.
    Shape: s (B, rows, columns) → (B,)

    >>> lattice = IsingLattice(4, 4, coupling=0.3)
    >>> lattice.energy(weft.ones(1, 4, 4)).item() / 16  # two bonds a spin
    -0.6000000238418579
    """

    def __init__(self, rows: int, columns: int, coupling: float, field: float = 0.0, dtype: Any = None) -> None:
        super().__init__()
        if rows % 2 or columns % 2 or min(rows, columns) < 2:
            raise ShapeError(
                f"IsingLattice: expected even sides, so that black has white neighbours, got {rows}×{columns}"
            )
        self.rows, self.columns, self.coupling, self.field = rows, columns, float(coupling), float(field)
        board = (weft.arange(rows).unsqueeze(1) + weft.arange(columns)) % 2 == 0
        self.register_buffer("white", board, persistent=False)
        self.kind = dtype or weft.get_default_dtype()

    @exact
    def energy(self, x: Tensor) -> Tensor:
        """E(s) = −K Σ sᵢ sⱼ − h Σ sᵢ, each bond once."""
        self._check(x)
        bonds = x * (x.roll(1, -1) + x.roll(1, -2))
        return -(self.coupling * bonds + self.field * x).sum((-2, -1))

    @exact(where=lambda model: model.rows * model.columns <= ENUMERABLE)
    def log_prob(self, x: Tensor) -> Tensor:
        """−E(s) − log Z, with Z summed over all states."""
        return -self.energy(x) - self.log_partition()

    def log_partition(self) -> Tensor:
        """log Z over the 2^(rows · columns) states."""
        return log_sum(lambda bits: -self.energy(self._board(bits)), self.rows * self.columns, self.kind)

    def expected(self) -> dict[str, float]:
        """Energy and absolute magnetisation a spin, exactly, for lattices whose states can be counted out."""

        def figures(bits: Tensor) -> Tensor:
            x = self._board(bits)
            return weft.stack(list(self.observed(x).values()), 1)  # (N, 2)

        means = mean_over(lambda bits: -self.energy(self._board(bits)), figures, self.rows * self.columns, self.kind)
        return dict(zip(("energy", "magnetisation"), means.tolist(), strict=True))

    def observed(self, x: Tensor) -> dict[str, Tensor]:
        """E / (K n), the energy a spin in units of J, and |Σ s| / n of each state: (B,)."""
        count = self.rows * self.columns
        return {"energy": self.energy(x) / (self.coupling * count), "magnetisation": x.mean((-2, -1)).abs()}

    @weft.no_grad()
    def gibbs(self, x: Tensor, sweeps: int = 1, generator: Any = None) -> Tensor:
        """All white spins given the black ones, then all black ones, `sweeps` times: like x."""
        self._check(x)
        return weft.fori_loop(0, sweeps, lambda _, x: self._sweep(x, generator), x)

    @weft.no_grad()
    def chain(self, x: Tensor, sweeps: int, generator: Any = None) -> tuple[Tensor, dict[str, Tensor]]:
        """The last state, and what was observed after each sweep: (sweeps, B) each."""

        def step(x: Tensor, _: None) -> tuple[Tensor, dict[str, Tensor]]:
            x = self._sweep(x, generator)
            return x, self.observed(x)

        return weft.scan(step, x, length=sweeps)

    @estimate
    @in_one_plan
    def sample(self, n: int, condition: Any = None, generator: Any = None, sweeps: int = 500) -> Tensor:
        """The ends of n chains that start from independent fair coins: (n, rows, columns)."""
        self._unconditional(condition)
        coins = weft.bernoulli(weft.full((n, self.rows, self.columns), 0.5, dtype=self.kind), generator=generator)
        return self.gibbs(2 * coins - 1, sweeps, generator)

    def _sweep(self, x: Tensor, generator: Any) -> Tensor:
        for colour in (self.white, ~self.white):
            around = x.roll(1, -1) + x.roll(-1, -1) + x.roll(1, -2) + x.roll(-1, -2)
            up = weft.bernoulli(weft.sigmoid(2 * (self.coupling * around + self.field)), generator=generator)
            x = weft.where(colour, 2 * up - 1, x)
        return x

    def _board(self, bits: Tensor) -> Tensor:
        return 2 * bits.reshape(-1, self.rows, self.columns) - 1

    def _check(self, x: Tensor) -> None:
        if tuple(x.shape[-2:]) != (self.rows, self.columns):
            raise ShapeError(f"IsingLattice: expected spins (B, {self.rows}, {self.columns}), got {tuple(x.shape)}")

    def extra_repr(self) -> str:
        return f"{self.rows}, {self.columns}, coupling={self.coupling:g}, field={self.field:g}"


def onsager_energy(coupling: ArrayLike) -> NDArray[np.float64]:
    """The energy a spin of the infinite lattice without field, in units of J (Onsager 1944).

    u = −coth 2K · (1 + 2/π · (2 tanh² 2K − 1) · K₁(κ)),   κ = 2 sinh 2K / cosh² 2K
    """
    twice = 2 * np.asarray(coupling, np.float64)
    modulus = 2 * np.sinh(twice) / np.cosh(twice) ** 2
    integral = special.ellipk(modulus**2)  # infinite at the critical point, where its factor is 0
    factor = 2 * np.tanh(twice) ** 2 - 1
    term = np.where(np.isfinite(integral), factor * np.where(np.isfinite(integral), integral, 0), 0)
    return -(1 + 2 / np.pi * term) / np.tanh(twice)


def onsager_magnetisation(coupling: ArrayLike) -> NDArray[np.float64]:
    """|m| of the infinite lattice: (1 − sinh⁻⁴ 2K)^⅛ above the critical coupling, 0 below (Yang 1952)."""
    ratio = 1 / np.sinh(2 * np.asarray(coupling, np.float64)) ** 4
    return np.clip(1 - ratio, 0, None) ** 0.125
