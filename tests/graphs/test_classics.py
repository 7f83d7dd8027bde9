"""Ranks, centralities, labels, walks: beside NetworkX, scikit-learn and what can be counted."""

from __future__ import annotations

import itertools

import networkx as nx
import numpy as np
import pytest
import scipy.stats
from sklearn.linear_model import LogisticRegression
from sklearn.semi_supervised import LabelSpreading

import weft
from weft import graphs as G
from weft.errors import LinAlgError, OptionError, ShapeError

from .conftest import DIRECTED, UNDIRECTED, exact, of_networkx

ALL = {f"undirected {n}": make for n, make in UNDIRECTED.items()} | {
    f"directed {n}": make for n, make in DIRECTED.items()
}


def both(name: str):
    witness = ALL[name]()
    return of_networkx(witness), witness


def listed(values: dict, witness: nx.Graph) -> list[float]:
    return [values[node] for node in witness]


# ------------------------------------------------------------------------------------------ ranks
@pytest.mark.parametrize("alpha", [0.85, 0.5])
@pytest.mark.parametrize("name", ALL)
def test_pagerank_as_networkx(name, alpha):
    graph, witness = both(name)
    expected = nx.pagerank(witness, alpha, tol=1e-14, max_iter=2000)
    np.testing.assert_allclose(G.pagerank(graph, alpha), listed(expected, witness), atol=1e-10)


@pytest.mark.parametrize("name", ["directed dangling", "directed weighted", "undirected karate weighted"])
def test_personal_pagerank_as_networkx(name):
    graph, witness = both(name)
    random = np.random.default_rng(0)
    begin, lead = random.uniform(0, 1, len(witness)), random.uniform(0, 1, len(witness))
    begin[0] = 0
    named = [dict(zip(witness, part.tolist(), strict=True)) for part in (begin, lead)]
    expected = nx.pagerank(witness, personalization=named[0], dangling=named[1], tol=1e-14, max_iter=2000)
    found = G.pagerank(graph, personalization=weft.from_numpy(begin), dangling=weft.from_numpy(lead))
    np.testing.assert_allclose(found, listed(expected, witness), atol=1e-10)
    assert found.sum().item() == pytest.approx(1)


def test_pagerank_of_undirected_graphs_without_jumps_is_the_degree():
    graph = exact(of_networkx(UNDIRECTED["karate"]()))
    d = G.degree(graph).numpy()
    np.testing.assert_allclose(G.pagerank(graph, 0.9999, max_iter=400_000), d / d.sum(), atol=2e-4)


@pytest.mark.parametrize(
    "name",
    ["undirected karate", "undirected karate weighted", "directed random", "directed weighted", "directed dangling"],
)
@pytest.mark.parametrize("dense", [True, False])
def test_hits_as_networkx(monkeypatch, name, dense):
    from weft.graphs import ranking

    monkeypatch.setattr(ranking, "DENSE", 64 if dense else 2)
    graph, witness = both(name)
    hubs, authorities = nx.hits(witness, tol=1e-14, max_iter=1000)
    found = G.hits(graph)
    np.testing.assert_allclose(found.hubs, listed(hubs, witness), atol=1e-8)
    np.testing.assert_allclose(found.authorities, listed(authorities, witness), atol=1e-8)


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (lambda g: G.pagerank(g, 1.0), OptionError, r"alpha in \[0, 1\)"),
        (lambda g: G.pagerank(g, personalization=weft.zeros(3)), OptionError, "with some above"),
        (lambda g: G.pagerank(g, personalization=weft.ones(2)), ShapeError, r"personalization \(3,\)"),
        (lambda g: G.pagerank(g, max_iter=1), LinAlgError, "after 1 steps"),
        (lambda g: G.pagerank(g.replace(edge_weight=-weft.ones(4))), OptionError, "weights of at least 0"),
        (lambda g: G.katz_centrality(g, 5.0), OptionError, "largest eigenvalue"),
        (lambda g: G.katz_centrality(g, beta=weft.ones(2)), ShapeError, r"\(3,\)"),
        (lambda g: G.eigenvector_centrality(G.Graph(num_nodes=2)), OptionError, "2 parts"),
        (lambda g: G.closeness_centrality(g, weft.zeros(4)), OptionError, "above 0"),
    ],
)
def test_ranks_that_cannot_be(call, error, message):
    with pytest.raises(error, match=message):
        call(G.path(3))


def test_graphs_without_anything():
    nothing = G.Graph()
    for rank in (G.pagerank, G.degree_centrality, G.closeness_centrality, G.betweenness_centrality, G.katz_centrality):
        assert rank(nothing).shape == (0,)
    assert G.hits(G.Graph(num_nodes=2)).hubs.tolist() == [0, 0]


