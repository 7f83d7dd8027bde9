"""Schedulers that follow the probability flow: DPM-Solver++, Euler and Heun over noise levels, Euler along straight flows; and
Euler over noise levels with fresh noise."""

from __future__ import annotations

from typing import Any

import numpy as np

import weft

from ...errors import OptionError
from ...tensor import Tensor
from .predictions import parts_of
from .schedulers import Memory, Scheduler, SchedulerOutput, Spacing, spaced
from .schedules import at, karras_sigmas

__all__ = [
    "DPMSolverMultistepScheduler",
    "EulerAncestralDiscreteScheduler",
    "EulerDiscreteScheduler",
    "FlowMatchEulerDiscreteScheduler",
    "HeunDiscreteScheduler",
]


class DPMSolverMultistepScheduler(Scheduler):
    """DPM-Solver++ of second order, 2M (Lu et al. 2022), on the logarithmic ratio λ = log(a / s):

    x ← s'/s x + a' (1 − e^−h) (x̂₀ + (x̂₀ − x̂₀ of the step before) / 2r),  h = λ' − λ,  r = h of the step before / h.
    The first and the last step are of first order; the last one ends at x̂₀, without noise.
    solver_order: 1 leaves the correction out, which is DDIM
    timestep_spacing: "leading" and "linspace" set one step more and leave out step 0, from where the last one would go
    """

    def __init__(
        self, *args: Any, solver_order: int = 2, timestep_spacing: Spacing = "linspace", **options: Any
    ) -> None:
        if solver_order not in (1, 2):
            raise OptionError(f"DPMSolverMultistepScheduler: solver_order is 1 or 2, got {solver_order}")
        self.solver_order = solver_order
        super().__init__(*args, timestep_spacing=timestep_spacing, **options)

    def _grid(self, count: Any) -> np.ndarray:
        total = len(self.schedule)
        if self.timestep_spacing == "trailing" or count >= total:
            return spaced(total, count, self.timestep_spacing)
        return spaced(total, count + 1, self.timestep_spacing)[:-1]

    def _prepare(self, timesteps: np.ndarray) -> None:
        self.timesteps = weft.tensor(timesteps)
        bar = self.schedule.alphas_cumprod.numpy()[timesteps]
        a, s = np.sqrt(np.append(bar, 1.0)), np.sqrt(np.append(1 - bar, 0.0))
        with np.errstate(divide="ignore"):
            growth = np.diff(np.log(a) - np.log(s))  # h; infinite in the last step
        bend = np.zeros(len(bar))
        if self.solver_order == 2:
            bend[1:-1] = 0.5 * growth[1:-1] / growth[:-2]
        gain = a[1:] * -np.expm1(-growth)
        self.table = weft.tensor(np.stack([a[:-1], s[:-1], s[1:] / s[:-1], gain, bend], 1))  # (N, 5)

    def start(self, sample: Tensor) -> Memory:
        return (weft.zeros_like(sample),)

    def advance(
        self, number: Any, output: Tensor, sample: Tensor, memory: Memory, generator: Any = None
    ) -> tuple[Tensor, Tensor, Memory]:
        a, s, keep, gain, bend = self.table[number].to(sample.dtype).unbind()
        x0 = parts_of(self.prediction_type, output, sample, a, s, self.clip).x0
        return keep * sample + gain * (x0 + bend * (x0 - memory[0])), x0, (x0,)


