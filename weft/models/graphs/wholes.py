"""Networks for vertices and whole graphs: GraphSAGE, isomorphism networks, MPNN with an edge network, graph transformers."""

from __future__ import annotations

from itertools import pairwise
from typing import Any, Literal

from ... import nn
from ...errors import OptionError
from ...graphs.nn.batch_norm import BatchNorm
from ...graphs.nn.edge_conditioned import NNConv
from ...graphs.nn.gin import GINConv
from ...graphs.nn.message_passing import Adjacency
from ...graphs.nn.positions import SignInvariant, random_signs
from ...graphs.nn.readout import Set2Set, global_add_pool, global_max_pool, global_mean_pool
from ...graphs.nn.sage import SAGEConv
from ...graphs.nn.transformer import GPSConv
from ...nn import functional as F
from ...tensor import Tensor
from .convolutional import Stack

__all__ = ["GIN", "MPNN", "DeepSets", "GraphSAGE", "GraphTransformer"]

READOUTS = {"sum": global_add_pool, "mean": global_mean_pool, "max": global_max_pool}


class GraphSAGE(Stack):
    """Layers of `SAGEConv`, relu and dropout between them (Hamilton et al. 2017); for sampled neighbourhoods as well.

    Shape: x (N, in_channels), edge_index → (N, out_channels)

    >>> GraphSAGE(5, 16, 3)(weft.ones(2, 5), weft.tensor([[0, 1], [1, 0]])).shape
    weft.Size([2, 3])
    """

    def __init__(
        self,
        in_channels: int,
        hidden_channels: int,
        out_channels: int,
        num_layers: int = 2,
        dropout: float = 0.5,
        **options: Any,
    ) -> None:
        sizes = [in_channels, *[hidden_channels] * (num_layers - 1), out_channels]
        super().__init__([SAGEConv(*pair, **options) for pair in pairwise(sizes)], dropout, F.relu)


def perceptron(inputs: int, hidden: int, outputs: int) -> nn.Sequential:
    """Two linear maps with relu between them."""
    return nn.Sequential(nn.Linear(inputs, hidden), nn.ReLU(), nn.Linear(hidden, outputs))


class NormedPerceptron(nn.Module):
    """Two linear maps with batch normalisation over the chosen vertices and relu between them."""

    def __init__(self, inputs: int, hidden: int, outputs: int) -> None:
        super().__init__()
        self.lin1, self.norm, self.lin2 = nn.Linear(inputs, hidden), BatchNorm(hidden), nn.Linear(hidden, outputs)

    def forward(self, x: Tensor, mask: Tensor | None = None) -> Tensor:
        return self.lin2(self.norm(self.lin1(x), mask).relu())


class Reading(nn.Module):
    """Classes of graphs from the states of their vertices after every layer: a linear map of each readout, added up."""

    def __init__(self, sizes: list[int], out_channels: int, readout: str, p: float) -> None:
        super().__init__()
        if readout not in READOUTS:
            raise OptionError(f"readout must be one of {', '.join(READOUTS)}, got {readout!r}")
        self.readout, self.dropout = READOUTS[readout], p
        self.heads = nn.ModuleList([nn.Linear(size, out_channels) for size in sizes])

    def forward(self, states: list[Tensor], batch: Tensor | None, size: int | None) -> Tensor:
        parts = [
            F.dropout(head(self.readout(state, batch, size)), self.dropout, self.training)
            for head, state in zip(self.heads, states, strict=True)
        ]
        return sum(parts[1:], parts[0])


class GIN(nn.Module):
    """An isomorphism network for whole graphs (Xu et al. 2019): layers of `GINConv`, each read out, readouts mapped and added.

    Two graphs get different readouts just where Weisfeiler and Leman's test parts them, if the perceptrons lose nothing.

    norm: batch normalisation, which makes what is said of a graph depend on its batch while training; over the vertices in
        node_mask, where it is given (`weft.graphs.padded`)

    Shape: x (N, in_channels), edge_index, batch (N,), node_mask (N,) bool → (B, out_channels)

    >>> GIN(5, 16, 2, num_layers=3)(weft.ones(3, 5), weft.tensor([[0, 1], [1, 0]]), weft.tensor([0, 0, 1])).shape
    weft.Size([2, 2])
    """

    def __init__(
        self,
        in_channels: int,
        hidden_channels: int,
        out_channels: int,
        num_layers: int = 4,
        dropout: float = 0.5,
        readout: Literal["sum", "mean", "max"] = "sum",
        norm: bool = True,
        train_eps: bool = False,
    ) -> None:
        super().__init__()
        sizes = [in_channels, *[hidden_channels] * num_layers]
        inner = NormedPerceptron if norm else perceptron
        self.convs = nn.ModuleList(
            [GINConv(inner(n, hidden_channels, hidden_channels), train_eps=train_eps) for n in sizes[:-1]]
        )
        self.norms = nn.ModuleList([BatchNorm(hidden_channels) for _ in self.convs] if norm else [])
        self.reading = Reading(sizes, out_channels, readout, dropout)

    def states(self, x: Tensor, edge_index: Adjacency, node_mask: Tensor | None = None) -> list[Tensor]:
        """x and the states after every layer: (N, F) each."""
        found = [x]
        for number, layer in enumerate(self.convs):
            y = layer(found[-1], edge_index, mask=node_mask if len(self.norms) else None)
            found.append((self.norms[number](y, node_mask) if len(self.norms) else y).relu())
        return found

    def forward(
        self,
        x: Tensor,
        edge_index: Adjacency,
        batch: Tensor | None = None,
        size: int | None = None,
        node_mask: Tensor | None = None,
    ) -> Tensor:
        return self.reading(self.states(x, edge_index, node_mask), batch, size)


