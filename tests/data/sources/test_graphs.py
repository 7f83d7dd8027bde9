"""Graphs from small files in the genuine formats, and the published counts of the real ones; NetworkX as a witness."""

from __future__ import annotations

import collections
import pickle

import networkx as nx
import numpy as np
import pytest
import scipy.sparse as sp

import weft
from weft.data import DataLoader, sources
from weft.data.sources import Graph
from weft.io.errors import FileFormatError, LayoutError

pytestmark = pytest.mark.filterwarnings("ignore::weft.data.sources.SourceWarning")


def write_planetoid(folder, name="cora", index=(12, 10, 13), **changes):
    """Ten nodes in allx, of which the first four are labelled, and three test nodes; node 11 has no paper."""
    rng = np.random.default_rng(0)
    one_hot = lambda labels: np.eye(3, dtype=np.int32)[labels]
    allx, tx = (
        sp.csr_matrix(rng.integers(0, 2, (10, 5)).astype(np.float32)),
        sp.csr_matrix(np.eye(3, 5, dtype=np.float32)),
    )
    ally, ty = one_hot(rng.integers(0, 3, 10)), one_hot([2, 1, 2])
    graph = collections.defaultdict(list, {0: [1, 1, 0], 1: [0], 2: [12], 12: [2], 13: [0]})
    parts = {"x": allx[:4], "y": ally[:4], "allx": allx, "ally": ally, "tx": tx, "ty": ty, "graph": graph, **changes}
    folder.mkdir(parents=True, exist_ok=True)
    for part, value in parts.items():
        (folder / f"ind.{name}.{part}").write_bytes(pickle.dumps(value, 2))
    (folder / f"ind.{name}.test.index").write_text("".join(f"{i}\n" for i in index))
    return parts


def test_planetoid(tmp_path):
    parts = write_planetoid(tmp_path / "planetoid")
    made = sources.Planetoid(tmp_path, "Cora")
    graph = made[0]
    assert len(made) == 1 and made.num_classes == 3 and graph.num_nodes == 14
    x, y = graph.x.numpy(), graph.y.numpy()
    np.testing.assert_array_equal(x[:10], parts["allx"].toarray())
    np.testing.assert_array_equal(x[[12, 10, 13]], parts["tx"].toarray())
    assert x[11].sum() == 0 and y[[12, 10, 13]].tolist() == [2, 1, 2]
    # no loop, no edge twice, both directions
    assert graph.edge_index.tolist() == [[0, 0, 1, 2, 12, 13], [1, 13, 0, 12, 2, 0]] and graph.is_undirected()
    assert graph.train_mask.tolist() == [True] * 4 + [False] * 10
    assert np.flatnonzero(graph.test_mask.numpy()).tolist() == [10, 12, 13]
    full = sources.Planetoid(tmp_path, split="full", normalize=True)[0]
    sums = full.x.numpy().sum(1)
    np.testing.assert_allclose(sums[sums > 0], 1, rtol=1e-6)
    assert not (full.train_mask.numpy() & full.val_mask.numpy()).any()


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"index": (12, 10)}, "test.index does not fit"),
        ({"index": (12, 12, 10)}, "test.index does not fit"),
        ({"index": (3, 11, 12)}, "test.index does not fit"),
        ({"graph": {0: [99]}}, r"nodes 0\.\.99 of 14"),
        ({"graph": [1, 2]}, "holds a list"),
        ({"tx": np.zeros((3, 5))}, "holds a ndarray"),
        ({"ty": {"a": 1}}, "holds a dict"),
    ],
)
def test_planetoid_whose_files_do_not_fit(tmp_path, changes, message):
    write_planetoid(tmp_path, **changes)
    with pytest.raises(LayoutError, match=message):
        sources.Planetoid(tmp_path)


def test_planetoid_faults(tmp_path):
    write_planetoid(tmp_path)
    (tmp_path / "ind.cora.test.index").write_text("12\nx\n")
    with pytest.raises(LayoutError, match=r"test\.index"):
        sources.Planetoid(tmp_path)
    (tmp_path / "ind.cora.allx").write_bytes((tmp_path / "ind.cora.allx").read_bytes()[:100])
    with pytest.raises(FileFormatError, match=r"ind\.cora\.allx"):
        sources.Planetoid(tmp_path)
    with pytest.raises(ValueError, match="cora, citeseer, pubmed"):
        sources.Planetoid(tmp_path, "reddit")
    with pytest.raises(sources.SourceError, match=r"ind\.pubmed\.x"):
        sources.Planetoid(tmp_path, "pubmed")


