"""Averages of weights along training: stochastic weight averaging (SWA) and exponential moving averages (EMA)."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from copy import deepcopy
from typing import Any

import weft

from ..errors import ConditionError, InvalidValueError
from ..nn.module import Module
from ..nn.modules.batchnorm import BatchNorm
from ..tape.modes import mode, no_grad
from ..tensor import Tensor
from .lr_scheduler.cycle import anneal
from .lr_scheduler.schedule import LRScheduler, for_each_group
from .optimizer import Optimizer

__all__ = [
    "SWALR",
    "AveragedModel",
    "get_ema_avg_fn",
    "get_ema_multi_avg_fn",
    "get_swa_avg_fn",
    "get_swa_multi_avg_fn",
    "update_bn",
]


def get_ema_avg_fn(decay: float = 0.999) -> Callable:
    """ā ← decay · ā + (1 − decay) · θ, for one tensor."""
    _check_decay(decay)

    @no_grad()
    def ema_update(ema_param: Tensor, current_param: Tensor, num_averaged: Any) -> Tensor:
        return ema_param * decay + current_param * (1 - decay)

    return ema_update


def get_swa_avg_fn() -> Callable:
    """ā ← ā + (θ − ā) / (n + 1), for one tensor."""

    @no_grad()
    def swa_update(averaged_param: Tensor, current_param: Tensor, num_averaged: Any) -> Tensor:
        return averaged_param + (current_param - averaged_param) / (num_averaged + 1)

    return swa_update


def get_ema_multi_avg_fn(decay: float = 0.999) -> Callable:
    """ā ← decay · ā + (1 − decay) · θ, for lists of tensors, in place."""
    return _in_place(get_ema_avg_fn(decay))


def get_swa_multi_avg_fn() -> Callable:
    """ā ← ā + (θ − ā) / (n + 1), for lists of tensors, in place."""
    return _in_place(get_swa_avg_fn())


def _check_decay(decay: float) -> None:
    if not 0.0 <= decay <= 1.0:
        raise InvalidValueError(f"Invalid decay value {decay} provided. Please provide a value in [0,1] range.")


def _in_place(average: Callable) -> Callable:
    @no_grad()
    def update(averaged_param_list: list[Tensor], current_param_list: list[Tensor], num_averaged: Any) -> None:
        for averaged, current in zip(averaged_param_list, current_param_list, strict=True):
            averaged.copy_(average(averaged, current, num_averaged))

    return update


class AveragedModel(Module):
    """A copy of a model whose parameters are the average of those it was shown (Izmailov et al., 2018).

    model: the model, copied
    device: where the copy lies
    avg_fn: avg_fn(averaged, current, n) of one tensor, in place of the plain mean
    multi_avg_fn: multi_avg_fn(averaged_list, current_list, n), which writes into the first
    use_buffers: average buffers as well; otherwise they are copied

    >>> model = nn.Linear(1, 1, bias=False)
    >>> average = optim.swa_utils.AveragedModel(model)
    >>> for value in (1.0, 3.0):
    ...     model.weight.data.fill_(value)
    ...     average.update_parameters(model)
    tensor([[1.]])
    tensor([[3.]])
    >>> average.module.weight.item()
    2.0
    """

    n_averaged: Tensor

    def __init__(
        self,
        model: Module,
        device: Any = None,
        avg_fn: Callable | None = None,
        multi_avg_fn: Callable | None = None,
        use_buffers: bool = False,
    ) -> None:
        super().__init__()
        if avg_fn is not None and multi_avg_fn is not None:
            raise ConditionError("Only one of avg_fn and multi_avg_fn should be provided")
        self.module = deepcopy(model)
        self.register_buffer("n_averaged", weft.tensor(0, dtype=weft.int64))
        self.avg_fn, self.multi_avg_fn, self.use_buffers = avg_fn, multi_avg_fn, use_buffers

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        return self.module(*args, **kwargs)

    def update_parameters(self, model: Module) -> None:
        """Take the parameters of `model`, as they are now, into the average."""
        own, current = self._averaged_tensors(self.module), self._averaged_tensors(model)
        with no_grad():
            first = self.n_averaged == 0
            if mode.interpreter is None and first:
                _copy(own, current)
            else:
                average = self.multi_avg_fn or _in_place(self.avg_fn or get_swa_avg_fn())
                average(own, current, self.n_averaged)
            if mode.interpreter is not None:  # whether it was the first shows only when the plan runs
                _copy(own, [weft.where(first, new, mean) for new, mean in zip(current, own, strict=True)])
            if not self.use_buffers:
                _copy(self.module.buffers(), model.buffers())
            self.n_averaged += 1

    def _averaged_tensors(self, model: Module) -> list[Tensor]:
        buffers = model.buffers() if self.use_buffers else ()
        return [tensor.detach() for tensor in (*model.parameters(), *buffers)]


def _copy(targets: Iterable[Tensor], sources: Iterable[Tensor]) -> None:
    for target, source in zip(targets, sources, strict=True):
        target.detach().copy_(source.detach())


@no_grad()
def update_bn(loader: Iterable[Any], model: Module, device: Any = None) -> None:
    """Give the batch normalisation layers of an averaged model the statistics of the data in `loader`.

    The elements of `loader` are batches, or tuples and lists that begin with the batch.
    """
    layers = [module for module in model.modules() if isinstance(module, BatchNorm)]
    if not layers:
        return
    momenta, was_training = [layer.momentum for layer in layers], model.training
    for layer in layers:
        layer.reset_running_stats()
        layer.momentum = None  # the plain mean over all batches
    model.train()
    for batch in loader:
        model(batch[0] if isinstance(batch, (list, tuple)) else batch)
    for layer, momentum in zip(layers, momenta, strict=True):
        layer.momentum = momentum
    model.train(was_training)


class SWALR(LRScheduler):
    """The learning rate goes to `swa_lr` within some epochs, and stays.

    ε_t = α_t swa_lr + (1 − α_t) ε, where ε is the rate that the group would have without this schedule

    swa_lr: the rate to reach, a number or one for each group
    anneal_epochs: how many epochs the way takes
    anneal_strategy: along a 'cos' or in a 'linear' way

    >>> optimizer = optim.SGD([weft.zeros(1, requires_grad=True)], lr=1.0)
    >>> schedule = optim.swa_utils.SWALR(optimizer, swa_lr=0.5, anneal_epochs=2, anneal_strategy="linear")
    >>> for _ in range(3):
    ...     optimizer.step()
    ...     schedule.step()
    >>> optimizer.param_groups[0]["lr"]
    0.5
    """

    def __init__(
        self,
        optimizer: Optimizer,
        swa_lr: float | list[float],
        anneal_epochs: int = 10,
        anneal_strategy: str = "cos",
        last_epoch: int = -1,
    ) -> None:
        for group, rate in zip(optimizer.param_groups, for_each_group(swa_lr, optimizer, "swa_lr"), strict=True):
            group["swa_lr"] = rate
        if anneal_strategy not in ("cos", "linear"):
            raise InvalidValueError(f"anneal_strategy must be one of 'cos' or 'linear', instead got {anneal_strategy}")
        if not isinstance(anneal_epochs, int) or anneal_epochs < 0:
            raise InvalidValueError(f"anneal_epochs must be equal or greater than 0, got {anneal_epochs}")
        self._anneal_strategy, self.anneal_epochs = anneal_strategy, anneal_epochs
        super().__init__(optimizer, last_epoch)

    def get_lr(self) -> list[Any]:
        step = self._step_count - 1
        if self.anneal_epochs == 0:
            step = max(1, step)
        before, now = self._part(step - 1), self._part(step)
        rates = []
        for group in self.optimizer.param_groups:
            target = group["swa_lr"]
            free = target if before == 1 else (group["lr"] - before * target) / (1 - before)
            rates.append(target * now + free * (1 - now))
        return rates

    def _part(self, step: int) -> float:
        """α: how much of the way to swa_lr is done."""
        part = max(0.0, min(1.0, step / max(1, self.anneal_epochs)))
        return anneal(self._anneal_strategy, 0.0, 1.0, part)
