"""vmap: a function of single examples becomes a function of batches.

Within `vmap` a tensor that is mapped over is a `Batched`: it shows the shape of one example, while
its `content` tensor carries the batch at dimension 0. Every primitive called with one is sent to the
`Level` of the innermost `vmap`, which takes one layer off, runs the primitive's own batching rule,
and wraps what comes out. The tape below records on plain tensors only, so derivatives compose with
batching without further rules.
"""

from __future__ import annotations

import contextlib
import functools
import itertools
import threading
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from ..errors import IndexRangeError, InvalidValueError, ShapeError, TransformError
from ..ops.core.batching import from_front, joined, one_row, piece, repeated, reshaped, stacked, swap_fronts, to_front
from ..ops.core.primitive import write
from ..ops.create.sample import draw
from ..sizes import Size
from ..tape.interpreter import LayerInterpreter, interpreter_of
from ..tape.modes import mode
from ..tape.tape import add_tensor_hook
from ..tensor import Tensor
from ..utils.pytree import broadcast_prefix, tree_flatten, tree_structure, tree_unflatten

__all__ = ["Level", "entered", "levels_of", "lifted", "live_levels", "lowered", "physical", "varied", "vmap"]

RANDOMNESS = ("error", "different", "same")
_numbers = itertools.count(1)


class _State(threading.local):
    """The vmaps that this thread is inside of, outermost first."""

    def __init__(self) -> None:
        self.levels: tuple[Level, ...] = ()


_state = _State()


def live_levels() -> tuple[Level, ...]:
    """The vmaps this thread is inside of, outermost first."""
    return _state.levels


@contextlib.contextmanager
def entered(levels: Sequence[Level]) -> Iterator[None]:
    """Be inside of exactly these vmaps (again)."""
    before = _state.levels, mode.sampling
    _state.levels = tuple(levels)
    mode.sampling = _sampled if levels else None
    try:
        yield
    finally:
        _state.levels, mode.sampling = before


def _sampled(name: str, sampler: str, source: Any, parameters: Sequence[Any], options: dict[str, Any]) -> Tensor:
    """Draw random numbers inside vmap, as the innermost one's `randomness` says.

    'different' draws example by example, so one call gives the numbers of a Python loop over it; 'same' draws
    once, or from the same place of the stream for each example where a parameter varies.
    """
    *others, level = _state.levels
    if level.randomness == "error":
        raise TransformError(
            f"{name}: vmap: called random operation while in randomness error mode; pass randomness='different' "
            "or 'same' to vmap, or draw outside it"
        )
    varies = any(level.owns(p) for p in (*parameters, *options.values()))
    row = lambda value, i: one_row(value.content, i) if level.owns(value) else value
    rows, same = [], level.randomness == "same"
    with entered(others):
        start = source.get_state()
        for i in range(level.size if varies or not same else 1):
            if same:
                source.set_state(start)
            given = {k: row(v, i) for k, v in options.items()}
            rows.append(draw(name, sampler, source, *(row(p, i) for p in parameters), **given))
    return rows[0] if same and not varies else level.wrapped(stacked(rows))


class _NoArray(TransformError, AttributeError):
    """Raised where the values of a batched tensor are asked for as one array."""


# ------------------------------------------------------------------------------- the batched tensor


def _of_physical(name: str, doc: str) -> property:
    """An attribute that belongs to the plain tensor under all layers."""
    return property(
        lambda self: getattr(physical(self), name), lambda self, value: setattr(physical(self), name, value), doc=doc
    )


class Batched(Tensor):
    """One example's view of a batch: `content` has the batch of level `_interpreter` at dimension 0."""

    content: Tensor

    node = _of_physical("node", "The node of the plain tensor below.")
    _needs_grad = _of_physical("_needs_grad", "Whether the plain tensor below takes part in differentiation.")
    _base = _of_physical("_base", "The owner of the memory of the plain tensor below.")
    _counter = _of_physical("_counter", "The count of in-place writes of the plain tensor below.")
    _inference = _of_physical("_inference", "Whether the plain tensor below was made in inference mode.")

    @property
    def array(self) -> Any:
        raise _NoArray(
            f"vmap: the values of a batched tensor (shape {tuple(self.shape)} for one example) were asked for as one "
            "array: .item(), .numpy(), data-dependent control flow and operations whose result's shape depends on "
            "values cannot be mapped; use weft.where or masks, or do that part outside vmap"
        )

    @property
    def shape(self) -> Size:
        return Size(tuple(self.content.shape)[1:])

    @property
    def ndim(self) -> int:
        return self.content.ndim - 1

    @property
    def dtype(self) -> Any:
        return self.content.dtype

    @property
    def itemsize(self) -> int:
        return self.content.itemsize

    @property
    def nbytes(self) -> int:
        return self.numel() * self.content.itemsize

    @property
    def data(self) -> Tensor:
        return self._interpreter.wrapped(self.content.data)

    def stride(self, dim: int | None = None) -> Any:
        strides = self.content.stride()[1:]
        return strides if dim is None else strides[dim]

    def is_contiguous(self, memory_format: Any = None) -> bool:
        return self.content.is_contiguous(memory_format)

    def item(self) -> Any:
        raise TransformError(
            "vmap: .item() was called on a batched tensor, which has one value for each example; express it in "
            "tensor operations, or take it outside vmap"
        )

    def __bool__(self) -> bool:
        raise TransformError(
            "vmap: a batched tensor was used in data-dependent control flow (if, while, and, or, not): every example "
            "may decide differently; use weft.where(condition, a, b)"
        )

    def __index__(self) -> int:
        raise TransformError("vmap: a batched tensor was used as a Python index; use tensor indexing instead")


