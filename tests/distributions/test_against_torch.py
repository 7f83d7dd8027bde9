"""Densities, moments, shapes, names and errors of every distribution against PyTorch, in float64."""

from __future__ import annotations

import inspect
import math
import warnings

import numpy as np
import pytest
import torch
import torch.distributions as TD

import weft
import weft.distributions as WD

from .cases import CASES, array, of_torch, of_weft

PROPERTIES = ["mean", "mode", "variance", "stddev"]
# Where PyTorch's own value is wrong or arbitrary: Kumaraswamy's mode is NaN there; both ends are modes of Beta(½, .7).
OWN_VALUE = {("Kumaraswamy", "mode"), ("Beta", "mode")}
# What PyTorch computes only in float32, or by an approximation of the Bessel functions.
LOOSE = {"GeneralizedPareto": 1e-5, "VonMises": 1e-6}


def both(name):
    build, values = CASES[name]
    t = torch.tensor if name == "GeneralizedPareto" else of_torch
    return build(WD, of_weft), build(TD, t), of_weft(values), t(values)


def known(call):
    """A value of PyTorch's, or None where it has no formula."""
    try:
        return call()
    except NotImplementedError:
        return None


def assert_equal(ours, theirs, tolerance=1e-8):
    assert tuple(ours.shape) == tuple(theirs.shape)
    np.testing.assert_allclose(array(ours), array(theirs), rtol=tolerance, atol=tolerance)


@pytest.mark.parametrize("name", CASES)
def test_shapes_support_and_repr(name):
    ours, theirs, *_ = both(name)
    assert tuple(ours.batch_shape) == tuple(theirs.batch_shape)
    assert tuple(ours.event_shape) == tuple(theirs.event_shape)
    assert ours.has_rsample == theirs.has_rsample
    assert ours.has_enumerate_support == theirs.has_enumerate_support
    if name != "GeneralizedPareto":  # PyTorch's is float32 here
        assert repr(ours.support).replace("weft", "torch") == repr(theirs.support)
    assert list(ours.arg_constraints) == list(theirs.arg_constraints)
    if "Beta" not in name and "Mixture" not in name:  # those name their parameters, or less of them
        assert repr(ours).replace("weft", "torch") == repr(theirs)


@pytest.mark.parametrize("name", CASES)
def test_log_prob_and_its_gradient(name):
    ours, theirs, x, y = both(name)
    tolerance = LOOSE.get(name, 1e-8)
    assert_equal(ours.log_prob(x), theirs.log_prob(y), tolerance)
    if not ours.support.is_discrete and name not in ("LKJCholesky", "Uniform"):
        x.requires_grad_(), y.requires_grad_()
        ours.log_prob(x).sum().backward()
        theirs.log_prob(y).sum().backward()
        assert_equal(x.grad, y.grad, tolerance)


@pytest.mark.parametrize("name", CASES)
def test_moments(name):
    ours, theirs, *_ = both(name)
    for prop in PROPERTIES:
        expected = known(lambda prop=prop: getattr(theirs, prop))
        if expected is not None and (name, prop) not in OWN_VALUE:
            assert_equal(getattr(ours, prop), expected, LOOSE.get(name, 1e-7))


@pytest.mark.parametrize("name", CASES)
def test_entropy_cdf_and_quantiles(name):
    ours, theirs, x, y = both(name)
    expected = known(theirs.entropy)
    if expected is not None:
        assert_equal(ours.entropy(), expected, LOOSE.get(name, 1e-7))
        assert_equal(ours.perplexity(), theirs.perplexity(), LOOSE.get(name, 1e-7))
    expected = known(lambda: theirs.cdf(y))
    if expected is not None:
        assert_equal(ours.cdf(x), expected, LOOSE.get(name, 1e-7))
    u = [0.02, 0.5, 0.97][: max(1, x.shape[-1] if x.ndim else 1)]
    expected = known(lambda: theirs.icdf(y.new_tensor(u)))
    if expected is not None:
        assert_equal(ours.icdf(of_weft(u)), expected, LOOSE.get(name, 1e-7))


