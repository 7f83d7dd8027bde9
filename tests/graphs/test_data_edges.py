"""Lists of edges, conversions, generators, graphs of points: beside NetworkX, SciPy and scikit-learn."""

from __future__ import annotations

import networkx as nx
import numpy as np
import pytest
import scipy.sparse
import sklearn.neighbors
import torch

import weft
from weft import graphs as G
from weft.errors import ArgumentError, OptionError, ShapeError
from weft.io.errors import LayoutError, UnsafePickleError

from .conftest import DIRECTED, UNDIRECTED, of_networkx


def dense(edge_index, values=None, count=None) -> np.ndarray:
    edges = edge_index.numpy()
    made = np.zeros((count or edges.max(initial=-1) + 1,) * 2)
    np.add.at(made, tuple(edges), 1.0 if values is None else values.numpy())
    return made


RANDOM = np.random.default_rng(0)
EDGES = weft.from_numpy(RANDOM.integers(0, 6, (2, 20)))
ATTR = weft.from_numpy(RANDOM.standard_normal((20, 2)))
WEIGHT = weft.from_numpy(RANDOM.uniform(0.5, 2, 20))
GRAPH = G.Graph(edge_index=EDGES, edge_attr=ATTR, edge_weight=WEIGHT, num_nodes=8, x=weft.ones(8, 1))


# ------------------------------------------------------------------------------------------ edges
def test_loops_are_removed_and_added():
    plain, weight = G.remove_self_loops(EDGES, WEIGHT)
    expected = dense(EDGES, WEIGHT)
    np.testing.assert_allclose(dense(plain, weight, 6), expected - np.diag(np.diag(expected)))
    added, more = G.add_self_loops(plain, weight, 0.5, num_nodes=8)
    expected = dense(plain, weight, 8) + 0.5 * np.eye(8)
    np.testing.assert_allclose(dense(added, more), expected)
    assert G.add_self_loops(EDGES)[1] is None and G.remove_self_loops(EDGES)[1] is None
    whole = G.add_self_loops(GRAPH, fill_value=2.0)
    assert whole.num_edges == 28 and whole.edge_attr[-8:].tolist() == [[2, 2]] * 8 and whole.num_nodes == 8
    assert not G.remove_self_loops(GRAPH).has_self_loops()


@pytest.mark.parametrize(
    ("fill", "reduce"), [("mean", np.mean), ("sum", np.sum), ("min", np.min), ("max", np.max), ("mul", np.prod)]
)
def test_loops_with_what_comes_in(fill, reduce):
    _, attr = G.add_self_loops(EDGES, ATTR, fill, 8)
    for node in range(8):
        coming = ATTR.numpy()[EDGES.numpy()[1] == node]
        np.testing.assert_allclose(attr[20 + node], reduce(coming, 0) if len(coming) else np.zeros(2))
    _, attr = G.add_self_loops(EDGES, ATTR, weft.tensor([1.0, 2.0]), 8)
    assert attr[20:].tolist() == [[1, 2]] * 8
    with pytest.raises(OptionError, match="expected one of sum, add"):
        G.add_self_loops(EDGES, ATTR, "median")


def test_remaining_loops_keep_what_was_there():
    edges, weight = G.add_remaining_self_loops(EDGES, WEIGHT, 9.0, 8)
    proper = EDGES.numpy()[0] != EDGES.numpy()[1]
    assert edges.shape[1] == proper.sum() + 8
    for node in range(8):
        own = WEIGHT.numpy()[(EDGES.numpy() == node).all(0)]
        assert weight[proper.sum() + node].item() == (own[-1] if len(own) else 9.0)
    graph = G.add_remaining_self_loops(GRAPH)
    assert graph.num_edges == proper.sum() + 8 and graph.edge_attr.shape[0] == graph.num_edges
    weight = WEIGHT.clone().requires_grad_()
    G.add_remaining_self_loops(EDGES, weight, 0.0, 8)[1].sum().backward()
    assert weight.grad[weft.from_numpy(proper)].tolist() == [1.0] * proper.sum()


