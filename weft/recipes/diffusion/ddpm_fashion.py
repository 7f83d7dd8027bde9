"""ddpm-fashion: the diffusion of ddpm-mnist on Fashion-MNIST, whose greys are harder: more bits a pixel, no empty ground.

Not yet run at full length.
"""

from __future__ import annotations

from ...data.sources import FashionMNIST
from ..goal import Goal
from .ddpm_mnist import DDPMMnist

__all__ = ["DDPMFashion", "recipe"]


class DDPMFashion(DDPMMnist):
    """v-prediction on a cosine schedule, variances learned."""

    title = "Denoising diffusion of Fashion-MNIST, a small U-Net"
    source, classifier = FashionMNIST, "fashion-cnn"
    goal = Goal(
        "test_bpd",
        at_most=3.3,
        data="Fashion-MNIST's 10,000 test images: bits a pixel, upper bound",
        baseline="a histogram of levels for each pixel",
        margin=0.5,
    )


recipe = DDPMFashion()
