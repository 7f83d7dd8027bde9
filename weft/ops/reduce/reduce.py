"""Reductions: many elements to one along some dimensions.

Sums, products, truth values. Extremes and their places live in `extremes.py`, softmax and its kin in `softmax.py`, norms
in `norm.py`, variances, quantiles and histograms in `stats.py`.
"""

from __future__ import annotations

import builtins
import functools
from collections.abc import Callable
from typing import Any

import numpy as np

from ... import dtypes
from ...dtypes import FLOAT
from ...errors import DtypeError, IndexRangeError, ShapeError
from ...refusal import reword
from ...sizes import wrap_dim, wrap_dims
from ...tape.modes import mode, switches
from ...tensor import Tensor, new
from ..core import base
from ..core.operands import F32, F64
from ..core.pointwise import ONE_NEEDS
from ..core.primitive import LOW_NUMPY, Opaque, Reduction, operation, register_module, summed_to, write_out
from ..math.elementwise import conj, where
from ..shape.reshape import sizes_from
from ..shape.view import EXPAND

__all__ = [
    "SUM",
    "Along",
    "all_or",
    "axis_operation",
    "mean",
    "need_elements",
    "refuse",
    "restored",
    "sum",
    "wide_enough",
]

# ----------------------------------------------------------------------- how they are made public

_NUMPY_NAMES = {"axis": "dim", "keepdims": "keepdim", "a": "input", "x": "input"}


def axis_operation(
    name: str | None = None, *, names: dict[str, str] = _NUMPY_NAMES, exact_out: bool = False, **options: Any
) -> Callable:
    """`operation` for functions with `dim`: takes `out=` and, as PyTorch does, NumPy's `axis=` and `keepdims=`.

    `exact_out`: the tensors given as `out=` must have the type of the results and memory of their own.
    """

    def enter(body: Callable) -> Callable:
        title = name or body.__name__

        @functools.wraps(body)
        def public(*args: Any, **kwargs: Any) -> Any:
            try:
                if not kwargs:
                    return body(*args)
                out = kwargs.pop("out", None)
                for other in kwargs.keys() & names.keys():
                    kwargs[names[other]] = kwargs.pop(other)
                result = body(*args, **kwargs)
                if out is None:
                    return result
                if exact_out:
                    _check_exact_out(out, result, args, title)
                return write_out(out, result, title)
            except Exception as error:
                reword(error, title, args, kwargs)
                raise

        return operation(name, quick=True, **options)(public)

    return enter


def _check_exact_out(outs: Any, results: Any, args: tuple[Any, ...], name: str) -> None:
    for out, result in zip(outs, results, strict=True):
        if out.dtype is not result.dtype:
            raise DtypeError(f"{name}: Expected out tensor to have dtype {result.dtype}, but got {out.dtype} instead")
        if builtins.any(isinstance(x, Tensor) and np.may_share_memory(x._window(), out._window()) for x in args):
            raise ShapeError(f"{name}: unsupported operation: the input and an out= tensor share memory; .clone() one")


def all_or(dim: Any, ndim: int, name: str) -> tuple[int, ...]:
    """The dimensions to reduce; None and the empty tuple stand for all."""
    if dim.__class__ is tuple or dim.__class__ is list:
        dim = None if len(dim) == 0 else dim
    return wrap_dims(dim, ndim, name)


def restored(g: Tensor, dim: tuple[int, ...], keepdim: bool) -> Tensor:
    """A reduced gradient with its lost dimensions back as size 1 (none are needed to broadcast a 0-d one)."""
    if keepdim or g.ndim == 0:
        return g
    for d in sorted(dim):
        g = g.unsqueeze(d)
    return g


def refuse(condition: bool, name: str, dtype: Any, remedy: str = "convert it with .to(...)") -> None:
    """Raise the error for an element type that the operation does not take."""
    if condition:
        raise DtypeError(f'{name}: "{name}" not implemented for {dtype}; {remedy}')


