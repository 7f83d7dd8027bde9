"""Operations of eager code on large arrays: each is a plan of its own, run by the worker pool.

`run` is what a primitive calls in the place of NumPy when an array is large. An operation on arrays of some geometry is
computed by NumPy the first few times; then a plan is built, and from there on used. What has no native form, and what
is too small to gain by one, stays with NumPy.

`WEFT_EAGER_NATIVE=0` switches this off; `WEFT_EAGER_NATIVE=always` builds a plan for every array at its first use.
"""

from __future__ import annotations

import ctypes
import os
import sys
import threading
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from ..autograd.modes import mode
from ..ops import base
from ..ops.primitive import Contraction, Elementwise, Primitive, Reduction
from ..runtime.pool import get_pool
from ..runtime.settings import are_deterministic_algorithms_enabled
from ..runtime.threads import get_num_threads
from .buffers import address, aligned

if TYPE_CHECKING:
    from .plan import Plan

ndarray, empty = np.ndarray, np.empty

# Where a plan is faster than NumPy, measured on two threads of Zen 4 with the workers awake (microseconds NumPy / plan).
# A call of a plan costs about 4 µs, meeting the workers about as much again.
ELEMENTS = 1 << 17  # times cost, of an elementwise operation
REDUCED = 1 << 16  # elements of a reduction
PRODUCTS = 1 << 20  # multiplications of a matrix product
CALLS = 3  # of one operation and geometry before a plan is built: many never come again
WORK = 1 << 20  # elements that these calls must have seen
FREE_PLANS = 128  # built without asking whether it pays
BUILDING = 1 << 24  # elements that NumPy computes in the time that one more is built
MOST_KNOWN, MOST_FAILURES = 2048, 16  # remembered

_known: dict[Any, Any] = {}  # plans; numbers of calls so far; None where NumPy is to be used
failures: list[tuple[str, Exception]] = []  # why plans could not be built, the last ones
_lock, _building = threading.Lock(), threading.Lock()
_credit = FREE_PLANS * BUILDING


def run(primitive: Primitive, compute: Callable, arrays: Sequence[Any], params: dict[str, Any]) -> Any:
    """What `compute(*arrays, **params)` gives, by a plan where there is one."""
    key = [primitive, get_num_threads()]
    for a in arrays:
        if a.__class__ is not ndarray:
            return mode.run(compute, *arrays, **params)
        key += a.shape, a.strides, a.dtype
    for name, value in params.items():
        key += name, value
        if value.__class__ is float and value == 0:  # 0.0 and -0.0 are equal keys
            key.append(str(value))
    key = tuple(key)
    try:
        found = _known.get(key, 0)
    except TypeError:  # a parameter that cannot be a key
        return mode.run(compute, *arrays, **params)
    if found is not None and found.__class__ is not EagerPlan:
        found = _known[key] = _tried(primitive, arrays, params, found)
        if len(_known) > MOST_KNOWN:
            del _known[next(iter(_known))]
    if found.__class__ is EagerPlan:
        result = found(arrays)
        if result is not None:
            return result
    return mode.run(compute, *arrays, **params)


def _tried(primitive: Primitive, arrays: Sequence[ndarray], params: dict[str, Any], calls: int) -> Any:
    """A plan if it is time for one and it can be built, else the number of calls so far, or None for never."""
    global _credit
    always = base.LARGE == 0
    if calls == 0 and not (is_native(primitive, arrays, params) and (always or is_worth_it(primitive, arrays))):
        return None
    calls, work = calls + 1, sum(a.size for a in arrays)
    _credit += work
    if not (always or are_deterministic_algorithms_enabled()):
        if calls <= CALLS or calls * work < WORK or _credit < BUILDING:
            return calls
    if not _building.acquire(blocking=False):
        return calls
    try:
        if _is_inside():
            return calls
        _credit -= BUILDING
        return _built(primitive, arrays, params)
    except Exception as error:
        failures.append((primitive.title, error))
        del failures[:-MOST_FAILURES]
        return None
    finally:
        _building.release()


def _is_inside() -> bool:
    """Whether a trace or a vmap is going on, in which no other trace can be made."""
    from ..autograd.batched import live_levels
    from .traced import OVERLAY

    return OVERLAY.traces > 0 or bool(live_levels())


def is_native(primitive: Primitive, arrays: Sequence[ndarray], params: dict[str, Any]) -> bool:
    """Whether there may be a native form that computes the same as NumPy, errors included."""
    if not arrays or not all(a.size and a.flags.aligned for a in arrays):
        return False
    if not all(a.dtype in _TYPES for a in arrays) or arrays[0].dtype not in _FLOATS:
        return False
    if isinstance(primitive, Elementwise):
        return primitive.lower is not None
    if isinstance(primitive, Reduction) and primitive.combine is not None:
        return True
    return not (primitive.parts is primitive.native is primitive.pieces is None)


_FLOATS = frozenset({np.dtype(np.float32), np.dtype(np.float64)})
_TYPES = _FLOATS | {np.dtype(np.bool_), np.dtype(np.uint8), np.dtype(np.int64)}


