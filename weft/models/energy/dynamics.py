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
from ..generative.plans import planned

__all__ = ["LangevinDynamics", "follow_score", "hamiltonian", "langevin"]

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


class LangevinDynamics:
    """Langevin chains over an energy, one native plan, under the names that libraries of energies share.

    step_size: ε; noise_scale: times √(2ε) ξ, its square is the temperature of what is sampled; clip: as in `langevin`

    >>> chains = LangevinDynamics(lambda x: 0.5 * (x**2).sum(1), step_size=0.1)
    >>> chains.sample(weft.zeros(5, 2), 50).shape, chains.trajectory(weft.zeros(5, 2), 50, thin=10).shape
    (weft.Size([5, 2]), weft.Size([5, 5, 2]))
    """

    def __init__(
        self, energy: Energy, step_size: float = 1e-3, noise_scale: float = 1.0, *, clip: float | None = None
    ) -> None:
        _check(step_size)
        if not noise_scale > 0:
            raise OptionError(f"LangevinDynamics: expected a noise_scale above 0, got {noise_scale}")
        self.energy, self.step_size, self.noise_scale, self.clip = energy, step_size, noise_scale, clip
        self._walked = planned(self._walk)

    def sample(self, x: Tensor, n_steps: int = 100, generator: Any = None) -> Tensor:
        """Where chains are after so many steps from x: like x"""
        return self._walked(x, 1, n_steps, generator=generator)[0]

    def trajectory(self, x: Tensor, n_steps: int = 100, thin: int = 1, generator: Any = None) -> Tensor:
        """Where they are after every `thin` steps: (n_steps // thin, B, *event)"""
        if not 1 <= thin <= n_steps:
            raise OptionError(f"LangevinDynamics: expected thin from 1 to {n_steps}, got {thin}")
        return self._walked(x, n_steps // thin, thin, generator=generator)

    def _walk(self, x: Tensor, times: int, steps: int, generator: Any = None) -> Tensor:
        # in units of the temperature: E / T with steps of T ε have noise √(2 ε T)
        temperature, slope = self.noise_scale**2, _slope(self.energy, self.clip)
        score = lambda x: -slope(x) / temperature

        def walk(x: Tensor, _: Tensor) -> tuple[Tensor, Tensor]:
            x = follow_score(score, x, steps, temperature * self.step_size, generator)
            return x, x

        return weft.scan(walk, x.detach(), weft.arange(times))[1]


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
