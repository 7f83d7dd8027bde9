"""Adversarial examples: the worst input near a given one, how often it fools a model, and training against it.

max_δ L(f(x + δ), y) with ‖δ‖ ≤ ε, solved to first order (FGSM; Goodfellow et al. 2015) or by projected gradient ascent
(PGD; Madry et al. 2018). Attacks are plain functions of (model, x, y): inside a task they are compiled with the step,
where the iterations of PGD are one loop.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

import weft

from ...errors import OptionError
from ...nn import functional as F
from ...nn.module import Module
from ...ops.create.sample import Generator
from ...tensor import Tensor
from ..running.step import Steps
from ..supervised import Classification, accuracy
from .parts import evaluating

__all__ = ["AdversarialTraining", "Robustness", "fgsm", "pgd", "robustness"]

Attack = Callable[[Module, Tensor, Tensor], Tensor]
Loss = Callable[[Tensor, Tensor], Tensor]
Bounds = tuple[float, float] | None


# ------------------------------------------------------------------------------------------- attacks


def fgsm(
    model: Module,
    x: Tensor,
    y: Tensor,
    epsilon: float,
    *,
    loss: Loss = F.cross_entropy,
    bounds: Bounds = (0.0, 1.0),
) -> Tensor:
    """x + ε sign ∇ₓL, within `bounds`: the worst point of the ball ‖δ‖_∞ ≤ ε where the loss is linear in x.

    For a linear score w·x it lowers the margin by ε‖w‖₁. The model is used in evaluation mode. A targeted attack takes
    the target as y and a loss with the opposite sign.
    """
    _check(epsilon, "fgsm")
    with evaluating(model):
        return _within(x.detach() + epsilon * input_gradient(model, x, y, loss).sign(), bounds)


def pgd(
    model: Module,
    x: Tensor,
    y: Tensor,
    epsilon: float,
    *,
    steps: int = 10,
    step_size: float | None = None,
    norm: float = math.inf,
    random_start: bool = True,
    loss: Loss = F.cross_entropy,
    bounds: Bounds = (0.0, 1.0),
    generator: Generator | None = None,
) -> Tensor:
    """a ← Π(a + α d(∇ₐL)) `steps` times, Π the projection onto the ball ‖a − x‖ ≤ ε and then onto `bounds`.

    norm: inf (d = sign) or 2 (d = gradient / its norm, for each example). step_size α: 2.5 ε / steps if None.
    random_start: from a point drawn uniformly from the ball instead of x.

    >>> attack = functools.partial(pgd, epsilon=0.1, steps=20)
    >>> worst = attack(model, images, labels)
    """
    _check(epsilon, "pgd")
    if norm not in _BALLS or steps < 1:
        raise OptionError(f"pgd: expected norm inf or 2 and steps ≥ 1, got norm {norm} and {steps} steps")
    x, ball = x.detach(), _BALLS[norm](epsilon)
    size = 2.5 * epsilon / steps if step_size is None else step_size

    def climb(number: Tensor, a: Tensor) -> Tensor:
        moved = a + size * ball.direction(input_gradient(model, a, y, loss))
        return _within(ball.project(moved, x), bounds)

    start = _within(x + ball.draw(x, generator), bounds) if random_start else x
    with evaluating(model):
        return weft.fori_loop(0, steps, climb, start)


def input_gradient(model: Module, x: Tensor, y: Tensor, loss: Loss = F.cross_entropy) -> Tensor:
    """∇ₓ L(f(x), y), whether or not gradients are switched on; parameters get none."""
    with weft.enable_grad():
        x = x.detach().requires_grad_()
        (gradient,) = weft.autograd.grad(loss(model(x), y), x)
    return gradient.detach()


@dataclass(frozen=True)
class _Box:
    """The ball of the largest coordinate."""

    epsilon: float

    def direction(self, gradient: Tensor) -> Tensor:
        return gradient.sign()

    def project(self, a: Tensor, x: Tensor) -> Tensor:
        return a.clamp(min=x - self.epsilon, max=x + self.epsilon)

    def draw(self, x: Tensor, generator: Generator | None) -> Tensor:
        return self.epsilon * (2 * weft.rand(x.shape, dtype=x.dtype, generator=generator) - 1)


@dataclass(frozen=True)
class _Sphere:
    """The Euclidean ball of each example."""

    epsilon: float

    def direction(self, gradient: Tensor) -> Tensor:
        return gradient / _lengths(gradient).clamp(min=1e-12)

    def project(self, a: Tensor, x: Tensor) -> Tensor:
        moved = a - x
        return x + moved * (self.epsilon / _lengths(moved).clamp(min=1e-12)).clamp(max=1.0)

    def draw(self, x: Tensor, generator: Generator | None) -> Tensor:
        """A normal direction with radius ε u^(1/D): uniform in the ball."""
        towards = self.direction(weft.randn(x.shape, dtype=x.dtype, generator=generator))
        share = weft.rand(x.shape[0], dtype=x.dtype, generator=generator) ** (1 / max(x[0].numel(), 1))
        return self.epsilon * towards * share.reshape(-1, *[1] * (x.ndim - 1))  # (B,) → (B, 1, …)


_BALLS: dict[float, Any] = {math.inf: _Box, 2: _Sphere}


def _lengths(x: Tensor) -> Tensor:
    """Euclidean norms of the examples: (B, …) → (B, 1, …)."""
    return x.flatten(1).norm(dim=1).reshape(-1, *[1] * (x.ndim - 1))


def _within(x: Tensor, bounds: Bounds) -> Tensor:
    return x if bounds is None else x.clamp(*bounds)


def _check(epsilon: float, who: str) -> None:
    if not epsilon >= 0:
        raise OptionError(f"{who}: expected epsilon ≥ 0, got {epsilon}")


# ------------------------------------------------------------------------------------------- figures


@dataclass(frozen=True)
class Robustness:
    """Accuracy on inputs as they are and on inputs under attack."""

    clean: float
    robust: float
    examples: int


def robustness(model: Module, batches: Iterable[Any], attack: Attack, *, compile: bool | str = True) -> Robustness:
    """Clean and robust accuracy over batches (x, y); attack and both predictions are one compiled function."""

    def correct(x: Tensor, y: Tensor) -> tuple[Tensor, Tensor]:
        with weft.no_grad():
            worst = attack(model, x, y)
            return (model(x).argmax(1) == y).sum(), (model(worst).argmax(1) == y).sum()

    counted, clean, robust = 0, 0, 0
    run = Steps(correct, "the attack", compile)
    with evaluating(model):
        for x, y in batches:
            hits = run(x, y)
            clean, robust, counted = clean + hits[0].item(), robust + hits[1].item(), counted + len(y)
    if not counted:
        raise OptionError("robustness: there were no batches")
    return Robustness(clean / counted, robust / counted, counted)


class AdversarialTraining(Classification):
    """min_θ E max_δ L(f_θ(x + δ), y): every training batch is attacked first.

    attack(model, x, y) → inputs, for training; test_attack: for validation and test, the same unless given.
    clean_share: weight of the loss of unchanged inputs. Logged beside the figures of unchanged inputs: val_robust_acc
    and test_robust_acc. Other arguments are those of `Classification`.

    >>> task = AdversarialTraining(model, functools.partial(pgd, epsilon=0.1, steps=5), lr=1e-3)
    """

    def __init__(
        self,
        model: Module,
        attack: Attack,
        *,
        test_attack: Attack | None = None,
        clean_share: float = 0.0,
        **options: Any,
    ) -> None:
        if not 0 <= clean_share <= 1:
            raise OptionError(f"AdversarialTraining: expected clean_share in [0, 1], got {clean_share}")
        super().__init__(model, **options)
        self.attack, self.test_attack, self.clean_share = attack, test_attack or attack, clean_share

    def training_step(self, batch: Any) -> Tensor:
        x, y = batch
        robust = self.measured(self(self.attack(self.model, x, y)), y, "train")
        if not self.clean_share:
            return robust
        return (1 - self.clean_share) * robust + self.clean_share * self.loss(self(x), y)

    def validation_step(self, batch: Any) -> Tensor:
        return self._both(batch, "val")

    def test_step(self, batch: Any) -> Tensor:
        return self._both(batch, "test")

    def _both(self, batch: Any, stage: str) -> Tensor:
        """Figures of the inputs as they are, and the accuracy under attack."""
        x, y = batch
        worst = self.test_attack(self.model, x, y)
        self.log(f"{stage}_robust_acc", accuracy(self(worst), y), prog_bar=True)
        return self.measured(self(x), y, stage)
