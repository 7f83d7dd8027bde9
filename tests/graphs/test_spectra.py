"""Matrices, spectra and cuts: the theorems of N2 §7, and NetworkX, SciPy and scikit-learn beside them."""

from __future__ import annotations

import itertools

import networkx as nx
import numpy as np
import pytest
import scipy.linalg
import sklearn.cluster
import sklearn.manifold
from sklearn.metrics import adjusted_rand_score

import weft
from weft import graphs as G
from weft.errors import OptionError, ShapeError

from .conftest import DIRECTED, UNDIRECTED, exact, of_networkx


def pair(name: str, table=UNDIRECTED):
    witness = table[name]()
    return of_networkx(witness), witness


# ------------------------------------------------------------------------------------------ matrices
@pytest.mark.parametrize("name", UNDIRECTED)
def test_matrices_as_networkx(name):
    graph, witness = pair(name)
    graph = exact(graph)
    close = lambda a, b: np.testing.assert_allclose(a.to_dense(), b.toarray(), atol=1e-12)
    close(G.adjacency(graph), nx.adjacency_matrix(witness).astype(float))
    close(G.laplacian(graph), nx.laplacian_matrix(witness).astype(float))
    np.testing.assert_allclose(G.degree(graph), nx.adjacency_matrix(witness).sum(1))
    if len(witness) > 1 and nx.number_of_selfloops(witness) == 0:
        close(G.laplacian(graph, "sym"), nx.normalized_laplacian_matrix(witness))
    d = np.asarray(nx.adjacency_matrix(witness).sum(1), float)
    inverse = np.divide(1, d, out=np.zeros_like(d), where=d > 0)
    np.testing.assert_allclose(
        G.laplacian(graph, "rw").to_dense(), inverse[:, None] * nx.laplacian_matrix(witness).toarray(), atol=1e-12
    )


@pytest.mark.parametrize("name", DIRECTED)
def test_directed_matrices_as_networkx(name):
    graph, witness = pair(name, DIRECTED)
    np.testing.assert_allclose(G.adjacency(graph).to_dense(), nx.adjacency_matrix(witness).toarray())
    plain = graph.replace(edge_weight=None)
    expected = nx.incidence_matrix(witness, oriented=True, weight=None).toarray()
    np.testing.assert_array_equal(G.incidence(plain).to_dense(), expected)


@pytest.mark.parametrize("name", [n for n in UNDIRECTED if n not in ("one node", "no edges")])
def test_incidence_as_networkx_and_its_square_is_the_laplacian(name):
    graph, witness = pair(name)
    plain = graph.replace(edge_weight=None)
    for oriented in (True, False):
        expected = nx.incidence_matrix(
            witness, oriented=oriented, edgelist=sorted(map(sorted, witness.edges)), weight=None
        )
        order = np.lexsort(
            plain.edge_index.numpy()[:, plain.edge_index.numpy()[0] <= plain.edge_index.numpy()[1]][::-1]
        )
        np.testing.assert_array_equal(G.incidence(plain, oriented).to_dense().numpy()[:, order], expected.toarray())
    P = G.incidence(graph).to_dense().numpy()
    np.testing.assert_allclose(P @ P.T, G.laplacian(graph).to_dense(), atol=1e-12)
    loops = np.diag(np.diag(G.adjacency(graph).to_dense().numpy()))
    P = G.incidence(graph, oriented=False).to_dense().numpy()
    A = G.adjacency(graph).to_dense().numpy() - loops
    np.testing.assert_allclose(P @ P.T, np.diag(A.sum(1)) + A, atol=1e-12)


def test_the_example_of_the_notes():
    path = G.path(3)
    assert G.laplacian(path).to_dense().tolist() == [[1, -1, 0], [-1, 2, -1], [0, -1, 1]]
    root = -1 / np.sqrt(2)
    np.testing.assert_allclose(G.laplacian(path, "sym").to_dense(), [[1, root, 0], [root, 1, root], [0, root, 1]], 1e-6)
    np.testing.assert_allclose(G.laplacian(path, "rw").to_dense(), [[1, -1, 0], [-0.5, 1, -0.5], [0, -1, 1]])
    values, vectors = G.spectrum(path)
    np.testing.assert_allclose(values, [0, 1, 3], atol=1e-12)
    q = np.array([[1, 1, 1], [-1, 0, 1], [1, -2, 1]]) / np.sqrt([[3], [2], [6]])
    for k in range(3):
        assert G.subspace_distance(vectors[:, k : k + 1], weft.from_numpy(q[k][:, None])) < 1e-12
    for f, expected in (([1, 1, 1], 0), ([-1, 0, 1], 2), ([1, -2, 1], 18)):
        assert G.quadratic_form(path, weft.tensor(f, dtype=weft.float64)).item() == expected


