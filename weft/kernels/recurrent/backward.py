"""The way back through a recurrent layer: gradients of what enters the gates at every step, the last step first.

The product with the weights carries them to the step before, whose cells take the sums from registers. Gradients of the
weights are products over all steps at once, outside these loops.
"""

from __future__ import annotations

from collections.abc import Sequence

from ..llvm.builder import Function
from ..llvm.values import Val
from .forward import TimeLoop, Units

__all__ = ["GruBackward", "LstmBackward", "ReluBackward", "TanhBackward"]


class BackwardLoop(TimeLoop):
    """Stream `g_final` begins, stream `g` is added at every step, and `step` gets the gradient of the state."""

    vectors, first = 2, 1

    def begin(self, f: Function, at: Units) -> None:
        self.cell(f, at, at.load("g_final") + at.load("g"), True)

    def step(self, f: Function, at: Units, sums: Sequence[Val]) -> None:
        self.cell(f, at, sums[0] + at.load("g"), False)

    def cell(self, f: Function, at: Units, g: Val, begins: bool) -> None:
        """The gradients at one cell from that of its state; `begins`: nothing has come from later steps."""
        raise NotImplementedError


class TanhBackward(BackwardLoop):
    """δ = g (1 − h²)."""

    operands, results, left = ("g", "g_final", "weight", "outputs"), ("deltas",), "deltas"
    cost = 10

    def cell(self, f: Function, at: Units, g: Val, begins: bool) -> None:
        h = at.load("outputs")
        at.store(g * (1.0 - h * h), "deltas")


class ReluBackward(BackwardLoop):
    """δ = g where h > 0."""

    operands, results, left = TanhBackward.operands, TanhBackward.results, "deltas"
    cost = 10

    def cell(self, f: Function, at: Units, g: Val, begins: bool) -> None:
        at.store(f.select(at.load("outputs") > 0.0, g, 0.0), "deltas")


class LstmBackward(BackwardLoop):
    """δᶜ = g o (1 − tanh² c) + what comes from later; δ of the gates i, f, g, o; δᶜ f goes to the step before."""

    operands = ("g", "g_final", "g_cell", "weight", "memory", "gates", "bent")
    results, left = ("deltas", "carried"), "deltas"
    cost = 30

    def cell(self, f: Function, at: Units, g: Val, begins: bool) -> None:
        enter, forget, proposal, leave = (at.load("gates", q) for q in range(4))
        bent = at.load("bent")
        g_cell = at.load("g_cell" if begins else "carried") + g * leave * (1.0 - bent * bent)
        at.store(g_cell * proposal * (enter - enter * enter), "deltas", 0)
        at.store(g_cell * at.load("memory") * (forget - forget * forget), "deltas", 1)
        at.store(g_cell * enter * (1.0 - proposal * proposal), "deltas", 2)
        at.store(g * bent * (leave - leave * leave), "deltas", 3)
        at.store(g_cell * forget, "carried")


class GruBackward(BackwardLoop):
    """δ of x and, in `turned`, of W h + b, which differ where the reset gate stands between; g z goes past the gates."""

    operands = ("g", "g_final", "weight", "before", "gates", "inner")
    results, left = ("deltas", "turned", "carried"), "turned"
    cost = 25

    def cell(self, f: Function, at: Units, g: Val, begins: bool) -> None:
        reset, update, new = (at.load("gates", q) for q in range(3))
        g = g if begins else g + at.load("carried")
        g_new = g * (1.0 - update) * (1.0 - new * new)
        g_update = g * (at.load("before") - new) * (update - update * update)
        g_reset = g_new * at.load("inner") * (reset - reset * reset)
        for q, (delta, turned) in enumerate(((g_reset, g_reset), (g_update, g_update), (g_new, g_new * reset))):
            at.store(delta, "deltas", q)
            at.store(turned, "turned", q)
        at.store(g * update, "carried")