def need_elements(x: Tensor, dims: tuple[int, ...], name: str) -> None:
    """Refuse to take the extreme of nothing."""
    for d in dims:
        if x.shape[d] == 0:
            what = f"dim {d}" if len(dims) < x.ndim or x.ndim == 1 else "dim"
            raise IndexRangeError(
                f"{name}: Expected reduction {what} to have non-zero size, but the tensor of shape {tuple(x.shape)} is "
                "empty there; reduce over another dim, or check numel() first"
            )


def wide_enough(x: np.ndarray) -> np.ndarray:
    """bfloat16 as float32 (exact), because NumPy cannot order or search it."""
    return x.astype(F32) if x.dtype in LOW_NUMPY else x


class Along(Opaque, abstract=True):
    """Computed along one dimension `dim` (a non-negative number); a batch in front moves it by one."""

    def batch(self, inputs, batched, size, params):
        whole = [x if b else x.unsqueeze(0).expand(size, *x.shape) for x, b in zip(inputs, batched, strict=True)]
        return self(*whole, **{**params, "dim": params["dim"] + 1})


# ------------------------------------------------------------------------------------------ sums


_BLOCK = 512  # rows that are added one after the other in float32 before their sums are added


_add = np.add.reduce


def _add_reduce(x: np.ndarray, dim: Any, keepdim: bool) -> Any:
    """Σ x. NumPy adds pairwise only along the fastest axis; long float32 columns are added in blocks."""
    if x.ndim > 1 and x.dtype is F32 and dim is not None and len(dim) == 1 and x.shape[dim[0]] > 4 * _BLOCK:
        if dim[0] != x.ndim - 1:
            x = np.add.reduceat(x, np.arange(0, x.shape[dim[0]], _BLOCK), axis=dim[0])
    return _add(x, axis=dim, dtype=x.dtype, keepdims=keepdim)


class Sum(Reduction):
    """Σ x over `dim`."""

    linear = (0,)

    def reference(self, x, *, dim, keepdim):
        return _add_reduce(x, dim, keepdim)

    def combine(self, f, a, b):
        return a | b if a.kind == "i1" else a + b

    def identity(self, kind):
        return 0

    def vjp(self, g, y, x, *, dim, keepdim):
        return (EXPAND(restored(g, dim, keepdim), shape=tuple(x.shape)),)


class Mean(Reduction):
    """(1/n) Σ x over `dim`."""

    linear = (0,)

    def reference(self, x, *, dim, keepdim):
        total = _add_reduce(x, dim, keepdim)
        return np.true_divide(total, x.dtype.type(x.size if dim is None else _count(x.shape, dim)))

    combine, identity = Sum.combine, Sum.identity

    def finish(self, f, total, count):
        return total / float(count)

    def vjp(self, g, y, x, *, dim, keepdim):
        return (EXPAND(restored(g / _count(x.shape, dim), dim, keepdim), shape=tuple(x.shape)),)


def _count(shape: tuple[int, ...], dim: tuple[int, ...]) -> int:
    """How many elements are reduced to one."""
    count = 1
    for d in dim:
        count *= shape[d]
    return count


class Prod(Reduction):
    """∏ x over one dimension. ∂y/∂xᵢ is the product of all others: those before times those after."""

    def reference(self, x, *, dim, keepdim):
        return np.multiply.reduce(x, axis=dim, dtype=x.dtype, keepdims=keepdim)

    def combine(self, f, a, b):
        return a & b if a.kind == "i1" else a * b

    def identity(self, kind):
        return 1

    def vjp(self, g, y, x, *, dim, keepdim):
        from .scan import exclusive_product

        (d,) = dim
        others = exclusive_product(x, d) * exclusive_product(x, d, reverse=True)
        return (restored(g, dim, keepdim) * conj(others),)


SUM, MEAN, PROD = Sum(), Mean(), Prod()


