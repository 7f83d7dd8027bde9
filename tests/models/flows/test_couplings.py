"""Couplings, splines and linear maps: knots and tails, data-dependent starts, factors against the plain matrix, learning."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch

import weft
from tests.tables import slow_but
from weft.errors import OptionError, ShapeError
from weft.models.flows import (
    NICE,
    ActNorm,
    BatchNorm,
    Bijector,
    CircularSpline,
    CircularSplineFlow,
    ContinuousFlow,
    Coupling,
    Flow,
    InvertibleLinear,
    LULinear,
    MaskedAutoregressiveFlow,
    NeuralSplineFlow,
    Permutation,
    Planar,
    Radial,
    RationalQuadraticSpline,
    RealNVP,
    ResidualFlow,
    RowCoupling,
    Sylvester,
)
from weft.models.generative import check_normalised, grid

from .common import filled, seeded

DOUBLE = {"dtype": weft.float64}
FLOWS = {
    "nice": lambda **o: NICE(2, (8,), 3, **o),
    "realnvp": lambda **o: RealNVP(2, (8,), 2, **o),
    "spline": lambda **o: NeuralSplineFlow(2, (8,), 2, bins=4, **o),
    "spline-autoregressive": lambda **o: NeuralSplineFlow(2, (8,), 2, bins=4, kind="autoregressive", **o),
}


@pytest.mark.parametrize("name", FLOWS)
def test_densities_of_the_plane_integrate_to_one(name):
    flow = filled(FLOWS[name](**DOUBLE), 0.2).eval()
    check_normalised(flow.log_prob, *grid([(-11, 11)] * 2, 160), tolerance=2e-3)


@pytest.mark.parametrize(("noise", "spread"), [("logistic", math.pi / math.sqrt(3)), ("gaussian", 1.0)])
def test_nice_starts_where_the_data_lie(noise, spread):
    """Codes of the data have the mean and the deviation of the noise, element by element; the volume is that of the scales."""
    random = np.random.default_rng(0)
    x = weft.tensor(random.normal([0.0, 3.0, -1.0, 0.5, 2.0], [1.0, 1e-3, 5.0, 0.1, 2.0], (4000, 5)))
    flow = NICE(5, (8,), 3, noise, **DOUBLE).start(x)
    z, volume = flow.bijector.inverse(x)
    np.testing.assert_allclose(z.mean(0).tolist(), 0.0, atol=1e-8)
    np.testing.assert_allclose(z.std(0).tolist(), spread, rtol=1e-8)
    np.testing.assert_allclose(volume.tolist(), -np.log(x.numpy().std(0, ddof=1) / spread).sum(), rtol=1e-8)
    assert NICE(5, (8,), noise=noise, **DOUBLE).start(weft.ones(3, 5, **DOUBLE)).log_prob(x[:2]).isfinite().all()
    for wrong in (x[:, :4], x[:1], x[0]):
        with pytest.raises(ShapeError, match=r"NICE.start: expected x of shape \(N > 1, 5\)"):
            flow.start(wrong)


def test_densities_on_the_torus_integrate_to_one_and_have_no_seam():
    flow = filled(CircularSplineFlow(2, (8,), bins=4, **DOUBLE), 0.3)
    check_normalised(flow.log_prob, *grid([(-math.pi, math.pi)] * 2, 100), tolerance=2e-3)
    edge, other = weft.linspace(-3, 3, 7, **DOUBLE), weft.full((7,), math.pi - 1e-9, **DOUBLE)
    for pair in (lambda x: weft.stack([edge, x], 1), lambda x: weft.stack([x, edge], 1)):
        weft.testing.assert_close(flow.log_prob(pair(other)), flow.log_prob(pair(-other)), atol=1e-6, rtol=1e-6)


# ---- splines -------------------------------------------------------------------------------------------------


def spline_and_parameters(rows=6, scale=1.5):
    spline = RationalQuadraticSpline(5, 2.0)
    theta = scale * weft.randn(rows, spline.parameters, **DOUBLE, generator=seeded(1))
    return spline, theta


def test_splines_go_through_their_knots_with_their_slopes():
    spline, theta = spline_and_parameters()
    sizes = [2 * 2.0 * (1e-3 + (1 - 5e-3) * theta[:, part].softmax(-1)) for part in (slice(0, 5), slice(5, 10))]
    slopes = 1e-3 + np.logaddexp(0, theta[:, 10:].numpy() + math.log(math.expm1(1 - 1e-3)))
    for knot in range(1, 5):
        x, y = (size[:, :knot].sum(1) - 2.0 for size in sizes)
        found, log_slope = spline.forward(x, theta)
        back, _ = spline.inverse(y, theta)
        np.testing.assert_allclose(found, y, atol=1e-12)
        np.testing.assert_allclose(back, x, atol=1e-9)
        np.testing.assert_allclose(log_slope.exp(), slopes[:, knot - 1], rtol=1e-9)


@pytest.mark.parametrize("dtype", [weft.float32, weft.float64])
def test_splines_at_knots_ends_and_tails_are_finite_and_invertible(dtype):
    """NaN outside of the box, and a crash when every input is outside, are the classical faults."""
    spline, theta = spline_and_parameters(rows=1, scale=0.5)
    x = weft.tensor([-1e30, -5.0, -2.0, -2.0 + 1e-6, 0.0, 1.999999, 2.0, 2.0000002, 7.0, 1e30], dtype=dtype)
    theta = theta.to(dtype).expand(len(x), -1).clone().requires_grad_()
    x.requires_grad_()
    y, slope = spline.forward(x, theta)
    back, shrunk = spline.inverse(y, theta)
    assert ((back - x) / x.abs().clamp(min=1)).abs().max() <= 1e-5 and (slope + shrunk).abs().max() <= 1e-4
    grads = weft.autograd.grad(y.sum() / 1e30 + slope.sum() + shrunk.sum(), [x, theta])
    assert all(g.isfinite().all() for g in grads)
    outside = weft.tensor([-9.0, 9.0], dtype=dtype)
    assert weft.equal(spline.forward(outside, theta[:2])[0], outside)
    assert spline.inverse(outside, theta[:2])[1].tolist() == [0, 0]
    empty = spline.forward(outside[:0], theta[:0])
    assert empty[0].shape == empty[1].shape == (0,)


def test_parameters_of_zero_are_the_identity():
    for map in (RationalQuadraticSpline(6, 3.0), CircularSpline(6)):
        x = weft.linspace(-3.1, 3.1, 40, **DOUBLE)
        y, slope = map.forward(x, weft.zeros(40, map.parameters, **DOUBLE))
        assert (y - x).abs().max() < 1e-12 and slope.abs().max() < 1e-12


def test_splines_rise_and_options_are_checked():
    spline, theta = spline_and_parameters(rows=1)
    x = weft.linspace(-2.5, 2.5, 500, **DOUBLE)
    assert (spline.forward(x, theta.expand(500, -1))[0].diff() > 0).all()
    for make in (lambda: RationalQuadraticSpline(0), lambda: RationalQuadraticSpline(4, -1.0), lambda: RowCoupling(1)):
        with pytest.raises(OptionError, match=r"expected|needs"):
            make()
    with pytest.raises(OptionError, match="halves"):
        Coupling(weft.nn.Identity(), pattern="thirds")
    with pytest.raises(OptionError, match="directions"):
        Sylvester(3, 4)


@pytest.mark.parametrize("raw", [-3.0, 0.0, 4.0])
def test_a_sylvester_map_stretches_and_bends_without_bounds(raw):
    """Along one direction: y = z + R tanh(R̃ z), 1 + R R̃ at 0, with R R̃ = (softplus(raw + log(e − 1)) − 1) R̃² / (1 + R̃²)."""
    map = Sylvester(1, 1, **DOUBLE)
    with weft.no_grad():
        map.values.copy_(weft.tensor([raw, 19.0, 0.0], **DOUBLE))
    product = (math.log1p(math.exp(raw) * (math.e - 1)) - 1) * 400 / 401
    z = weft.tensor([[0.0], [-5.0], [5.0]], **DOUBLE)
    y, log_det = map(z)
    assert math.isclose(log_det[0].item(), math.log1p(product), rel_tol=1e-12)
    assert (y - z - product / 20 * weft.tensor([[0.0], [-1.0], [1.0]], **DOUBLE)).abs().max() < 1e-12
    assert (map.inverse(y)[0] - z).abs().max() < 1e-9


# ---- linear maps ---------------------------------------------------------------------------------------------


def test_triangular_factors_are_the_plain_matrix():
    factors = filled(LULinear(4, **DOUBLE), 0.7)
    plain = InvertibleLinear(4, **DOUBLE)
    with weft.no_grad():
        plain.weight.copy_(factors.matrix())
    x = weft.randn(3, 4, 2, 3, **DOUBLE, generator=seeded())
    for ours, theirs in zip((*factors(x), *factors.inverse(x)), (*plain(x), *plain.inverse(x)), strict=True):
        weft.testing.assert_close(ours, theirs, atol=1e-9, rtol=1e-9)
    conv = torch.nn.functional.conv2d(
        torch.tensor(x.numpy()), torch.tensor(plain.weight.detach().numpy())[:, :, None, None]
    )
    np.testing.assert_allclose(plain(x)[0].detach().numpy(), conv.numpy(), atol=1e-12)


@pytest.mark.parametrize("backward", [False, True], ids=["forward", "inverse"])
def test_actnorm_starts_from_the_first_batch_compiled_as_eagerly(backward):
    data = 5 + 3 * weft.randn(64, 3, 4, generator=seeded())
    found = []
    for wrap in (lambda f: f, weft.compile):
        norm = ActNorm(3)
        step = wrap(lambda x, norm=norm: (norm.inverse if backward else norm)(x)[0].detach())
        for scale in (1.0, 10.0):  # the second batch decides nothing
            y = step(data * scale)
        found.append((y, norm.shift.detach().clone(), norm.log_scale.detach().clone()))
        first = y / 10 if not backward else None
        assert bool(norm.started)
        z = (norm.eval().inverse if backward else norm.eval())(data)[0]
        assert z.mean((0, 2)).abs().max() < 1e-5 and (z.std((0, 2)) - 1).abs().max() < 1e-2
        assert first is None or first.isfinite().all()
    weft.testing.assert_close(found[0], found[1], atol=1e-5, rtol=1e-5)


def test_batch_norm_backwards_before_forwards_is_defined():
    norm = BatchNorm(3)
    z = weft.randn(5, 3, generator=seeded())
    x, volume = norm(z)  # drawing before any training
    weft.testing.assert_close(x, z, atol=1e-4, rtol=1e-4)
    assert volume.abs().max() < 1e-4
    back = norm.eval().inverse(x)[0]
    weft.testing.assert_close(back, z, atol=1e-5, rtol=1e-5)


def test_batch_norm_is_pytorchs():
    ours, theirs = BatchNorm(3, **DOUBLE), torch.nn.BatchNorm1d(3).double()
    for seed in range(3):
        x = 2 + 3 * weft.randn(40, 3, **DOUBLE, generator=seeded(seed))
        y = ours.inverse(x)[0]
        np.testing.assert_allclose(y.detach().numpy(), theirs(torch.tensor(x.numpy())).detach().numpy(), atol=1e-9)
    np.testing.assert_allclose(ours.running_mean, theirs.running_mean, atol=1e-9)
    np.testing.assert_allclose(ours.running_var, theirs.running_var, rtol=0.03)  # PyTorch's divides by n − 1


def test_orders_are_checked():
    assert Permutation(3)(weft.tensor([[1.0, 2, 3]]))[0].tolist() == [[3, 2, 1]]
    with pytest.raises(OptionError, match="places"):
        Permutation(3, [0, 0, 1])


# ---- learning ------------------------------------------------------------------------------------------------


def moments_learned(flow, data, steps=80, lr=0.02):
    optimizer = weft.optim.Adam(flow.parameters(), lr=lr)

    @weft.compile
    def step(x):
        optimizer.zero_grad()
        loss = flow.forward_kld(x)
        loss.backward()
        optimizer.step()
        return loss

    return [step(data).item() for _ in range(steps)][-1]


def _many(kind, number, *sizes):
    return lambda: Flow([*(kind(2, *sizes) for _ in range(number)), ActNorm(2)], 2)


FIXED = {"method": "rk4", "options": {"num_steps": 4}}
LEARNERS = {  # flow, nats that it may miss the entropy by
    "nice": (FLOWS["nice"], 0.45),
    "realnvp": (FLOWS["realnvp"], 0.3),
    "spline": (FLOWS["spline"], 0.3),
    "planar": (_many(Planar, 8), 0.3),
    "radial": (_many(Radial, 8), 0.5),
    "sylvester": (_many(Sylvester, 4, 2), 0.3),
    "maf": (lambda: MaskedAutoregressiveFlow(2, (16,), 2, batch_norm=False), 0.15),
    "residual": (lambda: ResidualFlow(2, (16,), 3), 0.2),
    "residual, series": (lambda: ResidualFlow(2, (16,), 3, log_det="roulette"), 0.3),
    "continuous": (lambda: ContinuousFlow(2, (16,), **FIXED), 0.5),
}


@pytest.mark.parametrize("name", slow_but(lambda name: "series" not in name, LEARNERS))
def test_learning_a_bend_beats_the_best_normal_distribution(name):
    """x₁ ~ N(0, 1), x₂ = x₁² + N(0, ½²): entropy known, that of the best normal distribution 1 nat above it."""
    weft.manual_seed(0)
    noise = weft.randn(1000, 2, generator=seeded())
    data = weft.stack([noise[:, 0], noise[:, 0] ** 2 - 1 + 0.5 * noise[:, 1]], 1)
    entropy = math.log(2 * math.pi * math.e) + math.log(0.5)
    normal = math.log(2 * math.pi * math.e) + 0.5 * math.log(weft.cov(data.mT).det().item())
    make, missed = LEARNERS[name]
    loss = moments_learned(make(), data)
    assert normal - entropy > 0.9 and loss < entropy + missed


def test_every_flow_is_a_bijector_of_its_rows():
    assert all(isinstance(FLOWS[name]().bijector, Bijector) for name in FLOWS)
