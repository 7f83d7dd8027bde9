"""Restricted Boltzmann machines against enumeration, closed forms, scikit-learn, and each other."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
import sklearn.neural_network

import weft
from weft.errors import OptionError, ShapeError, UnsupportedError
from weft.models.energy import BernoulliRBM, GaussianRBM, SoftmaxRBM, ais, base_rates, reverse_ais
from weft.models.generative import binary_states, check_normalised, grid


def seeded(seed: int = 0) -> weft.Generator:
    return weft.Generator().manual_seed(seed)


def filled(rbm, scale: float = 1.0, seed: int = 0):
    generator = seeded(seed)
    with weft.no_grad():
        for parameter in rbm.parameters():
            parameter.copy_(scale * weft.randn(parameter.shape, generator=generator, dtype=parameter.dtype))
    return rbm


def bernoulli(visible: int = 6, hidden: int = 4, **options):
    return filled(BernoulliRBM(visible, hidden, dtype=weft.float64), **options)


def gaussian():
    return filled(GaussianRBM(2, 3, weft.tensor([0.5, 1.5]), dtype=weft.float64))


def softmax():
    return filled(SoftmaxRBM(3, 3, 4, dtype=weft.float64))


KINDS = {"Bernoulli": bernoulli, "Gaussian": gaussian, "softmax": softmax}


def space(rbm) -> weft.Tensor:
    """All visible states, or a few of a continuous space."""
    if isinstance(rbm, BernoulliRBM):
        return binary_states(rbm.event_shape[0], weft.float64)
    if isinstance(rbm, SoftmaxRBM):
        visible, categories = rbm.event_shape
        eye = np.eye(categories)
        return weft.tensor(np.array([eye[list(row)] for row in itertools.product(range(categories), repeat=visible)]))
    return weft.randn(20, 2, generator=seeded(3), dtype=weft.float64)


@pytest.fixture(params=KINDS)
def rbm(request):
    return KINDS[request.param]()


def test_free_energy_sums_the_hidden_units(rbm):
    v, hidden = space(rbm), binary_states(rbm.hidden, weft.float64)
    joint = weft.stack([-rbm.joint_energy(v, h.expand(len(v), -1)) for h in hidden])
    np.testing.assert_allclose(-rbm.energy(v).detach().numpy(), joint.logsumexp(0).detach().numpy(), atol=1e-10)
    given = joint.softmax(0)  # p(h | v): (2ᴴ, B)
    np.testing.assert_allclose(rbm.encode(v).detach().numpy(), (given.mT @ hidden).detach().numpy(), atol=1e-10)


def test_probabilities_sum_to_one():
    for made in (bernoulli(), softmax()):
        check_normalised(made.log_prob, space(made), tolerance=1e-9)
    check_normalised(gaussian().log_prob, *grid([(-9, 9), (-24, 24)], 120), tolerance=1e-6)


@pytest.mark.parametrize("sizes", [(7, 4), (4, 7)])
def test_partition_function_over_visibles_is_that_over_hiddens(sizes):
    made = bernoulli(*sizes)
    over_hidden = super(BernoulliRBM, made).log_partition().item()
    assert made.log_partition_over_visible().item() == pytest.approx(over_hidden, abs=1e-10)
    assert made.log_partition().item() == pytest.approx(over_hidden, abs=1e-10)


def test_visible_conditionals_are_ratios_of_the_joint():
    for made in (bernoulli(), softmax()):
        v, h = space(made), binary_states(made.hidden, weft.float64)[[1, 6, 13]]
        for row in h:
            p = (-made.joint_energy(v, row.expand(len(v), -1))).softmax(0)
            expected = (p @ v.flatten(1)).reshape(made.event_shape)
            np.testing.assert_allclose(made.decode(row.unsqueeze(0))[0].detach(), expected.detach(), atol=1e-10)


def test_a_gaussian_machine_is_a_mixture_of_normals():
    made = gaussian()
    h = binary_states(3, weft.float64)
    centres = made.visible_bias + made.scale * (h @ made.weight.mT)  # (8, 2)
    shares = (
        h @ made.hidden_bias + ((centres / made.scale) ** 2 - (made.visible_bias / made.scale) ** 2).sum(1) / 2
    ).log_softmax(0)
    v = space(made)
    parts = weft.distributions.Normal(centres, made.scale).log_prob(v.unsqueeze(1)).sum(-1)  # (B, 8)
    np.testing.assert_allclose(made.log_prob(v).detach(), (parts + shares).logsumexp(1).detach(), atol=1e-10)
    slope = weft.func.grad(lambda x: made.log_prob(x).sum())(v)
    np.testing.assert_allclose(made.score(v).detach(), slope.detach(), atol=1e-9)


def test_scikit_learn_has_the_same_machine():
    made = bernoulli()
    other = sklearn.neural_network.BernoulliRBM(n_components=4)
    other.components_ = made.weight.detach().numpy().T
    other.intercept_visible_, other.intercept_hidden_ = (
        p.detach().numpy() for p in (made.visible_bias, made.hidden_bias)
    )
    v = space(made)
    np.testing.assert_allclose(made.energy(v).detach(), other._free_energy(v.numpy()), atol=1e-10)
    np.testing.assert_allclose(made.encode(v).detach(), other.transform(v.numpy()), atol=1e-10)


@pytest.mark.parametrize("kind", ["Bernoulli", "softmax"])
def test_a_gibbs_step_leaves_the_distribution_as_it_is(kind):
    made = KINDS[kind]()
    states, n = space(made), 10000
    p = made.log_prob(states).exp().detach()
    for drawn in (
        made.exact_sample(n, seeded(1)),
        made.gibbs(states[weft.multinomial(p, n, True, generator=seeded(2))], 1, seeded(3)),
    ):
        same = (drawn.flatten(1).unsqueeze(1) == states.flatten(1)).all(-1).double()  # (n, S)
        share = same.mean(0)
        assert share.sum().item() == pytest.approx(1)
        assert ((share - p).abs() < 5 * (p * (1 - p) / n).sqrt() + 1e-4).all()


def test_a_gaussian_step_leaves_mean_and_covariance():
    made, n = gaussian(), 60000
    start = made.exact_sample(n, seeded(1))
    after = made.gibbs(start, 1, seeded(2))
    shares = made._hidden_weight(binary_states(3, weft.float64)).softmax(0)
    mean = shares @ made.decode(binary_states(3, weft.float64))
    for drawn in (start, after):
        assert ((drawn.mean(0) - mean).abs() < 4.5 * drawn.std(0) / math.sqrt(n)).all()
    assert weft.allclose(after.mT.cov(), start.mT.cov(), rtol=0.05, atol=0.05)


# ------------------------------------------------------------------------------------ annealing


def test_ais_and_its_reverse_hit_the_exact_value(rbm):
    truth = rbm.log_partition().item()
    low = weft.compile(lambda g: ais(rbm, 300, 150, generator=g)[::2])(seeded(1))
    high = weft.compile(lambda x, g: reverse_ais(rbm, x, 150, generator=g)[::2])(
        rbm.exact_sample(300, seeded(2)), seeded(3)
    )
    for value, error in (low, high):
        assert abs(value.item() - truth) < 3 * error.item() + 1e-9


def test_coarse_annealing_errs_to_its_side():
    """Jensen: log of an unbiased mean is too small. Few chains, few temperatures, strong couplings show it."""
    made = bernoulli(10, 6, scale=2.0)
    truth = made.log_partition().item()
    low, high = (
        ais(made, 600, 4, generator=seeded(1)),
        reverse_ais(made, made.exact_sample(600, seeded(2)), 4, generator=seeded(3)),
    )
    for found, sign in ((low, 1), (high, -1)):
        means = lambda weights: weights.logsumexp(-1) - math.log(weights.shape[-1])
        known = found.value - sign * means(found.log_weights)  # log Z of the base
        runs = known + sign * means(found.log_weights.reshape(300, 2))  # as from 300 runs of two chains
        assert sign * (truth - runs.mean().item()) > 4 * runs.std().item() / math.sqrt(300), found.side


def test_bounds_enclose_the_likelihood_and_name_their_side():
    made = bernoulli(10, 6)
    v = binary_states(10, weft.float64)[::100]
    exact = made.log_prob(v).detach()
    upper = made.log_prob_bound(v, chains=200, temperatures=100, base=base_rates(v), generator=seeded(1))
    lower = made.log_prob_bound(v, "lower", chains=200, temperatures=100, generator=seeded(2))
    assert (upper.side, lower.side, upper.value.shape, upper.error.shape) == (
        "upper",
        "lower",
        v.shape[:1],
        v.shape[:1],
    )
    assert ((upper.value - exact).abs() < 4 * upper.error).all() and (
        (lower.value - exact).abs() < 4 * lower.error
    ).all()
    with pytest.raises(OptionError, match="cannot be ranked"):
        upper.better_than(lower)
    with pytest.raises(OptionError, match="side must be"):
        made.log_prob_bound(v, "both")


def test_one_temperature_is_plain_importance_sampling():
    """log w = log Z_A − F(v) + F_A(v) for v drawn from the base: written out in NumPy."""
    made, base = bernoulli(5, 3), weft.randn(5, generator=seeded(9), dtype=weft.float64)
    found = ais(made, 50, 1, base=base, generator=seeded(4))
    p = 1 / (1 + np.exp(-base.numpy()))
    v = weft.bernoulli(weft.tensor(p).expand(50, 5), generator=seeded(4)).numpy()
    proposal = (v * np.log(p) + (1 - v) * np.log(1 - p)).sum(1)
    log_weight = -made.energy(weft.tensor(v)).detach().numpy() - proposal
    expected = np.log(np.exp(log_weight).mean())
    assert found.value.item() == pytest.approx(expected, abs=1e-9)


# --------------------------------------------------------------------------- pseudo-likelihood, shapes


def test_pseudo_likelihood_and_its_sampled_form():
    """Σᵢ log p(vᵢ | rest) from the table of probabilities; the sampled form has the same mean (and so the same scale)."""
    made = bernoulli()
    states = space(made)
    p = made.log_prob(states).exp().detach().numpy()
    flipped = np.array([[n ^ (1 << i) for i in range(6)] for n in range(64)])
    expected = np.log(p[:, None] / (p[:, None] + p[flipped])).sum(1)
    np.testing.assert_allclose(made.pseudo_log_likelihood(states).detach(), expected, atol=1e-10)
    many = states[[11]].expand(20000, -1)
    drawn = made.sampled_pseudo_log_likelihood(many, seeded(1)).detach()
    assert abs(drawn.mean().item() - expected[11]) < 4.5 * drawn.std().item() / math.sqrt(20000)


def test_compiled_chains_have_the_stream_of_eager(rbm):
    start = rbm.start(12, seeded(1))
    assert weft.allclose(weft.compile(rbm.gibbs)(start, 9, seeded(2)), rbm.gibbs(start, 9, seeded(2)))
    run = lambda g: ais(rbm, 10, 12, generator=g).log_weights
    assert weft.allclose(weft.compile(run)(seeded(3)), run(seeded(3)))


def test_promises_depend_on_size():
    small, large = BernoulliRBM(30, 8), BernoulliRBM(30, 25)
    assert small.promises == {
        **{"log_prob": "exact", "log_prob_bound": "bound", "energy": "exact", "encode": "exact", "decode": "exact"},
        **{"reconstruct": "exact", "sample": "estimate", "interpolate": "exact"},
    }
    assert "score" in gaussian().promises
    with pytest.raises(UnsupportedError, match="BernoulliRBM has no log_prob; it has log_prob_bound"):
        large.log_prob(weft.zeros(1, 30))
    with pytest.raises(ShapeError, match="ais estimates it"):
        large.log_partition()
    with pytest.raises(ShapeError, match=r"expected v of shape \(B, 30\), got \(1, 31\)"):
        small.energy(weft.zeros(1, 31))
    assert BernoulliRBM(4, 60, dtype=weft.float64).log_prob(weft.ones(1, 4).double()).exp().item() == pytest.approx(
        1 / 16, rel=0.2
    )
    assert small.interpolate(weft.zeros(2, 30), weft.ones(2, 30), 5).shape == (5, 2, 30)
    assert small.sample(3, generator=seeded(), steps=2).shape == (3, 30)