def _quick(primitive: Reduction, x: Tensor, dim: tuple[int, ...] | None, keepdim: bool) -> Tensor | None:
    """The shortest way to reduce a float tensor (dim=None: whole); None where the general way must be taken."""
    if x._interpreter is not None or (switches.interpreting and mode.interpreter is not None):
        return None
    a = x.array
    kind = a.dtype
    size = a.size
    if (kind is not F32 and kind is not F64) or size == 0:
        return None
    if size >= base.LARGE:
        params = {"dim": tuple(range(a.ndim)) if dim is None else dim, "keepdim": keepdim}
        y = base.run_large(primitive, primitive.reference, (a,), params)
    elif dim is None:
        try:
            y = mode.run(_add, a, None)
        except RuntimeError:
            y = mode.run_inside(_add, a, None)
        if primitive is MEAN:
            y = y / size
    else:
        try:
            y = mode.run(primitive.reference, a, dim=dim, keepdim=keepdim)
        except RuntimeError:
            y = mode.run_inside(primitive.reference, a, dim=dim, keepdim=keepdim)
    out = new(Tensor)
    if y.__class__ is np.ndarray:
        out.array = y if y.flags.c_contiguous else y.copy()
    else:
        out.array = np.asarray(y)
    if x._needs_grad and mode.grad:
        params = {"dim": tuple(range(a.ndim)) if dim is None else dim, "keepdim": keepdim}
        out.node = primitive.make_node(out, (x,), params, ONE_NEEDS)
        out._needs_grad = True
    elif switches.inferring and mode.inference:
        out._inference = True
    return out


def _summable(x: Tensor, dtype: Any) -> Tensor:
    """x in the type of its sum: the one asked for, else int64 for bool and integers."""
    if dtype is not None:
        return x.to(dtypes.as_dtype(dtype))
    return x.long() if x.dtype.category < FLOAT else x


@axis_operation(kind="Reduction", primitive=SUM)
def sum(input: Tensor, dim: Any = None, keepdim: bool = False, *, dtype: Any = None) -> Tensor:
    """Σ input over the given dimensions (all by default); bool and integers add up as int64."""
    dims = None if dim is None and not keepdim else all_or(dim, input.ndim, "sum")
    if dtype is None:
        out = _quick(SUM, input, dims, keepdim)
        if out is not None:
            return out
    dims = tuple(range(input.ndim)) if dims is None else dims
    return SUM(_summable(input, dtype), dim=dims, keepdim=bool(keepdim))


@axis_operation(kind="Reduction", primitive=MEAN)
def mean(input: Tensor, dim: Any = None, keepdim: bool = False, *, dtype: Any = None) -> Tensor:
    """(1/n) Σ input over the given dimensions (all by default), of floating-point or complex tensors."""
    dims = None if dim is None and not keepdim else all_or(dim, input.ndim, "mean")
    if dtype is None:
        out = _quick(MEAN, input, dims, keepdim)
        if out is not None:
            return out
    x = input if dtype is None else input.to(dtypes.as_dtype(dtype))
    if x.dtype.category < FLOAT:
        raise DtypeError(
            f"mean: could not infer output dtype. Input dtype must be either a floating point or complex dtype. "
            f"Got: {x.dtype}; convert it with .float(), or pass dtype="
        )
    return MEAN(x, dim=tuple(range(x.ndim)) if dims is None else dims, keepdim=bool(keepdim))


@axis_operation()
def nansum(input: Tensor, dim: Any = None, keepdim: bool = False, *, dtype: Any = None) -> Tensor:
    """Σ input with NaN counted as 0."""
    refuse(input.is_complex(), "nansum", input.dtype, "sum real and imaginary parts separately")
    known = where(input.isnan(), 0, input) if input.is_floating_point() else input
    return sum(known, dim, keepdim, dtype=dtype)