class _Sigmas(Scheduler):
    """Walks over noise levels σ = s / a, with samples x / a, whose noise alone grows.

    use_karras_sigmas: levels spaced as in `karras_sigmas` between the first and the last of the chosen steps
    timestep_spacing: "linspace" also chooses times between two steps, with a σ between theirs; "leading" starts from noise of
        deviation √(σ² + 1) instead of σ
    """

    def __init__(
        self, *args: Any, use_karras_sigmas: bool = False, timestep_spacing: Spacing = "linspace", **options: Any
    ) -> None:
        self.use_karras_sigmas = use_karras_sigmas
        super().__init__(*args, timestep_spacing=timestep_spacing, **options)

    def _grid(self, count: Any) -> np.ndarray:
        return spaced(len(self.schedule), count, self.timestep_spacing, whole=False)

    def _prepare(self, timesteps: np.ndarray) -> None:
        known = self.schedule.snr.numpy() ** -0.5  # σ of every step, growing
        times = timesteps.astype(np.float64)
        sigmas = np.interp(times, np.arange(len(known)), known)
        if self.use_karras_sigmas and len(sigmas) > 1:
            sigmas = karras_sigmas(len(timesteps), sigmas[-1], sigmas[0])
            times = np.interp(np.log(sigmas), np.log(known), np.arange(len(known)))
        self.set_sigmas(sigmas, times)

    def set_timesteps(
        self, num_inference_steps: int | None = None, *, timesteps: Any = None, sigmas: Any = None
    ) -> None:
        """As everywhere; or these noise levels, which end with 0, told to the network as the times that the schedule has for
        them. Karras' levels are not laid over steps that were chosen one by one."""
        if sigmas is not None:
            if num_inference_steps is not None or timesteps is not None:
                raise OptionError("set_timesteps: expected one of a number of steps, timesteps and sigmas")
            levels, known = np.asarray(sigmas, np.float64), self.schedule.snr.numpy() ** -0.5
            if levels.ndim != 1 or len(levels) < 2 or levels[-1] != 0:
                raise OptionError("set_timesteps: expected sigmas that fall, the last one 0")
            self.set_sigmas(levels[:-1], np.interp(np.log(levels[:-1]), np.log(known), np.arange(len(known))))
        elif timesteps is not None and self.use_karras_sigmas:
            raise OptionError("set_timesteps: timesteps one by one and use_karras_sigmas exclude each other")
        else:
            super().set_timesteps(num_inference_steps, timesteps=timesteps)

    def set_sigmas(self, sigmas: Any, timesteps: Any = None) -> None:
        """Walk over these noise levels, the highest first; a last step goes to 0. timesteps: what the network is told."""
        levels = np.asarray(sigmas, np.float64)
        if levels.ndim != 1 or not len(levels) or (np.diff(levels) >= 0).any() or levels[-1] <= 0:
            raise OptionError("set_sigmas: expected noise levels above 0, each below the one before")
        self._tables(np.append(levels, 0.0), levels if timesteps is None else np.asarray(timesteps, np.float64))
        leading = self.timestep_spacing == "leading"
        self.init_noise_sigma = float(np.sqrt(levels[0] ** 2 + 1) if leading else levels[0])
        self.memory = None

    def _tables(self, sigmas: np.ndarray, times: np.ndarray) -> None:
        self.timesteps = weft.tensor(times)
        self.sigmas = weft.tensor(np.stack([sigmas[:-1], sigmas[1:]], 1))  # (N, 2): here, and where the step goes

    def add_noise(self, original_samples: Tensor, noise: Tensor, timesteps: Tensor) -> Tensor:
        """x₀ + σ ε with the σ of these timesteps: like x₀. Whole ones are steps of the schedule, real ones of this walk"""
        if timesteps.is_floating_point():
            number = (self.timesteps - timesteps.to(weft.float64).unsqueeze(-1)).abs().argmin(-1)
            sigma = at(self._levels, number, original_samples)
        else:
            a, s = self.schedule.rates(timesteps, original_samples)
            sigma = s / a
        return original_samples + sigma * noise

    @property
    def _levels(self) -> Tensor:
        return self.sigmas[:, 0]

    def scaled(self, number: Any, sample: Tensor) -> Tensor:
        """x a = x / √(σ² + 1), the x_t that networks of a `NoiseSchedule` know."""
        return sample * (self.sigmas[number, 0] ** 2 + 1).rsqrt().to(sample.dtype)

    def _x0(self, number: Any, output: Tensor, sample: Tensor) -> Tensor:
        if self.prediction_type == "sample":
            x0 = output
        else:
            sigma = self.sigmas[number, 0]
            a, s = (sigma**2 + 1).rsqrt().to(sample.dtype), (sigma * (sigma**2 + 1).rsqrt()).to(sample.dtype)
            x0 = parts_of(self.prediction_type, output, a * sample, a, s).x0
        return x0 if self.clip is None else x0.clamp(-self.clip, self.clip)


