"""Operations of eager code on large arrays: each is a plan of its own, run by the worker pool.

`run` is what a primitive calls in the place of NumPy when an array is large. Whether an operation on arrays of some
geometry gets a plan is decided when it is first met, by sizes alone, and stays so: the same operation on the same arrays
gives the same bits all the time. What has no native form, and what would gain too little by one, stays with NumPy.

`WEFT_EAGER_NATIVE=0` switches this off; `WEFT_EAGER_NATIVE=always` builds plans for arrays of any size.
"""

from __future__ import annotations

import ctypes
import time
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from ..kernels.pool import get_pool
from ..ops.core import base
from ..ops.core.pointwise import Elementwise
from ..ops.core.primitive import Contraction, Primitive, Reduction, Window
from ..runtime import fallbacks, timing
from ..runtime.locks import fork_safe_lock, held_by_me, unforked
from ..runtime.threads import ONE_BLAS_THREAD, get_num_threads
from ..tape.modes import mode
from .plan.buffers import address, aligned

if TYPE_CHECKING:
    from .plan.plan import Plan

ndarray, empty = np.ndarray, np.empty

# From where on a plan is worth building: that takes 10 to 50 ms, or 2 to 5 ms from the cache on disk. Microseconds of
# NumPy / of a plan on one thread (Zen 4), float32; a second thread costs 1 µs and halves the rest but the first 4 µs:
#   elements     x + y    exp x    tanh x    Σ x    softmax    normalisation of rows
#   2¹⁴           2/6      8/6      7/9      4/4     41/11      33/9
#   2¹⁶           9/12    29/16    23/28    11/6    149/36      86/20
#   2¹⁸          33/39   119/55    95/104   42/16   595/135    307/66
ELEMENTS = 1 << 18  # of a cheap elementwise operation, or a copy: on several threads only
COSTLY_ELEMENTS = base.LARGE_POINTS  # of one that costs more than COSTLY, and of a reduction
COSTLY = 4
PRODUCTS = 1 << 20  # multiplications of a matrix product: 44/40 for two matrices of 128 × 128
PARTS = 1 << 14  # elements of what takes several passes

FREE_PLANS, PLANS_PER_SECOND = 512, 1  # of a process; more come from sizes that always change, and do not pay
PAID = 3  # runs after which a plan does not count: sizes come again
MOST_KNOWN = 4096  # remembered
MOST_ARRAYS = 32  # of one operation
LONGEST = 1 << 13  # row or column that is added up in float32 without blocks: errors stay near 10⁻⁶

NEVER_SHARED = (Elementwise, Reduction)  # primitives that no library computes by several threads
_known: dict[Any, EagerPlan | None] = {}  # None where NumPy is to be used
_running, _building = fork_safe_lock(), fork_safe_lock()
_plans, _begin = 0, time.monotonic()


def run(primitive: Primitive, compute: Callable, arrays: Sequence[Any], params: dict[str, Any]) -> Any:
    """What `compute(*arrays, **params)` gives, by a plan where there is one."""
    key = _key(primitive, arrays, params)
    if key is None:
        return _by_numpy(primitive, compute, arrays, params)
    try:
        found = _known[key]
    except KeyError:
        result = _by_numpy(primitive, compute, arrays, params)  # also refuses what cannot be computed
        found = _decided(key, primitive, arrays, params, result)
        if found is None:
            return result
    except TypeError:  # a parameter that cannot be a key
        found = None
    if found is not None:
        result = found(arrays)
        if result is not None:
            return result
    return _by_numpy(primitive, compute, arrays, params)


def _by_numpy(primitive: Primitive, compute: Callable, arrays: Sequence[Any], params: dict[str, Any]) -> Any:
    """Products by one thread of the library under NumPy: how it shares them out shows in the last bits.

    Those that would gain much by several threads have plans.
    """
    if not isinstance(primitive, NEVER_SHARED) and get_num_threads() > 1 and _is_shared_out(primitive, arrays):
        with ONE_BLAS_THREAD:
            return mode.call(compute, *arrays, **params)
    return mode.call(compute, *arrays, **params)


