"""gan-grid: twenty-five Gaussians on a square grid (Srivastava et al. 2017: a plain GAN finds 3.3, VEEGAN 24.6 and 40 % good).

The games see the points divided by √8, their deviation in each direction.
"""

from __future__ import annotations

from dataclasses import dataclass

import weft

from ...data.synthetic.mixtures import gaussian_grid, grid_centres
from ...tensor import Tensor
from ..base import Goal
from .plane import PlaneGAN, PlaneSettings

__all__ = ["GANGrid", "GridSettings", "recipe"]


@dataclass(kw_only=True)
class GridSettings(PlaneSettings):
    """Settings of gan-grid."""

    steps: int = 6000
    lr: float = 1e-3
    critic_steps: int = 3


class GANGrid(PlaneGAN):
    """Spacing 2, deviation 0.05. A game that has found fewer than 24 modes counts as 0."""

    title = "Twenty-five modes on a grid: hinge and Wasserstein games beside the plain one"
    Settings = GridSettings
    goal = Goal(
        "good",
        at_least=0.75,
        data="10,000 draws: the share within 3 deviations of a mode, of the worse of hinge and WGAN-GP, 24 modes found",
        baseline="the plain minimax game",
    )
    noise, scale = 0.05, 8**0.5

    def points(self, n: int, generator: weft.Generator) -> Tensor:
        return gaussian_grid(n, self.noise, generator=generator)[0]

    def centres(self) -> Tensor:
        return grid_centres()

    def least_modes(self) -> int:
        return 24


recipe = GANGrid()