class DeepSets(nn.Module):
    """Graphs as bags of vertices, without edges: ρ(Σ_i φ(x_i)); what a graph network must beat (Zaheer et al. 2017).

    Shape: x (N, in_channels), edge_index (not looked at), batch (N,) → (B, out_channels)

    >>> DeepSets(5, 16, 2)(weft.ones(3, 5), None, weft.tensor([0, 0, 1])).shape
    weft.Size([2, 2])
    """

    def __init__(
        self, in_channels: int, hidden_channels: int, out_channels: int, dropout: float = 0.5, readout: str = "sum"
    ) -> None:
        super().__init__()
        self.inner = perceptron(in_channels, hidden_channels, hidden_channels)
        self.outer = perceptron(hidden_channels, hidden_channels, out_channels)
        self.readout, self.dropout = READOUTS[readout], dropout

    def forward(self, x: Tensor, edge_index: Any, batch: Tensor | None = None, size: int | None = None) -> Tensor:
        bag = self.readout(self.inner(x).relu(), batch, size)
        return self.outer(F.dropout(bag, self.dropout, self.training))


class MPNN(nn.Module):
    """Message passing with an edge network, states by a GRU, read out by Set2Set (Gilmer et al. 2017).

        m_i = Σ_j A(e_ji) h_j,  h_i ← GRU(m_i, h_i), num_steps times with the same weights

    Shape: x (N, in_channels), edge_index, edge_attr (E, edge_dim), batch (N,) → (B, out_channels)

    >>> model = MPNN(5, 2, hidden_channels=8, out_channels=1)
    >>> model(weft.ones(3, 5), weft.tensor([[0, 1], [1, 0]]), weft.ones(2, 2), weft.tensor([0, 0, 1])).shape
    weft.Size([2, 1])
    """

    def __init__(
        self,
        in_channels: int,
        edge_dim: int,
        hidden_channels: int,
        out_channels: int,
        num_steps: int = 3,
        reads: int = 3,
    ) -> None:
        super().__init__()
        self.lin, self.num_steps = nn.Linear(in_channels, hidden_channels), num_steps
        network = perceptron(edge_dim, hidden_channels, hidden_channels * hidden_channels)
        self.conv = NNConv(hidden_channels, hidden_channels, network, aggr="sum", root_weight=False)
        self.gru = nn.GRUCell(hidden_channels, hidden_channels)
        self.set2set = Set2Set(hidden_channels, reads)
        self.head = perceptron(2 * hidden_channels, hidden_channels, out_channels)

    def forward(
        self, x: Tensor, edge_index: Adjacency, edge_attr: Tensor, batch: Tensor | None = None, size: int | None = None
    ) -> Tensor:
        h = self.lin(x).relu()
        for _ in range(self.num_steps):
            h = self.gru(self.conv(h, edge_index, edge_attr).relu(), h)
        return self.head(self.set2set(h, batch, size))


class GraphTransformer(nn.Module):
    """Layers that attend to all vertices of a graph beside messages along its edges; positions say where a vertex is (N2 §7.10).

    Positions are given to forward: eigenvectors of the Laplacian (`laplacian_positions`) or returns of random walks
    (`random_walk_positions`). The sign of an eigenvector means nothing. signs="invariant" reads them so that no flip changes
    anything; "random" flips them at random while training and takes them as they come otherwise; "none" is for walks.

    Shape: x (N, in_channels), edge_index, positions (N, k), batch (N,) → (B, out_channels), or (N, out_channels) with readout=None

    >>> model = GraphTransformer(5, 8, 2, positions=3, heads=2)
    >>> model(weft.ones(3, 5), weft.tensor([[0, 1], [1, 0]]), weft.ones(3, 3), weft.tensor([0, 0, 1])).shape
    weft.Size([2, 2])
    """

    def __init__(
        self,
        in_channels: int,
        hidden_channels: int,
        out_channels: int,
        positions: int,
        num_layers: int = 2,
        heads: int = 4,
        dropout: float = 0.0,
        signs: Literal["invariant", "random", "none"] = "invariant",
        local: bool = True,
        readout: Literal["sum", "mean", "max"] | None = "mean",
    ) -> None:
        super().__init__()
        if signs not in ("invariant", "random", "none") or readout not in (None, *READOUTS):
            raise OptionError(
                f"GraphTransformer: signs must be invariant, random or none and readout {', '.join(READOUTS)} or None, "
                f"got {signs!r} and {readout!r}"
            )
        self.signs, self.readout = signs, readout
        self.lin = nn.Linear(in_channels, hidden_channels)
        invariant = signs == "invariant"
        self.where = (
            SignInvariant(positions, hidden_channels, hidden_channels)
            if invariant
            else nn.Linear(positions, hidden_channels)
        )
        make = lambda: GINConv(perceptron(hidden_channels, hidden_channels, hidden_channels)) if local else None
        self.layers = nn.ModuleList([GPSConv(hidden_channels, make(), heads, dropout) for _ in range(num_layers)])
        self.head = perceptron(hidden_channels, hidden_channels, out_channels)

    def forward(
        self,
        x: Tensor,
        edge_index: Adjacency,
        positions: Tensor,
        batch: Tensor | None = None,
        size: int | None = None,
        max_num_nodes: int | None = None,
    ) -> Tensor:
        where = random_signs(positions) if self.signs == "random" and self.training else positions
        h = self.lin(x) + self.where(where)
        for layer in self.layers:
            h = layer(h, edge_index, batch, size=size, max_num_nodes=max_num_nodes)
        return self.head(h if self.readout is None else READOUTS[self.readout](h, batch, size))
