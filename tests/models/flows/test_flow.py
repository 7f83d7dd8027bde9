"""`Flow` as a model and as a distribution: shapes, contexts, draws, divergences, refusals; the classical maps' own truths."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from scipy import stats

import weft
from weft.distributions import Normal, TransformedDistribution
from weft.errors import (
    ArgumentError,
    ConditionError,
    DtypeError,
    InvalidValueError,
    OptionError,
    ShapeError,
    UnsupportedError,
)
from weft.models.flows import (
    IAF,
    MAF,
    Affine,
    Bijector,
    Chain,
    Flow,
    GaussianNoise,
    LogisticNoise,
    Planar,
    PowerNoise,
    Radial,
    Transformed,
    UniformNoise,
)
from weft.models.generative import check_gradient_estimator, check_invertible, check_normalised, grid

from .common import filled, seeded

DOUBLE = {"dtype": weft.float64}
GRID = grid([(-8, 8), (-8, 8)], 130)

TWO = {
    "planar": lambda **o: Chain(Planar(2, **o), Planar(2, **o)),
    "radial": lambda **o: Chain(Radial(2, **o), Radial(2, **o)),
    "maf": lambda **o: Chain(MAF(2, (8,), **o), MAF(2, (8,), order="reversed", **o)),
    "iaf": lambda **o: IAF(2, (8,), **o),
}


@pytest.mark.parametrize("name", TWO)
def test_densities_of_the_plane_integrate_to_one(name):
    f = filled(TWO[name](**DOUBLE), 0.5)
    check_invertible(f, f.inverse, weft.randn(2, 2, **DOUBLE, generator=seeded()), integral=GRID)


def test_a_map_that_folds_the_plane_is_found_by_the_integral():
    class Folded(Bijector):
        def forward(self, x, context=None):
            return x.abs(), weft.zeros(len(x), **DOUBLE)

        inverse = forward

    f = Folded()
    with pytest.raises(ConditionError, match="sum to"):
        check_invertible(f, f.inverse, weft.ones(1, 2, **DOUBLE), integral=grid([(0, 9), (0, 9)], 50))


# ---- planar and radial ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("size", [0.05, 1.0, 7.0])
def test_planar_u_is_moved_along_w_over_its_squared_length(size):
    """wᵀû = −1 + softplus(wᵀu) for every ‖w‖; divided by ‖w‖ it holds for ‖w‖ = 1 alone, and f has no inverse."""
    f = Planar(4, **DOUBLE)
    with weft.no_grad():
        f.values.copy_(weft.randn(9, **DOUBLE, generator=seeded(3)) * 3)
        f.values[4:8] *= size / f.values[4:8].norm()
    moved, w, _ = f.directions()
    u = f.values[:4].detach().numpy()
    expected = -1 + np.logaddexp(0, w.detach().numpy()[0] @ u)
    assert (moved * w).sum().item() == pytest.approx(expected, abs=1e-12) and expected > -1
    across = moved.detach().numpy()[0] - u  # along w, nowhere else
    assert np.allclose(across * size**2, w.detach().numpy()[0] * (across @ w.detach().numpy()[0]))


def test_planar_without_a_direction_is_still_finite():
    f = Planar(3)
    with weft.no_grad():
        f.values.zero_()
    y, volume = f(weft.randn(4, 3))
    volume.sum().backward()
    assert y.isfinite().all() and f.values.grad.isfinite().all()


def test_radial_at_its_centre_has_finite_gradients():
    f = Radial(3, **DOUBLE)
    x = f.values[:3].detach().unsqueeze(0).requires_grad_()
    y, volume = f(x)
    (y.sum() + volume.sum() + f.inverse(y)[0].sum()).backward()
    assert x.grad.isfinite().all() and f.values.grad.isfinite().all()


def test_gradients_through_inverses_that_have_no_formula():
    """Planar's inverse is a root; its derivative must be that of the implicit function, 1 / f'."""
    f = filled(Planar(2, **DOUBLE), 1.0)
    x = weft.randn(2, **DOUBLE, generator=seeded(1))
    ahead = weft.func.jacrev(lambda x: f(x.unsqueeze(0))[0][0])(x)
    y = f(x.unsqueeze(0))[0][0].detach()
    back = weft.func.jacrev(lambda y: f.inverse(y.unsqueeze(0))[0][0])(y)
    np.testing.assert_allclose((back @ ahead).detach().numpy(), np.eye(2), atol=1e-9)


# ---- autoregressive maps -------------------------------------------------------------------------------------


def test_drawing_from_maf_is_inverting_iaf():
    maf = filled(MAF(5, (16, 16), order="random", **DOUBLE))
    iaf = IAF(5, (16, 16), Affine().inv, order="random", **DOUBLE)
    iaf.load_state_dict(maf.state_dict())
    z = weft.randn(7, 5, **DOUBLE, generator=seeded())
    assert weft.equal(maf(z)[0], iaf.inverse(z)[0]) and weft.equal(maf(z)[1], iaf.inverse(z)[1])
    x = maf(z)[0]
    assert weft.equal(maf.inverse(x)[0], iaf(x)[0])


@pytest.mark.parametrize("order", ["natural", "reversed", "random"])
def test_jacobians_of_autoregressive_maps_are_triangular_along_the_order(order):
    maf = filled(MAF(4, (12,), order=order, seed=2, context=2, **DOUBLE))
    slopes = weft.func.jacrev(lambda x: maf.inverse(x.unsqueeze(0), weft.ones(1, 2, **DOUBLE))[0][0])(
        weft.randn(4, **DOUBLE, generator=seeded())
    )
    ordered = slopes.detach().numpy()[np.ix_(maf.net.order, maf.net.order)]
    assert not np.triu(ordered, 1).any() and np.abs(ordered[np.tril_indices(4)]).min() > 0


def test_the_first_element_sees_the_context():
    maf = filled(MAF(3, (24,), context=2, **DOUBLE), 1.0)
    z = weft.zeros(2, 3, **DOUBLE)
    x = maf(z, weft.tensor([[0.0, 0], [9, 9]], **DOUBLE))[0]
    assert (x[0] - x[1]).abs().min() > 1e-3


def test_one_maf_is_made_with_normal_conditionals():
    flow = filled(Flow(MAF(3, (8,), **DOUBLE), 3, **DOUBLE))
    x = weft.randn(6, 3, **DOUBLE, generator=seeded(4))
    theta = flow.bijector.net(x)
    scale = (7 * weft.tanh(theta[..., 1] / 7)).exp()
    expected = torch.distributions.Normal(*(torch.tensor(v.detach().numpy()) for v in (theta[..., 0], scale)))
    np.testing.assert_allclose(
        flow.log_prob(x).detach().numpy(), expected.log_prob(torch.tensor(x.numpy())).sum(1), rtol=1e-10
    )


# ---- the model -----------------------------------------------------------------------------------------------


def conditional():
    return filled(Flow([Planar(2, context=3), IAF(2, (8,), context=3)], GaussianNoise(2, context=3), context=3), 0.5)


def test_a_distribution_for_every_context():
    flow, c = conditional(), weft.randn(5, 3, generator=seeded())
    q = flow(c)
    x, value = q.rsample_and_log_prob((4,))
    assert q.batch_shape == (5,) and q.event_shape == (2,) and x.shape == (4, 5, 2) and value.shape == (4, 5)
    weft.testing.assert_close(q.log_prob(x), value, atol=1e-4, rtol=1e-4)
    weft.testing.assert_close(q.log_prob(x[0, 0])[0], value[0, 0], atol=1e-4, rtol=1e-4)
    weft.testing.assert_close(flow(c[2:3]).log_prob(x[:, 2:3]), value[:, 2:3], atol=1e-4, rtol=1e-4)
    assert q.rsample().requires_grad and not q.sample().requires_grad and q.has_rsample
    assert flow(c[:1]).expand((7,)).sample().shape == (7, 2)


def test_flows_of_transforms_are_transformed_distributions():
    """The maps of `weft.distributions` are bijectors, with the density that PyTorch gives."""
    flow = Flow(Transformed(weft.distributions.SigmoidTransform()), 1)
    x = weft.tensor([[0.2], [0.9]])
    theirs = torch.distributions.TransformedDistribution(
        torch.distributions.Normal(0.0, 1.0), torch.distributions.SigmoidTransform()
    )
    np.testing.assert_allclose(flow.log_prob(x), theirs.log_prob(torch.tensor(x.numpy()))[:, 0], rtol=1e-5)
    ours = TransformedDistribution(Normal(0.0, 1.0), weft.distributions.SigmoidTransform())
    weft.testing.assert_close(flow().log_prob(x), ours.log_prob(x)[:, 0])


def test_samples_are_one_plan_and_those_of_eager_code():
    flow = filled(Flow([MAF(3, (8,)), Planar(3)], 3))
    first = flow.sample(50, generator=seeded(5))
    assert weft.equal(first, flow.sample(50, generator=seeded(5)))
    z = weft.randn(50, 3, generator=seeded(5))
    weft.testing.assert_close(first, flow.decode(z), atol=1e-5, rtol=1e-5)
    assert flow._plans.made["sample"].plans == 1
    weft.testing.assert_close(flow.encode(first), z, atol=1e-4, rtol=1e-4)


def test_promises_score_and_interpolation():
    flow = filled(Flow(Radial(2, **DOUBLE), 2, **DOUBLE))
    assert flow.promises["log_prob"] == flow.promises["sample"] == flow.promises["score"] == "exact"
    x = weft.randn(3, 2, **DOUBLE, generator=seeded())
    h = 1e-6
    step = weft.tensor([[h, 0.0]], **DOUBLE)
    slope = (flow.log_prob(x + step) - flow.log_prob(x - step)) / (2 * h)
    weft.testing.assert_close(flow.score(x)[:, 0], slope, atol=1e-7, rtol=1e-6)
    weft.testing.assert_close(flow.interpolate(x, x.flip(0), 3)[0], x, atol=1e-9, rtol=1e-9)


@pytest.mark.parametrize(
    "noise",
    [
        GaussianNoise(2, learned=True, **DOUBLE),
        LogisticNoise(2, **DOUBLE),
        PowerNoise(2, 3.0, **DOUBLE),
        UniformNoise(2, -1, 2, **DOUBLE),
    ],
)
def test_noise_is_normalised_and_drawn_as_it_says(noise):
    if isinstance(noise, GaussianNoise):
        filled(noise, 0.5)
    check_normalised(noise.log_prob, *grid([(-30, 30)] * 2, 300), tolerance=5e-3)
    z = noise.draw(4000, generator=seeded())
    mean, second = z.mean(0), (z**2).mean(0)
    points, cell = grid([(-30, 30)] * 2, 300)
    p = noise.log_prob(points).exp().unsqueeze(1) * cell
    deviation = lambda power: ((z**power).std(0) / math.sqrt(len(z))).clamp(min=1e-6)
    assert ((mean - (p * points).sum(0)).abs() < 5 * deviation(1) + 5e-3).all()
    assert ((second - (p * points**2).sum(0)).abs() < 5 * deviation(2) + 2e-2).all()


@pytest.mark.parametrize("exponent", [1.2, 2.0, 5.0, 40.0])
def test_power_noise_is_the_generalised_normal_distribution(exponent):
    """SciPy's, of variance 1; draws move with the exponent as the fourth moment does."""
    law = stats.gennorm(exponent, scale=stats.gennorm(exponent).var() ** -0.5)
    noise = PowerNoise(3, exponent, **DOUBLE)
    z = weft.randn(50, 3, **DOUBLE, generator=seeded())
    expected = law.logpdf(z.numpy()).sum(1)
    np.testing.assert_allclose(noise.log_prob(z).detach().numpy(), expected, rtol=1e-12)
    drawn = noise.draw(20_000, generator=seeded())
    assert min(stats.kstest(column, law.cdf).pvalue for column in drawn.detach().numpy().T) > 1e-3
    (drawn**4).mean().backward()
    kurtosis = lambda b: math.gamma(5 / b) * math.gamma(1 / b) / math.gamma(3 / b) ** 2
    slope = (kurtosis(exponent + 1e-4) - kurtosis(exponent - 1e-4)) / 2e-4 * (exponent - 1)
    assert math.isclose(noise.log_excess.grad.sum().item(), slope, rel_tol=0.15)
    weft.testing.assert_close(noise.draw(5, generator=seeded(4)), noise.draw(5, generator=seeded(4)))
    with pytest.raises(OptionError, match="above 1"):
        PowerNoise(2, 1.0)


