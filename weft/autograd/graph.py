"""The graph of recorded operations, as `torch.autograd.graph` names it: nodes and hooks on what they save."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from ..errors import InvalidValueError
from ..tape.node import Handle, Node
from ..tape.saved import disable_saved_tensors_hooks, save_on_cpu, saved_tensors_hooks

__all__ = [
    "Node",
    "disable_saved_tensors_hooks",
    "register_multi_grad_hook",
    "save_on_cpu",
    "saved_tensors_hooks",
]


class _Handles:
    """Several hooks that are taken away together."""

    def __init__(self, handles: Sequence[Handle]) -> None:
        self.handles = tuple(handles)

    def remove(self) -> None:
        for handle in self.handles:
            handle.remove()


def register_multi_grad_hook(tensors: Sequence[Any], fn: Callable, *, mode: str = "all") -> _Handles:
    """Call `fn` once a backward pass has the gradients of all `tensors` (a list), or of the first ('any')."""
    if mode not in ("all", "any"):
        raise InvalidValueError(f"register_multi_grad_hook: mode must be 'all' or 'any', got {mode!r}")
    seen: list[Any] = [None] * len(tensors)
    arrived = [0]

    def hook(number: int) -> Callable:
        def note(g: Any) -> None:
            if mode == "any":
                if arrived[0] == 0:
                    fn(g)
                arrived[0] = (arrived[0] + 1) % len(tensors)
                return
            seen[number], arrived[0] = g, arrived[0] + 1
            if arrived[0] == len(tensors):
                found, seen[:], arrived[0] = list(seen), [None] * len(tensors), 0
                fn(found)

        return note

    return _Handles([x.register_hook(hook(number)) for number, x in enumerate(tensors)])
