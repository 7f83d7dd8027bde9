"""The plan as a picture: one box for each step, arrows along the values they hand on."""

from __future__ import annotations

from typing import Any

from ...autograd.draw import Box, Flow
from ...autograd.picture import svg
from ..graph.graph import Value

__all__ = ["draw_plan"]

LONGEST = 36  # characters of a label


def draw_plan(explanation: Any) -> str:
    """SVG text of the steps of a plan; results are marked."""
    plan = explanation.plan
    results = {plan.lowering.window(v).root for v in plan.graph.results}
    made: dict[Value, Box] = {}
    boxes = []
    for slot, step in zip(plan.slots, explanation.profile.steps, strict=True):
        sources = [(made[root], 0) for root in slot.step.reads if root in made]
        name = step.operations if len(step.operations) <= LONGEST else step.operations[: LONGEST - 1] + "…"
        kind = "result" if slot.step.writes & results else "operation"
        size = ", ".join(str(list(root.shape)) for root in slot.step.writes)
        box = Box(kind, f"{step.kernel}: {name}", sources, {0: Flow(size, f"{step.time:.1f} µs")})
        boxes.append(box)
        for root in slot.step.writes:
            made[root] = box
    return svg(boxes or [Box("result", "nothing to compute", [], {})])
