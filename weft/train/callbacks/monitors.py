"""Figures about the training itself: learning rates, sizes of updates, flow of gradients."""

from __future__ import annotations

import warnings
from typing import TYPE_CHECKING, Any

from ...errors import OptionError
from ...tensor import Tensor
from .base import Callback

if TYPE_CHECKING:
    from ...optim import Optimizer
    from ..task import Task
    from ..trainer import Trainer

__all__ = ["GradientFlow", "LearningRateMonitor", "UpdateRatio"]


class LearningRateMonitor(Callback):
    """Logs the learning rates: 'lr', or 'lr_0', 'lr_1' … for several optimisers or groups; also momenta if wanted."""

    def __init__(self, log_momentum: bool = False) -> None:
        self.log_momentum = log_momentum

    def figures(self, trainer: Trainer, task: Task) -> dict[str, float]:
        groups = [group for optimizer in trainer.optimizers for group in optimizer.param_groups]
        out = {}
        for number, group in enumerate(groups):
            suffix = "" if len(groups) == 1 else f"_{number}"
            out[f"lr{suffix}"] = float(group["lr"])
            if self.log_momentum:
                out[f"momentum{suffix}"] = float(group.get("momentum", group.get("betas", (0.0,))[0]))
        return out


class UpdateRatio(Callback):
    """Logs σ(Δθ) / σ(θ) of every parameter, every few updates: about 10⁻³ is healthy, more than 10⁻² too fast.

    Computed inside the compiled step, as 'update_ratio/<parameter>'. Parameters whose elements are all equal (biases
    before the first update) give no ratio.
    """

    def __init__(self, every_n_steps: int = 50) -> None:
        self.every_n_steps = _positive(every_n_steps, "UpdateRatio")

    def before_update(self, task: Task, optimizer: Optimizer) -> list[tuple[str, Tensor, Tensor]]:
        return [(name, p, p.detach().clone()) for name, p in _moved(task, optimizer) if p.numel() > 1]

    def after_update(
        self, task: Task, optimizer: Optimizer, before: list[tuple[str, Tensor, Tensor]]
    ) -> dict[str, Tensor]:
        return {f"update_ratio/{name}": (p.detach() - old).std() / old.std() for name, p, old in before}


class GradientFlow(Callback):
    """Logs the root mean square of every parameter's gradient, every few updates, as 'gradient/<parameter>'.

    Warns once about parameters that get no gradient at all, and when the largest is more than `limit` times the
    smallest: gradients that vanish or explode on their way back.
    """

    def __init__(self, every_n_steps: int = 50, limit: float = 1e6) -> None:
        self.every_n_steps, self.limit = _positive(every_n_steps, "GradientFlow"), limit
        self.warned: set[str] = set()

    def before_update(self, task: Task, optimizer: Optimizer) -> dict[str, Tensor]:
        return {f"gradient/{name}": p.grad.detach().square().mean().sqrt() for name, p in _moved(task, optimizer)}

    def after_update(self, task: Task, optimizer: Optimizer, before: dict[str, Tensor]) -> dict[str, Tensor]:
        return before

    def on_train_batch_end(
        self, trainer: Trainer, task: Task, outputs: dict[str, float], batch: Any, batch_idx: int
    ) -> None:
        sizes = {name.partition("/")[2]: value for name, value in outputs.items() if name.startswith("gradient/")}
        if not sizes:
            return
        if none := [name for name, value in sizes.items() if value == 0]:
            self._warn("none", f"no gradient reaches {', '.join(none[:5])} (all its elements are 0)")
        lowest, highest = min(sizes, key=sizes.__getitem__), max(sizes, key=sizes.__getitem__)
        if sizes[lowest] and sizes[highest] > self.limit * sizes[lowest]:
            self._warn(
                "spread",
                f"gradients differ by a factor of {sizes[highest] / sizes[lowest]:.1e}: {lowest} {sizes[lowest]:.1e}, "
                f"{highest} {sizes[highest]:.1e}",
            )

    def _warn(self, kind: str, text: str) -> None:
        if kind not in self.warned:
            self.warned.add(kind)
            warnings.warn(f"GradientFlow: {text}", stacklevel=4)


def _moved(task: Task, optimizer: Optimizer) -> list[tuple[str, Tensor]]:
    """The parameters that this optimiser is about to move, with their names."""
    own = {id(p) for group in optimizer.param_groups for p in group["params"]}
    return [(name, p) for name, p in task.named_parameters() if id(p) in own and p.grad is not None]


def _positive(every: int, who: str) -> int:
    if not isinstance(every, int) or every < 1:
        raise OptionError(f"{who}: every_n_steps must be a whole number of at least 1, got {every!r}")
    return every