def test_repeated_edges_add_up_and_weights_get_gradients():
    weight = weft.tensor([1.0, 2.0, 3.0], dtype=weft.float64, requires_grad=True)
    graph = G.Graph(edge_index=weft.tensor([[0, 0, 1], [1, 1, 2]]), edge_weight=weight)
    assert G.adjacency(graph).to_dense().tolist() == [[0, 3, 0], [0, 0, 3], [0, 0, 0]]

    def entries(w):
        made = graph.replace(edge_weight=w)
        return [G.laplacian(made, kind).to_dense() for kind in (None, "sym", "rw")] + [G.incidence(made).to_dense()]

    assert weft.autograd.gradcheck(lambda w: sum((m * m * (k + 1)).sum() for k, m in enumerate(entries(w))), (weight,))
    with pytest.raises(OptionError, match="None, 'sym' or 'rw', got 'left'"):
        G.laplacian(graph, "left")


# ------------------------------------------------------------------------------------------ spectra
@pytest.mark.parametrize("normalization", [None, "sym", "rw"])
@pytest.mark.parametrize("name", UNDIRECTED)
def test_theorems_of_the_spectrum(name, normalization):
    """0 = λ₁ ≤ … (≤ 2 if normalised), components = multiplicity of 0, trace = Σ λ, eigenvalues as SciPy's."""
    graph, witness = pair(name)
    values, vectors = (part.numpy() for part in G.spectrum(graph, normalization=normalization))
    L = G.laplacian(exact(graph), normalization).to_dense().numpy().astype(float)
    assert values[0] < 1e-9 and (np.diff(values) >= 0).all() and (normalization is None or values[-1] < 2 + 1e-9)
    components, label = G.connected_components(graph)
    assert (values < 1e-9).sum() == components == nx.number_connected_components(witness)
    assert {frozenset(np.flatnonzero(label.numpy() == k).tolist()) for k in range(components)} == {
        frozenset(list(witness).index(node) for node in part) for part in nx.connected_components(witness)
    }
    np.testing.assert_allclose(values.sum(), np.trace(L), atol=1e-9)
    np.testing.assert_allclose(values, np.sort(scipy.linalg.eigvals(L).real), atol=1e-7)
    np.testing.assert_allclose(L @ vectors, vectors * values, atol=1e-9)
    indicators = np.eye(components)[label.numpy()]
    if normalization == "sym":
        indicators = indicators * np.sqrt(np.maximum(G.degree(graph).numpy(), (G.degree(graph).numpy() == 0)))[:, None]
    kernel = weft.from_numpy(np.ascontiguousarray(vectors[:, :components]))
    assert G.subspace_distance(kernel, weft.from_numpy(indicators)) < 1e-7
    metric = np.diag(np.where(G.degree(graph).numpy() > 0, G.degree(graph).numpy(), 1)) if normalization == "rw" else 1
    gram = vectors.T @ metric @ vectors if normalization == "rw" else vectors.T @ vectors
    np.testing.assert_allclose(gram, np.eye(len(values)), atol=1e-9)


@pytest.mark.parametrize("normalization", [None, "sym", "rw"])
@pytest.mark.parametrize("k", [1, 3, 7])
def test_few_eigenvectors_of_a_large_graph_span_the_same_spaces(monkeypatch, normalization, k):
    """Lanczos with several components, repeated eigenvalues among the rest; the dense way is SciPy's."""
    from weft.graphs import spectra

    witness = nx.disjoint_union_all(
        [nx.cycle_graph(40), nx.cycle_graph(40), nx.gnp_random_graph(100, 0.1, seed=0), nx.empty_graph(1)]
    )
    graph = of_networkx(witness)
    whole = G.spectrum(graph, normalization=normalization)
    monkeypatch.setattr(spectra, "DENSE", 10)
    monkeypatch.setattr(np.linalg, "eigh", lambda *_: pytest.fail("dense"))
    values, vectors = G.spectrum(graph, k, normalization)
    np.testing.assert_allclose(values, whole.eigenvalues[:k], atol=1e-8)
    exact = whole.eigenvalues.numpy()
    while exact[k] - exact[k - 1] < 1e-6:  # whole spaces only
        k += 1
    values, vectors = G.spectrum(graph, k, normalization)
    assert G.subspace_distance(vectors, whole.eigenvectors[:, :k]) < 1e-6


