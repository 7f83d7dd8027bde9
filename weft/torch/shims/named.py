"""Functions of `torch` under names that older or lower code uses: cells, products of norms, quasi-random numbers, what was set."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import weft

from ...nn import functional as F
from ...storage import Storage
from ..inner import PyTorchFileReader, TensorType
from .jit import CompilationUnit, ScriptFunction, ScriptModule

__all__ = [
    "CompilationUnit",
    "PyTorchFileReader",
    "ScriptFunction",
    "ScriptModule",
    "TensorType",
    "alpha_dropout_",
    "dropout_",
    "feature_dropout",
    "frobenius_norm",
    "get_device",
    "get_device_module",
    "gru_cell",
    "is_neg",
    "is_storage",
    "lstm_cell",
    "norm_except_dim",
    "nuclear_norm",
    "rnn_relu_cell",
    "rnn_tanh_cell",
]

feature_dropout = F.dropout1d


def dropout_(input: Any, p: float, train: bool) -> Any:
    """`dropout` in place."""
    return input.copy_(F.dropout(input, p, train))


def alpha_dropout_(input: Any, p: float, train: bool) -> Any:
    """`alpha_dropout` in place."""
    return input.copy_(F.alpha_dropout(input, p, train))


def _gates(x: Any, h: Any, w_ih: Any, w_hh: Any, b_ih: Any, b_hh: Any) -> tuple[Any, Any]:
    return F.linear(x, w_ih, b_ih), F.linear(h, w_hh, b_hh)


def lstm_cell(
    input: Any, hx: Sequence[Any], w_ih: Any, w_hh: Any, b_ih: Any = None, b_hh: Any = None
) -> tuple[Any, Any]:
    """(h, c) after one step of an LSTM; gates i, f, g, o."""
    h, c = hx
    a, b = _gates(input, h, w_ih, w_hh, b_ih, b_hh)
    i, f, g, o = (a + b).chunk(4, -1)
    c = f.sigmoid() * c + i.sigmoid() * g.tanh()
    return o.sigmoid() * c.tanh(), c


def gru_cell(input: Any, hx: Any, w_ih: Any, w_hh: Any, b_ih: Any = None, b_hh: Any = None) -> Any:
    """h after one step of a GRU: (1 − z) n + z h."""
    (r, z, n), (r_h, z_h, n_h) = (x.chunk(3, -1) for x in _gates(input, hx, w_ih, w_hh, b_ih, b_hh))
    r, z = (r + r_h).sigmoid(), (z + z_h).sigmoid()
    n = (n + r * n_h).tanh()
    return (1 - z) * n + z * hx


def rnn_tanh_cell(input: Any, hx: Any, w_ih: Any, w_hh: Any, b_ih: Any = None, b_hh: Any = None) -> Any:
    """tanh(W x + U h)."""
    a, b = _gates(input, hx, w_ih, w_hh, b_ih, b_hh)
    return (a + b).tanh()


def rnn_relu_cell(input: Any, hx: Any, w_ih: Any, w_hh: Any, b_ih: Any = None, b_hh: Any = None) -> Any:
    """max(0, W x + U h)."""
    a, b = _gates(input, hx, w_ih, w_hh, b_ih, b_hh)
    return (a + b).relu()


def frobenius_norm(input: Any, dim: Any = (), keepdim: bool = False) -> Any:
    """The root of the sum of squares."""
    return weft.linalg.vector_norm(input, 2, dim or None, keepdim)


def nuclear_norm(input: Any, dim: Any = (-2, -1), keepdim: bool = False) -> Any:
    """The sum of singular values."""
    return weft.linalg.matrix_norm(input, "nuc", tuple(dim), keepdim)


def norm_except_dim(v: Any, pow: int = 2, dim: int = 0) -> Any:
    """Norms over all dimensions but one, whose sizes stay as 1."""
    dims = [d for d in range(v.ndim) if d != dim % v.ndim]
    return v.abs().pow(pow).sum(dims, keepdim=True).pow(1 / pow)


def is_neg(input: Any) -> bool:
    """False: signs are never left for later."""
    return False


def is_storage(obj: Any) -> bool:
    """Whether it is the memory of a tensor."""
    return isinstance(obj, Storage)


def get_device(input: Any) -> int:
    """−1, as PyTorch says of the CPU."""
    return -1


def get_device_module(device: Any = None) -> Any:
    """`torch.cpu`, `torch.cuda`: the module of a kind of device."""
    import importlib

    return importlib.import_module(f"torch.{weft.device(device or 'cpu').type}")
