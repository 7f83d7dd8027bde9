"""Copies, casts and moves: `to`, `clone`, `contiguous`, `copy_`, and the type names as methods."""

from __future__ import annotations

import mmap
from typing import Any

import numpy as np

from ... import dtypes
from ...device import device, usable
from ...dtypes import dtype
from ...errors import ArgumentError, DtypeError, ShapeError
from ...refusal import described, need_flag
from ...tape.interpreter import chosen
from ...tape.modes import mode
from ...tensor import Tensor, wrap
from ..core import base
from ..core.operands import broadcast_error, is_number, kept_copy, known_array
from ..core.pointwise import Elementwise
from ..core.primitive import operation, write
from ..math.elementwise import CAST
from .typed import TYPED, TypedTensor


class Clone(Elementwise):
    """A copy with its own memory; gradients pass through. `order` is NumPy's: 'K' keeps strides."""

    public, exact = False, True

    def reference(self, x, *, order):
        return kept_copy(x, x.dtype) if order == "K" else np.array(x, order=order)

    def planes(self, x, *, order):
        return x

    def operands(self, inputs):
        return None, list(inputs)

    def evaluate(self, inputs, params):
        (x,) = inputs
        a = x.array
        copy = (
            self.reference(a, **params) if a.size < base.LARGE else base.run_large(self, self.reference, (a,), params)
        )
        return self.record(wrap(copy), inputs, params)

    def native_types(self, kinds, params):
        return None, kinds[0]

    def unchanged(self, numbers, **_):
        return 0

    def lower(self, f, x, *, order):
        return x

    def vjp(self, g, y, x, *, order):
        return (g,)


CLONE = Clone()

contiguous_format, preserve_format, channels_last = "contiguous_format", "preserve_format", "channels_last"


def _format(given: Any, name: str) -> str:
    if not isinstance(given, str):
        raise ArgumentError(f"{name}: memory_format is one such as weft.contiguous_format, got {described(given)}")
    return given


@operation(quick=True)
def clone(input: Tensor, *, memory_format: Any = None) -> Tensor:
    """A copy with its own memory, still part of the graph."""
    if memory_format is None:
        return CLONE(input, order="K")
    return CLONE(input, order="C" if _format(memory_format, "clone") == contiguous_format else "K")


@operation(function=False, quick=True)
def contiguous(self: Tensor, memory_format: Any = None) -> Tensor:
    """The tensor itself if its elements lie in order, else a copy that does."""
    return self if self.is_contiguous() else CLONE(self, order="C")


def _dtype_of(args: tuple[Any, ...], given: Any, current: dtype) -> dtype:
    wanted = given
    for arg in args:
        if isinstance(arg, Tensor):
            wanted = arg.dtype
        elif isinstance(arg, (str, device)) or arg.__class__ is int:
            usable(arg)
        elif arg is not None and not isinstance(arg, bool):  # non_blocking and copy, given by position
            wanted = dtypes.as_dtype(arg)
    return current if wanted is None else dtypes.as_dtype(wanted)


@operation(function=False, quick=True)
def to(
    self: Tensor,
    *args: Any,
    dtype: Any = None,
    device: Any = None,
    other: Tensor | None = None,
    non_blocking: bool = False,
    copy: bool = False,
    memory_format: Any = None,
) -> Tensor:
    """The tensor in another element type or on another device; itself if nothing changes."""
    if other is not None:
        args = (*args, other)
    if device is not None:
        args = (*args, device)
    flags = [a for a in args if isinstance(a, bool)]  # to(dtype, non_blocking, copy) by position
    copy = need_flag(copy, "to", "copy") or (len(flags) > 1 and flags[1])
    wanted = _dtype_of(args, dtype, self.dtype)
    if wanted is not self.dtype:
        return CAST(self, to=wanted)
    return clone(self) if copy else self


def _cast_method(kind: dtype, name: str) -> None:
    def method(self: Tensor, memory_format: Any = None) -> Tensor:
        return self if self.dtype is kind else CAST(self, to=kind)

    method.__name__ = name
    method.__doc__ = f"The tensor as {kind}."
    operation(name, function=False)(method)


for _name, _alias in dtypes.ALIASES.items():
    _cast_method(dtype.by_name[_name], _alias)
_cast_method(dtypes.bool_, "bool")
_cast_method(dtypes.bfloat16, "bfloat16")


@operation(function=False)
def type(self: Tensor, dtype: Any = None, non_blocking: bool = False) -> Any:
    """The name of the type, or the tensor in another type."""
    if dtype is None:
        return f"weft.{dtypes.ALIASES.get(self.dtype.name, self.dtype.name).title()}Tensor"
    if isinstance(dtype, str):  # 'torch.FloatTensor', as the call without arguments answers
        dtype = TYPED.get(dtype.rpartition(".")[2], dtype)
    return to(self, dtype.kind if isinstance(dtype, TypedTensor) else dtypes.as_dtype(dtype))