@pytest.mark.parametrize(
    ("reduce", "of"), [("sum", np.sum), ("mean", np.mean), ("min", np.min), ("max", np.max), ("mul", np.prod)]
)
def test_equal_edges_become_one(reduce, of):
    edges, attr = G.coalesce(EDGES, ATTR, 6, reduce)
    pairs = EDGES.numpy().T
    assert list(map(tuple, edges.T.tolist())) == sorted(set(map(tuple, pairs.tolist())))
    for pair, row in zip(edges.T.tolist(), attr.numpy(), strict=True):
        np.testing.assert_allclose(row, of(ATTR.numpy()[(pairs == pair).all(1)], 0))
    whole = G.coalesce(GRAPH, reduce=reduce)
    np.testing.assert_allclose(whole.edge_attr, attr)
    np.testing.assert_array_equal(G.coalesce(EDGES), edges)


def test_both_directions():
    edges, weight = G.to_undirected(EDGES, WEIGHT)
    one = dense(EDGES, WEIGHT)
    np.testing.assert_allclose(dense(edges, weight), one + one.T)
    whole = G.to_undirected(GRAPH)
    assert whole.is_undirected() and whole.is_coalesced() and whole.num_nodes == 8
    np.testing.assert_allclose(dense(whole.edge_index, whole.edge_weight), one + one.T)
    assert G.to_undirected(weft.zeros(2, 0, dtype=weft.int64)).shape == (2, 0)


@pytest.mark.parametrize("seed", range(3))
def test_sums_of_both_directions_are_equal_to_the_bit(seed):
    """Many copies of an edge, in float32, where the order of a sum shows."""
    random = np.random.default_rng(seed)
    edges = weft.from_numpy(random.integers(0, 4, (2, 300)))
    graph = G.Graph(edge_index=edges, edge_weight=weft.from_numpy(random.uniform(0, 1, 300).astype(np.float32)))
    both = G.to_undirected(graph)
    assert both.is_undirected() and G.spectrum(both).eigenvalues[0].item() < 1e-6


@pytest.mark.parametrize("name", [*UNDIRECTED])
@pytest.mark.parametrize("hops", [0, 1, 2])
def test_neighbourhoods_as_networkx(name, hops):
    witness = UNDIRECTED[name]()
    graph = of_networkx(witness)
    subset, edges, mapping, mask = G.k_hop_subgraph(0, hops, graph.edge_index, num_nodes=graph.num_nodes)
    expected = nx.ego_graph(witness, next(iter(witness)), hops)
    number = {node: i for i, node in enumerate(witness)}
    assert subset.tolist() == sorted(number[node] for node in expected) and subset[mapping[0]].item() == 0
    pairs = {(number[a], number[b]) for a, b in expected.edges} | {(number[b], number[a]) for a, b in expected.edges}
    assert set(map(tuple, edges.T.tolist())) == pairs and mask.sum().item() == edges.shape[1]


def test_neighbourhoods_follow_directions():
    ring = G.ring(5, directed=True).edge_index
    back = G.k_hop_subgraph([0], 2, ring, relabel_nodes=True)
    assert back[0].tolist() == [0, 3, 4] and back[1].tolist() == [[1, 2], [2, 0]]
    assert G.k_hop_subgraph([0], 2, ring, flow="target_to_source")[0].tolist() == [0, 1, 2]
    with pytest.raises(OptionError, match="flow"):
        G.k_hop_subgraph([0], 1, ring, flow="up")
    with pytest.raises(OptionError, match="num_hops"):
        G.k_hop_subgraph([0], -1, ring)


