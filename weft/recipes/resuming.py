"""Settings that change when a run goes on: told apart before anything is touched, and put into effect.

What a run can take on its way: more epochs, numbers of its optimisers and of dropout, and what the task or the trainer is
told. Its network, its seed and its data are those it began with.
"""

from __future__ import annotations

import types
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

from ..errors import OptionError
from ..nn.modules.dropout import GaussianNoise, RandomlyDropped
from ..train.callbacks import Callback
from ..train.running.configure import read_optimizers

if TYPE_CHECKING:
    from ..nn import Module
    from ..train import Task, Trainer
    from .base import Recipe
    from .settings import Settings

__all__ = ["NewNumbers", "check_changes"]

Groups = list[list[dict[str, Any]]]  # numbers of every group of every optimiser
RATES = ("lr", "initial_lr", "max_lr", "min_lr", "base_lr")
DROPOUT = (RandomlyDropped, GaussianNoise)
PLAIN = (bool, int, float, str, types.NoneType)


def check_changes(recipe: Recipe, earlier: Settings, chosen: Settings, done: int) -> dict[str, tuple[Any, Any]]:
    """The settings that differ, name → (before, now); an error where the run, `done` epochs old, cannot take one."""
    before, now = earlier.to_dict(), chosen.to_dict()
    changed = {name: (before[name], now[name]) for name in now if now[name] != before[name]}
    for name in changed:
        reason = _objection(recipe, earlier, name, now[name], done)
        if reason:
            told = " ".join(f"--set {key}={_words(value)}" for key, (_, value) in changed.items())
            raise OptionError(
                f"resume: {name}={_words(now[name])} cannot be taken: {reason}. Nothing was changed; to begin anew: "
                f"weft train {recipe.name} {told}"
            )
    return changed


def _objection(recipe: Recipe, earlier: Settings, name: str, value: Any, done: int) -> str | None:
    """Why a run cannot go on with this setting; None: it can."""
    if name == "epochs":
        return f"the run has {done} epochs behind it" if value <= done else None
    if name == "seed":
        return f"the run began with seed {earlier.seed}, and its random streams go on from there"
    if not hasattr(recipe, "trainer_options"):
        return f"{recipe.name} is done in one go"
    later = earlier.replace(**{name: value})
    old, new = recipe.task(earlier), recipe.task(later)
    difference = network_difference(old, new)
    if difference:
        return f"it alters the network ({difference})"
    told = [_plain(recipe.trainer_options(settings)) for settings in (earlier, later)]
    effects = (
        _groups(old) != _groups(new),
        _attributes(old) != _attributes(new),
        list(_dropouts(old)) != list(_dropouts(new)),
        told[0] != told[1],
    )
    return None if any(effects) else "it is settled when a run begins: it decides about its data or its task"


# ---------------------------------------------------------------- networks compared


def network_difference(old: Module, new: Module) -> str | None:
    """The first difference between two networks, in words; None: weights of one serve the other just as well.

    Compared are the shapes of all weights, and the kinds and plain attributes of all modules below the task but dropout.
    """
    a, b = ({name: tuple(value.shape) for name, value in task.state_dict().items()} for task in (old, new))
    for name in dict.fromkeys([*a, *b]):
        if a.get(name) != b.get(name):
            return f"{name}: {_shape(a.get(name))}, would be {_shape(b.get(name))}"
    a, b = (_portraits(task) for task in (old, new))
    return next(
        (f"{name}: {a.get(name)}, would be {b.get(name)}" for name in a | b if a.get(name) != b.get(name)), None
    )


def _portraits(task: Module) -> dict[str, str]:
    """Kind and attributes of every module below the task, in words."""
    return {
        name: f"{type(module).__name__}({', '.join(f'{k}={v}' for k, v in _attributes(module).items() if k != 'dropout')})"
        for name, module in task.named_modules()
        if name and not isinstance(module, DROPOUT)
    }


def _attributes(module: Module) -> dict[str, Any]:
    """What a module was told: numbers, words, tuples of these, and functions by their names."""
    return {
        name: getattr(value, "__qualname__", value)
        for name, value in vars(module).items()
        if not name.startswith("_")
        and name != "training"
        and (_is_plain(value) or isinstance(value, types.FunctionType))
    }


def _is_plain(value: Any) -> bool:
    return isinstance(value, PLAIN) or (isinstance(value, tuple | list) and all(map(_is_plain, value)))


def _plain(options: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in options.items() if _is_plain(value)}


def _dropouts(task: Module) -> Iterator[tuple[str, Any]]:
    for name, module in task.named_modules():
        if isinstance(module, DROPOUT) or hasattr(module, "dropout"):
            yield name, _attributes(module)


def _shape(shape: tuple[int, ...] | None) -> str:
    return "not there" if shape is None else str(shape)


def _words(value: Any) -> str:
    return ",".join(map(str, value)) if isinstance(value, list | tuple) else str(value)


# ---------------------------------------------------------------- optimisers


def _groups(task: Task) -> Groups:
    optimizers, _ = read_optimizers(task.configure_optimizers())
    return [[_plain(group) for group in optimizer.param_groups] for optimizer in optimizers]


class NewNumbers(Callback):
    """Gives the optimisers of a resumed run the numbers that were changed; rates scale along with their schedules."""

    def __init__(self, recipe: Recipe, earlier: Settings, chosen: Settings) -> None:
        self.before, self.now = _groups(recipe.task(earlier)), _groups(recipe.task(chosen))

    def on_fit_start(self, trainer: Trainer, task: Task) -> None:
        for optimizer, before, now in zip(trainer.optimizers, self.before, self.now, strict=True):
            for number, (old, new) in enumerate(zip(before, now, strict=True)):
                self._change(trainer, optimizer, number, old, new)

    def _change(self, trainer: Trainer, optimizer: Any, number: int, old: dict[str, Any], new: dict[str, Any]) -> None:
        group, rate = optimizer.param_groups[number], "initial_lr" if "initial_lr" in new else "lr"
        group |= {name: new[name] for name in new if name not in RATES and new[name] != old.get(name)}
        factor = new[rate] / old[rate] if old[rate] else 1.0
        if factor == 1.0:
            return
        for name in RATES:
            if name in group:
                group[name] *= factor
        for schedule in trainer.schedules:
            if schedule.scheduler.optimizer is optimizer:
                _scale(schedule.scheduler, number, factor)


def _scale(scheduler: Any, number: int, factor: float) -> None:
    for rates in (getattr(scheduler, name, None) for name in ("base_lrs", "max_lrs", "min_lrs")):
        if rates:
            rates[number] *= factor
    for part in getattr(scheduler, "_schedulers", ()):
        _scale(part, number, factor)
