"""Transfer learning: freeze what is known, replace the head, let layers learn at rates of their own.

Discriminative learning rates and gradual unfreezing are those of ULMFiT (Howard and Ruder 2018).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

from ...errors import OptionError
from ...nn.module import Module
from ...nn.modules.conv import Conv2d
from ...nn.modules.linear import Linear
from ...nn.parameter import Parameter
from ..callbacks import Callback
from .parts import Patterns, matching

if TYPE_CHECKING:
    from ..task import Task
    from ..trainer import Trainer

__all__ = ["GradualUnfreezing", "KeepInEval", "count_parameters", "freeze", "layer_groups", "replace_head", "unfreeze"]


def freeze(model: Module, patterns: Patterns = "*") -> list[str]:
    """Make the parameters whose names match constant; their names. Tasks leave them out of their optimisers.

    Running statistics of batch normalisation go on changing: see `KeepInEval`.

    >>> freeze(model)  # everything …
    >>> unfreeze(model, "fc.*")  # … but the head
    """
    return _set(model, patterns, False, "freeze")


def unfreeze(model: Module, patterns: Patterns = "*") -> list[str]:
    """Make the parameters whose names match trainable; their names."""
    return _set(model, patterns, True, "unfreeze")


def _set(model: Module, patterns: Patterns, trainable: bool, who: str) -> list[str]:
    parameters = dict(model.named_parameters())
    chosen = matching(parameters, patterns, who)
    for name in chosen:
        parameters[name].requires_grad_(trainable)
    return chosen


def count_parameters(model: Module) -> tuple[int, int]:
    """How many numbers are trained, and how many there are."""
    sizes = [(p.numel(), p.requires_grad) for p in model.parameters()]
    return sum(size for size, trained in sizes if trained), sum(size for size, _ in sizes)


def replace_head(model: Module, name: str, head: Module | int) -> Module:
    """Put another module in the place of the part `name`; the new one.

    A number makes a new layer of the same kind, Linear or Conv2d, with that many outputs and fresh weights.
    """
    path, _, last = name.rpartition(".")
    old = model.get_submodule(name)
    new = head if isinstance(head, Module) else _like(old, name, head)
    setattr(model.get_submodule(path), last, new)
    return new


def _like(old: Module, name: str, outputs: int) -> Module:
    if isinstance(old, Linear):
        return Linear(old.in_features, outputs, old.bias is not None, dtype=old.weight.dtype)
    if isinstance(old, Conv2d) and old.groups == 1:
        options = {"stride": old.stride, "padding": old.padding, "dilation": old.dilation, "bias": old.bias is not None}
        return Conv2d(old.in_channels, outputs, old.kernel_size, dtype=old.weight.dtype, **options)
    raise OptionError(f"replace_head: {name!r} is a {type(old).__name__}; give a module instead of a number of outputs")


def layer_groups(
    model: Module, stages: Sequence[Patterns] | None = None, *, lr: float, decay: float = 1 / 2.6
) -> list[dict[str, Any]]:
    """Parameter groups for an optimiser whose learning rate falls towards the input: lr · decayᵏ, k stages below the top.

    stages: patterns of parameter names from the input to the output, each parameter in the first that it matches; the
    parts of the model in their order if None. The groups come from the top down, frozen parameters included.

    >>> Classification(model, optimizer=lambda _: weft.optim.AdamW(layer_groups(model, lr=1e-3)))
    """
    groups = _staged(model, stages or _first_parts(model), "layer_groups")
    return [{"params": part, "lr": lr * decay**depth} for depth, part in enumerate(reversed(groups))]


def _first_parts(model: Module) -> list[str]:
    """Patterns for the parts and the parameters of a model itself, in their order, of those that have parameters."""
    heads = [name.partition(".") for name, _ in model.named_parameters()]
    return list(dict.fromkeys(first + dot + "*" * bool(dot) for first, dot, _ in heads))


def _staged(model: Module, stages: Iterable[Patterns], who: str) -> list[list[Parameter]]:
    """The parameters of each stage; one in none is an error."""
    left = dict(model.named_parameters())
    groups = []
    for patterns in stages:
        groups.append([left.pop(name) for name in matching(left, patterns, who)])
    if left:
        raise OptionError(f"{who}: no stage takes {', '.join(map(repr, list(left)[:3]))}; add a last stage '*'")
    return groups


class GradualUnfreezing(Callback):
    """Train the last stage first, then one more from the top every `every` epochs.

    stages: as in `layer_groups`, from the input to the output. The optimiser must hold all parameters, as it does with
    `layer_groups`: those that are frozen have no gradient, and it leaves them alone. The step is compiled anew at each
    change.

    >>> callback = GradualUnfreezing(["embedding.*", "encoder.*", "head.*"], every=2)
    """

    def __init__(self, stages: Sequence[Patterns], every: int = 1) -> None:
        if every < 1 or not stages:
            raise OptionError(f"GradualUnfreezing: expected stages and every ≥ 1, got {len(stages)} and {every}")
        self.stages, self.every = list(stages), every
        self.groups: list[list[Parameter]] = []

    def on_fit_start(self, trainer: Trainer, task: Task) -> None:
        self.groups = _staged(getattr(task, "model", task), self.stages, "GradualUnfreezing")
        held = {id(p) for optimizer in trainer.optimizers for group in optimizer.param_groups for p in group["params"]}
        if any(id(p) not in held for group in self.groups for p in group):
            raise OptionError(
                "GradualUnfreezing: the optimiser does not hold every parameter; make it of layer_groups(model, lr=…)"
            )
        self.on_train_epoch_start(trainer, task)  # a resumed training may stand within an epoch

    def on_train_epoch_start(self, trainer: Trainer, task: Task) -> None:
        training = min(1 + trainer.current_epoch // self.every, len(self.groups))
        for depth, group in enumerate(reversed(self.groups)):
            for parameter in group:
                parameter.requires_grad_(depth < training)


class KeepInEval(Callback):
    """Hold parts in evaluation mode during training: frozen batch normalisation keeps its statistics, dropout is off.

    patterns: names of modules; a part below one that matches is held too.

    >>> Trainer(callbacks=KeepInEval("layer[123]")).fit(task, loader)
    """

    def __init__(self, patterns: Patterns) -> None:
        self.patterns = patterns

    def on_train_batch_start(self, trainer: Trainer, task: Task, batch: Any, batch_idx: int) -> None:
        parts = dict(getattr(task, "model", task).named_modules())
        for name in matching(parts, self.patterns, "KeepInEval"):
            parts[name].eval()
