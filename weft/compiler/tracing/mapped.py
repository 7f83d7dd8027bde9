"""Loops and branches inside `vmap` while a function is traced: the loop runs on plain tensors that carry the batches in
front, and its body sees single examples."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from typing import Any

from ...autograd.batched import Level, entered, levels_of, lifted, live_levels, lowered
from ...errors import TransformError
from ...ops.core.batching import from_front, to_front
from ...tensor import Tensor
from . import control

__all__ = ["cond", "scan", "while_loop"]


def scan(
    tracer: Any, name: str, step: Callable, init: list[Tensor], xs: list[Tensor], length: int, reverse: bool
) -> tuple[list[Tensor], list[Tensor]]:
    """`control.scan` inside any number of vmaps. Carried tensors and results vary over all of them."""
    levels = live_levels()
    if not levels:
        return control.scan(tracer, name, step, init, xs, length, reverse)
    down, up = lambda x: lowered(levels, x), lambda x: lifted(levels, x)
    over = [levels_of(x) for x in xs]

    def plain_step(carry: list[Tensor], row: list[Tensor], *when: str) -> tuple[list[Tensor], list[Tensor]]:
        with _inside(levels):
            after, ys = step(list(map(up, carry)), [lifted(own, x) for own, x in zip(over, row, strict=True)])
            return list(map(down, after)), list(map(down, ys))

    # (*batches, T, …) → (T, *batches, …)
    stacks = [to_front(lowered(own, x), len(own)) for own, x in zip(over, xs, strict=True)]
    with entered(()):
        carry, ys = control.scan(tracer, name, plain_step, list(map(down, init)), stacks, length, reverse)
        ys = [from_front(y, len(levels)) for y in ys]  # (T, *batches, …) → (*batches, T, …)
    return list(map(up, carry)), list(map(up, ys))


def _inside(levels: Sequence[Level]) -> AbstractContextManager[None]:
    """Inside of these vmaps, besides those that run already."""
    return entered(sorted({*live_levels(), *levels}, key=lambda level: level.level))


def cond(tracer: Any, pred: Tensor, true_branch: Callable, false_branch: Callable) -> list[Tensor]:
    """`control.cond` inside vmaps over which the condition does not vary."""
    levels = live_levels()
    if not levels:
        return control.cond(tracer, pred, true_branch, false_branch)
    _check_same_for_all(pred)

    def plain(branch: Callable[[], list[Tensor]]) -> Callable[[], list[Tensor]]:
        def run() -> list[Tensor]:
            with _inside(levels):
                return [lowered(levels, x) for x in branch()]

        return run

    with entered(()):
        found = control.cond(tracer, pred, plain(true_branch), plain(false_branch))
    return [lifted(levels, x) for x in found]


def while_loop(tracer: Any, name: str, test: Callable, step: Callable, init: list[Tensor]) -> list[Tensor]:
    """`control.while_loop` inside vmaps over which the condition does not vary; a carry varies over those that its first
    value varies over."""
    levels = live_levels()
    if not levels:
        return control.while_loop(tracer, name, test, step, init)
    over = [levels_of(x) for x in init]
    down = lambda carry: [lowered(own, x) for own, x in zip(over, carry, strict=True)]
    up = lambda carry: [lifted(own, x) for own, x in zip(over, carry, strict=True)]

    def plain_test(carry: list[Tensor]) -> Tensor:
        with entered(levels):
            pred = test(up(carry))
            _check_same_for_all(pred)
            return pred

    def plain_step(carry: list[Tensor]) -> list[Tensor]:
        with entered(levels):
            after = step(up(carry))
            if any(level not in own for own, x in zip(over, after, strict=True) for level in levels_of(x)):
                raise TransformError(
                    f"{name}: vmap: a carried tensor is the same for all examples at first and varies over them later; "
                    "start with one that varies, for example x + 0 * mapped"
                )
            return down(after)

    with entered(()):
        found = control.while_loop(tracer, name, plain_test, plain_step, down(init))
    return up(found)


def _check_same_for_all(pred: Tensor) -> None:
    if levels_of(pred):
        bool(pred)  # says why not
