"""What an operation is: one class that states its meaning and its gradient, and the kinds they come in.

A primitive says what is its own: `reference` (NumPy: its meaning), `vjp` (its gradient, written in
tensor operations so that second derivatives follow) and `lower` or `native` (its native code). Its
kind supplies the rest: type rules, broadcasting, batching under `vmap`; the largest kind, `Elementwise`,
is in pointwise.py. `operation` enters it, and every composite function, into `OPERATIONS`, from which
the package builds functions, methods, the documentation table and the tests.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy import ndarray

from ... import dtypes
from ...tape.modes import mode, switches
from ...tape.node import Node
from ...tensor import Tensor, link_view
from .base import PRIMITIVES, Primitive, register_module, summed_to
from .inplace import update, write
from .operands import F32, raise_rank
from .register import OPERATIONS, Operation, operation, with_out, write_out

new = object.__new__
LOW_NUMPY = frozenset(d.np for d in dtypes.LOW_PRECISION)

__all__ = [
    "OPERATIONS",
    "PRIMITIVES",
    "Contraction",
    "Indexing",
    "Opaque",
    "Operation",
    "Primitive",
    "Reduction",
    "View",
    "Window",
    "operation",
    "register_module",
    "summed_to",
    "update",
    "with_out",
    "write",
    "write_out",
]


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

    def push(self, node: Node, out: Any, tangents: Sequence[Any]) -> Any:
        """Σ ∂y/∂x · t along the dimensions: the gradient of a sum of results has all the slopes ∂y/∂x."""
        (t,) = tangents
        if self.linear or "dim" not in node.params or isinstance(out, tuple) or t.is_complex():
            return Primitive.push(self, node, out, tangents)
        (slopes,) = self.pull(node, out._filled(1))
        return PRIMITIVES["Sum"](slopes * t, dim=node.params["dim"], keepdim=node.params["keepdim"])

    def batch(self, inputs: Sequence[Any], batched: Sequence[bool], size: int, params: dict[str, Any]) -> Any:
        dim = params["dim"]
        shifted = tuple(d + 1 for d in dim) if isinstance(dim, tuple) else dim + 1
        return self(*inputs, **{**params, "dim": shifted})


class View(Primitive, abstract=True):
    """The same memory seen through other sizes, strides and offset. `reference` returns a NumPy view.

    `batch_params(params, x)` gives the parameters for an input with a batch in front. `pure` computes the same from
    the value of the input alone, where `reference` looks at the memory around it.
    """

    pure: Primitive | None = None
    linear = (0,)

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
        if switches.inferring and x._inference:
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

    multilinear = (0, 1)
    summed: Callable | None = None  # (x, other): the sum over first dimensions of the products, as one product

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
            raise_rank(x, rank) if b else x.expand(*shape, *(1,) * (rank - x.ndim), *x.shape)
            for x, b in zip(inputs, batched, strict=True)
        ]
        return self(*widened, **params)


def _cast_floats(result: Any, kind: np.dtype) -> Any:
    if isinstance(result, tuple):
        return tuple(_cast_floats(r, kind) for r in result)
    return result.astype(kind) if result.dtype.kind == "f" else result