def _is_shared_out(primitive: Primitive, arrays: Sequence[Any]) -> bool:
    """Whether OpenBLAS might take several threads."""
    if not isinstance(primitive, Contraction):
        return isinstance(primitive, Window) or primitive.parts is not None
    a, b = arrays[:2]
    if a.size == 0 or b.size == 0:
        return False
    inner = a.shape[-1] if a.ndim else 1
    products = a.size * (b.size // inner)
    return products > (10_000 if products == inner else 1 << 18)


def compute(primitive: Primitive, arrays: Sequence[ndarray], params: dict[str, Any]) -> Any:
    """What a plan of a primitive with `parts` gives; None where there is none."""
    key = _key(primitive, arrays, params)
    found = _known[key] if key in _known else _decided(key, primitive, arrays, params, None)
    return None if found is None else found(arrays)


def _key(primitive: Primitive, arrays: Sequence[Any], params: dict[str, Any]) -> Any:
    """What a plan depends on; None: there is no plan for such arguments."""
    if len(arrays) > MOST_ARRAYS:
        return None
    key = [primitive, get_num_threads()]
    for a in arrays:
        if a.__class__ is not ndarray:
            return None
        key += a.shape, a.strides, a.dtype
    if not params:
        return tuple(key)
    for name, value in params.items():
        key += name, value
        if value.__class__ is float and value == 0:  # 0.0 and -0.0 are equal keys
            key.append(str(value))
    return tuple(key)


def _decided(
    key: Any, primitive: Primitive, arrays: Sequence[ndarray], params: dict[str, Any], result: Any
) -> EagerPlan | None:
    """A plan, where it can be built and is worth it; remembered."""
    global _plans
    always, found = base.LARGE == 0, None
    if is_native(primitive, arrays, result) and (always or is_worth_it(primitive, arrays, result)):
        if held_by_me(_building) or held_by_me(_running):
            return None
        with unforked(), _building:
            if key in _known:
                return _known[key]
            if always or _plans < FREE_PLANS + PLANS_PER_SECOND * (time.monotonic() - _begin):
                _plans += 1
                try:
                    found = _built(primitive, arrays, params, result)
                except Exception as error:
                    fallbacks.note(primitive.title, error)
    _known[key] = found
    if len(_known) > MOST_KNOWN:
        _known.pop(next(iter(_known)), None)
    return found


def is_native(primitive: Primitive, arrays: Sequence[ndarray], result: Any) -> bool:
    """Whether there may be a native form that computes the same as NumPy, errors and accuracy included."""
    if not arrays or not all(a.size and a.flags.aligned for a in arrays):
        return False
    if not all(a.dtype in _TYPES for a in arrays) or arrays[primitive.typed].dtype not in _FLOATS:
        return False
    if any(min(a.strides, default=0) < 0 for a in arrays):
        return False
    if isinstance(primitive, Elementwise):
        return primitive.lower is not None
    if isinstance(primitive, Reduction) and arrays[0].itemsize < 8:
        if result.size > 1 and arrays[0].size > LONGEST * result.size:
            return False
    if isinstance(primitive, Reduction) and primitive.combine is not None:
        return True
    return not (primitive.parts is primitive.native is primitive.pieces is None)


_FLOATS = frozenset({np.dtype(np.float32), np.dtype(np.float64)})
_TYPES = _FLOATS | {np.dtype(np.bool_), np.dtype(np.uint8), np.dtype(np.int64)}


def is_worth_it(primitive: Primitive, arrays: Sequence[ndarray], result: Any) -> bool:
    """Whether a plan is faster than NumPy on arrays of these sizes."""
    results = result if result.__class__ is tuple else () if result is None else (result,)
    largest = max(a.size for a in (*arrays, *results))
    cheap = isinstance(primitive, Elementwise) and primitive.cost <= COSTLY
    if cheap or primitive.pieces is not None:
        return largest >= ELEMENTS and get_num_threads() > 1
    if isinstance(primitive, (Elementwise, Reduction)):
        return largest >= COSTLY_ELEMENTS
    if isinstance(primitive, Contraction):
        return result.size * arrays[0].shape[-1] >= PRODUCTS
    return largest >= PARTS


# ------------------------------------------------------------------------------------------ plans


def _built(primitive: Primitive, arrays: Sequence[ndarray], params: dict[str, Any], result: Any) -> EagerPlan | None:
    """A plan of the one operation with results like this one; None where a part of it would be computed by NumPy."""
    from ..autograd.batched import entered
    from . import build_plan
    from .graph.graph import Argument, Graph
    from .passes.expand import results_of

    order = None
    if isinstance(primitive, Elementwise) and not np.asarray(result).flags.c_contiguous:
        strides = result.strides  # as NumPy chose them: the dimensions are put in this order
        order = sorted(range(result.ndim), key=lambda d: (-strides[d], d))
        arrays, result = [_turned(a, order) for a in arrays], _turned(result, order)
    graph = Graph()
    places = [None if a.flags.c_contiguous else a.strides for a in arrays]
    values = [graph.source(Argument(n, places[n]), a.shape, a.dtype) for n, a in enumerate(arrays)]
    many = result is None or result.__class__ is tuple
    with entered(()):  # a vmap that is going on has no part in this
        kinds = results_of(primitive, values, params) if result is None else result if many else (result,)
        graph.outputs = list(graph.add(primitive, values, params).make(*((np.shape(r), r.dtype) for r in kinds)))
        plan = build_plan(graph)
    return EagerPlan(primitive.name, plan, len(arrays), many, order) if plan.is_native and not plan.spans else None


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
    """A plan whose arguments and results lie elsewhere at every call. None: an index was out of range, or a signal handler
    computes in the middle of such a call."""

    def __init__(self, name: str, plan: Plan, arguments: int, many: bool, order: Sequence[int] | None) -> None:
        (self.segment,), self.threads, self.many = plan.segments, plan.threads, many
        self.name = name
        self.kept = plan.words, plan.native_tables, plan.handles, plan.arrays
        self.flag = plan.flag if address(plan.flag) in plan.words else None
        self.cells = (ctypes.c_int64 * len(plan.words)).from_buffer(plan.words)
        self.results = [_form(v.shape, v.dtype, order) for v in plan.outputs]
        numbers = {v: position for position, v in plan.arguments}
        numbers |= {v: arguments + n for n, v in enumerate(plan.outputs)}
        self.places = [(numbers[v], *place) for v, places in plan.patches.items() if v in numbers for place in places]
        self.runs = 0
        self.base, size = address(plan.memory), plan.memory.size
        inside = (plan.words >= self.base) & (plan.words < self.base + size)
        self.inner = [int(word) for word in np.flatnonzero(inside)] if size else []
        with _running:
            _arena.reserve(size)

    def __call__(self, arrays: Sequence[ndarray]) -> Any:
        if not timing.listeners:
            return self._run(arrays)
        begin = time.perf_counter_ns()
        result = self._run(arrays)
        timing.tell(self.name, "kernel", begin, time.perf_counter_ns() - begin)
        return result

    def _run(self, arrays: Sequence[ndarray]) -> Any:
        global _plans
        if held_by_me(_running):  # the cells of the plan that is about to run must stay
            return None
        made = [empty(*form) if len(form) == 2 else ndarray(*form) for form in self.results]
        starts = [address(a) for a in (*arrays, *made)]
        cells = self.cells
        with _running:
            self.runs += 1
            if self.runs == PAID:
                _plans -= 1
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
    from .graph.geometry import contiguous_strides

    if order is None:
        return shape, kind
    sizes, strides = [0] * len(shape), [0] * len(shape)
    for d, size, stride in zip(order, shape, contiguous_strides(shape, kind.itemsize), strict=True):
        sizes[d], strides[d] = size, stride
    return tuple(sizes), kind, None, 0, tuple(strides)
