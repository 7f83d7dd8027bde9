"""Graphs in folders, larger than memory: edges in the order of their targets, read where they are needed.

graph.json          numbers of nodes and edges; written last, so a folder without it holds no graph
ptr.npy             (N + 1,) where the edges that end at each node begin
sources.npy         (E,) where they come from
nodes/NAME.npy      (N, …) attributes of nodes: put more of them there with `weft.data.ArrayWriter`
edges/NAME.npy      (E, …) attributes of edges, in the same order as sources.npy
"""

from __future__ import annotations

import json
import mmap
import os
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from ..data.graph import Graph
from ..data.mapped import ArrayWriter, MappedArray
from ..errors import OptionError, ShapeError
from ..io.atomic import replacing
from ..io.errors import HeaderError, LayoutError
from ..tensor import Tensor, wrap

__all__ = ["StoredGraph", "write_graph"]

ROWS = 1 << 20  # rows that are copied at once
Chunks = Callable[[], Iterable[np.ndarray]]


class StoredGraph:
    """A graph in a folder that `write_graph` made; of its arrays only what is asked for comes into memory.

    `NeighborLoader` samples from it as from a `Graph`.

    >>> graph = weft.graphs.StoredGraph("web")  # doctest: +SKIP
    """

    def __init__(self, folder: str | os.PathLike[str]) -> None:
        self.folder = Path(folder)
        described = self.folder / "graph.json"
        if not described.exists():
            raise LayoutError(
                f"{self.folder}: no graph.json, so no graph, or one whose writing was cut short; write it again"
            )
        try:
            sizes = json.loads(described.read_text("utf-8"))
            self.num_nodes, self.num_edges = int(sizes["num_nodes"]), int(sizes["num_edges"])
        except (ValueError, KeyError, TypeError) as error:
            raise HeaderError(f"{described}: expected num_nodes and num_edges: {error!r}") from None
        self.ptr = self._array("ptr", self.num_nodes + 1)
        self.sources = self._array("sources", self.num_edges)
        self.nodes = self._arrays("nodes", self.num_nodes)
        self.edges = self._arrays("edges", self.num_edges)

    def _arrays(self, kind: str, rows: int) -> dict[str, MappedArray]:
        return {
            path.stem: self._array(f"{kind}/{path.stem}", rows) for path in sorted((self.folder / kind).glob("*.npy"))
        }

    def _array(self, name: str, rows: int) -> MappedArray:
        array = MappedArray(self.folder / f"{name}.npy")
        if len(array) != rows:
            raise LayoutError(f"{self.folder}: {name}.npy has {len(array)} rows instead of {rows}")
        return array

    def __repr__(self) -> str:
        return f"StoredGraph({str(self.folder)!r}: {self.num_nodes} nodes, {self.num_edges} edges, {', '.join(self.nodes)})"

    # ------------------------------------------------------------------------------------------ what sampling asks
    def ends(self, nodes: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Where the edges into each node begin and end."""
        both = self.ptr.read(np.concatenate([nodes, nodes + 1]))
        return both[: len(nodes)], both[len(nodes) :]

    def sources_at(self, places: np.ndarray) -> np.ndarray:
        """Where the edges at these places come from."""
        return self.sources.read(places).astype(np.int64)

    def numbers(self, places: np.ndarray) -> np.ndarray:
        """The number of an edge is its place."""
        return places

    def parts(self, nodes: np.ndarray, edges: np.ndarray) -> dict[str, Tensor]:
        """Attributes of these nodes and edges."""
        found = {name: wrap(array.read(nodes)) for name, array in self.nodes.items()}
        return found | {name: wrap(array.read(edges)) for name, array in self.edges.items()}


def write_graph(
    folder: str | os.PathLike[str],
    edges: Graph | Tensor | Chunks,
    num_nodes: int | None = None,
    *,
    nodes: Mapping[str, Any] | None = None,
) -> StoredGraph:
    """Put a graph into a folder, in memory of O(N) and one piece of edges; nothing is there as a graph until it is whole.

    edges: a graph, with its attributes of nodes and edges; an edge_index (2, E); or a function that gives pieces (2, e)
        of it, the same ones both times that it is called (once to count, once to write)
    num_nodes: N, needed with pieces
    nodes: attributes of nodes (N, …) by name, as tensors or arrays, also mapped ones

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     stored = weft.graphs.write_graph(folder, weft.graphs.ring(4))
    >>> stored.num_edges
    8
    """
    folder = Path(folder)
    of_nodes, of_edges = dict(nodes or {}), {}
    if isinstance(edges, Graph):
        graph, num_nodes = edges, edges.num_nodes
        of_nodes = {name: value.detach().array for name, value in graph.of_nodes().items()} | of_nodes
        of_edges = {name: value.detach().array for name, value in graph.of_edges().items()}
        edges = graph.edge_index
    if isinstance(edges, Tensor):
        given = edges.array
        num_nodes = int(given.max(initial=-1)) + 1 if num_nodes is None else num_nodes
        chunks: Chunks = lambda: (given[:, first : first + ROWS] for first in range(0, given.shape[1], ROWS))
    else:
        chunks = edges
    if num_nodes is None:
        raise OptionError("write_graph: num_nodes is needed with edges that come in pieces")
    (folder / "graph.json").unlink(missing_ok=True)
    for kind in ("nodes", "edges"):
        (folder / kind).mkdir(parents=True, exist_ok=True)
    ptr = _counted(chunks, num_nodes)
    _copied(folder / "ptr.npy", ptr)
    _placed(folder, chunks, ptr, of_edges)
    for name, value in of_nodes.items():
        _copied(folder / "nodes" / f"{name}.npy", value.array if isinstance(value, Tensor) else value, num_nodes)
    with replacing(folder / "graph.json") as file:
        file.write(json.dumps({"num_nodes": num_nodes, "num_edges": int(ptr[-1])}).encode())
    return StoredGraph(folder)


def _checked(chunks: Chunks, num_nodes: int) -> Iterator[np.ndarray]:
    for chunk in chunks():
        piece = np.asarray(chunk.array if isinstance(chunk, Tensor) else chunk)
        if piece.ndim != 2 or piece.shape[0] != 2 or piece.dtype.kind not in "iu":
            raise ShapeError(f"write_graph: expected pieces (2, e) of whole numbers, got {piece.dtype} {piece.shape}")
        if piece.size and not 0 <= piece.min() <= piece.max() < num_nodes:
            raise ShapeError(f"write_graph: edges join nodes {piece.min()}..{piece.max()} of {num_nodes}")
        yield piece


def _counted(chunks: Chunks, num_nodes: int) -> np.ndarray:
    """(N + 1,): where the edges that end at each node begin."""
    counts = np.zeros(num_nodes + 1, np.int64)
    for piece in _checked(chunks, num_nodes):
        counts[1:] += np.bincount(piece[1], minlength=num_nodes)
    return np.cumsum(counts)


def _placed(folder: Path, chunks: Chunks, ptr: np.ndarray, of_edges: Mapping[str, np.ndarray]) -> None:
    """Sources and attributes of edges in the order of targets, those of one target in the order in which they came."""
    total, free, seen = int(ptr[-1]), ptr[:-1].copy(), 0
    kind = np.int32 if len(ptr) <= 2**31 else np.int64
    out = {"sources": _Scattered(folder / "sources.npy", (total,), np.dtype(kind))}
    for name, value in of_edges.items():
        out[name] = _Scattered(folder / "edges" / f"{name}.npy", (total, *value.shape[1:]), value.dtype)
    for source, target in _checked(chunks, len(ptr) - 1):
        order = np.argsort(target, kind="stable")
        node, first, count = np.unique(target[order], return_index=True, return_counts=True)
        place = free[target[order]] + np.arange(len(order)) - np.repeat(first, count)
        if (place >= total).any():
            raise OptionError("write_graph: the second time, other edges came than the first time")
        free[node] += count
        out["sources"].put(place, source[order])
        for name, value in of_edges.items():
            out[name].put(place, value[seen + order])
        seen += len(source)
    if not np.array_equal(free, ptr[1:]):
        raise OptionError("write_graph: the second time, other edges came than the first time")
    for part in out.values():
        part.close()


class _Scattered:
    """An .npy file written at any places; it appears under its name when it is closed."""

    def __init__(self, path: Path, shape: tuple[int, ...], dtype: np.dtype) -> None:
        self.path, self.hidden = path, path.with_name(f".{path.name}.part")
        self.rows = np.lib.format.open_memmap(self.hidden, "w+", dtype, shape) if np.prod(shape) else None
        self.shape, self.dtype = shape, dtype

    def put(self, places: np.ndarray, values: np.ndarray) -> None:
        if self.rows is not None:
            self.rows[places] = values
            self.rows.flush()
            memory = getattr(self.rows, "_mmap", None)
            if hasattr(memory, "madvise"):
                memory.madvise(mmap.MADV_DONTNEED)

    def close(self) -> None:
        if self.rows is None:
            np.save(self.path, np.zeros(self.shape, self.dtype))
            return
        self.rows = None
        os.replace(self.hidden, self.path)


def _copied(path: Path, rows: Any, expected: int | None = None) -> None:
    if expected is not None and len(rows) != expected:
        raise ShapeError(f"write_graph: expected {expected} rows of {path.stem}, got {len(rows)}")
    with ArrayWriter(path, rows.shape[1:], np.dtype(rows.dtype).name) as out:
        for first in range(0, len(rows), ROWS):
            out.append(rows[first : first + ROWS])
