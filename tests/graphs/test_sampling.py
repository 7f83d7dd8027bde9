"""Neighbour sampling, from memory and from disk: full fan-out is the full batch, small ones are fair."""

from __future__ import annotations

import json
import os
import subprocess
import sys

import numpy as np
import pytest
import scipy.stats

import weft
from weft import graphs as G
from weft.errors import OptionError, ShapeError
from weft.graphs.nn import GATConv, GCNConv, GINConv, SAGEConv, gcn_norm
from weft.io.errors import HeaderError, LayoutError, TruncatedError


def drawn(directed: bool = True, seed: int = 0) -> G.Graph:
    graph = G.erdos_renyi(60, 0.08, directed=directed, seed=seed)
    random = np.random.default_rng(seed)
    return graph.replace(
        x=weft.from_numpy(random.standard_normal((60, 5)).astype(np.float32)),
        y=weft.arange(60),
        train_mask=weft.arange(60) < 20,
        edge_attr=weft.from_numpy(graph.edge_index.numpy().T * 1.0),
        edge_weight=weft.from_numpy(random.uniform(0.5, 1, graph.num_edges).astype(np.float32)),
    )


def seeded(seed: int = 0) -> weft.Generator:
    return weft.Generator().manual_seed(seed)


@pytest.fixture(params=["memory", "disk"])
def source(request, tmp_path):
    graph = drawn()
    return graph, graph if request.param == "memory" else G.write_graph(tmp_path / "graph", graph)


def consistent(batch: G.Graph, graph: G.Graph, ordered: bool) -> None:
    """Every attribute is that of the node or edge of the whole graph whose number n_id or e_id says."""
    n = batch.n_id.numpy()
    assert len(np.unique(n)) == len(n)
    np.testing.assert_array_equal(batch.y, n)
    np.testing.assert_array_equal(batch.x, graph.x.numpy()[n])
    np.testing.assert_array_equal(batch.train_mask, n < 20)
    np.testing.assert_array_equal(n[batch.edge_index.numpy()].T, batch.edge_attr)
    if ordered:
        np.testing.assert_array_equal(graph.edge_index.numpy()[:, batch.e_id.numpy()].T, batch.edge_attr)


# ------------------------------------------------------------------------------------------ full fan-out
LAYERS = {
    "sage": lambda i, o: SAGEConv(i, o),
    "gat": lambda i, o: GATConv(i, o),
    "gin": lambda i, o: GINConv(weft.nn.Linear(i, o)),
}


@pytest.mark.parametrize("name", LAYERS)
def test_full_fanout_is_the_full_batch(source, name):
    graph, data = source
    weft.manual_seed(0)
    first, second = LAYERS[name](5, 8), LAYERS[name](8, 3)
    run = lambda g: second(first(g.x, g.edge_index).tanh(), g.edge_index)
    with weft.no_grad():
        whole = run(graph).numpy()
        for batch in G.NeighborLoader(data, [-1, -1], batch_size=7):
            out = run(batch)[: batch.batch_size]
            np.testing.assert_allclose(out, whole[batch.n_id.numpy()[: batch.batch_size]], rtol=1e-5, atol=1e-5)


def test_degrees_of_the_whole_graph_go_along_as_weights(source, tmp_path):
    """GCN normalises by degrees, of which a part of the graph knows too few: weights are computed before."""
    graph, _ = source
    edges, weight = gcn_norm(graph.edge_index, num_nodes=60)
    ready = G.Graph(graph.x, edges, edge_weight=weight)
    weft.manual_seed(0)
    first, second = GCNConv(5, 8, normalize=False), GCNConv(8, 3, normalize=False)
    run = lambda g: second(first(g.x, g.edge_index, g.edge_weight).tanh(), g.edge_index, g.edge_weight)
    with weft.no_grad():
        whole = run(ready).numpy()
        for batch in G.NeighborLoader(ready, [-1, -1], batch_size=20):
            np.testing.assert_allclose(
                run(batch)[: batch.batch_size], whole[batch.n_id.numpy()[: batch.batch_size]], rtol=1e-4, atol=1e-5
            )


def test_full_fanout_holds_what_k_hop_subgraph_finds(source):
    graph, data = source
    batch = G.sample_neighbors(data, weft.tensor([4, 9]), [-1, -1, -1])
    subset, *_ = G.k_hop_subgraph([4, 9], 3, graph.edge_index, num_nodes=60)
    assert sorted(batch.n_id.tolist()) == subset.tolist() and batch.n_id[:2].tolist() == [4, 9]


