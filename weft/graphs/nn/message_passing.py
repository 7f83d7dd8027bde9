"""Message passing: every vertex gathers what its neighbours send and makes its next state of it (Gilmer et al. 2017).

    h_i' = update( aggregate_{(j → i) ∈ E} message(h_i, h_j, e_ji) )

An edge (j, i) of `edge_index` leads from its source j, row 0, to its target i, row 1.
"""

from __future__ import annotations

import inspect
from typing import Any, Literal

import numpy as np

from ... import nn
from ...errors import ArgumentError, OptionError, ShapeError
from ...sparse import SparseTensor
from ...tensor import Tensor, wrap
from ..segment import aggregate as along
from .aggregation import Aggregation, aggregate
from .normalize import check_edges

__all__ = ["Adjacency", "MessagePassing"]

Adjacency = Tensor | SparseTensor  # edge_index (2, E), or the transposed adjacency matrix: rows are targets

ABOUT_EDGES = ("index", "ptr", "dim_size", "edge_index", "edge_index_i", "edge_index_j", "size", "size_i", "size_j")


class MessagePassing(nn.Module):
    """The base of graph layers, with PyTorch Geometric's conventions: a layer writes `message`, and calls `propagate`.

    The parameters of `message`, `aggregate` and `update` are looked up by name among what `propagate` is given: with x
    given, `x_j` is x at the source of each edge, `x_i` at its target (E rows each); any other name is handed on as it is.
    Also known: index (E,) the vertex that each message goes to, dim_size how many there are, edge_index, size, size_i, size_j.

    aggr: "sum" (or "add"), "mean", "max", "min", "mul", "softmax", a module with forward(x, index, dim_size), or None where
        the layer has an `aggregate` of its own; vertices without messages get 0
    flow: "source_to_target", or "target_to_source", which sends messages from row 1 of edge_index to row 0
    node_dim: the dimension of vertices in what is gathered

    A layer that also has `message_and_aggregate(adj_t, …)` is given a sparse matrix whole; others see its entries as edges.

    >>> class Neighbours(MessagePassing):
    ...     def forward(self, x, edge_index):
    ...         return self.propagate(edge_index, x=x)
    >>> Neighbours("mean")(weft.tensor([[1.0], [3.0], [0.0]]), weft.tensor([[0, 1], [2, 2]])).tolist()
    [[0.0], [0.0], [2.0]]
    """

    def __init__(
        self,
        aggr: str | nn.Module | None = "sum",
        *,
        flow: Literal["source_to_target", "target_to_source"] = "source_to_target",
        node_dim: int = -2,
    ) -> None:
        super().__init__()
        if flow not in ("source_to_target", "target_to_source"):
            raise OptionError(f"MessagePassing: flow must be source_to_target or target_to_source, got {flow!r}")
        self.flow, self.node_dim = flow, node_dim
        self.aggr_module = aggregate(aggr)
        self._wanted = {
            step: tuple(inspect.signature(getattr(self, step)).parameters)[skipped:]
            for step, skipped in (("message", 0), ("aggregate", 1), ("update", 1), ("message_and_aggregate", 1))
        }
        self._names = frozenset(name for names in self._wanted.values() for name in names)

    # ------------------------------------------------------------------------------------ what layers change
    def message(self, x_j: Tensor) -> Tensor:
        """What the source of an edge sends to its target: (E, …)."""
        return x_j

    def aggregate(self, inputs: Tensor, index: Tensor, dim_size: int) -> Tensor:
        """What becomes of the messages to one vertex: (E, …) → (dim_size, …)."""
        if self.aggr_module is None:
            raise ArgumentError(f"{type(self).__name__}: with aggr=None the layer needs an `aggregate` of its own")
        dim = self.node_dim % inputs.ndim
        if dim == 0:
            return self.aggr_module(inputs, index, dim_size)
        return self.aggr_module(inputs.movedim(dim, 0), index, dim_size).movedim(0, dim)

    def update(self, inputs: Tensor) -> Tensor:
        """The next state of each vertex, from what it has gathered."""
        return inputs

    def message_and_aggregate(self, adj_t: SparseTensor) -> Tensor:
        """Both steps at once as a product with the transposed adjacency matrix; layers may have it."""
        raise NotImplementedError

    # --------------------------------------------------------------------------------------------- the walk
    def propagate(
        self, edge_index: Adjacency, size: tuple[int | None, int | None] | None = None, **given: Any
    ) -> Tensor:
        """Messages along all edges, gathered and taken in.

        size: how many sources and targets there are; by default as many as what is given has rows
        """
        if isinstance(edge_index, SparseTensor):
            if self._is_whole() and self.flow == "source_to_target":
                y = self.message_and_aggregate(edge_index, **self._chosen("message_and_aggregate", given))
                return self.update(y, **self._chosen("update", given))
            edge_index, given = self._as_edges(edge_index, given)
        check_edges(edge_index, type(self).__name__)
        known = given | self._gathered(edge_index, size, given)
        if self._is_plain(given):
            gathered = self._along(given["x"], edge_index, known["dim_size"])
        else:
            messages = self.message(**self._chosen("message", known))
            gathered = self.aggregate(messages, **self._chosen("aggregate", known))
        return self.update(gathered, **self._chosen("update", known))

    def _is_whole(self) -> bool:
        return type(self).message_and_aggregate is not MessagePassing.message_and_aggregate

    def _is_plain(self, given: dict[str, Any]) -> bool:
        """Whether messages are rows of x as they are, and are reduced by a word: then none need be stored."""
        kind, x = type(self), given.get("x")
        own = kind.message is not MessagePassing.message or kind.aggregate is not MessagePassing.aggregate
        matrices = x is not None and all(
            part is None or part.ndim == 2 for part in (x if isinstance(x, (tuple, list)) else (x,))
        )
        return not own and isinstance(self.aggr_module, Aggregation) and matrices and self.node_dim in (0, -2)

    def _along(self, x: Any, edge_index: Tensor, size: int) -> Tensor:
        forward = self.flow == "source_to_target"
        sources = x[0 if forward else 1] if isinstance(x, (tuple, list)) else x
        return along(sources, edge_index if forward else edge_index.flip(0), None, size, self.aggr_module.reduce)

    def _as_edges(self, adj_t: SparseTensor, given: dict[str, Any]) -> tuple[Tensor, dict[str, Any]]:
        """Edges of a transposed matrix, rows of which are targets; its values are weights where none are given."""
        found = adj_t.coalesce()
        targets, sources = found._pattern.places()
        if "edge_weight" in given and given["edge_weight"] is None:
            given = given | {"edge_weight": found._values()}
        return wrap(np.stack([sources, targets]).astype(np.int64)), given

    def _gathered(self, edge_index: Tensor, size: Any, given: dict[str, Any]) -> dict[str, Any]:
        """All that is known about edges: `x_i` and `x_j` for any x among what was given, and ABOUT_EDGES."""
        into = 1 if self.flow == "source_to_target" else 0
        ends = {"_i": (into, edge_index[into]), "_j": (1 - into, edge_index[1 - into])}
        sizes = list(size) if size is not None else [None, None]
        asked = [(stem, end) for stem in given for end in ends if stem + end in self._names and stem + end not in given]
        for stem, _ in asked:
            self._note_sizes(given[stem], sizes)
        sizes = [sizes[side] if sizes[side] is not None else sizes[1 - side] for side in (0, 1)]
        plain = self._is_plain(given)
        lifted = {} if plain else {stem + end: self._lifted(given[stem], *ends[end]) for stem, end in asked}
        (to, targets), (side, sources) = ends["_i"], ends["_j"]
        about = (targets, None, sizes[to], edge_index, targets, sources, tuple(sizes), sizes[to], sizes[side])
        return lifted | dict(zip(ABOUT_EDGES, about, strict=True))

    def _lifted(self, value: Any, side: int, places: Tensor) -> Tensor | None:
        """A value of vertices at one end of every edge; a pair has that of sources and that of targets."""
        part = value[side] if isinstance(value, (tuple, list)) else value
        return None if part is None else part.index_select(self.node_dim, places)

    def _note_sizes(self, value: Any, sizes: list[int | None]) -> None:
        parts = value if isinstance(value, (tuple, list)) else (value, value)
        for side, part in enumerate(parts):
            if not isinstance(part, Tensor):
                continue
            rows = part.shape[self.node_dim]
            if sizes[side] is None:
                sizes[side] = rows
            elif sizes[side] != rows:
                raise ShapeError(
                    f"{type(self).__name__}: {rows} rows for {sizes[side]} {('sources', 'targets')[side]}; "
                    "all that is given for vertices must have a row for each"
                )

    def _chosen(self, step: str, known: dict[str, Any]) -> dict[str, Any]:
        missing = [name for name in self._wanted[step] if name not in known]
        if missing:
            raise ArgumentError(
                f"{type(self).__name__}.{step} asks for {', '.join(missing)}; `propagate` was given "
                f"{', '.join(name for name in known if name not in ABOUT_EDGES) or 'nothing'}"
            )
        return {name: known[name] for name in self._wanted[step]}
