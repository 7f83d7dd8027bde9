"""VampPrior: the prior is what the encoder makes of a few inputs that are learned (Tomczak and Welling 2018).

    p(z) = 1/M Σₘ q(z | uₘ)
The best prior for the ELBO is the mean of q over the data; this is that mean over M inputs instead of all.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import weft

from ... import nn
from ...errors import OptionError, UnsupportedError
from ...tensor import Tensor
from .base import DenseVAE
from .posteriors import Posterior, posterior_named
from .priors import Prior

__all__ = ["DenseVampVAE", "VampPrior"]


class VampPrior(Prior):
    """A mixture of posteriors of pseudo-inputs; the divergence to it is drawn.

    encoder, posterior: those of the model, shared with it; event: shape of one x
    inputs: M; start: examples (M, *event) to begin with, else near ½. The uₘ are kept between `low` and `high`
    Parameters: logits (M, *event), u = low + (high − low) σ(logits)
    """

    def __init__(
        self,
        encoder: nn.Module,
        posterior: str | Posterior,
        event: Sequence[int],
        inputs: int = 500,
        *,
        start: Tensor | None = None,
        low: float = 0.0,
        high: float = 1.0,
    ) -> None:
        super().__init__()
        if inputs < 1 or not low < high:
            raise OptionError(f"VampPrior: expected inputs ≥ 1 and low < high, got {inputs}, {low}, {high}")
        self.shared = (encoder, posterior_named(posterior))  # in a tuple: their weights are the model's, not ours
        self.low, self.high = low, high
        values = 0.1 * weft.randn(inputs, *event) if start is None else self._logits(start[:inputs])
        if tuple(values.shape) != (inputs, *event):
            raise OptionError(
                f"VampPrior: expected {inputs} examples of shape {tuple(event)}, got {tuple(values.shape)}"
            )
        self.logits = nn.Parameter(values)

    def _logits(self, examples: Tensor) -> Tensor:
        return ((examples.detach() - self.low) / (self.high - self.low)).clamp(0.01, 0.99).logit()

    @property
    def pseudo_inputs(self) -> Tensor:
        """uₘ: (M, *event)"""
        return self.low + (self.high - self.low) * self.logits.sigmoid()

    def log_prob(self, z: Tensor, condition: Tensor | None = None) -> Tensor:
        """log 1/M Σₘ q(z | uₘ): (…, code) → (…)"""
        self._alone(condition)
        encoder, posterior = self.shared
        each = posterior.log_prob(encoder(self.pseudo_inputs), z.unsqueeze(-2))  # (…, M)
        return each.logsumexp(-1) - math.log(len(self.logits))

    def draw(self, n: int, code: int, dtype: Any, condition: Tensor | None = None, generator: Any = None) -> Tensor:
        self._alone(condition)
        encoder, posterior = self.shared
        chosen = weft.randint(0, len(self.logits), (n,), generator=generator)
        noise = posterior.noise((1, n, code), dtype, generator)
        inputs = self.pseudo_inputs
        said = encoder(inputs[chosen]) if n < len(inputs) else encoder(inputs)[chosen]  # whichever are fewer
        return posterior.draw(said, noise)[0][0]

    @staticmethod
    def _alone(condition: Tensor | None) -> None:
        if condition is not None:
            raise UnsupportedError("VampPrior: an encoder that takes conditions has no pseudo-inputs without them")


class DenseVampVAE(DenseVAE):
    """A `DenseVAE` with this prior.

    inputs: M; start: examples to begin with, (M, features)

    >>> model = DenseVampVAE(6, (8,), 2, inputs=5)
    >>> model.prior.log_prob(weft.zeros(3, 4, 2)).shape, model.sample(3).shape
    (weft.Size([3, 4]), weft.Size([3, 6]))
    """

    def __init__(
        self,
        features: int,
        hidden: Sequence[int],
        code: int,
        *args: Any,
        inputs: int = 500,
        start: Tensor | None = None,
        **options: Any,
    ) -> None:
        super().__init__(features, hidden, code, *args, **options)
        self.prior = VampPrior(self.encoder, self.posterior, (features,), inputs, start=start)
        self.closed_form = False
