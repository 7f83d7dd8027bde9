"""What keeps a discriminator smooth: penalties on its slope in x, ∇ₓ D(x), one norm an example."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import weft

from ... import nn
from ...errors import ConditionError, ShapeError
from ...nn.modules.batchnorm import BatchNorm
from ...tensor import Tensor

__all__ = ["GradientPenalty", "ZeroPenalty", "gradient_penalty", "r1_penalty", "r2_penalty"]

Critic = Callable[[Tensor], Tensor]
Penalty = Callable[..., Tensor]  # (critic, real, fake, generator) → ()


def gradient_penalty(
    critic: Critic, real: Tensor, fake: Tensor, *, one_sided: bool = False, generator: Any = None
) -> Tensor:
    """E (‖∇f(x̂)‖ − 1)² at x̂ = α x + (1 − α) G(z), one α even in [0, 1) an example (Gulrajani et al. 2017).

    The norm is over all of an example, pixels and channels together. Where it is 0 its slope counts as 0, not as NaN.
    one_sided: only norms above 1 cost, E max(0, ‖∇f‖ − 1)² (Petzka et al. 2018)
    """
    _same_shape(real, fake)
    refuse_batch_norm(critic)
    alpha = weft.rand(len(real), *[1] * (real.dim() - 1), dtype=real.dtype, generator=generator)  # (B, 1, …)
    between = alpha * real.detach() + (1 - alpha) * fake.detach()
    excess = _norms(slopes(critic, between)) - 1
    return ((excess.clamp(min=0) if one_sided else excess) ** 2).mean()


def r1_penalty(critic: Critic, real: Tensor) -> Tensor:
    """½ E ‖∇D(x)‖² at data (Mescheder et al. 2018): no slope left where the draws should be."""
    return 0.5 * _squares(slopes(critic, real.detach())).mean()


def r2_penalty(critic: Critic, fake: Tensor) -> Tensor:
    """½ E ‖∇D(x)‖² at draws."""
    return 0.5 * _squares(slopes(critic, fake.detach())).mean()


@dataclass(frozen=True)
class GradientPenalty:
    """λ `gradient_penalty`, as a GAN takes it."""

    weight: float = 10.0
    one_sided: bool = False

    def __call__(self, critic: Critic, real: Tensor, fake: Tensor, generator: Any = None) -> Tensor:
        return self.weight * gradient_penalty(critic, real, fake, one_sided=self.one_sided, generator=generator)


@dataclass(frozen=True)
class ZeroPenalty:
    """γ₁ `r1_penalty` + γ₂ `r2_penalty`, as a GAN takes it."""

    r1: float = 1.0
    r2: float = 0.0

    def __call__(self, critic: Critic, real: Tensor, fake: Tensor, generator: Any = None) -> Tensor:
        parts = [
            weight * penalty(critic, x)
            for weight, penalty, x in ((self.r1, r1_penalty, real), (self.r2, r2_penalty, fake))
            if weight
        ]
        return sum(parts[1:], parts[0]) if parts else weft.zeros((), dtype=real.dtype)


def slopes(critic: Critic, x: Tensor) -> Tensor:
    """∇D at each x, itself differentiable: like x. D of one example must not depend on the others."""
    with weft.enable_grad():
        x = x.detach().requires_grad_()
        (found,) = weft.autograd.grad(critic(x).sum(), x, create_graph=True)
    return found


def refuse_batch_norm(critic: Any) -> None:
    """Under batch normalisation a score depends on the whole batch, so there is no slope of one example to be kept at 1."""
    for name, layer in critic.named_modules() if isinstance(critic, nn.Module) else ():
        if isinstance(layer, BatchNorm) and layer.training:
            raise ConditionError(
                f"gradient_penalty: the critic has batch normalisation ({name or type(layer).__name__}), under which a score "
                "depends on all examples of its batch; take LayerNorm, GroupNorm or InstanceNorm, or none"
            )


def _squares(slope: Tensor) -> Tensor:
    """(B, *event) → (B,)"""
    return (slope**2).flatten(1).sum(1)


def _norms(slope: Tensor) -> Tensor:
    """(B, *event) → (B,), with slope 0 at 0."""
    squares = _squares(slope)
    positive = squares > 0
    return weft.where(positive, weft.where(positive, squares, 1).sqrt(), 0)


def _same_shape(real: Tensor, fake: Tensor) -> None:
    if real.shape != fake.shape or real.dim() < 2:
        raise ShapeError(
            f"gradient_penalty: expected data and draws of one shape (B, *event), got {tuple(real.shape)} and "
            f"{tuple(fake.shape)}"
        )
