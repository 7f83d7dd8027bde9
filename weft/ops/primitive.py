"""What an operation is: one class that states its meaning and its gradient, and the kinds they come in.

A primitive says what is its own: `reference` (NumPy: its meaning), `vjp` (its gradient, written in
tensor operations so that second derivatives follow) and later `lower` (its native body). Its kind
supplies the rest: type rules, broadcasting, batching under `vmap`. `register` enters it, and every
composite function, into `OPERATIONS`, from which the package builds functions, methods, the
documentation table and the tests.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from .. import dtype as dtypes
from ..autograd import tape
from ..autograd.modes import mode, switches
from ..autograd.tape import Node
from ..dtype import BOOL, COMPLEX, FLOAT, dtype
from ..errors import DtypeError, ShapeError
from ..tensor import Tensor, link_view, wrap
from . import base
from .base import (
    PRIMITIVES,
    Primitive,
    next_order,
    register_module,
    summed_to,
)
from .formula import LOOK, SAVE, Meta
from .inplace import in_place, update, write
from .register import OPERATIONS, Operation, operation, with_out, write_out

new = object.__new__
ndarray = np.ndarray
F32, F64 = np.dtype(np.float32), np.dtype(np.float64)
FLOATS = frozenset({F32, F64})
BOOLEAN = np.dtype(np.bool_)
ONE_NEEDS = (True,)
NO_PARAMS: dict[str, Any] = {}
NEEDS = {(a, b): (a, b) for a in (False, True) for b in (False, True)}  # one object for each pair

__all__ = [
    "OPERATIONS",
    "PRIMITIVES",
    "Contraction",
    "Elementwise",
    "Indexing",
    "Opaque",
    "Operation",
    "Primitive",
    "Reduction",
    "View",
    "Window",
    "broadcast_error",
    "is_number",
    "operation",
    "python_int",
    "register_module",
    "summed_to",
    "update",
    "with_out",
    "write",
    "write_out",
]

# --------------------------------------------------------------------------------------- elementwise

_SCALARS: dict[tuple[Any, np.dtype], ndarray] = {}


def scalar_array(value: Any, kind: np.dtype) -> ndarray:
    """A 0-d array of a number, remembered: NumPy takes arrays faster than Python numbers."""
    key = (value, kind)
    found = _SCALARS.get(key)
    if found is None:
        if kind.kind in "iu" and isinstance(value, int):
            found = np.array(value & (2 ** (8 * kind.itemsize) - 1), f"u{kind.itemsize}").view(kind)  # wraps around
        else:
            found = mode.run(np.asarray, value, kind)
        if value == 0:  # 0.0 and -0.0 are equal keys
            return found
        if len(_SCALARS) > 4096:
            _SCALARS.clear()
        _SCALARS[key] = found
    return found


class Elementwise(Primitive, abstract=True):
    """y[i] = f(x₁[i], x₂[i], …) with broadcasting.

    `result`: 'same' (the promoted type), 'float' (integers become the default float), 'bool', 'real'
    (the real type of a complex one). `categories`: the lowest and highest category taken.
    """

    result = "same"
    categories = (BOOL, COMPLEX)
    domain: Any = (-2.0, 2.0)  # where the tests draw their inputs
    inplace = True
    public = True  # whether registering makes the function and methods by itself
    aliases: tuple[str, ...] = ()
    namespace = ""
    native_low = False  # whether `reference` takes float16 and bfloat16 as they are
    numbers = "one"  # which of two arguments the public function takes as numbers: none, second, one, both
    cost = 1  # of an element in native code, where an addition is 1
    lower: Callable | None = None  # (f, *operands, **params): the operation in native code, see `native_types`
    unchanged: Callable | None = None  # (numbers, **params): which operand the result is, where known numbers tell

    def __init__(self) -> None:
        super().__init__()
        if not hasattr(self, "arity"):
            self.arity = getattr(self.reference, "nin", None) or self._count_arguments()
        self.fast = self._unary() if self.arity == 1 else self._binary() if self.arity == 2 else self.__call__
        if self.public:
            self.publish()

    def _count_arguments(self) -> int:
        code = getattr(self.reference, "__code__", None)
        return 1 if code is None else code.co_argcount - 1  # without self; a LazyFunction takes one unless told

    def has_short_way(self) -> bool:
        """Whether float arrays can go straight to `reference`: nothing around it was changed."""
        return self.takes(FLOAT) and type(self).evaluate is Elementwise.evaluate

    def takes(self, category: int) -> bool:
        low, high = self.categories
        return low <= category <= high

    def publish(self) -> None:
        """Create the public function, the method and the in-place method."""
        fast, name = self.fast, self.namespace + self.name
        if self.arity == 1:

            def public(input: Tensor, *, out: Tensor | None = None) -> Tensor:
                return fast(input) if out is None else write_out(out, fast(input), name)
        else:
            if self.numbers != "both":
                fast = self._with_tensors(fast, name)

            def public(input: Any, other: Any, *, out: Tensor | None = None) -> Tensor:
                return fast(input, other) if out is None else write_out(out, fast(input, other), name)

        public.__name__ = public.__qualname__ = self.name
        public.__doc__ = type(self).__doc__
        inplace = self.into(public, self.name + "_") if self.inplace else False
        self.function = operation(
            name,
            inplace=inplace,
            method=not self.namespace,
            aliases=self.aliases,
            differentiable=self.differentiable,
            kind=self.kind,
            primitive=self,
        )(public)

    def _with_tensors(self, fast: Callable, name: str) -> Callable:
        """`fast`, refusing Python numbers where PyTorch wants tensors."""
        first_may, second_may = self.numbers == "one", self.numbers != "none"

        def checked(x: Any, y: Any) -> Tensor:
            if x.__class__ in PYTHON_NUMBERS and (not first_may or y.__class__ in PYTHON_NUMBERS):
                raise number_error(name, "input", x)
            if not second_may and y.__class__ in PYTHON_NUMBERS:
                raise number_error(name, "other", y)
            return fast(x, y)

        return checked

    def _unary(self) -> Callable:
        """The shortest way from a float tensor to the result; everything else takes `__call__`."""
        ufunc, slow, note = self.reference, self.__call__, self.note
        if self.result not in ("same", "float") or not self.has_short_way():
            return slow
        differentiable = self.differentiable

        def fast(x: Tensor) -> Tensor:
            try:
                a = x.array
                kind = a.dtype
            except AttributeError:
                return slow(x)
            if kind is not F32 and kind is not F64:
                return slow(x)
            y = mode.run(ufunc, a) if a.size < base.LARGE else base.run_large(self, ufunc, (a,), NO_PARAMS)
            out = new(Tensor)
            out.array = y if y.__class__ is ndarray else np.asarray(y)
            if x._needs_grad and differentiable and mode.grad:
                note(out, (x,), ONE_NEEDS)
            elif switches.inferring and mode.inference:
                out._inference = True
            return out

        return fast

    def _binary(self, slow: Callable | None = None) -> Callable:
        """The shortest way for two float tensors of one type, or a float tensor and a number."""
        ufunc, slow, note = self.reference, slow or self.__call__, self.note
        if self.result not in ("same", "float", "bool") or not self.has_short_way():
            return slow
        differentiable, known = self.differentiable, _SCALARS.get

        def fast(x: Any, y: Any) -> Tensor:
            try:
                if x.__class__ is float or x.__class__ is int:
                    large = b = y.array
                    kind = b.dtype
                    if kind is not F32 and kind is not F64:
                        return slow(x, y)
                    a, x_needs, y_needs = scalar_array(x, kind), False, y._needs_grad
                else:
                    large = a = x.array
                    kind, x_needs = a.dtype, x._needs_grad
                    if kind is not F32 and kind is not F64:
                        return slow(x, y)
                    if y.__class__ is float or y.__class__ is int:
                        b, y_needs = known((y, kind)), False
                        if b is None:
                            b = scalar_array(y, kind)
                    else:
                        b, y_needs = y.array, y._needs_grad
                        if b.dtype is not kind and b.dtype is not BOOLEAN:  # a mask keeps the float type
                            return slow(x, y)
            except AttributeError:
                return slow(x, y)
            try:
                r = mode.run(ufunc, a, b) if large.size < base.LARGE else base.run_large(self, ufunc, (a, b), NO_PARAMS)
            except ValueError:
                raise broadcast_error(self.name, a.shape, b.shape) from None
            out = new(Tensor)
            out.array = r if r.__class__ is ndarray else np.asarray(r)
            if (x_needs or y_needs) and differentiable and mode.grad:
                note(out, (x, y), NEEDS[x_needs, y_needs])
            elif switches.inferring and mode.inference:
                out._inference = True
            return out

        return fast

    def operator(self) -> Callable:
        """Python's operator: like the function, but leaves operands it does not know to their own class."""
        call = self.__call__

        def slow(x: Any, y: Any) -> Any:
            if is_operand(y) and is_operand(x):
                return call(as_operand(x), as_operand(y))
            return NotImplemented

        return self._binary(slow)

    def note(self, out: Tensor, inputs: tuple[Any, ...], needs: tuple[bool, ...]) -> None:
        """`record` for the short ways: the inputs are plain, at least one of them needs a gradient."""
        node = new(Node)
        node.op, node.order = self, next_order()
        plan = self._plans.get(needs)
        keep_output, keep_inputs, keeps = plan if plan is not None else self.plan(needs)
        if needs is ONE_NEEDS:
            (x,) = inputs
            node.edges = (x if x.node is None else x.node,)
        else:
            x, y = inputs
            shape = out.array.shape
            x_shape = y_shape = shape
            first = second = None
            if needs[0]:
                first, x_shape = x if x.node is None else x.node, x.array.shape
            if needs[1]:
                second, y_shape = y if y.node is None else y.node, y.array.shape
            node.edges = (first, second)
            if x_shape != shape or y_shape != shape:
                node.shapes = (x_shape, y_shape)
        node.saved = self._save_inputs(node, inputs, keep_inputs) if keeps else keep_inputs
        if keep_output is SAVE:
            node.keeps = True
            node.output = out.array
            out._counter = node.output_counter = [0]
        elif keep_output is LOOK:
            node.output = Meta(out)
        if switches.watching:
            tape.watch(node, out)
        out.node, out._needs_grad = node, True

    def into(self, function: Callable, name: str) -> Callable:
        """The in-place method: straight into the memory when nothing is recorded, else through `update`."""
        ufunc = self.reference
        if not isinstance(ufunc, np.ufunc) or self.arity != 2 or self.result == "bool":
            return in_place(function, name)
        takes_numbers = self.numbers != "none"

        def method(self: Tensor, other: Any, **kwargs: Any) -> Tensor:
            if not kwargs and self._interpreter is None:
                a = self.array
                kind = a.dtype
                number = takes_numbers and (other.__class__ is float or other.__class__ is int)
                b = scalar_array(other, kind) if number and kind in FLOATS else getattr(other, "array", None)
                if b is not None and b.dtype is kind and kind in FLOATS and not self._tracked(other):
                    self._check_writable(name)
                    try:
                        mode.run(ufunc, a, b, a)
                    except ValueError:
                        raise broadcast_error(name, a.shape, b.shape) from None
                    self._bump()
                    return self
            return update(self, function, (other,), kwargs, name)

        method.__name__ = method.__qualname__ = name
        method.__doc__ = f"In-place version of `{name[:-1]}`."
        return method

    # ------------------------------------------------------------------------------ the general way
    def operands(self, inputs: Sequence[Any]) -> tuple[dtype | None, list[Any]]:
        """The type in which the operation is computed, and the inputs in it."""
        kind = self.compute_dtype(inputs)
        return kind, [x if not isinstance(x, Tensor) or x.dtype is kind else x.to(kind) for x in inputs]

    def evaluate(self, inputs: Sequence[Any], params: dict[str, Any]) -> Tensor:
        kind, cast = self.operands(inputs)
        arrays = [x.array if isinstance(x, Tensor) else scalar_array(x, kind.np) for x in cast]
        if kind in dtypes.LOW_PRECISION and not self.native_low:
            arrays = [a.astype(F32) for a in arrays]
        try:
            if any(a.size >= base.LARGE for a in arrays):
                result = base.run_large(self, self.reference, arrays, params)
            else:
                result = mode.run(self.reference, *arrays, **params)
        except ValueError:
            if len(arrays) == 1:
                raise
            raise broadcast_error(self.name, *(a.shape for a in arrays)) from None
        return self.record(wrap(self._result(result, kind)), cast, params)

    def compute_dtype(self, inputs: Sequence[Any]) -> dtype:
        """The type in which the operation is computed, by promotion and this operation's rule."""
        kind = dtypes.result_dtype(inputs)
        if self.result == "float" and kind.category < FLOAT:
            kind = dtypes.get_default_dtype()
        if not self.takes(kind.category):
            low, high = self.categories
            names = ("bool", "integer", "floating-point", "complex")
            raise DtypeError(
                f'{self.name}: "{self.name}" not implemented for {kind} (takes {names[low]} to {names[high]} tensors); '
                f"convert the input with .to(...)"
            )
        return kind

    def _result(self, result: Any, kind: dtype) -> ndarray:
        result, wanted = np.asarray(result), self.result_dtype(kind)
        return result if result.dtype is wanted else result.astype(wanted)

    def result_dtype(self, kind: dtype) -> np.dtype:
        """The type of the result when it is computed in `kind`."""
        if self.result == "bool":
            return BOOLEAN
        return kind.to_real().np if self.result == "real" else kind.np

    def native_types(self, kinds: Sequence[np.dtype], params: dict[str, Any]) -> tuple[np.dtype | None, np.dtype]:
        """(type that `lower` wants its operands in, type of the result) for inputs of these types.

        None: each operand in its own type. `lower` may return another type than that of the result: it is converted.
        """
        kind = self.compute_dtype([wrap(np.empty(1, k)) for k in kinds])
        return kind.np, self.result_dtype(kind)

    def make_node(self, out: Tensor, inputs: Sequence[Any], params: dict[str, Any], needs: tuple[bool, ...]) -> Node:
        node = Primitive.make_node(self, out, inputs, params, needs)
        shape = out.array.shape
        for x, need in zip(inputs, needs):  # noqa: B905  hot
            if need and x.array.shape != shape:
                node.shapes = tuple(x.array.shape if n else None for x, n in zip(inputs, needs, strict=True))
                break
        return node

    def batch(self, inputs: Sequence[Any], batched: Sequence[bool], size: int, params: dict[str, Any]) -> Tensor:
        """Line up the ranks behind the batch dimension, then compute as usual."""
        from .batching import promoted_as_single

        rank = max(x.ndim - b for x, b in zip(inputs, batched, strict=True) if isinstance(x, Tensor))
        if len(inputs) > 1 and any(b and x.ndim == 1 for x, b in zip(inputs, batched, strict=True)):
            inputs = promoted_as_single(inputs, batched)
        return self(*(_raise_rank(x, rank) if b else x for x, b in zip(inputs, batched, strict=True)), **params)


