"""Graphs that several tests use, and the same as NetworkX has them."""

from __future__ import annotations

import os
import pathlib

import networkx as nx
import numpy as np
import pytest

import weft
from weft.graphs import Graph

REAL = pathlib.Path(os.environ.get("WEFT_DATA") or pathlib.Path(__file__).resolve().parents[3] / "shared" / "data")


@pytest.fixture(scope="session")
def real():
    """The folder of real data; tests that need it are skipped where it is not."""
    if not REAL.is_dir():
        pytest.skip("the real files are not there; set WEFT_DATA")
    return REAL


def of_networkx(graph: nx.Graph) -> Graph:
    """Edges in both directions unless it is directed, weights as edge_weight (float64)."""
    number = {node: i for i, node in enumerate(graph)}
    rows = [(number[a], number[b], w) for a, b, w in graph.edges(data="weight", default=1.0)]
    if not graph.is_directed():
        rows += [(b, a, w) for a, b, w in rows if a != b]
    pairs = np.array([row[:2] for row in rows], np.int64).reshape(-1, 2).T
    weighted = any("weight" in data for *_, data in graph.edges(data=True))
    weights = weft.from_numpy(np.array([row[2] for row in rows], np.float64)) if weighted else None
    return Graph(edge_index=weft.from_numpy(np.ascontiguousarray(pairs)), edge_weight=weights, num_nodes=len(number))


def weighted(graph: nx.Graph, seed: int = 0) -> nx.Graph:
    random = np.random.default_rng(seed)
    for *_, data in graph.edges(data=True):
        data["weight"] = random.uniform(0.5, 2.0)
    return graph


def unweighted(graph: nx.Graph) -> nx.Graph:
    for *_, data in graph.edges(data=True):
        data.clear()
    return graph


def exact(graph: Graph) -> Graph:
    """The same with weights of float64, so that matrices are."""
    weights = weft.ones(graph.num_edges) if graph.edge_weight is None else graph.edge_weight
    return graph.replace(edge_weight=weights.double())


UNDIRECTED = {
    "karate": lambda: unweighted(nx.karate_club_graph()),
    "karate weighted": nx.karate_club_graph,
    "two components and a lone node": lambda: nx.disjoint_union_all(
        [nx.cycle_graph(5), weighted(nx.complete_graph(4)), nx.empty_graph(1)]
    ),
    "random": lambda: nx.gnp_random_graph(40, 0.1, seed=1),
    "random weighted": lambda: weighted(nx.gnp_random_graph(30, 0.2, seed=2)),
    "grid": lambda: nx.convert_node_labels_to_integers(nx.grid_2d_graph(4, 5)),
    "loops": lambda: nx.Graph([(0, 0), (0, 1), (1, 2), (2, 2), (2, 3)]),
    "star": lambda: nx.star_graph(6),
    "one node": lambda: nx.empty_graph(1),
    "no edges": lambda: nx.empty_graph(4),
}
DIRECTED = {
    "random": lambda: nx.gnp_random_graph(30, 0.1, seed=3, directed=True),
    "weighted": lambda: weighted(nx.gnp_random_graph(25, 0.15, seed=4, directed=True)),
    "dangling": lambda: nx.DiGraph([(0, 1), (1, 2), (2, 3), (4, 3), (0, 3)]),
    "ring": lambda: nx.cycle_graph(7, create_using=nx.DiGraph),
}