def test_edges_between_some_nodes():
    edges, weight = G.subgraph([5, 1, 2], EDGES, WEIGHT, relabel_nodes=True)
    np.testing.assert_allclose(dense(edges, weight, 3), dense(EDGES, WEIGHT)[np.ix_([5, 1, 2], [5, 1, 2])])
    mask = weft.tensor([False, True, True, False, False, True])
    kept, _ = G.subgraph(mask, EDGES)
    assert set(kept.numpy().ravel().tolist()) <= {1, 2, 5}
    with pytest.raises(ShapeError, match="numbers of nodes"):
        G.subgraph(weft.tensor([0.5]), EDGES)


def test_degrees():
    np.testing.assert_array_equal(G.degree(EDGES[0], 8), np.bincount(EDGES.numpy()[0], minlength=8))
    np.testing.assert_allclose(G.degree(GRAPH), np.bincount(EDGES.numpy()[0], WEIGHT.numpy(), 8))
    assert G.degree(EDGES[1], dtype=weft.int64).dtype == weft.int64 and G.degree(EDGES[0][:0]).shape == (0,)


# ------------------------------------------------------------------------------------------ conversions
@pytest.mark.parametrize("name", UNDIRECTED)
def test_networkx_there_and_back(name):
    witness = nx.convert_node_labels_to_integers(UNDIRECTED[name]())
    nx.set_node_attributes(witness, {node: [node, 1.5] for node in witness}, "x")
    nx.set_node_attributes(witness, {node: f"node {node}" for node in witness}, "text")
    graph = G.from_networkx(witness)
    assert graph.is_undirected() and graph.x.tolist() == [[node, 1.5] for node in range(len(witness))]
    assert "text" not in graph
    back = G.to_networkx(graph, nx.Graph)
    assert nx.utils.graphs_equal(nx.Graph(back.edges), nx.Graph(witness.edges)) and len(back) == len(witness)
    expected = nx.adjacency_matrix(witness).toarray()
    weights = all("weight" in data for *_, data in witness.edges(data=True))
    np.testing.assert_allclose(nx.adjacency_matrix(back).toarray(), expected if weights else expected > 0, rtol=1e-6)


@pytest.mark.parametrize("name", DIRECTED)
def test_directed_networkx_there_and_back(name):
    witness = DIRECTED[name]()
    back = G.to_networkx(G.from_networkx(witness), nx.DiGraph)
    np.testing.assert_allclose(nx.adjacency_matrix(back).toarray(), nx.adjacency_matrix(witness).toarray(), rtol=1e-6)


def test_multigraphs_and_other_nodes_of_networkx():
    witness = nx.MultiGraph([("a", "b"), ("a", "b"), ("b", "b")], kind=3)
    graph = G.from_networkx(witness)
    assert graph.edge_index.tolist() == [[0, 0, 1, 1, 1], [1, 1, 0, 0, 1]] and graph.kind.item() == 3
    assert G.to_networkx(graph, nx.MultiGraph()).number_of_edges() == 3
    assert G.from_networkx(nx.Graph()).num_nodes == 0
    with pytest.raises(ArgumentError, match="a class of NetworkX's"):
        G.to_networkx(graph, dict)


def test_scipy_and_dense_matrices():
    matrix = scipy.sparse.random_array((7, 7), density=0.3, rng=np.random.default_rng(1), format="coo")
    graph = G.from_scipy(matrix)
    np.testing.assert_allclose(G.to_scipy(graph).toarray(), matrix.toarray())
    again = G.from_dense(weft.from_numpy(matrix.toarray()), name="matrix")
    np.testing.assert_array_equal(again.edge_index, graph.edge_index)
    np.testing.assert_array_equal(again.edge_weight, graph.edge_weight)
    with pytest.raises(ShapeError, match=r"\(N, N\)"):
        G.from_dense(weft.ones(2, 3))
    with pytest.raises(ArgumentError, match="square"):
        G.from_scipy(np.eye(2))


