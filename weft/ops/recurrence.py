"""Recurrences over packed sequences: one step of RNN, LSTM and GRU in tensor operations, and each whole, in NumPy.

Rows are ordered by time; at time t the first B_t sequences (sorted by falling length) are alive, and in reverse every
sequence starts at its own end. A state of N rows is kept whole and only its first B_t rows change, so that a finished
sequence keeps its last state and one that has not begun its first. Gradients walk the same way back. When a gradient is
itself to be differentiated, the steps in tensor operations are run and differentiated instead.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import accumulate
from typing import Any

import numpy as np
from numpy import ndarray

from ..autograd import tape
from ..tensor import Tensor
from .fused import Fused
from .join import cat
from .primitive import PRIMITIVES, Opaque, register_module

State = tuple[Tensor, ...]

# ------------------------------------------------------------------------------------ in tensor operations


def rnn_step(x: Tensor, hidden: Tensor, weight: Tensor, relu: bool = False) -> State:
    """h' = tanh(x + W h), or with max(·, 0). Shape: x (N, H), h (N, H), W (H, H) → (N, H)."""
    total = x + hidden @ weight.mT
    return (total.relu() if relu else total.tanh(),)


def lstm_step(x: Tensor, hidden: Tensor, cell: Tensor, weight: Tensor, projection: Tensor | None = None) -> State:
    """(i, f, g, o) = x + W h; c' = σ(f) c + σ(i) tanh(g); h' = σ(o) tanh(c'), times the projection if there is one.

    Shape: x (N, 4H), h (N, P), c (N, H), W (4H, P), projection (P, H) → (N, P), (N, H)
    """
    enter, forget, proposal, leave = (x + hidden @ weight.mT).chunk(4, -1)
    cell = forget.sigmoid() * cell + enter.sigmoid() * proposal.tanh()
    hidden = leave.sigmoid() * cell.tanh()
    return (hidden if projection is None else hidden @ projection.mT), cell


def gru_step(x: Tensor, hidden: Tensor, weight: Tensor, bias: Tensor | None = None) -> State:
    """r = σ(x_r + W_r h + b_r), z likewise, n = tanh(x_n + r (W_n h + b_n)); h' = (1 − z) n + z h.

    Shape: x (N, 3H), h (N, H), W (3H, H), b (3H,) → (N, H)
    """
    inner = hidden @ weight.mT
    from_input, from_hidden = x.chunk(3, -1), (inner if bias is None else inner + bias).chunk(3, -1)
    reset = (from_input[0] + from_hidden[0]).sigmoid()
    update = (from_input[1] + from_hidden[1]).sigmoid()
    new = (from_input[2] + reset * from_hidden[2]).tanh()
    return (new + update * (hidden - new),)


def unrolled(
    step: Callable[..., State], rows: Tensor, state: State, batch_sizes: Sequence[int], reverse: bool = False
) -> tuple[Tensor, State]:
    """Repeat `step(x_t, *state)` over a packed sequence: outputs of all rows, and the final state of each sequence.

    Shape: rows (ΣB_t, G), state (N, …) → (ΣB_t, H), state
    """
    inputs = rows.split(list(batch_sizes))
    outputs: list[Tensor] = []
    for x in reversed(inputs) if reverse else inputs:
        alive, count = x.shape[0], state[0].shape[0]
        new = step(x, *(s if alive == count else s[:alive] for s in state))
        outputs.append(new[0])
        state = new if alive == count else tuple(cat([n, s[alive:]]) for n, s in zip(new, state, strict=True))
    return cat(outputs[::-1] if reverse else outputs), state


# ---------------------------------------------------------------------------------------------- in NumPy


def parts(batch_sizes: Sequence[int], reverse: bool) -> list[tuple[slice, int]]:
    """The rows of each time step and how many they are, in the order of computing."""
    ends = accumulate(batch_sizes)
    found = [(slice(end - size, end), size) for end, size in zip(ends, batch_sizes, strict=True)]
    return found[::-1] if reverse else found