def test_where_lanczos_does_not_converge_the_matrix_is_factored(monkeypatch):
    from weft.graphs import spectra

    monkeypatch.setattr(spectra, "RESTARTS", 1)
    values, vectors = G.spectrum(G.path(1500), 4)
    np.testing.assert_allclose(values, 2 - 2 * np.cos(np.pi * np.arange(4) / 1500), atol=1e-12)
    assert (
        G.subspace_distance(vectors[:, 1:2], weft.from_numpy(np.cos(np.pi / 1500 * (np.arange(1500) + 0.5))[:, None]))
        < 1e-5
    )


@pytest.mark.parametrize(
    ("graph", "expected"),
    [
        (G.ring(9), lambda k: 2 - 2 * np.cos(2 * np.pi * k / 9)),
        (G.path(9), lambda k: 2 - 2 * np.cos(np.pi * k / 9)),
        (G.complete(9), lambda k: np.where(k == 0, 0, 9)),
    ],
    ids=["ring", "path", "complete"],
)
def test_spectra_that_are_known(graph, expected):
    np.testing.assert_allclose(G.spectrum(graph).eigenvalues, np.sort(expected(np.arange(9))), atol=1e-12)


def test_spectra_need_undirected_graphs():
    with pytest.raises(OptionError, match="to_undirected"):
        G.spectrum(G.ring(4, directed=True))
    with pytest.raises(OptionError, match="at least 0, got -1"):
        G.spectrum(G.path(2).replace(edge_weight=weft.tensor([-1.0, -1.0])))
    with pytest.raises(OptionError, match=r"k of 0\.\.3, got 4"):
        G.spectrum(G.path(3), 4)
    with pytest.raises(OptionError, match="at least 2 nodes"):
        G.fiedler_vector(G.path(1))
    with pytest.raises(ShapeError, match="one shape"):
        G.subspace_distance(weft.ones(2, 1), weft.ones(3, 1))


@pytest.mark.parametrize(("weighted", "value", "misplaced"), [(False, 0.468525, [2, 8]), (True, 1.187107, [8])])
def test_karate_falls_apart_along_the_fiedler_vector(real, weighted, value, misplaced):
    """λ₂ and the members (counted from 0) on the wrong side, which of the two sides is whose not being known."""
    graph = weft.data.karate_club(real, weighted=weighted)
    found, vector = G.fiedler_vector(graph)
    assert round(found, 6) == value
    wrong = (vector.numpy() > 0) != (graph.y.numpy() == 1)
    wrong = ~wrong if wrong.sum() > 17 else wrong
    assert np.flatnonzero(wrong).tolist() == misplaced
    witness = nx.algebraic_connectivity(nx.karate_club_graph(), weight="weight" if weighted else None, method="lanczos")
    assert found == pytest.approx(witness, abs=1e-7)


# ------------------------------------------------------------------------------------------ embeddings, clusters
@pytest.mark.parametrize("name", ["karate", "random weighted", "grid"])
def test_spectral_embedding_as_scikit_learn(name):
    graph, witness = pair(name)
    expected = sklearn.manifold.spectral_embedding(
        nx.adjacency_matrix(witness).toarray(), n_components=3, drop_first=True, random_state=0
    )
    found = G.spectral_embedding(graph, 3)
    values = G.spectrum(graph, normalization="sym").eigenvalues.numpy()
    assert values[4] - values[3] > 1e-3  # the three are a space of their own
    assert G.subspace_distance(found, weft.from_numpy(expected)) < 1e-6


@pytest.mark.parametrize("name", ["karate", "karate weighted", "random weighted", "grid", "star"])
@pytest.mark.parametrize("clusters", [2, 3])
def test_cuts_as_networkx(name, clusters):
    graph, witness = pair(name)
    labels = np.random.default_rng(0).integers(0, clusters, len(witness))
    labels[:clusters] = np.arange(clusters)
    parts = [set(np.flatnonzero(labels == k).tolist()) for k in range(clusters)]
    given = weft.from_numpy(labels)
    cuts = [nx.cut_size(witness, part, weight="weight") for part in parts]
    volumes = [nx.volume(witness, part, weight="weight") for part in parts]
    assert G.cut_size(graph, given) == pytest.approx(sum(cuts) / 2)
    assert G.ratio_cut(graph, given) == pytest.approx(sum(c / len(p) for c, p in zip(cuts, parts, strict=True)))
    assert G.normalized_cut(graph, given) == pytest.approx(sum(c / v for c, v in zip(cuts, volumes, strict=True)))
    assert G.modularity(graph, given, 1.3) == pytest.approx(nx.community.modularity(witness, parts, resolution=1.3))
    if clusters == 2:
        assert G.normalized_cut(graph, given) == pytest.approx(nx.normalized_cut_size(witness, *parts, weight="weight"))
        assert G.conductance(graph, given) == pytest.approx(nx.conductance(witness, *parts, weight="weight"))


