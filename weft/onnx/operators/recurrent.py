"""RNN, LSTM and GRU over whole sequences, in one direction or both.

What PyTorch's layers compute goes to the recurrences that have kernels; other activations, peepholes, clipping and lengths
that differ are steps in time, one after the other.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

import weft

from ...nn import functional as F
from ...ops.layers.recurrence import GRU_RECURRENCE, LSTM_RECURRENCE, TANH_RECURRENCE
from ...tensor import Tensor
from .activation import hard_sigmoid
from .registry import as_tensor, rule

Cell = Callable[..., tuple[Tensor, ...]]
_ACTIVATIONS: dict[str, Callable[[Tensor, float | None, float | None], Tensor]] = {
    "Relu": lambda x, a, b: F.relu(x),
    "Tanh": lambda x, a, b: weft.tanh(x),
    "Sigmoid": lambda x, a, b: weft.sigmoid(x),
    "Affine": lambda x, a, b: (1.0 if a is None else a) * x + (b or 0.0),
    "LeakyRelu": lambda x, a, b: F.leaky_relu(x, 0.01 if a is None else a),
    "ThresholdedRelu": lambda x, a, b: weft.where(x > (1.0 if a is None else a), x, weft.zeros_like(x)),
    "ScaledTanh": lambda x, a, b: (1.0 if a is None else a) * weft.tanh((1.0 if b is None else b) * x),
    "HardSigmoid": lambda x, a, b: hard_sigmoid(x, alpha=0.2 if a is None else a, beta=0.5 if b is None else b),
    "Elu": lambda x, a, b: F.elu(x, 1.0 if a is None else a),
    "Softsign": lambda x, a, b: F.softsign(x),
    "Softplus": lambda x, a, b: F.softplus(x),
}


class _Layer:
    """What the three share: directions, layouts, lengths, activations and their numbers."""

    def __init__(
        self,
        x: Tensor,
        direction: str,
        layout: int,
        lengths: Tensor | None,
        names: Sequence[str] | None,
        defaults: Sequence[str],
        alphas: Sequence[float] | None,
        betas: Sequence[float] | None,
        clip: float | None,
    ) -> None:
        self.x = x.transpose(0, 1) if layout else x  # (T, B, I)
        self.layout, self.clip, self.lengths = layout, clip, lengths
        self.reverse = {"forward": [False], "reverse": [True], "bidirectional": [False, True]}[direction]
        self.names = list(names or defaults * len(self.reverse))
        self.plain = [n.lower() for n in self.names] == [n.lower() for n in defaults * len(self.reverse)]
        self.functions = self._made(list(alphas or []), list(betas or []))
        self.each = len(defaults)

    def _made(self, alphas: list[float], betas: list[float]) -> list[Callable[[Tensor], Tensor]]:
        """The numbers are handed to those activations that take some, in order."""
        made = []
        for name in self.names:
            word = next(known for known in _ACTIVATIONS if known.lower() == name.lower())
            a = alphas.pop(0) if alphas and word in _WITH_ALPHA else None
            b = betas.pop(0) if betas and word in _WITH_BETA else None
            made.append(
                lambda x, f=_ACTIVATIONS[word], a=a, b=b: f(
                    x if self.clip is None else x.clamp(-self.clip, self.clip), a, b
                )
            )
        return made

    def activations(self, number: int) -> list[Callable[[Tensor], Tensor]]:
        return self.functions[number * self.each : (number + 1) * self.each]

    @property
    def simple(self) -> bool:
        """Whether a kernel can do it."""
        return self.plain and self.clip is None and self.lengths is None and self.x.numel() > 0

    def state(self, given: Tensor | None, number: int, width: int) -> Tensor:
        if given is None:
            return weft.zeros(self.x.shape[1], width, dtype=self.x.dtype)
        return given[:, number] if self.layout else given[number]

    def run(self, direction: int, step: Cell, state: tuple[Tensor, ...]) -> tuple[Tensor, tuple[Tensor, ...]]:
        """`step(x_t, *state)` over time; a sequence that has ended keeps its state and gives zeros."""
        order = range(self.x.shape[0])
        outputs: list[Any] = [None] * len(order)
        for t in reversed(order) if self.reverse[direction] else order:
            new = step(self.x[t], *state)
            if self.lengths is not None:
                alive = (t < self.lengths).reshape(-1, 1)
                new = tuple(weft.where(alive, n, old) for n, old in zip(new, state, strict=True))
                outputs[t] = weft.where(alive, new[0], weft.zeros_like(new[0]))
            else:
                outputs[t] = new[0]
            state = new
        return weft.stack(outputs), state

    def rows(self) -> tuple[Tensor, dict[str, Any]]:
        """(T·B, I), and the sizes of the batch over time."""
        steps, batch, width = self.x.shape
        return self.x.reshape(steps * batch, width), {"batch_sizes": (batch,) * steps}

    def joined(self, found: Sequence[tuple[Tensor, tuple[Tensor, ...]]]) -> tuple[Tensor, ...]:
        """(T, D, B, H) and the final states (D, B, H), or with the batch first."""
        join = lambda parts, axis: parts[0].unsqueeze(axis) if len(parts) == 1 else weft.stack(parts, axis)
        outputs = join([y for y, _ in found], 1)
        finals = [join(list(parts), 0) for parts in zip(*(state for _, state in found), strict=True)]
        if not self.layout:
            return outputs, *finals
        return outputs.permute(2, 0, 1, 3), *(f.transpose(0, 1) for f in finals)


_WITH_ALPHA = {"Affine", "LeakyRelu", "ThresholdedRelu", "ScaledTanh", "HardSigmoid", "Elu"}
_WITH_BETA = {"Affine", "ScaledTanh", "HardSigmoid"}


def _reordered(x: Any, order: Sequence[int]) -> Any:
    """Gates in another order along dimension 0; of constants at once, not at every call."""
    if isinstance(x, np.ndarray):
        parts = np.split(x, len(order), 0)
        return np.concatenate([parts[k] for k in order], 0)
    parts = x.chunk(len(order), 0)
    return weft.cat([parts[k] for k in order], 0)


def _halves(b: Any, number: int) -> tuple[Any, Any]:
    """The biases of the input and of the state."""
    if b is None:
        return None, None
    return tuple(np.split(b[number], 2) if isinstance(b, np.ndarray) else b[number].chunk(2))


def _plus(a: Any, b: Any) -> Any:
    return None if a is None or b is None else a + b


def _tensors(*values: Any) -> list[Any]:
    return [as_tensor(value) for value in values]


@rule("RNN", raw=True, fixed=(4,))
def rnn(
    x: Tensor,
    w: Tensor,
    r: Tensor,
    b: Tensor | None = None,
    lengths: Tensor | None = None,
    h: Tensor | None = None,
    *,
    activations: list[str] | None = None,
    activation_alpha: list[float] | None = None,
    activation_beta: list[float] | None = None,
    clip: float | None = None,
    direction: str = "forward",
    hidden_size: int | None = None,
    layout: int = 0,
) -> tuple[Tensor, ...]:
    """h' = f(W x + R h + b)."""
    x, lengths, h = _tensors(x, lengths, h)
    layer = _Layer(x, direction, layout, lengths, activations, ["Tanh"], activation_alpha, activation_beta, clip)
    found = []
    for k, reverse in enumerate(layer.reverse):
        bias, state = as_tensor(_plus(*_halves(b, k))), layer.state(h, k, r.shape[-1])
        inner, outer = _tensors(w[k], r[k])
        if layer.simple:
            rows, sizes = layer.rows()
            y, final = TANH_RECURRENCE(F.linear(rows, inner, bias), state, outer, **sizes, reverse=reverse, relu=False)[
                :2
            ]
            found.append((y.reshape(*layer.x.shape[:2], -1), (final,)))
            continue
        (f,) = layer.activations(k)
        step = lambda x, h, inner=inner, outer=outer, bias=bias, f=f: (f(F.linear(x, inner, bias) + h @ outer.mT),)
        found.append(layer.run(k, step, (state,)))
    return layer.joined(found)