# ------------------------------------------------------------------------------------------ centralities
@pytest.mark.parametrize("name", ALL)
def test_centralities_as_networkx(monkeypatch, name):
    from weft.graphs import centrality

    graph, witness = both(name)
    monkeypatch.setattr(centrality, "TABLE", 5 * len(witness))  # several blocks
    close = lambda found, expected: np.testing.assert_allclose(found, listed(expected, witness), atol=1e-10)
    close(G.degree_centrality(graph), nx.degree_centrality(witness))
    close(G.closeness_centrality(graph), nx.closeness_centrality(witness))
    for normalized in (True, False):
        close(G.betweenness_centrality(graph, normalized), nx.betweenness_centrality(witness, normalized=normalized))
    top = max(abs(np.linalg.eigvals(nx.adjacency_matrix(witness).toarray().astype(float))), default=0)
    alpha = 0.5 / max(top, 1)
    for normalized in (True, False) if len(witness) > 1 else ():  # NetworkX has no answer for one node
        expected = nx.katz_centrality_numpy(witness, alpha, 1.5, normalized=normalized, weight="weight")
        close(G.katz_centrality(graph, alpha, 1.5, normalized), expected)


@pytest.mark.parametrize("name", ["undirected karate weighted", "directed weighted"])
def test_closeness_with_lengths_as_networkx(name):
    graph, witness = both(name)
    expected = nx.closeness_centrality(witness, distance="weight")
    np.testing.assert_allclose(G.closeness_centrality(graph, graph.edge_weight), listed(expected, witness))


@pytest.mark.parametrize("dense", [True, False])
@pytest.mark.parametrize(
    "name", ["undirected karate", "undirected karate weighted", "undirected grid", "directed ring"]
)
def test_eigenvector_centrality_as_networkx(monkeypatch, name, dense):
    from weft.graphs import centrality

    monkeypatch.setattr(centrality, "DENSE", 200 if dense else 3)
    graph, witness = both(name)
    expected = nx.eigenvector_centrality_numpy(witness, weight="weight")
    np.testing.assert_allclose(G.eigenvector_centrality(graph), np.abs(listed(expected, witness)), atol=1e-8)


# ------------------------------------------------------------------------------------------ labels
def test_label_propagation_as_scikit_learn():
    graph, witness = both("undirected karate weighted")
    y = np.array([int(witness.nodes[n]["club"] == "Officer") for n in witness])
    known = np.isin(np.arange(34), [0, 33, 5])
    A = nx.adjacency_matrix(witness).toarray().astype(float)
    model = LabelSpreading(
        kernel=lambda a, b: A[np.ix_(a[:, 0].astype(int), b[:, 0].astype(int))], alpha=0.8, max_iter=5000, tol=1e-14
    )
    model.fit(np.arange(34)[:, None], np.where(known, y, -1))
    found = G.label_propagation(graph, weft.from_numpy(y), weft.from_numpy(known), alpha=0.8, num_layers=None)
    share = found.numpy() / found.numpy().sum(1, keepdims=True)
    np.testing.assert_allclose(share, model.label_distributions_, atol=1e-8)
    stepwise = G.label_propagation(graph, weft.from_numpy(y), weft.from_numpy(known), alpha=0.8, num_layers=300)
    np.testing.assert_allclose(stepwise, found, atol=1e-12)


def test_harmonic_labels_are_where_walks_end():
    graph = exact(of_networkx(UNDIRECTED["karate weighted"]()))
    y, known = weft.zeros(34, dtype=weft.int64), weft.zeros(34, dtype=weft.bool)
    y[33], known[0], known[33] = 1, True, True
    found = G.harmonic_labels(graph, y, known).numpy()
    A = G.adjacency(graph).to_dense().numpy()
    P = A / A.sum(1, keepdims=True)
    P[[0, 33]] = np.eye(34)[[0, 33]]
    end = np.linalg.matrix_power(P, 2**12)
    np.testing.assert_allclose(found, end[:, [0, 33]], atol=1e-9)


def test_labels_of_nodes_that_nothing_reaches():
    graph = G.Graph(edge_index=weft.tensor([[0, 1, 2, 3], [1, 0, 3, 2]]), num_nodes=5)
    y, known = weft.tensor([2, 0, 0, 0, 0]), weft.tensor([True, False, False, False, False])
    found = G.harmonic_labels(graph, y, known)
    np.testing.assert_allclose(found, [[0, 0, 1], [0, 0, 1], *[[1 / 3] * 3] * 3])
    assert G.label_propagation(graph, y, known)[2:].abs().sum().item() == 0


@pytest.mark.parametrize(
    ("y", "mask", "error", "message"),
    [
        (None, None, OptionError, "y and mask, or"),
        (weft.tensor([0, 1]), weft.tensor([True, True]), ShapeError, "for 3 nodes"),
        (weft.tensor([0, 1, 0]), weft.zeros(3, dtype=weft.bool), OptionError, "at least one known"),
        (weft.tensor([0, -1, 0]), weft.ones(3, dtype=weft.bool), OptionError, r"classes of 0\.\.0"),
        (weft.tensor([0.0, 1.0, 0.0]), weft.ones(3, dtype=weft.bool), ShapeError, "float32"),
    ],
)
def test_labels_that_cannot_spread(y, mask, error, message):
    for spread in (G.label_propagation, G.harmonic_labels):
        with pytest.raises(error, match=message):
            spread(G.path(3), y, mask)
    with pytest.raises(OptionError, match="alpha"):
        G.label_propagation(G.path(3), weft.tensor([0, 1, 0]), weft.ones(3, dtype=weft.bool), alpha=1.0)


