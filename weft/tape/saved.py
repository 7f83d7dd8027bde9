"""Hooks on what the tape saves: keep it elsewhere (packed, on disk, not at all) until backward asks.

`saved_tensors_hooks(pack, unpack)` replaces every tensor that a recorded operation would save by
`pack(tensor)`; `unpack` must give it back. `checkpoint` is built on this.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from ..errors import AutogradError
from ..runtime.locks import fork_safe_lock
from .modes import mode, switches
from .node import Node
from .tape import edge_of

if TYPE_CHECKING:
    from ..tensor import Tensor

__all__ = [
    "PASS",
    "Packed",
    "disable_saved_tensors_hooks",
    "pack_node",
    "packed",
    "relinked",
    "save_on_cpu",
    "saved_tensors_hooks",
    "unpacked",
]


class saved_tensors_hooks:
    """Within it, `pack_hook(tensor)` is saved in place of each tensor, and `unpack_hook` turns it back."""

    def __init__(self, pack_hook: Callable[[Tensor], Any], unpack_hook: Callable[[Any], Tensor]) -> None:
        self.hooks = (pack_hook, unpack_hook)
        self.before: list[Any] = []

    def __enter__(self) -> None:
        self.before.append(mode.saved_hooks)
        mode.saved_hooks = self.hooks
        _count_hooks(1)

    def __exit__(self, *_: object) -> None:
        mode.saved_hooks = self.before.pop()
        _count_hooks(-1)


_lock = fork_safe_lock()


def _count_hooks(change: int) -> None:
    with _lock:
        switches.hooks += change
        switches.renew()


class save_on_cpu(saved_tensors_hooks):
    """Keep saved tensors in main memory; on a CPU that is a copy, which later writes do not touch."""

    def __init__(self, pin_memory: bool = False) -> None:
        super().__init__(lambda x: x._copy(), lambda x: x)


class disable_saved_tensors_hooks(saved_tensors_hooks):
    """Within it, saved tensors are saved as they are; entering hooks raises `error_message`."""

    def __init__(self, error_message: str) -> None:
        def refuse(_: Any) -> Any:
            raise AutogradError(error_message)

        super().__init__(refuse, refuse)

    def __enter__(self) -> None:
        super().__enter__()
        mode.saved_hooks = None


class Packed:
    """One saved tensor in the keeping of hooks; `edge` is its place on the tape (None: outside)."""

    __slots__ = ("dtype", "edge", "held", "shape", "unpack")

    def __init__(self, x: Tensor, edge: Any = None) -> None:
        pack, self.unpack = mode.saved_hooks
        self.edge, self.shape, self.dtype = edge, x.shape, x.dtype
        before, mode.saved_hooks = mode.saved_hooks, None
        try:
            self.held = pack(x.detach())
        finally:
            mode.saved_hooks = before

    def restored(self) -> Tensor:
        """What was saved, on the tape again if the gradient itself is recorded."""
        value = self.unpack(self.held)
        if not hasattr(value, "detach"):
            raise AutogradError(
                f"saved_tensors_hooks: the unpack hook must return a tensor, it returned {type(value).__name__}"
            )
        if tuple(value.shape) != tuple(self.shape):
            raise AutogradError(
                f"saved_tensors_hooks: the unpack hook returned shape {tuple(value.shape)}, the saved tensor had "
                f"{tuple(self.shape)}"
            )
        value = relinked(value, self.edge)
        value._needs_grad = value._needs_grad or self.edge is not None  # formulas ask which inputs want a gradient
        return value


class _Pass:
    """The operation of a node that hands its gradient on unchanged."""

    title = "Saved"

    def pull(self, node: Node, g: Any, useful: Any = None) -> list[Any]:
        return [g]


PASS = _Pass()


def relinked(value: Tensor, edge: Any) -> Tensor:
    """`value` as a result of the node `edge` (or as a stand-in for the leaf `edge`), if recording is on."""
    value = value.detach()
    if edge is None or not mode.grad:
        return value
    if not isinstance(edge, Node):
        leaf, edge = edge, Node()
        edge.op, edge.edges, edge.order = PASS, (leaf,), -1  # leaves come before every node
    value.node, value._needs_grad = edge, True
    return value


def packed(x: Tensor) -> Any:
    """x, or what the hooks in force make of it."""
    if mode.saved_hooks is None:
        return x
    return Packed(x, edge_of(x) if x._needs_grad else None)


def unpacked(x: Any) -> Any:
    """The inverse of `packed`."""
    return x.restored() if x.__class__ is Packed else x


def pack_node(node: Node, out: Any) -> None:
    """Hand everything that a new node saved to the hooks in force; `out` is its result, or its results."""
    if not node.keeps:
        return
    node.saved = [packed(x) if hasattr(x, "detach") else x for x in node.saved]
    node.versions = None
    if node.output_counter is not None:  # it saved its output
        out = node.op.kept(out)
        node.output = tuple(Packed(o) for o in out) if isinstance(out, tuple) else Packed(out)
    node.op = _Unpacking(node.op)


class _Unpacking:
    """The operation of a node whose saved tensors are in the keeping of hooks."""

    def __init__(self, op: Any) -> None:
        self.op = op

    def __getattr__(self, name: str) -> Any:
        return getattr(self.op, name)

    def pull(self, node: Node, g: Any, useful: Any = None) -> Any:
        held = node.saved, node.output
        node.saved = [unpacked(x) for x in node.saved]
        if node.output.__class__ is Packed:
            node.output = node.output.restored().__dict__["array"]
        elif node.output_counter is not None:
            node.output = tuple(o.restored().__dict__["array"] for o in node.output)
        try:
            return self.op.pull(node, g, useful)
        finally:
            node.saved, node.output = held
