"""Recurrent layers: RNN, LSTM and GRU, stacked and in both directions, on padded or packed sequences.

The input projections of a whole sequence are one matrix product; `ops/layers/recurrence.py` has the steps in time.
"""

from __future__ import annotations

import math
import numbers
import warnings
from collections.abc import Sequence
from typing import Any

import weft

from ...errors import ArgumentError, InvalidValueError, ShapeError, UnsupportedError
from ...ops.core.casting import cast, uncast
from ...ops.layers.recurrence import GRU_RECURRENCE, LSTM_RECURRENCE, TANH_RECURRENCE, State, lstm_step, unrolled
from ...refusal import need_bounded
from ...tape.modes import mode, switches
from ...tensor import Tensor
from .. import functional as F
from .. import init
from ..module import Module
from ..parameter import Parameter
from ..utils.rnn import PackedSequence

__all__ = ["GRU", "LSTM", "RNN", "RNNBase"]


class RNNBase(Module):
    """What recurrent layers share: weights for each layer and direction, checks, the walk through layers.

    A subclass says in `weight_shapes` which weights a layer has and in `run` what it computes. Weights are named
    weight_ih_l0, weight_hh_l0, bias_ih_l0, bias_hh_l0, …, with _reverse for the other direction, all from U(±1/√H).

    mode: 'LSTM', 'GRU', 'RNN_TANH' or 'RNN_RELU', for PyTorch's sake
    input_size: I, the size of an input
    hidden_size: H, the size of the state
    num_layers: how many layers lie on each other; each reads what the one below it says
    bias: whether there are biases
    batch_first: whether inputs and outputs are (N, T, ·) instead of (T, N, ·); states stay (L·D, N, ·)
    dropout: the probability of dropping between layers in training
    bidirectional: whether a second set of weights reads the sequence backwards, D = 2
    proj_size: P, the size that the state is projected to, of an LSTM; 0: not at all
    """

    gates = 1
    random_in_training = True  # the dropout between layers

    def __init__(
        self,
        mode: str,
        input_size: int,
        hidden_size: int,
        num_layers: int = 1,
        bias: bool = True,
        batch_first: bool = False,
        dropout: float = 0.0,
        bidirectional: bool = False,
        proj_size: int = 0,
        device: Any = None,
        dtype: Any = None,
    ) -> None:
        super().__init__()
        _check_options(hidden_size, num_layers, dropout, proj_size)
        self.mode, self.input_size, self.hidden_size = mode, input_size, hidden_size
        self.num_layers, self.bias, self.batch_first = num_layers, bias, batch_first
        self.dropout, self.bidirectional, self.proj_size = float(dropout), bidirectional, proj_size
        self._names: list[list[str]] = []  # of one layer and direction each
        for layer in range(num_layers):
            for suffix in ("", "_reverse")[: 1 + bidirectional]:
                self._make_weights(layer, suffix, device, dtype)
        self.reset_parameters()

    def _make_weights(self, layer: int, suffix: str, device: Any, dtype: Any) -> None:
        width = self._output_size * (1 + self.bidirectional) if layer else self.input_size
        names = []
        for kind, shape in self.weight_shapes(width).items():
            names.append(f"{kind}_l{layer}{suffix}")
            setattr(self, names[-1], Parameter(weft.empty(shape, device=device, dtype=dtype)))
        self._names.append(names)

    def weight_shapes(self, width: int) -> dict[str, tuple[int, ...]]:
        """The weights of one layer and direction with an input of `width` features."""
        rows = self.gates * self.hidden_size
        shapes: dict[str, tuple[int, ...]] = {"weight_ih": (rows, width), "weight_hh": (rows, self._output_size)}
        if self.bias:
            shapes |= {"bias_ih": (rows,), "bias_hh": (rows,)}
        if self.proj_size:
            shapes["weight_hr"] = (self.proj_size, self.hidden_size)
        return shapes

    def run(
        self, rows: Tensor, state: State, weights: dict[str, Tensor], batch_sizes: Sequence[int], reverse: bool
    ) -> tuple[Tensor, State]:
        """One layer in one direction: outputs of all rows and the final state (see `unrolled`)."""
        raise UnsupportedError(f"{type(self).__name__} defines no recurrence")

    def reset_parameters(self) -> None:
        bound = 1 / math.sqrt(self.hidden_size) if self.hidden_size > 0 else 0
        for weight in self.parameters():
            init.uniform_(weight, -bound, bound)

    def flatten_parameters(self) -> None:
        """Nothing to do: weights are used where they lie."""

    @property
    def all_weights(self) -> list[list[Parameter]]:
        """The weights of each layer and direction."""
        return [[getattr(self, name) for name in names] for names in self._names]

    @property
    def _output_size(self) -> int:
        return self.proj_size or self.hidden_size

    @property
    def _state_sizes(self) -> tuple[int, ...]:
        return (self._output_size,)

    def extra_repr(self) -> str:
        parts = [str(self.input_size), str(self.hidden_size)]
        defaults = {"proj_size": 0, "num_layers": 1, "bias": True, "batch_first": False, "dropout": 0.0}
        for name, usual in (defaults | {"bidirectional": False}).items():
            if getattr(self, name) != usual:
                parts.append(f"{name}={getattr(self, name)}")
        return ", ".join(parts)

    # -------------------------------------------------------------------------------------- computing

    def forward(self, input: Any, hx: Any = None) -> tuple[Any, Any]:
        if switches.casting and mode.casting is not None:  # time loops stay in the type of the weights
            with uncast():
                return RNNBase.forward(self, cast(input, next(self.parameters()).dtype), hx)
        if isinstance(input, PackedSequence):
            return self._forward_packed(input, hx)
        if input.ndim not in (2, 3):
            raise ShapeError(f"{type(self).__name__}: Expected input to be 2D or 3D, got {input.ndim}D instead")
        unbatched = input.ndim == 2
        state = self._given_state(hx, input.ndim)
        if unbatched:
            input = input.unsqueeze(1)
            state = None if state is None else tuple(s.unsqueeze(1) for s in state)
        elif self.batch_first:
            input = input.transpose(0, 1)
        steps, examples = input.shape[:2]
        if steps == 0:
            raise ShapeError("Expected sequence length to be larger than 0 in RNN")
        self._check_input(input)
        rows = input.reshape(steps * examples, -1 if input.numel() else self.input_size)  # (T·N, I)
        y, final = self._through_layers(rows, self._state(state, examples, input.dtype), [examples] * steps)
        y = y.reshape(steps, examples, y.shape[-1])  # (T, N, D·H)
        if unbatched:
            return y.squeeze(1), self._returned(tuple(s.squeeze(1) for s in final))
        return (y.transpose(0, 1) if self.batch_first else y), self._returned(final)

    def _forward_packed(self, input: PackedSequence, hx: Any) -> tuple[PackedSequence, Any]:
        data, batch_sizes, order, back = input
        self._check_input(data)
        sizes = batch_sizes.tolist()
        given = self._given_state(hx, 3)
        if given is not None and order is not None:
            given = tuple(s.index_select(1, order) for s in given)
        y, final = self._through_layers(data, self._state(given, sizes[0], data.dtype), sizes)
        if back is not None:
            final = tuple(s.index_select(1, back) for s in final)
        return PackedSequence(y, batch_sizes, order, back), self._returned(final)

    def _through_layers(self, rows: Tensor, state: State, batch_sizes: Sequence[int]) -> tuple[Tensor, State]:
        """All layers and directions in turn. Shape: rows (ΣB_t, I), state (L·D, N, H) → (ΣB_t, D·H), state."""
        directions = 1 + self.bidirectional
        initial = list(zip(*(s.unbind(0) for s in state), strict=True))
        finals = []
        for layer in range(self.num_layers):
            outputs = []
            for direction in range(directions):
                number = layer * directions + direction
                weights = {name.split("_l")[0]: getattr(self, name) for name in self._names[number]}
                y, final = self.run(rows, initial[number], weights, batch_sizes, direction == 1)
                outputs.append(y)
                finals.append(final)
            rows = weft.cat(outputs, -1) if directions == 2 else outputs[0]
            if self.dropout and layer < self.num_layers - 1:
                rows = F.dropout(rows, self.dropout, self.training)
        return rows, tuple(weft.stack(part) for part in zip(*finals, strict=True))

    # ----------------------------------------------------------------------------------------- checks

    def _given_state(self, hx: Any, ndim: int) -> State | None:
        """The state given by the caller as a tuple, of the right rank."""
        if hx is None:
            return None
        state = (hx,) if isinstance(hx, Tensor) else tuple(hx)
        if len(state) != len(self._state_sizes):
            raise ShapeError(
                f"{type(self).__name__}: expected a state of {len(self._state_sizes)} tensors, got {len(state)}"
            )
        if any(s.ndim != ndim for s in state):
            kind, found = "unbatched" if ndim == 2 else "batched", [s.ndim for s in state]
            names = "hx and cx" if len(state) == 2 else "hx"
            shown = f"({found[0]}-D, {found[1]}-D) tensors" if len(state) == 2 else f"{found[0]}-D tensor"
            raise ShapeError(f"For {kind} {ndim}-D input, {names} should also be {ndim}-D but got {shown}")
        return state

    def _check_input(self, input: Tensor) -> None:
        if input.shape[-1] != self.input_size:
            raise ShapeError(
                f"input.size(-1) must be equal to input_size. Expected {self.input_size}, got {input.shape[-1]}"
            )
        kind = self.weight_ih_l0.dtype
        if input.dtype is not kind:
            raise InvalidValueError(
                f"RNN input dtype ({input.dtype}) does not match weight dtype ({kind}). Convert input: input.to({kind}), "
                f"or convert model: model.to({input.dtype})"
            )

    def _state(self, given: State | None, examples: int, kind: Any) -> State:
        """The initial state: given and checked, or zeros. Shape: (L·D, N, H) each."""
        count = self.num_layers * (1 + self.bidirectional)
        if given is None:
            return tuple(weft.zeros(count, examples, size, dtype=kind) for size in self._state_sizes)
        for number, (value, size) in enumerate(zip(given, self._state_sizes, strict=True)):
            expected = (count, examples, size)
            if tuple(value.shape) != expected:
                name = f"hidden[{number}]" if len(given) > 1 else "hidden"
                raise ShapeError(f"Expected {name} size {expected}, got {list(value.shape)}")
        return given

    def _returned(self, state: State) -> Any:
        return state[0] if len(state) == 1 else state


