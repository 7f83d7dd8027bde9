"""Operations of the user's own: `Function` pairs a forward computation with its gradient.

Subclass it with `forward` and `backward` (static methods) and call `apply`. Nothing inside
`forward` is recorded; the tape gets one node, whose gradient is what `backward` returns. When
`backward` is written in tensor operations, it can be differentiated again.
"""

from __future__ import annotations

import functools
import weakref
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from ..errors import ArgumentError, AutogradError, ShapeError, TransformError, UnsupportedError
from ..ops.core.base import pick, raise_modified
from ..ops.core.batching import same_memory, summed_front, summed_to, to_front, zeros_of
from ..ops.core.formula import Meta
from ..ops.core.inplace import rebase
from ..sparse import SparseTensor
from ..tape.adjoint import by_adjoint
from ..tape.interpreter import interpreter_of
from ..tape.modes import mode, no_grad, switches, unrecorded
from ..tape.node import Node, counter
from ..tape.saved import Packed, packed, relinked, unpacked
from ..tape.tape import edge_of, push_along, watch
from ..tensor import Tensor
from .batched import Level, entered, levels_of, lifted, live_levels, lowered

__all__ = ["Function", "FunctionCtx"]


class FunctionCtx:
    """What `forward` leaves for `backward`; set any attribute on it, and save tensors with its methods."""

    needs_input_grad: tuple[bool, ...] = ()
    materialize_grads = True
    _pushing = False  # whether `jvp` is running

    def __init__(self) -> None:
        self._to_save: tuple[Any, ...] = ()
        self._saved: list[Any] = []
        self._for_forward: tuple[Any, ...] | None = None
        self._dirty: tuple[Tensor, ...] = ()
        self._constant: tuple[Tensor, ...] = ()

    def save_for_backward(self, *tensors: Tensor | None) -> None:
        """Keep tensors (inputs, outputs or others) for `backward`, where `saved_tensors` returns them."""
        for x in tensors:
            if x is not None and not isinstance(x, (Tensor, SparseTensor)):
                raise ArgumentError(
                    f"save_for_backward: can only save tensors, but got {type(x).__name__}; set it as an attribute "
                    "of ctx"
                )
        self._to_save = tensors

    def save_for_forward(self, *tensors: Tensor | None) -> None:
        """Keep tensors for `jvp`, where `saved_tensors` returns them."""
        self._for_forward = tensors

    def mark_dirty(self, *tensors: Tensor) -> None:
        """Say which inputs `forward` changed in place; it must return them."""
        self._dirty = tensors

    def mark_non_differentiable(self, *tensors: Tensor) -> None:
        """Say which outputs carry no gradient."""
        self._constant = tensors

    def set_materialize_grads(self, value: bool) -> None:
        """Whether missing gradients of outputs come to `backward` as zeros (the default) or as None."""
        self.materialize_grads = value

    @property
    def saved_tensors(self) -> tuple[Any, ...]:
        """The saved tensors, checked for in-place changes since they were saved."""
        if self._pushing:
            return self._for_forward
        return tuple(entry() if entry is not None else None for entry in self._saved)

    @property
    def saved_variables(self) -> tuple[Any, ...]:
        return self.saved_tensors

    def _save(self, node: Node, outputs: Sequence[Any]) -> None:
        """Turn what was handed to `save_for_backward` into functions that give it back."""
        maker = weakref.ref(node)
        places = {id(y): index for index, y in enumerate(outputs) if isinstance(y, Tensor)}
        alone = len(outputs) == 1
        for x in self._to_save:
            if x is None:
                self._saved.append(None)
            elif isinstance(x, SparseTensor):
                self._saved.append(_sparse_entry(x, maker))
            elif id(x) in places and x.node is not None:
                self._saved.append(_output_entry(x, maker, None if alone else places[id(x)]))
            else:
                self._saved.append(_input_entry(x, maker))
        self._to_save = ()


def _sparse_entry(x: SparseTensor, maker: Callable[[], Node]) -> Callable[[], SparseTensor]:
    """The same for a sparse matrix, whose values may have been written to."""
    values = _input_entry(x._values(), maker)
    return lambda: x._with(values())


