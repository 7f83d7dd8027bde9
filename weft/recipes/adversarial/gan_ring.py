"""gan-ring: eight Gaussians on a circle, which games of two networks lose some of (Srivastava et al. 2017).

Published, of other networks: a plain GAN finds 1 mode, VEEGAN 8 with 53 % of draws within three deviations. Beside
stands the plain minimax game with Adam as it comes. Much of its trouble is Adam's momentum: with β₁ = 0 and falling rates the
plain loss, too, has found all modes.
"""

from __future__ import annotations

import weft

from ...data.synthetic.mixtures import gaussian_ring, ring_centres
from ...tensor import Tensor
from ..base import Goal
from .plane import PlaneGAN, PlaneSettings

__all__ = ["GANRing", "recipe"]


class GANRing(PlaneGAN):
    """Radius 1, deviation 0.02. A game that has not found all 8 modes counts as 0."""

    title = "Eight modes on a ring: hinge and Wasserstein games beside the plain one"
    Settings = PlaneSettings
    goal = Goal(
        "good",
        at_least=0.80,
        data="10,000 draws: the share within 3 deviations of a mode, of the worse of hinge and WGAN-GP, all 8 modes found",
        baseline="the plain minimax game",
    )
    noise = 0.02

    def points(self, n: int, generator: weft.Generator) -> Tensor:
        return gaussian_ring(n, self.noise, generator=generator)[0]

    def centres(self) -> Tensor:
        return ring_centres()


recipe = GANRing()
