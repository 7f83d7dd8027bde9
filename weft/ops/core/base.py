"""One operation that is not made of others: running forward, recording, running backward, batching."""

from __future__ import annotations

import functools
import re
import sys
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy import ndarray

from ...errors import AutogradError
from ...kernels.operation import NativeForm
from ...runtime.switches import switch
from ...tape import tape
from ...tape.adjoint import by_adjoint
from ...tape.interpreter import chosen
from ...tape.modes import Taken, mode, switches
from ...tape.node import Node, counter
from ...tensor import Tensor, wrap
from .formula import DROP, LOOK, SAVE, Meta, formula_reads

__all__ = [
    "FUNCTION",
    "LARGE",
    "LARGE_POINTS",
    "PRIMITIVES",
    "Primitive",
    "compute_large",
    "next_order",
    "pick",
    "raise_modified",
    "rebuilt_output",
    "register_module",
    "run_large",
    "summed_to",
    "total",
]

new = object.__new__
F32, F64 = np.dtype(np.float32), np.dtype(np.float64)
next_order = counter.__next__
PRIMITIVES: dict[str, Primitive] = {}

# Elements from which an array may be worth native code; compiler/eager.py decides.
LARGE = {"0": sys.maxsize, "always": 0}.get(switch("WEFT_EAGER_NATIVE"), 1 << 12)
LARGE_POINTS = 1 << 16  # the same of elementwise operations, where LARGE is not 0


@functools.cache
def _native() -> Any:
    from ...compiler import eager

    return eager


def run_large(primitive: Primitive, compute: Callable, arrays: Sequence[Any], params: dict[str, Any]) -> Any:
    """What `compute` gives, by a native plan where that is faster."""
    if mode.interpreter is not None:
        raise Taken
    return _native().run(primitive, compute, arrays, params)


def compute_large(primitive: Primitive, arrays: Sequence[Any], params: dict[str, Any]) -> Any:
    """The arrays that a native plan of a primitive with `parts` gives; None where there is no such plan."""
    return _native().compute(primitive, arrays, params)


