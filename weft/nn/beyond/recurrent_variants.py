"""Variants of the LSTM that the notes name and PyTorch lacks: peephole connections and coupled gates (N2 §5.2.3).

Both have the options, shapes and weight names of `LSTM`, on padded and packed sequences.
"""

from __future__ import annotations

from collections.abc import Sequence

from ...ops.layers.recurrence import State, unrolled
from ...tensor import Tensor
from ..modules.recurrent import RNNBase, projected

__all__ = ["CoupledLSTM", "PeepholeLSTM"]


class CellRecurrence(RNNBase):
    """A recurrence with hidden state and cell state, without projection."""

    def __init__(
        self,
        input_size: int,
        hidden_size: int,
        num_layers: int = 1,
        bias: bool = True,
        batch_first: bool = False,
        dropout: float = 0.0,
        bidirectional: bool = False,
        device: object = None,
        dtype: object = None,
    ) -> None:
        options = (num_layers, bias, batch_first, dropout, bidirectional, 0, device, dtype)
        super().__init__(type(self).__name__, input_size, hidden_size, *options)

    @property
    def _state_sizes(self) -> tuple[int, ...]:
        return (self.hidden_size, self.hidden_size)


class PeepholeLSTM(CellRecurrence):
    """An LSTM whose gates see the cell state through weights p, one for each cell (Gers and Schmidhuber 2000):

    i = σ(… + p_i ⊙ c_{t−1}), f = σ(… + p_f ⊙ c_{t−1}), c_t = f ⊙ c_{t−1} + i ⊙ tanh(…), o = σ(… + p_o ⊙ c_t),
    h_t = o ⊙ tanh c_t, where … = W_ih x_t + b_ih + W_hh h_{t−1} + b_hh. The weights p are weight_ch_l0, … (3, H) in the
    order i, f, o; at 0 this is `LSTM`. Shape: as `LSTM`

    >>> outputs, (h, c) = nn.PeepholeLSTM(3, 5)(weft.randn(7, 2, 3))
    >>> outputs.shape
    weft.Size([7, 2, 5])
    """

    gates = 4

    def weight_shapes(self, width: int) -> dict[str, tuple[int, ...]]:
        return super().weight_shapes(width) | {"weight_ch": (3, self.hidden_size)}

    def run(
        self, rows: Tensor, state: State, weights: dict[str, Tensor], batch_sizes: Sequence[int], reverse: bool
    ) -> tuple[Tensor, State]:
        weight, (to_enter, to_forget, to_leave) = weights["weight_hh"], weights["weight_ch"].unbind(0)

        def step(x: Tensor, hidden: Tensor, cell: Tensor) -> State:
            enter, forget, proposal, leave = (x + hidden @ weight.mT).chunk(4, -1)
            kept = (forget + to_forget * cell).sigmoid() * cell
            cell = kept + (enter + to_enter * cell).sigmoid() * proposal.tanh()
            return (leave + to_leave * cell).sigmoid() * cell.tanh(), cell

        return unrolled(step, projected(rows, weights), state, batch_sizes, reverse)


class CoupledLSTM(CellRecurrence):
    """An LSTM whose input gate is what the forget gate leaves, i = 1 − f:

    c_t = f ⊙ c_{t−1} + (1 − f) ⊙ g, h_t = o ⊙ tanh c_t. Its weights have three blocks of H rows, in the order f, g, o; the
    cell state is an average and stays in [−1, 1] when it starts there. Shape: as `LSTM`

    >>> outputs, (h, c) = nn.CoupledLSTM(3, 5)(weft.randn(7, 2, 3))
    >>> bool(c.abs().max() <= 1)
    True
    """

    gates = 3

    def run(
        self, rows: Tensor, state: State, weights: dict[str, Tensor], batch_sizes: Sequence[int], reverse: bool
    ) -> tuple[Tensor, State]:
        weight = weights["weight_hh"]

        def step(x: Tensor, hidden: Tensor, cell: Tensor) -> State:
            forget, proposal, leave = (x + hidden @ weight.mT).chunk(3, -1)
            new = proposal.tanh()
            cell = new + forget.sigmoid() * (cell - new)
            return leave.sigmoid() * cell.tanh(), cell

        return unrolled(step, projected(rows, weights), state, batch_sizes, reverse)
