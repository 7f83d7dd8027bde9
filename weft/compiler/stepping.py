"""The step of an optimiser over large parameters as one plan: parameters, gradients and state in a single pass each.

What the optimiser does to every parameter is traced once and bound to these parameters and their state; gradients may
lie elsewhere at every step. Options of the groups are read anew. Whatever does not fit is left to the optimiser itself.
"""

from __future__ import annotations

import ctypes
import operator
import time
import weakref
from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from ..autograd.batched import live_levels
from ..kernels.pool import get_pool
from ..runtime import fallbacks, timing
from ..runtime.locks import fork_safe_lock, held_by_me
from ..runtime.threads import get_num_threads
from ..tape.interpreter import interpreter_of
from ..tape.modes import mode
from ..tensor import Tensor
from .plan.buffers import address

if TYPE_CHECKING:
    from ..optim.optimizer import Optimizer
    from .compiled import Bound

__all__ = ["step_natively"]

MOST_BUILT = 16  # plans of one optimiser: what keeps changing is not worth more
FLOATS = frozenset({np.dtype(np.float32), np.dtype(np.float64)})

_known: weakref.WeakKeyDictionary[Optimizer, _Known] = weakref.WeakKeyDictionary()
_lock = fork_safe_lock()


class _Known:
    """What was built for one optimiser."""

    built = 0
    step: NativeStep | None = None
    hopeless = False


def step_natively(optimizer: Optimizer, parameters: Sequence[Tensor]) -> bool:
    """Update the parameters, all of which have gradients, by a plan; False: nothing was done."""
    if held_by_me(_lock):  # a signal handler in the middle of a step
        return False
    with _lock:
        known = _known.setdefault(optimizer, _Known())
        if known.hopeless or mode.forward or live_levels() or not all(map(_is_plain, parameters)):
            return False
        if known.step is not None and known.step.holds(optimizer, parameters):
            known.step.run()
            return True
        known.built += 1
        known.hopeless = known.built > MOST_BUILT or not _start(known, optimizer, parameters)
        return not known.hopeless


def _is_plain(parameter: Tensor) -> bool:
    """Whether parameter and gradient are dense arrays of floats in order, neither of them part of a transform."""
    gradient = parameter._grad
    if gradient.is_sparse or interpreter_of(parameter) is not None or gradient._interpreter is not None:
        return False
    a, b = parameter.array, gradient.array
    return a.dtype in FLOATS and b.dtype is a.dtype and a.flags.c_contiguous and b.flags.c_contiguous


def _start(known: _Known, optimizer: Optimizer, parameters: Sequence[Tensor]) -> bool:
    """Build the plan and make the step; False: there is no such plan."""
    from . import build_plan
    from .compiled import Bound
    from .trace import trace

    wanted = {id(p) for p in parameters}

    def update() -> None:
        for group in optimizer.param_groups:
            for p in group["params"]:
                if id(p) in wanted:
                    optimizer._update_one(p, p.grad, group)

    name = f"{type(optimizer).__name__}.step"
    try:
        program = trace(update, (), None)
    except Exception as error:  # the optimiser itself will say what is wrong, if anything is
        fallbacks.note(name, error, quietly=True)
        return False
    try:
        bound = Bound(program, build_plan)
    except Exception as error:
        fallbacks.note(name, error)
        return False
    gradients = {id(p._grad): number for number, p in enumerate(parameters)}
    if not all(isinstance(segment, int) for segment in bound.plan.segments):
        return False
    known.step = None
    if not bound.program.stores:  # a first step that makes a part of the state is not like the others
        if not _fits(bound, gradients, len(wanted)):
            return False
        known.step = NativeStep(optimizer, parameters, bound, gradients)
    bound.run(())
    return True


def _fits(bound: Bound, gradients: dict[int, int], count: int) -> bool:
    """Whether the plan writes everything in place, and reads every gradient where it lies."""
    plan, program = bound.plan, bound.program
    read = {id(value.node.op.tensor) for value in plan.captured if value in plan.patches}
    return (
        not (plan.spans or plan.closing or plan.outputs or program.streams)
        and len(gradients) == count
        and read.issuperset(gradients)
        and not any(id(x) in gradients for x in program.changed)
    )


class NativeStep:
    """A plan with the parameters, states and options that it is bound to."""

    def __init__(
        self, optimizer: Optimizer, parameters: Sequence[Tensor], bound: Bound, gradients: dict[int, int]
    ) -> None:
        plan, program = bound.plan, bound.program
        self.name = f"{type(optimizer).__name__}.step"
        self.parameters, self.threads, self.segments = list(parameters), plan.threads, plan.segments
        self.fetched, self.counters, self.guards = plan.fetched, bound.counters, program.guards
        self.tables = [(p, table, list(table.values())) for p in parameters if (table := optimizer.state.get(p))]
        self.fixed = [(x, array) for x, array in program.captured if id(x) not in gradients]
        self.shapes = [p._grad.array.shape for p in parameters]
        self.cells = (ctypes.c_int64 * len(plan.words)).from_buffer(plan.words)
        numbers = {value: gradients.get(id(value.node.op.tensor)) for value in plan.captured}
        self.places = [
            (number, *place) for v, number in numbers.items() if number is not None for place in plan.patches[v]
        ]
        arrays = [array for value, array in plan.arrays.items() if numbers.get(value) is None]
        self.kept = plan.words, plan.native_tables, plan.handles, plan.memory, arrays

    def holds(self, optimizer: Optimizer, parameters: Sequence[Tensor]) -> bool:
        """Whether parameters, states and options are those that the plan was made for."""
        if self.threads != get_num_threads() or len(parameters) != len(self.parameters):
            return False
        if not all(map(operator.is_, parameters, self.parameters)):
            return False
        for p, shape in zip(parameters, self.shapes, strict=True):
            if p._grad.array.shape != shape:
                return False
        for p, table, content in self.tables:
            if optimizer.state.get(p) is not table or len(table) != len(content):
                return False
            if not all(map(operator.is_, table.values(), content)):
                return False
        for x, array in self.fixed:
            if x.array is not array:
                return False
        return all(guard.holds() for guard in self.guards)

    def run(self) -> None:
        starts = [address(p._grad.array) for p in self.parameters]
        cells = self.cells
        for number, word, offset in self.places:
            cells[word] = starts[number] + offset
        for fetch, array in self.fetched:
            array[...] = fetch()
        pool, begin = get_pool(self.threads), time.perf_counter_ns()
        for segment in self.segments:
            pool.run(segment)
        if timing.listeners:
            timing.tell(self.name, "kernel", begin, time.perf_counter_ns() - begin)
        for counter in self.counters:
            counter[0] += 1