class Primitive(NativeForm):
    """One operation that is not made of others.

    `reference(*arrays, **params)` computes it with NumPy. `vjp(g, y, *inputs, **params)` returns
    one gradient for each input: a tensor, None, or a function of no arguments that is called only
    if that input needs a gradient. What `vjp` does not read is not saved. `NativeForm` has what a compiler may be told.
    """

    differentiable = True
    reads: str | None = None  # 'shapes': remember only shapes and types whatever vjp seems to read
    gradient_output: int | None = None  # for several outputs: which may carry gradients (None: floating ones)
    results: int | None = None  # for several outputs: how many of them, from the first on, vjp gets gradients of
    typed = 0  # number of the input whose type is that of the computation
    in_order = True  # whether results lie in order (contiguous) whatever the inputs do; False: as `reference` made them

    reference: Callable
    vjp: Callable | None = None
    array_vjp: Callable | None = None  # (wanted, g, y, *inputs): the same of small float arrays
    by_element = False  # whether that stays quicker than native code for longer (LARGE_POINTS)

    def __init_subclass__(cls, abstract: bool = False, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        cls.abstract = abstract

    def __init__(self) -> None:
        title = type(self).__name__
        self.title = title
        self.name = self.__dict__.get("name") or getattr(type(self), "name", None) or snake_case(title)
        self.kind = next(c.__name__ for c in type(self).__mro__ if c.__dict__.get("abstract"))
        self._plans: dict[tuple[bool, ...], tuple[str | None, tuple[str | None, ...], bool]] = {}
        PRIMITIVES[title] = self

    # ------------------------------------------------------------------------------ running forward
    def __call__(self, *inputs: Any, **params: Any) -> Any:
        """Compute on tensors (and numbers), recording what differentiation will need.

        Here it is decided who does that: an interpreter that stands over this thread or over one of the tensors, or NumPy.
        """
        if switches.interpreting and mode.interpreter is not None:
            return chosen(inputs).apply(self, inputs, params)
        for x in inputs:
            if isinstance(x, Tensor) and x._interpreter is not None:
                return chosen(inputs).apply(self, inputs, params)
        return self.evaluate(inputs, params)

    def evaluate(self, inputs: Sequence[Any], params: dict[str, Any]) -> Any:
        """Run `reference` on the arrays of plain tensors, wrap and record the result."""
        arrays = [x.array if isinstance(x, Tensor) else x for x in inputs]
        for a in arrays:
            if a.__class__ is ndarray and a.size >= LARGE:
                result = run_large(self, self.compute, arrays, params)
                break
        else:
            try:
                result = mode.run(self.compute, *arrays, **params)
            except RuntimeError:
                result = mode.run_inside(self.compute, *arrays, **params)
        if result.__class__ is tuple:
            if self.in_order:
                result = [r if r.flags.c_contiguous else r.copy() for r in result]
            return self.record_many(tuple(wrap(r) for r in result), inputs, params)
        if self.in_order and not result.flags.c_contiguous:
            result = result.copy()
        return self.record(wrap(result), inputs, params)

    def compute(self, *arrays: Any, **params: Any) -> Any:
        """`reference`, unless the kind adds something around it (float32 accumulation…)."""
        return self.reference(*arrays, **params)

    # ------------------------------------------------------------------------------------ tracing
    def shapes(self, *inputs: Any, **params: Any) -> Any:
        """(shape, NumPy type) of the result (a tuple of them for several) from those of the inputs; None: no rule."""
        return None

    # ---------------------------------------------------------------------------------- recording
    def plan(self, needs: tuple[bool, ...]) -> tuple[str | None, tuple[str | None, ...], bool]:
        """What to keep of the output and of each input when just `needs` need gradients.

        SAVE keeps the tensor, LOOK its shape and type, DROP nothing; last, whether any input is kept.
        """
        found = self._plans.get(needs)
        if found is None:
            output, inputs = self._make_plan(needs)
            found = self._plans[needs] = (output, inputs, any(k is not DROP for k in inputs))
        return found

    def _make_plan(self, needs: tuple[bool, ...]) -> tuple[str | None, tuple[str | None, ...]]:
        if self.reads == "shapes":
            return DROP, (LOOK,) * len(needs)
        function = self.vjp.__func__ if hasattr(self.vjp, "__func__") else self.vjp
        code = function.__code__
        names = code.co_varnames[: code.co_argcount]
        names = names[1:] if names and names[0] == "self" else names
        if code.co_flags & 0x04:  # *inputs: kept whole
            return SAVE, (SAVE,) * len(needs)
        reads = formula_reads(function, len(needs))
        values = set().union(*(r[0] for r, need in zip(reads, needs, strict=True) if need))
        looks = set().union(*(r[1] for r, need in zip(reads, needs, strict=True) if need))

        def decide(name: str) -> str | None:
            return SAVE if name in values else LOOK if name in looks else DROP

        return decide(names[1]), tuple(decide(n) for n in names[2 : 2 + len(needs)])

    def record(self, out: Tensor, inputs: Sequence[Any], params: dict[str, Any]) -> Tensor:
        """Put the operation that made `out` on the tape, if any input needs a gradient."""
        if mode.grad and self.differentiable and out.array.dtype.kind in "fcV":
            needs = tuple(isinstance(x, Tensor) and x._needs_grad for x in inputs)
            if True in needs:
                out.node = self.make_node(out, inputs, params, needs)
                out._needs_grad = True
        return out

    def record_many(
        self, outs: tuple[Tensor, ...], inputs: Sequence[Any], params: dict[str, Any]
    ) -> tuple[Tensor, ...]:
        """`record` for an operation with several outputs: each gets a node that points to the shared one."""
        if not (mode.grad and self.differentiable):
            return outs
        needs = tuple(isinstance(x, Tensor) and x._needs_grad for x in inputs)
        if True not in needs:
            return outs
        node = self.make_node(outs, inputs, params, needs)
        node.outputs = tuple(Meta(o) for o in outs)
        for index, out in enumerate(outs):
            if out.array.dtype.kind in "fcV":
                out.node, out._needs_grad = pick(node, index), True
        return outs

    def make_node(self, out: Any, inputs: Sequence[Any], params: dict[str, Any], needs: tuple[bool, ...]) -> Node:
        node = new(Node)
        node.op, node.order = self, next_order()
        if params:
            node.params = params
        plan = self._plans.get(needs)
        keep_output, keep_inputs, keeps = plan if plan is not None else self.plan(needs)
        edges = []
        for x, need in zip(inputs, needs):  # noqa: B905  hot, lengths are equal by construction
            if need:
                edges.append(x if x.node is None else x.node)
            else:
                edges.append(None)
        node.edges = edges
        node.saved = self._save_inputs(node, inputs, keep_inputs) if keeps else keep_inputs
        if keep_output is SAVE:
            save_output(node, self.kept(out))
        elif keep_output is LOOK:
            node.output = Meta(out) if isinstance(out, Tensor) else tuple(Meta(o) for o in out)
        if switches.watching:
            tape.watch(node, out)
        return node

    def kept(self, out: Any) -> Any:
        """What `vjp` gets as y of an output, or of several."""
        return out

    def _save_inputs(self, node: Node, inputs: Sequence[Any], keep_inputs: Sequence[str]) -> list[Any]:
        """What the gradient formula will be given: tensors with their version, metadata, or None."""
        saved: list[Any] = []
        versions, keeps = [], False
        for x, keep in zip(inputs, keep_inputs):  # noqa: B905  hot
            version = None
            if keep is None:
                x = None
            elif isinstance(x, Tensor):
                if keep is LOOK:
                    x = Meta(x)
                else:
                    counter = x._counter
                    version, keeps = 0 if counter is None else counter[0], True
            saved.append(x)
            versions.append(version)
        if keeps:
            node.keeps, node.versions = True, versions
        return saved

    # ---------------------------------------------------------------------------- running backward
    def pull(self, node: Node, g: Any, useful: Sequence[bool] | None = None) -> Sequence[Any]:
        """The gradients of the inputs from the gradient(s) of the output(s)."""
        if self.array_vjp is not None and not mode.grad and (results := self._pull_arrays(node, g, useful)) is not None:
            return results
        if node.versions is not None:
            check_versions(node)
        if node.outputs is not None:
            g = [
                wrap(np.zeros(m.shape, m.dtype.np)) if one is None else one
                for one, m in zip(g[: self.results], node.outputs, strict=False)
            ]
        y = node.output
        if y is not None and node.output_counter is not None:
            y = rebuilt_output(node)
        found = self.vjp(g, y, *node.saved, **node.params) if node.params else self.vjp(g, y, *node.saved)
        edges = useful or node.edges
        if len(edges) == 1:
            (r,) = found
            results = (r() if r.__class__ is FUNCTION else r,)
        elif len(edges) == 2:
            r, s = found
            first, second = edges
            results = (
                None if first is None or first is False else r() if r.__class__ is FUNCTION else r,
                None if second is None or second is False else s() if s.__class__ is FUNCTION else s,
            )
        else:
            results = [
                None if use is None or use is False else r() if r.__class__ is FUNCTION else r
                for r, use in zip(found, edges)  # noqa: B905  hot
            ]
        if node.shapes is not None:  # undo broadcasting
            return [r if r is None else summed_to(r, s) for r, s in zip(results, node.shapes, strict=True)]
        return results

    def _pull_arrays(self, node: Node, g: Any, useful: Sequence[bool] | None) -> Sequence[Any] | None:
        """`pull` by `array_vjp`; None where arrays are large, something else than plain floats, or written to since."""
        y, arrays, most = node.output, node.saved, LARGE
        if self.by_element and 0 < most < LARGE_POINTS:
            most = LARGE_POINTS
        try:
            a = g.array
            kind = a.dtype
            if (kind is not F32 and kind is not F64) or a.size >= most or not a.ndim:
                return None
            if y is not None and (y.__class__ is not ndarray or node.output_counter[0] != node.output_version):
                return None
            versions = node.versions
            if versions is not None:
                arrays = []
                for x, version in zip(node.saved, versions):  # noqa: B905  hot
                    if version is not None:
                        counter, x = x._counter, x.array
                        if x.dtype is not kind or x.size >= most or (counter is not None and counter[0] != version):
                            return None
                    arrays.append(x)
            elif arrays.__class__ is list and any(isinstance(x, Tensor) for x in arrays):  # hooks gave them back
                return None
            wanted = node.edges if useful is None else [use or None for use in useful]
            found = mode.run(self.array_vjp, wanted, a, y, *arrays)
        except (AttributeError, Taken, RuntimeError):  # a transform keeps its values to itself
            return None
        results: list[Any] = []
        for r in found:
            if r is not None:
                out = new(Tensor)
                out.array, r = r, out
            results.append(r)
        if node.shapes is not None:
            return [r if r is None else summed_to(r, s) for r, s in zip(results, node.shapes, strict=True)]
        return results

    # ------------------------------------------------------------------------------- forward mode
    linear: Sequence[int] = ()  # numbers of the inputs in which, taken together, the operation is linear
    multilinear: Sequence[int] = ()  # numbers of the inputs in each of which alone it is linear

    def push(self, node: Node, out: Any, tangents: Sequence[Any]) -> Any:
        """The tangent(s) of the output(s) of a new node, from those of the inputs (None: zero).

        A linear operation takes tangents as it takes values; without that the adjoint of `vjp` does it.
        """
        moved = [k for k, t in enumerate(tangents) if t is not None]
        if self.linear and all(k in self.linear for k in moved):
            inputs = [self._tangent(k, t, node) for k, t in enumerate(tangents)]
            if not any(x is None for x in inputs):
                return self(*inputs, **node.params)
        if self.multilinear and all(k in self.multilinear for k in moved):
            terms = [[tangents[k] if k == i else known(x) for k, x in enumerate(node.saved)] for i in moved]
            if not any(x is None for inputs in terms for x in inputs):
                return total([self(*inputs, **node.params) for inputs in terms])
        if node.outputs is None and isinstance(out, tuple):
            node.outputs = tuple(Meta(o) for o in out)
        useful = [t is not None for t in tangents]
        return by_adjoint(lambda u: self.pull(node, u, useful), out, tangents)

    def _tangent(self, number: int, tangent: Any, node: Node) -> Any:
        """What stands for an input when the operation is applied to tangents; None where it was not saved."""
        if tangent is not None:
            return tangent
        x = node.saved[number]
        return known(x) if number not in self.linear else None if x is None else wrap(np.zeros(x.shape, x.dtype.np))

    # ------------------------------------------------------------------------------------ batching
    def batch(self, inputs: Sequence[Any], batched: Sequence[bool], size: int, params: dict[str, Any]) -> Any:
        """The operation on inputs that carry a batch at dimension 0 (where `batched` says so).

        The general rule runs the batch one by one; kinds that can do better override it.
        """
        from .batching import no_rows, stacked

        pairs = list(zip(inputs, batched, strict=True))
        if not size:
            return no_rows(self, pairs, params)
        rows = [self(*(x.select(0, i) if b else x for x, b in pairs), **params) for i in range(size)]
        if isinstance(rows[0], tuple):
            return tuple(stacked(column) for column in zip(*rows, strict=True))
        return stacked(rows)


FUNCTION = type(lambda: None)


def known(x: Any) -> Any:
    """A saved input, if its value was saved."""
    return None if x.__class__ is Meta else x


def total(terms: Sequence[Tensor | None]) -> Tensor | None:
    """The sum of the tangents that are not zero; None if all are."""
    found = None
    for term in terms:
        found = term if found is None else found if term is None else found + term
    return found


def register_module(name: str) -> None:
    """Make one instance of every primitive class of a module that has none yet."""
    pending = [Primitive]
    while pending:
        cls = pending.pop()
        pending.extend(cls.__subclasses__())
        if cls.__module__ == name and not cls.__dict__.get("abstract") and cls.__name__ not in PRIMITIVES:
            cls()


def snake_case(title: str) -> str:
    return re.sub(r"(?<=[a-z0-9])([A-Z])", r"_\1", title).lower()


def pick(node: Node, index: int) -> Node:
    """The tape's name for output `index` of an operation with several outputs."""
    part = new(Node)
    part.op, part.edges, part.index, part.order = node.op, (node,), index, next_order()
    part._wanted, part.marked = node._wanted, True
    return part


def save_output(node: Node, out: Any) -> None:
    """Remember the output without a cycle: its array and its counter of in-place writes."""
    node.keeps = True
    if isinstance(out, tuple):
        node.output = tuple(o.array for o in out)
        node.output_counter = [0]
        return
    node.output = out.array
    if out._counter is None:
        out._counter = [0]
    node.output_counter, node.output_version = out._counter, out._counter[0]


def rebuilt_output(node: Node) -> Any:
    """The saved output as a tensor, again part of the graph when the gradient itself is recorded."""
    if node.output_counter[0] != node.output_version:
        first = node.output[0] if node.output.__class__ is tuple else node.output
        raise_modified(node, "output", first.shape, node.output_version, node.output_counter[0])
    if node.output.__class__ is tuple:
        parts = []
        for index, array in enumerate(node.output):
            part = new(Tensor)
            part.array = array
            if mode.grad and array.dtype.kind in "fcV":
                part.node, part._needs_grad = pick(node, index), True
            parts.append(part)
        return tuple(parts)
    y = new(Tensor)
    y.array = node.output
    y._counter = node.output_counter
    if mode.grad:
        y.node, y._needs_grad = node, True
    return y


def check_versions(node: Node) -> None:
    """Refuse to use a saved tensor that was written to after the forward pass."""
    for x, version in zip(node.saved, node.versions):  # noqa: B905  hot
        if version is not None:
            counter = x._counter
            if counter is not None and counter[0] != version:
                raise_modified(node, "input", x.shape, version, counter[0])


def raise_modified(node: Node, role: str, shape: Any, expected: int, found: int) -> None:
    where = f"\nThe forward call was made here:\n{node.trace}" if node.trace else ""
    raise AutogradError(
        f"backward: one of the variables needed for gradient computation has been modified by an inplace operation: "
        f"an {role} of {node.name()} with shape {list(shape)} is at version {found}; expected version {expected} "
        f"instead. Write it out of place, or .clone() it before the write.{where}"
    )


def summed_to(g: Tensor, shape: tuple[int, ...]) -> Tensor:
    """Undo broadcasting: sum over the axes along which `shape` was stretched."""
    if tuple(g.shape) == tuple(shape):
        return g
    extra = g.ndim - len(shape)
    axes = tuple(range(extra)) + tuple(
        i + extra for i, size in enumerate(shape) if size == 1 and g.shape[i + extra] != 1
    )
    total = g.sum(axes, keepdim=True) if axes else g
    return total.reshape(shape) if extra else total
