"""Recurrent cells: one step in time as functions of tensors, and the modules that hold their weights.

A step takes the projected input of one time step and the state, and returns the new state, whose first entry is the
output. `unrolled` repeats a step over a sequence; `recurrent.py` builds layers on both.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import weft

from ..errors import ShapeError
from ..tensor import Tensor
from . import functional as F
from . import init
from .module import Module
from .parameter import Parameter

__all__ = ["GRUCell", "LSTMCell", "RNNCell", "RNNCellBase"]

State = tuple[Tensor, ...]
Step = Callable[..., State]


# ------------------------------------------------------------------------------------------------- steps


def rnn_step(x: Tensor, hidden: Tensor, weight: Tensor, bias: Tensor | None, relu: bool = False) -> State:
    """h' = tanh(x + W h + b), or with max(·, 0). Shape: x (N, H), h (N, H), W (H, H) → (N, H)."""
    total = x + F.linear(hidden, weight, bias)
    return (total.relu() if relu else total.tanh(),)


def lstm_step(
    x: Tensor, hidden: Tensor, cell: Tensor, weight: Tensor, bias: Tensor | None, projection: Tensor | None = None
) -> State:
    """(i, f, g, o) = x + W h + b; c' = σ(f) c + σ(i) tanh(g); h' = σ(o) tanh(c'), projected if asked.

    Shape: x (N, 4H), h (N, P), c (N, H), W (4H, P), projection (P, H) → (N, P), (N, H)
    """
    enter, forget, proposal, leave = (x + F.linear(hidden, weight, bias)).chunk(4, -1)
    cell = forget.sigmoid() * cell + enter.sigmoid() * proposal.tanh()
    hidden = leave.sigmoid() * cell.tanh()
    return (hidden if projection is None else F.linear(hidden, projection)), cell


def gru_step(x: Tensor, hidden: Tensor, weight: Tensor, bias: Tensor | None) -> State:
    """r = σ(x_r + W_r h + b_r), z likewise, n = tanh(x_n + r (W_n h + b_n)); h' = (1 − z) n + z h.

    Shape: x (N, 3H), h (N, H), W (3H, H) → (N, H)
    """
    from_input, from_hidden = x.chunk(3, -1), F.linear(hidden, weight, bias).chunk(3, -1)
    reset = (from_input[0] + from_hidden[0]).sigmoid()
    update = (from_input[1] + from_hidden[1]).sigmoid()
    new = (from_input[2] + reset * from_hidden[2]).tanh()
    return (new + update * (hidden - new),)


# ---------------------------------------------------------------------------------------------- sequences


def unrolled(
    step: Step, rows: Tensor, state: State, batch_sizes: Sequence[int], reverse: bool = False
) -> tuple[Tensor, State]:
    """Repeat `step` over a packed sequence: outputs of all rows, and each sequence's state after its last step.

    Rows are ordered by time; the first batch_sizes[t] sequences (sorted by falling length) are alive at time t. In
    reverse every sequence starts at its own end. Shape: rows (ΣB_t, G), state (N, …) → (ΣB_t, H), state
    """
    pieces = rows.split(list(batch_sizes))
    if reverse:
        return _unrolled_backwards(step, pieces, state)
    outputs, finished = [], []
    for x in pieces:
        alive = x.shape[0]
        if alive < state[0].shape[0]:
            finished.append(tuple(s[alive:] for s in state))
            state = tuple(s[:alive] for s in state)
        state = step(x, *state)
        outputs.append(state[0])
    if finished:
        parts = [state, *reversed(finished)]
        state = tuple(weft.cat(part) for part in zip(*parts, strict=True))
    return weft.cat(outputs), state


def _unrolled_backwards(step: Step, pieces: Sequence[Tensor], initial: State) -> tuple[Tensor, State]:
    outputs: list[Tensor] = []
    state = tuple(s[:0] for s in initial)
    for x in reversed(pieces):
        alive, before = x.shape[0], state[0].shape[0]
        if before == 0:
            state = tuple(s[:alive] for s in initial)
        elif alive > before:
            state = tuple(weft.cat([s, first[before:alive]]) for s, first in zip(state, initial, strict=True))
        state = step(x, *state)
        outputs.append(state[0])
    return weft.cat(outputs[::-1]), state


# ------------------------------------------------------------------------------------------------- modules