def _input_entry(x: Tensor, maker: Callable[[], Node]) -> Callable[[], Tensor]:
    """What gives a saved tensor back after checking that it was not written to."""
    if mode.saved_hooks is not None and interpreter_of(x) is None:
        held = packed(x)
        return lambda: unpacked(held)
    version = x._version

    def entry() -> Tensor:
        if x._version != version:
            raise_modified(maker(), "input", x.shape, version, x._version)
        return x

    return entry


def _output_entry(y: Tensor, maker: Callable[[], Node], index: int | None) -> Callable[[], Tensor]:
    """The same for an output, which is kept apart from its node: that would otherwise own itself."""
    plain = y.detach()
    held = Packed(plain) if mode.saved_hooks is not None and interpreter_of(y) is None else plain
    version = plain._version

    def entry() -> Tensor:
        if plain._version != version:
            raise_modified(maker(), "output", plain.shape, version, plain._version)
        value, node = unpacked(held), maker()
        return relinked(value, node if index is None else pick(node, index))

    return entry


def once_differentiable(backward: Callable) -> Callable:
    """Mark a `backward` that cannot be differentiated: the attempt raises instead of being wrong."""

    @functools.wraps(backward)
    def once(ctx: FunctionCtx, *grads: Any) -> Any:
        with no_grad():
            results = backward(ctx, *grads)
        sources = [g for g in grads if isinstance(g, Tensor) and g.requires_grad]
        if not mode.grad or not sources:
            return results
        many = results if isinstance(results, tuple) else (results,)
        refused = tuple(_refusing(r, sources) if isinstance(r, Tensor) else r for r in many)
        return refused if isinstance(results, tuple) else refused[0]

    return once


class _Refuse:
    """The operation of a node that must not be differentiated."""

    title = "Error"

    def pull(self, node: Node, g: Any, useful: Any = None) -> Any:
        raise AutogradError(
            "backward: trying to differentiate twice a function that was marked with @once_differentiable; write "
            "its backward in tensor operations and leave the mark away"
        )


def _refusing(result: Tensor, sources: Sequence[Tensor]) -> Tensor:
    node = Node()
    node.op, node.edges, node.order = _Refuse(), tuple(edge_of(g) for g in sources), next(counter)
    return relinked(result, node)


# ----------------------------------------------------------------------------------------- Function


@dataclass(frozen=True)
class VmapInfo:
    """What a `vmap` static method is told: the size of the batch and the randomness setting."""

    batch_size: int
    randomness: str


class Function:
    """A differentiable operation with a gradient of its own.

    `forward(ctx, *args)`, or `forward(*args)` with `setup_context(ctx, inputs, output)`, computes;
    `backward(ctx, *grad_outputs)` returns one gradient (or None) for each argument.
    Forward mode is made from `backward`, unless `jvp(ctx, *tangents)` returns one tangent for each output.
    For `vmap`: set `generate_vmap_rule = True`, or write `vmap(info, in_dims, *args)`, which
    returns (outputs, out_dims).

    >>> import weft
    >>> class Cube(Function):
    ...     @staticmethod
    ...     def forward(ctx, x):
    ...         ctx.save_for_backward(x)
    ...         return x * x * x
    ...     @staticmethod
    ...     def backward(ctx, g):
    ...         (x,) = ctx.saved_tensors
    ...         return 3 * x * x * g
    >>> x = weft.tensor(2.0, requires_grad=True)
    >>> Cube.apply(x).backward()
    >>> x.grad
    tensor(12.)
    """

    generate_vmap_rule = False

    @staticmethod
    def forward(*args: Any, **kwargs: Any) -> Any:
        raise UnsupportedError("Function: a subclass must have a static method forward(ctx, …)")

    @staticmethod
    def setup_context(ctx: FunctionCtx, inputs: tuple[Any, ...], output: Any) -> None:
        raise UnsupportedError("Function: setup_context is not written")

    @staticmethod
    def backward(ctx: FunctionCtx, *grad_outputs: Any) -> Any:
        raise UnsupportedError("Function: a subclass must have a static method backward(ctx, *grad_outputs)")

    @staticmethod
    def jvp(ctx: FunctionCtx, *grad_inputs: Any) -> Any:
        raise UnsupportedError("Function: jvp is not written")

    @staticmethod
    def vmap(info: VmapInfo, in_dims: tuple[Any, ...], *args: Any) -> Any:
        raise UnsupportedError("Function: vmap is not written")

    @classmethod
    def apply(cls, *args: Any) -> Any:
        """Run `forward` and put one node on the tape."""
        mapped = [x for x in args if isinstance(x, Tensor) and x._interpreter is not None]
        if mapped and cls.vmap is not Function.vmap:
            return _by_rule(cls, args, max((x._interpreter for x in mapped), key=lambda level: level.level))
        if mapped and not cls.generate_vmap_rule:
            raise TransformError(
                f"{cls.__name__}: you tried to vmap over this Function, but it has no vmap support; write its static "
                "method vmap(info, in_dims, *args), or set generate_vmap_rule = True"
            )
        return _recorded(cls, args)