# ------------------------------------------------------------------------------------------ walks
def seeded(seed: int = 0) -> weft.Generator:
    return weft.Generator().manual_seed(seed)


@pytest.mark.parametrize("p, q", [(1.0, 1.0), (0.25, 4.0)])
@pytest.mark.parametrize("name", ALL)
def test_walks_follow_edges_and_stay_where_none_leads_on(name, p, q):
    graph, witness = both(name)
    walks = G.random_walk(graph, weft.arange(graph.num_nodes), 12, p, q, generator=seeded())
    assert walks.shape == (graph.num_nodes, 13) and walks[:, 0].tolist() == list(range(graph.num_nodes))
    names = list(witness)
    for walk in walks.tolist():
        for a, b in itertools.pairwise(walk):
            assert witness.has_edge(names[a], names[b]) or (a == b and not list(witness.neighbors(names[a])))
    assert walks.tolist() == G.random_walk(graph, weft.arange(graph.num_nodes), 12, p, q, generator=seeded()).tolist()


def test_steps_are_in_proportion_to_weights():
    graph = G.from_edge_list([(0, 1, 1.0), (0, 2, 2.0), (0, 3, 5.0), (1, 2, 1.0), (3, 3, 0.0)])
    ends = G.random_walk(graph, weft.zeros(8000, dtype=weft.int64), 1, generator=seeded())[:, 1].numpy()
    counts = np.bincount(ends, minlength=4)[1:]
    assert scipy.stats.chisquare(counts, 1000 * np.array([1, 2, 5])).pvalue > 1e-3
    assert G.random_walk(graph, weft.tensor([3]), 2).tolist() == [[3, 3, 3]]


@pytest.mark.parametrize("rounds", [32, 0])
def test_node2vec_steps_have_the_probabilities_of_the_paper(monkeypatch, rounds):
    """From t = 0 at v = 1: back 1/p, to a neighbour of t 1, away 1/q; also where no draw is tried."""
    monkeypatch.setattr("weft.graphs.walks.ROUNDS", rounds)
    graph = G.from_edge_list([(0, 1), (0, 2), (1, 2), (1, 3), (1, 4)], undirected=True)
    p, q = 0.5, 2.0
    walks = G.random_walk(
        graph, weft.zeros(30_000 if rounds else 6000, dtype=weft.int64), 2, p, q, generator=seeded()
    ).numpy()
    ends = walks[walks[:, 1] == 1, 2]
    weights = np.array([1 / p, 1.0, 1 / q, 1 / q])
    counts = np.array([(ends == node).sum() for node in (0, 2, 3, 4)])
    assert scipy.stats.chisquare(counts, counts.sum() * weights / weights.sum()).pvalue > 1e-3


def test_walks_out_of_dead_ends_go_back_however_large_p_is():
    assert G.random_walk(G.path(2), weft.tensor([0]), 5, p=1e12).tolist() == [[0, 1, 0, 1, 0, 1]]


def test_walks_that_cannot_be():
    with pytest.raises(OptionError, match="p and q above 0"):
        G.RandomWalk(G.path(3), p=0)
    with pytest.raises(OptionError, match="below 3"):
        G.random_walk(G.path(3), weft.tensor([3]), 2)
    with pytest.raises(OptionError, match="at least 0, got -1"):
        G.random_walk(G.path(2).replace(edge_weight=-weft.ones(2)), weft.tensor([0]), 1)
    with pytest.raises(OptionError, match="at least 1"):
        G.node2vec(G.path(3), 0)
    assert G.deepwalk(G.Graph(), 4).shape == (0, 4)


def test_every_pair_within_the_window_is_there_once():
    from weft.graphs.walk_embeddings import pairs_of
    from weft.models.text.word2vec import skipgram_pairs

    walk = np.array([[3, 1, 4, 1, 5, 9]])
    found = sorted(zip(*(part.tolist() for part in pairs_of(walk, 2, seeded())), strict=True))
    assert found == sorted(zip(*(part.tolist() for part in skipgram_pairs(walk[0], 2)), strict=True))


@pytest.mark.parametrize(
    "method", [G.deepwalk, lambda *a, **k: G.node2vec(*a, q=0.5, **k)], ids=["deepwalk", "node2vec"]
)
def test_vectors_of_walks_tell_communities(method):
    """Ten labelled nodes of each of four communities are enough for a linear classifier to know the rest."""
    weft.manual_seed(0)
    graph = G.stochastic_block_model([40] * 4, np.full((4, 4), 0.02) + 0.28 * np.eye(4), seed=0)
    vectors = method(
        graph, 16, walks_per_node=6, walk_length=20, context_size=5, batch_size=1024, generator=seeded()
    ).numpy()
    known = np.arange(160) % 40 < 10
    y = graph.y.numpy()
    score = LogisticRegression(max_iter=500).fit(vectors[known], y[known]).score(vectors[~known], y[~known])
    assert score > 0.9