def is_worth_it(primitive: Primitive, arrays: Sequence[ndarray]) -> bool:
    """Whether a plan is faster than NumPy on arrays of these sizes."""
    largest = max(a.size for a in arrays)
    if isinstance(primitive, Elementwise):
        return largest * primitive.cost >= ELEMENTS
    if isinstance(primitive, Contraction):
        return largest * min(s for a in arrays for s in a.shape[-2:]) >= PRODUCTS
    return largest >= REDUCED if isinstance(primitive, Reduction) else True


# ------------------------------------------------------------------------------------------ plans


def _built(primitive: Primitive, arrays: Sequence[ndarray], params: dict[str, Any]) -> EagerPlan | None:
    """A plan of the one operation; None where a part of it would be computed by NumPy after all."""
    from . import build_plan, infer
    from .graph import Argument, Graph

    graph, order, many = Graph(), None, False
    if isinstance(primitive, Elementwise):
        shape = np.broadcast_shapes(*(a.shape for a in arrays))
        kind = infer.result_dtype(primitive, [a.dtype for a in arrays], params)
        likeness = infer.strides_like(arrays, shape, kind, params)
        if likeness is not None:  # dimensions in the order in which the result lies in memory
            order = sorted(range(len(shape)), key=lambda d: (-likeness.strides[d], d))
            arrays = [_turned(a, order) for a in arrays]
            shape = tuple(shape[d] for d in order)
        kinds = [(shape, kind)]
    strides = [None if a.flags.c_contiguous else a.strides for a in arrays]
    values = [graph.source(Argument(n, strides[n]), a.shape, a.dtype) for n, a in enumerate(arrays)]
    if not isinstance(primitive, Elementwise):
        kinds, many = infer.results_of(primitive, values, params)
    graph.outputs = list(graph.add(primitive, values, params).make(*kinds))
    plan = build_plan(graph)
    if not plan.is_native or plan.spans:
        return None
    return EagerPlan(plan, len(arrays), many, order)


def _turned(a: ndarray, order: Sequence[int]) -> ndarray:
    """An operand with its dimensions in another order; missing ones are of size 1."""
    return a.reshape((1,) * (len(order) - a.ndim) + a.shape).transpose(order)


class _Arena:
    """Memory for what plans need while they run; one runs at a time, so all share it."""

    def __init__(self) -> None:
        self.memory, self.address, self.size = aligned(0), 0, 0

    def reserve(self, size: int) -> None:
        if size > self.size:
            self.memory, self.size = aligned(size), size
            self.address = address(self.memory)


_arena = _Arena()


class EagerPlan:
    """A plan whose arguments and results lie elsewhere at every call. None: an index was out of range."""

    def __init__(self, plan: Plan, arguments: int, many: bool, order: Sequence[int] | None) -> None:
        (self.segment,), self.threads, self.many = plan.segments, plan.threads, many
        self.kept = plan.words, plan.native_tables, plan.handles, plan.arrays
        self.flag = plan.flag if address(plan.flag) in plan.words else None
        self.cells = (ctypes.c_int64 * len(plan.words)).from_buffer(plan.words)
        self.results = [_form(v.shape, v.dtype, order) for v in plan.outputs]
        numbers = {v: position for position, v in plan.arguments}
        numbers |= {v: arguments + n for n, v in enumerate(plan.outputs)}
        self.places = [(numbers[v], *place) for v, places in plan.patches.items() if v in numbers for place in places]
        self.base, size = address(plan.memory), plan.memory.size
        inside = (plan.words >= self.base) & (plan.words < self.base + size)
        self.inner = [int(word) for word in np.flatnonzero(inside)] if size else []
        _arena.reserve(size)

    def __call__(self, arrays: Sequence[ndarray]) -> Any:
        made = [empty(*form) if len(form) == 2 else ndarray(*form) for form in self.results]
        starts = [pointer(a) for a in (*arrays, *made)]
        cells = self.cells
        with _lock:
            if self.base != _arena.address:
                self._move(_arena.address)
            for number, word, offset in self.places:
                cells[word] = starts[number] + offset
            get_pool(self.threads).run(self.segment)
        if self.flag is not None and self.flag[0]:
            self.flag[0] = 0
            return None
        return tuple(made) if self.many else made[0]

    def _move(self, base: int) -> None:
        """Use the memory at `base`."""
        for word in self.inner:
            self.cells[word] += base - self.base
        self.base = base


def _form(shape: tuple[int, ...], kind: np.dtype, order: Sequence[int] | None) -> tuple[Any, ...]:
    """What NumPy needs to make a result whose dimensions lie in memory in the given order; here they are in that order."""
    from .geometry import contiguous_strides

    if order is None:
        return shape, kind
    sizes, strides = [0] * len(shape), [0] * len(shape)
    for d, size, stride in zip(order, shape, contiguous_strides(shape, kind.itemsize), strict=True):
        sizes[d], strides[d] = size, stride
    return tuple(sizes), kind, None, 0, tuple(strides)


_HEAD = object.__basicsize__  # an array begins with what every object has, then the address of its data


def _quick_pointer(array: ndarray) -> int:
    return ctypes.c_int64.from_address(id(array) + _HEAD).value


_probe = np.zeros(3)
pointer = address
if sys.implementation.name == "cpython" and _quick_pointer(_probe) == address(_probe):
    pointer = _quick_pointer  # ten times faster


def _after_fork() -> None:
    global _lock, _building
    failures: list[tuple[str, Exception]] = []  # why plans could not be built, the last ones
_lock, _building = threading.Lock(), threading.Lock()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)