class Recurrence(Fused, abstract=True):
    """A layer of steps over time: inputs (rows, *state, *weights), results (outputs of all rows, *final state)."""

    def formula(self, *arguments: Any, batch_sizes: Sequence[int], reverse: bool, **options: Any) -> tuple[Any, ...]:
        g, inputs = arguments[: self.results], arguments[self.results :]
        count = self.results - 1
        rows, state, weights = inputs[0], inputs[1 : 1 + count], inputs[1 + count :]
        step = lambda x, *state: self.step(x, *state, *weights, **options)
        outputs, final = unrolled(step, rows, state, batch_sizes, reverse)
        wanted = [x for x in inputs if x.requires_grad]
        found = iter(tape.grad((outputs, *final), wanted, g, create_graph=True, allow_unused=True))
        return tuple(next(found) if x.requires_grad else None for x in inputs)


class TanhRecurrenceSlope(Opaque):
    """Gradients of `TanhRecurrence`: δ_t = φ'(h_t) ⊙ (g_t + Wᵀ δ_{t+1}), gᵂ = Σ δ_t h_{t−1}ᵀ."""

    differentiable = False

    def reference(self, g, g_final, x, hidden, weight, before, outputs, *, batch_sizes, reverse, relu):
        slopes = (outputs > 0).astype(x.dtype) if relu else 1 - outputs * outputs
        carried, deltas = g_final.copy(), np.empty(x.shape, x.dtype)
        for rows, alive in reversed(parts(batch_sizes, reverse)):
            delta, back = deltas[rows], carried[:alive]
            np.add(back, g[rows], out=delta)
            delta *= slopes[rows]
            np.matmul(delta, weight, out=back)
        return deltas, carried, deltas.T @ before


class TanhRecurrence(Recurrence):
    """h_t = tanh(x_t + W h_{t−1}), or max(·, 0). Shape: x (ΣB_t, H), h (N, H), W (H, H) → (ΣB_t, H), (N, H)."""

    slope, results, step = TanhRecurrenceSlope(), 2, staticmethod(rnn_step)

    def reference(self, x, hidden, weight, *, batch_sizes, reverse, relu):
        state, outputs, before = hidden.copy(), np.empty(x.shape, x.dtype), np.empty(x.shape, x.dtype)
        for rows, alive in parts(batch_sizes, reverse):
            old, new = before[rows], outputs[rows]
            old[...] = state[:alive]
            np.matmul(old, weight.T, out=new)
            new += x[rows]
            np.maximum(new, 0, out=new) if relu else np.tanh(new, out=new)
            state[:alive] = new
        return outputs.copy(), state, before, outputs


class LstmRecurrenceSlope(Opaque):
    """Gradients of `LstmRecurrence`, the gates' slopes taken for all rows at once."""

    differentiable = False

    def reference(
        self, g, g_final, g_cell, x, hidden, cell, weight, before, memory, gates, bent, *, batch_sizes, reverse
    ):
        width = cell.shape[1]
        slopes = _gate_slopes(gates, width)
        inner = gates[:, 3 * width :] * (1 - bent * bent)  # ∂h/∂c
        carried, carried_cell, deltas = g_final.copy(), g_cell.copy(), np.empty(x.shape, x.dtype)
        for rows, alive in reversed(parts(batch_sizes, reverse)):
            i, f, p, _ = quarters(gates[rows])
            di, df, dp, do = quarters(deltas[rows])
            back, back_cell = carried[:alive], carried_cell[:alive]
            back += g[rows]
            np.multiply(back, bent[rows], out=do)
            back *= inner[rows]
            back_cell += back
            np.multiply(back_cell, p, out=di)
            np.multiply(back_cell, memory[rows], out=df)
            np.multiply(back_cell, i, out=dp)
            back_cell *= f
            delta = deltas[rows]
            delta *= slopes[rows]
            np.matmul(delta, weight, out=back)
        return deltas, carried, carried_cell, deltas.T @ before


def quarters(x: ndarray) -> Iterator[ndarray]:
    """The four gates beside each other: (N, 4H) → 4 × (N, H)."""
    width = x.shape[1] // 4
    return (x[:, start : start + width] for start in range(0, 4 * width, width))


def _gate_slopes(gates: ndarray, width: int) -> ndarray:
    """σ' = a (1 − a) for the three gates, tanh' = 1 − a² for the proposal between them."""
    slopes = gates - gates * gates
    proposal = gates[:, 2 * width : 3 * width]
    slopes[:, 2 * width : 3 * width] = 1 - proposal * proposal
    return slopes


