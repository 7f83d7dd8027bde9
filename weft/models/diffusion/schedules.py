"""How fast a diffusion forgets: βₜ of every step and what follows from them, noise levels of Karras, weights of the loss.

x_t = √ᾱₜ x₀ + √(1 − ᾱₜ) ε with ᾱₜ = Π_{s ≤ t} (1 − β_s); steps are numbered from 0, as in diffusers: x at step 0 has been
noised once.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

import weft

from ...errors import OptionError, ShapeError
from ...tensor import Tensor

__all__ = ["NoiseSchedule", "at", "cosine_betas", "karras_sigmas", "linear_betas", "min_snr_weights"]

LARGEST_BETA = 0.999  # of cosine schedules, whose last step would otherwise forget everything


class NoiseSchedule:
    """βₜ for t = 0 … T − 1, and the tables that follow, all float64 of shape (T,).

    betas                 βₜ, or "linear" or "cosine" with `steps`
    alphas_cumprod        ᾱₜ; alphas_cumprod_prev: ᾱₜ₋₁, with 1 before the first
    posterior_variance    β̃ₜ = βₜ (1 − ᾱₜ₋₁) / (1 − ᾱₜ), the variance of q(x_{t−1} | x_t, x₀)
    snr                   ᾱₜ / (1 − ᾱₜ)

    >>> NoiseSchedule("cosine", 4)
    NoiseSchedule(T=4, ᾱ from 0.847 to 0.000144)
    """

    def __init__(self, betas: str | Sequence[float] | Any = "linear", steps: int = 1000) -> None:
        if isinstance(betas, str):
            if betas not in BETAS:
                raise OptionError(f"NoiseSchedule: betas are numbers or one of {', '.join(BETAS)}, got {betas!r}")
            betas = BETAS[betas](steps)
        found = np.asarray(betas, np.float64)
        if found.ndim != 1 or not len(found) or not ((found > 0) & (found < 1)).all():
            raise OptionError("NoiseSchedule: expected one β for each step, all above 0 and below 1")
        bar = np.cumprod(1 - found)
        before = np.append(1.0, bar[:-1])
        self.betas, self.alphas_cumprod, self.alphas_cumprod_prev = (weft.tensor(x) for x in (found, bar, before))
        self.posterior_variance = weft.tensor(found * (1 - before) / (1 - bar))
        self.snr = weft.tensor(bar / (1 - bar))

    def __len__(self) -> int:
        return len(self.betas)

    def rates(self, t: Tensor, x: Tensor) -> tuple[Tensor, Tensor]:
        """√ᾱₜ and √(1 − ᾱₜ), to be multiplied with x: t (B,) → (B, 1, …) each. Between two steps the logarithm of the signal
        to noise ratio is a line."""
        if t.is_floating_point():
            below = t.floor().long().clamp(0, max(len(self) - 2, 0))
            share = (t - below).reshape(-1, *(1 for _ in x.shape[1:])) if t.ndim else t - below
            low, high = (at(self.snr.log(), (below + i).clamp(max=len(self) - 1), x, weft.float64) for i in (0, 1))
            bar = (low + share * (high - low)).sigmoid()
        else:
            bar = at(self.alphas_cumprod, t, x, weft.float64)
        return bar.sqrt().to(x.dtype), (1 - bar).sqrt().to(x.dtype)

    def add_noise(self, x: Tensor, noise: Tensor, t: Tensor) -> Tensor:
        """√ᾱₜ x + √(1 − ᾱₜ) ε: like x"""
        signal, spread = self.rates(t, x)
        return signal * x + spread * noise

    def __repr__(self) -> str:
        first, last = self.alphas_cumprod[0].item(), self.alphas_cumprod[-1].item()
        return f"NoiseSchedule(T={len(self)}, ᾱ from {first:.3g} to {last:.3g})"


def at(table: Tensor, t: Tensor, x: Tensor, dtype: Any = None) -> Tensor:
    """The entries of a table at steps t, shaped to be multiplied with x: t (B,) → (B, 1, …); () → ()"""
    if t.ndim > 1 or (t.ndim == 1 and len(t) != len(x)):
        raise ShapeError(f"expected one step for each of {len(x)} rows, got shape {tuple(t.shape)}")
    found = table[t].to(dtype or x.dtype)
    return found.reshape(-1, *(1 for _ in x.shape[1:])) if t.ndim else found


def linear_betas(steps: int, start: float | None = None, end: float | None = None) -> np.ndarray:
    """From `start` to `end` in equal steps (Ho et al. 2020); by default 0.1 / T to 20 / T, for T = 1000 those of the paper."""
    low, high = (0.1 / steps if start is None else start), (min(20 / steps, LARGEST_BETA) if end is None else end)
    return np.linspace(low, high, steps)


def cosine_betas(steps: int, offset: float = 0.008) -> np.ndarray:
    """βₜ = 1 − f(t + 1) / f(t) with f(t) = cos² ((t/T + s) / (1 + s) · π/2), at most 0.999 (Nichol and Dhariwal 2021)."""
    f = np.cos((np.arange(steps + 1) / steps + offset) / (1 + offset) * math.pi / 2) ** 2
    return np.minimum(1 - f[1:] / f[:-1], LARGEST_BETA)


BETAS = {"linear": linear_betas, "cosine": cosine_betas}


def karras_sigmas(steps: int, low: float = 0.002, high: float = 80.0, rho: float = 7.0) -> np.ndarray:
    """Noise levels from `high` to `low`, equally spaced after the root of order ρ (Karras et al. 2022, eq. 5): (N,)"""
    if not (0 < low < high and steps > 0 and rho > 0):
        raise OptionError(f"karras_sigmas: expected 0 < low < high, got {low} and {high}, {steps} steps, rho {rho}")
    ramp = np.linspace(0, 1, steps)
    return (high ** (1 / rho) + ramp * (low ** (1 / rho) - high ** (1 / rho))) ** rho


def min_snr_weights(snr: Tensor, gamma: float = 5.0, prediction_type: str = "epsilon") -> Tensor:
    """Weights of squared errors, which on x₀ are min(SNR, γ) (Hang et al. 2023): like snr.

    The same objective weighs errors of ε by min(SNR, γ) / SNR and errors of v by min(SNR, γ) / (SNR + 1).
    """
    by = {"sample": weft.ones_like(snr), "epsilon": snr, "v_prediction": snr + 1}
    if prediction_type not in by:
        raise OptionError(f"min_snr_weights: prediction_type is one of {', '.join(by)}, got {prediction_type!r}")
    return snr.clamp(max=gamma) / by[prediction_type]