class EulerDiscreteScheduler(_Sigmas):
    """x ← x + (σ' − σ) (x − x̂₀) / σ: Euler steps of dx/dσ (Karras et al. 2022, without the correction)."""

    def advance(
        self, number: Any, output: Tensor, sample: Tensor, memory: Memory, generator: Any = None
    ) -> tuple[Tensor, Tensor, Memory]:
        x0 = self._x0(number, output, sample)
        here, there = self.sigmas[number, 0], self.sigmas[number, 1]
        ratio = (there / here).to(sample.dtype)
        return ratio * sample + (1 - ratio) * x0, x0, ()


class EulerAncestralDiscreteScheduler(_Sigmas):
    """Euler's step to a lower noise level than the next one, and fresh noise up to that (Karras et al. 2022, ancestral steps):

    σ_up² = σ'² (σ² − σ'²) / σ²,  σ_down² = σ'² − σ_up² = σ'⁴ / σ²,  x ← x + (σ_down − σ) (x − x̂₀) / σ + σ_up ξ,
    a draw of q(x_σ' | x_σ, x̂₀): over the steps of a schedule those of `DDPMScheduler`, here over any levels.
    """

    def advance(
        self, number: Any, output: Tensor, sample: Tensor, memory: Memory, generator: Any = None
    ) -> tuple[Tensor, Tensor, Memory]:
        x0 = self._x0(number, output, sample)
        here, there = self.sigmas[number, 0], self.sigmas[number, 1]
        share = (there / here) ** 2  # σ_down / σ
        ratio, up = share.to(sample.dtype), (there * (1 - share).sqrt()).to(sample.dtype)
        noise = weft.randn(sample.shape, dtype=sample.dtype, generator=generator)
        return ratio * sample + (1 - ratio) * x0 + up * noise, x0, ()


class HeunDiscreteScheduler(_Sigmas):
    """Heun's steps of dx/dσ (Karras et al. 2022, algorithm 1), each of two halves: 2N − 1 calls of the network.

    Half 2i goes ahead along d = (x − x̂₀) / σ; half 2i + 1 looks at the slope there and goes from the start of the step along
    the mean of both. The last step, to σ = 0, is Euler's.
    """

    def _tables(self, sigmas: np.ndarray, times: np.ndarray) -> None:
        here, there = sigmas[:-1], sigmas[1:]
        twice = np.repeat(np.arange(len(here)), 2)[:-1]
        second = np.arange(len(twice)) % 2
        self.timesteps = weft.tensor(times[np.where(second, np.minimum(twice + 1, len(here) - 1), twice)])
        shown = np.where(second, there[twice], here[twice])
        self.sigmas = weft.tensor(np.stack([shown, there[twice], (there - here)[twice], second], 1))  # (2N − 1, 4)

    def step(self, model_output: Tensor, timestep: Any, sample: Tensor, generator: Any = None) -> SchedulerOutput:
        """As everywhere; a timestep that stands in the list twice is met in order."""
        if self.memory is None:
            self.calls = 0
        found = super().step(model_output, timestep, sample, generator)
        self.calls += 1
        return found

    def _number(self, timestep: Any) -> int:
        super()._number(timestep)  # refuses what is not there
        return 0 if self.memory is None else min(self.calls, len(self) - 1)

    def start(self, sample: Tensor) -> Memory:
        return weft.zeros_like(sample), weft.zeros_like(sample)

    def advance(
        self, number: Any, output: Tensor, sample: Tensor, memory: Memory, generator: Any = None
    ) -> tuple[Tensor, Tensor, Memory]:
        x0 = self._x0(number, output, sample)
        sigma, _, width, second = self.sigmas[number].to(sample.dtype).unbind()
        slope = (sample - x0) / sigma
        begun, before = memory
        ahead = second < 0.5
        origin, along = weft.where(ahead, sample, begun), weft.where(ahead, slope, (slope + before) / 2)
        return origin + width * along, x0, (sample, slope)


