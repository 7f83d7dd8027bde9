"""Posteriors that are bent by flows: a diagonal Gaussian, then invertible maps, each of which may see the example.

(Rezende and Mohamed 2015, Kingma et al. 2016, N1 thm. 10.2)
"""

from __future__ import annotations

from collections.abc import Callable

import weft

from ...errors import OptionError
from ...tensor import Tensor
from ..flows.bijector import Bijector, Chain
from ..flows.iaf import IAF
from ..flows.planar import Planar
from ..flows.radial import Radial
from ..flows.univariate import Affine
from .posteriors import DiagonalGaussian, Posterior, held

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

    def path_draw(self, said: Tensor, noise: Tensor) -> tuple[Tensor, Tensor]:
        """∂log q/∂z from g J = ∂/∂z₀ (log q₀(z₀) − log|det J|) with J = ∂z/∂z₀, which `code` copies of the rows cost: the
        way back through the flow is not taken (Vaitl et al. 2022 go along the flow map by map)."""
        z, log_posterior = self.draw(said, noise)
        return z, held(log_posterior, self._slope(said.detach(), noise), z)

    def _slope(self, said: Tensor, noise: Tensor) -> Tensor:
        """∂log q/∂z, weights held: (K, B, code)"""
        start, context = self._split(said)
        z = self.start.draw(start, noise)[0]
        code, seen = z.shape[-1], self._repeated(context, len(z))
        log_prob = lambda z: self.start.log_prob(start, z).sum() - self._moved(z, context)[1].sum()
        many = None if seen is None else seen.repeat(code, 1)
        picked = weft.eye(code, dtype=z.dtype).unsqueeze(1)  # copy i of the rows tells ∂zᵢ/∂z₀
        chosen = lambda rows: (self.flow(rows, many)[0].unflatten(0, (code, -1)) * picked).sum()
        jacobian = weft.func.grad(chosen)(z.flatten(0, 1).repeat(code, 1))  # (code · N, code)
        jacobian = jacobian.unflatten(0, (code, -1)).transpose(0, 1)  # (N, code, code)
        along = weft.func.grad(log_prob)(z).flatten(0, 1)  # (N, code)
        return weft.linalg.solve(jacobian.mT, along.unsqueeze(-1)).squeeze(-1).reshape(z.shape)

    def mean(self, said: Tensor) -> Tensor:
        """Where the flow takes the mean of q₀: the flow's own mean is known from draws alone. (B, size) → (B, code)"""
        start, context = self._split(said)
        return self._moved(self.start.mean(start).unsqueeze(0), context)[0].squeeze(0)

    def log_prob(self, said: Tensor, z: Tensor) -> Tensor:
        """By the way back through the flow: quick for planar and radial maps, code passes for each IAF."""
        start, context = self._split(said)
        z = z.expand(len(z), len(said), z.shape[-1])
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

    Autoregressive maps go through the elements forth and back in turn, so that each sees what the last did not; none
    scales by more than e: with room for e⁷ a training of many passes runs away.

    >>> flow_posterior("planar", 5, steps=2, context=8).size(5)
    18
    """
    orders = ("natural", "reversed")
    makers: dict[str, Callable[[int], Bijector]] = {
        "planar": lambda step: Planar(code, context),
        "radial": lambda step: Radial(code, context),
        "iaf": lambda step: IAF(code, (hidden,), Affine(1.0), context=context, order=orders[step % 2]),
    }
    if kind not in makers or steps < 1:
        raise OptionError(f"flow_posterior: expected {', '.join(makers)} and at least one step, got {kind!r}, {steps}")
    return FlowPosterior(Chain(*map(makers[kind], range(steps))), context)