@pytest.mark.parametrize("name", [n for n in CASES if "Binomial" not in n or n == "Binomial"])
def test_enumerate_support(name):
    ours, theirs, *_ = both(name)
    for expand in (True, False):
        expected = known(lambda expand=expand: theirs.enumerate_support(expand))
        if expected is not None:
            assert_equal(ours.enumerate_support(expand), expected)


@pytest.mark.parametrize("name", CASES)
def test_expand_is_the_same_distribution(name):
    ours, theirs, x, y = both(name)
    shape = (3, *ours.batch_shape)
    wide, expected = ours.expand(shape), theirs.expand(shape)
    assert type(wide) is type(ours)
    assert tuple(wide.batch_shape) == tuple(expected.batch_shape) == shape
    assert tuple(wide.event_shape) == tuple(expected.event_shape)
    assert_equal(wide.log_prob(x), expected.log_prob(y), LOOSE.get(name, 1e-7))
    assert wide.sample((2,)).shape == (2, *shape, *ours.event_shape)
    if known(lambda: expected.variance) is not None:
        assert_equal(wide.variance, expected.variance, LOOSE.get(name, 1e-7))
    assert tuple(wide.expand((2, *shape)).batch_shape) == (2, *shape)


@pytest.mark.parametrize("name", CASES)
def test_draws_have_shape_type_and_support(name):
    build, _ = CASES[name]
    for t, dtype in ((of_weft, weft.float64), (lambda x: weft.tensor(x), weft.float32)):
        ours = build(WD, t)
        weft.manual_seed(3)
        drawn = ours.sample((4, 5))
        assert drawn.shape == (4, 5, *ours.batch_shape, *ours.event_shape)
        assert drawn.dtype is (weft.int64 if name.startswith("Categorical") else dtype)
        assert not drawn.requires_grad
        assert ours.support.check(drawn).all()
        assert ours.log_prob(drawn).shape == (4, 5, *ours.batch_shape)
        weft.manual_seed(3)
        assert (ours.sample((4, 5)) == drawn).all()


@pytest.mark.parametrize("name", TD.__all__)
def test_signatures(name):
    ours, theirs = getattr(WD, name), getattr(TD, name)
    if isinstance(theirs, type):
        mine = [(p.name, p.default) for p in inspect.signature(ours).parameters.values()]
        expected = [(p.name, p.default) for p in inspect.signature(theirs).parameters.values()]
        assert [n for n, _ in mine] == [n for n, _ in expected]
        for (_, a), (_, b) in zip(mine, expected, strict=True):
            assert a == b or tuple(a) == tuple(b) == ()
        bases = {c.__name__ for c in theirs.__mro__} - {"Generic", "object"}
        assert bases <= {c.__name__ for c in ours.__mro__}


