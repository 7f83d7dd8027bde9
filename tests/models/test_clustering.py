"""k-means against scikit-learn and against what cannot be otherwise."""

from __future__ import annotations

import numpy as np
import pytest
import sklearn.cluster

import weft
from weft.data import load_digits
from weft.errors import OptionError, ShapeError
from weft.models.classical import kmeans, kmeans_plus_plus, lloyd_step, minibatch_kmeans, nearest


@pytest.fixture(scope="module")
def digits():
    return weft.tensor(load_digits()[0].reshape(-1, 64).astype(np.float64))


def seeded(seed=0):
    return weft.Generator().manual_seed(seed)


def test_nearest_is_a_search():
    rng = np.random.default_rng(0)
    x, centres = rng.standard_normal((30, 4)), rng.standard_normal((5, 4))
    distances = ((x[:, None] - centres) ** 2).sum(2)
    labels, distance = nearest(weft.tensor(x), weft.tensor(centres))
    np.testing.assert_array_equal(labels, distances.argmin(1))
    np.testing.assert_allclose(distance, distances.min(1), atol=1e-12)


def test_a_run_from_given_centres_is_scikit_learns(digits):
    start = digits[:10]
    theirs = sklearn.cluster.KMeans(10, init=start.numpy(), n_init=1, tol=0, max_iter=7, algorithm="lloyd").fit(digits)
    centres = start
    for _ in range(7):
        centres, _, _ = lloyd_step(digits, centres)
    np.testing.assert_allclose(centres, theirs.cluster_centers_, atol=1e-9)


def test_it_is_as_good_as_scikit_learns(digits):
    ours = kmeans(digits, 10, restarts=8, generator=seeded())
    theirs = sklearn.cluster.KMeans(10, n_init=8, random_state=0).fit(digits)
    assert ours.inertia == pytest.approx(theirs.inertia_, rel=0.005)
    np.testing.assert_allclose(ours.inertia, ((digits - ours.centres[ours.labels]) ** 2).sum().item(), rtol=1e-9)
    again = kmeans(digits, 10, restarts=8, generator=seeded())
    assert weft.equal(ours.labels, again.labels)


def test_small_batches_come_close(digits):
    whole = kmeans(digits, 10, restarts=3, generator=seeded())
    assert minibatch_kmeans(digits, 10, batch_size=256, steps=200, generator=seeded()).inertia < 1.06 * whole.inertia


def test_careful_beginnings_are_better_than_chance(digits):
    careful = [nearest(digits, kmeans_plus_plus(digits, 10, seeded(s)))[1].sum().item() for s in range(5)]
    chance = [nearest(digits, digits[weft.randperm(1797, generator=seeded(s))[:10]])[1].sum().item() for s in range(5)]
    assert np.mean(careful) < np.mean(chance)


def test_each_chance_is_a_squared_distance():
    """From 0, the point at 3 is drawn nine times in ten, that at 1 once. Of two candidates the better is taken: the nearer
    point only where both draws are of it, once in a hundred."""
    x = weft.tensor([[0.0], [0.0], [0.0], [1.0], [3.0]])
    picked = [kmeans_plus_plus(x, 2, seeded(s))[:, 0].tolist() for s in range(400)]
    from_zero = [second for first, second in picked if first == 0]
    assert np.mean([second == 3 for second in from_zero]) == pytest.approx(0.99, abs=0.02)


def test_a_centre_without_rows_finds_one():
    x = weft.tensor([[0.0], [1.2], [10.0]])
    centres, _, _ = lloyd_step(x, weft.tensor([[0.5], [100.0], [200.0]]))
    assert sorted(centres[:, 0].tolist()) == [pytest.approx(1.2), pytest.approx(11.2 / 3), 10.0]
    assert kmeans(x, 3).inertia == 0.0


def test_equal_rows_are_no_obstacle():
    found = kmeans(weft.ones(6, 2), 3, restarts=2)
    assert found.inertia == 0.0 and found.centres.isfinite().all()


def test_what_it_refuses():
    with pytest.raises(OptionError, match="between 1 and 3"):
        kmeans(weft.zeros(3, 2), 4)
    with pytest.raises(ShapeError, match="floating rows"):
        kmeans(weft.zeros(3, dtype=weft.int64), 2)
    with pytest.raises(OptionError, match="restart"):
        kmeans(weft.zeros(3, 2), 2, restarts=0)
