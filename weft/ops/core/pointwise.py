"""The kind of operation that works element by element: type rules, broadcasting, short ways for float tensors."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy import ndarray

from ... import dtypes
from ...dtypes import BOOL, COMPLEX, FLOAT, dtype
from ...errors import ArgumentError, DtypeError, WeftError
from ...refusal import factors_last, reword
from ...tape import tape
from ...tape.adjoint import by_adjoint
from ...tape.modes import Taken, mode, switches
from ...tape.node import Node
from ...tensor import Tensor, wrap
from . import base
from .base import LARGE_POINTS, Primitive, next_order
from .formula import LOOK, SAVE, Meta
from .inplace import in_place, update
from .operands import (
    F32,
    F64,
    FLOATS,
    PYTHON_NUMBERS,
    SCALARS,
    as_operand,
    broadcast_error,
    is_operand,
    number_error,
    raise_rank,
    scalar_array,
)
from .register import operation, write_out

__all__ = ["NO_PARAMS", "ONE_NEEDS", "Elementwise"]

new = object.__new__
BOOLEAN = np.dtype(np.bool_)
ONE_NEEDS = (True,)
NO_PARAMS: dict[str, Any] = {}
BOTH_NEED, FIRST_NEEDS, SECOND_NEEDS = (True, True), (True, False), (False, True)


class Elementwise(Primitive, abstract=True):
    """y[i] = f(x₁[i], x₂[i], …) with broadcasting.

    `result`: 'same' (the promoted type), 'float' (integers become the default float), 'bool', 'real'
    (the real type of a complex one). `categories`: the lowest and highest category taken.
    """

    result = "same"
    categories = (BOOL, COMPLEX)
    domain: Any = (-2.0, 2.0)  # where the tests draw their inputs
    by_element = inplace = True
    public = True  # whether registering makes the function and methods by itself
    aliases: tuple[str, ...] = ()
    namespace = ""
    native_low = False  # whether `reference` takes float16 and bfloat16 as they are
    numbers = "one"  # which of two arguments the public function takes as numbers: none, second, one, both

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
                try:
                    return fast(input) if out is None else write_out(out, fast(input), name)
                except Exception as error:
                    reword(error, name, (input,), {})
                    raise
        else:
            if self.numbers != "both":
                fast = self._with_tensors(fast, name)

            def public(input: Any, other: Any, *, out: Tensor | None = None) -> Tensor:
                try:
                    return fast(input, other) if out is None else write_out(out, fast(input, other), name)
                except Exception as error:
                    reword(error, name, (input, other), {})
                    raise

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
            try:
                n = a.size
                if n < base.LARGE or (n < LARGE_POINTS and base.LARGE):
                    y = mode.run(ufunc, a)
                else:
                    y = base.run_large(self, ufunc, (a,), NO_PARAMS)
            except Taken:
                return mode.interpreter.short_way(slow, x)
            except RuntimeError:
                y = mode.run_inside(ufunc, a)
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
        differentiable, known = self.differentiable, SCALARS.get

        def fast(x: Any, y: Any) -> Tensor:
            try:  # `type`, because a number of a trace says it is of class float
                if type(x) is float or type(x) is int:
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
                    if type(y) is float or type(y) is int:
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
                n = large.size
                if n < base.LARGE or (
                    n < LARGE_POINTS and base.LARGE and (not a.ndim or a.shape[a.ndim - b.ndim :] == b.shape)
                ):  # the result is as large as that
                    r = mode.run(ufunc, a, b)
                else:
                    r = base.run_large(self, ufunc, (a, b), NO_PARAMS)
            except ValueError as error:
                if isinstance(error, WeftError):
                    raise
                raise broadcast_error(self.name, a.shape, b.shape) from None
            except Taken:
                return mode.interpreter.short_way(slow, x, y)
            except RuntimeError:
                r = mode.run_inside(ufunc, a, b)
            out = new(Tensor)
            out.array = r if r.__class__ is ndarray else np.asarray(r)
            if (x_needs or y_needs) and differentiable and mode.grad:
                note(out, (x, y), BOTH_NEED if x_needs and y_needs else FIRST_NEEDS if x_needs else SECOND_NEEDS)
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
            edge = x.node
            node.edges = (x if edge is None else edge,)
        else:
            x, y = inputs
            shape = out.array.shape
            first = second = None
            if needs is not SECOND_NEEDS:
                first = x.node
                if first is None:
                    first = x
                if x.array.shape != shape:
                    node.shapes = (x.array.shape, shape if needs is FIRST_NEEDS else y.array.shape)
            if needs is not FIRST_NEEDS:
                second = y.node
                if second is None:
                    second = y
                if y.array.shape != shape:
                    node.shapes = (shape if needs is SECOND_NEEDS else x.array.shape, y.array.shape)
            node.edges = (first, second)
        if not keeps:
            node.saved = keep_inputs
        elif needs is ONE_NEEDS or LOOK in keep_inputs:
            node.saved = self._save_inputs(node, inputs, keep_inputs)
        else:
            save_two(node, x, y, keep_inputs)
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

        def method(self: Tensor, other: Any, *more: Any, **kwargs: Any) -> Tensor:
            if more:  # x.add_(−lr, g), as it was written before PyTorch 1.5
                found = factors_last(name.rstrip("_"), (self, other, *more), kwargs)
                if found is None:
                    raise ArgumentError(f"{name}: expected one argument by position, got {len(more) + 1}")
                (_, other), kwargs = found
            if not kwargs and self._interpreter is None:
                a = self.array
                kind = a.dtype
                number = takes_numbers and (type(other) is float or type(other) is int)
                b = scalar_array(other, kind) if number and kind in FLOATS else getattr(other, "array", None)
                recorded = mode.grad and self._tracked(other)
                if b is not None and b.dtype is kind and kind in FLOATS and not recorded:
                    self._check_writable(name)
                    try:
                        mode.run(ufunc, a, b, a)
                        self._bump()
                        return self
                    except Taken:
                        pass
                    except ValueError:
                        raise broadcast_error(name, a.shape, b.shape) from None
                    except RuntimeError:
                        mode.run_inside(ufunc, a, b, a)
                        self._bump()
                        return self
                    except TypeError as error:
                        reword(error, name, (self, other), kwargs)
                        raise
            try:
                return update(self, function, (other,), kwargs, name)
            except Exception as error:
                reword(error, name, (self, other), kwargs)
                raise

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
        except ValueError as error:
            if len(arrays) == 1 or isinstance(error, WeftError):
                raise
            raise broadcast_error(self.name, *(a.shape for a in arrays)) from None
        except RuntimeError:
            result = mode.run_inside(self.reference, *arrays, **params)
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
        kind = _computed_in(self, tuple(kinds), dtypes.get_default_dtype())
        return kind.np, self.result_dtype(kind)

    def make_node(self, out: Tensor, inputs: Sequence[Any], params: dict[str, Any], needs: tuple[bool, ...]) -> Node:
        node = Primitive.make_node(self, out, inputs, params, needs)
        shape = out.array.shape
        for x, need in zip(inputs, needs):  # noqa: B905  hot
            if need and x.array.shape != shape:
                node.shapes = tuple(x.array.shape if n else None for x, n in zip(inputs, needs, strict=True))
                break
        return node

    def push(self, node: Node, out: Tensor, tangents: Sequence[Any]) -> Tensor | None:
        """Σ ∂f/∂xₖ · tₖ. For real numbers that is what `vjp` computes of each tₖ: its Jacobian is diagonal."""
        wide = [None if t is None else t.expand(out.shape) for t in tangents]
        y = node.output if node.output_counter is None else base.rebuilt_output(node)

        numbers = [k for k, t in enumerate(wide) if t is not None]

        def slope(g: Tensor, number: int) -> Tensor | None:
            found = self.vjp(g, y, *node.saved, **node.params)[number]
            return found() if found.__class__ is base.FUNCTION else found

        if out.is_complex() or any(wide[k].is_complex() for k in numbers):
            return by_adjoint(lambda g: [slope(g, k) for k in numbers], out, [wide[k] for k in numbers])
        return base.total([slope(wide[k], k) for k in numbers])

    def batch(self, inputs: Sequence[Any], batched: Sequence[bool], size: int, params: dict[str, Any]) -> Tensor:
        """Line up the ranks behind the batch dimension, then compute as usual."""
        from .batching import promoted_as_single

        rank = max(x.ndim - b for x, b in zip(inputs, batched, strict=True) if isinstance(x, Tensor))
        if len(inputs) > 1 and any(b and x.ndim == 1 for x, b in zip(inputs, batched, strict=True)):
            inputs = promoted_as_single(inputs, batched)
        return self(*(raise_rank(x, rank) if b else x for x, b in zip(inputs, batched, strict=True)), **params)


def save_two(node: Node, x: Any, y: Any, keep: tuple[str | None, str | None]) -> None:
    """`_save_inputs` for two inputs that are saved or dropped."""
    first = second = None
    if keep[0] is None:
        x = None
    elif isinstance(x, Tensor):
        counter = x._counter
        first = 0 if counter is None else counter[0]
    if keep[1] is None:
        y = None
    elif isinstance(y, Tensor):
        counter = y._counter
        second = 0 if counter is None else counter[0]
    node.saved = (x, y)
    if first is not None or second is not None:
        node.keeps, node.versions = True, (first, second)


@functools.lru_cache(maxsize=4096)
def _computed_in(primitive: Elementwise, kinds: tuple[np.dtype, ...], default: dtype) -> dtype:
    """The type in which inputs of these types are computed; `default` is that of integers where floats are needed."""
    return primitive.compute_dtype([wrap(np.empty(1, kind)) for kind in kinds])