@pytest.mark.parametrize(
    ("name", "nodes", "features", "classes", "edges", "train", "isolated"),
    [("cora", 2708, 1433, 7, 10_556, 140, 0), ("citeseer", 3327, 3703, 6, 9104, 120, 48)],
)
def test_real_planetoid(real, name, nodes, features, classes, edges, train, isolated):
    made = sources.Planetoid(real, name)
    graph = made[0]
    assert graph.x.shape == (nodes, features) and made.num_classes == classes and graph.num_edges == edges
    assert [int(mask.numpy().sum()) for mask in (graph.train_mask, graph.val_mask, graph.test_mask)] == [
        train,
        500,
        1000,
    ]
    assert np.bincount(graph.y.numpy()[graph.train_mask.numpy()]).tolist() == [20] * classes
    assert nodes - len(np.unique(graph.edge_index.numpy())) == isolated
    witness = nx.Graph()
    witness.add_edges_from(graph.edge_index.numpy().T.tolist())
    assert witness.number_of_edges() * 2 == edges
    if name == "cora":
        assert len(max(nx.connected_components(witness), key=len)) == 2485  # its largest component, as published
        histogram = [351, 217, 418, 818, 426, 298, 180]
        assert np.bincount(graph.y.numpy()).tolist() == histogram


# ------------------------------------------------------------------------------------------ TU
TU = {
    "A": "1, 2\n2, 1\n2, 1\n3, 3\n4, 5\n5, 4\n",
    "graph_indicator": "1\n1\n1\n2\n2\n",
    "graph_labels": "1\n-1\n",
    "node_labels": "5\n6\n5\n7\n5\n",
    "node_attributes": "0.5, 1\n1.5, 2\n2.5, 3\n3.5, 4\n4.5, 5\n",
    "edge_labels": "0\n1\n1\n0\n0\n0\n",
}


def write_tu(folder, name="TINY", **changes):
    folder.mkdir(parents=True, exist_ok=True)
    for part, content in {**TU, **changes}.items():
        if content is not None:
            (folder / f"{name}_{part}.txt").write_text(content)


@pytest.mark.parametrize("place", ["tudataset/TINY", "TINY", "TINY/raw", "."])
def test_tu(tmp_path, place):
    write_tu(tmp_path / place)
    made = sources.TUDataset(tmp_path, "TINY")
    assert len(made) == 2 and made.num_classes == 2 and made.targets.tolist() == [1, 0] and made.num_features == 3
    first, second = made
    assert first.edge_index.tolist() == [[0, 1], [1, 0]] and second.edge_index.tolist() == [[0, 1], [1, 0]]
    assert first.x.tolist() == [[1, 0, 0], [0, 1, 0], [1, 0, 0]] and first.y.tolist() == [1]
    assert first.edge_attr.tolist() == [[1, 0], [0, 1]] and first.num_nodes == 3
    assert made.num_node_features == 3 and made.num_edge_features == 2
    assert [g.y.item() for g in made[weft.tensor([1, 0])]] == [0, 1] and len(made[:1]) == len(made[[True, False]]) == 1
    attributes = sources.TUDataset(tmp_path, "TINY", use_node_attr=True)
    assert attributes[1].x.tolist() == [[3.5, 4, 0, 0, 1], [4.5, 5, 1, 0, 0]]


def test_tu_without_features(tmp_path):
    write_tu(tmp_path, node_labels=None, node_attributes=None, edge_labels=None)
    graph = sources.TUDataset(tmp_path, "TINY")[0]
    assert graph.x is None and graph.edge_attr is None and graph.num_nodes == 3 and graph.num_features == 0


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"A": "1, 4\n"}, "two graphs"),
        ({"A": "1, 9\n"}, "does not exist"),
        ({"A": "1, 2\n3\n"}, "line 2: 1 numbers instead of 2"),
        ({"A": "1, x\n"}, "TINY_A.txt"),
        ({"A": ""}, "is empty"),
        ({"graph_indicator": "1\n1\n1\n1\n1\n"}, "from 1 to 2"),
        ({"graph_indicator": "2\n1\n1\n1\n2\n"}, "from 1 to 2"),
        ({"node_labels": "1\n2\n"}, "rows of features for 5"),
    ],
)
def test_tu_faults(tmp_path, changes, message):
    changes = {"edge_labels": None, **changes}
    write_tu(tmp_path, **changes)
    with pytest.raises(LayoutError, match=message):
        sources.TUDataset(tmp_path, "TINY")


