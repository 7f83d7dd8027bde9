"""`weft.models.evaluate`: sides and intervals against exact likelihoods, bits with their log-determinants, refusals."""

from __future__ import annotations

import hashlib
import itertools
import json
import math

import numpy as np
import pytest

import weft
from weft.data import TensorDataset
from weft.distributions import AffineTransform, ComposeTransform, SigmoidTransform
from weft.errors import OptionError
from weft.models import evaluate
from weft.models.energy import BernoulliRBM
from weft.models.generative import (
    Bound,
    FactorisedGaussian,
    GenerativeModel,
    ProductOfBernoullis,
    bound,
    estimate,
    exact,
    rank,
    split_hash,
)

from ..energy.test_rbm import bernoulli, seeded


class PPCA(GenerativeModel):
    """x = W z + σ ε with z ~ N(0, 1): log p in closed form, importance samples from a proposal that is too wide."""

    continuous = True

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("weight", weft.tensor([[1.0], [2.0], [-1.0]]).double())

    @exact
    def log_prob(self, x):
        covariance = self.weight @ self.weight.mT + weft.eye(3).double()
        return weft.distributions.MultivariateNormal(weft.zeros(3).double(), covariance).log_prob(x)

    def weights(self, x, samples, generator):
        """log p(x, z) − log q(z | x), q the posterior with twice its deviation: (samples, B)"""
        precision = 1 + (self.weight**2).sum()
        mean, scale = (x @ self.weight)[:, 0] / precision, 2 / precision.sqrt()
        z = mean + scale * weft.randn(samples, len(x), dtype=x.dtype, generator=generator)
        normal = weft.distributions.Normal
        joint = normal(0.0, 1.0).log_prob(z) + normal(z.unsqueeze(-1) * self.weight[:, 0], 1.0).log_prob(x).sum(-1)
        return joint - normal(mean, scale).log_prob(z)

    @bound
    def elbo(self, x, generator=None):
        return self.weights(x, 1, generator)[0]

    @bound
    def log_prob_bound(self, x, samples=1, generator=None):
        w = self.weights(x, samples, generator)
        return Bound(w.logsumexp(0) - math.log(samples), "lower", weft.zeros(len(x)))


class Sided(GenerativeModel):
    """Something with a bound of one side alone."""

    def __init__(self, side: str, value: float) -> None:
        super().__init__()
        self.which, self.value = side, value

    @bound
    def log_prob_bound(self, x, generator=None):
        return Bound(weft.full((len(x),), self.value), self.which, weft.zeros(len(x)))


def test_importance_samples_climb_to_the_exact_value():
    x = weft.randn(1200, 3, generator=seeded(1), dtype=weft.float64)
    found = evaluate(PPCA(), x, samples=(1, 5, 50, 500), seeds=(0, 1, 2))
    assert [f.method for f in found.likelihoods[:2]] == ["log_prob", "elbo"]
    curve = [f.nats for f in found.likelihoods[2:]]
    truth = found.likelihoods[0].nats
    assert all(before < after for before, after in itertools.pairwise(curve)) and curve[-1] < truth + 1e-3
    assert truth - curve[-1] < 0.01 < truth - curve[0]
    assert all(f.side == "lower" and len(f.by_seed) == 3 for f in found.likelihoods[1:])
    np.testing.assert_allclose(found.likelihoods[1].nats, curve[0])  # one importance sample is the ELBO


def test_both_sides_of_a_machine_enclose_its_exact_value():
    model = bernoulli(10, 6)
    x = model.exact_sample(300, seeded(5))
    found = evaluate(model, x, binarisation="native", seeds=(0, 1, 2), options={"temperatures": 150, "chains": 200})
    whole, lower, upper = found.likelihoods
    assert (whole.side, lower.side, upper.side) == (None, "lower", "upper")
    assert whole.nats == pytest.approx(model.log_prob(x).mean().item(), abs=1e-9)
    assert whole.error == pytest.approx(model.log_prob(x).std().item() / math.sqrt(300)) and whole.drawn_error == 0
    for side in (lower, upper):
        assert abs(side.nats - whole.nats) < 4 * side.drawn_error and side.drawn_error > 0
        assert side.interval[0] < whole.nats < side.interval[1]
    assert found.side("lower") is whole


def test_one_run_of_ais_alone_is_never_the_whole_story():
    """A strong machine, few temperatures: AIS promises too much, the other side and the spread of seeds show it."""
    model = bernoulli(12, 8, scale=3.0)
    x = model.exact_sample(200, seeded(1))
    truth = model.log_prob(x).mean().item()
    options = {"temperatures": 3, "chains": 4}
    found = evaluate(model, x, binarisation="native", seeds=range(6), options=options)
    _, lower, upper = found.likelihoods
    assert upper.nats > truth + 0.2 and lower.nats < truth - 0.2
    assert upper.drawn_error > 0.05 and len(set(upper.by_seed)) == 6


LEVELS = 256


