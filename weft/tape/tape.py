"""The tape: which operation made a tensor, and the sweep that carries gradients back along it.

A `Node` (node.py) stands for one recorded operation. Its `edges` lead to the nodes (or leaf tensors) of its
inputs; what its gradient formula reads is saved in it, nothing else. `sweep` visits nodes in the
reverse order of their making, which is a topological order, so no recursion is needed.
"""

from __future__ import annotations

import operator
import traceback
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any

from ..errors import AutogradError, InvalidValueError, ShapeError, TransformError
from ..runtime.frames import is_ours
from ..runtime.references import ALONE, references
from .modes import FORWARD, mode, switches
from .node import Handle, Node, output_hook

if TYPE_CHECKING:
    from ..tensor import Tensor

__all__ = [
    "Handle",
    "Node",
    "add_tensor_hook",
    "backward",
    "collect",
    "edge_of",
    "grad",
    "leaves",
    "mode",
    "push_along",
    "sweep",
    "watch",
]


def add_tensor_hook(tensor: Tensor, hook: Callable) -> Handle:
    """Call `hook(grad)` when the gradient of `tensor` is known; what it returns replaces the gradient."""
    if not tensor.requires_grad:
        raise AutogradError("register_hook: cannot register a hook on a tensor that doesn't require gradient")
    if tensor._interpreter is not None:
        return tensor._interpreter.hooked(tensor, hook)
    told_of([tensor])
    if tensor.node is not None:
        return output_hook(tensor.node, hook)
    if tensor._hooks is None:
        if switches.interpreting and mode.interpreter is not None:
            mode.interpreter.changing(tensor, "_hooks")
        tensor._hooks = {}
    return Handle(tensor._hooks, hook)


def told_of(targets: Sequence[Tensor]) -> None:
    """Gradients of these are asked for."""
    if switches.interpreting and mode.interpreter is not None:
        for x in targets:
            mode.interpreter.targeted(x)


# --------------------------------------------------------------------------------------- watching


def watch(node: Node, out: Any) -> None:
    """Do with a new node what anomaly detection, hooks on saved tensors, drawings and forward mode ask for."""
    if switches.noting is not None:
        switches.noting(node, out)
    push_along(node, out)
    if mode.saved_hooks is not None:
        from .saved import pack_node

        pack_node(node, out)
    if switches.anomaly:
        node.trace = forward_trace()


def push_along(node: Node, out: Any) -> None:
    """Give a new node the tangents of its output, where forward passes are running."""
    if mode.forward:
        mode.forward[0].take(node, out)


def forward_trace() -> str:
    """The user's part of the present call stack, for `detect_anomaly`."""
    frames = [f for f in traceback.extract_stack() if not is_ours(f.filename)]
    return "".join(traceback.format_list(frames[-6:]))


# --------------------------------------------------------------------------------------- the sweep


def edge_of(tensor: Tensor) -> Any:
    """Where a gradient of `tensor` goes: its node, or the leaf itself."""
    if tensor._interpreter is not None:
        tensor = tensor._interpreter.physical(tensor)
    return tensor.node if tensor.node is not None else tensor


def collect(roots: Iterable[Any]) -> list[Node]:
    """Every node reachable from `roots`, earliest made first."""
    stack = [root for root in roots if isinstance(root, Node)]
    seen = set(stack)
    while stack:
        for edge in stack.pop().edges:
            if edge.__class__ is Node and edge not in seen:
                seen.add(edge)
                stack.append(edge)
    return sorted(seen, key=operator.attrgetter("order"))


def leaves(roots: Iterable[Any]) -> dict[int, Tensor]:
    """The leaf tensors that the roots depend on, by identity."""
    roots = list(roots)
    found = {id(r): r for r in roots if not isinstance(r, Node)}
    for node in collect(roots):
        for edge in node.edges:
            if edge is not None and edge.__class__ is not Node:
                found[id(edge)] = edge
    return found


