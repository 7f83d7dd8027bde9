"""Augmentation of tokens, time series and graphs: what must stay, what may change, and how often."""

import networkx as nx
import numpy as np
import pytest
from scipy import stats

import weft
from weft.data import Graph, synthetic
from weft.data import augment as A
from weft.errors import DtypeError, OptionError, ShapeError

RNG = np.random.default_rng(2)


def generator(seed=0):
    return weft.Generator().manual_seed(seed)


# ---- tokens ------------------------------------------------------------------------------------------------

TOKENS = np.where(np.arange(30) < RNG.integers(1, 31, (50, 1)), RNG.integers(1, 90, (50, 30)), 0)
OF_TOKENS = [
    A.TokenDropout(0.3),
    A.SwapTokens(3),
    A.MaskTokens(0.3, mask_id=99),
    A.MaskTokens(mask_id=99, vocab_size=90),
]


@pytest.mark.parametrize("transform", OF_TOKENS, ids=lambda t: type(t).__name__)
def test_tokens(transform):
    before, whole = TOKENS.copy(), transform(weft.tensor(TOKENS), generator())
    assert isinstance(whole, weft.Tensor) and whole.dtype == weft.int64 and whole.shape == (50, 30)
    np.testing.assert_array_equal(whole.numpy(), transform(TOKENS, generator()))
    np.testing.assert_array_equal(transform(TOKENS[:7], generator()), whole.numpy()[:7])
    np.testing.assert_array_equal(transform(TOKENS[0], generator()), whole.numpy()[0])
    assert transform(TOKENS[:0]).shape == (0, 30) and transform(TOKENS[:, :0]).shape == (50, 0)
    assert transform(TOKENS[:, :1]).shape == (50, 1)
    np.testing.assert_array_equal(TOKENS, before)
    each = transform(TOKENS, A.sample_generators(generator(), range(50)))
    np.testing.assert_array_equal(transform(TOKENS[9:12], A.sample_generators(generator(), range(9, 12))), each[9:12])
    with pytest.raises(DtypeError, match="integer"):
        transform(np.zeros((2, 3)))
    with pytest.raises(ShapeError, match=r"\(N, T\)"):
        transform(np.zeros((2, 3, 4), int))


def test_dropout_keeps_a_subsequence():
    ours = A.TokenDropout(0.3)(TOKENS, generator())
    for row, original in zip(ours, TOKENS, strict=True):
        length = np.count_nonzero(row)
        assert (row[length:] == 0).all() and length >= 1
        rest = iter(original.tolist())
        assert all(token in rest for token in row[:length].tolist())
    long = A.TokenDropout(0.3)(np.ones((200, 100), int), generator())
    assert stats.binomtest(int((long == 0).sum()), 20_000, 0.3).pvalue > 1e-3
    assert np.count_nonzero(A.TokenDropout(1.0)(TOKENS), axis=1).tolist() == [1] * 50
    assert (A.TokenDropout(0.5)(np.zeros((2, 4), int)) == 0).all()
    np.testing.assert_array_equal(A.TokenDropout(0.0)(TOKENS), TOKENS)


@pytest.mark.parametrize("distance", [0, 1, 3])
def test_swaps_are_local(distance):
    places = np.tile(np.arange(1, 41), (300, 1))
    ours = A.SwapTokens(distance)(places, generator())
    np.testing.assert_array_equal(np.sort(ours, 1), places)
    assert np.abs(ours - places).max() == distance
    np.testing.assert_array_equal(A.SwapTokens(distance)(TOKENS) == 0, TOKENS == 0)


def test_masks_in_berts_proportions():
    tokens = RNG.integers(1, 1000, (300, 100))
    masked, labels = A.MaskTokens(0.15, mask_id=1000, vocab_size=1000).with_labels(tokens, generator())
    chosen = labels != -100
    np.testing.assert_array_equal(labels[chosen], tokens[chosen])
    np.testing.assert_array_equal(masked[~chosen], tokens[~chosen])
    assert stats.binomtest(int(chosen.sum()), tokens.size, 0.15).pvalue > 1e-3
    kinds = [(masked == 1000)[chosen].sum(), (masked == tokens)[chosen].sum()]
    kinds.append(chosen.sum() - sum(kinds))
    assert stats.chisquare(kinds, chosen.sum() * np.array([0.8, 0.1, 0.1])).pvalue > 1e-3
    plain = A.MaskTokens(0.15, mask_id=1000)
    np.testing.assert_array_equal(plain(tokens, generator(1)), plain.with_labels(tokens, generator(1))[0])
    assert (A.MaskTokens(1.0, mask_id=5)(TOKENS)[TOKENS == 0] == 0).all()


