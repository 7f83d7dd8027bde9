"""Schedulers: the arithmetic of one step from noise towards data, with diffusers' names; here DDPM's and DDIM's.

`set_timesteps` makes tables of coefficients, `step` is diffusers' call. `advance` is the same step as a pure function of its
number, what the last step left and the sample, which a native loop can repeat (`sampling.denoise`); one call of the network
each.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any, Literal, NamedTuple

import numpy as np

import weft

from ...errors import ArgumentError, OptionError
from ...tensor import Tensor
from .predictions import Parts, check_prediction, parts_of
from .schedules import NoiseSchedule

__all__ = ["DDIMScheduler", "DDPMScheduler", "Memory", "Scheduler", "SchedulerOutput"]

Memory = tuple[Tensor, ...]  # what a step leaves for the next
Spacing = Literal["leading", "linspace", "trailing"]


class SchedulerOutput(NamedTuple):
    """What a step returns: the sample at the next timestep, and the x₀ that was predicted on the way."""

    prev_sample: Tensor
    pred_original_sample: Tensor


class Scheduler(ABC):
    """A walk over some of the steps of a `NoiseSchedule`, from the noisiest on.

    schedule: a `NoiseSchedule`, or "linear" or "cosine" with num_train_timesteps
    prediction_type: what the network says, "epsilon", "sample" or "v_prediction"
    clip_sample: hold the predicted x₀ within ±clip_sample_range. Right for images in [−1, 1] and for nothing else: codes of
        an autoencoder, or data of another scale, would be cut off; so it is off unless asked for
    timestep_spacing: "leading" 0, r, 2r, …; "linspace" from 0 to T − 1; "trailing" … T − 1 − r, T − 1. Each step goes to the
        next one in the list; diffusers' DDIM goes to t − T // N instead, which is the next one where r is a whole number and
        spacing is not "linspace"
    """

    init_noise_sigma = 1.0  # the standard deviation of the noise that a walk starts from

    def __init__(
        self,
        schedule: NoiseSchedule | str = "linear",
        num_train_timesteps: int = 1000,
        prediction_type: str = "epsilon",
        *,
        clip_sample: bool = False,
        clip_sample_range: float = 1.0,
        timestep_spacing: Spacing = "leading",
    ) -> None:
        check_prediction(prediction_type)
        self.schedule = (
            schedule if isinstance(schedule, NoiseSchedule) else NoiseSchedule(schedule, num_train_timesteps)
        )
        self.prediction_type, self.timestep_spacing = prediction_type, timestep_spacing
        self.clip = clip_sample_range if clip_sample else None
        self.memory: Memory | None = None
        self.set_timesteps(len(self.schedule))

    # ---------------------------------------------------------------------- diffusers' calls
    def set_timesteps(self, num_inference_steps: int | None = None, *, timesteps: Any = None) -> None:
        """Choose so many of the steps, or these, each below the one before; `timesteps` has them, the noisiest first."""
        if (num_inference_steps is None) == (timesteps is None):
            raise OptionError("set_timesteps: expected either a number of steps or timesteps")
        self._prepare(self._grid(num_inference_steps) if timesteps is None else self._chosen(timesteps))
        self.memory = None

    def _chosen(self, timesteps: Any) -> np.ndarray:
        asked = np.asarray(timesteps)
        inside = asked.ndim == 1 and len(asked) and asked.dtype.kind == "i" and 0 <= asked[-1] <= asked[0]
        if not inside or asked[0] >= len(self.schedule) or (np.diff(asked) >= 0).any():
            raise OptionError(
                f"set_timesteps: expected whole timesteps from {len(self.schedule) - 1} to 0, each below the one before, "
                f"got {timesteps!r}"
            )
        return asked.astype(np.int64)

    def add_noise(self, original_samples: Tensor, noise: Tensor, timesteps: Tensor) -> Tensor:
        """√ᾱₜ x₀ + √(1 − ᾱₜ) ε: like x₀"""
        return self.schedule.add_noise(original_samples, noise, timesteps)

    def scale_model_input(self, sample: Tensor, timestep: Any) -> Tensor:
        """What the network is shown for a sample: like it"""
        return self.scaled(self._number(timestep), sample)

    def step(self, model_output: Tensor, timestep: Any, sample: Tensor, generator: Any = None) -> SchedulerOutput:
        """From the sample at a timestep to the next. Steps that look back remember the call before; `set_timesteps` and a
        sample of another shape start anew."""
        if self.memory is None or any(kept.shape != sample.shape for kept in self.memory):
            self.memory = self.start(sample)
        found, x0, self.memory = self.advance(self._number(timestep), model_output, sample, self.memory, generator)
        return SchedulerOutput(found, x0)

    def __len__(self) -> int:
        return len(self.timesteps)

    # ---------------------------------------------------------------------- the same for loops
    def start(self, sample: Tensor) -> Memory:
        """What the first step finds as left by the one before: tensors like the sample"""
        return ()

    def scaled(self, number: Any, sample: Tensor) -> Tensor:
        """What the network is shown in this step."""
        return sample

    @abstractmethod
    def advance(
        self, number: Any, output: Tensor, sample: Tensor, memory: Memory, generator: Any = None
    ) -> tuple[Tensor, Tensor, Memory]:
        """The next sample, the predicted x₀, what the next step may look back at. number: of the step, from 0"""

    def _grid(self, count: Any) -> np.ndarray:
        """The timesteps of so many steps, the noisiest first: (N,)"""
        return spaced(len(self.schedule), count, self.timestep_spacing)

    @abstractmethod
    def _prepare(self, timesteps: np.ndarray) -> None:
        """Make `timesteps` and the tables."""

    def _number(self, timestep: Any) -> int:
        asked = float(timestep)
        found = np.flatnonzero(np.isclose(self.timesteps.numpy(), asked))
        if not len(found):
            raise ArgumentError(f"{type(self).__name__}: {asked:g} is none of the {len(self)} timesteps that were set")
        return int(found[0])


class _Discrete(Scheduler):
    """What DDPM and DDIM share: steps between two of the ᾱ."""

    def _prepare(self, timesteps: np.ndarray) -> None:
        bar = self.schedule.alphas_cumprod.numpy()[timesteps]
        self.timesteps = weft.tensor(timesteps)
        self.bars = weft.tensor(np.stack([bar, np.append(bar[1:], 1.0)], 1))  # (N, 2): here, and where the step goes

    def parts(self, number: Any, output: Tensor, sample: Tensor) -> Parts:
        """x₀ and ε as predicted."""
        bar = self.bars[number, 0]
        a, s = bar.sqrt().to(sample.dtype), (1 - bar).sqrt().to(sample.dtype)
        return parts_of(self.prediction_type, output, sample, a, s, self.clip)


class DDPMScheduler(_Discrete):
    """Ancestral sampling (Ho et al. 2020): x_{t−1} ~ N(μ̃(x_t, x̂₀), σₜ²), no noise in the step from t = 0.

    μ̃ = √ᾱₜ₋₁ β / (1 − ᾱₜ) x̂₀ + √α (1 − ᾱₜ₋₁) / (1 − ᾱₜ) x_t, with α = ᾱₜ / ᾱₜ₋₁ and β = 1 − α of the steps that are taken
    variance_type: σ² is β̃ ("fixed_small"), β ("fixed_large"), or in between as the network says ("learned_range"): its
        output then has twice the channels, the second half from −1 (β̃) to 1 (β) on a logarithmic scale
    Where the last timestep is not 0, as with "trailing", the last step has β̃ = 0 but β > 0: as in diffusers, "fixed_large" then
    ends on noise. "linspace" and "leading" end at 0.
    """

    def __init__(self, *args: Any, variance_type: str = "fixed_small", **options: Any) -> None:
        if variance_type not in ("fixed_small", "fixed_large", "learned_range"):
            raise OptionError(
                f"DDPMScheduler: variance_type is fixed_small, fixed_large or learned_range, got {variance_type!r}"
            )
        self.variance_type = variance_type
        super().__init__(*args, **options)

    def advance(
        self, number: Any, output: Tensor, sample: Tensor, memory: Memory, generator: Any = None
    ) -> tuple[Tensor, Tensor, Memory]:
        learned = None
        if self.variance_type == "learned_range":
            output, learned = output.chunk(2, 1)
        x0 = self.parts(number, output, sample).x0
        bar, before = self.bars[number, 0], self.bars[number, 1]
        beta = 1 - bar / before
        toward, along = before.sqrt() * beta / (1 - bar), (bar / before).sqrt() * (1 - before) / (1 - bar)
        small = (beta * (1 - before) / (1 - bar)).to(sample.dtype)
        noise = weft.randn(sample.shape, dtype=sample.dtype, generator=generator)
        spread = (self.timesteps[number] > 0).to(sample.dtype) * self._deviation(small, beta.to(sample.dtype), learned)
        return toward.to(sample.dtype) * x0 + along.to(sample.dtype) * sample + spread * noise, x0, ()

    def _deviation(self, small: Tensor, large: Tensor, learned: Tensor | None) -> Tensor:
        if learned is None:
            return (small if self.variance_type == "fixed_small" else large).sqrt()
        share = (learned + 1) / 2
        return (0.5 * (share * large.log() + (1 - share) * small.clamp(min=1e-20).log())).exp()


class DDIMScheduler(_Discrete):
    """Song, Meng and Ermon (2021): x_{t−1} = √ᾱₜ₋₁ x̂₀ + √(1 − ᾱₜ₋₁ − σ²) ε̂ + σ z,  σ = η √β̃.

    eta: 0 is a deterministic map, 1 has the variances of DDPM; a number or a tensor, which may change between calls
    """

    def __init__(self, *args: Any, eta: float | Tensor = 0.0, **options: Any) -> None:
        super().__init__(*args, **options)
        self.eta = eta

    def advance(
        self, number: Any, output: Tensor, sample: Tensor, memory: Memory, generator: Any = None
    ) -> tuple[Tensor, Tensor, Memory]:
        x0, epsilon = self.parts(number, output, sample)
        bar, before = self.bars[number, 0], self.bars[number, 1]
        kind = sample.dtype
        if not isinstance(self.eta, Tensor) and self.eta == 0:
            return before.sqrt().to(kind) * x0 + (1 - before).sqrt().to(kind) * epsilon, x0, ()
        variance = self.eta**2 * ((1 - before) / (1 - bar) * (1 - bar / before))
        noise = weft.randn(sample.shape, dtype=kind, generator=generator)
        straight = (1 - before - variance).clamp(min=0).sqrt().to(kind)
        return before.sqrt().to(kind) * x0 + straight * epsilon + variance.sqrt().to(kind) * noise, x0, ()


def spaced(total: int, count: int, spacing: Spacing, whole: bool = True) -> np.ndarray:
    """`count` of the steps 0 … total − 1, the last first: (N,). whole: rounded, where `linspace` falls between two steps"""
    if not 1 <= count <= total:
        raise OptionError(f"set_timesteps: expected 1 to {total} steps, got {count}")
    if spacing == "leading":
        return np.arange(count)[::-1] * (total // count)
    if spacing == "linspace":
        found = np.linspace(0, total - 1, count)[::-1]
        return np.round(found).astype(np.int64) if whole else found.copy()
    if spacing == "trailing":
        return np.round(np.arange(total, 0, -total / count)[:count]).astype(np.int64) - 1
    raise OptionError(f"timestep_spacing is leading, linspace or trailing, got {spacing!r}")