def test_edge_lists():
    graph = G.from_edge_list([(0, 1, 2.0), (1, 3, 0.5)], undirected=True)
    assert G.to_edge_list(graph) == [(0, 1, 2.0), (1, 0, 2.0), (1, 3, 0.5), (3, 1, 0.5)] and graph.num_nodes == 4
    assert G.from_edge_list([], num_nodes=3).num_nodes == 3
    with pytest.raises(ShapeError, match=r"got rows of \[1\]"):
        G.from_edge_list([(1,)])


def test_padded_batches():
    parts = [G.Graph(x=weft.full((n, 2), float(n)), edge_index=G.complete(n).edge_index) for n in (2, 4, 1)]
    batch = G.Batch.from_data_list(parts)
    x, mask = G.to_dense_batch(batch.x, batch.batch)
    assert x.shape == (3, 4, 2) and mask.sum(1).tolist() == [2, 4, 1]
    np.testing.assert_array_equal(x[mask], batch.x)
    A = G.to_dense_adj(batch.edge_index, batch.batch, max_num_nodes=5)
    for number, graph in enumerate(parts):
        n = graph.num_nodes
        np.testing.assert_array_equal(A[number, :n, :n], np.ones((n, n)) - np.eye(n))
        assert A[number].sum().item() == n * (n - 1)
    assert G.to_dense_batch(batch.x)[0].shape == (1, 7, 2)
    with pytest.raises(ShapeError, match="at most 3"):
        G.to_dense_adj(batch.edge_index, batch.batch, max_num_nodes=3)
    with pytest.raises(ShapeError, match="rising order"):
        G.to_dense_adj(batch.edge_index, batch.batch.flip(0))


def test_files_of_pytorch_geometric(tmp_path):
    """Tensors of all graphs one after the other and their borders, as `InMemoryDataset.save` writes them."""
    data = {
        "x": torch.arange(10.0).reshape(5, 2),
        "edge_index": torch.tensor([[0, 1, 0, 1, 2], [1, 0, 1, 2, 0]]),
        "y": torch.tensor([0, 1]),
        "name": ["a", "b"],
        "train_mask": None,
    }
    borders = {"x": [0, 2, 5], "edge_index": [0, 2, 5], "y": [0, 1, 2], "name": [0, 1, 2]}
    (tmp_path / "processed").mkdir()
    torch.save((data, {n: torch.tensor(b) for n, b in borders.items()}), tmp_path / "processed" / "data.pt")
    first, second = G.read_pyg(tmp_path)
    assert second.x.tolist() == [[4, 5], [6, 7], [8, 9]] and second.edge_index.tolist() == [[0, 1, 2], [1, 2, 0]]
    assert first.y.tolist() == [0] and second.name == "b" and second.train_mask is None
    torch.save((dict(list(data.items())[:3]), None), tmp_path / "one.pt")
    assert G.read_pyg(tmp_path / "one.pt")[0].num_nodes == 5
    torch.save((data, {"x": torch.tensor([0, 9, 5])}), tmp_path / "wrong.pt")
    with pytest.raises(LayoutError, match=r"x of graph 0 is said to be 0\.\.9"):
        G.read_pyg(tmp_path / "wrong.pt")
    torch.save(([1], None), tmp_path / "list.pt")
    with pytest.raises(LayoutError, match="a dictionary of tensors"):
        G.read_pyg(tmp_path / "list.pt")


def test_the_class_beside_the_tensors_is_a_name_and_nothing_else(tmp_path, monkeypatch):
    import sys
    import types

    for name, module in (("torch_geometric", "Data"), ("os_like", "Other")):
        for part in (name, f"{name}.data", f"{name}.data.data"):
            monkeypatch.setitem(sys.modules, part, types.ModuleType(part))
        kind = type(module, (), {"__module__": f"{name}.data.data"})
        setattr(sys.modules[f"{name}.data.data"], module, kind)
        torch.save(({"x": torch.ones(3, 1)}, None, kind), tmp_path / f"{name}.pt")
    assert G.read_pyg(tmp_path / "torch_geometric.pt")[0].num_nodes == 3
    with pytest.raises(UnsafePickleError, match="os_like"):
        G.read_pyg(tmp_path / "os_like.pt")


