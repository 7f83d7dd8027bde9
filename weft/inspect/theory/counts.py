"""How many parameters a network has, by formula and by counting (N0 §1.4)."""

from __future__ import annotations

import dataclasses
import itertools
import math
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from ... import nn
from ...errors import OptionError
from ...nn.module import Module
from ...nn.parameter import is_lazy
from ..drawing import COLOURS, Picture, blank

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = ["LayerCount", "ParameterCounts", "mlp_parameters", "parameter_counts", "parameters_of_widths"]


def mlp_parameters(inputs: int, width: int, depth: int, outputs: int) -> int:
    """Parameters of an MLP with K hidden layers (`depth`) of D units (`width`).

    D⁽⁰⁾ D + D + (K − 1)(D² + D) + D D⁽ᴸ⁾ + D⁽ᴸ⁾; for one input and one output 3D + 1 + (K − 1) D (D + 1).
    N0 §1.4 prints K for K − 1 in the general form; its simplified form, and counting, have K − 1.

    >>> mlp_parameters(1, 8, 3, 1)
    169
    """
    if min(inputs, width, depth, outputs) < 1:
        raise OptionError(f"mlp_parameters: expected sizes >= 1, got {(inputs, width, depth, outputs)}")
    return inputs * width + width + (depth - 1) * (width * width + width) + width * outputs + outputs


def parameters_of_widths(widths: Sequence[int]) -> int:
    """Σ (Dᵢ + 1) Dᵢ₊₁ over the affine maps between layers of these widths, input and output included.

    >>> parameters_of_widths([784, 128, 10])
    101770
    """
    return sum((a + 1) * b for a, b in itertools.pairwise(widths))


@dataclasses.dataclass(frozen=True)
class LayerCount:
    """Parameters of one layer: what its formula says (None: no formula for this kind) and what it holds."""

    name: str
    kind: str
    formula: str
    expected: int | None
    counted: int


@dataclasses.dataclass(frozen=True)
class ParameterCounts(Picture):
    """Layers that hold parameters, in order; shared parameters count where they are met first."""

    layers: list[LayerCount]

    @property
    def total(self) -> int:
        return sum(layer.counted for layer in self.layers)

    def __str__(self) -> str:
        rows = [f"{r.name or r.kind}: {r.formula or 'no formula'} = {r.counted:,}" for r in self.layers]
        return "\n".join([*rows, f"total: {self.total:,}"])

    def figure(self) -> Figure:
        """Bars, one a layer."""
        figure, axes = blank(height=max(2.0, 0.32 * len(self.layers) + 0.9), width=6.4)
        axis, names = axes[0, 0], [f"{r.name} · {r.kind}" if r.name else r.kind for r in self.layers]
        bars = axis.barh(range(len(names)), [r.counted for r in self.layers], color=COLOURS[0])
        axis.bar_label(bars, [f" {r.formula or r.counted}" for r in self.layers], fontsize=7)
        axis.set_yticks(range(len(names)), names, fontsize=8)
        axis.invert_yaxis()
        axis.margins(x=0.3)
        axis.set(xlabel="parameters", title=f"{self.total:,} parameters")
        return figure


def parameter_counts(model: Module) -> ParameterCounts:
    """Parameters layer by layer, each beside the formula of its kind.

    >>> print(parameter_counts(nn.Linear(784, 10)))
    Linear: 784·10 + 10 = 7,850
    total: 7,850
    """
    rows, seen = [], set()
    for name, module in model.named_modules():
        if any(not row.name or name.startswith(f"{row.name}.") for row in rows if row.expected is not None):
            continue  # a part of a layer that has a formula of its own
        terms = _formula(module)
        own = [p for p in module.parameters(recurse=terms is not None) if not is_lazy(p)]
        new = [p for p in own if id(p) not in seen]
        seen.update(map(id, own))
        if new:
            whole = terms if len(new) == len(own) else None
            counted = sum(p.numel() for p in new)
            rows.append(LayerCount(name, type(module).__name__, _written(whole), _sum(whole), counted))
    return ParameterCounts(rows)


Terms = list[tuple[int, ...]]  # a sum of products


def _written(terms: Terms | None) -> str:
    return " + ".join("·".join(map(str, factors)) for factors in terms or ())


def _sum(terms: Terms | None) -> int | None:
    return None if terms is None else sum(math.prod(factors) for factors in terms)


def _linear(m: Any) -> Terms:
    return [(m.in_features, m.out_features), *_bias(m, m.out_features)]


def _bias(m: Any, size: int) -> Terms:
    return [(size,)] if m.bias is not None else []


def _convolution(m: Any) -> Terms:
    return [(m.out_channels, m.in_channels // m.groups, *m.kernel_size), *_bias(m, m.out_channels)]


def _normalisation(m: Any) -> Terms:
    found = [getattr(m, name, None) for name in ("weight", "bias")]
    sizes = [p.numel() for p in found if p is not None]
    return [(len(sizes), sizes[0])] if sizes else []


def _recurrent(m: Any) -> Terms:
    """Gates · (H·I + H·H + 2H) for every layer and direction (no projection)."""
    gates = {"LSTM": 4, "GRU": 3}.get(m.mode, 1)
    H, ways = m.hidden_size, 2 if m.bidirectional else 1
    bias: Terms = [(ways, gates, 2 * H)] if m.bias else []
    terms: Terms = []
    for layer in range(m.num_layers):
        terms += [(ways, gates, H, m.input_size if layer == 0 else ways * H), (ways, gates, H, H), *bias]
    return terms


def _attention(m: Any) -> Terms:
    E = m.embed_dim
    extra: Terms = [(2, E)] if m.bias_k is not None else []
    return [(2, E, E), (E, m.kdim), (E, m.vdim), *([(4, E)] if m.in_proj_bias is not None else []), *extra]


FORMULAS: tuple[tuple[str, Callable[[Any], Terms]], ...] = (
    ("Linear", _linear),
    ("Bilinear", lambda m: [(m.out_features, m.in1_features, m.in2_features), *_bias(m, m.out_features)]),
    ("Conv1d Conv2d Conv3d", _convolution),
    ("BatchNorm1d BatchNorm2d BatchNorm3d LayerNorm GroupNorm RMSNorm", _normalisation),
    ("Embedding EmbeddingBag", lambda m: [(m.num_embeddings, m.embedding_dim)]),
    ("MultiheadAttention", _attention),
    ("RNN LSTM GRU", _recurrent),
)


def _formula(module: Module) -> Terms | None:
    """Products whose sum is the number of parameters, by the kind of the layer; None where there is no formula."""
    for names, rule in FORMULAS:
        if isinstance(module, tuple(getattr(nn, name) for name in names.split())):
            return None if getattr(module, "proj_size", 0) else rule(module)
    return None