@rule("GRU", raw=True, fixed=(4,))
def gru(
    x: Tensor,
    w: Tensor,
    r: Tensor,
    b: Tensor | None = None,
    lengths: Tensor | None = None,
    h: Tensor | None = None,
    *,
    activations: list[str] | None = None,
    activation_alpha: list[float] | None = None,
    activation_beta: list[float] | None = None,
    clip: float | None = None,
    direction: str = "forward",
    hidden_size: int | None = None,
    layout: int = 0,
    linear_before_reset: int = 0,
) -> tuple[Tensor, ...]:
    """z, r = σ(…), n = tanh(W x + r (R h)), or R (r h) unless `linear_before_reset`; h' = (1 − z) n + z h."""
    defaults = ["Sigmoid", "Tanh"]
    x, lengths, h = _tensors(x, lengths, h)
    layer = _Layer(x, direction, layout, lengths, activations, defaults, activation_alpha, activation_beta, clip)
    found = []
    for k, reverse in enumerate(layer.reverse):
        state, (inner, outer) = layer.state(h, k, r.shape[-1]), _halves(b, k)
        if layer.simple and linear_before_reset:
            turn = lambda t: None if t is None else as_tensor(_reordered(t, (1, 0, 2)))  # z r n → r z n
            rows, sizes = layer.rows()
            weights = (turn(r[k]),) if outer is None else (turn(r[k]), turn(outer))
            y, final = GRU_RECURRENCE(
                F.linear(rows, turn(w[k]), turn(inner)), state, *weights, **sizes, reverse=reverse
            )[:2]
            found.append((y.reshape(*layer.x.shape[:2], -1), (final,)))
            continue
        step = _gru_step(*_tensors(w[k], r[k], inner, outer), layer.activations(k), bool(linear_before_reset))
        found.append(layer.run(k, step, (state,)))
    return layer.joined(found)


