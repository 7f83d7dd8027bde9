"""Graphs that change: edges that come at a time, looked at up to now, or window by window (N2 §7)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from ...data.graph import Graph
from ...errors import OptionError, ShapeError
from ...tensor import Tensor, wrap

__all__ = ["TemporalData"]


class TemporalData:
    """Events in the order of their times: at t an edge leads from src to dst. PyTorch Geometric's `TemporalData`.

    src, dst: (E,) numbers of nodes; t: (E,) times that do not fall; msg: (E, D) features of events
    num_nodes: by default one more than the largest number
    attributes: more with a row for each event

    >>> events = weft.graphs.TemporalData(weft.tensor([0, 1, 0]), weft.tensor([1, 2, 2]), weft.tensor([1.0, 2.0, 5.0]))
    >>> events.before(5.0).edge_index.tolist(), [part.num_edges for part in events.snapshots(2.0)]
    ([[0, 1], [1, 2]], [2, 0, 1])
    """

    def __init__(
        self,
        src: Tensor,
        dst: Tensor,
        t: Tensor,
        msg: Tensor | None = None,
        num_nodes: int | None = None,
        **attributes: Tensor,
    ) -> None:
        self.src, self.dst, self.t, self.msg = src, dst, t, msg
        self.parts = {"t": t, **({} if msg is None else {"msg": msg}), **attributes}
        for name, value in {"dst": dst, **self.parts}.items():
            if value.shape[:1] != src.shape:
                raise ShapeError(f"TemporalData: {name} must have {src.shape[0]} rows, got {tuple(value.shape)}")
        if (np.diff(t.array) < 0).any():
            raise OptionError("TemporalData: times must not fall; put events in order with argsort first")
        largest = max((int(part.array.max(initial=-1)) for part in (src, dst)), default=-1)
        self.num_nodes = largest + 1 if num_nodes is None else num_nodes
        if largest >= self.num_nodes:
            raise ShapeError(f"TemporalData: events join nodes up to {largest} of {self.num_nodes}")

    @property
    def num_events(self) -> int:
        """E."""
        return self.src.shape[0]

    def __len__(self) -> int:
        return self.num_events

    def __getitem__(self, part: slice | Tensor) -> TemporalData:
        """Some of the events: a slice, a mask, or numbers that rise."""
        chosen = {name: value[part] for name, value in self.parts.items()}
        return TemporalData(self.src[part], self.dst[part], num_nodes=self.num_nodes, **chosen)

    def _graph(self, first: int, last: int) -> Graph:
        part = slice(first, last)
        attributes: dict[str, Any] = {f"edge_{name}": value[part] for name, value in self.parts.items()}
        edges = wrap(np.stack([self.src.array[part], self.dst.array[part]]).astype(np.int64))
        return Graph(edge_index=edges, num_nodes=self.num_nodes, **attributes)

    def before(self, time: float) -> Graph:
        """The graph of all events before a time, which is what may be known then: edge_t and edge_msg are their attributes."""
        return self._graph(0, int(np.searchsorted(self.t.array, time)))

    def between(self, start: float, end: float) -> Graph:
        """The graph of the events with start ≤ t < end."""
        first, last = np.searchsorted(self.t.array, [start, end])
        return self._graph(int(first), int(last))

    def snapshots(self, window: float) -> Iterator[Graph]:
        """The graphs of the windows [t₀, t₀ + window), … from the first event to the last, empty ones as well."""
        if window <= 0:
            raise OptionError(f"snapshots: expected a window above 0, got {window}")
        if not self.num_events:
            return
        start, last = float(self.t.array[0]), float(self.t.array[-1])
        for number in range(int((last - start) // window) + 1):
            yield self.between(start + number * window, start + (number + 1) * window)

    def train_val_test_split(
        self, val_ratio: float = 0.15, test_ratio: float = 0.15
    ) -> tuple[TemporalData, TemporalData, TemporalData]:
        """The events by time: what is tested comes after all that trains. Events of one time stay together."""
        if not 0 <= val_ratio + test_ratio < 1 or min(val_ratio, test_ratio) < 0:
            raise OptionError(
                f"train_val_test_split: expected shares of together below 1, got {val_ratio}, {test_ratio}"
            )
        times = self.t.array
        cuts = [int((1 - share) * len(times)) for share in (val_ratio + test_ratio, test_ratio)]
        first, second = (int(np.searchsorted(times, times[c])) if c < len(times) else len(times) for c in cuts)
        return self[:first], self[first:second], self[second:]

    def __repr__(self) -> str:
        return f"TemporalData({self.num_events} events, {self.num_nodes} nodes)"