def _by_rule(cls: type[Function], args: tuple[Any, ...], level: Level) -> Any:
    """The user's own batching rule."""
    owned = [level.owns(x) for x in args]
    given = [x.content if o else x for x, o in zip(args, owned, strict=True)]
    in_dims = tuple(0 if o else None for o in owned)
    with entered([other for other in live_levels() if other is not level]):
        outputs, out_dims = cls.vmap(VmapInfo(level.size, level.randomness), in_dims, *given)
        many = outputs if isinstance(outputs, tuple) else (outputs,)
        dims = out_dims if isinstance(out_dims, tuple) else (out_dims,) * len(many)
        wrapped = tuple(
            y if d is None or not isinstance(y, Tensor) else level.wrapped(to_front(y, d % y.ndim))
            for y, d in zip(many, dims, strict=True)
        )
    return wrapped if isinstance(outputs, tuple) else wrapped[0]


def _recorded(cls: type[Function], args: tuple[Any, ...]) -> Any:
    needs = tuple(isinstance(x, Tensor) and x.requires_grad for x in args)
    recording = mode.grad and True in needs
    edges = tuple(edge_of(x) if need else None for x, need in zip(args, needs, strict=True))
    ctx = FunctionCtx()
    ctx.needs_input_grad = needs
    with unrecorded():
        if cls.setup_context is not Function.setup_context:
            result = cls.forward(*args)
            cls.setup_context(ctx, args, result)
        else:
            result = cls.forward(ctx, *args)
    outputs = list(result) if isinstance(result, tuple) else [result]
    _check_dirty(cls, ctx, outputs, recording)
    if not recording:
        return result
    inputs = {id(x) for x in args if isinstance(x, Tensor)}
    dirty = {id(x) for x in ctx._dirty}
    with unrecorded():  # an input that is handed through becomes an output of its own
        outputs = [same_memory(y) if id(y) in inputs and id(y) not in dirty else y for y in outputs]
    _put_on_tape(cls, ctx, args, edges, outputs)
    return tuple(outputs) if isinstance(result, tuple) else outputs[0]


def _check_dirty(cls: type[Function], ctx: FunctionCtx, outputs: list[Any], recording: bool) -> None:
    returned = {id(y) for y in outputs}
    for x in ctx._dirty:
        if id(x) not in returned:
            raise AutogradError(f"{cls.__name__}: a tensor marked with mark_dirty was not returned by forward")
        if recording and x._is_grad_leaf():
            raise AutogradError(
                f"{cls.__name__}: a leaf tensor that requires grad was changed in place (mark_dirty); .clone() it first"
            )


def _put_on_tape(
    cls: type[Function], ctx: FunctionCtx, args: tuple[Any, ...], edges: tuple[Any, ...], outputs: list[Any]
) -> None:
    node = Node()
    node.op, node.edges, node.order = _Custom(cls, args, outputs), edges, next(counter)
    constant, dirty = {id(x) for x in ctx._constant}, {id(x) for x in ctx._dirty}
    alone = len(outputs) == 1
    if not alone:
        node.outputs = tuple(Meta(y) if isinstance(y, Tensor) else None for y in outputs)
    for index, y in enumerate(outputs):
        if not isinstance(y, Tensor) or id(y) in constant or not (y.is_floating_point() or y.is_complex()):
            continue
        made = node if alone else pick(node, index)
        if id(y) in dirty and interpreter_of(y) is None:
            rebase(y, relinked(y, made))
        else:
            y.node, y._needs_grad = made, True
    ctx._save(node, outputs)
    node.saved, node.keeps = ctx, bool(ctx._saved)
    push_along(node, outputs[0] if alone else tuple(outputs))
    if switches.anomaly:
        with no_hooks():
            watch(node, None)