def _raise_rank(x: Tensor, rank: int) -> Tensor:
    """(B, *rest) → (B, 1, …, 1, *rest) with `rank` dimensions behind the batch."""
    missing = rank - (x.ndim - 1)
    return x.reshape(x.shape[0], *(1,) * missing, *x.shape[1:]) if missing > 0 else x


def broadcast_error(name: str, *shapes: tuple[int, ...]) -> ShapeError:
    """What to say when sizes do not broadcast: which dimension, which sizes."""
    rank = max(len(s) for s in shapes)
    padded = [(1,) * (rank - len(s)) + tuple(s) for s in shapes]
    for d in reversed(range(rank)):
        sizes = {s[d] for s in padded} - {1}
        if len(sizes) > 1:
            first, second = [s[d] for s in padded if s[d] != 1][:2]
            if first == second:
                second = next(s[d] for s in padded if s[d] not in (1, first))
            return ShapeError(
                f"{name}: The size of tensor a ({first}) must match the size of tensor b ({second}) at non-singleton "
                f"dimension {d}; shapes {', '.join(str(tuple(s)) for s in shapes)} cannot be broadcast: reshape or "
                "unsqueeze one of them"
            )
    return ShapeError(f"{name}: shapes {', '.join(str(tuple(s)) for s in shapes)} cannot be combined")


