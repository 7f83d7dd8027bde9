"""Branches and loops: the graphs inside of a node as functions.

A condition or a number of rounds that is known is Python's; one that is computed is asked for when it is needed, which
compiled code does as well. `Scan` is `weft.scan`, one node of a compiled graph.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

import weft

from ...errors import InvalidValueError
from ...random import fork_rng
from ...tape.modes import no_grad
from ...tensor import Tensor
from .registry import as_array, as_tensor, rule

Body = Callable[[Sequence[Any]], tuple[Any, ...]]
MOST_ROUNDS = 10_000_000


@rule("If", raw=True)
def if_(condition: Any, *, then_branch: Body, else_branch: Body) -> tuple[Any, ...]:
    return (then_branch if bool(as_array(condition).reshape(-1)[0]) else else_branch)(())


@rule("Loop", raw=True)
def loop(limit: Any, condition: Any, *carried: Any, body: Body, outputs: int = 0) -> tuple[Any, ...]:
    """body(round, condition, *carried) → condition, *carried, *scanned; the scanned values are stacked."""
    rounds = None if limit is None else int(as_array(limit).reshape(-1)[0])
    go_on = condition is None or bool(as_array(condition).reshape(-1)[0])
    state, rows, count = list(carried), [], 0
    while go_on and (rounds is None or count < rounds):
        if count >= MOST_ROUNDS:
            raise InvalidValueError(f"Loop: more than {MOST_ROUNDS} rounds; its condition never ends it")
        now, *found = body((np.array(count, np.int64), np.array(True), *state))
        state = found[: len(carried)]
        rows.append(found[len(carried) :])
        count += 1
        go_on = condition is None or bool(as_array(now).reshape(-1)[0])
    if not rows and outputs > len(carried):
        return *state, *_no_rows(body, state)
    return *state, *(_stacked(column) for column in zip(*rows, strict=True))


def _no_rows(body: Body, state: Sequence[Any]) -> list[Any]:
    """What no rounds stack: one round, of which nothing else is kept, tells the sizes."""
    with no_grad(), fork_rng():
        _, *found = body((np.array(0, np.int64), np.array(True), *state))
    rows = [as_tensor(y) for y in found[len(state) :]]
    return [np.zeros((0, *y.shape), y.dtype.np) for y in rows]


def _stacked(values: Sequence[Any]) -> Any:
    if all(isinstance(v, np.ndarray) for v in values):
        return np.stack(values)
    return weft.stack([as_tensor(v) for v in values])


@rule("Scan", 9, raw=True)
def scan(
    *values: Any,
    body: Body,
    num_scan_inputs: int,
    scan_input_axes: list[int] | None = None,
    scan_input_directions: list[int] | None = None,
    scan_output_axes: list[int] | None = None,
    scan_output_directions: list[int] | None = None,
) -> tuple[Any, ...]:
    """The body over slices of the last inputs, with a state carried along."""
    count = len(values) - num_scan_inputs
    state, rows = [as_tensor(v) for v in values[:count]], [as_tensor(v) for v in values[count:]]
    rows = [_first(x, axis) for x, axis in zip(rows, scan_input_axes or [0] * len(rows), strict=True)]
    rows = [x.flip(0) if back else x for x, back in zip(rows, scan_input_directions or [0] * len(rows), strict=True)]

    def step(carry: list[Tensor], row: list[Tensor]) -> tuple[list[Tensor], list[Tensor]]:
        found = [as_tensor(v) for v in body((*carry, *row))]
        return found[:count], found[count:]

    final, made = weft.scan(step, state, rows)
    made = [y.flip(0) if back else y for y, back in zip(made, scan_output_directions or [0] * len(made), strict=True)]
    made = [y.movedim(0, axis) for y, axis in zip(made, scan_output_axes or [0] * len(made), strict=True)]
    return *final, *made


def _first(x: Tensor, axis: int) -> Tensor:
    return x.movedim(axis, 0)


@rule("Scan", 8, raw=True)
def scan_batched(
    lengths: Any, *values: Any, body: Body, num_scan_inputs: int, directions: list[int] | None = None
) -> tuple[Any, ...]:
    """Opset 8: every value has a batch in front, whose examples are scanned one by one."""
    found = [
        scan(
            *(as_tensor(v)[k] for v in values),
            body=body,
            num_scan_inputs=num_scan_inputs,
            scan_input_directions=directions,
        )
        for k in range(values[0].shape[0])
    ]
    return tuple(weft.stack(list(column)) for column in zip(*found, strict=True))
