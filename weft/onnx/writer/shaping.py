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
    """Slices, whole numbers and new dimensions, one after the other."""
    (have,), index = (step.inputs,), step.params["index"]
    index = index if isinstance(index, tuple) else (index,)
    if Ellipsis in index:
        place = index.index(Ellipsis)
        missing = have.rank - sum(entry is not None and entry is not Ellipsis for entry in index)
        index = (*index[:place], *[slice(None)] * missing, *index[place + 1 :])
    cuts, dropped, axis = [], [], 0
    for entry in index:
        if entry is None:
            continue
        if isinstance(entry, slice):
            if entry != slice(None):
                cuts.append((axis, entry.start, entry.stop, 1 if entry.step is None else entry.step))
        else:
            cuts.append((axis, entry, _after(entry), 1))
            dropped.append(axis)
        axis += 1
    y = _cut(b, x, cuts)
    if not dropped and None not in index:
        return y
    kept = tuple(n for k, n in enumerate(_sizes_after(have, cuts, step)) if k not in dropped)
    y = b.emit("Squeeze", [y, b.ints(dropped)]) if dropped else y
    return b.reshaped(y, kept, step.output.shape) if None in index else y


def _sizes_after(have: Var, cuts: list[Any], step: Step) -> tuple[Any, ...]:
    """Sizes after the cuts: those of the result, in order, where nothing was dropped."""
    changed = {axis for axis, *_ in cuts}
    left = [
        n
        for n, entry in zip(step.output.shape, [e for e in _entries(step) if not _is_number(e)], strict=False)
        if entry is not None
    ]
    sizes, rest = [], iter(left)
    numbers = [e for e in _entries(step) if e is not None]
    for axis, n in enumerate(have.shape):
        is_number = axis < len(numbers) and _is_number(numbers[axis])
        sizes.append(1 if is_number else next(rest, n) if axis in changed else _passed(rest, n))
    return tuple(sizes)


def _passed(rest: Any, n: Any) -> Any:
    return next(rest, n)


def _entries(step: Step) -> tuple[Any, ...]:
    index = step.params["index"]
    index = index if isinstance(index, tuple) else (index,)
    if Ellipsis not in index:
        return index
    place = index.index(Ellipsis)
    missing = step.inputs[0].rank - sum(entry is not None and entry is not Ellipsis for entry in index)
    return (*index[:place], *[slice(None)] * missing, *index[place + 1 :])


def _is_number(entry: Any) -> bool:
    return isinstance(entry, (int, np.integer, Size)) and not isinstance(entry, bool)


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


def _window(step: Step) -> list[tuple[int, Any, Any, Any]] | None:
    """Strides and an offset in memory as slices (axis, start, stop, step); None where they are something else."""
    p = step.params
    found = [_dimensions(node.params, node.inputs[0].shape) for node in step.nodes]
    if any(f is None or len(f) != len(found[0] or ()) for f in found) or not found[0]:
        return None
    del p
    if any(f != found[0] for f in found):
        return None
    return [(axis, start, FAR if whole else stop, hop) for axis, (start, stop, hop, whole) in enumerate(found[0])]


def _dimensions(p: dict[str, Any], shape: Any) -> list[tuple[int, int, int, bool]] | None:
    layout, size, stride, offset = tuple(p["layout"]), tuple(p["size"]), tuple(p["stride"]), int(p["offset"])
    dense = tuple(math.prod(shape[k + 1 :]) for k in range(len(shape)))
    if len(size) != len(shape) or (layout and layout != dense):
        return None
    found = []
    for length, unit, count, hop in zip(shape, dense, size, stride, strict=True):
        start, offset = divmod(offset, unit)
        if count > 1 and hop % unit:
            return None
        step = hop // unit if count > 1 else 1
        if step < 1 or start + (count - 1) * step >= length:
            return None
        whole = start + count * step >= length
        found.append((start, start + (count - 1) * step + 1, step, whole))
    return found


@writes("StridedRead AsStrided")
def strided_read(b: Builder, step: Step, x: str) -> str:
    cuts = _window(step)
    if cuts is not None:
        return _cut(b, x, [c for c, n in zip(cuts, step.inputs[0].shape, strict=True) if c[1:] != (0, FAR, 1)])
    places = _flat_places(step)
    flat = b.emit("Reshape", [x, b.ints([-1])])
    return b.emit("Gather", [flat, b.constant(places, np.int64)], axis=0)


def _flat_places(step: Step) -> np.ndarray:
    """Where in memory the elements of a window lie, counted as in the tensor; for fixed sizes only."""
    if len(step.nodes) > 1 and len({node.inputs[0].shape for node in step.nodes}) > 1:
        raise UnsupportedError(f"onnx.export: {step.line}: a window of memory whose place depends on a dynamic size")
    p = step.nodes[0].params
    shape = step.nodes[0].inputs[0].shape
    layout = tuple(p["layout"]) or tuple(math.prod(shape[k + 1 :]) for k in range(len(shape)))
    where = np.full(sum((n - 1) * s for n, s in zip(shape, layout, strict=True)) + 1, -1)
    own = sum(
        (np.arange(n) * s).reshape([-1, *[1] * (len(shape) - 1 - k)])
        for k, (n, s) in enumerate(zip(shape, layout, strict=True))
    )
    where[np.asarray(own).reshape(-1)] = np.arange(math.prod(shape))
    size, stride = tuple(p["size"]), tuple(p["stride"])
    read = sum(
        (np.arange(n) * s).reshape([-1, *[1] * (len(size) - 1 - k)])
        for k, (n, s) in enumerate(zip(size, stride, strict=True))
    )
    return where[np.broadcast_to(np.asarray(read) + int(p["offset"]), size)]


@writes("StridedReplace")
def strided_replace(b: Builder, step: Step, x: str, value: str) -> str:
    """x with a window replaced: what lies before, the new part, what lies behind, along the one axis that is cut."""
    cuts = _window(step)
    part, whole = step.inputs[1], step.inputs[0]
    value = b.cast(value, part.dtype, whole.dtype)
    if cuts is not None:
        changed = [c for c in cuts if c[1:] != (0, FAR, 1)]
        if not changed:
            return b.expanded(value, part.shape, whole.shape)
        if len(changed) == 1 and changed[0][3] == 1:
            axis, start, stop, _ = changed[0]
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