class RNNCellBase(Module):
    """Weights of one step: weight_ih (kH, I), weight_hh (kH, H), bias_ih and bias_hh (kH,), all from U(±1/√H)."""

    def __init__(
        self,
        input_size: int,
        hidden_size: int,
        bias: bool,
        num_chunks: int,
        device: Any = None,
        dtype: Any = None,
    ) -> None:
        super().__init__()
        self.input_size, self.hidden_size, self.bias = input_size, hidden_size, bias
        rows = num_chunks * hidden_size
        shapes = {"weight_ih": (rows, input_size), "weight_hh": (rows, hidden_size)}
        shapes |= {"bias_ih": (rows,), "bias_hh": (rows,)} if bias else {"bias_ih": None, "bias_hh": None}
        for name, shape in shapes.items():
            value = None if shape is None else Parameter(weft.empty(shape, device=device, dtype=dtype))
            self.register_parameter(name, value)
        self.reset_parameters()

    def reset_parameters(self) -> None:
        bound = 1 / math.sqrt(self.hidden_size) if self.hidden_size > 0 else 0
        for weight in self.parameters():
            init.uniform_(weight, -bound, bound)

    def extra_repr(self) -> str:
        parts = [str(self.input_size), str(self.hidden_size)]
        if self.bias is not True:
            parts.append(f"bias={self.bias}")
        if getattr(self, "nonlinearity", "tanh") != "tanh":
            parts.append(f"nonlinearity={self.nonlinearity}")
        return ", ".join(parts)

    def _stepped(self, input: Tensor, state: Sequence[Tensor | None], step: Step) -> State:
        """One step on a batch (N, I), or on a single example (I,) as a batch of one."""
        self._check(input, "input")
        for value in state:
            if value is not None:
                self._check(value, "hidden")
        single = input.ndim == 1
        x = input.unsqueeze(0) if single else input
        empty = weft.zeros(x.shape[0], self.hidden_size, dtype=x.dtype)
        state = [empty if s is None else s.unsqueeze(0) if single else s for s in state]
        self._check_sizes(x, state)
        new = step(F.linear(x, self.weight_ih, self.bias_ih), *state, self.weight_hh, self.bias_hh)
        return tuple(s.squeeze(0) for s in new) if single else new

    def _check(self, x: Tensor, what: str) -> None:
        if x.ndim not in (1, 2):
            raise ShapeError(f"{type(self).__name__}: Expected {what} to be 1D or 2D, got {x.ndim}D instead")

    def _check_sizes(self, x: Tensor, state: Sequence[Tensor]) -> None:
        if x.shape[1] != self.input_size:
            raise ShapeError(f"input has inconsistent input_size: got {x.shape[1]} expected {self.input_size}")
        for value in state:
            if tuple(value.shape) != (x.shape[0], self.hidden_size):
                raise ShapeError(
                    f"hidden has inconsistent size: got {tuple(value.shape)}, expected {(x.shape[0], self.hidden_size)}"
                )


class RNNCell(RNNCellBase):
    """h' = tanh(W_ih x + b_ih + W_hh h + b_hh), or max(·, 0) (N1 §5.1). Shape: (N, I), (N, H) → (N, H); N optional."""

    def __init__(
        self,
        input_size: int,
        hidden_size: int,
        bias: bool = True,
        nonlinearity: str = "tanh",
        device: Any = None,
        dtype: Any = None,
    ) -> None:
        super().__init__(input_size, hidden_size, bias, 1, device, dtype)
        self.nonlinearity = nonlinearity

    def forward(self, input: Tensor, hx: Tensor | None = None) -> Tensor:
        if self.nonlinearity not in ("tanh", "relu"):
            raise RuntimeError(f"Unknown nonlinearity: {self.nonlinearity}")
        relu = self.nonlinearity == "relu"
        return self._stepped(input, (hx,), lambda *parts: rnn_step(*parts, relu=relu))[0]


class LSTMCell(RNNCellBase):
    """One step of a long short-term memory (see `lstm_step`; N1 §5.3, N2 §5.2).

    Shape: (N, I), ((N, H), (N, H)) → ((N, H), (N, H)); N optional
    """

    def __init__(
        self, input_size: int, hidden_size: int, bias: bool = True, device: Any = None, dtype: Any = None
    ) -> None:
        super().__init__(input_size, hidden_size, bias, 4, device, dtype)

    def forward(self, input: Tensor, hx: tuple[Tensor, Tensor] | None = None) -> tuple[Tensor, Tensor]:
        return self._stepped(input, (None, None) if hx is None else hx, lstm_step)


class GRUCell(RNNCellBase):
    """One step of a gated recurrent unit (see `gru_step`; N2 §5.2.3). Shape: (N, I), (N, H) → (N, H); N optional."""

    def __init__(
        self, input_size: int, hidden_size: int, bias: bool = True, device: Any = None, dtype: Any = None
    ) -> None:
        super().__init__(input_size, hidden_size, bias, 3, device, dtype)

    def forward(self, input: Tensor, hx: Tensor | None = None) -> Tensor:
        return self._stepped(input, (hx,), gru_step)[0]
