"""Batches of graphs."""

from __future__ import annotations

from typing import Any

from ..data.dataset import Dataset
from ..data.graph import Graph
from ..data.loader import DataLoader as Loader

__all__ = ["DataLoader"]


class DataLoader(Loader):
    """`weft.data.DataLoader` of graphs: each batch is a `Batch`.

    dataset: graphs, in a list or a set such as `weft.data.TUDataset`; batch_size: how many to a batch
    shuffle: in a new order in every epoch; options: what else `weft.data.DataLoader` takes

    >>> graphs = [Graph(x=weft.ones(size, 1)) for size in (1, 2, 3)]
    >>> [batch.num_nodes for batch in weft.graphs.DataLoader(graphs, batch_size=2)]
    [3, 3]
    """

    def __init__(
        self, dataset: Dataset[Graph] | list[Graph], batch_size: int = 1, shuffle: bool = False, **options: Any
    ) -> None:
        super().__init__(dataset, batch_size, shuffle, collate_fn=Graph.join, **options)