# --------------------------------------------------------------------------------------- other kinds


class Reduction(Primitive, abstract=True):
    """y = reduction of x over `dim` (a tuple of non-negative numbers), keeping them as size 1 or not.

    `reference(x, dim, keepdim)`; float16 and bfloat16 are accumulated in float32.

    In native code a reduction with `combine(f, a, b)`, an associative function of two values, runs through the elements
    (each passed through `prepare(f, x)` if there is one) in any order from `identity(kind)`, a number; then
    `finish(f, total, count)`, if there is one, makes the result from the total of `count` elements.
    """

    accumulate = True
    combine: Callable | None = None
    identity: Callable | None = None
    prepare: Callable | None = None
    finish: Callable | None = None

    def native_types(self, kinds: Sequence[np.dtype], params: dict[str, Any]) -> tuple[np.dtype | None, np.dtype]:
        """(type of the elements before `prepare`, type in which they are combined: that of the result)."""
        return kinds[0], kinds[0]

    def compute(self, x: ndarray, **params: Any) -> Any:
        if self.accumulate and x.dtype in LOW_NUMPY:
            return self.reference(x.astype(F32), **params).astype(x.dtype)
        return self.reference(x, **params)

    def batch(self, inputs: Sequence[Any], batched: Sequence[bool], size: int, params: dict[str, Any]) -> Any:
        dim = params["dim"]
        shifted = tuple(d + 1 for d in dim) if isinstance(dim, tuple) else dim + 1
        return self(*inputs, **{**params, "dim": shifted})