class no_hooks:
    """Within it, hooks on saved tensors rest."""

    def __enter__(self) -> None:
        self.before, mode.saved_hooks = mode.saved_hooks, None

    def __exit__(self, *_: object) -> None:
        mode.saved_hooks = self.before


class _Custom:
    """What the tape calls: the user's `backward`, with shapes and numbers of gradients checked."""

    def __init__(self, cls: type[Function], args: tuple[Any, ...], outputs: list[Any]) -> None:
        self.cls, self.title, self.node_name = cls, cls.__name__, f"{cls.__name__}Backward"
        self.inputs = [Meta(x) if isinstance(x, Tensor) else None for x in args]
        self.input_levels = [levels_of(x) if isinstance(x, Tensor) else [] for x in args]
        self.outputs = [Meta(y) if isinstance(y, Tensor) else None for y in outputs]
        self.output_levels = [levels_of(y) if isinstance(y, Tensor) else [] for y in outputs]
        self.levels = live_levels() if any(self.input_levels) else ()

    def pull(self, node: Node, g: Any, useful: Sequence[bool] | None = None) -> list[Any]:
        ctx: FunctionCtx = node.saved
        given = g if node.outputs is not None else [g]
        present = live_levels()
        with entered([*self.levels, *(level for level in present if level not in self.levels)]):
            grads = [
                self._zeros(index, ctx) if one is None else lifted(self.output_levels[index], one)
                for index, one in enumerate(given)
            ]
            results = self.cls.backward(ctx, *grads)
            results = list(results) if isinstance(results, (tuple, list)) else [results]
            self._check_count(results)
            return [
                self._fitted(r, index) if node.edges[index] is not None else None for index, r in enumerate(results)
            ]

    def push(self, node: Node, out: Any, tangents: Sequence[Any]) -> Any:
        """The user's `jvp`, or what follows from `backward`."""
        if self.cls.jvp is Function.jvp or any(self.input_levels):
            useful = [t is not None for t in tangents]
            return by_adjoint(lambda u: self.pull(node, u, useful), out, tangents)
        ctx: FunctionCtx = node.saved
        ctx._pushing = ctx._for_forward is not None
        try:
            return self.cls.jvp(ctx, *tangents)
        finally:
            ctx._pushing = False

    def _zeros(self, index: int, ctx: FunctionCtx) -> Tensor | None:
        meta = self.outputs[index]
        return zeros_of(meta) if ctx.materialize_grads and meta is not None else None

    def _check_count(self, results: list[Any]) -> None:
        expected = len(self.inputs)
        while len(results) > expected and results[-1] is None:
            results.pop()
        if len(results) != expected:
            raise AutogradError(
                f"{self.title}: backward returned an incorrect number of gradients (expected {expected}, got "
                f"{len(results)}); return one for each argument of forward, None where there is none"
            )

    def _fitted(self, r: Any, index: int) -> Tensor | None:
        """A gradient summed over what its input does not vary over, and brought to the input's shape."""
        if r is None:
            return None
        if not isinstance(r, Tensor):
            raise AutogradError(
                f"{self.title}: backward returned {type(r).__name__} as gradient {index}; expected a tensor or None"
            )
        wanted, own = self.inputs[index], self.input_levels[index]
        for level in self.levels:
            if level in levels_of(r) and level not in own:
                r = summed_front(level.exposed(r))
        try:
            fits = summed_to(r, tuple(wanted.shape))
        except (ShapeError, ValueError, IndexError):
            fits = r
        if tuple(fits.shape) != tuple(wanted.shape):
            raise AutogradError(
                f"{self.title}: backward returned an invalid gradient at index {index} - got {list(r.shape)} but "
                f"expected shape compatible with {list(wanted.shape)}"
            )
        return lowered(own, fits)
