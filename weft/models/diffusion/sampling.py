"""The loop around schedulers, and what may be done to a prediction on the way: guidance by classifiers, by classes, by
known pixels.

A `Predict` is what a network says about x at a step: (B, *event), t (B,) → (B, *event).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import weft

from ...tensor import Tensor
from .predictions import parts_of
from .schedulers import Scheduler
from .schedules import NoiseSchedule

__all__ = ["Predict", "classifier_free_guidance", "classifier_guidance", "denoise", "reconstruction_guidance"]

Predict = Callable[[Tensor, Tensor], Tensor]
Number = float | Tensor


def denoise(predict: Predict, scheduler: Scheduler, noise: Tensor, generator: Any = None) -> Tensor:
    """All steps of a scheduler from standard normal noise: like it. One native loop under `weft.compile`."""

    def step(number: Tensor, state: tuple[Tensor, ...]) -> tuple[Tensor, ...]:
        sample, *memory = state
        t = scheduler.timesteps[number].expand(len(sample))
        output = predict(scheduler.scaled(number, sample), t)
        sample, _, memory = scheduler.advance(number, output, sample, tuple(memory), generator)
        return (sample, *memory)

    start = noise * scheduler.init_noise_sigma
    return weft.fori_loop(0, len(scheduler), step, (start, *scheduler.start(start)))[0]


def classifier_free_guidance(conditional: Tensor, unconditional: Tensor, scale: Number) -> Tensor:
    """u + w (c − u) (Ho and Salimans 2022, in diffusers' scale): w = 0 is unconditional, 1 conditional, more exaggerates.

    Linear, so it may be applied to ε, x₀, v or scores alike.
    """
    return unconditional + scale * (conditional - unconditional)


def classifier_guidance(
    predict: Predict,
    log_prob: Callable[[Tensor, Tensor], Tensor],
    schedule: NoiseSchedule,
    scale: Number = 1.0,
    prediction_type: str = "epsilon",
) -> Predict:
    """Follow a classifier of noisy data (Dhariwal and Nichol 2021): score + w ∇ₓ log p(y | x_t).

    log_prob: of the wanted class: x_t (B, *event), t (B,) → (B,)
    """

    def guided(x: Tensor, t: Tensor) -> Tensor:
        slope = weft.func.grad(lambda x: log_prob(x, t).sum())(x).detach()
        a, s = schedule.rates(t, x)
        return shifted(prediction_type, predict(x, t), -s * scale * slope, a, s)

    return guided


def reconstruction_guidance(
    predict: Predict,
    known: Tensor,
    mask: Tensor,
    schedule: NoiseSchedule,
    scale: Number = 1.0,
    prediction_type: str = "epsilon",
) -> Predict:
    """Follow what is known of x₀ (Ho et al. 2022): score − w ∇ₓ ‖mask (known − x̂₀(x_t))‖² / 2 · a / s².

    mask: 1 where `known` holds; both broadcast with x
    """

    def guided(x: Tensor, t: Tensor) -> Tensor:
        a, s = schedule.rates(t, x)

        def misfit(x: Tensor) -> Tensor:
            x0 = parts_of(prediction_type, predict(x, t), x, a, s).x0
            return 0.5 * (mask * (known - x0) ** 2 * a / s**2).sum()

        slope = weft.func.grad(misfit)(x).detach()
        return shifted(prediction_type, predict(x, t), s * scale * slope, a, s)

    return guided


def shifted(kind: str, output: Tensor, by: Tensor, a: Tensor, s: Tensor) -> Tensor:
    """The output of a network when its ε is shifted: x₀ moves by −(s/a) · by, and v by (a + s²/a) · by = by / a."""
    return output + {"epsilon": by, "sample": -s / a * by, "v_prediction": by / a}[kind]
