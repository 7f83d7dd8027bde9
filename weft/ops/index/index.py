"""Square brackets: x[key] and x[key] = value, as PyTorch reads them.

A key is parsed into a basic part (integers, slices, None, …), which is one view, and index tensors on some
of its dimensions, which read (or write) places. Integers select first, so x[0, :, [1, 2]] keeps the order of
its dimensions; the dimensions of index tensors stand where the first was if they are neighbours, else in front.
Slices may have negative steps (a view, as in NumPy).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ... import dtypes
from ...errors import ArgumentError, DtypeError, IndexRangeError, InvalidValueError, ShapeError
from ...refusal import reword
from ...tape.interpreter import chosen, interpreter_of
from ...tape.modes import mode, switches
from ...tape.node import Node
from ...tape.tape import watch
from ...tensor import Tensor, link_view, new, wrap
from ..core.base import next_order
from ..core.formula import Meta
from ..core.operands import FLOATS, contents, is_number, known_array
from ..core.primitive import operation, update
from ..shape.shape import ALL, broadcast_shapes
from ..shape.view import ALIAS, PERMUTE, SLICE
from .places import ADD_AT, INDEX, PUT_AT, check_places

__all__ = ["as_value", "put_at"]

Advanced = list[tuple[int, Tensor, int]]  # (dimension of the basic view, index tensor, dimension of x)


# ------------------------------------------------------------------------------------ reading a key


def _items(key: Any) -> tuple[Any, ...]:
    """A key as a tuple; a list that holds more than integers counts as one too, as in PyTorch."""
    if key.__class__ is tuple:
        return key
    if isinstance(key, list) and any(
        isinstance(k, (slice, list, tuple, range, Tensor, np.ndarray)) or k is None or k is Ellipsis for k in key
    ):
        return tuple(key)
    return (key,)


def _item(key: Any) -> Any:
    """One part of a key as an int, a bool, a slice, None, Ellipsis, or an index tensor (int64 or bool)."""
    if key.__class__ is int or key.__class__ is slice or key is None or key is Ellipsis:
        return key
    if isinstance(key, (bool, np.bool_)):
        return bool(key)
    if isinstance(key, Tensor):
        return _index_tensor(key)
    if isinstance(key, slice):
        return key
    if isinstance(key, (list, tuple, range, np.ndarray)):
        return _index_tensor(_from_sequence(key))
    try:
        return key.__index__()
    except AttributeError:
        raise IndexRangeError(
            "index: only integers, slices (`:`), ellipsis (`...`), None and long or byte tensors are valid indices "
            f"(got {type(key).__name__})"
        ) from None


def _from_sequence(key: Any) -> Tensor:
    array = (
        np.asarray([known_array(k, "index") if isinstance(k, Tensor) else k for k in key])
        if isinstance(key, (list, tuple))
        else np.asarray(key)
    )
    if array.size == 0 and not isinstance(key, np.ndarray):
        array = array.astype(np.int64)
    if array.dtype.kind == "f" and not isinstance(key, np.ndarray):
        array = array.astype(np.int64)
    return wrap(array)


def _index_tensor(index: Tensor) -> Any:
    kind = index.dtype
    if kind is dtypes.int64 or kind is dtypes.bool_:
        pass
    elif kind is dtypes.int32:
        index = index.long()
    elif kind is dtypes.uint8:
        index = index.bool()
    else:
        raise IndexRangeError(
            f"index: tensors used as indices must be long, int, byte or bool tensors, got {kind}; convert with .long()"
        )
    if index.ndim == 0 and interpreter_of(index) is None and index.dtype is dtypes.int64:
        return int(index.array)
    return index


def _dims_taken(item: Any) -> int:
    if item is None or item is Ellipsis or item.__class__ is bool:
        return 0
    return item.ndim if isinstance(item, Tensor) and item.dtype is dtypes.bool_ else 1


def _parsed(x: Tensor, key: Any) -> tuple[list[Any], Advanced]:
    """The basic index (for `Slice`) and the index tensors of a key."""
    items = [_item(k) for k in _items(key)]
    taken = sum(_dims_taken(i) for i in items)
    if taken > x.ndim:
        if x.ndim == 0:
            raise IndexRangeError("index: invalid index of a 0-dim tensor; use tensor.item() to get its number")
        raise IndexRangeError(
            f"index: too many indices for tensor of dimension {x.ndim} (shape {tuple(x.shape)}): got {taken}"
        )
    basic: list[Any] = []
    advanced: Advanced = []
    at = place = 0  # dimension of x, dimension of the basic view
    missing = x.ndim - taken
    for item in items:
        if item.__class__ is int:
            basic.append(_checked_place(x, item, at))
            at += 1
        elif item.__class__ is slice:
            basic.append(_checked_slice(item))
            at, place = at + 1, place + 1
        elif item is None:
            basic.append(None)
            place += 1
        elif item is Ellipsis:
            basic.extend([ALL] * missing)
            at, place, missing = at + missing, place + missing, 0
        elif item.__class__ is bool or (item.dtype is dtypes.bool_ and item.ndim == 0):
            basic.append(None)
            advanced.append((place, wrap(np.zeros(int(bool(item)), np.int64)), at))
            place += 1
        else:
            for index in _as_places(x, item, at):
                basic.append(ALL)
                advanced.append((place, index, at))
                at, place = at + 1, place + 1
    return basic, advanced


def _checked_place(x: Tensor, index: int, d: int) -> int:
    size = x.shape[d]
    if not -size <= index < size:
        raise IndexRangeError(
            f"index: index {index} is out of bounds for dimension {d} with size {size}; valid are {-size} to {size - 1}"
        )
    return index if index >= 0 else index + size


def _checked_slice(item: slice) -> tuple[int | None, int | None, int | None]:
    def number(value: Any) -> int | None:
        if value is None or value.__class__ is int:
            return value
        try:
            return value.__index__()
        except AttributeError:
            raise ArgumentError(
                f"index: slice indices must be integers or None, got {type(value).__name__} {value!r}"
            ) from None

    if item.step == 0:
        raise InvalidValueError("index: slice step cannot be zero")
    return number(item.start), number(item.stop), number(item.step)


def _as_places(x: Tensor, index: Tensor, d: int) -> tuple[Tensor, ...]:
    """An index tensor as it is, a mask as the positions of its true elements in each of its dimensions."""
    if index.dtype is not dtypes.bool_:
        return (index,)
    for k, size in enumerate(index.shape):
        if size != x.shape[d + k]:
            raise IndexRangeError(
                f"index: The shape of the mask {list(index.shape)} at index {k} does not match the shape of the "
                f"indexed tensor {list(x.shape)} at index {d + k}"
            )
    return tuple(wrap(i) for i in np.nonzero(contents(index, "a mask as an index")))


def _mask_in_front(x: Tensor, key: Any) -> tuple[Tensor, Tensor] | None:
    """In a trace: a view of x and the mask over its first dimensions that a key means; else None."""
    if mode.interpreter is None or x._interpreter is not None:
        return None
    items = [_item(k) for k in _items(key)]
    at = next((n for n, item in enumerate(items) if item.__class__ is not int), len(items))
    mask, *others = items[at:] or [None]
    if not isinstance(mask, Tensor) or any(isinstance(item, (Tensor, bool)) for item in others):
        return None
    if mask.dtype is not dtypes.bool_ or not mask.ndim or mask._interpreter is not None:
        return None
    basic, _ = _parsed(x, (*items[:at], *(slice(None),) * mask.ndim, *others))
    view = x if _is_whole(basic) else SLICE(x, index=tuple(basic))
    return (view, mask) if tuple(view.shape[: mask.ndim]) == tuple(mask.shape) else None


def _is_whole(basic: Sequence[Any]) -> bool:
    return all(i is ALL or i == ALL for i in basic)


# ------------------------------------------------------------------------------------------ reading


def getitem(self: Tensor, key: Any) -> Tensor:
    """x[key]: a view for integers, slices, None and …; a copy when index tensors or masks are among them."""
    try:
        window = None
        if self._interpreter is None and (not switches.interpreting or mode.interpreter is None):
            numpy_key = _numpy_key(key)
            if numpy_key is not None:
                try:
                    window = self.array[numpy_key]
                except (IndexError, ValueError, TypeError):
                    pass  # the general way says what is wrong
        if window is None:
            front = _mask_in_front(self, key)
            if front is not None:
                return mode.interpreter.selected(*front, lambda x, places: INDEX(x, *places, at=0))
            basic, advanced = _parsed(self, key)
            view = self if advanced and _is_whole(basic) else SLICE(self, index=tuple(basic))
            return _read(view, advanced) if advanced else view
        out = new(Tensor)
        out.array = window
        link_view(out, self)
        if not mode.grad:
            out._origin = "no_grad"
        else:
            if self._origin is not None:
                out._origin = self._origin
            if self._needs_grad and window.dtype.kind in "fcV":
                out.node, out._needs_grad = _slice_node(self, out, key), True
        if switches.inferring and self._inference:
            out._inference = True
        return out
    except Exception as error:
        reword(error, "Tensor.__getitem__", (self, key), {})
        raise


def _numpy_key(key: Any) -> tuple[Any, ...] | None:
    """The key as NumPy takes it, if it is made of plain integers, slices and None; the … makes NumPy return a view."""
    kind = key.__class__
    if kind is int or kind is slice:
        return (key, ...)
    if kind is tuple:
        for k in key:
            if k.__class__ is not int and k.__class__ is not slice and k is not None:
                return None
        return (*key, ...)
    return None


def _slice_node(x: Tensor, out: Tensor, key: Any) -> Node:
    """What `SLICE.make_node` makes, for the hot path."""
    node = new(Node)
    node.op, node.order, node.saved = SLICE, next_order(), (Meta(x),)
    node.params = {"index": (key,) if key.__class__ is int and key >= 0 else _slice_index(x, key)}
    node.edges = (x if x.node is None else x.node,)
    if switches.watching:
        watch(node, out)
    return node


def _slice_index(x: Tensor, key: Any) -> tuple[Any, ...]:
    """A key of integers, slices and None in the hashable form of `Slice`, integers counted from the front."""
    index, at = [], 0
    for item in key if key.__class__ is tuple else (key,):
        if item.__class__ is int:
            item = item if item >= 0 else item + x.array.shape[at]
        elif item is None:
            at -= 1
        else:
            item = _checked_slice(item)
        index.append(item)
        at += 1
    return tuple(index)


def _neighbours(dims: Sequence[int]) -> bool:
    return dims[-1] - dims[0] == len(dims) - 1


def _read(view: Tensor, advanced: Advanced) -> Tensor:
    dims, indices = [d for d, _, _ in advanced], [i for _, i, _ in advanced]
    if len(indices) > 1:
        _shape_of_places(indices)  # refuses those that do not go together
    if mode.interpreter is not None:  # no values yet: the check becomes a part of the graph
        _check_ranges(view, advanced)
    try:
        if _neighbours(dims):
            return INDEX(view, *indices, at=dims[0])
        return INDEX(PERMUTE(view, dims=_to_front(dims, view.ndim)), *indices, at=0)
    except IndexRangeError:
        _check_ranges(view, advanced)
        raise


def _shape_of_places(indices: Sequence[Tensor]) -> tuple[int, ...]:
    try:
        return tuple(broadcast_shapes(*(i.shape for i in indices)))
    except ShapeError:
        shapes = ", ".join(str(list(i.shape)) for i in indices)
        raise IndexRangeError(
            f"index: shape mismatch: indexing tensors could not be broadcast together with shapes {shapes}"
        ) from None


def _check_ranges(view: Tensor, advanced: Advanced) -> None:
    for place, index, d in advanced:
        if index._interpreter is None:
            check_places(index, view.shape[place], d, "index", low=-view.shape[place])


def _to_front(dims: Sequence[int], ndim: int) -> tuple[int, ...]:
    return (*dims, *(d for d in range(ndim) if d not in dims))


# ------------------------------------------------------------------------------------------ writing


def setitem(self: Tensor, key: Any, value: Any) -> None:
    """x[key] = value: broadcast, converted to the type of x, seen by every view; gradients follow it."""
    try:
        if isinstance(key, Tensor) and key.ndim and key.dtype in (dtypes.bool_, dtypes.uint8) and _is_single(value):
            _fill_mask(self, key, value)
            return
        if _written_at_once(self, key, value):
            return
        front = _mask_in_front(self, key)
        if front is not None and mode.interpreter.put_selected(*front, as_value(front[0], value)):
            return
        basic, advanced = _parsed(self, key)
        view = ALIAS(self) if _is_whole(basic) else SLICE(self, index=tuple(basic))
        if advanced:
            _put_(view, advanced, as_value(view, value), accumulate=False, name="index_put_")
        else:
            view.copy_(_without_leading_ones(as_value(view, value), view.ndim))
    except Exception as error:
        reword(error, "Tensor.__setitem__", (self, key, value), {})
        raise


def _is_single(value: Any) -> bool:
    return is_number(value) or (isinstance(value, Tensor) and value.ndim == 0)


def _fill_mask(x: Tensor, mask: Tensor, value: Any) -> None:
    """x[mask] = one number, without looking up the places."""
    if tuple(mask.shape) != tuple(x.shape[: mask.ndim]):
        _parsed(x, mask)
    wide = mask.bool().reshape(*mask.shape, *(1,) * (x.ndim - mask.ndim))
    x.masked_fill_(wide, as_value(x, value))


def _written_at_once(x: Tensor, key: Any, value: Any) -> bool:
    """The shortest way: a number or tensor to a basic place of a float tensor, unrecorded. False: no such case."""
    if x._interpreter is not None or (switches.interpreting and mode.interpreter is not None):
        return False
    if value.__class__ is not float and value.__class__ is not int:
        if not isinstance(value, Tensor) or value._interpreter is not None or value.array.dtype is not x.array.dtype:
            return False
        number = value.array
    else:
        number = value
    if x.array.dtype not in FLOATS or x._tracked(value):
        return False
    numpy_key = _numpy_key(key)
    if numpy_key is None:
        return False
    try:
        window = x.array[numpy_key]
        if not window.flags.writeable or (0 in window.strides and window.size > 1):
            return False
        window[...] = number
    except (IndexError, ValueError, TypeError):
        return False
    x._bump()
    return True


def as_value(x: Tensor, value: Any) -> Tensor:
    """What is to be written into x, as a tensor of its type."""
    if isinstance(value, Tensor):
        return value if value.dtype is x.dtype else value.to(x.dtype)
    if isinstance(value, complex) and not x.is_complex():
        raise DtypeError(
            f"setitem: value {value} cannot be converted to type {x.dtype} without losing its imaginary part"
        )
    array = np.asarray(value)
    if x.dtype.category == dtypes.INTEGER and is_number(value) and not isinstance(value, bool):
        limits = np.iinfo(x.dtype.np)
        low = limits.min if x.dtype.is_signed else -int(limits.max)
        if not low <= value <= limits.max:  # NaN and infinity included
            raise DtypeError(f"setitem: value {value} cannot be converted to type {x.dtype} without overflow")
        return wrap(np.asarray(int(value)).astype(x.dtype.np))
    return wrap(array.astype(x.dtype.np))


def _without_leading_ones(value: Tensor, ndim: int) -> Tensor:
    """(1, …, 1, *rest) → rest, down to `ndim` dimensions."""
    extra = value.ndim - ndim
    while extra > 0 and value.shape[0] == 1:
        value, extra = value.squeeze(0), extra - 1
    return value


def _put_(view: Tensor, advanced: Advanced, value: Tensor, accumulate: bool, name: str) -> None:
    """Write (or add) `value` at the places of the index tensors, in place."""
    order, value, indices, at = _put_parts(view, advanced, value, name)
    put_at_(PERMUTE(view, dims=order) if order else view, value, indices, accumulate, name, at)


def _put_parts(
    view: Tensor, advanced: Advanced, value: Tensor, name: str
) -> tuple[tuple[int, ...], Tensor, list[Tensor], int]:
    """The order of dimensions that makes the indexed ones neighbours (none: they are), `value` broadcast to fit, the
    indices and the first dimension they stand for."""
    dims, indices = [d for d, _, _ in advanced], [i for _, i, _ in advanced]
    shape = _shape_of_places(indices)
    rest = tuple(s for d, s in enumerate(view.shape) if d not in dims)
    front = dims[0] if _neighbours(dims) else 0
    result = (*rest[:front], *shape, *rest[front:])
    value = _without_leading_ones(value, len(result))
    try:
        value = value.expand(result)
    except ShapeError:
        raise ShapeError(
            f"{name}: shape mismatch: value tensor of shape {list(value.shape)} cannot be broadcast to indexing "
            f"result of shape {list(result)}"
        ) from None
    _check_ranges(view, advanced)
    return () if _neighbours(dims) else _to_front(dims, view.ndim), value, indices, front


def put_at_(
    target: Tensor, value: Tensor, indices: Sequence[Tensor], accumulate: bool, name: str, at: int = 0
) -> Tensor:
    """target[:, …, i₁, i₂, …] = value (or += value), in place; straight into memory if nothing is recorded."""
    plain = chosen((target, value, *indices)) is None
    if not accumulate and plain and not target._tracked(value):
        target._check_writable(name)
        target.array[(slice(None),) * at + tuple(i.array for i in indices)] = value.array
        target._bump()
        return target
    return update(target, put_at, (value, *indices), {"accumulate": accumulate, "at": at}, name)


def put_at(x: Tensor, value: Tensor, *indices: Tensor, accumulate: bool = False, at: int = 0) -> Tensor:
    """x with `value` written to (or added at) places of its dimensions `at` …"""
    if not accumulate:
        return PUT_AT(x, value, *indices, at=at)
    added = ADD_AT(value, *indices, sizes=tuple(x.shape[at : at + len(indices)]), at=at)
    return x | added if x.dtype is dtypes.bool_ else x + added


Tensor.__getitem__, Tensor.__setitem__ = getitem, setitem


# ------------------------------------------------------------------------- the same under function names


@operation(function=False)
def index_put_(self: Tensor, indices: Sequence[Any], values: Tensor, accumulate: bool = False) -> Tensor:
    """Write (or with `accumulate` add) `values` at places given by index tensors, in place."""
    view, advanced = _index_put_parts(self, indices, values)
    _put_(view, advanced, values, accumulate, "index_put_")
    return self


@operation()
def index_put(input: Tensor, indices: Sequence[Any], values: Tensor, accumulate: bool = False) -> Tensor:
    """A copy with `values` written to (or with `accumulate` added at) places given by index tensors."""
    view, advanced = _index_put_parts(input, indices, values)
    order, values, places, at = _put_parts(view, advanced, values, "index_put")
    front = PERMUTE(view, dims=order) if order else view
    written = put_at(front, values, *places, accumulate=accumulate, at=at)
    if order:
        written = PERMUTE(written, dims=tuple(int(d) for d in np.argsort(order)))
    return written.reshape(input.shape)


def _index_put_parts(x: Tensor, indices: Sequence[Any], values: Tensor) -> tuple[Tensor, Advanced]:
    if values.dtype is not x.dtype:
        raise DtypeError(
            f"index_put: Index put requires the source and destination dtypes match, got {x.dtype} for the destination "
            f"and {values.dtype} for the source; convert one of them"
        )
    basic, advanced = _parsed(x, tuple(_as_vector(i) for i in indices))
    return (ALIAS(x) if _is_whole(basic) else SLICE(x, index=tuple(basic))), advanced


def _as_vector(index: Any) -> Any:
    """A 0-d integer tensor as a vector of one: here it is a place, not a choice of a slice."""
    return (
        index.reshape(1) if isinstance(index, Tensor) and not index.ndim and index.dtype is not dtypes.bool_ else index
    )
