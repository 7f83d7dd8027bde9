"""Rules of primitives that move elements, read and write at places, and reduce."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from ...errors import UnsupportedError
from .builder import Builder, writes
from .sizes import Repeated, Size
from .unify import Step, Var

FAR = (1 << 63) - 1


@writes("ViewAs")
def view_as(b: Builder, step: Step, x: str) -> str:
    return b.reshaped(x, step.inputs[0].shape, step.output.shape)


@writes("Permute")
def permute(b: Builder, step: Step, x: str) -> str:
    order = [int(d) % step.output.rank for d in step.params["dims"]]
    return x if order == sorted(order) else b.emit("Transpose", [x], perm=order)


@writes("Expand")
def expand(b: Builder, step: Step, x: str) -> str:
    return b.expanded(x, step.inputs[0].shape, step.output.shape)


@writes("Slice")
def slice_(b: Builder, step: Step, x: str) -> str:
    """(start, stop, step) cuts a dimension, a whole number drops it, None adds one."""
    cuts, dropped, added, axis, place = [], [], [], 0, 0
    for entry in step.params["index"]:
        if entry is None:
            added.append(place)
        elif isinstance(entry, tuple):
            start, stop, hop = entry
            if entry != (None, None, None):
                cuts.append((axis, start, stop, 1 if hop is None else hop))
        else:
            cuts.append((axis, entry, _after(entry), 1))
            dropped.append(axis)
        axis += entry is not None
        place += entry is None or isinstance(entry, tuple)
    y = _cut(b, x, cuts)
    y = b.emit("Squeeze", [y, b.ints(dropped)]) if dropped else y
    return b.emit("Unsqueeze", [y, b.ints(added)]) if added else y


def _after(entry: Any) -> Any:
    if isinstance(entry, Size):
        return Size(entry.terms, entry.before, entry.divisor, entry.after + 1)
    return FAR if entry == -1 else entry + 1


def _cut(b: Builder, x: str, cuts: list[tuple[int, Any, Any, Any]]) -> str:
    """Slices along some axes, (axis, start, stop, step) each."""
    if not cuts:
        return x
    axes, starts, stops, steps = zip(*cuts, strict=True)
    begin = tuple((0 if step > 0 else FAR) if n is None else n for n, step in zip(starts, steps, strict=True))
    end = tuple((FAR if step > 0 else -FAR) if n is None else n for n, step in zip(stops, steps, strict=True))
    return b.emit("Slice", [x, b.shape(begin), b.shape(end), b.ints(axes), b.ints(steps)])


@writes("Split")
def split(b: Builder, step: Step, x: str) -> list[str]:
    sizes, axis = step.params["sizes"], int(step.params["dim"])
    if isinstance(sizes, Repeated):
        raise UnsupportedError(f"onnx.export: {step.line}: the number of parts depends on a size")
    if len(sizes) == 1:
        return [x]
    return b.emit("Split", [x, b.shape(tuple(sizes))], outputs=len(sizes), axis=axis)


@writes("Unbind")
def unbind(b: Builder, step: Step, x: str) -> list[str]:
    axis = int(step.params["dim"])
    return [b.emit("Gather", [x, b.constant(k, np.int64)], axis=axis) for k in range(len(step.outputs))]


@writes("Diagonal")
def diagonal(b: Builder, step: Step, x: str) -> str:
    """The diagonal of two dimensions, read at flat places."""
    (have,), p = step.inputs, step.params
    first, second = int(p["dim1"]) % have.rank, int(p["dim2"]) % have.rank
    rest = [k for k in range(have.rank) if k not in (first, second)]
    rows, columns = have.shape[first], have.shape[second]
    if isinstance(rows, Size) or isinstance(columns, Size):
        raise UnsupportedError(f"onnx.export: {step.line}: a diagonal whose length is dynamic")
    offset = int(p["offset"])
    i = np.arange(max(0, min(rows + min(offset, 0), columns - max(offset, 0))))
    places = (i - min(offset, 0)) * columns + i + max(offset, 0)
    y = b.emit("Transpose", [x], perm=[*rest, first, second])
    outer = tuple(have.shape[k] for k in rest)
    flat = b.reshaped(y, (*outer, rows, columns), (*outer, rows * columns))
    return b.emit("Gather", [flat, b.constant(places, np.int64)], axis=len(rest))


@writes("Unfold")
def unfold(b: Builder, step: Step, x: str) -> str:
    """Windows along a dimension, as a gather of places (windows, size); the size becomes the last dimension."""
    (have,), p = step.inputs, step.params
    axis, size, hop = int(p["dim"]) % have.rank, int(p["size"]), int(p["step"])
    count = step.output.shape[axis]
    if isinstance(count, Size):
        starts = b.emit("Range", [b.constant(0, np.int64), b._whole(count), b.constant(1, np.int64)])
        starts = b.emit("Mul", [starts, b.constant(hop, np.int64)])
        places = b.emit("Add", [b.emit("Unsqueeze", [starts, b.ints([1])]), b.constant(np.arange(size), np.int64)])
    else:
        places = b.constant(np.arange(count)[:, None] * hop + np.arange(size), np.int64)
    y = b.emit("Gather", [x, places], axis=axis)
    order = [k for k in range(have.rank + 1) if k != axis + 1]
    return b.emit("Transpose", [y], perm=[*order, axis + 1])


@writes("Windows")
def windows(b: Builder, step: Step, x: str) -> str:
    """(…, *lengths) → (…, *counts, *size), one dimension after the other."""
    (have,), p = step.inputs, step.params
    n = len(p["size"])
    kept = have.rank - n
    for k in range(n):  # the dimension of windows takes the place of the line, that within comes last
        axis, size, hop, apart = kept + k, int(p["size"][k]), int(p["stride"][k]), int(p["dilation"][k])
        count = step.output.shape[axis]
        if isinstance(count, Size):
            raise UnsupportedError(f"onnx.export: {step.line}: windows over a dynamic length")
        places = np.arange(count)[:, None] * hop + np.arange(size) * apart
        x = b.emit("Gather", [x, b.constant(places, np.int64)], axis=axis)
        rank = have.rank + k + 1
        order = [d for d in range(rank) if d != axis + 1]
        x = b.emit("Transpose", [x], perm=[*order, axis + 1])
    return x


@writes("Cat")
def cat(b: Builder, step: Step, *names: str) -> str:
    given = [b.cast(name, v.dtype, step.output.dtype) for name, v in zip(names, step.inputs, strict=True)]
    return given[0] if len(given) == 1 else b.emit("Concat", given, axis=int(step.params["dim"]) % step.output.rank)


@writes("Pad")
def pad(b: Builder, step: Step, x: str) -> str:
    """Widths (before, after) of every dimension, from the first on; negative ones cut."""
    widths = list(step.params["widths"])
    before, after = [w[0] for w in widths], [w[1] for w in widths]
    value = b.constant(step.params["value"], step.output.dtype)
    return b.emit("Pad", [x, b.shape((*before, *after)), value], mode="constant")


@writes("Overwrite")
def overwrite(b: Builder, step: Step, x: str, value: str) -> str:
    have, want = step.inputs[1], step.output
    return b.expanded(b.cast(value, have.dtype, want.dtype), have.shape, want.shape)


# ---------------------------------------------------------------------------------- windows of memory


Cut = tuple[int, int, int, int]  # axis, start, stop, step


def _window(step: Step) -> tuple[list[Cut], list[int]] | None:
    """Strides and an offset in memory as slices, and the axes that are dropped; None where they are something else."""
    found = [_dimensions(node.params, node.inputs[0].shape) for node in step.nodes]
    forms = [[_form(entry, counted) for counted in (False, True) for entry in f or ()] for f in found]
    if any(f is None for f in found) or any(len(form) != len(forms[0]) for form in forms):
        return None
    half = len(forms[0]) // 2
    cuts, dropped = [], []
    for axis in range(half):
        plain = {form[axis] for form in forms}
        from_end = {form[half + axis] for form in forms}
        chosen = plain if len(plain) == 1 else from_end
        if len(chosen) > 1:
            return None
        ((start, stop, hop, drop),) = chosen
        if (start, stop, hop) != (0, FAR, 1):
            cuts.append((axis, start, stop, hop))
        dropped += [axis] if drop else []
    return cuts, dropped


def _form(entry: tuple[int, int, int, bool, int], from_end: bool) -> tuple[int, int, int, bool]:
    """A slice whose stop is counted from the start, or from the end; to the end is FAR."""
    start, stop, hop, drop, length = entry
    last = drop and start == length - 1
    if from_end:
        start = start - length if last else start
        stop = FAR if stop >= length else stop - length
    return start, FAR if stop >= length > 0 else stop, hop, drop


def _dimensions(p: dict[str, Any], shape: Any) -> list[tuple[int, int, int, bool, int]] | None:
    """(start, stop, step, dropped, length) of every dimension of the memory under a window."""
    (sizes, strides, first), offset = p["layout"], int(p["offset"])
    window = list(zip(p["size"], p["stride"], strict=True))
    dense = tuple(math.prod(shape[k + 1 :]) for k in range(len(shape)))
    if tuple(sizes) != tuple(shape) or tuple(strides) != dense or first or not shape or 0 in shape:
        return None
    found = []
    for place, (length, unit) in enumerate(zip(shape, dense, strict=True)):
        start, offset = divmod(offset, unit)
        left = len(shape) - place
        drop = len(window) < left and not (window and window[0][1] % unit == 0 and window[0][1] >= unit)
        if drop:
            found.append((start, start + 1, 1, True, length))
            continue
        if not window or (window[0][0] > 1 and window[0][1] % unit):
            return None
        count, stride = window.pop(0)
        hop = stride // unit if count > 1 else 1
        stop = start + (count - 1) * hop + 1
        if hop < 1 or stop > length:
            return None
        found.append((start, stop if start + count * hop < length or hop == 1 else length, hop, False, length))
    return None if window else found


@writes("StridedRead AsStrided")
def strided_read(b: Builder, step: Step, x: str) -> str:
    window = _window(step)
    if window is not None:
        cuts, dropped = window
        y = _cut(b, x, cuts)
        return b.emit("Squeeze", [y, b.ints(dropped)]) if dropped else y
    places = _flat_places(step)
    flat = b.emit("Reshape", [x, b.ints([-1])])
    return b.emit("Gather", [flat, b.constant(places, np.int64)], axis=0)


def _flat_places(step: Step) -> np.ndarray:
    """Where in memory the elements of a window lie, counted as in the tensor; for fixed sizes only."""
    if len(step.nodes) > 1 and len({node.inputs[0].shape for node in step.nodes}) > 1:
        raise UnsupportedError(f"onnx.export: {step.line}: a window of memory whose place depends on a dynamic size")
    p = step.nodes[0].params
    sizes, strides, first = p["layout"]
    own, read = _offsets(sizes, strides) + first, _offsets(p["size"], p["stride"]) + int(p["offset"])
    where = np.full(max(own.max(initial=0), read.max(initial=0)) + 1, -1)
    where[own.reshape(-1)] = np.arange(own.size)
    return where[read]


def _offsets(sizes: Any, strides: Any) -> np.ndarray:
    """The place in memory of every element of a tensor with these strides."""
    found = np.zeros(tuple(sizes), np.int64)
    for axis, (size, stride) in enumerate(zip(sizes, strides, strict=True)):
        found += (np.arange(size) * stride).reshape([-1, *[1] * (len(sizes) - 1 - axis)])
    return found


@writes("StridedReplace")
def strided_replace(b: Builder, step: Step, x: str, value: str) -> str:
    """x with a window replaced: what lies before, the new part, what lies behind, along the one axis that is cut."""
    window = _window(step)
    part, whole = step.inputs[1], step.inputs[0]
    value = b.cast(value, part.dtype, whole.dtype)
    if window is not None:
        cuts, dropped = window
        value = b.emit("Unsqueeze", [value, b.ints(dropped)]) if dropped else value
        if not cuts:
            return value
        if len(cuts) == 1 and cuts[0][3] == 1:
            axis, start, stop, _ = cuts[0]
            pieces = [_cut(b, x, [(axis, 0, start, 1)])] if start else []
            pieces.append(value)
            pieces += [_cut(b, x, [(axis, stop, FAR, 1)])] if stop != FAR else []
            return b.emit("Concat", pieces, axis=axis)
    places = _flat_places(step).reshape(-1)
    flat, new = b.emit("Reshape", [x, b.ints([-1])]), b.emit("Reshape", [value, b.ints([-1])])
    written = b.emit("ScatterElements", [flat, b.constant(places, np.int64), new], axis=0)
    return b.reshaped(written, (), whole.shape)


# ------------------------------------------------------------------------------------------- places


def _places(b: Builder, step: Step, names: tuple[str, ...], sizes: tuple[Any, ...], vars_: tuple[Var, ...]) -> str:
    """Several index tensors as one, into the dimensions taken together."""
    flat = b.cast(names[0], vars_[0].dtype, np.dtype(np.int64))
    for name, size, var in zip(names[1:], sizes[1:], vars_[1:], strict=True):
        wide = b.emit("Mul", [flat, b._whole(size)])
        flat = b.emit("Add", [wide, b.cast(name, var.dtype, np.dtype(np.int64))])
    return flat


def _product(sizes: tuple[Any, ...]) -> Any:
    fixed = math.prod(n for n in sizes if not isinstance(n, Size))
    moving = [n for n in sizes if isinstance(n, Size)]
    if not moving:
        return fixed
    if len(moving) == 1 and fixed == 1:
        return moving[0]
    if all(len(n.terms) == 1 and not n.before and n.divisor == 1 and not n.after for n in moving):
        c = fixed * math.prod(n.terms[0][0] for n in moving)
        return Size(((c, tuple(sorted(s for n in moving for s in n.terms[0][1]))),))
    raise UnsupportedError("onnx.export: a product of sizes that are not plain")


@writes("Index")
def index(b: Builder, step: Step, x: str, *indices: str) -> str:
    at, have = int(step.params.get("at", 0)), step.inputs[0]
    if len(indices) == 1:
        return b.emit("Gather", [x, indices[0]], axis=at)
    count = len(indices)
    sizes = have.shape[at : at + count]
    flat = b.reshaped(x, have.shape, (*have.shape[:at], _product(sizes), *have.shape[at + count :]))
    return b.emit("Gather", [flat, _places(b, step, indices, sizes, step.inputs[1:])], axis=at)


@writes("PutAt")
def put_at(b: Builder, step: Step, x: str, value: str, *indices: str) -> str:
    """x with values put at places: ScatterND over the indexed dimensions, brought to the front."""
    at, have, count = int(step.params.get("at", 0)), step.inputs[0], len(indices)
    order = [*range(at, at + count), *range(at), *range(at + count, have.rank)]
    index_rank = max(v.rank for v in step.inputs[2:])
    given = step.inputs[1]
    value_shape = (*have.shape[:at], *_joint(step.inputs[2:]), *have.shape[at + count :])
    value = b.expanded(b.cast(value, given.dtype, have.dtype), given.shape, value_shape)
    columns = [
        _column(b, name, v, value_shape[at : at + index_rank]) for name, v in zip(indices, step.inputs[2:], strict=True)
    ]
    coordinates = columns[0] if count == 1 else b.emit("Concat", columns, axis=-1)
    front = b.emit("Transpose", [x], perm=order) if at else x
    if at:
        rank = len(value_shape)
        value = b.emit(
            "Transpose", [value], perm=[*range(at, at + index_rank), *range(at), *range(at + index_rank, rank)]
        )
    written = b.emit("ScatterND", [front, coordinates, value])
    return b.emit("Transpose", [written], perm=[order.index(k) for k in range(have.rank)]) if at else written


def _joint(vars_: tuple[Var, ...]) -> tuple[Any, ...]:
    """The shape that index tensors broadcast to."""
    rank = max(v.rank for v in vars_)
    found: list[Any] = [1] * rank
    for v in vars_:
        for k, n in enumerate(v.shape):
            place = rank - v.rank + k
            found[place] = n if n != 1 else found[place]
    return tuple(found)


def _column(b: Builder, name: str, var: Var, shape: tuple[Any, ...]) -> str:
    wide = b.expanded(b.cast(name, var.dtype, np.dtype(np.int64)), var.shape, shape)
    return b.emit("Unsqueeze", [wide, b.ints([-1])])


@writes("AddAt")
def add_at(b: Builder, step: Step, x: str, *indices: str) -> str:
    """Zeros, with x added at places."""
    at, sizes, count = int(step.params.get("at", 0)), tuple(step.params["sizes"]), len(indices)
    if at:
        raise UnsupportedError(f"onnx.export: {step.line}: sums at places behind other dimensions")
    zeros = b.emit("Expand", [b.constant(0, step.output.dtype), b.shape(step.output.shape)])
    joint = _joint(step.inputs[1:])
    columns = [_column(b, name, v, joint) for name, v in zip(indices, step.inputs[1:], strict=True)]
    coordinates = columns[0] if count == 1 else b.emit("Concat", columns, axis=-1)
    del sizes
    return b.emit("ScatterND", [zeros, coordinates, x], reduction="add")


# --------------------------------------------------------------------------------------- reductions

_REDUCTIONS = {"Sum": "ReduceSum", "Mean": "ReduceMean", "Amax": "ReduceMax", "Amin": "ReduceMin", "Prod": "ReduceProd"}


@writes(" ".join(_REDUCTIONS) + " AllTrue AnyTrue")
def reduced(b: Builder, step: Step, x: str) -> str:
    have, want = step.inputs[0], step.output
    axes = _axes(step.params["dim"], have.rank)
    truth = step.title in ("AllTrue", "AnyTrue")
    kind = np.dtype(np.int32) if truth else want.dtype if want.dtype.kind != "b" else np.dtype(np.int32)
    x = b.cast(
        b.emit("Cast", [x], to=9) if truth and have.dtype.kind != "b" else x,
        np.dtype(bool) if truth else have.dtype,
        kind,
    )
    op_type = {"AllTrue": "ReduceMin", "AnyTrue": "ReduceMax"}.get(step.title) or _REDUCTIONS[step.title]
    y = _reduce(b, op_type, x, axes, int(bool(step.params["keepdim"])))
    return b.cast(y, kind, want.dtype)


def _axes(dim: Any, rank: int) -> list[int]:
    if dim is None or dim == ():
        return list(range(rank))
    return [int(d) % rank for d in (dim if isinstance(dim, (tuple, list)) else (dim,))]


def _reduce(b: Builder, op_type: str, x: str, axes: list[int], keepdims: int) -> str:
    if not axes:
        return x
    if b.opset >= 18 or op_type == "ReduceSum":
        return b.emit(op_type, [x, b.ints(axes)], keepdims=keepdims)
    return b.emit(op_type, [x], axes=axes, keepdims=keepdims)


@writes("Logsumexp")
def logsumexp(b: Builder, step: Step, x: str) -> str:
    axes = _axes(step.params["dim"], step.inputs[0].rank)
    return _reduce(b, "ReduceLogSumExp", x, axes, int(bool(step.params["keepdim"])))


@writes("Argmax Argmin")
def arg_extreme(b: Builder, step: Step, x: str) -> str:
    have, dim = step.inputs[0], step.params["dim"]
    op_type = "ArgMax" if step.title == "Argmax" else "ArgMin"
    if dim is None:
        return b.emit(op_type, [b.emit("Reshape", [x, b.ints([-1])])], axis=0, keepdims=0)
    return b.emit(op_type, [x], axis=int(dim) % have.rank, keepdims=int(bool(step.params["keepdim"])))


@writes("Cumsum Cumprod")
def cumulative(b: Builder, step: Step, x: str) -> str:
    axis = b.constant(int(step.params["dim"]) % step.inputs[0].rank, np.int64)
    if step.title == "Cumprod" and b.opset < 26:
        raise UnsupportedError(f"onnx.export: {step.line}: running products need opset 26")
    x = b.cast(x, step.inputs[0].dtype, step.output.dtype)
    return b.emit(
        "CumSum" if step.title == "Cumsum" else "CumProd", [x, axis], reverse=int(bool(step.params["reverse"]))
    )


@writes("Argsort")
def argsort(b: Builder, step: Step, x: str) -> str:
    axis = int(step.params["dim"]) % step.inputs[0].rank
    count = b.size(step.inputs[0].shape[axis])
    return b.emit("TopK", [x, count], outputs=2, axis=axis, largest=int(bool(step.params["descending"])))[1]


@writes("TopPlaces")
def top_places(b: Builder, step: Step, x: str) -> str:
    axis = int(step.params["dim"]) % step.inputs[0].rank
    largest = int(bool(step.params["largest"]))
    return b.emit("TopK", [x, b.ints([int(step.params["k"])])], outputs=2, axis=axis, largest=largest)[1]
