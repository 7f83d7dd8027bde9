"""Reading and writing at places: gather and scatter in their three forms, one-hot, top-k, non-zero, unique."""

from __future__ import annotations

from typing import Any

import numpy as np

import weft

from ...tensor import Tensor, wrap
from .registry import as_array, as_tensor, known, rule


def _from_start(index: Tensor, size: int) -> Tensor:
    """Indices from the end as those from the start."""
    index = index.to(weft.int64)
    return weft.where(index < 0, index + size, index)


@rule("Gather", raw=True)
def gather(x: Any, index: Any, *, axis: int = 0) -> Any:
    """x[…, index, …]: the dimensions of the index take the place of `axis`."""
    if isinstance(x, np.ndarray) and isinstance(index, np.ndarray):
        return np.asarray(np.take(x, index, axis))
    x = as_tensor(x)
    axis %= x.ndim
    if known(index):
        whole = index.astype(np.int64)
        if whole.ndim == 0:
            return x.select(axis, int(whole))
        places = wrap(np.where(whole < 0, whole + x.shape[axis], whole))
    else:
        places = _from_start(index, x.shape[axis])
    found = x.index_select(axis, places.reshape(-1))
    return found.reshape([*x.shape[:axis], *places.shape, *x.shape[axis + 1 :]])


@rule("GatherElements")
def gather_elements(x: Tensor, index: Tensor, *, axis: int = 0) -> Tensor:
    return _part(x, index, axis).gather(axis, _from_start(index, x.shape[axis]))


def _part(x: Tensor, index: Tensor, axis: int) -> Tensor:
    """The corner of x that the index spans in the other dimensions."""
    for k in range(x.ndim):
        if k != axis % x.ndim and index.shape[k] < x.shape[k]:
            x = x.narrow(k, 0, index.shape[k])
    return x


@rule("GatherND")
def gather_nd(x: Tensor, index: Tensor, *, batch_dims: int = 0) -> Tensor:
    """x[b, index[b, …, :]] with the last dimension of the index as coordinates."""
    depth = index.shape[-1]
    coordinates = [_from_start(index.select(-1, k), x.shape[batch_dims + k]) for k in range(depth)]
    batch = [weft.arange(n).reshape([-1, *[1] * (index.ndim - 2 - k)]) for k, n in enumerate(x.shape[:batch_dims])]
    return x[tuple([*batch, *coordinates])]


@rule("Scatter ScatterElements")
def scatter_elements(x: Tensor, index: Tensor, updates: Tensor, *, axis: int = 0, reduction: str = "none") -> Tensor:
    places = _from_start(index, x.shape[axis])
    if reduction == "none":
        return x.scatter(axis, places, updates)
    how = {"add": "sum", "mul": "prod", "max": "amax", "min": "amin"}[reduction]
    return x.scatter_reduce(axis, places, updates, how, include_self=True)


@rule("ScatterND")
def scatter_nd(x: Tensor, index: Tensor, updates: Tensor, *, reduction: str = "none") -> Tensor:
    """A copy of x with `updates` put at the places x[index[…, :]], or combined with what is there."""
    depth = index.shape[-1]
    inner = tuple(x.shape[depth:])
    places = weft.zeros(tuple(index.shape[:-1]), dtype=weft.int64)
    for k in range(depth):  # the number of a row of x.reshape(rows, …)
        places = places * x.shape[k] + _from_start(index.select(-1, k), x.shape[k])
    rows = x.reshape([-1, *inner])
    flat = places.reshape(-1)
    given = updates.reshape([flat.shape[0], *inner])
    if reduction == "none":
        return rows.index_copy(0, flat, given).reshape(x.shape)
    how = {"add": "sum", "mul": "prod", "max": "amax", "min": "amin"}[reduction]
    wide = flat.reshape([-1, *[1] * len(inner)]).expand(given.shape)
    return rows.scatter_reduce(0, wide, given, how, include_self=True).reshape(x.shape)


@rule("TensorScatter", 24)
def tensor_scatter(
    past: Tensor, update: Tensor, write_indices: Tensor | None = None, *, axis: int = -2, mode: str = "linear"
) -> Tensor:
    """A cache of keys or values with new steps written from `write_indices[b]` on; round its end if circular."""
    axis %= past.ndim
    count, room = update.shape[axis], past.shape[axis]
    starts = weft.zeros(past.shape[0], dtype=weft.int64) if write_indices is None else write_indices
    places = starts.reshape(-1, 1) + weft.arange(count)  # (B, T)
    places = places % room if mode == "circular" else places
    form = [past.shape[0], *[1] * (past.ndim - 1)]
    form[axis] = count
    return past.scatter(axis, places.reshape(form).expand(update.shape), update)


