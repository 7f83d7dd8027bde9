"""Distilling: a flow that is quick to draw from learns to imitate one whose density is quick (van den Oord et al. 2018, N1 §10.4)."""

from __future__ import annotations

from typing import Any

import weft

from ... import optim
from ...errors import ShapeError
from ...tensor import Tensor
from .base import Flow

__all__ = ["distil"]


def distil(
    teacher: Flow,
    student: Flow,
    steps: int = 500,
    batch_size: int = 256,
    lr: float = 1e-3,
    *,
    context: Tensor | None = None,
    generator: Any = None,
) -> list[float]:
    """Minimise KL(student ‖ teacher) = E_student[log student(x) − log teacher(x)] over the student's weights.

    The student (IAF) draws x and knows its density in one pass, the teacher (MAF) judges x in one: neither needs the
    inverse that would take D passes. Both are normalised, so the mean loss is the divergence itself, 0 when they agree.
    Returns the loss of every step. context: one row for each x of a batch
    """
    if teacher.event_shape != student.event_shape:
        raise ShapeError(f"distil: the teacher models {teacher.event_shape}, the student {student.event_shape}")
    generator = weft.Generator().manual_seed(0) if generator is None else generator
    optimizer = optim.Adam(student.parameters(), lr=lr)
    teacher.eval()

    @weft.compile
    def step() -> Tensor:
        optimizer.zero_grad()
        judge = lambda x: teacher.log_prob(x, context)
        loss = student.reverse_kld(judge, batch_size, context, generator)
        loss.backward(inputs=list(student.parameters()))
        optimizer.step()
        return loss.detach()

    return [step().item() for _ in range(steps)]