def _check_options(hidden_size: int, num_layers: int, dropout: float, proj_size: int) -> None:
    if not isinstance(dropout, numbers.Number) or isinstance(dropout, bool) or not 0 <= dropout <= 1:
        raise InvalidValueError(
            "dropout should be a number in range [0, 1] representing the probability of an element being zeroed"
        )
    if dropout > 0 and num_layers == 1:
        warnings.warn(
            "dropout option adds dropout after all but last recurrent layer, so non-zero dropout expects num_layers "
            f"greater than 1, but got dropout={dropout} and num_layers={num_layers}",
            stacklevel=4,
        )
    if not isinstance(hidden_size, int):
        raise ArgumentError(f"hidden_size should be of type int, got: {type(hidden_size).__name__}")
    if hidden_size <= 0:
        raise InvalidValueError("hidden_size must be greater than zero")
    if num_layers <= 0:
        raise InvalidValueError("num_layers must be greater than zero")
    need_bounded(num_layers, "recurrent layers", "num_layers", 10_000)
    if proj_size < 0:
        raise InvalidValueError("proj_size should be a positive integer or zero to disable projections")
    if proj_size >= hidden_size:
        raise InvalidValueError("proj_size has to be smaller than hidden_size")


def projected(rows: Tensor, weights: dict[str, Tensor], both_biases: bool = True) -> Tensor:
    """W_ih x + b_ih for all rows at once; with both_biases b_hh is added here too, outside the loop over time."""
    bias = weights.get("bias_ih")
    if bias is not None and both_biases:
        bias = bias + weights["bias_hh"]
    return F.linear(rows, weights["weight_ih"], bias)


