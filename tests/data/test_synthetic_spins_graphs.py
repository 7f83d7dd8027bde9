"""Ising samples against exact enumeration and transfer matrices, graphs against binomial bounds and NetworkX."""

import itertools

import networkx as nx
import numpy as np
import pytest
from scipy import stats

import weft
from weft.data import synthetic


@pytest.fixture
def double():
    weft.set_default_dtype(weft.float64)
    yield
    weft.set_default_dtype(weft.float32)


# ---------------------------------------------------------------------------------------- Ising


def enumerate_states(shape):
    return np.array(list(itertools.product((-1.0, 1.0), repeat=int(np.prod(shape))))).reshape(-1, *shape)


def energy_by_bonds(state, coupling, field):
    """The definition: each place with its next neighbour along each axis, the last with the first."""
    total = -field * state.sum()
    for place in np.ndindex(state.shape):
        for axis, length in enumerate(state.shape):
            if length > 1:
                after = tuple((p + (a == axis)) % state.shape[a] for a, p in enumerate(place))
                total -= coupling * state[place] * state[after]
    return total


@pytest.mark.parametrize("shape", [(3, 3), (2, 4), (1, 5), (6,), (2, 2, 2)])
def test_energy_by_bonds(double, shape):
    states = enumerate_states(shape)
    expected = [energy_by_bonds(s, 0.7, 0.3) for s in states]
    np.testing.assert_allclose(
        np.asarray(synthetic.ising_energy(states, coupling=0.7, field=0.3)), expected, atol=1e-12
    )


@pytest.mark.parametrize("method", ["gibbs", "metropolis"])
@pytest.mark.parametrize(
    ("shape", "temperature", "coupling", "field"),
    [
        ((4, 4), 2.269, 1.0, 0.0),
        ((3, 3), 3.0, 1.0, 0.2),
        ((3, 4), 2.5, -1.0, 0.1),
        ((2, 2, 3), 5.0, 1.0, 0.0),
        ((1, 7), 1.5, 1.0, 0.0),
    ],
)
def test_energy_and_magnetisation_against_enumeration(method, shape, temperature, coupling, field):
    n, terms = 3000, {"coupling": coupling, "field": field}
    states = enumerate_states(shape)
    energy = np.asarray(synthetic.ising_energy(states, **terms), np.float64)
    weight = np.exp(-(energy - energy.min()) / temperature)
    weight /= weight.sum()
    spins = synthetic.ising(n, shape, temperature, sweeps=60, method=method, seed=0, **terms)
    assert spins.shape == (n, *shape) and set(np.unique(np.asarray(spins))) == {-1, 1}
    axes = tuple(range(1, len(shape) + 1))
    for exact, drawn in (
        (energy, np.asarray(synthetic.ising_energy(spins, **terms))),
        (energy**2, np.asarray(synthetic.ising_energy(spins, **terms)) ** 2),
        (states.mean(axes), np.asarray(spins).mean(axes)),
        (states.mean(axes) ** 2, np.asarray(spins).mean(axes) ** 2),
    ):
        mean = weight @ exact
        assert abs(drawn.mean() - mean) < 4.5 * np.sqrt((weight @ exact**2 - mean**2) / n)


def test_chain_correlations_by_the_transfer_matrix():
    """On a ring of L spins ⟨s₀ sᵣ⟩ = (tʳ + tᴸ⁻ʳ) / (1 + tᴸ), t = tanh(J / T)."""
    n, length, t = 4000, 12, np.tanh(1 / 1.5)
    spins = np.asarray(synthetic.ising(n, (length,), 1.5, sweeps=150, seed=0))
    for r in range(1, 6):
        expected = (t**r + t ** (length - r)) / (1 + t**length)
        products = spins * np.roll(spins, r, 1)
        assert abs(products.mean() - expected) < 4.5 * products.mean(1).std() / np.sqrt(n)


def test_a_temperature_for_each_sample():
    spins = synthetic.ising(200, 6, [0.2] * 100 + [1e9] * 100, field=5.0, sweeps=20, seed=0)
    cold, hot = np.asarray(spins[:100]), np.asarray(spins[100:])
    assert (cold == 1).all() and abs(hot.mean()) < 4.5 / 60


def test_no_sweeps_are_fair_coins():
    assert abs(np.asarray(synthetic.ising(100, 10, sweeps=0, seed=0)).mean()) < 4.5 / 100


# ---------------------------------------------------------------------------------------- graphs


def edge_counts(edges, labels, blocks):
    counts = np.zeros((blocks, blocks), int)
    np.add.at(counts, tuple(labels[edges]), 1)
    return counts


@pytest.mark.parametrize("directed", [False, True])
@pytest.mark.parametrize("selfloops", [False, True])
def test_edges_within_binomial_bounds(directed, selfloops):
    sizes, p = (60, 90, 40), np.array([[0.3, 0.05, 0.0], [0.05, 0.2, 0.1], [0.0, 0.1, 1.0]])
    made = synthetic.stochastic_block_model(sizes, p, directed=directed, selfloops=selfloops, seed=0)
    edges, labels = (np.asarray(x) for x in made)
    assert labels.tolist() == [0] * 60 + [1] * 90 + [2] * 40 and len(np.unique(edges, axis=1).T) == edges.shape[1]
    counts = edge_counts(edges, labels, 3)
    for a, b in itertools.product(range(3), repeat=2):
        pairs, mirrored = sizes[a] * sizes[b], 1 + (not directed and a == b)
        pairs -= 0 if selfloops or a != b else sizes[a]
        spread = 4.5 * np.sqrt(mirrored * pairs * p[a, b] * (1 - p[a, b]))
        assert abs(counts[a, b] - pairs * p[a, b]) <= spread


def test_undirected_graph_in_networkx():
    graph = synthetic.sbm(120, classes=3, p_in=0.4, p_out=0.02, seed=0)
    edges = np.asarray(graph.edge_index)
    directed = nx.DiGraph(edges.T.tolist())
    assert nx.number_of_selfloops(directed) == 0 and nx.overall_reciprocity(directed) == 1
    groups = [set(np.flatnonzero(np.asarray(graph.y) == k).tolist()) for k in range(3)]
    found = nx.community.louvain_communities(directed.to_undirected(), seed=0)
    assert sorted(map(sorted, found)) == sorted(map(sorted, groups))
    assert (np.lexsort(edges[::-1]) == np.arange(edges.shape[1])).all()


@pytest.mark.parametrize("p", [0.0, 1.0])
def test_no_edges_and_all_edges(p):
    edges, _ = synthetic.stochastic_block_model([3, 4], [[p, p], [p, p]], seed=0)
    assert edges.shape == (2, 42 * int(p))


def test_sparse_graph_of_many_nodes():
    """Work in proportion to the edges: 10¹⁰ pairs, about 50,000 edges."""
    edges, _ = synthetic.stochastic_block_model([100_000], [[1e-5]], seed=0)
    expected = 1e5 * (1e5 - 1) / 2 * 1e-5
    assert abs(edges.shape[1] / 2 - expected) < 4.5 * np.sqrt(expected)
    assert edges.max() < 100_000


def test_node_features_point_at_their_class():
    graph = synthetic.sbm(3000, 0.5, classes=3, p_in=0.0, p_out=0.0, seed=0)
    x, y = np.asarray(graph.x, np.float64), np.asarray(graph.y)
    assert graph.edge_index.shape == (2, 0) and graph.edge_index.dtype is weft.int64
    assert stats.kstest(((x - np.eye(3)[y]) / 0.5).ravel(), "norm").pvalue > 1e-3
