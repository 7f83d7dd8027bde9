"""Chains that follow the slope of an energy: Langevin dynamics, and Hamiltonian Monte Carlo, which is exact.

Both are native loops under `weft.compile`. energy: (B, *event) → (B,), of p(x) ∝ exp(−energy(x)).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import weft

from ...errors import OptionError
from ...tensor import Tensor

__all__ = ["follow_score", "hamiltonian", "langevin"]

Energy = Score = Callable[[Tensor], Tensor]


def langevin(
    energy: Energy, x: Tensor, steps: int, step: float, generator: Any = None, *, clip: float | None = None
) -> Tensor:
    """x ← x − ε ∇E(x) + √(2ε) ξ with ξ ~ N(0, 1) and ε = `step`, `steps` times: like x.

    The noise belongs to the step: any other factor than √(2ε) samples another temperature. What is left is a bias of
    order ε: on a standard normal the variance becomes 1 / (1 − ε/2).

    clip: the largest slope of an element, for energies that are still wild; it biases where it acts
    """
    _check(step)
    slope = _slope(energy, clip)
    return follow_score(lambda x: -slope(x), x, steps, step, generator)


def follow_score(score: Score, x: Tensor, steps: int, step: float | Tensor, generator: Any = None) -> Tensor:
    """x ← x + ε s(x) + √(2ε) ξ, `steps` times: Langevin dynamics where the slope s of log p is known itself: like x.

    step: ε, a number or a tensor, () or broadcasting with x
    """
    spread = (2 * step).sqrt() if isinstance(step, Tensor) else math.sqrt(2 * step)

    def move(_: Tensor, x: Tensor) -> Tensor:
        noise = weft.randn(x.shape, dtype=x.dtype, generator=generator)
        return x + step * score(x) + spread * noise

    return weft.fori_loop(0, steps, move, x.detach())


def hamiltonian(
    energy: Energy, x: Tensor, steps: int, step: float, generator: Any = None, *, leaps: int = 10
) -> tuple[Tensor, Tensor]:
    """Hamiltonian Monte Carlo: `leaps` leapfrogs of size `step` from a fresh momentum, then accepted or taken back.

    Accepted with probability min(1, exp(H − H')), H = E(x) + ½‖p‖², which removes the bias of the steps (Duane 1987).
    Returns x, and the share of proposals that each chain accepted: (B,)
    """
    _check(step)
    slope = _slope(energy, None)

    def leap(_: Tensor, state: tuple[Tensor, Tensor]) -> tuple[Tensor, Tensor]:
        place, momentum = state
        momentum = momentum - step / 2 * slope(place)
        place = place + step * momentum
        return place, momentum - step / 2 * slope(place)

    def move(_: Tensor, state: tuple[Tensor, Tensor]) -> tuple[Tensor, Tensor]:
        x, accepted = state
        momentum = weft.randn(x.shape, dtype=x.dtype, generator=generator)
        there, after = weft.fori_loop(0, leaps, leap, (x, momentum))
        gain = _total(energy, x, momentum) - _total(energy, there, after)
        taken = weft.rand(len(x), dtype=x.dtype, generator=generator).log() < gain
        wide = taken.reshape(-1, *(1 for _ in x.shape[1:]))
        return weft.where(wide, there, x), accepted + taken.to(x.dtype) / steps

    return weft.fori_loop(0, steps, move, (x.detach(), weft.zeros(len(x), dtype=x.dtype)))


def _slope(energy: Energy, clip: float | None) -> Callable[[Tensor], Tensor]:
    def slope(x: Tensor) -> Tensor:
        found = weft.func.grad(lambda x: energy(x).sum())(x).detach()
        return found if clip is None else found.clamp(-clip, clip)

    return slope


def _total(energy: Energy, x: Tensor, momentum: Tensor) -> Tensor:
    return energy(x).detach() + 0.5 * (momentum**2).flatten(1).sum(1)


def _check(step: float) -> None:
    if not step > 0:
        raise OptionError(f"expected a step above 0, got {step}")