def physical(x: Tensor) -> Tensor:
    """The plain tensor under all layers of batching."""
    while isinstance(x, Batched):
        x = x.content
    return x


def levels_of(x: Tensor) -> list[Level]:
    """The vmaps over which x varies, outermost first."""
    found: list[Level] = []
    while isinstance(x, Batched):
        found.insert(0, x._interpreter)
        x = x.content
    return found


# --------------------------------------------------------------------------------------- one level


class Level(LayerInterpreter):
    """One running vmap: its batch size, and what it does with operations on its tensors."""

    def __init__(self, size: int, randomness: str = "error") -> None:
        self.size, self.randomness, self.level = size, randomness, next(_numbers)

    # ------------------------------------------------------------------------- layers on and off
    def owns(self, x: Any) -> bool:
        """Whether the outermost layer of x is this level's."""
        return isinstance(x, Tensor) and x._interpreter is self

    def wrapped(self, content: Tensor) -> Batched:
        """Dimension 0 of `content`, a tensor of lower levels, becomes this level's batch."""
        out = object.__new__(Batched)
        out.content, out._interpreter = content, self
        return out

    def exposed(self, x: Tensor) -> Tensor:
        """x with this level's batch as an ordinary first dimension; repeated if x does not vary over it."""
        if x._interpreter is self:
            return x.content
        if x._interpreter is None or x._interpreter.level < self.level:
            return repeated(x, self.size)
        above = x._interpreter
        return above.wrapped(swap_fronts(self.exposed(x.content)))  # (this, above, …) → (above, this, …)

    def enclosed(self, x: Tensor) -> Tensor:
        """The inverse of `exposed`: the first dimension of x, of any levels, becomes this level's batch."""
        if x._interpreter is None or x._interpreter.level < self.level:
            return self.wrapped(x)
        above = x._interpreter
        return above.wrapped(self.enclosed(swap_fronts(x.content)))  # (above, this, …) → (this, above, …)

    # ---------------------------------------------------------------- what the engine asks of a level
    def apply(self, primitive: Any, inputs: Sequence[Any], params: dict[str, Any]) -> Any:
        """Run a primitive on tensors of which some vary over this level (and maybe over lower ones)."""
        if self not in _state.levels:
            raise TransformError(
                f"{primitive.name}: a batched tensor of shape (for one example) "
                f"{next(tuple(x.shape) for x in inputs if self.owns(x))} is used outside the vmap that made it; "
                "return it from the mapped function instead of storing it elsewhere"
            )
        batched = [self.owns(x) for x in inputs]
        content = [x.content if b else x for x, b in zip(inputs, batched, strict=True)]
        result = primitive.batch(content, batched, self.size, params)
        if isinstance(result, tuple):
            return tuple(self.wrapped(r) for r in result)
        return self.wrapped(result)

    def filled(self, x: Batched, value: float) -> Tensor:
        return self.wrapped(x.content._filled(value))

    def copied(self, x: Batched) -> Tensor:
        return self.wrapped(x.content._copy())

    def detached(self, x: Batched) -> Tensor:
        return self.wrapped(x.content.detach())

    def resized(self, x: Batched, shape: Sequence[int]) -> Tensor:
        return self.wrapped(reshaped(x.content, (self.size, *shape)))

    def write(self, target: Tensor, value: Tensor, name: str) -> Tensor:
        """Write into each example of `target`; a target that does not vary cannot hold what does."""
        if not self.owns(target):
            raise TransformError(
                f"{name}: vmap: inplace arithmetic is not possible: the value varies over the batch of {self.size}, "
                f"the tensor of shape {tuple(target.shape)} that it is written into does not; use the out-of-place "
                "form, or make the target from a mapped tensor (for example x.new_zeros(...) + 0 * x)"
            )
        write(target.content, self.exposed(value), name)
        return target

    def renewed(self, x: Batched) -> Tensor:
        """The value and history of x apart from its memory, so that x itself can be written to."""
        content = x.content
        interpreter = interpreter_of(content)
        if interpreter is not None:
            return self.wrapped(interpreter.renewed(content))
        copy = content._copy()
        copy.node, copy._needs_grad = content.node, content._needs_grad
        return self.wrapped(copy)

    def shown(self, x: Batched) -> str:
        value = repr(x.content).replace("\n", "\n    ")
        return f"Batched(size={self.size}, one example: {list(x.shape)}, value=\n    {value}\n)"

    # --------------------------------------------------------------------- what the tape asks of it
    def physical(self, x: Batched) -> Tensor:
        return physical(x)

    def lowered(self, x: Batched, g: Tensor) -> Tensor:
        """A gradient of x laid out as the plain tensor below x."""
        return lowered(levels_of(x), g)

    def lifted(self, x: Batched, g: Tensor) -> Tensor:
        """A gradient of the plain tensor below x as one of x."""
        return lifted(levels_of(x), g)

    def hooked(self, x: Batched, hook: Callable) -> Any:
        """Let `hook` see gradients of x as they are inside the vmap, whenever they come."""
        levels, inside = levels_of(x), live_levels()

        def below(g: Tensor) -> Tensor | None:
            with entered([*inside, *(level for level in live_levels() if level not in inside)]):
                changed = hook(lifted(levels, g))
                return None if changed is None else lowered(levels, changed)

        return add_tensor_hook(physical(x), below)

    def check_targets(self, output: Batched, targets: Sequence[Tensor]) -> None:
        """Refuse the derivative of what varies over a batch by what does not: it would be a sum."""
        for target in targets:
            missing = [level for level in levels_of(output) if level not in levels_of(target)]
            if missing:
                raise TransformError(
                    f"grad: inside vmap, the output varies over a batch of {missing[0].size} but the input of "
                    f"shape {tuple(target.shape)} does not, so one gradient for each example is not defined; "
                    "use weft.func.grad, which gives each example its own copy"
                )


