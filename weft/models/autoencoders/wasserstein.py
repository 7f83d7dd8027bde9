"""The Wasserstein autoencoder: codes of all data together are pulled towards a prior, by MMD (Tolstikhin et al. 2018)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import weft

from ... import nn
from ...errors import OptionError, ShapeError
from ...tensor import Tensor
from ..generative.protocol import estimate
from .autoencoder import Autoencoder, Penalty

__all__ = ["PriorMismatch", "WassersteinAutoencoder", "mmd"]

KERNELS = ("imq", "rbf")
SCALES = (0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 10.0)  # widths whose kernels are summed, in shares of the prior's own


class WassersteinAutoencoder(Autoencoder):
    """loss = mean error + λ MMD²(codes of the batch, draws of N(0, 1)): deterministic, and yet one can sample from it.

    A single x may be encoded anywhere, as long as all together look like the prior: no blur is asked for as in a VAE.

    code: how many numbers a code has; weight: λ; kernel: "imq" (heavy tails: far codes still feel a pull) or "rbf"
    Options: error, noise, penalties, as in `Autoencoder`

    >>> model = WassersteinAutoencoder(nn.Linear(6, 2), nn.Linear(2, 6), 2)
    >>> model.sample(3).shape, model.promises["sample"]
    (weft.Size([3, 6]), 'estimate')
    """

    def __init__(
        self,
        encoder: nn.Module,
        decoder: nn.Module,
        code: int,
        error: str = "squared_error",
        *,
        weight: float = 10.0,
        kernel: str = "imq",
        penalties: Sequence[Penalty] = (),
        **options: Any,
    ) -> None:
        super().__init__(encoder, decoder, error, penalties=(PriorMismatch(weight, kernel), *penalties), **options)
        self.code = code

    @estimate
    @weft.no_grad()
    def sample(self, n: int, condition: Any = None, generator: Any = None) -> Tensor:
        """What the decoder makes of draws of the prior: (n, *event)"""
        self._unconditional(condition)
        return self.decode(weft.randn(n, self.code, generator=generator))


@dataclass(frozen=True)
class PriorMismatch:
    """λ MMD²(codes, as many draws of N(0, 1)): a penalty for any autoencoder."""

    weight: float
    kernel: str = "imq"

    def __post_init__(self) -> None:
        _check_kernel(self.kernel)

    def __call__(self, model: Autoencoder, x: Tensor, z: Tensor, generator: Any) -> Tensor:
        return self.weight * mmd(z, weft.randn(z.shape, dtype=z.dtype, generator=generator), self.kernel)


def mmd(x: Tensor, y: Tensor, kernel: str = "imq", scales: Sequence[float] = SCALES) -> Tensor:
    """MMD² of two samples without bias: mean k(x, x') + mean k(y, y') − 2 mean k(x, y), no point paired with itself.

    "imq": Σₛ Cₛ / (Cₛ + ‖x − y‖²),  "rbf": Σₛ exp(−‖x − y‖² / Cₛ),  Cₛ = 2 d s. It may come out below 0.
    Shape: (N, d), (M, d) → ()
    """
    _check_kernel(kernel)
    if min(len(x), len(y)) < 2:
        raise ShapeError(f"mmd: expected two rows of each sample at least, got {len(x)} and {len(y)}")
    widths = [2 * x.shape[1] * scale for scale in scales]
    apart = lambda k: (k.sum() - k.diagonal().sum()) / (len(k) * (len(k) - 1))
    return (
        apart(_kernel(x, x, kernel, widths))
        + apart(_kernel(y, y, kernel, widths))
        - 2 * _kernel(x, y, kernel, widths).mean()
    )


def _kernel(x: Tensor, y: Tensor, kernel: str, widths: Sequence[float]) -> Tensor:
    """(N, d), (M, d) → (N, M)"""
    distance = ((x.unsqueeze(1) - y) ** 2).sum(2)
    if kernel == "imq":
        return sum(width / (width + distance) for width in widths)
    return sum((-distance / width).exp() for width in widths)


def _check_kernel(kernel: str) -> None:
    if kernel not in KERNELS:
        raise OptionError(f"mmd: kernel must be one of {KERNELS}, got {kernel!r}")
