"""The multilayer perceptron: affine maps and activations in turn (N0 §1.1, N1 def. 1.2, N2 §2.4.8–2.4.10)."""

from __future__ import annotations

import difflib
import itertools
from collections import OrderedDict
from collections.abc import Callable, Sequence

import weft

from ... import nn
from ...errors import OptionError
from ...tensor import Tensor

__all__ = ["MLP", "rectifier_network"]

ACTIVATIONS: dict[str, Callable[[], nn.Module]] = {
    "relu": nn.ReLU,
    "leaky_relu": nn.LeakyReLU,
    "elu": nn.ELU,
    "selu": nn.SELU,
    "gelu": nn.GELU,
    "silu": nn.SiLU,
    "tanh": nn.Tanh,
    "sigmoid": nn.Sigmoid,
    "arctan": nn.Arctan,
    "identity": nn.Identity,
}
NORMS: dict[str, Callable[[int], nn.Module]] = {"batch": nn.BatchNorm1d, "layer": nn.LayerNorm, "rms": nn.RMSNorm}
INITS: dict[str, Callable[[Tensor], Tensor]] = {
    "he": lambda w: nn.init.kaiming_normal_(w, nonlinearity="relu"),
    "xavier": nn.init.xavier_normal_,
    "orthogonal": nn.init.orthogonal_,
    "fan_in": nn.init.fan_in_,
    "zeros": nn.init.zeros_,
}


class MLP(nn.Module):
    """h⁽⁰⁾ = x,  h⁽ˡ⁾ = σ(norm(W⁽ˡ⁾ h⁽ˡ⁻¹⁾ + b⁽ˡ⁾)) with dropout,  y = W⁽ᴸ⁾ h⁽ᴸ⁻¹⁾ + b⁽ᴸ⁾.

    hidden: the width of each hidden layer; none gives a linear map. activation: a name ("relu", "tanh", "gelu" …) or a
    function that makes a module. norm: None, "batch", "layer", "rms" or a function of the width. init: None for
    PyTorch's U(±1/√fan_in), "he" (variance 2 / fan_in), "xavier" (2 / (fan_in + fan_out)), "orthogonal", "fan_in",
    "zeros", or a function that fills a weight; with an init, biases start at 0.
    Shape: (*, in_features) → (*, out_features). Parameters: hidden.0.linear.weight … output.weight, output.bias

    >>> model = MLP(64, [128], 10, dropout=0.1, norm="batch")
    >>> sum(p.numel() for p in model.parameters())
    9866
    """

    def __init__(
        self,
        in_features: int,
        hidden: Sequence[int],
        out_features: int,
        activation: str | Callable[[], nn.Module] = "relu",
        dropout: float = 0.0,
        norm: str | Callable[[int], nn.Module] | None = None,
        init: str | Callable[[Tensor], Tensor] | None = None,
    ) -> None:
        super().__init__()
        widths = [in_features, *hidden]
        if any(width < 1 for width in (*widths[1:], out_features)):
            raise OptionError(f"MLP: expected widths >= 1, got hidden {list(hidden)}, out_features {out_features}")
        layers = [_layer(a, b, activation, dropout, norm) for a, b in itertools.pairwise(widths)]
        self.hidden = nn.Sequential(*layers)
        self.output = nn.Linear(widths[-1], out_features)
        if init is not None:
            _initialise(self, _named(INITS, "init", init))

    def forward(self, x: Tensor) -> Tensor:
        return self.output(self.hidden(x))

    def lipschitz_bound(self) -> float:
        """Π ‖W⁽ˡ⁾‖₂ ≥ Lip(f), for activations of slope at most 1 and no normalisation (N1 thm. 1.4)."""
        weights = [layer.linear.weight for layer in self.hidden] + [self.output.weight]
        return float(weft.stack([weft.linalg.matrix_norm(w.detach(), 2) for w in weights]).prod())


def rectifier_network(in_features: int, hidden: Sequence[int], out_features: int) -> nn.Sequential:
    """An MLP with ReLU in hidden and output layers and He's initialisation: piecewise linear and ≥ 0.

    H hidden units cut the input space into at most 2ᴴ linear regions (N2 §2.4.10).
    """
    network = MLP(in_features, hidden, out_features, init="he")
    return nn.Sequential(OrderedDict(network=network, rectifier=nn.ReLU()))


def _layer(inputs: int, outputs: int, activation: object, dropout: float, norm: object) -> nn.Sequential:
    parts: OrderedDict[str, nn.Module] = OrderedDict(linear=nn.Linear(inputs, outputs))
    if norm is not None:
        parts["norm"] = _named(NORMS, "norm", norm)(outputs)
    parts["activation"] = _named(ACTIVATIONS, "activation", activation)()
    if dropout:
        parts["dropout"] = nn.Dropout(dropout)
    return nn.Sequential(parts)


def _initialise(model: MLP, fill: Callable[[Tensor], Tensor]) -> None:
    for module in model.modules():
        if isinstance(module, nn.Linear):
            fill(module.weight)
            nn.init.zeros_(module.bias)


def _named(table: dict[str, Callable], option: str, value: object) -> Callable:
    """A function given as such, or by its name in a table."""
    if callable(value):
        return value
    if value not in table:
        close = difflib.get_close_matches(str(value), table, n=1)
        hint = f"; did you mean {close[0]!r}?" if close else ""
        raise OptionError(f"MLP: {option} must be one of {sorted(table)} or a function, got {value!r}{hint}")
    return table[value]
