"""Posteriors that are bent by flows: a diagonal Gaussian, then invertible maps, each of which may see the example.

(Rezende and Mohamed 2015, Kingma et al. 2016, N1 thm. 10.2)
"""

from __future__ import annotations

from collections.abc import Callable

from ...errors import OptionError
from ...tensor import Tensor
from ..flows.bijector import Bijector, Chain
from ..flows.iaf import IAF
from ..flows.planar import Planar
from ..flows.radial import Radial
from .posteriors import DiagonalGaussian, Posterior

__all__ = ["FlowPosterior", "flow_posterior"]


class FlowPosterior(Posterior):
    """z₀ = μ + σ ε,  z = f(z₀; h),  log q(z | x) = log q₀(z₀) − log|det ∂f/∂z₀|; the encoder says μ, log σ and h.

    The ELBO is then E_{q₀}[log p(x, z) − log q₀(z₀) + Σₖ log|det Jₖ|]: N1 thm. 10.2 has its negative, the free energy.
    No divergence is in closed form here; all of it comes from the draws.

    flow: (N, code), context (N, context) → z (N, code), log|det J| (N,); context: how many numbers h has
    """

    closed_form = False

    def __init__(self, flow: Bijector, context: int = 0) -> None:
        super().__init__()
        self.flow, self.context, self.start = flow, context, DiagonalGaussian()

    def size(self, code: int) -> int:
        return 2 * code + self.context

    def draw(self, said: Tensor, noise: Tensor) -> tuple[Tensor, Tensor]:
        start, context = self._split(said)
        z, log_start = self.start.draw(start, noise)
        moved, volume = self._moved(z, context)
        return moved, log_start - volume

    def mean(self, said: Tensor) -> Tensor:
        """Where the flow takes the mean of q₀: the flow's own mean is known from draws alone. (B, size) → (B, code)"""
        start, context = self._split(said)
        return self._moved(self.start.mean(start).unsqueeze(0), context)[0].squeeze(0)

    def log_prob(self, said: Tensor, z: Tensor) -> Tensor:
        """By the way back through the flow: quick for planar and radial maps, code passes for each IAF."""
        start, context = self._split(said)
        back, volume = self.flow.inverse(z.flatten(0, 1), self._repeated(context, len(z)))
        return self.start.log_prob(start, back.reshape(z.shape)) + volume.reshape(z.shape[:-1])

    def _split(self, said: Tensor) -> tuple[Tensor, Tensor | None]:
        if not self.context:
            return said, None
        return said[:, : -self.context], said[:, -self.context :]

    def _moved(self, z: Tensor, context: Tensor | None) -> tuple[Tensor, Tensor]:
        """(K, B, code) → (K, B, code), (K, B)"""
        moved, volume = self.flow(z.flatten(0, 1), self._repeated(context, len(z)))
        return moved.reshape(z.shape), volume.reshape(z.shape[:-1])

    def _repeated(self, context: Tensor | None, times: int) -> Tensor | None:
        return context if context is None or times == 1 else context.repeat(times, 1)  # (K · B, context)


def flow_posterior(kind: str, code: int, steps: int = 4, context: int = 32, hidden: int = 100) -> FlowPosterior:
    """A posterior with `steps` maps of one kind: "planar", "radial" or "iaf" (a hidden layer of `hidden` units each).

    Autoregressive maps go through the elements forth and back in turn, so that each sees what the last did not.

    >>> flow_posterior("planar", 5, steps=2, context=8).size(5)
    18
    """
    orders = ("natural", "reversed")
    makers: dict[str, Callable[[int], Bijector]] = {
        "planar": lambda step: Planar(code, context),
        "radial": lambda step: Radial(code, context),
        "iaf": lambda step: IAF(code, (hidden,), context=context, order=orders[step % 2]),
    }
    if kind not in makers or steps < 1:
        raise OptionError(f"flow_posterior: expected {', '.join(makers)} and at least one step, got {kind!r}, {steps}")
    return FlowPosterior(Chain(*map(makers[kind], range(steps))), context)
