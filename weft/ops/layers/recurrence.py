"""Recurrences over packed sequences: one step of RNN, LSTM and GRU in tensor operations, and each whole, in NumPy.

Rows are ordered by time; at time t the first B_t sequences (sorted by falling length) are alive, and in reverse every
sequence starts at its own end. A state of N rows is kept whole and only its first B_t rows change, so that a finished
sequence keeps its last state and one that has not begun its first. Gradients walk the same way back. When a gradient is
itself to be differentiated, the steps in tensor operations are run and differentiated instead.

For compiled code sequences of one length are split into parts: a loop over time that gives the states before and after
each step in one array, and on the way back one that gives the gradients at the gates; products with them follow.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import accumulate
from typing import Any

import numpy as np
from numpy import ndarray

from ...tape import tape
from ...tensor import Tensor
from ..core.primitive import PRIMITIVES, Opaque, register_module
from ..shape.join import cat
from .fused import Fused

__all__ = [
    "GRU_RECURRENCE",
    "LSTM_RECURRENCE",
    "TANH_RECURRENCE",
    "State",
    "first_rows",
    "gru_deltas",
    "gru_step",
    "lstm_deltas",
    "lstm_step",
    "rnn_step",
    "tanh_deltas",
    "unrolled",
]

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


def times(batch_sizes: Sequence[int], reverse: bool) -> list[tuple[slice, int]]:
    """The rows of each time step and how many they are, in the order of computing."""
    ends = accumulate(batch_sizes)
    found = [(slice(end - size, end), size) for end, size in zip(ends, batch_sizes, strict=True)]
    return found[::-1] if reverse else found


def are_even(batch_sizes: Sequence[int]) -> bool:
    """Whether all sequences have one length."""
    return batch_sizes[0] == batch_sizes[-1]


def around(states: Tensor, count: int, reverse: bool) -> tuple[Tensor, Tensor, Tensor]:
    """Of a history of N = `count` rows: the states before each step, those after, and the last."""
    if reverse:
        return states[count:], states[:-count], states[:count]
    return states[:-count], states[count:], states[-count:]


def first_rows(deltas: Tensor, count: int, reverse: bool) -> Tensor:
    """The rows of the step that is computed first."""
    return deltas[-count:] if reverse else deltas[:count]


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


# ------------------------------------------------------------------------------------------ tanh and max(·, 0)


def tanh_deltas(
    g: ndarray,
    g_final: ndarray,
    weight: ndarray,
    outputs: ndarray,
    batch_sizes: Sequence[int],
    reverse: bool,
    relu: bool,
) -> tuple[ndarray, ndarray]:
    """δ_t = φ'(h_t) ⊙ (g_t + Wᵀ δ_{t+1}) of all rows, and the gradient of the initial state."""
    slopes = (outputs > 0).astype(outputs.dtype) if relu else 1 - outputs * outputs
    carried, deltas = g_final.copy(), np.empty(outputs.shape, outputs.dtype)
    for rows, alive in reversed(times(batch_sizes, reverse)):
        delta, back = deltas[rows], carried[:alive]
        np.add(back, g[rows], out=delta)
        delta *= slopes[rows]
        np.matmul(delta, weight, out=back)
    return deltas, carried


class TanhRecurrenceSlope(Opaque):
    """Gradients of `TanhRecurrence`: those at the gates, and gᵂ = Σ δ_t h_{t−1}ᵀ."""

    differentiable = False

    def reference(self, g, g_final, x, hidden, weight, before, outputs, **params):
        deltas, carried = tanh_deltas(g, g_final, weight, outputs, **params)
        return deltas, carried, deltas.T @ before

    def shapes(self, g, g_final, x, *inputs, **params):
        return tuple((v.shape, v.dtype) for v in (x, *inputs[:2]))

    def parts(self, g, g_final, x, hidden, weight, before, outputs, *, batch_sizes, reverse, relu):
        from .recurrence_loops import TANH_DELTAS

        if not are_even(batch_sizes):
            return None
        (deltas,) = TANH_DELTAS(g, g_final, weight, outputs, reverse=reverse, relu=relu)
        return deltas, first_rows(deltas, hidden.shape[0], reverse) @ weight, deltas.mT @ before


