"""Virtual adversarial training (Miyato et al. 2018; N1 §14.2): predictions stay where a small step would move them most."""

from __future__ import annotations

from typing import Any

import weft

from ....errors import OptionError
from ....nn.module import Module
from ....tensor import Tensor
from .base import SemiSupervised
from .parts import entropy, kl_divergence, statistics_kept
from .streams import SemiBatch

__all__ = ["VAT", "virtual_adversary"]


class VAT(SemiSupervised):
    """L_u = mean KL(p(·|x) ‖ p(·|x + r)),  r = vat_eps · d,  d the direction in which KL rises fastest.

    vat_eps: length of the step of one example, over all its numbers
    xi, num_iters: of the power iteration that finds d, see `virtual_adversary`
    ent_loss_ratio: weight, within L_u, of the entropy of predictions (VAT + EntMin)
    options: those of `SemiSupervised`

    >>> task = VAT(nn.Linear(2, 3), vat_eps=0.3, ent_loss_ratio=1.0)
    """

    def __init__(
        self,
        model: Module,
        *,
        vat_eps: float = 2.0,
        xi: float = 1e-2,
        num_iters: int = 1,
        ent_loss_ratio: float = 0.0,
        **options: Any,
    ) -> None:
        super().__init__(model, **options)
        if not (vat_eps > 0 and ent_loss_ratio >= 0):
            raise OptionError(f"VAT: expected vat_eps > 0 and ent_loss_ratio ≥ 0, got {vat_eps} and {ent_loss_ratio}")
        self.vat_eps, self.xi, self.num_iters = vat_eps, xi, num_iters
        self.ent_loss_ratio = ent_loss_ratio

    def losses(self, batch: SemiBatch) -> tuple[Tensor, Tensor]:
        labelled, said = self.scores(batch.x_lb, batch.x_ulb_w)
        with statistics_kept(self.model):
            clean = self.model(batch.x_ulb_w).detach() if self._normalised() else said.detach()
            r = self.vat_eps * virtual_adversary(self.model, batch.x_ulb_w, clean, xi=self.xi, num_iters=self.num_iters)
            smooth = kl_divergence(clean, self.model(batch.x_ulb_w + r)).mean()
        if self.ent_loss_ratio:
            smooth = smooth + self.ent_loss_ratio * entropy(said)
        return self.loss(labelled, batch.y_lb), smooth

    def _normalised(self) -> bool:
        """Whether predictions depend on the rest of a batch, so that p(·|x) needs a pass of its own."""
        return any(hasattr(part, "running_mean") for part in self.model.modules())


def virtual_adversary(model: Module, x: Tensor, logits: Tensor, *, xi: float = 1e-2, num_iters: int = 1) -> Tensor:
    """Unit vectors d that maximise dᵀ H d, H the Hessian of r ↦ KL(p(·|x) ‖ p(·|x + r)) at 0, one an example.

    KL has its least value, 0, at r = 0, so ∇KL(ξ d) = ξ H d + O(ξ²): d ← ∇KL(ξ d) / ‖·‖ is power iteration without H.

    x (B, …); logits (B, C): model(x); xi: ξ; num_iters: iterations, from a random direction. Returns (B, …)
    """
    if num_iters < 1 or not xi > 0:
        raise OptionError(f"virtual_adversary: expected xi > 0 and num_iters ≥ 1, got {xi} and {num_iters}")
    x, logits = x.detach(), logits.detach()
    d = unit_rows(weft.randn(x.shape, dtype=x.dtype))
    for _ in range(num_iters):
        with weft.enable_grad():
            step = (xi * d).requires_grad_()
            (gradient,) = weft.autograd.grad(kl_divergence(logits, model(x + step)).sum(), step)
        d = unit_rows(gradient.detach())
    return d


def unit_rows(x: Tensor) -> Tensor:
    """Each example divided by its Euclidean length; 0 stays 0. (B, …) → (B, …)

    First by its largest element: squares of tiny slopes would be lost in float32.
    """
    rows = x.flatten(1)
    rows = rows / rows.abs().amax(1, keepdim=True).clamp(min=1e-30)
    return (rows / rows.norm(dim=1, keepdim=True).clamp(min=1e-12)).reshape(x.shape)