def test_cuts_that_cannot_be():
    with pytest.raises(ShapeError, match="a cluster for each of 3"):
        G.cut_size(G.path(3), weft.tensor([0, 1]))
    lonely = G.Graph(edge_index=weft.tensor([[0, 1], [1, 0]]), num_nodes=3)
    with pytest.raises(OptionError, match="whose nodes have none"):
        G.normalized_cut(lonely, weft.tensor([0, 0, 1]))
    with pytest.raises(OptionError, match="two clusters"):
        G.conductance(lonely, weft.tensor([0, 0, 0]))
    with pytest.raises(OptionError, match="with edges, got none"):
        G.modularity(G.Graph(num_nodes=2), weft.tensor([0, 1]))
    with pytest.raises(OptionError, match=r"1\.\.3 clusters"):
        G.spectral_clustering(G.path(3), 4)
    with pytest.raises(OptionError, match="at least two eigenvalues"):
        G.eigengap(weft.tensor([0.0]))


@pytest.mark.parametrize("normalization", [None, "rw", "sym"])
def test_planted_communities_are_found(normalization):
    graph = G.stochastic_block_model([40, 40, 40], np.full((3, 3), 0.02) + 0.38 * np.eye(3), seed=3)
    assert G.eigengap(G.spectrum(graph, 12, normalization).eigenvalues) == 3
    labels = G.spectral_clustering(graph, normalization=normalization, generator=weft.Generator().manual_seed(0))
    assert adjusted_rand_score(graph.y.tolist(), labels.tolist()) > 0.97
    for measure in (G.ratio_cut, G.normalized_cut):
        others = weft.from_numpy(np.roll(graph.y.numpy(), 10))
        assert measure(graph, labels) < measure(graph, others)


def test_relaxed_cuts_bound_the_best_ones():
    """Σ of the k smallest eigenvalues ≤ the smallest cut; for two halves of a path it is near."""
    graph, _ = pair("grid")
    values, rw = (G.spectrum(graph, 2, kind).eigenvalues.numpy().sum() for kind in (None, "rw"))
    for seed in range(20):
        labels = weft.from_numpy(np.random.default_rng(seed).integers(0, 2, 20))
        assert G.ratio_cut(graph, labels) >= values - 1e-12 and G.normalized_cut(graph, labels) >= rw - 1e-12


def test_spectral_clustering_of_digits_as_scikit_learn():
    images, labels = weft.data.load_digits()
    x = weft.from_numpy(images.reshape(len(labels), -1).astype(np.float64))
    graph = G.knn_graph(x, 10, mutual=False)
    affinity = G.adjacency(graph).scipy().tocsr()
    expected = sklearn.cluster.SpectralClustering(10, affinity="precomputed", random_state=0, n_init=10).fit_predict(
        affinity
    )
    found = G.spectral_clustering(graph, 10, generator=weft.Generator().manual_seed(0))
    truth = labels.tolist()
    ours, theirs = adjusted_rand_score(truth, found.tolist()), adjusted_rand_score(truth, expected)
    assert abs(ours - theirs) <= 0.01 and adjusted_rand_score(expected, found.tolist()) >= 0.99
    assert ours > 0.7


@pytest.mark.parametrize("graph", [G.ring(9), G.grid(4, 4), G.complete(6)], ids=["ring", "grid", "complete"])
def test_eigenvectors_are_compared_by_the_spaces_they_span(graph):
    """Nodes in another order give the same spaces, though eigenvalues are repeated and vectors have turned or flipped."""
    order = weft.from_numpy(np.random.default_rng(0).permutation(graph.num_nodes))
    one, other = G.spectrum(graph), G.spectrum(G.permuted(graph, order))
    np.testing.assert_allclose(one.eigenvalues, other.eigenvalues, atol=1e-12)
    back = other.eigenvectors.numpy()[np.argsort(order.numpy())]
    values = one.eigenvalues.numpy()
    ends = [0, *(np.flatnonzero(np.diff(values) > 1e-9) + 1), len(values)]
    for first, last in itertools.pairwise(ends):
        space = weft.from_numpy(np.ascontiguousarray(back[:, first:last]))
        assert G.subspace_distance(one.eigenvectors[:, first:last], space) < 1e-9
        assert G.subspace_distance(space, -space) < 1e-12
    assert not np.allclose(back, one.eigenvectors.numpy())  # entry by entry they differ