def _over(batch_sizes: Sequence[int], reverse: bool) -> dict[str, Any]:
    return {"batch_sizes": tuple(batch_sizes), "reverse": reverse}


class RNN(RNNBase):
    """h_t = tanh(W_ih x_t + b_ih + W_hh h_{t−1} + b_hh), or max(·, 0) with nonlinearity='relu' (N1 §5.1, N2 §5.1).

    Shape: (T, N, I), state (L·D, N, H) → (T, N, D·H), (L·D, N, H); (N, T, ·) with batch_first, N optional, D directions

    nonlinearity: 'tanh' or 'relu'

    >>> outputs, state = nn.RNN(3, 5)(weft.randn(7, 2, 3))
    >>> outputs.shape, state.shape
    (weft.Size([7, 2, 5]), weft.Size([1, 2, 5]))
    """

    def __init__(
        self,
        input_size: int,
        hidden_size: int,
        num_layers: int = 1,
        nonlinearity: str = "tanh",
        bias: bool = True,
        batch_first: bool = False,
        dropout: float = 0.0,
        bidirectional: bool = False,
        device: Any = None,
        dtype: Any = None,
        **refused: Any,
    ) -> None:
        _refuse(refused)
        if nonlinearity not in ("tanh", "relu"):
            raise InvalidValueError(f"Unknown nonlinearity '{nonlinearity}'. Select from 'tanh' or 'relu'.")
        mode = "RNN_" + nonlinearity.upper()
        options = (num_layers, bias, batch_first, dropout, bidirectional, 0, device, dtype)
        super().__init__(mode, input_size, hidden_size, *options)
        self.nonlinearity = nonlinearity

    def run(
        self, rows: Tensor, state: State, weights: dict[str, Tensor], batch_sizes: Sequence[int], reverse: bool
    ) -> tuple[Tensor, State]:
        inputs, options = (projected(rows, weights), *state, weights["weight_hh"]), _over(batch_sizes, reverse)
        y, *final = TANH_RECURRENCE(*inputs, relu=self.nonlinearity == "relu", **options)[:2]
        return y, tuple(final)