@operation(function=False, quick=True)
def type_as(self: Tensor, other: Tensor) -> Tensor:
    """The tensor in the type of another."""
    if not isinstance(other, Tensor):
        raise ArgumentError(f"type_as: expected a tensor to take the type of, got {other.__class__.__name__}")
    return to(self, other.dtype)


@operation(function=False, quick=True)
def cpu(self: Tensor, memory_format: Any = None) -> Tensor:
    """The tensor in main memory: itself."""
    return self


@operation(function=False)
def copy_(self: Tensor, src: Any, non_blocking: bool = False) -> Tensor:
    """Write the elements of `src`, broadcast and converted, into this tensor."""
    if not isinstance(src, Tensor):
        src = wrap(np.asarray(src, self.dtype.np))
    if src.dtype is not self.dtype:
        src = CAST(src, to=self.dtype)
    if src.shape != self.shape:
        try:
            src = src.expand(self.shape)
        except ShapeError:
            raise broadcast_error("copy_", tuple(self.shape), tuple(src.shape)) from None
    if chosen((self, src)) is not None or np.may_share_memory(src.array, self.array):
        src = clone(src)
    elif self._tracked(src):
        src = CLONE(src, order="K")  # a node of its own: the target must not share the source's
    return write(self, src, "copy_")


@operation(function=False)
def data_fill_(self: Tensor, value: Any) -> Tensor:
    """Every element set to one number (in place)."""
    if mode.interpreter is not None and mode.interpreter.is_number(value):
        value = mode.interpreter.operand(value)
    if isinstance(value, Tensor):
        if value.ndim:
            raise ShapeError(
                f"fill_: only supports a 0-dimension value tensor but got one with {value.ndim} dimensions"
            )
        return copy_(self, value)
    if isinstance(value, complex) and not self.is_complex():
        raise DtypeError(
            f"fill_: value {value} cannot be converted to type {self.dtype} without losing its imaginary part"
        )
    if not is_number(value):
        raise ArgumentError(f"fill_: expected a number or a 0-d tensor, got {value.__class__.__name__}")
    return copy_(self, wrap(np.asarray(value).astype(self.dtype.np)))


Tensor.fill_ = data_fill_
del Tensor.data_fill_


@operation(method=False)
def fill(input: Tensor, value: Any) -> Tensor:
    """A tensor like the input with every element set to one number or 0-d tensor."""
    return data_fill_(input.clone(), value)


@operation(function=False)
def zero_(self: Tensor) -> Tensor:
    """Every element set to 0 (in place)."""
    return data_fill_(self, 0)


def _same(self: Tensor, *_: Any, **__: Any) -> Tensor:
    """The tensor itself: main memory is the only place so far."""
    return self


Tensor.pin_memory = Tensor.to_dense = _same


def share_memory_(self: Tensor) -> Tensor:
    """Move the elements into memory that processes forked from here see as well: what one writes, all read.

    Processes that are started anew (spawn) get a copy, and so do tensors sent through a queue. Views that were made before keep
    the memory that was there.
    """
    if not self.is_shared():
        array = self.detach().array
        place = mmap.mmap(-1, max(array.nbytes, 1))
        moved = np.ndarray(array.shape, array.dtype, buffer=place)
        moved[...] = array
        self.data = wrap(moved)
    return self


def _is_shared(self: Tensor) -> bool:
    """Whether forked processes share the memory (`share_memory_`)."""
    base = self.detach().array.base
    while isinstance(base, np.ndarray):
        base = base.base
    return isinstance(base, mmap.mmap)


def _is_pinned(self: Tensor, *_: Any) -> bool:
    """False: there is no card to pin memory for."""
    return False


Tensor.share_memory_, Tensor.is_shared, Tensor.is_pinned = share_memory_, _is_shared, _is_pinned
Tensor.is_sparse_csr = Tensor.is_nested = Tensor.is_mps = Tensor.is_xpu = Tensor.is_mkldnn = False


@operation(function=False)
def cuda(self: Tensor, device: Any = None, non_blocking: bool = False, memory_format: Any = None) -> Tensor:
    """An error that says so: there is no GPU in this build."""
    return to(self, "cuda")


@operation(function=False)
def apply_(self: Tensor, callable: Any) -> Tensor:
    """Replace each element by a Python function of it (in place, slow; for tests and small tensors)."""
    array = known_array(self, "apply_")
    values = [callable(x) for x in array.ravel().tolist()]
    return copy_(self, wrap(np.array(values, self.dtype.np).reshape(array.shape)))