@rule("OneHot", numbers=(1,), fixed=(2,))
def one_hot(index: Tensor, depth: np.ndarray, values: Tensor, *, axis: int = -1) -> Tensor:
    """values[1] at the places of the index along a new axis, values[0] elsewhere."""
    count = int(depth.reshape(-1)[0])
    axis %= index.ndim + 1
    places = weft.where(index < 0, index + count, index).unsqueeze(axis)
    line = weft.arange(count, dtype=weft.int64).to(index.dtype).reshape([-1, *[1] * (index.ndim - axis)])
    return weft.where(places == line, values[1], values[0])


@rule("NonZero", raw=True)
def non_zero(x: Any) -> Any:
    return np.stack([np.asarray(p, np.int64) for p in np.nonzero(np.atleast_1d(as_array(x)))])


@rule("TopK")
def top_k_old(x: Tensor, *, k: int, axis: int = -1) -> tuple[Tensor, Tensor]:
    return _top(x, k, axis, True)


@rule("TopK", 10, numbers=(1,))
def top_k(x: Tensor, k: np.ndarray, *, axis: int = -1, largest: int = 1, sorted: int = 1) -> tuple[Tensor, Tensor]:
    return _top(x, int(k.reshape(-1)[0]), axis, bool(largest))


def _top(x: Tensor, k: int, axis: int, largest: bool) -> tuple[Tensor, Tensor]:
    """Of equal elements the first comes first, which a stable order gives."""
    if k == 1:
        places = (x.argmax if largest else x.argmin)(axis, keepdim=True)
    else:
        places = weft.argsort(x, axis, descending=largest, stable=True).narrow(axis, 0, k)
    return x.gather(axis, places), places


@rule("Unique", raw=True)
def unique(x: Any, *, axis: int | None = None, sorted: int = 1) -> tuple[Any, ...]:
    array = as_array(x)
    values, first, inverse, counts = np.unique(array, True, True, True, axis=axis)
    inverse = inverse.reshape(-1)
    if not sorted:
        order = np.argsort(first)
        values, first, counts = np.take(values, order, axis or 0), first[order], counts[order]
        inverse = np.argsort(order)[inverse]
    return values, *(np.asarray(part, np.int64) for part in (first, inverse, counts))


@rule("ArrayFeatureExtractor", domain="ai.onnx.ml", raw=True)
def array_feature_extractor(x: Any, index: Any) -> Any:
    return as_tensor(x).index_select(-1, as_tensor(index).reshape(-1)).reshape(*x.shape[:-1], -1)


@rule("NonMaxSuppression", numbers=(0, 1, 2, 3, 4))
def non_max_suppression(
    boxes: np.ndarray,
    scores: np.ndarray,
    most: Any = None,
    overlap: Any = None,
    score: Any = None,
    *,
    center_point_box: int = 0,
) -> Tensor:
    """(batch, class, box) of the boxes that remain when those that overlap a better one are dropped."""
    limit = int(most.reshape(-1)[0]) if most is not None else 0
    least = float(score.reshape(-1)[0]) if score is not None else -np.inf
    allowed = float(overlap.reshape(-1)[0]) if overlap is not None else 0.0
    found = []
    for batch in range(scores.shape[0]):
        corners = _corners(boxes[batch], bool(center_point_box))
        for label in range(scores.shape[1]):
            kept = _suppressed(corners, scores[batch, label], limit, allowed, least)
            found += [(batch, label, box) for box in kept]
    return wrap(np.array(found, np.int64).reshape(-1, 3))


def _corners(boxes: np.ndarray, centered: bool) -> np.ndarray:
    if centered:
        x, y, w, h = boxes.T
        return np.stack([y - h / 2, x - w / 2, y + h / 2, x + w / 2], 1)
    a, b, c, d = boxes.T
    return np.stack([np.minimum(a, c), np.minimum(b, d), np.maximum(a, c), np.maximum(b, d)], 1)


def _suppressed(corners: np.ndarray, scores: np.ndarray, limit: int, allowed: float, least: float) -> list[int]:
    areas = (corners[:, 2] - corners[:, 0]) * (corners[:, 3] - corners[:, 1])
    order = [int(k) for k in np.argsort(-scores, kind="stable") if scores[k] > least]
    kept: list[int] = []
    for k in order:
        if len(kept) >= limit:
            break
        low = np.maximum(corners[kept, :2], corners[k, :2])
        high = np.minimum(corners[kept, 2:], corners[k, 2:])
        shared = np.prod(np.maximum(high - low, 0), 1) if kept else np.zeros(0)
        together = areas[kept] + areas[k] - shared if kept else np.zeros(0)
        if not np.any(shared > allowed * together):
            kept.append(k)
    return kept
