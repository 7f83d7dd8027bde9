"""What the tape is made of: a node for each recorded operation, its end at a leaf, and handles of hooks."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ..tensor import Tensor

__all__ = ["AccumulateGrad", "Handle", "Node", "counter", "output_hook"]

counter = itertools.count()


class Node:
    """One recorded operation: `op` with its `params`, edges to its inputs, and what it saved."""

    op: Any = None
    params: dict[str, Any] = {}  # noqa: RUF012  shared and never written
    edges: tuple[Any, ...] = ()
    saved: Any = ()
    versions: tuple[int | None, ...] | None = None
    output: Any = None
    output_counter: list[int] | None = None
    output_version = 0
    shapes: tuple[Any, ...] | None = None
    outputs: tuple[Any, ...] | None = None
    index: int | None = None
    hooks: dict[int, Callable] | None = None
    pre_hooks: dict[int, Callable] | None = None
    retained: list[Any] | None = None
    trace: str | None = None
    _tangents: dict[Any, Any] | None = None  # of its output, by forward pass (forward.py)
    _wanted = 0.0  # gradients through it, by something made inside of so many forward passes; NEVER: by nothing
    marked = False  # whether a sweep has to look closer: it has hooks, was freed, or is one of several outputs
    keeps = False  # whether it saved tensors, and so can be used only once
    freed = False
    order = 0

    def name(self) -> str:
        """The name PyTorch would print, such as 'MulBackward0'."""
        return getattr(self.op, "node_name", None) or f"{self.op.title}Backward0"

    def __repr__(self) -> str:
        return f"<{self.name()}>"

    @property
    def next_functions(self) -> tuple[tuple[Any, int], ...]:
        """(node, output number) for every input, with an accumulator for leaf tensors."""
        found = []
        for edge in self.edges:
            if edge is None:
                found.append((None, 0))
            elif isinstance(edge, Node):
                found.append((edge.edges[0], edge.index) if edge.index is not None else (edge, 0))
            else:
                found.append((AccumulateGrad(edge), 0))
        return tuple(found)

    def retain(self, reference: Any) -> None:
        """Give the gradient of the output to a tensor as well, to which a weak reference is kept."""
        if self.retained is None:
            self.retained = []
        self.retained.append(reference)
        self.marked = True

    @property
    def metadata(self) -> dict[str, Any]:
        return self.__dict__.setdefault("_metadata", {})

    def register_hook(self, hook: Callable) -> Handle:
        """Call `hook(grad_inputs, grad_outputs)` after this node has run in a backward pass."""
        if self.hooks is None:
            self.hooks = {}
        self.marked = True
        return Handle(self.hooks, hook)

    def register_prehook(self, hook: Callable) -> Handle:
        """Call `hook(grad_outputs)` before this node runs."""
        return output_hook(self, lambda g: _first(hook((g,))))


def _first(result: Any) -> Any:
    return result[0] if isinstance(result, tuple) else result


class AccumulateGrad:
    """The end of the tape at a leaf: adds what arrives to `variable.grad`."""

    def __init__(self, variable: Tensor) -> None:
        self.variable = variable
        self.next_functions: tuple[Any, ...] = ()

    def name(self) -> str:
        return "AccumulateGrad"

    def __repr__(self) -> str:
        return "<AccumulateGrad>"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, AccumulateGrad) and other.variable is self.variable

    def __hash__(self) -> int:
        return id(self.variable)


class Handle:
    """What `register_hook` returns; `remove()` takes the hook away. Works as a context manager."""

    numbers = itertools.count()
    changes = 0  # how often any hook was put on or taken off: while it stays, nobody has other hooks

    def __init__(self, hooks: dict[int, Callable], hook: Callable) -> None:
        self.hooks, self.id = hooks, next(Handle.numbers)
        hooks[self.id] = hook
        Handle.changes += 1

    def remove(self) -> None:
        self.hooks.pop(self.id, None)
        Handle.changes += 1

    def __enter__(self) -> Handle:
        return self

    def __exit__(self, *_: object) -> None:
        self.remove()


def output_hook(node: Node, hook: Callable) -> Handle:
    """Call `hook(g)` before a node runs; what it returns replaces the gradient of the node's output."""
    if node.pre_hooks is None:
        node.pre_hooks = {}
    node.marked = True
    return Handle(node.pre_hooks, hook)