class FlowMatchEulerDiscreteScheduler(Scheduler):
    """Euler steps along straight flows x_σ = (1 − σ) x₀ + σ ε, whose velocity ε − x₀ the network predicts (diffusers' sign).

    x ← x + (σ' − σ) v; timesteps are 1000 σ. shift: σ ← shift σ / (1 + (shift − 1) σ), more steps in noise
    Levels go in equal steps from 1 to the least one of training, then are shifted, then follows 0; `set_timesteps(sigmas=…)`
    takes others, such as n / N, (n − 1) / N, …, 1 / N, of equal steps down to 0.
    """

    def __init__(self, num_train_timesteps: int = 1000, shift: float = 1.0) -> None:
        if not shift > 0:
            raise OptionError(f"FlowMatchEulerDiscreteScheduler: expected a shift above 0, got {shift}")
        self.num_train_timesteps, self.shift = num_train_timesteps, shift
        self.prediction_type, self.clip = "flow", None
        self.set_timesteps(num_train_timesteps)

    def set_timesteps(  # levels take the place of timesteps
        self, num_inference_steps: int | None = None, *, sigmas: Any = None, timesteps: Any = None
    ) -> None:
        """Choose so many levels σ, or these, which are shifted; `timesteps` has 1000 σ."""
        if timesteps is not None:
            raise OptionError("FlowMatchEulerDiscreteScheduler.set_timesteps: give sigmas instead of timesteps")
        if sigmas is None:
            if num_inference_steps is None or num_inference_steps < 1:
                raise OptionError(f"set_timesteps: expected 1 step or more, got {num_inference_steps}")
            sigmas = np.linspace(1, self._shifted(np.array(1 / self.num_train_timesteps)), num_inference_steps)
        levels = np.asarray(sigmas, np.float64)
        if levels.ndim != 1 or not len(levels) or (np.diff(levels) >= 0).any() or not 0 < levels[-1] <= levels[0] <= 1:
            raise OptionError("set_timesteps: expected sigmas from 1 to above 0, each below the one before")
        self._prepare(levels)
        self.memory = None

    def _shifted(self, sigmas: np.ndarray) -> np.ndarray:
        return self.shift * sigmas / (1 + (self.shift - 1) * sigmas)

    def _prepare(self, timesteps: np.ndarray) -> None:
        sigmas = np.append(self._shifted(timesteps), 0.0)
        self.timesteps = weft.tensor(self.num_train_timesteps * sigmas[:-1])
        self.sigmas = weft.tensor(np.stack([sigmas[:-1], sigmas[1:]], 1))  # (N, 2)

    def add_noise(self, original_samples: Tensor, noise: Tensor, timesteps: Tensor) -> Tensor:
        """(1 − σ) x₀ + σ ε for timesteps 1000 σ: like x₀"""
        sigma = (timesteps.double() / self.num_train_timesteps).to(original_samples.dtype)
        sigma = sigma.reshape(-1, *(1 for _ in original_samples.shape[1:])) if sigma.ndim else sigma
        return (1 - sigma) * original_samples + sigma * noise

    scale_noise = add_noise  # diffusers' name for it in this scheduler

    def advance(
        self, number: Any, output: Tensor, sample: Tensor, memory: Memory, generator: Any = None
    ) -> tuple[Tensor, Tensor, Memory]:
        here, there = self.sigmas[number].to(sample.dtype).unbind()
        return sample + (there - here) * output, sample - here * output, ()