def _reaching(nodes: list[Node], targets: set[int]) -> set[int]:
    """The nodes (by id) from which one of the targets can be reached."""
    found = set(targets)
    for node in nodes:  # earliest first: edges are decided before the node itself
        if id(node) not in found and any(id(edge) in found for edge in node.edges):
            found.add(id(node))
    return found


def sweep(
    roots: Sequence[Any],
    grads: Sequence[Tensor],
    targets: Sequence[Any] | None = None,
    *,
    retain_graph: bool = False,
    create_graph: bool = False,
    accumulate: bool = True,
) -> dict[int, Tensor]:
    """Carry `grads` from `roots` back along the tape.

    With `targets` only what leads to them is visited, and their gradients are returned by id of
    the edge; with `accumulate`, leaves receive theirs in `.grad`.
    """
    pending: dict[Any, Any] = {}
    for root, g in zip(roots, grads, strict=True):
        _deliver(pending, root, g)
    nodes = collect(roots)
    wanted = None
    caught: dict[int, Tensor] = {}
    if targets is not None:
        wanted = {id(t) for t in targets}
        useful = _reaching(nodes, wanted)
    before = mode.grad
    mode.grad = create_graph or (FORWARD if mode.forward else False)
    check_nan = switches.anomaly and switches.check_nan
    try:
        for node in reversed(nodes):
            g = pending.pop(node, None)
            if g is None:
                continue
            marked, flags = node.marked, None
            if marked and (node.pre_hooks or node.retained):
                g = _announce(node, g)
            if wanted is not None:
                if id(node) not in useful:
                    continue
                if id(node) in wanted:
                    caught[id(node)] = g
                flags = [e is not None and id(e) in useful for e in node.edges]
            if marked:
                if node.index is not None:
                    _hand_over(node, g, pending)
                    continue
                if node.freed:
                    raise _used_twice(node)
            results = node.op.pull(node, g, flags)
            if check_nan:
                _look_for_nan(node, results)
            if marked and node.hooks:
                results = _run_node_hooks(node, results, g)
            if node.keeps and not retain_graph:
                node.saved = node.output = None
                node.freed = node.marked = True
            for edge, result in zip(node.edges, results):  # noqa: B905  hot, lengths are equal by construction
                if edge is not None and result is not None:
                    pending[edge] = (
                        pending.pop(edge) + result if edge in pending else result
                    )  # the last to be whole is last
        g = results = result = None  # so that leaves may take over the last gradients without a copy
        _finish_leaves(pending, wanted, caught, accumulate, create_graph)
    finally:
        mode.grad = before
    return caught


def _announce(node: Node, g: Any) -> Any:
    """Tell hooks and retained tensors the gradient that has arrived; hooks may change it."""
    if node.pre_hooks:
        g = _run_hooks(node.pre_hooks, g)
    for reference in node.retained or ():
        _retain(reference, g)
    return g


def _hand_over(node: Node, g: Any, pending: dict[Any, Any]) -> None:
    """One of several outputs: leave its gradient with the node that made them all."""
    parent = node.edges[0]
    slots = pending.get(parent)
    if slots is None:
        slots = pending[parent] = [None] * len(parent.outputs)
    slots[node.index] = g if slots[node.index] is None else slots[node.index] + g


def _used_twice(node: Node) -> AutogradError:
    return AutogradError(
        "backward: trying to go backward through the graph a second time, but the tensors saved by "
        f"{node.name()} have been freed; pass retain_graph=True the first time if you need both"
    )


def _run_node_hooks(node: Node, results: Sequence[Any], g: Any) -> Sequence[Any]:
    for hook in list(node.hooks.values()):
        changed = hook(tuple(results), (g,))
        results = results if changed is None else changed
    return results


def _deliver(pending: dict[Any, Any], edge: Any, g: Any) -> None:
    pending[edge] = pending[edge] + g if edge in pending else g