class TanhRecurrence(Recurrence):
    """h_t = tanh(x_t + W h_{t−1}), or max(·, 0). Shape: x (ΣB_t, H), h (N, H), W (H, H) → (ΣB_t, H), (N, H)."""

    slope, results, step = TanhRecurrenceSlope(), 2, staticmethod(rnn_step)

    def reference(self, x, hidden, weight, *, batch_sizes, reverse, relu):
        state, outputs, before = hidden.copy(), np.empty(x.shape, x.dtype), np.empty(x.shape, x.dtype)
        for rows, alive in times(batch_sizes, reverse):
            old, new = before[rows], outputs[rows]
            old[...] = state[:alive]
            np.matmul(old, weight.T, out=new)
            new += x[rows]
            np.maximum(new, 0, out=new) if relu else np.tanh(new, out=new)
            state[:alive] = new
        return outputs.copy(), state, before, outputs

    def shapes(self, x, hidden, *rest, **params):
        return tuple((v.shape, v.dtype) for v in (x, hidden, x, x))

    def parts(self, x, hidden, weight, *, batch_sizes, reverse, relu):
        from .recurrence_loops import TANH_STEPS

        if not are_even(batch_sizes):
            return None
        (states,) = TANH_STEPS(x, hidden, weight, reverse=reverse, relu=relu)
        before, outputs, state = around(states, hidden.shape[0], reverse)
        return outputs, state, before, outputs


# ------------------------------------------------------------------------------------------ LSTM


def lstm_deltas(
    g: ndarray,
    g_final: ndarray,
    g_cell: ndarray,
    weight: ndarray,
    memory: ndarray,
    gates: ndarray,
    bent: ndarray,
    batch_sizes: Sequence[int],
    reverse: bool,
) -> tuple[ndarray, ndarray, ndarray]:
    """Gradients at the gates of all rows, their slopes taken at once, and those of the initial state."""
    width = memory.shape[1]
    slopes = _gate_slopes(gates, width)
    inner = gates[:, 3 * width :] * (1 - bent * bent)  # ∂h/∂c
    carried, carried_cell, deltas = g_final.copy(), g_cell.copy(), np.empty(gates.shape, gates.dtype)
    for rows, alive in reversed(times(batch_sizes, reverse)):
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
    return deltas, carried, carried_cell


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


class LstmRecurrenceSlope(Opaque):
    """Gradients of `LstmRecurrence`: those at the gates, and gᵂ = Σ δ_t h_{t−1}ᵀ."""

    differentiable = False

    def reference(self, g, g_final, g_cell, x, hidden, cell, weight, before, memory, gates, bent, **params):
        found = lstm_deltas(g, g_final, g_cell, weight, memory, gates, bent, **params)
        return (*found, found[0].T @ before)

    def shapes(self, g, g_final, g_cell, *inputs, **params):
        return tuple((v.shape, v.dtype) for v in inputs[:4])

    def parts(self, g, g_final, g_cell, x, hidden, cell, weight, before, memory, gates, bent, *, batch_sizes, reverse):
        from .recurrence_loops import LSTM_DELTAS

        if not are_even(batch_sizes):
            return None
        deltas, carried = LSTM_DELTAS(g, g_final, g_cell, weight, memory, gates, bent, reverse=reverse)
        return deltas, first_rows(deltas, hidden.shape[0], reverse) @ weight, carried, deltas.mT @ before


class LstmRecurrence(Recurrence):
    """`lstm_step` without projection, repeated. Shape: x (ΣB_t, 4H), h, c (N, H), W (4H, H) → (ΣB_t, H), (N, H) twice.

    σ(a) = ½ tanh(a/2) + ½ makes one tanh of the four gates.
    """

    slope, results, step = LstmRecurrenceSlope(), 3, staticmethod(lstm_step)

    def shapes(self, x, hidden, cell, weight, *, batch_sizes, reverse):
        rows = (x.shape[0], cell.shape[1])
        return tuple((shape, x.dtype) for shape in (rows, hidden.shape, cell.shape, rows, rows, x.shape, rows))

    def reference(self, x, hidden, cell, weight, *, batch_sizes, reverse):
        width, count = cell.shape[1], len(x)
        state, memory = hidden.copy(), cell.copy()
        outputs, before, earlier, bent = np.empty((4, count, width), x.dtype)
        gates = np.empty(x.shape, x.dtype)
        scale = np.repeat(np.array([0.5, 0.5, 1, 0.5], x.dtype), width)
        shift = 1 - scale
        turned = np.ascontiguousarray(weight.T)
        for rows, alive in times(batch_sizes, reverse):
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

    def parts(self, x, hidden, cell, weight, *, batch_sizes, reverse):
        from .recurrence_loops import LSTM_STEPS

        if not are_even(batch_sizes):
            return None
        states, cells, gates, bent = LSTM_STEPS(x, hidden, cell, weight, reverse=reverse)
        before, outputs, state = around(states, hidden.shape[0], reverse)
        earlier, _, memory = around(cells, hidden.shape[0], reverse)
        return outputs, state, memory, before, earlier, gates, bent