LOW_NUMPY = frozenset(d.np for d in dtypes.LOW_PRECISION)


class View(Primitive, abstract=True):
    """The same memory seen through other sizes, strides and offset. `reference` returns a NumPy view.

    `batch_params(params, x)` gives the parameters for an input with a batch in front. `pure` computes the same from
    the value of the input alone, where `reference` looks at the memory around it.
    """

    pure: Primitive | None = None

    def evaluate(self, inputs: Sequence[Any], params: dict[str, Any]) -> Any:
        (x,) = inputs
        array = self.reference(x.array, **params)
        if array.__class__ is tuple:
            outs = tuple(self._window(x, a) for a in array)
            for out in outs:
                out._origin = "several"
            return self.record_many(outs, inputs, params)
        out = self._window(x, array)
        return self.record(out, inputs, params)

    def _window(self, x: Tensor, array: ndarray) -> Tensor:
        out = new(Tensor)
        out.array = array
        link_view(out, x)
        if not mode.grad:
            out._origin = "no_grad"
        elif x._origin is not None:
            out._origin = x._origin
        if x._inference:
            out._inference = True
        return out

    def batch_params(self, params: dict[str, Any], x: Tensor) -> dict[str, Any] | None:
        """Parameters for x of shape (B, …); None: no such parameters, take the general rule."""
        return None

    def batch(self, inputs: Sequence[Any], batched: Sequence[bool], size: int, params: dict[str, Any]) -> Any:
        shifted = self.batch_params(params, inputs[0])
        if shifted is None:
            return Primitive.batch(self, inputs, batched, size, params)
        return self(*inputs, **shifted)