def lowered(levels: Sequence[Level], g: Tensor) -> Tensor:
    """g with the batches of these levels as ordinary first dimensions, the outermost level's first."""
    for level in reversed(levels):
        g = level.exposed(g)
    return g


def lifted(levels: Sequence[Level], g: Tensor) -> Tensor:
    """The inverse of `lowered`."""
    for level in levels:
        g = level.enclosed(g)
    return g


def varied(x: Tensor) -> Tensor:
    """x with a value of its own for every example of every vmap that is running."""
    for level in live_levels():
        if level not in levels_of(x):
            x = level.enclosed(level.exposed(x))
    return x


# -------------------------------------------------------------------------------------------- vmap


def vmap(
    func: Callable,
    in_dims: Any = 0,
    out_dims: Any = 0,
    randomness: str = "error",
    *,
    chunk_size: int | None = None,
) -> Callable:
    """`func` mapped over a dimension of its arguments, all examples at once.

    `in_dims` says for each argument which dimension is mapped over (None: the argument is the same
    for all examples), nested like the arguments; `out_dims` where the dimension appears in each
    result. Keyword arguments are not mapped. `randomness`: 'error' refuses random operations,
    'different' draws for every example, 'same' draws once for all. `chunk_size` bounds how many
    examples run together.

    >>> import weft
    >>> weft.vmap(weft.dot)(weft.ones(2, 3), weft.ones(2, 3))
    tensor([3., 3.])
    """
    if randomness not in RANDOMNESS:
        raise TransformError(
            f"vmap: only allowed values for randomness are 'error', 'different', or 'same', got {randomness!r}"
        )
    if chunk_size is not None and chunk_size <= 0:
        raise InvalidValueError(f"vmap: chunk_size should be None or greater than 0, got {chunk_size}")
    name = getattr(func, "__name__", repr(func))

    @functools.wraps(func, updated=())
    def mapped(*args: Any, **kwargs: Any) -> Any:
        leaves, spec, dims, size = _mapped_inputs(name, in_dims, args)
        run = functools.partial(_run, func, name, spec, out_dims, randomness, kwargs)
        if chunk_size is None or chunk_size >= size:
            return run(leaves, dims, size)
        return _in_chunks(run, leaves, dims, size, chunk_size, out_dims)

    return mapped