ERRORS = {
    "scale": lambda D, t: D.Normal(t(0.0), t(-1.0)),
    "value outside": lambda D, t: D.Bernoulli(t(0.2)).log_prob(t(0.3)),
    "value of wrong shape": lambda D, t: D.Normal(t([0.0, 0.0]), 1.0).log_prob(t([0.0, 0.0, 0.0])),
    "value of wrong event": lambda D, t: D.MultivariateNormal(t([0.0, 0.0]), t([[1.0, 0], [0, 1]])).log_prob(t([0.0])),
    "value no tensor": lambda D, t: D.Normal(0.0, 1.0).log_prob(1),
    "both": lambda D, t: D.Bernoulli(0.2, 0.3),
    "none": lambda D, t: D.Categorical(),
    "scalar probs": lambda D, t: D.Categorical(t(0.3)),
    "negative probs": lambda D, t: D.Categorical(t([-0.3, 1.0])),
    "uniform order": lambda D, t: D.Uniform(t(1.0), t(0.0)),
    "no number": lambda D, t: D.Normal("a", 1.0),
    "two matrices": lambda D, t: D.MultivariateNormal(t([0.0]), t([[1.0]]), t([[1.0]])),
    "indefinite": lambda D, t: D.MultivariateNormal(t([0.0, 0.0]), t([[1.0, 2.0], [2.0, 1.0]])),
    "count": lambda D, t: D.Binomial(3, t(0.5)).log_prob(t(4.0)),
    "counts": lambda D, t: D.Binomial(t([3.0, 4.0]), t(0.5)).enumerate_support(),
    "multinomial": lambda D, t: D.Multinomial(t([3]), t([0.5, 0.5])),
    "multinomial value": lambda D, t: D.Multinomial(3, t([0.5, 0.5])).log_prob(t([2.0, 2.0])),
    "independent": lambda D, t: D.Independent(D.Normal(0.0, 1.0), 1),
    "mixture": lambda D, t: D.MixtureSameFamily(D.Normal(0.0, 1.0), D.Normal(0.0, 1.0)),
    "mixture components": lambda D, t: D.MixtureSameFamily(D.Categorical(t([1.0, 1.0])), 3),
    "mixture sizes": lambda D, t: D.MixtureSameFamily(D.Categorical(t([1.0, 1.0])), D.Normal(t([0.0] * 3), 1.0)),
    "mixture batches": lambda D, t: D.MixtureSameFamily(
        D.Categorical(t([[1.0, 1.0]] * 2)), D.Normal(t([[0.0] * 2] * 3), 1.0)
    ),
    "mixture rsample": lambda D, t: D.MixtureSameFamily(
        D.Categorical(t([1.0, 1.0])), D.Normal(t([0.0] * 2), 1.0)
    ).rsample(),
    "transforms": lambda D, t: D.TransformedDistribution(D.Normal(0.0, 1.0), 3),
    "transform list": lambda D, t: D.TransformedDistribution(D.Normal(0.0, 1.0), [3]),
    "transform event": lambda D, t: D.TransformedDistribution(D.Normal(0.0, 1.0), [D.StickBreakingTransform()]),
    "wishart": lambda D, t: D.Wishart(t(1.0), t([[1.0, 0, 0], [0, 1, 0], [0, 0, 1]])),
    "lkj": lambda D, t: D.LKJCholesky(1),
    "low rank": lambda D, t: D.LowRankMultivariateNormal(t([0.0, 0.0]), t([[0.0]] * 3), t([1.0, 1.0])),
    "low rank diagonal": lambda D, t: D.LowRankMultivariateNormal(t([0.0, 0.0]), t([[0.0]] * 2), t([1.0] * 3)),
    "dirichlet": lambda D, t: D.Dirichlet(t(1.0)),
    "geometric": lambda D, t: D.Geometric(t([0.0])),
    "kl": lambda D, t: D.kl_divergence(D.StudentT(t(3.0)), D.Normal(0.0, 1.0)),
    "kl families": lambda D, t: D.kl_divergence(D.Poisson(t(3.0)), D.Normal(0.0, 1.0)),
    "kl counts": lambda D, t: D.kl_divergence(D.Binomial(2, t(0.5)), D.Binomial(3, t(0.5))),
    "biject": lambda D, t: D.biject_to(D.constraints.positive_definite),
    "transform to": lambda D, t: D.transform_to(D.constraints.boolean),
    "register": lambda D, t: D.biject_to.register(3, lambda c: c),
    "register_kl": lambda D, t: D.register_kl(3, 4),
    "cache": lambda D, t: D.ExpTransform(cache_size=2),
    "reshape": lambda D, t: D.ReshapeTransform((2, 3), (5,)),
    "default": lambda D, t: D.Distribution.set_default_validate_args(3),
    "no rsample": lambda D, t: D.Poisson(t(1.0)).rsample(),
    "no mode": lambda D, t: D.Multinomial(3, t([0.5, 0.5])).mode,
    "no support to enumerate": lambda D, t: D.Poisson(t(1.0)).enumerate_support(),
    "product of supports": lambda D, t: D.Independent(D.Bernoulli(t([0.5])), 1).enumerate_support(),
}


