"""Weights that are computed from other parameters before every call (the older, hook-based reparametrisations)."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator
from typing import Any, TypeVar

from ...errors import InvalidValueError, StateError
from ...tape.node import Handle
from ...tensor import Tensor
from ..module import Module

__all__ = ["RecomputedWeight", "detach", "refuse_second"]

R = TypeVar("R", bound="RecomputedWeight")


class RecomputedWeight(ABC):
    """A hook that sets attribute `name` of a module to a function of its other parameters before each forward."""

    title: str  # the public function that attaches it, for messages

    def __init__(self, name: str) -> None:
        self.name = name

    @abstractmethod
    def compute_weight(self, module: Module) -> Tensor:
        """The weight from the parameters and buffers that stand for it."""

    @abstractmethod
    def remove(self, module: Module) -> None:
        """Make the present weight an ordinary parameter again."""

    def __call__(self, module: Module, inputs: Any) -> None:
        setattr(module, self.name, self.compute_weight(module))

    def attach(self, module: Module) -> Handle:
        return module.register_forward_pre_hook(self)


def refuse_second(kind: type[R], module: Module, name: str) -> None:
    """A weight can be recomputed in one way only."""
    if any(hook.name == name for _, hook in _hooks(kind, module)):
        raise StateError(f"Cannot register two {kind.title} hooks on the same parameter {name}")


def detach(kind: type[R], module: Module, name: str) -> None:
    """Take the hook of this kind for `name` off and restore the parameter."""
    for number, hook in _hooks(kind, module):
        if hook.name == name:
            hook.remove(module)
            del module.__dict__["_hooks"]["forward_pre"][number]
            return
    raise InvalidValueError(f"{kind.title} of '{name}' not found in {module}")


def _hooks(kind: type[R], module: Module) -> Iterator[tuple[int, R]]:
    table = module.__dict__.get("_hooks", {}).get("forward_pre", {})
    return iter([(number, hook) for number, (hook, _) in table.items() if isinstance(hook, kind)])
