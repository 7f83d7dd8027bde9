"""Graphs: citation networks in Planetoid's files, sets of small graphs in TU Dortmund's, the karate club.

Edges are pairs of node numbers, (2, E); an undirected edge is there in both directions. Edges are in order of their
source and then their target, without repetition.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from ...errors import OptionError
from ...io.errors import LayoutError
from ...tensor import Tensor, wrap
from ..dataset import Dataset
from ..graph import Graph
from .catalogue import FILES, Source
from .errors import SourceError
from .fetch import Folder, find
from .files import content, text
from .pickles import read_pickle
from .read_tables import read_text

__all__ = ["Graph", "Planetoid", "TUDataset", "karate_club"]


def _tidy(edges: np.ndarray, loops: bool = False) -> tuple[np.ndarray, np.ndarray]:
    """Edges (2, E) in order, each once, without loops unless wanted; and the places they had."""
    places = np.arange(edges.shape[1]) if loops else np.flatnonzero(edges[0] != edges[1])
    kept, first = np.unique(edges[:, places], axis=1, return_index=True)
    return kept.astype(np.int64), places[first]


# ------------------------------------------------------------------------------------------ Planetoid
PLANETOID = ("cora", "citeseer", "pubmed")
PARTS = ("x", "tx", "allx", "y", "ty", "ally", "graph", "test.index")


class Planetoid(Dataset[Graph]):
    """A citation network (Sen et al. 2008; Yang, Cohen, Salakhutdinov 2016): one graph, `Planetoid(name="cora")[0]`.

    name       nodes   edges (both ways)  features  classes
    cora        2708   10556              1433      7
    citeseer    3327    9104              3703      6
    pubmed     19717   88648               500      3

    split: "public" has 20 training nodes of each class, 500 nodes for validation and 1000 for testing; "full" trains
        on all others
    normalize: divide the features of a node by their sum (x ↦ x / Σx, 0 where all are 0)
    """

    def __init__(
        self,
        root: Folder = None,
        name: str = "cora",
        split: str = "public",
        normalize: bool = False,
        download: bool = False,
    ) -> None:
        self.name = name.lower()
        if self.name not in PLANETOID or split not in ("public", "full"):
            raise OptionError(
                f"Planetoid: name must be one of {', '.join(PLANETOID)} and split 'public' or 'full', "
                f"got {name!r} and {split!r}"
            )
        parts = {part: _planetoid_part(self.name, part, root, download) for part in PARTS}
        self.graph = _assembled(parts, self.name, split, normalize)
        self.num_classes = parts["y"].shape[1]

    @property
    def num_features(self) -> int:
        """How many words there are."""
        return self.graph.num_features

    num_node_features = num_features

    def __len__(self) -> int:
        return 1

    def __getitem__(self, index: int) -> Graph:
        return [self.graph][index]

    def __repr__(self) -> str:
        return f"Planetoid({self.name}: {self.graph}, {self.num_classes} classes)"


def _planetoid_part(name: str, part: str, root: Folder, download: bool) -> Any:
    path = f"planetoid/ind.{name}.{part}"
    found = find(FILES.get(path) or Source(path, home="https://github.com/kimiyoung/planetoid"), root, download)
    if part == "test.index":
        return _whole_numbers(found)[:, 0]
    value = read_pickle(content(found), str(found))
    expected = dict if part == "graph" else np.ndarray if part.endswith("y") else None
    if not (isinstance(value, expected) if expected else hasattr(value, "toarray")):
        raise LayoutError(f"{found}: the pickle holds a {type(value).__name__}")
    return value


def _assembled(parts: dict[str, Any], name: str, split: str, normalize: bool) -> Graph:
    """Nodes are those of `allx`, then those of `tx` at the places that `test.index` gives them.

    Citeseer has test nodes without a paper: numbers between the least and the greatest of `test.index` that do not
    occur there. They get features 0 and class 0, and belong to no part.
    """
    index, known = parts["test.index"], parts["allx"].shape[0]
    count = int(index.max()) + 1
    if index.min() < known or len(index) != parts["tx"].shape[0] or len(np.unique(index)) != len(index):
        raise LayoutError(
            f"planetoid {name}: test.index does not fit {known} other nodes and {parts['tx'].shape[0]} of tx"
        )
    x = np.zeros((count, parts["allx"].shape[1]), np.float32)
    y = np.zeros(count, np.int64)
    x[:known], x[index] = parts["allx"].toarray(), parts["tx"].toarray()
    y[:known], y[index] = parts["ally"].argmax(1), parts["ty"].argmax(1)
    if normalize:
        total = x.sum(1, keepdims=True)
        x = np.divide(x, total, out=np.zeros_like(x), where=total != 0)
    masks = _masks(count, parts["y"].shape[0], index, known, split)
    train, val, test = map(wrap, masks)
    edges = wrap(_citations(parts["graph"], count, name))
    return Graph(wrap(x), edges, y=wrap(y), train_mask=train, val_mask=val, test_mask=test)


def _citations(graph: dict, count: int, name: str) -> np.ndarray:
    """The edges of a dictionary node → neighbours, in both directions."""
    pairs = np.array([(node, other) for node, others in graph.items() for other in others], np.int64).reshape(-1, 2).T
    if pairs.size and not 0 <= pairs.min() <= pairs.max() < count:
        raise LayoutError(f"planetoid {name}: the graph names nodes {pairs.min()}..{pairs.max()} of {count}")
    return _tidy(np.concatenate([pairs, pairs[::-1]], 1))[0]


def _masks(count: int, labelled: int, test: np.ndarray, known: int, split: str) -> tuple[np.ndarray, ...]:
    train, val, tested = (np.zeros(count, bool) for _ in range(3))
    val[labelled : labelled + 500] = True
    tested[test] = True
    train[:labelled] = True
    if split == "full":
        train[:known] = ~val[:known]
    return train, val, tested


# ------------------------------------------------------------------------------------------ TU Dortmund
class TUDataset(Dataset[Graph]):
    """A set of small graphs with a class each, in the files of TU Dortmund (Morris et al. 2020).

    MUTAG has 188 molecules in 2 classes, PROTEINS 1113 in 2, ENZYMES 600 in 6; any other set of theirs works, put as
    tudataset/NAME/NAME_A.txt and so on. Features of nodes are their labels as 0/1 columns, after their attributes
    with use_node_attr=True; `edge_attr` are labels of edges (after attributes with use_edge_attr=True).
    """

    def __init__(
        self,
        root: Folder = None,
        name: str = "MUTAG",
        use_node_attr: bool = False,
        use_edge_attr: bool = False,
        download: bool = False,
    ) -> None:
        self.name = name
        read = lambda part, needed=False: _tu_part(name, part, root, download, needed)
        owner = read("graph_indicator", True)[:, 0].astype(np.int64) - 1
        labels = read("graph_labels", True)[:, 0]
        edges = read("A", True).astype(np.int64).T - 1
        x = _features(read("node_attributes") if use_node_attr else None, read("node_labels"), len(owner), name)
        edge = _features(read("edge_attributes") if use_edge_attr else None, read("edge_labels"), edges.shape[1], name)
        _check_owner(owner, len(labels), edges, name)
        classes, codes = np.unique(labels, return_inverse=True)
        self.num_classes, self.targets = len(classes), wrap(codes.astype(np.int64))
        self.graphs = _cut(owner, edges, x, edge, codes.astype(np.int64))

    @property
    def num_features(self) -> int:
        return self.graphs[0].num_features

    num_node_features = num_features

    @property
    def num_edge_features(self) -> int:
        return self.graphs[0].num_edge_features

    def __len__(self) -> int:
        return len(self.graphs)

    def __getitem__(self, index: Any) -> Any:
        """A graph, or, of a slice, numbers or a mask, a list of them."""
        if isinstance(index, (int, np.integer, slice)):
            return self.graphs[index]
        return [self.graphs[i] for i in np.arange(len(self))[index.array if isinstance(index, Tensor) else index]]

    def __repr__(self) -> str:
        return f"TUDataset({self.name}: {len(self)} graphs, {self.num_features} features, {self.num_classes} classes)"


def _tu_part(name: str, part: str, root: Folder, download: bool, needed: bool) -> np.ndarray | None:
    path = f"tudataset/{name}/{name}_{part}.txt"
    folders = (name, f"{name}/raw")
    try:
        return _numbers(find(FILES.get(path) or Source(path, folders=folders), root, download and path in FILES))
    except SourceError:
        if needed or path in FILES:
            raise
        return None


def _numbers(path: Path) -> np.ndarray:
    """Lines of numbers with commas between them, (N, D) float64."""
    rows = [line.split(",") for line in text(path).splitlines() if line.strip()]
    if not rows:
        raise LayoutError(f"{path}: the file is empty")
    if len({len(row) for row in rows}) > 1:
        line = next(i for i, row in enumerate(rows, 1) if len(row) != len(rows[0]))
        raise LayoutError(f"{path}, line {line}: {len(rows[line - 1])} numbers instead of {len(rows[0])}")
    try:
        return np.array(rows, np.float64).reshape(len(rows), -1)
    except ValueError as error:
        raise LayoutError(f"{path}: {error}") from None


def _whole_numbers(path: Path) -> np.ndarray:
    numbers = _numbers(path)
    if not numbers.size or (numbers != np.floor(numbers)).any():
        raise LayoutError(f"{path}: expected a whole number in each line")
    return numbers.astype(np.int64)


def _features(attributes: np.ndarray | None, labels: np.ndarray | None, count: int, name: str) -> np.ndarray | None:
    """Attributes and then labels as 0/1 columns; None where there is neither."""
    columns = [] if attributes is None else [attributes]
    for label in () if labels is None else labels.T:
        codes = label.astype(np.int64) - int(label.min())
        columns.append(np.eye(int(codes.max()) + 1)[codes])
    if any(len(column) != count for column in columns):
        raise LayoutError(f"{name}: {[len(column) for column in columns]} rows of features for {count}")
    return np.concatenate(columns, 1).astype(np.float32) if columns else None


def _check_owner(owner: np.ndarray, graphs: int, edges: np.ndarray, name: str) -> None:
    if (np.diff(owner) < 0).any() or owner[0] != 0 or owner[-1] != graphs - 1:
        raise LayoutError(f"{name}: graph_indicator should go from 1 to {graphs} in order")
    if edges.min() < 0 or edges.max() >= len(owner) or (owner[edges[0]] != owner[edges[1]]).any():
        raise LayoutError(f"{name}: an edge joins nodes of two graphs, or one that does not exist")


def _cut(owner: np.ndarray, edges: np.ndarray, x: Any, edge: Any, codes: np.ndarray) -> list[Graph]:
    """One graph for each owner; nodes and, after sorting, edges of a graph lie side by side."""
    edges, places = _tidy(edges)
    edge = None if edge is None else edge[places]
    count = len(codes)
    nodes = np.searchsorted(owner, np.arange(count + 1))
    borders = np.searchsorted(owner[edges[0]], np.arange(count + 1))
    part = lambda array, ends, i: None if array is None else wrap(array[ends[i] : ends[i + 1]])
    return [
        Graph(
            part(x, nodes, i),
            wrap(edges[:, borders[i] : borders[i + 1]] - nodes[i]),
            part(edge, borders, i),
            wrap(codes[i : i + 1]),
            num_nodes=int(nodes[i + 1] - nodes[i]),
        )
        for i in range(count)
    ]


# ------------------------------------------------------------------------------------------ the karate club
def karate_club(root: Folder = None, weighted: bool = False) -> Graph:
    """34 members of a club that fell apart, and the 78 friendships between them (Zachary 1977).

    x is the unit matrix, y who followed the instructor (0) or the officer (1), edge_attr how many contexts two
    members met in; train_mask has the two leaders.

    weighted: have these numbers as edge_weight, too
    """
    read = lambda name: read_text(text(find(f"karate/{name}.csv", root)), f"karate/{name}.csv", ",", True)
    source, target, weight = (column.values for column in read("edges"))
    number, club = read("nodes")
    count = len(number)
    edges = np.concatenate([np.stack([source, target]), np.stack([target, source])], 1)
    edges, places = _tidy(edges)
    leaders = np.zeros(count, bool)
    leaders[[0, count - 1]] = True
    strength = np.concatenate([weight, weight])[places].astype(np.float32)
    return Graph(
        wrap(np.eye(count, dtype=np.float32)),
        wrap(edges),
        wrap(strength[:, None]),
        wrap(club.values),
        edge_weight=wrap(strength) if weighted else None,
        train_mask=wrap(leaders),
        test_mask=wrap(~leaders),
    )