@axis_operation()
def nanmean(input: Tensor, dim: Any = None, keepdim: bool = False, *, dtype: Any = None) -> Tensor:
    """The mean of the elements that are not NaN."""
    if input.dtype.category < FLOAT:
        raise DtypeError(
            f"nanmean: expected input to have floating point or complex dtype but got {input.dtype}; use mean(dtype=)"
        )
    return nansum(input, dim, keepdim, dtype=dtype) / sum(~input.isnan(), dim, keepdim)


@axis_operation()
def prod(input: Tensor, dim: int | None = None, keepdim: bool = False, *, dtype: Any = None) -> Tensor:
    """∏ input over one dimension (all elements by default); bool and integers multiply as int64."""
    x = _summable(input, dtype)
    if dim is None:
        return PROD(x.reshape(-1), dim=(0,), keepdim=False)
    d = wrap_dim(dim, x.ndim, "prod")
    if x.ndim == 0:
        return PROD(x.unsqueeze(0), dim=(0,), keepdim=False)
    return PROD(x, dim=(d,), keepdim=bool(keepdim))


@operation(function=False)
def sum_to_size(self: Tensor, *size: Any) -> Tensor:
    """The sum over the dimensions along which `size` would have to be expanded to this tensor's shape."""
    shape = sizes_from(size, "sum_to_size")
    extra = self.ndim - len(shape)
    if extra < 0 or builtins.any(s not in (1, have) for s, have in zip(shape, self.shape[extra:], strict=True)):
        raise ShapeError(
            f"sum_to_size: size {list(shape)} is not expandable to size {list(self.shape)}; each must be 1 or equal"
        )
    return summed_to(self, shape) if shape else sum(self)


# ------------------------------------------------------------------------------------ truth values


class AllTrue(Reduction):
    """Whether every element over `dim` is non-zero."""

    differentiable, accumulate = False, False

    def reference(self, x, *, dim, keepdim):
        found = np.logical_and.reduce(x.astype(np.bool_), axis=dim, keepdims=keepdim)
        return found.astype(np.uint8) if x.dtype == np.uint8 else found

    def native_types(self, kinds, params):
        return kinds[0], kinds[0] if kinds[0] == np.uint8 else np.dtype(np.bool_)

    def prepare(self, f, x):
        return f.cast(x, "i1")

    def combine(self, f, a, b):
        return a & b

    def identity(self, kind):
        return 1


class AnyTrue(Reduction):
    """Whether some element over `dim` is non-zero."""

    differentiable, accumulate = False, False

    def reference(self, x, *, dim, keepdim):
        found = np.logical_or.reduce(x.astype(np.bool_), axis=dim, keepdims=keepdim)
        return found.astype(np.uint8) if x.dtype == np.uint8 else found

    native_types, prepare = AllTrue.native_types, AllTrue.prepare

    def combine(self, f, a, b):
        return a | b

    def identity(self, kind):
        return 0


ALL, ANY = AllTrue(), AnyTrue()
register_module(__name__)


@axis_operation(differentiable=False, kind="Reduction", primitive=ALL)
def all(input: Tensor, dim: Any = None, keepdim: bool = False) -> Tensor:
    """Whether all elements are non-zero (along the given dimensions); uint8 for uint8 tensors."""
    return ALL(input, dim=wrap_dims(dim, input.ndim, "all"), keepdim=bool(keepdim))


@axis_operation(differentiable=False, kind="Reduction", primitive=ANY)
def any(input: Tensor, dim: Any = None, keepdim: bool = False) -> Tensor:
    """Whether any element is non-zero (along the given dimensions); uint8 for uint8 tensors."""
    return ANY(input, dim=wrap_dims(dim, input.ndim, "any"), keepdim=bool(keepdim))


@axis_operation(differentiable=False)
def count_nonzero(input: Tensor, dim: Any = None) -> Tensor:
    """The number of elements that are not 0."""
    return sum(input != 0, dim)