def test_bits_per_dimension_count_every_step():
    """Uniform bytes cost 8 bits a dimension: a uniform density over the logits of (x + u) / 256 must say so, for any λ."""

    class Logistic(GenerativeModel):
        continuous = True

        @exact
        def log_prob(self, y):
            """y = logit u of a uniform u: the logistic density."""
            return (weft.nn.functional.logsigmoid(y) + weft.nn.functional.logsigmoid(-y)).sum(1)

    x = weft.randint(LEVELS, (500, 12), generator=seeded(1)).double()
    logit = ComposeTransform([AffineTransform(0.0, 1 / LEVELS), SigmoidTransform().inv])
    found = evaluate(Logistic(), x, transform=logit, levels=LEVELS)
    (figure,) = found.likelihoods
    assert figure.bits_per_dim == pytest.approx(8.0, abs=1e-9) and figure.nats == pytest.approx(-12 * math.log(256))
    assert (figure.side, figure.kind) == ("lower", "bound") and "256 levels" in found.preprocessing
    wrong = evaluate(Logistic(), logit(x + 0.5)).likelihoods[0]
    assert abs(wrong.bits_per_dim - 8) > 1  # what a figure without the log-determinants would have been


def test_the_volume_of_a_transform_is_that_of_its_density():
    """A normal model of y = 3x + 1 is another normal of x."""
    x = weft.randn(100, 2, generator=seeded(2), dtype=weft.float64)
    model = FactorisedGaussian(2, weft.float64)
    found = evaluate(model, x, transform=AffineTransform(1.0, 3.0)).likelihoods[0]
    direct = weft.distributions.Normal(-1 / 3, 1 / 3).log_prob(x).sum(1).mean().item()
    assert found.nats == pytest.approx(direct, abs=1e-5)


def test_opposite_sides_and_different_data_are_not_ranked():
    x = weft.rand(20, 4, generator=seeded(1))
    lower, upper, better = (
        evaluate(Sided(*given), x, name=f"{given}") for given in (("lower", -3), ("upper", -2), ("lower", -1))
    )
    assert [e.model for e in rank([lower, better])] == [better.model, lower.model]
    with pytest.raises(OptionError, match="a lower and an upper bound cannot be ranked"):
        rank([lower, upper])
    whole = evaluate(FactorisedGaussian(4), x)
    assert rank([upper, whole])[0] is upper and rank([whole, better])[0] is better  # an exact value fits either side
    with pytest.raises(OptionError, match="different data"):
        rank([lower, evaluate(Sided("lower", -1), x[:10])])
    bits = (x > 0.5).float()
    kinds = [evaluate(ProductOfBernoullis(4), bits, binarisation=kind) for kind in ("fixed", "threshold")]
    with pytest.raises(OptionError, match="different data"):
        rank(kinds)


def test_bits_must_say_where_they_come_from():
    bits = weft.ones(3, 4)
    with pytest.raises(OptionError, match="binarisation='fixed'"):
        evaluate(ProductOfBernoullis(4), bits)
    with pytest.raises(OptionError, match="binarisation is one of"):
        evaluate(ProductOfBernoullis(4), bits, binarisation="thresholded")

    class Fixed(TensorDataset):
        binarisation = "fixed"

    assert evaluate(ProductOfBernoullis(4), Fixed(bits, weft.zeros(3))).binarisation == "fixed"


def test_what_has_no_likelihood_is_told_so():
    class Painter(GenerativeModel):
        @estimate
        def sample(self, n, condition=None, generator=None):
            return weft.zeros(n, 2)

    with pytest.raises(OptionError, match="Painter has no likelihood"):
        evaluate(Painter(), weft.rand(3, 2))
    with pytest.raises(OptionError, match="none of log P"):
        evaluate(Sided("upper", 0.0), weft.rand(3, 2), levels=2)


def test_documents_hold_everything_and_hashes_are_of_the_bytes():
    x = weft.rand(5, 2, generator=seeded(3))
    found = evaluate(FactorisedGaussian(2), x, name="normal")
    document = json.loads(json.dumps(found.to_dict()))
    assert document["model"] == "normal" and document["examples"] == 5 and document["likelihoods"][0]["interval"]
    expected = hashlib.sha256(b"float32 (5, 2)" + x.numpy().tobytes()).hexdigest()[:16]
    assert document["split"] == expected == split_hash(x) != split_hash(x.flip(0))
    assert "bits/dim" in str(found) and "5 examples (2,)" in str(found)


def test_large_machines_have_both_sides_too():
    model, x = BernoulliRBM(6, 40), weft.zeros(8, 6)
    found = evaluate(model, x, binarisation="native", options={"temperatures": 20, "chains": 20})
    truth = model.log_prob(x).mean().item()  # six visible units can be summed
    assert [f.side for f in found.likelihoods] == [None, "lower", "upper"]
    assert all(abs(f.nats - truth) < 0.05 for f in found.likelihoods)
