"""A binary code is a clustering: its step is Lloyd's."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.cluster import KMeans

import weft
from weft.data import load_digits
from weft.errors import OptionError, ShapeError
from weft.models.autoencoders import ThresholdAutoencoder
from weft.models.classical import lloyd_step


@pytest.fixture
def x():
    rng = np.random.default_rng(0)
    return weft.tensor(np.concatenate([rng.standard_normal((60, 3)), rng.standard_normal((40, 3)) + 2]))


def started(x, units, seed=0):
    model = ThresholdAutoencoder(3, units, dtype=weft.float64)
    model.start(x, weft.Generator().manual_seed(seed))
    return model


@pytest.mark.parametrize("seed", range(3))
def test_a_step_of_one_unit_is_a_step_of_two_means(x, seed):
    model = started(x, 1, seed)
    for _ in range(4):
        begun = model.centres
        theirs = KMeans(2, init=begun.numpy(), n_init=1, max_iter=1, algorithm="lloyd").fit(x.numpy())
        lloyd, labels, _ = lloyd_step(x, begun)
        bits = model.step(x)
        np.testing.assert_array_equal(bits[:, 0].numpy(), labels.numpy())
        np.testing.assert_allclose(model.centres.numpy(), lloyd.numpy(), atol=1e-10)
        np.testing.assert_allclose(model.centres.numpy(), theirs.cluster_centers_, atol=1e-10)


def test_the_unit_is_a_threshold(x):
    model = started(x, 1)
    model.step(x)
    w, b = model.hyperplane()
    np.testing.assert_array_equal(model.encode(x)[:, 0].numpy(), (x @ w + b > 0).double().numpy())


def test_errors_never_rise_and_more_units_lose_less(x):
    ends = []
    for units in (1, 2, 3):
        model = started(x, units)
        totals = [model.squared_error(x).sum().item()]
        for _ in range(15):
            model.step(x)
            totals.append(model.squared_error(x).sum().item())
        assert (np.diff(totals) <= 1e-9).all()
        ends.append(totals[-1])
    assert ends[0] > ends[1] > ends[2]


def test_the_decoder_is_the_least_squares_of_the_codes(x):
    model = started(x, 2)
    z = model.step(x)
    known = np.column_stack([np.ones(len(x)), z.numpy()])
    expected = np.linalg.lstsq(known, x.numpy(), rcond=None)[0]
    np.testing.assert_allclose(np.vstack([model.offset.numpy()[None], model.shifts.numpy()]), expected, atol=1e-9)
    np.testing.assert_allclose(model.reconstruct(x).numpy(), model.decode(model.encode(x)).numpy())


def test_codes_of_digits_carry_over_to_others():
    """Five bits a digit: less of an unseen one is lost than by two clusters, more than by 32 free ones."""
    rows = weft.tensor(load_digits()[0].reshape(-1, 64) / 16.0)
    rows = rows[weft.randperm(len(rows), generator=weft.Generator().manual_seed(0))]
    model = ThresholdAutoencoder(64, 5, dtype=weft.float64)
    model.start(rows[:1400], weft.Generator().manual_seed(1))
    for _ in range(20):
        model.step(rows[:1400])
    found = model.squared_error(rows[1400:]).mean().item()
    free = [KMeans(k, n_init=2, random_state=0).fit(rows[:1400].numpy()) for k in (2, 32)]
    coarse, fine = (-model.score(rows[1400:].numpy()) / len(rows[1400:]) for model in free)
    assert fine < found < coarse


def test_what_it_refuses(x):
    with pytest.raises(OptionError, match="1 to 12"):
        ThresholdAutoencoder(3, 13)
    with pytest.raises(OptionError, match="single unit"):
        started(x, 2).hyperplane()
    with pytest.raises(ShapeError, match=r"\(B, 3\)"):
        started(x, 1).encode(weft.zeros(4, 2, dtype=weft.float64))
