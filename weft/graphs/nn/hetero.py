"""A layer for each type of edges, and what becomes of several that come to nodes of one type."""

from __future__ import annotations

from typing import Any

import weft

from ... import nn
from ...errors import OptionError
from ...tensor import Tensor

__all__ = ["HeteroConv"]

COMBINED = {
    "sum": lambda parts: parts.sum(0),
    "mean": lambda parts: parts.mean(0),
    "max": lambda parts: parts.amax(0),
    "min": lambda parts: parts.amin(0),
}


class HeteroConv(nn.Module):
    """x_t' = ⊕ over the relations r that lead to nodes of type t of layer_r((x of sources, x_t), edges of r).

    convs: a layer for each type of edges (sources, relation, targets); layers between different types must take pairs, as
        `SAGEConv` and `GATConv` do. Nodes to which no relation leads are left out of the result
    aggr: "sum", "mean", "max" or "min" of what several relations say, or "cat" side by side

    >>> layer = HeteroConv({("author", "writes", "paper"): SAGEConv(2, 4), ("paper", "cites", "paper"): SAGEConv(2, 4)})
    >>> x = {"author": weft.ones(3, 2), "paper": weft.ones(5, 2)}
    >>> edges = {("author", "writes", "paper"): weft.tensor([[2], [4]]), ("paper", "cites", "paper"): weft.tensor([[1], [0]])}
    >>> {kind: tuple(y.shape) for kind, y in layer(x, edges).items()}
    {'paper': (5, 4)}
    """

    def __init__(self, convs: dict[tuple[str, str, str], nn.Module], aggr: str = "sum") -> None:
        super().__init__()
        if aggr not in (*COMBINED, "cat"):
            raise OptionError(f"HeteroConv: aggr must be one of {', '.join((*COMBINED, 'cat'))}, got {aggr!r}")
        self.kinds, self.aggr = list(convs), aggr
        self.convs = nn.ModuleList(list(convs.values()))

    def forward(self, x_dict: dict[str, Tensor], edge_index_dict: dict[Any, Tensor]) -> dict[str, Tensor]:
        heard: dict[str, list[Tensor]] = {}
        for (source, relation, target), layer in zip(self.kinds, self.convs, strict=True):
            edges = edge_index_dict.get((source, relation, target))
            if edges is None or source not in x_dict or target not in x_dict:
                continue
            x = x_dict[source] if source == target else (x_dict[source], x_dict[target])
            heard.setdefault(target, []).append(layer(x, edges))
        return {kind: self._combined(parts) for kind, parts in heard.items()}

    def _combined(self, parts: list[Tensor]) -> Tensor:
        if self.aggr == "cat":
            return weft.cat(parts, -1)
        return parts[0] if len(parts) == 1 else COMBINED[self.aggr](weft.stack(parts))