def _run_hooks(hooks: dict[int, Callable], g: Tensor) -> Tensor:
    for hook in list(hooks.values()):
        changed = hook(g)
        if changed is not None:
            if changed.shape != g.shape:
                raise ShapeError(f"hook: returned shape {tuple(changed.shape)}, the gradient has {tuple(g.shape)}")
            g = changed
    return g


def _retain(reference: Callable[[], Tensor | None], g: Tensor) -> None:
    tensor = reference()
    if tensor is not None:
        _grad_changes(tensor)
        tensor._grad = g if tensor._grad is None else tensor._grad + g


def _finish_leaves(
    pending: dict[Any, Any], wanted: set[int] | None, caught: dict[int, Tensor], accumulate: bool, create_graph: bool
) -> None:
    """Give leaves their gradients, in the order in which these were whole: last layers first."""
    for leaf in list(pending):
        if leaf.__class__ is Node:
            continue
        g = pending.pop(leaf)
        if leaf._hooks:
            g = _run_hooks(leaf._hooks, g)
        if wanted is not None and id(leaf) in wanted:
            caught[id(leaf)] = g
        if accumulate and (wanted is None or id(leaf) in wanted):
            alone = references(g) == ALONE  # asked before g becomes an argument, which is a reference more
            _accumulate(leaf, g, create_graph, alone)
            if leaf._post_hooks:
                for hook in list(leaf._post_hooks.values()):
                    hook(leaf)


def _accumulate(leaf: Tensor, g: Tensor, create_graph: bool, alone: bool) -> None:
    """leaf.grad += g; the first gradient is taken over when nobody else holds it, else copied."""
    if g.dtype is not leaf.dtype:
        g, alone = g.to(leaf.dtype), True
    _grad_changes(leaf)
    if leaf._grad is not None:
        if create_graph or g.is_sparse:
            leaf._grad = leaf._grad + g
        else:
            leaf._grad += g
        return
    if not create_graph and not (alone and _owns_its_memory(g)):
        g = g.clone() if mode.forward else g._copy()
    leaf._grad = g


def _grad_changes(tensor: Tensor) -> None:
    """`.grad` is about to be looked at and assigned: what stands over this thread is told."""
    if switches.interpreting and mode.interpreter is not None:
        mode.interpreter.read_grad(tensor)
        mode.interpreter.changing(tensor, "_grad")


def _owns_its_memory(g: Tensor) -> bool:
    """Whether the memory is the gradient's alone; its array is referenced by the tensor and by the variable here."""
    array = g.__dict__.get("array")
    if array is None or array.base is not None or not array.flags.c_contiguous:
        return False
    count = references(array)
    return count == ALONE + 1


def _look_for_nan(node: Node, results: Sequence[Any]) -> None:
    for number, result in enumerate(results):
        if result is not None and result._has_nan():
            where = f"\nThe forward call was made here:\n{node.trace}" if node.trace else ""
            raise AutogradError(
                f"detect_anomaly: {node.name()} returned NaN in the gradient of its input {number}.{where}"
            )


# ------------------------------------------------------------------------------- public functions


def _listed(value: Any) -> list[Any]:
    return list(value) if isinstance(value, (list, tuple)) else [value]


def _seed(output: Tensor, given: Tensor | None, name: str) -> Tensor:
    """The gradient that starts at `output`: what was given, or 1 for a scalar."""
    if given is None:
        if output.numel() != 1:
            raise AutogradError(
                f"{name}: a gradient can be created implicitly only for scalar outputs, this one has shape "
                f"{tuple(output.shape)}; reduce it (for example .sum()) or pass the gradient explicitly"
            )
        if output.is_complex():
            raise AutogradError(
                f"{name}: a gradient can be created implicitly only for real scalar outputs but got "
                f"{output.dtype}; pass it explicitly, or take .real or .abs() first"
            )
        return output._filled(1)
    if given.shape != output.shape:
        raise ShapeError(
            f"{name}: the gradient has shape {tuple(given.shape)}, the output {tuple(output.shape)}; they must be equal"
        )
    return given