class Contraction(Primitive, abstract=True):
    """Sums of products over shared axes; float16 and bfloat16 are accumulated in float32."""

    def compute(self, *arrays: ndarray, **params: Any) -> ndarray:
        kind = arrays[0].dtype
        if kind in LOW_NUMPY:
            return self.reference(*(a.astype(F32) for a in arrays), **params).astype(kind)
        return self.reference(*arrays, **params)


class Indexing(Primitive, abstract=True):
    """Reads from or writes to places given by integer tensors."""


class Window(Primitive, abstract=True):
    """Sliding windows over the last dimensions, and their adjoint; float16 and bfloat16 are accumulated in float32."""

    def compute(self, *arrays: ndarray, **params: Any) -> ndarray:
        kind = arrays[0].dtype
        if kind in LOW_NUMPY:
            return self.reference(*(a.astype(F32) for a in arrays), **params).astype(kind)
        return self.reference(*arrays, **params)


class Opaque(Primitive, abstract=True):
    """Everything computed as a whole by NumPy or SciPy.

    `leading`: all but the last so many dimensions of each input are batch dimensions, so a batch in
    front needs nothing but equal ranks.
    """

    leading: int | None = None
    low_precision = False  # whether `reference` takes float16 and bfloat16 itself

    def compute(self, *arrays: Any, **params: Any) -> Any:
        if not self.low_precision and any(isinstance(a, ndarray) and a.dtype in LOW_NUMPY for a in arrays):
            kind = next(a.dtype for a in arrays if isinstance(a, ndarray) and a.dtype in LOW_NUMPY)
            result = self.reference(
                *(a.astype(F32) if isinstance(a, ndarray) and a.dtype in LOW_NUMPY else a for a in arrays), **params
            )
            return _cast_floats(result, kind)
        return self.reference(*arrays, **params)

    def batch(self, inputs: Sequence[Any], batched: Sequence[bool], size: int, params: dict[str, Any]) -> Any:
        if self.leading is None:
            return Primitive.batch(self, inputs, batched, size, params)
        rank = max(x.ndim - b for x, b in zip(inputs, batched, strict=True))
        shape = (size,)
        widened = [
            _raise_rank(x, rank) if b else x.expand(*shape, *(1,) * (rank - x.ndim), *x.shape)
            for x, b in zip(inputs, batched, strict=True)
        ]
        return self(*widened, **params)


def _cast_floats(result: Any, kind: np.dtype) -> Any:
    if isinstance(result, tuple):
        return tuple(_cast_floats(r, kind) for r in result)
    return result.astype(kind) if result.dtype.kind == "f" else result


def python_int(value: Any, name: str) -> int:
    """An integer argument given as int, NumPy integer or one-element integer tensor."""
    try:
        return value.__index__()
    except AttributeError:
        raise TypeError(f"{name}: expected an integer, got {type(value).__name__} {value!r}") from None


def is_operand(value: Any) -> bool:
    """Whether an operator takes it: tensors, numbers, NumPy arrays."""
    return isinstance(value, (Tensor, bool, int, float, complex, np.generic, ndarray))


def as_operand(value: Any) -> Any:
    return wrap(value) if isinstance(value, ndarray) else value


def is_number(value: Any) -> bool:
    return isinstance(value, (bool, int, float, complex, np.generic))


PYTHON_NUMBERS = frozenset({bool, int, float, complex})


def number_error(name: str, argument: str, value: Any) -> TypeError:
    """What to say to a number where only a tensor is taken."""
    return TypeError(
        f"{name}: argument '{argument}' must be a Tensor, not {type(value).__name__} {value!r}; wrap it in weft.tensor(...)"
    )