# ---- series ------------------------------------------------------------------------------------------------

SERIES = RNG.normal(size=(6, 2, 40))
OF_SERIES = [A.Jitter(), A.Scale(), A.MagnitudeWarp(), A.TimeWarp(), A.WindowSlice(), A.TimeMask(0.3)]
STILL = [
    A.Jitter(0),
    A.Scale(0),
    A.MagnitudeWarp(0),
    A.TimeWarp(0),
    A.WindowSlice(1),
    A.TimeMask(0),
    A.TimeMask(0.3, p=0),
]


@pytest.mark.parametrize("transform", OF_SERIES, ids=lambda t: type(t).__name__)
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_series(transform, dtype):
    x = SERIES.astype(dtype)
    before, whole = x.copy(), transform(x, generator())
    assert whole.dtype == dtype and whole.shape == x.shape and (whole != x).any()
    np.testing.assert_array_equal(transform(weft.tensor(x), generator()).numpy(), whole)
    np.testing.assert_array_equal(transform(x[:2], generator()), whole[:2])
    np.testing.assert_array_equal(transform(x[0], generator()), whole[0])
    assert transform(x[0, 0]).shape == (40,) and transform(x[:, :, :1]).shape == (6, 2, 1)
    assert transform(x[:0]).shape == (0, 2, 40) and transform(x[:, :, :0]).shape == (6, 2, 0)
    np.testing.assert_array_equal(x, before)
    with pytest.raises(DtypeError, match="floating"):
        transform(np.zeros((2, 3), int))


@pytest.mark.parametrize("transform", STILL, ids=lambda t: type(t).__name__)
def test_series_stay_at_identity_parameters(transform):
    np.testing.assert_allclose(transform(SERIES, generator()), SERIES, atol=1e-12)


def test_jitter_and_scale_distributions():
    noise = A.Jitter(0.5)(np.zeros((5, 4, 200)), generator())
    assert stats.kstest(noise.reshape(-1), stats.norm(0, 0.5).cdf).pvalue > 1e-3
    factors = A.Scale(0.2)(np.ones((1000, 3, 2)), generator())
    assert (factors[..., 0] == factors[..., 1]).all()
    assert stats.kstest(factors[..., 0].reshape(-1), stats.norm(1, 0.2).cdf).pvalue > 1e-3


def test_time_warp_is_monotone_with_fixed_ends():
    time = np.tile(np.linspace(0, 1, 60), (50, 1, 1))  # linear interpolation is exact on it
    warped = A.TimeWarp(0.5)(time, generator())
    assert (np.diff(warped, axis=2) > 0).all()
    np.testing.assert_allclose(warped[:, :, [0, -1]], time[:, :, [0, -1]], atol=1e-12)
    assert np.abs(warped - time).max() > 0.05


def test_window_slice_is_a_window():
    time = np.tile(np.arange(61.0), (2000, 1, 1))
    ours = A.WindowSlice(0.5)(time, generator())
    np.testing.assert_allclose(np.diff(ours, axis=2), 0.5, atol=1e-9)
    assert stats.kstest(ours[:, 0, 0], stats.uniform(0, 30).cdf).pvalue > 1e-3


def test_time_mask_is_one_stretch_in_all_channels():
    ours = A.TimeMask(0.3, value=-9.0)(SERIES, generator()) == -9.0
    assert (ours[:, 0] == ours[:, 1]).all() and ours.any() and ours.mean(2).max() <= 0.3
    edges = np.abs(np.diff(ours[:, 0].astype(int), axis=1, prepend=0, append=0)).sum(1)
    assert set(edges.tolist()) <= {0, 2}


@pytest.mark.parametrize(
    "make", [lambda: A.Jitter(-1), lambda: A.WindowSlice(0), lambda: A.TimeMask(2), lambda: A.SwapTokens(-1)]
)
def test_options(make):
    with pytest.raises(OptionError, match="expected"):
        make()


# ---- graphs ------------------------------------------------------------------------------------------------

