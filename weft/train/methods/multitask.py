"""Several tasks, one model: a trunk that all share, a head for each, and how their losses are weighed."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import weft

from ... import optim
from ...errors import OptionError
from ...nn.container import ModuleDict
from ...nn.module import Module
from ...nn.parameter import Parameter
from ...optim import Optimizer
from ...tensor import Tensor
from ..task import Task

__all__ = ["FixedWeighting", "MultiHead", "MultiTask", "UncertaintyWeighting"]

Losses = Mapping[str, Tensor]


class MultiHead(Module):
    """{name: head(trunk(x))}: the trunk runs once for all heads.

    >>> model = MultiHead(nn.Linear(64, 32), {"digit": nn.Linear(32, 10), "mean": nn.Linear(32, 1)})
    >>> model(x)["digit"].shape
    """

    def __init__(self, trunk: Module, heads: Mapping[str, Module]) -> None:
        super().__init__()
        if not heads:
            raise OptionError("MultiHead: expected at least one head")
        self.trunk, self.heads = trunk, ModuleDict(dict(heads))

    def forward(self, *inputs: Any) -> dict[str, Tensor]:
        features = self.trunk(*inputs)
        return {name: head(features) for name, head in self.heads.items()}


class FixedWeighting(Module):
    """Σ w_i L_i with weights that stay; names without one have weight 1."""

    def __init__(self, weights: Mapping[str, float] | None = None) -> None:
        super().__init__()
        self.weights = dict(weights or {})

    def forward(self, losses: Losses) -> Tensor:
        _known("FixedWeighting", self.weights, losses)
        return _sum([self.weights.get(name, 1.0) * loss for name, loss in losses.items()])


class UncertaintyWeighting(Module):
    """Σ c_i exp(−s_i) L_i + s_i / 2 with learned s_i = log σ_i² (Kendall et al. 2018).

    It is the negative log-likelihood of targets with noise σ_i: c_i = ½ for squared errors, 1 for cross entropies. The
    gradient of s_i is ½ − c_i exp(−s_i) L_i, so at the optimum exp(−s_i) = 1 / (2 c_i L_i): each task weighs as much as
    its loss is small. scales: name → c_i.

    >>> UncertaintyWeighting({"depth": 0.5, "segments": 1.0})
    """

    def __init__(self, scales: Mapping[str, float]) -> None:
        super().__init__()
        if not scales or min(scales.values()) <= 0:
            raise OptionError(f"UncertaintyWeighting: expected a scale > 0 for every task, got {dict(scales)}")
        self.names = list(scales)
        self.register_buffer("scales", weft.tensor(list(scales.values())))
        self.log_variances = Parameter(weft.zeros(len(scales)))

    def forward(self, losses: Losses) -> Tensor:
        if set(losses) != set(self.names):
            raise OptionError(f"UncertaintyWeighting: expected losses of {sorted(self.names)}, got {sorted(losses)}")
        stacked = weft.stack([losses[name] for name in self.names])  # (tasks,)
        return (self.scales * (-self.log_variances).exp() * stacked + self.log_variances / 2).sum()

    def weights(self) -> dict[str, float]:
        """What each loss is multiplied by now: c_i exp(−s_i)."""
        with weft.no_grad():
            return dict(zip(self.names, (self.scales * (-self.log_variances).exp()).tolist(), strict=True))


class MultiTask(Task):
    """Batches (x, {name: y}); the model gives {name: prediction}; their losses are joined by `weighting`.

    losses: name → function(prediction, y) → scalar. weighting: a module of {name: loss} → scalar; the plain sum if
    None. Its parameters are trained with the model's. Logged: train_loss, train_loss_name, and, with metrics {name:
    {figure: function}}, train_name_figure; the same for val and test.

    >>> MultiTask(model, {"digit": F.cross_entropy, "mean": F.mse_loss}, UncertaintyWeighting({"digit": 1, "mean": 0.5}))
    """

    def __init__(
        self,
        model: Module,
        losses: Mapping[str, Callable[[Tensor, Tensor], Tensor]],
        weighting: Module | None = None,
        *,
        optimizer: Callable[[Any], Optimizer] | None = None,
        metrics: Mapping[str, Mapping[str, Callable[[Tensor, Tensor], Tensor]]] | None = None,
    ) -> None:
        super().__init__()
        if not losses:
            raise OptionError("MultiTask: expected at least one loss")
        _known("MultiTask metrics", metrics or {}, losses)
        self.model, self.weighting = model, weighting or FixedWeighting()
        self.losses, self.metrics = dict(losses), {name: dict(row) for name, row in (metrics or {}).items()}
        self.optimizer = optimizer

    def forward(self, *inputs: Any) -> dict[str, Tensor]:
        return self.model(*inputs)

    def training_step(self, batch: Any) -> Tensor:
        return self._joined(batch, "train")

    def validation_step(self, batch: Any) -> Tensor:
        return self._joined(batch, "val")

    def test_step(self, batch: Any) -> Tensor:
        return self._joined(batch, "test")

    def _joined(self, batch: Any, stage: str) -> Tensor:
        """The weighed loss of a batch, with what is logged of each task."""
        x, targets = batch
        predictions = self(x)
        for given, what in ((targets, "targets"), (predictions, "predictions")):
            if missing := sorted(set(self.losses) - set(given)):
                raise OptionError(f"MultiTask: {what} of {missing} are missing; there are {sorted(given)}")
        losses = {name: loss(predictions[name], targets[name]) for name, loss in self.losses.items()}
        total = self.weighting(losses)
        self.log(f"{stage}_loss", total, prog_bar=True)
        self.log_dict({f"{stage}_loss_{name}": loss for name, loss in losses.items()})
        for name, row in self.metrics.items():
            for figure, function in row.items():
                self.log(f"{stage}_{name}_{figure}", function(predictions[name].detach(), targets[name]))
        return total

    def configure_optimizers(self) -> Optimizer:
        parameters = [p for p in self.parameters() if p.requires_grad]
        return optim.Adam(parameters, lr=1e-3) if self.optimizer is None else self.optimizer(parameters)


def _sum(terms: list[Tensor]) -> Tensor:
    return sum(terms[1:], terms[0])


def _known(who: str, given: Mapping[str, Any], losses: Mapping[str, Any]) -> None:
    if unknown := sorted(set(given) - set(losses)):
        raise OptionError(f"{who}: there is no task {unknown}; tasks are {sorted(losses)}")