class LstmRecurrence(Recurrence):
    """`lstm_step` without projection, repeated. Shape: x (ΣB_t, 4H), h, c (N, H), W (4H, H) → (ΣB_t, H), (N, H) twice.

    σ(a) = ½ tanh(a/2) + ½ makes one tanh of the four gates.
    """

    slope, results, step = LstmRecurrenceSlope(), 3, staticmethod(lstm_step)

    def reference(self, x, hidden, cell, weight, *, batch_sizes, reverse):
        width, count = cell.shape[1], len(x)
        state, memory = hidden.copy(), cell.copy()
        outputs, before, earlier, bent = np.empty((4, count, width), x.dtype)
        gates = np.empty(x.shape, x.dtype)
        scale = np.repeat(np.array([0.5, 0.5, 1, 0.5], x.dtype), width)
        shift = 1 - scale
        turned = np.ascontiguousarray(weight.T)
        for rows, alive in parts(batch_sizes, reverse):
            old, gate, new, now = before[rows], gates[rows], outputs[rows], memory[:alive]
            old[...] = state[:alive]
            earlier[rows] = now
            np.matmul(old, turned, out=gate)
            gate += x[rows]
            gate *= scale
            np.tanh(gate, out=gate)
            gate *= scale
            gate += shift
            i, f, p, o = quarters(gate)
            now *= f
            now += i * p
            np.tanh(now, out=bent[rows])
            np.multiply(o, bent[rows], out=new)
            state[:alive] = new
        return outputs, state, memory, before, earlier, gates, bent


class GruRecurrenceSlope(Opaque):
    """Gradients of `GruRecurrence`."""

    differentiable = False

    def reference(self, g, g_final, x, hidden, weight, *rest, batch_sizes, reverse):
        *bias, before, gates, inner = rest
        width = hidden.shape[1]
        carried, deltas = g_final.copy(), np.empty(x.shape, x.dtype)
        turned = np.empty(x.shape, x.dtype)  # the same for W h: its last third passes the reset gate
        first, second, third = (slice(k * width, (k + 1) * width) for k in range(3))
        r, z, n = gates[:, first], gates[:, second], gates[:, third]
        to_new, to_update, to_reset = (1 - z) * (1 - n * n), (before - n) * (z - z * z), inner * (r - r * r)
        for rows, alive in reversed(parts(batch_sizes, reverse)):
            back, delta, other = carried[:alive], deltas[rows], turned[rows]
            back += g[rows]
            np.multiply(back, to_new[rows], out=delta[:, third])
            np.multiply(back, to_update[rows], out=delta[:, second])
            np.multiply(delta[:, third], to_reset[rows], out=delta[:, first])
            other[:, : 2 * width] = delta[:, : 2 * width]
            np.multiply(delta[:, third], r[rows], out=other[:, third])
            back *= z[rows]
            back += other @ weight
        return (deltas, carried, turned.T @ before, *(np.add.reduce(turned, 0) for _ in bias))


class GruRecurrence(Recurrence):
    """`gru_step`, repeated. Shape: x (ΣB_t, 3H), h (N, H), W (3H, H), b (3H,) → (ΣB_t, H), (N, H)."""

    slope, results, step = GruRecurrenceSlope(), 2, staticmethod(gru_step)

    def reference(self, x, hidden, weight, bias=None, *, batch_sizes, reverse):
        width, count = hidden.shape[1], len(x)
        state, gates = hidden.copy(), np.empty(x.shape, x.dtype)
        outputs, before, inner = np.empty((3, count, width), x.dtype)
        turned = np.ascontiguousarray(weight.T)
        for rows, alive in parts(batch_sizes, reverse):
            old, gate, now = before[rows], gates[rows], state[:alive]
            old[...] = now
            product = old @ turned
            if bias is not None:
                product += bias
            inner[rows] = product[:, 2 * width :]
            both = gate[:, : 2 * width]
            np.add(x[rows, : 2 * width], product[:, : 2 * width], out=both)
            both *= 0.5
            np.tanh(both, out=both)
            both *= 0.5
            both += 0.5
            new = gate[:, 2 * width :]
            np.multiply(both[:, :width], inner[rows], out=new)
            new += x[rows, 2 * width :]
            np.tanh(new, out=new)
            now -= new
            now *= both[:, width:]
            now += new
            outputs[rows] = now
        return outputs, state, before, gates, inner


register_module(__name__)
TANH_RECURRENCE, LSTM_RECURRENCE = PRIMITIVES["TanhRecurrence"], PRIMITIVES["LstmRecurrence"]
GRU_RECURRENCE = PRIMITIVES["GruRecurrence"]
