"""A detector for adversarial models: critics that are steeper than they may be, scores that hang on other examples, draws
that have lost modes. Like those of `checks`, it takes plain functions and tensors, so anybody's model."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import weft

from ...errors import ConditionError, ShapeError
from ...metrics.modes import mode_counts
from ...tensor import Tensor

__all__ = ["GANFound", "check_gan", "lipschitz_estimate"]


class GANFound(NamedTuple):
    """lipschitz: the largest slope found, between and at the points; modes, good: of the draws, None where centres are not
    known"""

    lipschitz: float
    modes: int | None
    good: float | None


def check_gan(
    critic: Callable[[Tensor], Tensor],
    real: Tensor,
    draws: Tensor,
    *,
    lipschitz: float | None = None,
    centres: Tensor | None = None,
    scale: float = 1.0,
    least_modes: int | None = None,
    tolerance: float = 0.05,
) -> GANFound:
    """What a critic and a generator promise, measured on data and draws (B, *event) each.

    A score must belong to one example alone; the slopes by autograd must be those of finite differences; neither they nor
    differences between any two points may exceed `lipschitz`; and draws within 3 · scale of a centre (K, D) must have
    found `least_modes` of them (by default all).
    """
    if real.shape != draws.shape or len(real) < 2:
        raise ShapeError(
            f"check_gan: expected data and draws of one shape (B, *event), B ≥ 2, got {tuple(real.shape)} and "
            f"{tuple(draws.shape)}"
        )
    points = weft.cat([real, draws]).detach()
    _own_scores(critic, points, tolerance)
    found = lipschitz_estimate(critic, points, tolerance=tolerance)
    if lipschitz is not None and not found <= lipschitz * (1 + tolerance):
        raise ConditionError(
            f"check_gan: the critic has a slope of {found:.4g}, but may have {lipschitz:g} at most: raise the penalty, "
            "take more steps of the critic, or normalise its weights"
        )
    if centres is None:
        return GANFound(found, None, None)
    counted = mode_counts(draws.flatten(1), centres, scale)
    if counted.modes < (len(centres) if least_modes is None else least_modes):
        raise ConditionError(
            f"check_gan: {len(draws)} draws have found {counted.modes} of {len(centres)} modes ({counted.good:.0%} are "
            "within 3 deviations of one): the generator has collapsed, or has not learnt yet"
        )
    return GANFound(found, counted.modes, counted.good)


def lipschitz_estimate(critic: Callable[[Tensor], Tensor], x: Tensor, *, tolerance: float = 0.05) -> float:
    """The largest ‖∇f‖ at the points x and |f(x) − f(y)| / ‖x − y‖ between neighbours in the batch: never above the true
    Lipschitz constant. Slopes that finite differences along them contradict are an error."""
    scores = lambda x: critic(x).reshape(len(x), -1).double().sum(1)  # (B,)
    slope = weft.func.grad(lambda x: scores(x).sum())(x)
    norm = slope.flatten(1).double().norm(dim=1)  # (B,)
    with weft.no_grad():
        along = slope / norm.clamp(min=1e-12).reshape(-1, *[1] * (x.dim() - 1)).to(x.dtype)
        step = 1e-3 * (1 + x.abs().max().item())
        measured = (scores(x + step * along) - scores(x - step * along)) / (2 * step)
        apart = (x - x.roll(1, 0)).flatten(1).double().norm(dim=1)
        between = ((scores(x) - scores(x.roll(1, 0))).abs() / apart.clamp(min=1e-12))[apart > 0]
    wrong = (measured - norm).abs() > tolerance * (1 + norm)
    if wrong.double().mean().item() > 0.1:  # a few points may lie on a kink
        worst = (measured - norm).abs().argmax().item()
        raise ConditionError(
            f"lipschitz_estimate: autograd says that the critic's slope at example {worst} is {norm[worst].item():.4g}, finite "
            f"differences say {measured[worst].item():.4g}: the gradient that penalties use is not that of the critic"
        )
    return max(norm.max().item(), between.max().item() if len(between) else 0.0)


def _own_scores(critic: Callable[[Tensor], Tensor], x: Tensor, tolerance: float) -> None:
    with weft.no_grad():
        together, alone = critic(x)[: len(x) // 2], critic(x[: len(x) // 2])
    if together.shape != alone.shape:
        raise ShapeError(f"check_gan: expected one score an example, got {tuple(together.shape)} of {len(x) // 2}")
    worst = (together - alone).abs().max().item()
    if not worst <= tolerance * (1 + alone.abs().max().item()):
        raise ConditionError(
            f"check_gan: scores change by {worst:.3g} when other examples leave the batch (batch normalisation?), so a "
            "gradient penalty on single examples means nothing"
        )
