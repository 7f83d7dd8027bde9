"""Loops over time for compiled code, on sequences of one length: what `parts` of the recurrences are made of.

A loop forward gives the states before and after each step in one array, its history; a loop back gives the gradients at
the gates of all steps. Each is one native kernel.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy import ndarray

from ..core.primitive import PRIMITIVES, Opaque, register_module
from .recurrence import (
    GRU_RECURRENCE,
    LSTM_RECURRENCE,
    TANH_RECURRENCE,
    first_rows,
    gru_deltas,
    lstm_deltas,
    tanh_deltas,
)

__all__ = ["GRU_DELTAS", "GRU_STEPS", "LSTM_DELTAS", "LSTM_STEPS", "TANH_DELTAS", "TANH_STEPS"]


def evenly(x: Any, state: Any) -> tuple[int, ...]:
    """The batch sizes when the rows x belong to sequences of one length, one for each row of the state."""
    count = state.shape[0]
    return (count,) * (x.shape[0] // max(count, 1))


def history(before: ndarray, final: ndarray, reverse: bool) -> ndarray:
    """The states before each step and the last one, in the order of time. Shape: (T·N, H), (N, H) → ((T + 1)·N, H)."""
    return np.concatenate([final, before] if reverse else [before, final])


class TanhSteps(Opaque):
    """`TanhRecurrence` for sequences of one length. Shape: x (T·N, H), h (N, H), W (H, H) → history ((T + 1)·N, H)."""

    differentiable = False

    def reference(self, x, hidden, weight, **params):
        sizes = evenly(x, hidden)
        _, state, before, _ = TANH_RECURRENCE.reference(x, hidden, weight, batch_sizes=sizes, **params)
        return (history(before, state, params["reverse"]),)

    def shapes(self, x, hidden, *rest, **params):
        return (((x.shape[0] + hidden.shape[0], hidden.shape[1]), x.dtype),)

    def native(self, node):
        from ...kernels.recurrent.forward import ReluForward, TanhForward, time_loop

        loop = ReluForward if node.params["relu"] else TanhForward
        return time_loop(loop, node, node.params["reverse"])


class TanhDeltas(Opaque):
    """`tanh_deltas` for sequences of one length. Shape: g (T·N, H), (N, H), W (H, H), h (T·N, H) → (T·N, H)."""

    differentiable = False

    def reference(self, g, g_final, weight, outputs, *, reverse, relu):
        return tanh_deltas(g, g_final, weight, outputs, evenly(g, g_final), reverse, relu)[:1]

    def shapes(self, g, *rest, **params):
        return ((g.shape, g.dtype),)

    def native(self, node):
        from ...kernels.recurrent.backward import ReluBackward, TanhBackward
        from ...kernels.recurrent.forward import time_loop

        loop = ReluBackward if node.params["relu"] else TanhBackward
        return time_loop(loop, node, not node.params["reverse"])


class LstmSteps(Opaque):
    """`LstmRecurrence` for sequences of one length: histories of h and c, the gates, tanh c.

    Shape: x (T·N, 4H), h, c (N, H), W (4H, H) → ((T + 1)·N, H) twice, (T·N, 4H), (T·N, H)
    """

    differentiable = False

    def reference(self, x, hidden, cell, weight, *, reverse):
        options = {"batch_sizes": evenly(x, hidden), "reverse": reverse}
        _, state, last, before, memory, gates, bent = LSTM_RECURRENCE.reference(x, hidden, cell, weight, **options)
        return history(before, state, reverse), history(memory, last, reverse), gates, bent

    def shapes(self, x, hidden, *rest, **params):
        rows, (count, width) = x.shape[0], hidden.shape
        return tuple((s, x.dtype) for s in ((rows + count, width), (rows + count, width), x.shape, (rows, width)))

    def native(self, node):
        from ...kernels.recurrent.forward import LstmForward, time_loop

        return time_loop(LstmForward, node, node.params["reverse"])


class LstmDeltas(Opaque):
    """`lstm_deltas` for sequences of one length: gradients at the gates and of the initial cell state.

    Shape: g (T·N, H), (N, H) twice, W (4H, H), c (T·N, H), gates (T·N, 4H), tanh c (T·N, H) → (T·N, 4H), (N, H)
    """

    differentiable = False

    def reference(self, g, g_final, g_cell, weight, memory, gates, bent, *, reverse):
        inputs = g, g_final, g_cell, weight, memory, gates, bent
        return lstm_deltas(*inputs, evenly(g, g_final), reverse)[::2]

    def shapes(self, g, g_final, g_cell, weight, memory, gates, bent, **params):
        return (gates.shape, gates.dtype), (g_cell.shape, g_cell.dtype)

    def native(self, node):
        from ...kernels.recurrent.backward import LstmBackward
        from ...kernels.recurrent.forward import time_loop

        return time_loop(LstmBackward, node, not node.params["reverse"])


class GruSteps(Opaque):
    """`GruRecurrence` for sequences of one length: the history of h, the gates, W h + b of the last gate.

    Shape: x (T·N, 3H), h (N, H), W (3H, H), b (3H,) → ((T + 1)·N, H), (T·N, 3H), (T·N, H)
    """

    differentiable = False

    def reference(self, x, hidden, *weights, reverse):
        options = {"batch_sizes": evenly(x, hidden), "reverse": reverse}
        _, state, before, gates, inner = GRU_RECURRENCE.reference(x, hidden, *weights, **options)
        return history(before, state, reverse), gates, inner

    def shapes(self, x, hidden, *rest, **params):
        rows, (count, width) = x.shape[0], hidden.shape
        return tuple((s, x.dtype) for s in ((rows + count, width), x.shape, (rows, width)))

    def native(self, node):
        from ...kernels.recurrent.forward import GruForward, time_loop

        return time_loop(GruForward, node, node.params["reverse"])


class GruDeltas(Opaque):
    """`gru_deltas` for sequences of one length; of the initial state's gradient only the part past the gates.

    Shape: g (T·N, H), (N, H), W (3H, H), h (T·N, H), gates (T·N, 3H), (T·N, H) → (T·N, 3H) twice, (N, H)
    """

    differentiable = False

    def reference(self, g, g_final, weight, before, gates, inner, *, reverse):
        deltas, turned, carried = gru_deltas(g, g_final, weight, before, gates, inner, evenly(g, g_final), reverse)
        return deltas, turned, carried - first_rows(turned, len(g_final), reverse) @ weight

    def shapes(self, g, g_final, weight, before, gates, inner, **params):
        return tuple((v.shape, v.dtype) for v in (gates, gates, g_final))

    def native(self, node):
        from ...kernels.recurrent.backward import GruBackward
        from ...kernels.recurrent.forward import time_loop

        return time_loop(GruBackward, node, not node.params["reverse"])


register_module(__name__)
TANH_STEPS, TANH_DELTAS = PRIMITIVES["TanhSteps"], PRIMITIVES["TanhDeltas"]
LSTM_STEPS, LSTM_DELTAS = PRIMITIVES["LstmSteps"], PRIMITIVES["LstmDeltas"]
GRU_STEPS, GRU_DELTAS = PRIMITIVES["GruSteps"], PRIMITIVES["GruDeltas"]
