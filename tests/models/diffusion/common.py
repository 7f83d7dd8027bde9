"""What tests of diffusions share: seeded generators, a Gaussian and a mixture whose diffusion is known."""

from __future__ import annotations

import weft
from weft.models.diffusion import NoisedMixture

MEAN, VARIANCE = 0.7, 1.96
GAUSSIAN = NoisedMixture([[MEAN] * 4], [VARIANCE**0.5])
MIXTURE = NoisedMixture([[-1.0, 0.5], [1.0, -0.5], [0.0, 0.0]], [0.5, 0.5, 0.8], [0.3, 0.3, 0.4])


def seeded(seed: int = 0) -> weft.Generator:
    return weft.Generator().manual_seed(seed)


def normal(*shape: int, seed: int = 0) -> weft.Tensor:
    return weft.randn(*shape, dtype=weft.float64, generator=seeded(seed))