# ------------------------------------------------------------------------------------------ generators
REGULAR = {
    "path": (lambda: G.path(6), lambda: nx.path_graph(6)),
    "path of one": (lambda: G.path(1), lambda: nx.path_graph(1)),
    "ring": (lambda: G.ring(6), lambda: nx.cycle_graph(6)),
    "directed ring": (lambda: G.ring(6, directed=True), lambda: nx.cycle_graph(6, create_using=nx.DiGraph)),
    "complete": (lambda: G.complete(5), lambda: nx.complete_graph(5)),
    "grid": (lambda: G.grid(3, 4), lambda: nx.grid_2d_graph(3, 4)),
    "torus": (lambda: G.grid(3, 4, periodic=True), lambda: nx.grid_2d_graph(3, 4, periodic=True)),
    "small world without chance": (lambda: G.watts_strogatz(9, 4, 0.0), lambda: nx.watts_strogatz_graph(9, 4, 0.0)),
}


@pytest.mark.parametrize("name", REGULAR)
def test_regular_graphs_as_networkx(name):
    made, witness = (make() for make in REGULAR[name])
    np.testing.assert_array_equal(G.adjacency(made).to_dense(), nx.adjacency_matrix(witness).toarray())


RANDOM_ONES = {
    "erdos_renyi": lambda seed: G.erdos_renyi(60, 0.1, seed=seed),
    "directed": lambda seed: G.erdos_renyi(60, 0.1, directed=True, seed=seed),
    "barabasi_albert": lambda seed: G.barabasi_albert(60, 3, seed=seed),
    "watts_strogatz": lambda seed: G.watts_strogatz(60, 6, 0.3, seed=seed),
    "sbm": lambda seed: G.stochastic_block_model([20, 40], [[0.3, 0.1], [0.1, 0.2]], seed=seed),
}


@pytest.mark.parametrize("name", RANDOM_ONES)
def test_random_graphs_are_simple_and_repeat_with_their_seed(name):
    draw = RANDOM_ONES[name]
    graphs = [draw(seed) for seed in (0, 0, 1)]
    assert graphs[0].edge_index.tolist() == graphs[1].edge_index.tolist() != graphs[2].edge_index.tolist()
    for graph in graphs:
        assert graph.is_coalesced() and not graph.has_self_loops() and graph.num_nodes == 60
        assert graph.is_undirected() == (name != "directed")
    drawn = {"barabasi_albert": 2 * 3 * 57, "watts_strogatz": 60 * 6}
    assert drawn.get(name, graphs[0].num_edges) == graphs[0].num_edges
    with pytest.raises(OptionError, match="seed or generator"):
        G.erdos_renyi(3, 0.5, seed=0, generator=weft.Generator())


def test_random_graphs_have_the_right_statistics():
    """Edges are binomial; clustering falls as (1 − p)³ along small worlds; hubs of growing graphs are as large as NetworkX's."""
    pairs = 400 * 399 / 2
    edges = G.erdos_renyi(400, 0.05, seed=0).num_edges / 2
    assert abs(edges - 0.05 * pairs) < 4 * np.sqrt(pairs * 0.05 * 0.95)
    triangles = lambda graph: nx.average_clustering(G.to_networkx(graph, nx.Graph))
    assert triangles(G.watts_strogatz(1000, 10, 0.2, seed=0)) == pytest.approx(
        triangles(G.watts_strogatz(1000, 10, 0.0)) * 0.8**3, rel=0.08
    )
    largest = [G.degree(G.barabasi_albert(1000, 2, seed=s)).max().item() for s in range(12)]
    theirs = [max(d for _, d in nx.barabasi_albert_graph(1000, 2, seed=s).degree) for s in range(12)]
    assert 0.7 < np.mean(largest) / np.mean(theirs) < 1.4


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: G.ring(2), "at least 3, got 2"),
        (lambda: G.path(-1), "at least 0, got -1"),
        (lambda: G.barabasi_albert(3, 3), "m below n"),
        (lambda: G.watts_strogatz(4, 4, 0.1), "k < n"),
        (lambda: G.watts_strogatz(4, 2, 1.5), "p in"),
        (lambda: G.erdos_renyi(4, 1.5), "probabilities"),
    ],
)
def test_graphs_that_cannot_be_made(call, message):
    with pytest.raises(OptionError, match=message):
        call()