def _gru_step(w: Tensor, r: Tensor, inner: Any, outer: Any, functions: Sequence[Any], linear_first: bool) -> Cell:
    f, g = functions
    width = r.shape[-1]

    def step(x: Tensor, h: Tensor) -> tuple[Tensor, ...]:
        from_input = F.linear(x, w, inner).chunk(3, -1)
        from_state = F.linear(h, r, outer).chunk(3, -1)
        update, reset = f(from_input[0] + from_state[0]), f(from_input[1] + from_state[1])
        if linear_first:
            new = g(from_input[2] + reset * from_state[2])
        else:
            bias = None if outer is None else outer[2 * width :]
            new = g(from_input[2] + F.linear(reset * h, r[2 * width :], bias))
        return ((1 - update) * new + update * h,)

    return step


@rule("LSTM", raw=True, fixed=(4,))
def lstm(
    x: Tensor,
    w: Tensor,
    r: Tensor,
    b: Tensor | None = None,
    lengths: Tensor | None = None,
    h: Tensor | None = None,
    c: Tensor | None = None,
    p: Tensor | None = None,
    *,
    activations: list[str] | None = None,
    activation_alpha: list[float] | None = None,
    activation_beta: list[float] | None = None,
    clip: float | None = None,
    direction: str = "forward",
    hidden_size: int | None = None,
    input_forget: int = 0,
    layout: int = 0,
) -> tuple[Tensor, ...]:
    """c' = f c + i g, h' = o tanh(c'), gates in the order i, o, f, g, with peepholes `p` into c (in the order i, o, f)."""
    defaults = ["Sigmoid", "Tanh", "Tanh"]
    x, lengths, h, c, p = _tensors(x, lengths, h, c, p)
    layer = _Layer(x, direction, layout, lengths, activations, defaults, activation_alpha, activation_beta, clip)
    found = []
    for k, reverse in enumerate(layer.reverse):
        state = layer.state(h, k, r.shape[-1]), layer.state(c, k, r.shape[-1])
        bias = _plus(*_halves(b, k))
        if layer.simple and p is None and not input_forget:
            turn = lambda t: None if t is None else as_tensor(_reordered(t, (0, 2, 3, 1)))  # i o f g → i f g o
            rows, sizes = layer.rows()
            gates = F.linear(rows, turn(w[k]), turn(bias))
            y, *final = LSTM_RECURRENCE(gates, *state, turn(r[k]), **sizes, reverse=reverse)[:3]
            found.append((y.reshape(*layer.x.shape[:2], -1), tuple(final)))
            continue
        step = _lstm_step(
            *_tensors(w[k], r[k], bias), None if p is None else p[k], layer.activations(k), bool(input_forget)
        )
        found.append(layer.run(k, step, state))
    return layer.joined(found)


def _lstm_step(w: Tensor, r: Tensor, bias: Any, p: Tensor | None, functions: Sequence[Any], coupled: bool) -> Cell:
    f, g, last = functions
    see = [0, 0, 0] if p is None else p.chunk(3)

    def step(x: Tensor, h: Tensor, c: Tensor) -> tuple[Tensor, ...]:
        enter, leave, forget, proposal = (F.linear(x, w, bias) + h @ r.mT).chunk(4, -1)
        enter = f(enter + see[0] * c)
        forget = 1 - enter if coupled else f(forget + see[2] * c)
        cell = forget * c + enter * g(proposal)
        return f(leave + see[1] * cell) * last(cell), cell

    return step
