"""Motifs against enumeration and NetworkX; graphs with types and graphs that change against their definitions."""

from __future__ import annotations

import itertools

import networkx as nx
import numpy as np
import pytest

import weft
from weft import graphs as G
from weft.errors import ArgumentError, EntryError, OptionError, ShapeError
from weft.graphs.nn import HeteroConv, SAGEConv

CONNECTED = {  # number of vertices, sorted degrees → name
    (1, 1, 2): "path3",
    (2, 2, 2): "triangle",
    (1, 1, 2, 2): "path4",
    (1, 1, 1, 3): "star",
    (2, 2, 2, 2): "cycle",
    (1, 2, 2, 3): "paw",
    (2, 2, 3, 3): "diamond",
    (3, 3, 3, 3): "clique",
}


def enumerated(other):
    found = dict.fromkeys(CONNECTED.values(), 0)
    for size in (3, 4):
        for nodes in itertools.combinations(other.nodes, size):
            part = other.subgraph(nodes)
            if nx.is_connected(part):
                found[CONNECTED[tuple(sorted(d for _, d in part.degree))]] += 1
    return found


@pytest.mark.parametrize("seed", [0, 1])
def test_motifs_are_those_found_by_looking_at_all_subgraphs(seed):
    other = nx.gnp_random_graph(13, 0.4, seed=seed)
    graph = G.from_networkx(other)
    assert G.motif_counts(graph) == enumerated(other)
    assert G.triangles(graph).tolist() == [nx.triangles(other)[v] for v in range(13)]
    expected = [nx.clustering(other)[v] for v in range(13)]
    np.testing.assert_allclose(G.clustering_coefficient(graph).numpy(), expected, rtol=1e-12)


def test_motifs_of_graphs_without_edges():
    empty = G.Data(num_nodes=3)
    assert set(G.motif_counts(empty).values()) == {0} and G.triangles(empty).tolist() == [0, 0, 0]


def test_rewiring_keeps_degrees_and_changes_edges():
    graph = G.barabasi_albert(40, 3, seed=0)
    other = G.rewired(graph, generator=weft.Generator().manual_seed(0))
    assert weft.equal(G.degree(graph.edge_index[0]), G.degree(other.edge_index[0]))
    assert other.is_undirected() and not other.has_self_loops() and other.is_coalesced()
    assert not np.array_equal(graph.edge_index.numpy(), other.edge_index.numpy())


def test_small_worlds_have_more_triangles_than_chance():
    graph = G.watts_strogatz(40, 6, 0.05, seed=0)
    found = G.motif_significance(graph, 5, generator=weft.Generator().manual_seed(0))
    assert found["triangle"].z > 5 and found["path3"].z < 0
    with pytest.raises(OptionError, match="samples"):
        G.motif_significance(graph, 1)


# ------------------------------------------------------------------------------------------ several types


def papers():
    data = G.HeteroData()
    data["author"].x, data["paper"].x = weft.arange(6).reshape(3, 2).float(), -weft.arange(8).reshape(4, 2).float()
    data["author", "writes", "paper"].edge_index = weft.tensor([[0, 1, 2], [0, 0, 3]])
    data["paper", "cites", "paper"].edge_index = weft.tensor([[1, 2], [0, 3]])
    data["author"].names = ["a", "b", "c"]
    return data


def test_types_become_one_graph():
    whole = papers().to_homogeneous()
    assert whole.edge_index.tolist() == [[0, 1, 2, 4, 5], [3, 3, 6, 3, 6]]
    assert whole.node_type.tolist() == [0] * 3 + [1] * 4 and whole.edge_type.tolist() == [0, 0, 0, 1, 1]
    assert whole.x.shape == (7, 2) and whole.x[3:].tolist() == papers()["paper"].x.tolist()
    assert papers().metadata()[0] == ["author", "paper"] and papers()["author"].names[1] == "b"


def test_a_layer_for_each_relation():
    """The sum of both relations' layers, and on one type alone the layer itself."""
    data, weights = papers(), [SAGEConv(2, 4), SAGEConv(2, 4)]
    layer = HeteroConv(dict(zip(data.edge_types, weights, strict=True)))
    y = layer(data.x_dict, data.edge_index_dict)
    one = weights[0]((data["author"].x, data["paper"].x), data.edge_index_dict[data.edge_types[0]])
    two = weights[1](data["paper"].x, data.edge_index_dict[data.edge_types[1]])
    assert list(y) == ["paper"]
    np.testing.assert_allclose(y["paper"].detach().numpy(), (one + two).detach().numpy(), rtol=1e-6)
    side = HeteroConv(dict(zip(data.edge_types, weights, strict=True)), aggr="cat")(data.x_dict, data.edge_index_dict)
    assert side["paper"].shape == (4, 8)


def test_faults_in_types_are_told():
    data = papers()
    data["paper", "cites", "paper"].edge_index = weft.tensor([[9], [0]])
    with pytest.raises(ShapeError, match="cites"):
        data.to_homogeneous()
    for wrong, kind in ((lambda: data["author"].pos, EntryError), (lambda: data["a", "b", "c", "d"], ArgumentError)):
        with pytest.raises(kind):
            wrong()
    with pytest.raises(ShapeError, match="num_nodes"):
        data.num_nodes("venue")
    with pytest.raises(OptionError, match="aggr"):
        HeteroConv({}, aggr="median")


# ------------------------------------------------------------------------------------------ over time


def events(count=20):
    rng = np.random.default_rng(0)
    t = weft.tensor(np.sort(rng.integers(0, 10, count)).astype(np.float64))
    ends = rng.integers(0, 6, (2, count))
    return G.TemporalData(weft.tensor(ends[0]), weft.tensor(ends[1]), t, weft.randn(count, 2))


def test_windows_hold_every_event_once():
    whole = events()
    parts = list(whole.snapshots(3.0))
    assert sum(part.num_edges for part in parts) == len(whole)
    start = whole.t[0].item()
    for number, part in enumerate(parts):
        assert ((part.edge_t >= start + 3 * number) & (part.edge_t < start + 3 * (number + 1))).all()
    assert whole.before(4.0).num_edges == int((whole.t < 4).sum()) and whole.before(4.0).num_nodes == whole.num_nodes


def test_what_is_tested_comes_after_all_that_trains():
    parts = events(40).train_val_test_split(0.2, 0.2)
    assert sum(map(len, parts)) == 40 and all(len(part) for part in parts)
    assert parts[0].t.max() < parts[1].t.min() and parts[1].t.max() < parts[2].t.min()


def test_faults_in_events_are_told():
    one = weft.tensor([0, 1])
    with pytest.raises(OptionError, match="fall"):
        G.TemporalData(one, one, weft.tensor([2.0, 1.0]))
    with pytest.raises(ShapeError, match="rows"):
        G.TemporalData(one, one, weft.tensor([2.0]))
    with pytest.raises(ShapeError, match="nodes"):
        G.TemporalData(one, one, one, num_nodes=1)
    with pytest.raises(OptionError, match="window"):
        list(events().snapshots(0))
    with pytest.raises(OptionError, match="shares"):
        events().train_val_test_split(0.6, 0.6)
    assert list(G.TemporalData(one[:0], one[:0], one[:0]).snapshots(1.0)) == []