def test_reverse_divergence_has_the_gradient_of_the_exact_one():
    """Planar flow of one number against N(1, 0.5²): the divergence on a grid, differentiated."""
    flow = filled(Flow(Planar(1, **DOUBLE), 1, **DOUBLE), 0.6, seed=3)
    target = lambda x: Normal(1.0, 0.5).log_prob(x[:, 0])
    points, cell = grid([(-9, 9)], 1000)
    own = flow.log_prob(points)
    exact = weft.autograd.grad((own.exp() * (own - target(points))).sum() * cell, [flow.bijector.values])[0]
    generator = seeded()
    drawn = lambda: weft.autograd.grad(flow.reverse_kld(target, 50, generator=generator), [flow.bijector.values])[0]
    check_gradient_estimator(drawn, exact, draws=120)


def test_flows_learn_in_one_compiled_step():
    """Maximum likelihood: a correlated normal, whose entropy is known; the flow must reach it."""
    weft.manual_seed(0)
    covariance = weft.tensor([[1.0, 0.8], [0.8, 1.0]])
    data = weft.randn(2000, 2, generator=seeded()) @ weft.linalg.cholesky(covariance).mT
    flow = Flow(MAF(2, (16,)), 2)
    optimizer = weft.optim.Adam(flow.parameters(), lr=0.02)

    @weft.compile
    def step(x):
        optimizer.zero_grad()
        loss = flow.forward_kld(x)
        loss.backward()
        optimizer.step()
        return loss

    for _ in range(150):
        loss = step(data)
    entropy = -weft.distributions.MultivariateNormal(weft.zeros(2), covariance).log_prob(data).mean()
    assert loss.item() == pytest.approx(entropy.item(), abs=0.02)


def test_what_does_not_fit_is_refused():
    flow, plain = conditional(), Flow(Planar(2), 2)
    with pytest.raises(ShapeError, match=r"expected x of shape \(B, 2\)"):
        plain.log_prob(weft.zeros(3, 4))
    with pytest.raises(DtypeError, match="real numbers"):
        plain.log_prob(weft.zeros(3, 2, dtype=weft.int64))
    with pytest.raises(ArgumentError, match="needs a context"):
        flow.log_prob(weft.zeros(3, 2))
    with pytest.raises(ArgumentError, match="needs a context"):
        flow()
    with pytest.raises(ShapeError, match="3 contexts"):
        flow.log_prob(weft.zeros(3, 2), weft.zeros(2, 3))
    with pytest.raises(UnsupportedError, match="no condition"):
        plain.sample(2, weft.zeros(2, 3))
    with pytest.raises(InvalidValueError, match="support"):
        plain().log_prob(weft.tensor([[math.nan, 0.0]]))
    with pytest.raises(ArgumentError, match="no inverse"):
        Transformed(weft.distributions.AbsTransform())
    assert plain.log_prob(weft.tensor([[math.nan, 0.0], [1e20, 0.0]])).isnan().tolist() == [True, False]