PLAIN = nx.gnm_random_graph(30, 70, seed=1)
PAIRS = np.array(PLAIN.edges).T
EDGES = np.concatenate([PAIRS, PAIRS[::-1]], 1)
FEATURES = np.arange(30.0)[:, None] + np.array([0.0, 100.0, 200.0, 300.0])  # the first column names the node
GRAPH = (FEATURES, EDGES, EDGES.T.astype(np.float32))
OF_GRAPHS = [
    A.DropEdges(0.4),
    A.DropEdges(0.4, undirected=True),
    A.MaskFeatures(0.4),
    A.DropNodes(0.3),
    A.RandomSubgraph(0.5),
]


def names(edges, x):
    """Edges by the original numbers of their ends."""
    return {tuple(pair) for pair in x[:, 0][edges].T.astype(int).tolist()}


@pytest.mark.parametrize("transform", OF_GRAPHS, ids=lambda t: type(t).__name__)
def test_graphs(transform):
    tensors = tuple(weft.tensor(part) for part in GRAPH)
    x, edges, attributes = transform(tensors, generator())
    plain = transform(GRAPH[:2], generator())
    np.testing.assert_array_equal(plain[0], x.numpy())
    np.testing.assert_array_equal(plain[1], edges.numpy())
    assert isinstance(x, weft.Tensor) and edges.dtype == weft.int64 and len(attributes) == edges.shape[1]
    if not isinstance(transform, A.MaskFeatures):
        assert names(edges.numpy(), x.numpy()) <= names(EDGES, FEATURES)
        np.testing.assert_array_equal(attributes.numpy(), x.numpy()[:, 0][edges.numpy()].T)  # attributes follow edges
    alone = transform((np.ones((1, 2)), np.zeros((2, 0), int)))
    assert alone[1].shape == (2, 0) and alone[0].shape == (1, 2)
    nothing = transform((np.ones((0, 2)), np.zeros((2, 0), int)))
    assert nothing[0].shape == (0, 2) and nothing[1].shape == (2, 0)
    loop = transform([np.ones((2, 1)), np.array([[1], [1]])])
    assert isinstance(loop, list) and len(loop) == 2


def test_edges_drop_with_their_probability():
    many = (np.zeros((2, 1)), np.tile([[0], [1]], 20_000))
    left = A.DropEdges(0.3)(many, generator())[1].shape[1]
    assert stats.binomtest(left, 20_000, 0.7).pvalue > 1e-3
    np.testing.assert_array_equal(A.DropEdges(0.0)(GRAPH)[1], EDGES)
    assert A.DropEdges(1.0)(GRAPH)[1].shape == (2, 0)


def test_undirected_edges_drop_in_pairs():
    _, edges, _ = A.DropEdges(0.5, undirected=True)(GRAPH, generator())
    assert {(b, a) for a, b in names(edges, FEATURES)} == names(edges, FEATURES)
    assert 40 < edges.shape[1] < 100


def test_masked_features_are_columns_or_entries():
    x = A.MaskFeatures(0.5)((np.ones((20, 400)), EDGES[:, :0]), generator())[0]
    assert set(np.unique(x.sum(0))) == {0.0, 20.0} and stats.binomtest(int((x[0] == 0).sum()), 400).pvalue > 1e-3
    x = A.MaskFeatures(0.5, each=True)((np.ones((20, 400)), EDGES[:, :0]), generator())[0]
    assert stats.binomtest(int((x == 0).sum()), 8000).pvalue > 1e-3 and len(np.unique(x.sum(0))) > 2


@pytest.mark.parametrize("transform", [A.DropNodes(0.4), A.RandomSubgraph(0.6)], ids=lambda t: type(t).__name__)
def test_kept_nodes_induce_a_subgraph(transform):
    x, edges, _ = transform(GRAPH, generator(3))
    kept = x[:, 0].astype(int)
    both = nx.subgraph(PLAIN, kept).to_directed()
    assert names(edges, x) == set(both.edges) and 0 < len(x) < 30


def test_dropped_nodes_can_be_known():
    transform = A.DropNodes(0.4)
    kept = transform.kept(GRAPH, generator(3))
    np.testing.assert_array_equal(transform(GRAPH, generator(3))[0], FEATURES[kept.numpy()])
    assert len(A.DropNodes(1.0)(GRAPH)[0]) == 1