class LSTM(RNNBase):
    """Long short-term memory (N1 §5.3, N2 §5.2), with σ the logistic function and ⊙ products of elements:

    i, f, o = σ(W x_t + b + U h_{t−1} + d), g = tanh(W x_t + …); c_t = f ⊙ c_{t−1} + i ⊙ g; h_t = o ⊙ tanh c_t,
    and with proj_size h_t = W_hr (o ⊙ tanh c_t).
    Shape: (T, N, I), (h, c) of (L·D, N, P) and (L·D, N, H) → (T, N, D·P), (h, c); P = proj_size or H

    >>> outputs, (h, c) = nn.LSTM(3, 5, num_layers=2, batch_first=True)(weft.randn(2, 7, 3))
    >>> outputs.shape, h.shape, c.shape
    (weft.Size([2, 7, 5]), weft.Size([2, 2, 5]), weft.Size([2, 2, 5]))
    """

    gates = 4

    def __init__(
        self,
        input_size: int,
        hidden_size: int,
        num_layers: int = 1,
        bias: bool = True,
        batch_first: bool = False,
        dropout: float = 0.0,
        bidirectional: bool = False,
        proj_size: int = 0,
        device: Any = None,
        dtype: Any = None,
    ) -> None:
        options = (num_layers, bias, batch_first, dropout, bidirectional, proj_size, device, dtype)
        super().__init__("LSTM", input_size, hidden_size, *options)

    @property
    def _state_sizes(self) -> tuple[int, ...]:
        return (self._output_size, self.hidden_size)

    def run(
        self, rows: Tensor, state: State, weights: dict[str, Tensor], batch_sizes: Sequence[int], reverse: bool
    ) -> tuple[Tensor, State]:
        x, weight, projection = projected(rows, weights), weights["weight_hh"], weights.get("weight_hr")
        if projection is not None:
            step = lambda x, hidden, cell: lstm_step(x, hidden, cell, weight, projection)
            return unrolled(step, x, state, batch_sizes, reverse)
        y, *final = LSTM_RECURRENCE(x, *state, weight, **_over(batch_sizes, reverse))[:3]
        return y, tuple(final)


class GRU(RNNBase):
    """Gated recurrent unit (N2 §5.2.3): r, z = σ(W x_t + b + U h_{t−1} + d), n = tanh(W x_t + b + r ⊙ (U h_{t−1} + d)),
    h_t = (1 − z) ⊙ n + z ⊙ h_{t−1}.

    Shape: (T, N, I), state (L·D, N, H) → (T, N, D·H), (L·D, N, H)

    >>> outputs, state = nn.GRU(3, 5, bidirectional=True)(weft.randn(7, 2, 3))
    >>> outputs.shape, state.shape
    (weft.Size([7, 2, 10]), weft.Size([2, 2, 5]))
    """

    gates = 3

    def __init__(
        self,
        input_size: int,
        hidden_size: int,
        num_layers: int = 1,
        bias: bool = True,
        batch_first: bool = False,
        dropout: float = 0.0,
        bidirectional: bool = False,
        device: Any = None,
        dtype: Any = None,
        **refused: Any,
    ) -> None:
        _refuse(refused)
        options = (num_layers, bias, batch_first, dropout, bidirectional, 0, device, dtype)
        super().__init__("GRU", input_size, hidden_size, *options)

    def run(
        self, rows: Tensor, state: State, weights: dict[str, Tensor], batch_sizes: Sequence[int], reverse: bool
    ) -> tuple[Tensor, State]:
        x, inner = (
            projected(rows, weights, both_biases=False),
            [weights[k] for k in ("weight_hh", "bias_hh") if k in weights],
        )
        y, *final = GRU_RECURRENCE(x, *state, *inner, **_over(batch_sizes, reverse))[:2]
        return y, tuple(final)


def _refuse(options: dict[str, Any]) -> None:
    if "proj_size" in options:
        raise InvalidValueError("proj_size argument is only supported for LSTM, not RNN or GRU")
    if options:
        raise ArgumentError(f"got an unexpected keyword argument '{next(iter(options))}'")