def _starts(outputs: list[Any], given: Any, name: str) -> tuple[list[Any], list[Any]]:
    seeds = [None] * len(outputs) if given is None else _listed(given)
    if len(seeds) != len(outputs):
        raise AutogradError(f"{name}: {len(outputs)} outputs but {len(seeds)} gradients; give one for each")
    roots, grads = [], []
    for output, seed in zip(outputs, seeds, strict=True):
        if not output.requires_grad:
            raise AutogradError(
                f"{name}: an output of shape {tuple(output.shape)} does not require grad and does not have a grad_fn; "
                "was it made under no_grad, or detached, or from inputs without requires_grad=True?"
            )
        roots.append(edge_of(output))
        g = _seed(output, seed, name)
        grads.append(g if output._interpreter is None else output._interpreter.lowered(output, g))
    return roots, grads


def backward(
    tensors: Any,
    grad_tensors: Any = None,
    retain_graph: bool | None = None,
    create_graph: bool = False,
    inputs: Any = None,
) -> None:
    """Add to every leaf's `.grad` the gradient of Σ⟨tensor, grad_tensor⟩ with respect to it."""
    roots, grads = _starts(_listed(tensors), grad_tensors, "backward")
    if any(x._interpreter is not None for x in (*_listed(tensors), *grads)):
        raise TransformError(
            "backward: called inside vmap, where each example would write to the same .grad; use "
            "weft.func.grad, or call backward outside the mapped function"
        )
    keep = create_graph if retain_graph is None else retain_graph
    if inputs is None:
        sweep(roots, grads, retain_graph=keep, create_graph=create_graph)
        return
    targets = _listed(inputs)
    if not targets:
        raise AutogradError("backward: inputs cannot be empty; leave it out to reach every leaf")
    told_of(targets)
    caught = sweep(
        roots, grads, [edge_of(t) for t in targets], retain_graph=keep, create_graph=create_graph, accumulate=True
    )
    for tensor in targets:
        if tensor.node is not None and id(tensor.node) in caught:
            _accumulate(tensor, caught[id(tensor.node)], create_graph, alone=False)


def grad(
    outputs: Any,
    inputs: Any,
    grad_outputs: Any = None,
    retain_graph: bool | None = None,
    create_graph: bool = False,
    only_inputs: bool = True,
    allow_unused: bool | None = None,
    materialize_grads: bool = False,
) -> tuple[Any, ...]:
    """Gradients of Σ⟨output, grad_output⟩ with respect to `inputs`, returned instead of accumulated."""
    targets = _listed(inputs)
    if materialize_grads and allow_unused is False:
        raise InvalidValueError("grad: allow_unused must be True when materialize_grads is True")
    for target in targets:
        if not target.requires_grad:
            raise AutogradError(
                f"grad: an input of shape {tuple(target.shape)} does not require grad; call .requires_grad_() first"
            )
    told_of(targets)
    roots, grads = _starts(_listed(outputs), grad_outputs, "grad")
    for output in _listed(outputs):
        if output._interpreter is not None:
            output._interpreter.check_targets(output, targets)
    keep = create_graph if retain_graph is None else retain_graph
    caught = sweep(
        roots, grads, [edge_of(t) for t in targets], retain_graph=keep, create_graph=create_graph, accumulate=False
    )
    found = []
    for target in targets:
        g = caught.get(id(edge_of(target)))
        if g is not None and target._interpreter is not None:
            g = target._interpreter.lifted(target, g)
        if g is None and materialize_grads:
            g = target._filled(0)
        if g is None and not allow_unused:
            raise AutogradError(
                "grad: one of the inputs was not used in the graph; pass allow_unused=True to get None for it"
            )
        found.append(g)
    return tuple(found)
