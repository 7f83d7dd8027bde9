"""Filling in: a trained diffusion, some of whose pixels are known."""

from __future__ import annotations

from typing import Any

import weft

from ...errors import OptionError
from ...tensor import Tensor
from ..generative.plans import in_one_plan
from .ddpm import DDPM
from .sampling import denoise, reconstruction_guidance

__all__ = ["Inpainter"]


class Inpainter:
    """Draws of x that agree with what is known of it; x and masks (B, *event), a mask 1 where x is known.

    `replaced` (RePaint, Lugmayr et al. 2022) takes the known part at every step from q(x_{t−1} | known) and the rest from the
    model. Both were drawn apart, so each step is taken several times: noise is added again, and removed anew, until the
    rest fits. `guided` (Ho et al. 2022) pulls x_t along the slope of the misfit of x̂₀.

    >>> from weft.models.diffusion import NoiseSchedule, NoisedMixture, PerfectNetwork
    >>> mixture, schedule = NoisedMixture([[0.0, 0.0], [4.0, 4.0]], [0.1, 0.1]), NoiseSchedule("cosine", 50)
    >>> fill = Inpainter(DDPM(PerfectNetwork(mixture, schedule), (2,), schedule))
    >>> x, mask = weft.tensor([[4.0, 0.0]]), weft.tensor([[1.0, 0.0]])
    >>> fill.replaced(x, mask, generator=weft.Generator().manual_seed(0)).round().tolist()
    [[4.0, 4.0]]
    """

    def __init__(self, model: DDPM) -> None:
        self.model = model

    def replaced(
        self, known: Tensor, mask: Tensor, condition: Any = None, generator: Any = None, *, resamples: int = 5
    ) -> Tensor:
        """By replacement. resamples: how often each step is taken; 1 is cheapest and fits worst: like known"""
        if resamples < 1:
            raise OptionError(f"Inpainter: expected 1 resample or more, got {resamples}")
        self.model.check(known)
        condition = self.model.given(len(known), condition)
        return self._replaced(known, mask.expand(known.shape), condition, resamples, generator=generator)

    @in_one_plan
    def _replaced(self, known: Tensor, mask: Tensor, condition: Any, resamples: int, generator: Any = None) -> Tensor:
        model, scheduler = self.model, self.model.scheduler("ddpm")
        x0, betas = model.inside(known), model.schedule.betas.flip(0)
        drawn = lambda: weft.randn(known.shape, dtype=known.dtype, generator=generator)
        mixed = lambda x, variance: (1 - variance).sqrt().to(x.dtype) * x + variance.sqrt().to(x.dtype) * drawn()

        def once(number: Tensor, x: Tensor) -> Tensor:
            """From x_t to x_{t−1}"""
            output = model.predict(x, scheduler.timesteps[number].expand(len(x)), condition)
            mine, _, _ = scheduler.advance(number, output, x, (), generator)
            return weft.where(mask > 0.5, mixed(x0, 1 - scheduler.bars[number, 1]), mine)

        def step(number: Tensor, x: Tensor) -> Tensor:
            again = lambda _, x: mixed(once(number, x), betas[number])
            return once(number, weft.fori_loop(0, resamples - 1, again, x) if resamples > 1 else x)

        with weft.no_grad():
            return model.outside(weft.fori_loop(0, len(scheduler), step, drawn()))

    def guided(
        self,
        known: Tensor,
        mask: Tensor,
        generator: Any = None,
        *,
        scale: float | Tensor = 1.0,
        steps: int | None = None,
    ) -> Tensor:
        """By guidance, over `steps` DDPM steps; known values are put in at the end: like known"""
        self.model.check(known)
        wide = mask.expand(known.shape)
        scale = weft.as_tensor(scale, dtype=known.dtype)
        return weft.where(wide > 0.5, known, self._guided(known, wide, scale, steps, generator=generator))

    @in_one_plan
    def _guided(self, known: Tensor, mask: Tensor, scale: Tensor, steps: int | None, generator: Any = None) -> Tensor:
        model = self.model
        means = lambda x, t: model.means(model.predict(x, t))
        predict = reconstruction_guidance(
            means, model.inside(known), mask, model.schedule, scale, model.prediction_type
        )
        noise = weft.randn(known.shape, dtype=known.dtype, generator=generator)
        with weft.no_grad():
            return model.outside(denoise(predict, model.scheduler("ddim", steps, 1.0), noise, generator))