@pytest.mark.parametrize(
    ("name", "graphs", "classes", "nodes", "edges", "features", "with_attributes"),
    [
        ("MUTAG", 188, 2, 3371, 7442, 7, None),
        ("PROTEINS", 1113, 2, 43_471, 162_088, 3, 4),
        ("ENZYMES", 600, 6, 19_580, 74_564, 3, 21),
    ],
)
def test_real_tu(real, name, graphs, classes, nodes, edges, features, with_attributes):
    made = sources.TUDataset(real, name, use_node_attr=with_attributes is not None)
    assert len(made) == graphs and made.num_classes == classes
    assert sum(g.num_nodes for g in made) == nodes and sum(g.num_edges for g in made) == edges
    assert made.num_features == (with_attributes or features)
    np.testing.assert_array_equal(made[0].x.numpy()[:, -features:].sum(1), 1)
    assert all(graph.is_undirected() for graph in list(made)[:50])
    histogram = {"MUTAG": [63, 125], "PROTEINS": [663, 450], "ENZYMES": [100] * 6}[name]
    assert np.bincount(made.targets.numpy()).tolist() == histogram


def test_tu_without_a_file_that_belongs_to_it(tmp_path):
    with pytest.raises(sources.SourceError, match=r"MUTAG_graph_indicator\.txt.*chrsmrrs"):
        sources.TUDataset(tmp_path, "MUTAG", download=True)


# ------------------------------------------------------------------------------------------ graphs themselves
def test_real_karate_club_as_networkx(real):
    graph, expected = sources.karate_club(real), nx.karate_club_graph()
    assert graph.num_nodes == 34 and graph.num_edges == 156 and graph.is_undirected()
    weights = {
        tuple(pair): w
        for pair, w in zip(graph.edge_index.numpy().T.tolist(), graph.edge_attr.numpy()[:, 0], strict=True)
    }
    assert all(weights[u, v] == weights[v, u] == data["weight"] for u, v, data in expected.edges(data=True))
    assert graph.y.tolist() == [int(expected.nodes[i]["club"] == "Officer") for i in range(34)]


def random_graph(seed, nodes):
    drawn = nx.gnp_random_graph(nodes, 0.4, seed=seed)
    edges = np.array([pair for u, v in drawn.edges for pair in ((u, v), (v, u))], np.int64).reshape(-1, 2).T
    return Graph(edge_index=weft.from_numpy(edges), x=weft.ones(nodes, 2) * seed, y=weft.tensor([seed])), drawn


def test_join_is_the_disjoint_union(tmp_path):
    pairs = [random_graph(seed, nodes) for seed, nodes in enumerate((5, 1, 7))]
    joined = Graph.join([graph for graph, _ in pairs])
    expected = nx.disjoint_union_all([drawn for _, drawn in pairs])
    assert set(map(tuple, joined.edge_index.numpy().T.tolist())) == {
        p for u, v in expected.edges for p in ((u, v), (v, u))
    }
    assert joined.batch.tolist() == [0] * 5 + [1] + [2] * 7 and joined.y.tolist() == [0, 1, 2]
    assert joined.num_nodes == 13 and joined.x.numpy()[:, 0].tolist() == joined.batch.tolist()
    write_tu(tmp_path)
    batches = list(DataLoader(sources.TUDataset(tmp_path, "TINY"), batch_size=2, collate_fn=Graph.join))
    assert len(batches) == 1 and batches[0].num_nodes == 5


def test_graphs_that_cannot_be():
    with pytest.raises(ValueError, match=r"must be a tensor \(2, E\)"):
        Graph(edge_index=weft.zeros(3, 2, dtype=weft.int64))
    with pytest.raises(ValueError, match=r"nodes 0\.\.5 of 3"):
        Graph(edge_index=weft.tensor([[0], [5]]), x=weft.zeros(3, 1))
    with pytest.raises(ValueError, match="at least one graph"):
        Graph.join([])
    empty = Graph(edge_index=weft.zeros(2, 0, dtype=weft.int64))
    assert empty.num_nodes == 0 and empty.is_undirected() and "0 nodes" in repr(empty)
