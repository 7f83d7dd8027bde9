"""The baselines against scikit-learn, SciPy, sums over all states, and data with known components."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
import scipy.stats

import weft
from weft.errors import InvalidValueError, OptionError, ShapeError
from weft.models.generative import (
    BernoulliMixture,
    FactorisedGaussian,
    FullGaussian,
    ProductOfBernoullis,
    binary_states,
    check_normalised,
)


def seeded(seed: int = 0) -> weft.Generator:
    return weft.Generator().manual_seed(seed)


def two_kinds(n: int = 4000, dtype: type = np.float64) -> tuple[weft.Tensor, np.ndarray]:
    """Bits of two components with rates of their own."""
    random = np.random.default_rng(0)
    rates = np.array([[0.9] * 5 + [0.1] * 5, [0.2] * 5 + [0.7] * 5])
    kind = random.random(n) < 0.3
    return weft.tensor((random.random((n, 10)) < rates[kind.astype(int)]).astype(dtype)), rates


@pytest.mark.parametrize("make", [lambda: ProductOfBernoullis(10), lambda: BernoulliMixture(4, 10)])
def test_all_states_sum_to_one(make):
    x, _ = two_kinds(500)
    model = make().double().fit(x)
    check_normalised(model.log_prob, binary_states(10, weft.float64), tolerance=1e-9)


def test_product_is_the_likelihood_of_bits():
    x, _ = two_kinds(200)
    model = ProductOfBernoullis(10, weft.float64).fit(x)
    rates = (x.numpy().sum(0) + 1) / 202
    np.testing.assert_allclose(model.log_prob(x), scipy.stats.bernoulli.logpmf(x.numpy().astype(int), rates).sum(1))
    assert abs(model.sample(20000, generator=seeded()).mean(0).numpy() - rates).max() < 4.5 * 0.5 / math.sqrt(20000)


def test_mixture_is_the_sum_of_its_components():
    model = BernoulliMixture(3, 4, weft.float64)
    with weft.no_grad():
        model.log_share.copy_(weft.tensor([0.5, -1.0, 0.2]))
    x = binary_states(4, weft.float64)
    shares, rates = model.log_share.softmax(0).detach().numpy(), weft.sigmoid(model.logits).detach().numpy()
    each = np.stack([scipy.stats.bernoulli.pmf(x.numpy().astype(int), p).prod(1) for p in rates], 1)
    np.testing.assert_allclose(model.log_prob(x).detach(), np.log(each @ shares))
    np.testing.assert_allclose(model.encode(x).detach(), each * shares / (each @ shares)[:, None])


def test_expectation_maximisation_finds_planted_components_and_never_falls():
    x, rates = two_kinds()
    model, curve = BernoulliMixture(2, 10, weft.float64), []
    model.fit(x, 100, strength=1e-9, tolerance=1e-9, log=lambda _, value: curve.append(value), generator=seeded(1))
    assert len(curve) > 5 and all(after >= before - 1e-9 for before, after in itertools.pairwise(curve))
    found = weft.sigmoid(model.logits).detach().numpy()
    found = found[np.argsort(-found[:, 0])]
    assert abs(found - rates).max() < 0.06
    assert model.log_prob(x).mean().item() > ProductOfBernoullis(10, weft.float64).fit(x).log_prob(x).mean().item() + 1


def test_one_iteration_is_its_formula():
    x, _ = two_kinds(1500)  # one whole batch and a rest
    model = BernoulliMixture(3, 10, weft.float64)
    with weft.no_grad():
        model._start(x, seeded(2))
        joint = model.joint(x).numpy()
        model._climbed(x, weft.compile(model._gathered), 1, 0.0, 0.0, None)
    r = np.exp(joint - joint.max(1, keepdims=True))
    r /= r.sum(1, keepdims=True)
    np.testing.assert_allclose(weft.sigmoid(model.logits).detach(), (r.T @ x.numpy()) / r.sum(0)[:, None], rtol=1e-8)
    np.testing.assert_allclose(model.log_share.exp().detach(), r.mean(0), rtol=1e-8)


def test_components_that_explain_nothing_begin_anew():
    x, _ = two_kinds(800)
    model = BernoulliMixture(3, 10, weft.float64)
    with weft.no_grad():
        model.logits[:2].copy_(weft.logit(weft.tensor([[0.6], [0.4]]).double().expand(2, 10)))
        model.logits[2].fill_(-40.0)  # only the image without ink, and that hardly
        model.log_share.copy_(weft.tensor([0.0, 0.0, -60.0]))
        model._climbed(x, weft.compile(model._gathered), 12, 1.0, 0.0, None)
    counts = model.encode(x).sum(0)
    assert counts.min().item() > 1 and weft.isfinite(model.log_prob(x)).all()


def test_restarts_keep_the_best_start():
    x, _ = two_kinds(600)
    figure = lambda restarts: (
        BernoulliMixture(2, 10, weft.float64)
        .fit(x, 8, restarts=restarts, generator=seeded(4))
        .log_prob(x)
        .mean()
        .item()
    )
    assert figure(6) >= figure(1) - 1e-6


def test_normal_distributions_are_scipys():
    random = np.random.default_rng(1)
    x = random.normal(size=(400, 3)) @ random.normal(size=(3, 3)) + 2
    given = weft.tensor(x)
    full, alone = FullGaussian(3, weft.float64).fit(given, ridge=0.0), FactorisedGaussian(3, weft.float64).fit(given)
    reference = scipy.stats.multivariate_normal(x.mean(0), np.cov(x.T, bias=True))
    np.testing.assert_allclose(full.log_prob(given), reference.logpdf(x), rtol=1e-9)
    np.testing.assert_allclose(alone.log_prob(given), scipy.stats.norm(x.mean(0), x.std(0)).logpdf(x).sum(1), rtol=1e-9)
    for model in (full, alone):
        slope = weft.func.grad(lambda x, model=model: model.log_prob(x).sum())(given)
        np.testing.assert_allclose(model.score(given), slope, atol=1e-9)
        drawn = model.sample(40000, generator=seeded(3)).numpy()
        assert (abs(drawn.mean(0) - x.mean(0)) < 4.5 * x.std(0) / 200).all()
    np.testing.assert_allclose(np.cov(full.sample(40000, generator=seeded(4)).numpy().T), np.cov(x.T), atol=0.15)


def test_what_cannot_be_fitted_is_refused():
    with pytest.raises(InvalidValueError, match="expected bits"):
        ProductOfBernoullis(2).fit(weft.full((3, 2), 0.5))
    with pytest.raises(ShapeError, match="need as many examples"):
        BernoulliMixture(5, 2).fit(weft.zeros(3, 2))
    with pytest.raises(ShapeError, match=r"expected examples \(N, 2\)"):
        FullGaussian(2).fit(weft.zeros(3, 4))
    with pytest.raises(OptionError, match="at least one component"):
        BernoulliMixture(0, 2)