# ------------------------------------------------------------------------------------------ GRU


def gru_deltas(
    g: ndarray,
    g_final: ndarray,
    weight: ndarray,
    before: ndarray,
    gates: ndarray,
    inner: ndarray,
    batch_sizes: Sequence[int],
    reverse: bool,
) -> tuple[ndarray, ndarray, ndarray]:
    """Gradients of x and of W h + b of all rows (the last third of these passes the reset gate), and of the initial state.

    The gradient of a state goes past the gates as z g, and through them.
    """
    width = before.shape[1]
    carried, deltas, turned = g_final.copy(), np.empty(gates.shape, gates.dtype), np.empty(gates.shape, gates.dtype)
    first, second, third = (slice(k * width, (k + 1) * width) for k in range(3))
    r, z, n = gates[:, first], gates[:, second], gates[:, third]
    to_new, to_update, to_reset = (1 - z) * (1 - n * n), (before - n) * (z - z * z), inner * (r - r * r)
    for rows, alive in reversed(times(batch_sizes, reverse)):
        back, delta, other = carried[:alive], deltas[rows], turned[rows]
        back += g[rows]
        np.multiply(back, to_new[rows], out=delta[:, third])
        np.multiply(back, to_update[rows], out=delta[:, second])
        np.multiply(delta[:, third], to_reset[rows], out=delta[:, first])
        other[:, : 2 * width] = delta[:, : 2 * width]
        np.multiply(delta[:, third], r[rows], out=other[:, third])
        back *= z[rows]
        back += other @ weight
    return deltas, turned, carried


class GruRecurrenceSlope(Opaque):
    """Gradients of `GruRecurrence`: those at the gates, gᵂ = Σ δ_t h_{t−1}ᵀ and gᵇ = Σ δ_t."""

    differentiable = False

    def reference(self, g, g_final, x, hidden, weight, *rest, **params):
        *bias, before, gates, inner = rest
        deltas, turned, carried = gru_deltas(g, g_final, weight, before, gates, inner, **params)
        return (deltas, carried, turned.T @ before, *(np.add.reduce(turned, 0) for _ in bias))

    def shapes(self, g, g_final, *inputs, **params):
        return tuple((v.shape, v.dtype) for v in inputs[:-3])

    def parts(self, g, g_final, x, hidden, weight, *rest, batch_sizes, reverse):
        from .recurrence_loops import GRU_DELTAS

        if not are_even(batch_sizes):
            return None
        *bias, before, gates, inner = rest
        deltas, turned, carried = GRU_DELTAS(g, g_final, weight, before, gates, inner, reverse=reverse)
        g_hidden = carried + first_rows(turned, hidden.shape[0], reverse) @ weight
        return (deltas, g_hidden, turned.mT @ before, *(turned.sum(0) for _ in bias))


class GruRecurrence(Recurrence):
    """`gru_step`, repeated. Shape: x (ΣB_t, 3H), h (N, H), W (3H, H), b (3H,) → (ΣB_t, H), (N, H)."""

    slope, results, step = GruRecurrenceSlope(), 2, staticmethod(gru_step)

    def shapes(self, x, hidden, weight, *bias, batch_sizes, reverse):
        rows = (x.shape[0], hidden.shape[1])
        return tuple((shape, x.dtype) for shape in (rows, hidden.shape, rows, x.shape, rows))

    def reference(self, x, hidden, weight, bias=None, *, batch_sizes, reverse):
        width, count = hidden.shape[1], len(x)
        state, gates = hidden.copy(), np.empty(x.shape, x.dtype)
        outputs, before, inner = np.empty((3, count, width), x.dtype)
        turned = np.ascontiguousarray(weight.T)
        for rows, alive in times(batch_sizes, reverse):
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

    def parts(self, x, hidden, *weights, batch_sizes, reverse):
        from .recurrence_loops import GRU_STEPS

        if not are_even(batch_sizes):
            return None
        states, gates, inner = GRU_STEPS(x, hidden, *weights, reverse=reverse)
        before, outputs, state = around(states, hidden.shape[0], reverse)
        return outputs, state, before, gates, inner


register_module(__name__)
TANH_RECURRENCE, LSTM_RECURRENCE = PRIMITIVES["TanhRecurrence"], PRIMITIVES["LstmRecurrence"]
GRU_RECURRENCE = PRIMITIVES["GruRecurrence"]