# ------------------------------------------------------------------------------------------ small fan-out
@pytest.mark.parametrize("replace", [False, True])
def test_batches_are_parts_of_the_graph(source, replace):
    graph, data = source
    loader = G.NeighborLoader(data, [3, 2], graph.train_mask, batch_size=6, shuffle=True, replace=replace, seed=1)
    edges = set(map(tuple, graph.edge_index.T.tolist()))
    seen = []
    for batch in loader:
        consistent(batch, graph, data is graph)
        n = batch.n_id.numpy()
        assert {tuple(pair) for pair in n[batch.edge_index.numpy()].T.tolist()} <= edges
        into = np.bincount(batch.edge_index.numpy()[1], minlength=len(n))
        assert (
            into[: batch.batch_size].max() <= 3 and into.max() <= 3 and batch.num_sampled_nodes[0] == batch.batch_size
        )
        assert sum(batch.num_sampled_nodes) == batch.num_nodes and sum(batch.num_sampled_edges) == batch.num_edges
        if not replace:
            degree = np.bincount(graph.edge_index.numpy()[1], minlength=60)[n[: batch.batch_size]]
            assert into[: batch.batch_size].tolist() == np.minimum(degree, 3).tolist()
            assert len(np.unique(batch.e_id.numpy())) == batch.num_edges
        np.testing.assert_array_equal(np.arange(20)[batch.input_id.numpy()], n[: batch.batch_size])
        seen += n[: batch.batch_size].tolist()
    assert sorted(seen) == list(range(20)) and seen != list(range(20))


def test_memory_and_disk_give_the_same_batches(tmp_path):
    graph = drawn()
    stored = G.write_graph(tmp_path, graph)
    for a, b in zip(
        *(G.NeighborLoader(d, [4, 3], batch_size=16, shuffle=True, seed=5) for d in (graph, stored)), strict=True
    ):
        assert a.n_id.tolist() == b.n_id.tolist() and a.edge_index.tolist() == b.edge_index.tolist()
        np.testing.assert_array_equal(a.edge_weight, b.edge_weight)


@pytest.mark.parametrize("workers", [2])
def test_workers_give_the_same_batches(tmp_path, workers):
    stored = G.write_graph(tmp_path, drawn())
    ways = [
        [
            (b.n_id.tolist(), b.edge_index.tolist())
            for b in G.NeighborLoader(stored, [4, 3], batch_size=16, seed=5, num_workers=w)
        ]
        for w in (0, workers)
    ]
    assert ways[0] == ways[1]


@pytest.mark.parametrize("k", [1, 3, 6])
def test_every_neighbour_is_as_likely_as_any_other(k):
    star = G.from_edge_list([(source, 0) for source in range(1, 8)])
    counts = np.zeros(8)
    subsets: dict = {}
    for seed in range(700):
        batch = G.sample_neighbors(star, weft.tensor([0]), [k], generator=seeded(seed))
        chosen = batch.n_id.numpy()[1:]
        assert len(chosen) == k
        counts[chosen] += 1
        subsets[tuple(sorted(chosen))] = subsets.get(tuple(sorted(chosen)), 0) + 1
    assert scipy.stats.chisquare(counts[1:]).pvalue > 1e-3
    assert len(subsets) == scipy.special.comb(7, k) and scipy.stats.chisquare(list(subsets.values())).pvalue > 1e-3


def test_nodes_without_edges_and_graphs_without_nodes(tmp_path):
    lonely = G.Graph(x=weft.ones(3, 1), edge_index=weft.tensor([[0], [1]]))
    for data in (lonely, G.write_graph(tmp_path / "a", lonely)):
        batch = G.sample_neighbors(data, weft.tensor([2, 0]), [2, 2])
        assert batch.n_id.tolist() == [2, 0] and batch.num_edges == 0 and batch.x.shape == (2, 1)
        assert G.sample_neighbors(data, weft.tensor([1]), [0]).num_nodes == 1
    empty = G.Graph(x=weft.ones(0, 1))
    assert list(G.NeighborLoader(empty, [1])) == [] and G.write_graph(tmp_path / "b", empty).num_edges == 0


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda g: G.NeighborLoader(g, []), "at least 0, or −1"),
        (lambda g: G.NeighborLoader(g, [-2]), "at least 0, or −1"),
        (lambda g: G.NeighborLoader(g, [1], weft.tensor([60])), "below 60"),
        (lambda g: G.sample_neighbors(g, weft.tensor([1, 1]), [1]), "different nodes"),
    ],
)
def test_samples_that_cannot_be(call, message):
    with pytest.raises(OptionError, match=message):
        call(drawn())