def _mapped_inputs(name: str, in_dims: Any, args: tuple[Any, ...]) -> tuple[list[Any], Any, list[Any], int]:
    """The leaves of the arguments, their containers, the mapped dimension of each (≥ 0) and the size."""
    said = f"vmap({name}, in_dims={in_dims}, …)"
    if not isinstance(in_dims, (int, tuple)):
        raise InvalidValueError(
            f"{said}: expected `in_dims` to be int or a (potentially nested) tuple matching the structure of inputs, "
            f"got: {type(in_dims)}"
        )
    if not args:
        raise InvalidValueError(f"vmap({name}): got no inputs; a function with no inputs cannot be mapped")
    leaves, spec = tree_flatten(args)
    dims = broadcast_prefix(in_dims, spec)
    if dims is None:
        raise InvalidValueError(
            f"{said}: in_dims is not compatible with the structure of `inputs`: {tree_structure(in_dims)} against "
            f"{spec}"
        )
    dims = [_checked_dim(said, x, d) for x, d in zip(leaves, dims, strict=True)]
    sizes = [x.shape[d] for x, d in zip(leaves, dims, strict=True) if d is not None]
    if not sizes:
        raise InvalidValueError(
            f"{said}: nothing to map over: every in_dim is None; give at least one argument a dimension"
        )
    if len(set(sizes)) > 1:
        raise ShapeError(
            f"{said}: expected all tensors to have the same size in the mapped dimension, got sizes {sizes}"
        )
    return leaves, spec, dims, sizes[0]


def _checked_dim(said: str, x: Any, dim: Any) -> int | None:
    if dim is None:
        return None
    if not isinstance(dim, int):
        raise InvalidValueError(f"{said}: each in_dim must be an integer or None, got {dim!r}")
    if not isinstance(x, Tensor):
        raise InvalidValueError(
            f"{said}: got in_dim={dim} for an input of type {type(x).__name__}; only tensors can be mapped over, use "
            "None as its in_dim"
        )
    if not -x.ndim <= dim < x.ndim:
        raise InvalidValueError(
            f"{said}: got in_dim={dim} for a tensor of shape {tuple(x.shape)}; expected {-x.ndim} <= in_dim < {x.ndim}"
        )
    return dim % x.ndim


def _run(
    func: Callable,
    name: str,
    spec: Any,
    out_dims: Any,
    randomness: str,
    kwargs: dict[str, Any],
    leaves: list[Any],
    dims: list[Any],
    size: int,
) -> Any:
    level = Level(size, randomness)
    with entered((*live_levels(), level)):
        inputs = [x if d is None else level.wrapped(to_front(x, d)) for x, d in zip(leaves, dims, strict=True)]
        outputs = func(*tree_unflatten(inputs, spec), **kwargs)
        flat, out_spec = tree_flatten(outputs)
        wanted = broadcast_prefix(out_dims, out_spec)
        if wanted is None:
            raise InvalidValueError(
                f"vmap({name}, …, out_dims={out_dims}): out_dims is not compatible with the structure of `outputs`: "
                f"{tree_structure(out_dims)} against {out_spec}"
            )
        results = [_taken_out(level, name, y, d) for y, d in zip(flat, wanted, strict=True)]
    return tree_unflatten(results, out_spec)


def _taken_out(level: Level, name: str, y: Any, dim: int | None) -> Any:
    """One result with the batch at `dim`, or as it is where it does not vary and `dim` is None."""
    if dim is None:
        if isinstance(y, Tensor) and level in levels_of(y):
            raise InvalidValueError(f"vmap({name}, …): a result that varies over the batch cannot have out_dim None")
        return y
    if not isinstance(y, Tensor):
        raise InvalidValueError(
            f"vmap({name}, …): `{name}` must only return tensors, got {type(y).__name__}; set its out_dim to None to "
            "return it as it is"
        )
    count = y.ndim + 1
    if not -count <= dim < count:
        raise IndexRangeError(
            f"vmap({name}, …): Dimension out of range (expected to be in range of [{-count}, {count - 1}], but got "
            f"{dim})"
        )
    return from_front(level.exposed(y), dim % count)


def _in_chunks(run: Callable, leaves: list[Any], dims: list[Any], size: int, chunk_size: int, out_dims: Any) -> Any:
    """Run the batch in pieces and join the results."""
    columns, spec = [], None
    for start in range(0, size, chunk_size):
        stop = start + chunk_size if start + chunk_size < size else size
        parts = [x if d is None else piece(x, d, start, stop) for x, d in zip(leaves, dims, strict=True)]
        flat, spec = tree_flatten(run(parts, dims, stop - start))
        columns.append(flat)
    wanted = broadcast_prefix(out_dims, spec)
    results = [
        rows[0] if d is None else joined(rows, d) for rows, d in zip(zip(*columns, strict=True), wanted, strict=True)
    ]
    return tree_unflatten(results, spec)
