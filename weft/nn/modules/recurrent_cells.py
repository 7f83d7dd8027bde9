"""Recurrent cells: the modules that hold the weights of one step in time.

The steps themselves are in `ops/layers/recurrence.py`; `recurrent.py` has layers over whole sequences.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import weft

from ...errors import OptionError, ShapeError
from ...ops.layers.recurrence import State, gru_step, lstm_step, rnn_step
from ...tensor import Tensor
from .. import functional as F
from .. import init
from ..module import Module
from ..parameter import Parameter

__all__ = ["GRUCell", "LSTMCell", "RNNCell", "RNNCellBase"]


class RNNCellBase(Module):
    """Weights of one step: weight_ih (kH, I), weight_hh (kH, H), bias_ih and bias_hh (kH,), all from U(±1/√H).

    input_size: I, the size of an input
    hidden_size: H, the size of the state
    bias: whether there are biases
    num_chunks: k, how many blocks of H rows the weights have
    """

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

    def _stepped(self, input: Tensor, state: Sequence[Tensor | None], step: Callable[..., State]) -> State:
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
        new = step(F.linear(x, self.weight_ih, self.bias_ih), *state)
        return tuple(s.squeeze(0) for s in new) if single else new

    def _shifted(self, x: Tensor) -> Tensor:
        """The projected input plus the bias of the hidden state."""
        return x if self.bias_hh is None else x + self.bias_hh

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
    """h' = tanh(W_ih x + b_ih + W_hh h + b_hh), or max(·, 0) (N1 §5.1). Shape: (N, I), (N, H) → (N, H); N optional.

    nonlinearity: 'tanh' or 'relu'

    >>> nn.RNNCell(3, 5)(weft.randn(2, 3), weft.zeros(2, 5)).shape
    weft.Size([2, 5])
    """

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
            raise OptionError(f"Unknown nonlinearity: {self.nonlinearity}")
        relu = self.nonlinearity == "relu"
        return self._stepped(input, (hx,), lambda x, h: rnn_step(self._shifted(x), h, self.weight_hh, relu))[0]


class LSTMCell(RNNCellBase):
    """One step of a long short-term memory (see `lstm_step`; N1 §5.3, N2 §5.2).

    Shape: (N, I), ((N, H), (N, H)) → ((N, H), (N, H)); N optional

    >>> h, c = nn.LSTMCell(3, 5)(weft.randn(2, 3))
    >>> h.shape, c.shape
    (weft.Size([2, 5]), weft.Size([2, 5]))
    """

    def __init__(
        self, input_size: int, hidden_size: int, bias: bool = True, device: Any = None, dtype: Any = None
    ) -> None:
        super().__init__(input_size, hidden_size, bias, 4, device, dtype)

    def forward(self, input: Tensor, hx: tuple[Tensor, Tensor] | None = None) -> tuple[Tensor, Tensor]:
        step = lambda x, h, c: lstm_step(self._shifted(x), h, c, self.weight_hh)
        return self._stepped(input, (None, None) if hx is None else hx, step)


class GRUCell(RNNCellBase):
    """One step of a gated recurrent unit (see `gru_step`; N2 §5.2.3). Shape: (N, I), (N, H) → (N, H); N optional.

    >>> nn.GRUCell(3, 5)(weft.randn(2, 3), weft.zeros(2, 5)).shape
    weft.Size([2, 5])
    """

    def __init__(
        self, input_size: int, hidden_size: int, bias: bool = True, device: Any = None, dtype: Any = None
    ) -> None:
        super().__init__(input_size, hidden_size, bias, 3, device, dtype)

    def forward(self, input: Tensor, hx: Tensor | None = None) -> Tensor:
        return self._stepped(input, (hx,), lambda x, h: gru_step(x, h, self.weight_hh, self.bias_hh))[0]