@pytest.mark.parametrize("name", ERRORS)
def test_errors(name):
    with pytest.raises(Exception) as expected:
        ERRORS[name](TD, of_torch)
    with pytest.raises(expected.type) as found:
        ERRORS[name](WD, of_weft)
    message = str(expected.value).split("\n")[0].replace("  ", " ").strip()
    if message and name not in ("register_kl", "no number", "kl families"):
        assert message.replace("torch", "weft") in str(found.value).replace("  ", " ")
    assert str(found.value)


def test_validate_args_off_checks_nothing():
    WD.Normal(weft.tensor(0.0), weft.tensor(-1.0), validate_args=False)
    assert WD.HalfNormal(1.0, validate_args=False).log_prob(weft.tensor(-1.0)) == -math.inf
    WD.Distribution.set_default_validate_args(False)
    try:
        WD.Normal(weft.tensor(0.0), weft.tensor(-1.0))
    finally:
        WD.Distribution.set_default_validate_args(True)


def test_a_distribution_of_ones_own():
    class Point(WD.Distribution):
        arg_constraints = {"place": WD.constraints.real}  # noqa: RUF012
        support = WD.constraints.real

        def __init__(self, place, validate_args=None):
            (self.place,) = WD.utils.broadcast_all(place)
            super().__init__(self.place.shape, validate_args=validate_args)

        def sample(self, sample_shape=()):
            return self.place.expand(self._extended_shape(sample_shape))

    assert Point(weft.tensor([1.0, 2.0])).expand((3, 2)).sample((4,)).shape == (4, 3, 2)
    assert repr(Point(2.0)) == "Point(place: 2.0)"
    with pytest.raises(NotImplementedError, match="Point has no formula for log_prob"):
        Point(2.0).log_prob(weft.tensor(2.0))
    with warnings.catch_warnings(record=True) as found:
        warnings.simplefilter("always")
        Point(2.0).sample_n(3)
    assert found[0].category is FutureWarning


@pytest.mark.parametrize(
    "build",
    [
        lambda D, t: D.Gamma(t([0.5, 3.0]), t(2.0)),
        lambda D, t: D.Beta(t([0.5, 3.0]), t(2.0)),
        lambda D, t: D.Dirichlet(t([[0.5, 3.0]])),
        lambda D, t: D.Bernoulli(t([0.5, 0.3])),
        lambda D, t: D.Normal(t([0.5, 0.3]), t(2.0)),
        lambda D, t: D.Exponential(t([0.5, 0.3])),
        lambda D, t: D.ContinuousBernoulli(t([0.5, 0.3])),
        lambda D, t: D.Wishart(t([4.0, 5.0]), t([[2.0, 0.3], [0.3, 1.0]])),
    ],
)
def test_bregman_entropy_is_the_closed_form(build):
    ours = build(WD, of_weft)
    if type(ours).__name__ in ("Beta", "Dirichlet"):  # their natural parameters are α, the carrier measure −log x
        ours.__class__ = type(ours.__class__.__name__, (ours.__class__,), {"_mean_carrier_measure": carrier(ours)})
    found = WD.ExponentialFamily.entropy(ours)
    np.testing.assert_allclose(array(found), array(build(TD, of_torch).entropy()), rtol=1e-9)


def carrier(distribution):
    """E[−Σ log x] of a beta or Dirichlet distribution."""
    parts = distribution._natural_params
    alpha = weft.stack(parts, -1) if len(parts) == 2 else parts[0]
    return -(alpha.digamma() - alpha.sum(-1, True).digamma()).sum(-1)


def test_bregman_entropy_carries_gradients():
    alpha = weft.tensor(2.5, dtype=weft.float64, requires_grad=True)
    WD.ExponentialFamily.entropy(WD.Gamma(alpha, of_weft(1.0))).backward()
    slope = 1 + (1 - 2.5) * torch.special.polygamma(1, torch.tensor(2.5, dtype=torch.float64))
    assert abs(alpha.grad.item() - slope.item()) < 1e-9