# ------------------------------------------------------------------------------------------ points
POINTS = weft.from_numpy(np.random.default_rng(3).standard_normal((80, 3)))


@pytest.mark.parametrize("loop", [False, True])
@pytest.mark.parametrize("k", [1, 5, 20])
def test_nearest_as_scikit_learn(k, loop):
    x = POINTS.numpy()
    expected = sklearn.neighbors.kneighbors_graph(x, k, include_self=loop).toarray()
    found = G.knn_graph(POINTS, k, mutual=None, loop=loop)
    np.testing.assert_array_equal(G.adjacency(found).to_dense(), expected.T)  # from a neighbour to the point
    np.testing.assert_array_equal(
        G.adjacency(G.knn_graph(POINTS, k, loop=loop)).to_dense(), np.maximum(expected, expected.T)
    )
    np.testing.assert_array_equal(
        G.adjacency(G.knn_graph(POINTS, k, mutual=True, loop=loop)).to_dense(), np.minimum(expected, expected.T)
    )


@pytest.mark.parametrize("r", [0.0, 0.5, 2.0, 100.0])
def test_radius_as_scikit_learn(r):
    expected = sklearn.neighbors.radius_neighbors_graph(POINTS.numpy(), r).toarray()
    np.testing.assert_array_equal(G.adjacency(G.radius_graph(POINTS, r)).to_dense(), expected)
    loops = G.radius_graph(POINTS, r, loop=True)
    np.testing.assert_array_equal(G.adjacency(loops).to_dense(), expected + np.eye(80))


def test_weights_are_gaussian():
    expected = sklearn.metrics.pairwise.rbf_kernel(POINTS.numpy(), gamma=1 / (2 * 0.7**2))
    full = G.adjacency(G.similarity_graph(POINTS, 0.7)).to_dense().numpy()
    np.testing.assert_allclose(full, expected - np.eye(80), rtol=1e-9, atol=1e-12)
    near = G.knn_graph(POINTS, 4, sigma=0.7)
    np.testing.assert_allclose(near.edge_weight, full[tuple(near.edge_index.numpy())])
    assert near.is_undirected() and G.radius_graph(POINTS.float(), 1.0, sigma=0.7).edge_weight.dtype == weft.float32


def test_points_that_cannot_be():
    with pytest.raises(ShapeError, match=r"points \(N, D\)"):
        G.knn_graph(weft.ones(3), 1)
    with pytest.raises(OptionError, match=r"k of 1\.\.2 for 3"):
        G.knn_graph(weft.ones(3, 1), 3)
    with pytest.raises(OptionError, match="finite"):
        G.radius_graph(weft.tensor([[float("nan")]]), 1.0)
    with pytest.raises(OptionError, match="sigma above 0"):
        G.similarity_graph(weft.ones(2, 1), 0.0)
    with pytest.raises(OptionError, match="radius of at least 0"):
        G.radius_graph(weft.ones(2, 1), -1.0)


def test_equal_points_have_the_lower_numbers_as_nearest():
    assert G.knn_graph(weft.ones(5, 2), 2, mutual=None).edge_index[0].tolist() == [1, 2, 0, 2, 0, 1, 0, 1, 0, 1]