def test_subgraphs_grow_along_edges():
    path = np.array([np.arange(99), np.arange(1, 100)])
    x, _ = A.RandomSubgraph(0.3)((np.arange(100.0)[:, None], path), generator())
    assert len(x) == 30 and (np.diff(x[:, 0]) == 1).all()  # connected
    apart = (np.arange(10.0)[:, None], np.zeros((2, 0), int))
    assert len(A.RandomSubgraph(0.45)(apart)[0]) == 5
    np.testing.assert_array_equal(A.RandomSubgraph(1.0)(GRAPH)[1], EDGES)


@pytest.mark.parametrize(
    ("graph", "error", "message"),
    [
        (FEATURES, OptionError, "edge_index"),
        ((FEATURES, EDGES.T), ShapeError, r"\(2, E\)"),
        ((FEATURES[0], EDGES), ShapeError, r"\(V, F\)"),
        ((FEATURES, EDGES, np.zeros(3)), ShapeError, r"\(E, …\)"),
        ((FEATURES[:5], EDGES), OptionError, r"\[0, 5\)"),
    ],
)
def test_graph_errors(graph, error, message):
    with pytest.raises(error, match=message):
        A.DropEdges()(graph)


def test_every_name_is_there():
    assert all(hasattr(A, name) for name in A.__all__) and set(A.__all__) <= set(dir(A))


def whole(seed: int = 0) -> Graph:
    """A graph with all that a `Graph` may have, each entry telling its node or edge."""
    edges = np.array([*PLAIN.edges, *(edge[::-1] for edge in PLAIN.edges)]).T
    node = np.arange(30)
    return Graph(
        edge_index=weft.from_numpy(edges),
        x=weft.from_numpy(np.random.default_rng(seed).standard_normal((30, 4)).astype(np.float32)),
        y=weft.from_numpy(node),
        edge_attr=weft.from_numpy(edges.T * 1.0),  # (E, 2): the numbers of its ends
        train_mask=weft.from_numpy(node < 10),
        test_mask=weft.from_numpy(node >= 20),
    )


@pytest.mark.parametrize("transform", OF_GRAPHS, ids=lambda t: type(t).__name__)
def test_graphs_of_every_origin_are_augmented(transform):
    drawn = synthetic.sbm(40, classes=2, p_in=0.4, p_out=0.1, seed=0)
    several = Graph.join(
        [Graph(edge_index=weft.tensor([[0, 1], [1, 0]]), y=weft.tensor([7]), num_nodes=3) for _ in range(5)]
    )
    for graph in (whole(), drawn, several):
        if graph.x is None and isinstance(transform, A.MaskFeatures):
            with pytest.raises(OptionError, match="a graph with features"):
                transform(graph)
            continue
        before = graph.to_dict()
        found = transform(graph, generator())
        assert type(found) is type(graph) and (found.x is None) == (graph.x is None)
        if graph.x is not None:  # the same as of a tuple
            x, edges = transform((graph.x, graph.edge_index), generator())
            np.testing.assert_array_equal(found.x, x)
            np.testing.assert_array_equal(found.edge_index, edges)
        assert all(getattr(graph, field) is value for field, value in before.items())
        assert found.num_nodes == (len(found.batch) if graph.batch is not None else len(found.x))
    if not isinstance(transform, A.MaskFeatures):
        assert transform(several, generator()).y.tolist() == [7] * 5  # of graphs, not of nodes


@pytest.mark.parametrize("transform", OF_GRAPHS, ids=lambda t: type(t).__name__)
def test_labels_masks_and_attributes_follow_their_nodes_and_edges(transform):
    graph = whole()
    found = transform(graph, generator())
    node = found.y.numpy()  # the number that each node had
    np.testing.assert_array_equal(node[found.edge_index.numpy()], found.edge_attr.numpy().T)
    np.testing.assert_array_equal(found.train_mask, node < 10)
    np.testing.assert_array_equal(found.test_mask, node >= 20)
    if not isinstance(transform, A.MaskFeatures):
        np.testing.assert_array_equal(found.x, graph.x[found.y])
    found.y.fill_(-1)
    assert graph.y.tolist() == list(range(30))  # memory of its own


def test_there_is_one_kind_of_graph():
    from weft.data import sources

    assert sources.Graph is synthetic.Graph is weft.data.Graph is Graph
    with pytest.raises(ShapeError, match="a bool for each of 30 nodes"):
        whole().subgraph(weft.zeros(29, dtype=weft.bool))
    assert whole().subgraph(weft.zeros(30, dtype=weft.bool)).num_nodes == 0
