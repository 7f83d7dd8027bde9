"""t-SNE: perplexity, gradient against autograd and differences, Barnes–Hut against all pairs, scikit-learn's quality."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from scipy.optimize import approx_fprime
from scipy.sparse import csr_matrix
from sklearn import manifold

import weft
from weft.data import load_digits
from weft.errors import OptionError, ShapeError
from weft.inspect import (
    barnes_hut_gradient,
    exact_gradient,
    joint_probabilities,
    kl_divergence,
    neighbour_probabilities,
    perplexity_search,
    trustworthiness,
    tsne,
)
from weft.inspect.quadtree import repulsion, tree

DIGITS, LABELS = load_digits()
DIGITS = DIGITS.reshape(-1, 64) / 16.0


# ------------------------------------------------------------------------------- similarities


@pytest.mark.parametrize("perplexity", [1.5, 5.0, 30.0, 99.0])
def test_every_row_has_the_perplexity_asked_for(perplexity):
    x = DIGITS[:100]
    squares = ((x[:, None] - x[None]) ** 2).sum(-1)[~np.eye(100, dtype=bool)].reshape(100, 99)
    beta, p = perplexity_search(squares, perplexity)
    entropy = -(p * np.log(np.maximum(p, 1e-300))).sum(1)
    np.testing.assert_allclose(np.exp(entropy), perplexity, rtol=1e-6)
    kernel = np.exp(-beta[:, None] * squares)
    np.testing.assert_allclose(p, kernel / kernel.sum(1, keepdims=True), atol=1e-12)


def test_sparse_areas_have_wide_kernels():
    """N2 §4.2: small variance where points are dense."""
    dense, sparse = np.random.default_rng(0).normal(size=(2, 40, 3))
    x = np.concatenate([dense, sparse * 20 + 500])
    squares = ((x[:, None] - x[None]) ** 2).sum(-1)[~np.eye(80, dtype=bool)].reshape(80, 79)
    beta, _ = perplexity_search(squares, 10)
    assert np.median(beta[:40]) > 100 * np.median(beta[40:])


def test_joint_probabilities_are_scikit_learns():
    x = DIGITS[:120]
    p = joint_probabilities(x, 20.0)
    squares = ((x[:, None] - x[None]) ** 2).sum(-1).astype(np.float32)
    expected = manifold._t_sne._joint_probabilities(squares, 20.0, 0)
    upper = p[np.triu_indices(120, 1)]
    np.testing.assert_allclose(upper, expected, rtol=2e-3, atol=1e-9)
    assert p.sum() == pytest.approx(1) and (p == p.T).all() and not p.diagonal().any()


def test_probabilities_of_all_neighbours_are_the_joint_ones():
    """Three times the perplexity covers everybody."""
    x = DIGITS[:40]
    np.testing.assert_allclose(neighbour_probabilities(x, 13.0).toarray(), joint_probabilities(x, 13.0), atol=1e-12)
    few = neighbour_probabilities(DIGITS[:200], 10.0)
    assert few.sum() == pytest.approx(1) and abs(few - few.T).max() == 0 and few.nnz < 200 * 62


# ------------------------------------------------------------------------------- gradient


@pytest.mark.parametrize("n, d, spread", [(3, 2, 1.0), (30, 2, 1.0), (30, 3, 5.0), (25, 1, 0.1), (40, 2, 1e-4)])
def test_gradient_is_that_of_autograd_and_of_differences(n, d, spread):
    rng = np.random.default_rng(n)
    p, y = joint_probabilities(rng.normal(size=(n, 5)), min(5.0, n - 1.5)), rng.normal(size=(n, d)) * spread
    g, kl = exact_gradient(p, y)
    t = weft.tensor(y, requires_grad=True)
    divergence = kl_divergence(weft.tensor(p), t)
    divergence.backward()
    assert kl == pytest.approx(float(divergence), rel=1e-10)
    np.testing.assert_allclose(g, t.grad.array, atol=1e-13)
    differences = approx_fprime(y.ravel(), lambda v: exact_gradient(p, v.reshape(n, d))[1], 1e-7)
    np.testing.assert_allclose(g.ravel(), differences, atol=2e-6)


@pytest.mark.parametrize("d", [1, 2, 3])
@pytest.mark.parametrize("n", [3, 60, 300])
def test_barnes_hut_without_approximation_is_exact(n, d):
    rng = np.random.default_rng(n + d)
    p, y = joint_probabilities(rng.normal(size=(n, 5)), min(10.0, n - 1.5)), rng.normal(size=(n, d)) * 3
    g, kl = exact_gradient(p, y)
    found, divergence = barnes_hut_gradient(csr_matrix(p), y, theta=0.0)
    np.testing.assert_allclose(found, g, atol=1e-14)
    assert divergence == pytest.approx(kl, rel=1e-12)


@pytest.mark.parametrize("theta, error", [(0.2, 0.005), (0.5, 0.05), (0.8, 0.15)])
def test_barnes_hut_is_close_to_exact(theta, error):
    y = np.random.default_rng(0).normal(size=(500, 2)) * 10
    exact, whole = repulsion(y, 0.0)
    found, total = repulsion(y, theta)
    assert np.linalg.norm(found - exact) <= error * np.linalg.norm(exact)
    assert total == pytest.approx(whole, rel=error)


POINTS = {
    "one place": np.zeros((5, 2)),
    "two places": np.repeat([[0.0, 0.0], [1.0, 2.0]], [3, 4], axis=0),
    "on a line": np.column_stack([np.arange(9.0), np.zeros(9)]),
    "far away": np.random.default_rng(0).normal(size=(20, 2)) + 1e8,
    "tiny": np.random.default_rng(1).normal(size=(20, 2)) * 1e-150,
}


@pytest.mark.parametrize("name", POINTS)
def test_repulsion_of_awkward_points(name):
    y = POINTS[name]
    away = y[:, None] - y[None]
    w = 1 / (1 + (away**2).sum(-1))
    np.fill_diagonal(w, 0)
    force, total = repulsion(y, 0.0)
    np.testing.assert_allclose(force, (w[..., None] ** 2 * away).sum(1), atol=1e-6 if name == "far away" else 1e-12)
    assert total == pytest.approx(w.sum(), rel=1e-6)


def test_tree_cells_are_ranges_that_hold_their_points():
    y = np.random.default_rng(0).normal(size=(200, 2))
    order, levels = tree(y)
    assert sorted(order.tolist()) == list(range(200))
    for above, level in itertools.pairwise(levels):
        assert (level.stop - level.start).sum() == 200 and level.side == above.side / 2
        for c in range(len(level.start)):
            cell = y[order][level.start[c] : level.stop[c]]
            assert (np.ptp(cell, axis=0) <= level.side * (1 + 1e-6)).all()
            np.testing.assert_allclose(level.centre[c], cell.mean(0), atol=1e-9)
        for c in range(len(above.start)):
            parts = slice(above.first[c], above.first[c + 1])
            assert level.start[parts][0] == above.start[c] and level.stop[parts][-1] == above.stop[c]


# ------------------------------------------------------------------------------- embeddings


@pytest.mark.parametrize("neighbours", [1, 5, 20])
def test_trustworthiness_is_scikit_learns(neighbours):
    x, y = DIGITS[:150], np.random.default_rng(0).normal(size=(150, 2))
    y[:, 0] += x[:, 20] * 3
    expected = manifold.trustworthiness(x, y, n_neighbors=neighbours)
    assert trustworthiness(x, y, neighbours) == pytest.approx(expected, abs=1e-3)  # ties between pixels
    z = np.random.default_rng(1).normal(size=(150, 6))
    assert trustworthiness(z, z[:, :2], neighbours) == pytest.approx(
        manifold.trustworthiness(z, z[:, :2], n_neighbors=neighbours), abs=1e-12
    )
    assert trustworthiness(z, z, neighbours) == 1


def test_digits_are_embedded_as_well_as_by_scikit_learn():
    x = DIGITS[:250]
    theirs = manifold.TSNE(perplexity=20, method="exact", max_iter=400, init="pca", random_state=0).fit(x)
    ours = tsne(x, perplexity=20, method="exact", iterations=400)
    assert trustworthiness(x, ours.points) >= trustworthiness(x, theirs.embedding_) - 0.02
    assert ours.kl <= theirs.kl_divergence_ + 0.05
    assert [step for step, _ in ours.history] == [50, 100, 150, 200, 250, 300, 350, 400]


def test_barnes_hut_embeds_as_well_as_all_pairs():
    x = DIGITS[:200]
    exact, fast = (tsne(x, perplexity=15, method=m, iterations=300) for m in ("exact", "barnes_hut"))
    assert trustworthiness(x, fast.points) >= trustworthiness(x, exact.points) - 0.02


@pytest.mark.parametrize("seed", range(4))
def test_clusters_stay_apart(seed):
    """From every draw: a descent that is only just stable keeps them apart or not as the last bits fall."""
    centres = np.random.default_rng(seed).normal(size=(4, 10)) * 20
    x = np.repeat(centres, 15, axis=0) + np.random.default_rng(seed + 1).normal(size=(60, 10))
    found = tsne(x, perplexity=8, method="exact", iterations=300)
    y = found.points
    assert found.kl < 0.25
    nearest = ((y[:, None] - y[None]) ** 2).sum(-1) + np.diag([np.inf] * 60)
    assert (nearest.argmin(1) // 15 == np.arange(60) // 15).all()


def test_same_seed_same_picture():
    run = lambda seed: (
        tsne(
            DIGITS[:30], perplexity=5, iterations=20, init="random", generator=weft.Generator().manual_seed(seed)
        ).points
    )
    np.testing.assert_array_equal(run(3), run(3))
    assert np.abs(run(3) - run(4)).max() > 0


def test_equal_rows_and_given_start():
    x = np.repeat(DIGITS[:10], 3, axis=0)
    found = tsne(x, perplexity=4, method="exact", iterations=30, init=np.random.default_rng(0).normal(size=(30, 2)))
    assert np.isfinite(found.points).all() and np.isfinite(found.kl)
    assert np.isfinite(tsne(np.ones((6, 3)), perplexity=3, iterations=10).points).all()


@pytest.mark.parametrize("x, options, error, message", [
    (np.ones((2, 3)), {}, ShapeError, "at least 3 rows"),
    (np.ones((20, 3)), {}, OptionError, "perplexity must lie between 1 and 19"),
    (np.ones((20, 3)), {"perplexity": 0.5}, OptionError, "between 1"),
    (np.full((20, 3), np.nan), {"perplexity": 5}, OptionError, "finite"),
    (np.ones((20, 3)), {"perplexity": 5, "method": "quick"}, OptionError, "'exact' or 'barnes_hut'"),
    (np.ones((20, 3)), {"perplexity": 5, "dimensions": 4}, OptionError, "1 … 3"),
    (np.ones((20, 3)), {"perplexity": 5, "init": "zeros"}, OptionError, "init must be"),
    (np.ones((20, 3)), {"perplexity": 5, "init": np.ones((20, 3))}, OptionError, "init has shape"),
])  # fmt: skip
def test_refused(x, options, error, message):
    with pytest.raises(error, match=message):
        tsne(x, **options)


@pytest.mark.slow
@pytest.mark.parametrize("method", ["barnes_hut", "exact"])
def test_all_digits(method):
    theirs = manifold.TSNE(random_state=0, method="barnes_hut").fit(DIGITS)
    ours = tsne(DIGITS, method=method)
    assert trustworthiness(DIGITS, ours.points) >= trustworthiness(DIGITS, theirs.embedding_) - 0.02
