"""Networks over sequences as densities: WaveNet by enumeration, DeepAR by integration."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

import weft
from weft.errors import OptionError, ShapeError
from weft.models.autoregressive import SeriesDensity, TokenDensity
from weft.models.generative import check_autoregressive, check_normalised, grid
from weft.models.sequences import DeepAR, WaveNet

from .common import filled, seeded


def waves(length=5, **options):
    weft.manual_seed(0)
    return TokenDensity(filled(WaveNet(3, 6, 5, layers=2, **options), 0.6), length)


def sequences(length=5):
    return weft.cartesian_prod(*(weft.arange(3) for _ in range(length)))


def test_wavenet_sums_to_one_and_looks_back_only():
    model = waves()
    check_normalised(model.log_prob, sequences(), tolerance=1e-5)
    seen = check_autoregressive(lambda x: model.conditionals(x.long().clamp(0, 2)), weft.rand(4, 5).mul(3).floor())
    assert (seen > 0).sum() > 5
    assert model.promises == {"log_prob": "exact", "sample": "exact"}


def test_wavenet_draws_what_it_promises():
    model = waves(3)
    drawn = model.sample(5000, generator=seeded(2))
    step, token, state, tokens = model.network.step, weft.full((5, 1), model.first), None, []
    for noise in weft.rand(3, 5000, 1, generator=seeded(2))[:, :5]:  # the first of them, by hand
        logits, state = step(token, state)
        token = (logits.softmax(-1).cumsum(-1) <= noise).sum(-1, keepdim=True)
        tokens.append(token)
    assert weft.equal(drawn[:5], weft.cat(tokens, 1))
    states = sequences(3)
    number = lambda rows: rows.numpy() @ np.array([9, 3, 1])
    counts = np.bincount(number(drawn), minlength=27)[number(states)]
    expected = model.log_prob(states).double().exp().detach().numpy() * 5000
    kept = expected > 5
    assert stats.chisquare(counts[kept], expected[kept] * counts[kept].sum() / expected[kept].sum()).pvalue > 1e-4


def test_wavenet_given_a_condition():
    model = waves(condition=2)
    speaker = weft.tensor([[1.0, 0.0]])
    given = speaker.expand(243, 2)
    assert model.log_prob(sequences(), given).exp().sum().item() == pytest.approx(1, abs=1e-5)
    assert model.sample(4, speaker.expand(4, 2), generator=seeded(1)).shape == (4, 5)


@pytest.mark.parametrize("likelihood", ["gaussian", "student-t"])
def test_deepar_with_a_fixed_scale_is_a_density(likelihood):
    weft.manual_seed(1)
    model = SeriesDensity(DeepAR(hidden_size=4, likelihood=likelihood).double(), 2, scale=0.5)
    wide = 9 if likelihood == "gaussian" else 60
    tolerance = 1e-4 if likelihood == "gaussian" else 5e-3
    check_normalised(model.log_prob, *grid([(-wide, wide)] * 2, 400), tolerance=tolerance)


def test_deepar_by_its_own_scale_is_none():
    """The trap: a scale that is the mean size of the whole series knows what it predicts."""
    weft.manual_seed(1)
    network = DeepAR(hidden_size=4).double()
    own = lambda z: network(z).log_prob(z).sum(1)
    with pytest.raises(weft.errors.ConditionError, match="sum to"):
        check_normalised(own, *grid([(-9, 9)] * 2, 200), tolerance=1e-3)


def test_deepar_draws_series_with_its_moments():
    weft.manual_seed(2)
    model = SeriesDensity(DeepAR(hidden_size=4).double(), 2)
    points, cell = grid([(-9, 9)] * 2, 300)
    weight = model.log_prob(points).exp().detach() * cell
    mean = (points * weight.unsqueeze(1)).sum(0)
    spread = ((points - mean) ** 2 * weight.unsqueeze(1)).sum(0).sqrt()
    drawn = model.sample(4000, generator=seeded(3))
    assert ((drawn.mean(0) - mean).abs() < 5 * spread / 4000**0.5).all()
    assert weft.equal(drawn, model.sample(4000, generator=seeded(3)))


def test_what_is_wrong_is_said():
    with pytest.raises(ShapeError, match=r"tokens \(B, 5\)"):
        waves().log_prob(weft.zeros(2, 4, dtype=weft.int64))
    with pytest.raises(OptionError, match="start must be a token"):
        TokenDensity(WaveNet(3, 4), 5, start=3)
    with pytest.raises(ShapeError, match=r"series \(B, 2\)"):
        SeriesDensity(DeepAR(), 2).log_prob(weft.zeros(1, 3))
    with pytest.raises(OptionError, match="scale must be above 0"):
        SeriesDensity(DeepAR(), 2, scale=0)