# ------------------------------------------------------------------------------------------ on disk
def test_a_folder_holds_the_graph(tmp_path, monkeypatch):
    monkeypatch.setattr("weft.graphs.stored.ROWS", 7)
    graph = drawn()
    stored = G.write_graph(tmp_path, graph, nodes={"extra": np.arange(120.0).reshape(60, 2)})
    assert (stored.num_nodes, stored.num_edges) == (60, graph.num_edges) and "60 nodes" in repr(stored)
    assert sorted(stored.nodes) == ["extra", "train_mask", "x", "y"] and sorted(stored.edges) == [
        "edge_attr",
        "edge_weight",
    ]
    order = np.argsort(graph.edge_index.numpy()[1], kind="stable")
    np.testing.assert_array_equal(stored.sources[:], graph.edge_index.numpy()[0][order])
    np.testing.assert_array_equal(stored.edges["edge_attr"][:], graph.edge_attr.numpy()[order])
    np.testing.assert_array_equal(np.diff(stored.ptr[:]), np.bincount(graph.edge_index.numpy()[1], minlength=60))
    pieces = lambda: (graph.edge_index[:, first : first + 11] for first in range(0, graph.num_edges, 11))
    again = G.write_graph(tmp_path / "pieces", pieces, 60)
    np.testing.assert_array_equal(again.sources[:], stored.sources[:])


def test_folders_that_hold_no_graph(tmp_path):
    graph = drawn()
    with pytest.raises(LayoutError, match=r"no graph\.json"):
        G.StoredGraph(tmp_path)
    with pytest.raises(OptionError, match="num_nodes is needed"):
        G.write_graph(tmp_path, lambda: iter([]))
    with pytest.raises(ShapeError, match=r"nodes 0\.\.9 of 3"):
        G.write_graph(tmp_path, lambda: [np.array([[0], [9]])], 3)
    with pytest.raises(ShapeError, match="pieces"):
        G.write_graph(tmp_path, lambda: [np.zeros((2, 1))], 3)
    calls = iter([np.array([[0], [1]]), np.array([[0], [2]])])
    with pytest.raises(OptionError, match="other edges came"):
        G.write_graph(tmp_path, lambda: [next(calls)], 3)
    with pytest.raises(ShapeError, match="60 rows of short"):
        G.write_graph(tmp_path, graph, nodes={"short": np.ones(3)})
    assert not (tmp_path / "graph.json").exists()  # none of these left a graph
    G.write_graph(tmp_path, graph)
    (tmp_path / "nodes" / "bad.npy").write_bytes((tmp_path / "ptr.npy").read_bytes())
    with pytest.raises(LayoutError, match="61 rows instead of 60"):
        G.StoredGraph(tmp_path)
    (tmp_path / "nodes" / "bad.npy").unlink()
    (tmp_path / "sources.npy").write_bytes((tmp_path / "sources.npy").read_bytes()[:-8])
    with pytest.raises(TruncatedError, match="cut short"):
        G.StoredGraph(tmp_path)
    (tmp_path / "graph.json").write_text("{}")
    with pytest.raises(HeaderError, match="num_nodes and num_edges"):
        G.StoredGraph(tmp_path)


@pytest.mark.slow
def test_ten_million_edges_on_disk_train_within_one_gigabyte(tmp_path):
    """Written in pieces and trained from by GraphSAGE in a process of its own, whose peak of resident memory is read."""
    program = os.path.join(os.path.dirname(__file__), "stored_training.py")
    environment = {**os.environ, "PYTHONPATH": os.path.dirname(os.path.dirname(weft.__file__))}
    done = subprocess.run(
        [sys.executable, program, str(tmp_path)], capture_output=True, text=True, timeout=900, env=environment
    )
    assert done.returncode == 0, done.stderr[-2000:]
    found = json.loads(done.stdout)
    assert found["edges"] == 10_000_000 and found["files_mb"] > 500 and found["traces"] == 1
    assert found["peak_mb"] < 1000 and found["last_loss"] < 0.5 * found["first_loss"] and found["accuracy"] > 0.85
