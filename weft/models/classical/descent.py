"""Minibatch gradient descent on data in memory, as a compiled step: what every trained classical model shares."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np
from numpy.typing import NDArray

import weft

from ...errors import OptionError, ShapeError
from ...nn.module import Module
from ...tensor import Tensor

__all__ = ["descend"]


def descend(
    model: Module,
    loss: Callable[[Tensor, Tensor], Tensor],
    x: Tensor,
    y: Tensor,
    *,
    lr: float = 0.1,
    epochs: int = 100,
    batch_size: int | None = None,
    momentum: float = 0.0,
    weight_decay: float = 0.0,
    seed: int = 0,
) -> list[float]:
    """Train by SGD, θ ← θ − lr · ∇ mean loss of a batch; returns the mean loss of each epoch.

    batch_size None takes all rows at once. The order of epoch e is a pure function of (seed, e); rows left over after
    the last full batch of an epoch sit out.

    >>> x = weft.linspace(-1, 1, 32)[:, None]
    >>> model = weft.nn.Linear(1, 1)
    >>> descend(model, weft.nn.functional.mse_loss, x, 3 * x, lr=0.5, epochs=100)[-1] < 1e-6
    True
    """
    if len(x) != len(y) or not len(x):
        raise ShapeError(
            f"descend: expected as many targets as rows, at least one, got {len(x)} rows, {len(y)} targets"
        )
    size = len(x) if batch_size is None else min(batch_size, len(x))
    if size < 1:
        raise OptionError(f"descend: expected batch_size >= 1 or None, got {batch_size}")
    step = _compiled_step(model, loss, lr, momentum, weight_decay)
    order = weft.Generator().manual_seed(seed)
    curve = []
    for epoch in range(epochs):
        chosen = [None] if size == len(x) else _batches(len(x), size, order.fold_in(epoch))
        losses = [step(x, y) if rows is None else step(x[rows], y[rows]) for rows in chosen]
        curve.append(float(np.mean([value.item() for value in losses])))
    return curve


def _compiled_step(model: Module, loss: Callable, lr: float, momentum: float, weight_decay: float) -> Callable:
    optimizer = weft.optim.SGD(model.parameters(), lr=lr, momentum=momentum, weight_decay=weight_decay)

    @weft.compile
    def step(x: Tensor, y: Tensor) -> Tensor:
        value = loss(model(x), y)
        optimizer.zero_grad()
        value.backward()
        optimizer.step()
        return value.detach()

    return step


def _batches(count: int, size: int, generator: weft.Generator) -> Iterator[NDArray[np.int64]]:
    order = generator.permutation(count)
    for start in range(0, count - size + 1, size):
        yield order[start : start + size]
