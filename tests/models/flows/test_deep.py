"""Glow, residual and continuous flows, distilling, sequences, integral transforms, gradient flows, levels of grey."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy import stats

import weft
from weft.errors import OptionError, ShapeError
from weft.models.flows import (
    IAF,
    MAF,
    Bijector,
    Continuous,
    ContinuousFlow,
    Dequantised,
    Flow,
    Glow,
    IntegralTransform,
    Residual,
    ResidualFlow,
    RowCoupling,
    Scaling,
    SequenceFlow,
    Squash,
    Transformed,
    UniformNoise,
    VectorField,
    between,
    distil,
    exact_log_det,
    inpaint,
    jko_normal,
    jko_step,
    kernel_score,
    normal_conditionals,
    normal_score,
    ornstein_uhlenbeck,
    particle_flow,
    roulette_log_det,
)
from weft.models.generative import check_normalised, grid

from .common import filled, seeded

DOUBLE = {"dtype": weft.float64}


def trained(loss, parameters, steps, lr):
    optimizer = weft.optim.Adam(parameters, lr=lr)

    @weft.compile
    def step():
        optimizer.zero_grad()
        value = loss()
        value.backward()
        optimizer.step()
        return value

    return [step().item() for _ in range(steps)]


# ---- Glow ----------------------------------------------------------------------------------------------------


def test_glow_is_one_distribution_over_all_scales_and_learns_in_a_plan():
    weft.manual_seed(0)
    glow = Glow((1, 4, 4), scales=2, steps=1, features=4)
    base = weft.randn(64, 1, 4, 4, generator=seeded())
    data = 3 + 2 * (base + base.roll(1, 3))  # neighbours agree
    losses = trained(lambda: glow.forward_kld(data), list(glow.parameters()), 25, 0.02)
    normal = -weft.distributions.Normal(data.mean(), data.std()).log_prob(data).flatten(1).sum(1).mean().item()
    assert losses[-1] < losses[0] - 3 and losses[-1] < normal - 2
    q = glow.eval()()
    x, value = q.rsample_and_log_prob((5,))
    assert q.event_shape == (1, 4, 4) and q.batch_shape == () and x.shape == (5, 1, 4, 4)
    weft.testing.assert_close(q.log_prob(x), value, atol=2e-3, rtol=1e-3)
    first = glow.bijector.parts[0].bijector.steps[0].parts[0].parts[0]
    assert bool(first.started) and abs(first.shift.mean().item()) > 0.5  # actnorm saw the data inside of the plan
    assert glow.sample(3, generator=seeded()).shape == (3, 1, 4, 4)


def test_conditional_glow_sees_its_image():
    glow = filled(Glow((1, 4, 4), scales=1, steps=1, features=4, context=(1, 4, 4)), 0.3).eval()
    c = weft.randn(2, 1, 4, 4, generator=seeded())
    x = weft.zeros(2, 1, 4, 4)
    same, swapped = glow.log_prob(x, c), glow.log_prob(x, c.flip(0))
    weft.testing.assert_close(same.flip(0), swapped)
    assert (same - swapped).abs().min() > 1e-4
    assert glow.sample(3, c[0]).shape == (3, 1, 4, 4) and glow(c).sample((2,)).shape == (2, 2, 1, 4, 4)
    with pytest.raises(OptionError, match="halve"):
        Glow((1, 6, 6), scales=2)


def test_conditional_glow_learns_what_an_image_says_of_another():
    """x | c ~ N(c, 0.25) pixel by pixel: the density comes to its entropy, draws to its mean and deviation. One that saw c
    smaller, or not at all, could not: −24.5 nats without c."""
    weft.manual_seed(0)
    glow = Glow((1, 4, 4), scales=1, steps=4, features=32, context=(1, 4, 4))

    def drawn(n):
        c = weft.randn(n, 1, 4, 4)
        return c + 0.5 * weft.randn(n, 1, 4, 4), c

    glow.log_prob(*drawn(256))  # actnorm sees data first
    trained(lambda: glow.forward_kld(*drawn(256)), list(glow.parameters()), 400, 1e-2)
    x, c = drawn(2000)
    with weft.no_grad():
        found = glow.eval().log_prob(x, c).mean().item()
        other = glow.log_prob(x, c.flip(0)).mean().item()
    entropy = 8 * math.log(2 * math.pi * math.e * 0.25)
    assert -entropy - 1.5 < found < -entropy + 0.5 and other < found - 20
    draws = glow.sample(2000, c[0], generator=seeded())
    assert (draws.mean(0) - c[0]).abs().max() < 0.35
    assert 0.4 < draws.std(0).min() and draws.std(0).max() < 0.65


def test_inpainting_draws_from_the_conditional_density():
    """x = L z with correlation 0.8: x₂ given x₁ = 1 is N(0.8, 0.36)."""

    class Correlated(Bijector):
        lower = weft.tensor([[1.0, 0.0], [0.8, 0.6]])

        def forward(self, x, context=None):
            return x @ self.lower.mT, weft.full((len(x),), math.log(0.6))

        def inverse(self, y, context=None):
            return weft.linalg.solve_triangular(self.lower, y.mT, upper=False).mT, weft.full((len(y),), -math.log(0.6))

    start = weft.tensor([[1.0, 0.0]]).repeat(600, 1)
    flow, known = Flow(Correlated(), 2), weft.tensor([True, False])
    chains = lambda start: inpaint(flow, start, known, steps=15, step=0.25, leaps=5, generator=seeded())
    x, accepted = chains(start)
    assert weft.equal(x[:, 0], start[:, 0]) and accepted.mean() > 0.8
    moved = chains(start + 1)[0]  # other images, the same plan
    assert weft.equal(moved[:, 0], start[:, 0] + 1) and flow._plans.made["_chains"].plans == 1
    assert stats.kstest(x[:, 1].numpy(), stats.norm(0.8, 0.6).cdf).pvalue > 1e-3


# ---- residual and continuous flows ---------------------------------------------------------------------------


def test_roulette_is_unbiased():
    block = filled(Residual(3, (6,), bound=0.6, **DOUBLE), 0.6).eval()
    for layer in block.layers:
        layer.iterate(100)
    x = weft.randn(1, 3, **DOUBLE, generator=seeded()).expand(400, -1)
    true = exact_log_det(block.contraction, x[:1]).item()
    weft.manual_seed(0)
    draws = weft.cat([roulette_log_det(block.contraction, x) for _ in range(25)]).detach().numpy().reshape(25, -1)
    means = draws.mean(1)  # one number of terms a call
    assert abs(means.mean() - true) < 4 * means.std(ddof=1) / 5
    assert draws.std() > 1e-3 and not ResidualFlow(2, (4,), 1, log_det="roulette").bijector.exact
    assert ResidualFlow(2, (4,), 1, log_det="roulette").promises["log_prob"] == "estimate"


def test_contractions_stay_below_their_bound_and_draws_come_back():
    flow = filled(ResidualFlow(2, (8,), 2, bound=0.7, **DOUBLE), 2.0).eval()
    for module in flow.modules():
        if hasattr(module, "iterate"):
            module.iterate(200)
            size = np.linalg.norm(module.weight.detach().numpy(), 2)
            kept = np.linalg.norm(
                module(weft.eye(2 if module.in_features == 2 else 8, **DOUBLE)).detach().numpy()
                - module.bias.detach().numpy(),
                2,
            )
            assert kept <= 0.7 + 1e-6 < size
    x = flow.sample(20, generator=seeded())
    z = weft.randn(20, 2, **DOUBLE, generator=seeded())
    weft.testing.assert_close(flow.encode(x), z, atol=1e-8, rtol=1e-8)
    y = weft.zeros(1, 2, **DOUBLE, requires_grad=True)  # implicit gradient of the inverse
    block = flow.bijector.parts[0].bijector
    back = weft.func.jacrev(lambda y: block.inverse(y.unsqueeze(0))[0][0])(y[0].detach())
    ahead = weft.func.jacrev(lambda x: block(x.unsqueeze(0))[0][0])(block.inverse(y)[0][0].detach())
    np.testing.assert_allclose((ahead @ back).detach().numpy(), np.eye(2), atol=1e-6)


@pytest.mark.parametrize("compiled", [False, True], ids=["eager", "plan"])
def test_draws_of_residual_flows_tell_every_weight_its_gradient(compiled):
    """Through the inverse, that is the fixed point: against differences, for weights, biases and the context."""
    flow = filled(ResidualFlow(2, (8,), 2, bound=0.7, context=3, **DOUBLE), 2.0).eval()
    for module in flow.modules():
        if hasattr(module, "iterate"):
            module.iterate(200)
    z = weft.randn(20, 2, **DOUBLE, generator=seeded())
    c = weft.randn(20, 3, **DOUBLE, generator=seeded(1)).requires_grad_()

    def loss():
        x, volume = flow.bijector(z, c)
        return ((x**2).sum(1) - volume).mean()

    def step():
        loss().backward()

    (weft.compile(step) if compiled else step)()
    for value in (c, *flow.parameters()):
        slopes = value.grad.flatten()
        place, width = int(slopes.abs().argmax()), 1e-6
        with weft.no_grad():
            flat = value.view(-1)
            start = flat[place].item()
            sides = []
            for moved in (start + width, start - width):
                flat[place] = moved
                sides.append(loss().item())
            flat[place] = start
        assert slopes[place].item() == pytest.approx((sides[0] - sides[1]) / (2 * width), rel=1e-5)


def test_continuous_flow_of_a_linear_field_is_the_matrix_exponential():
    """dx/dt = A x: x(1) = e^A x, log|det| = tr A."""
    matrix = weft.tensor([[0.3, -0.5], [0.2, -0.7]], **DOUBLE)

    class Linear(weft.nn.Module):
        def forward(self, t, x, context=None):
            return x @ matrix.mT

    x = weft.randn(3, 2, **DOUBLE, generator=seeded())
    y, volume = Continuous(Linear(), rtol=1e-9, atol=1e-10)(x)
    weft.testing.assert_close(y, x @ weft.linalg.matrix_exp(matrix).mT, atol=1e-7, rtol=1e-7)
    assert (volume + 0.4).abs().max() < 1e-7


def test_hutchinsons_trace_is_unbiased():
    weft.manual_seed(1)
    field = filled(VectorField(3, (6,), **DOUBLE), 0.7)
    options = {"method": "rk4", "options": {"num_steps": 2}}
    x = weft.randn(1, 3, **DOUBLE, generator=seeded()).expand(3000, -1)
    with weft.no_grad():
        true = Continuous(field, **options)(x[:1])[1].item()
        drawn = Continuous(field, "hutchinson", **options)(x)[1].numpy()
    assert abs(drawn.mean() - true) < 4 * drawn.std() / math.sqrt(3000) and drawn.std() > 0.01


def test_continuous_densities_integrate_to_one_and_adjoint_gradients_agree():
    flow = filled(ContinuousFlow(2, (6,), method="rk4", options={"num_steps": 5}, **DOUBLE), 0.6)
    with weft.no_grad():
        check_normalised(flow.log_prob, *grid([(-7, 7)] * 2, 60), tolerance=2e-3)
    x = weft.randn(4, 2, **DOUBLE, generator=seeded())
    slopes = []
    for adjoint in (False, True):
        flow.bijector.adjoint = adjoint
        flow.bijector.options["options"] = {"num_steps": 8}
        step = lambda: weft.autograd.grad(flow.forward_kld(x), list(flow.parameters()))
        slopes.append(weft.compile(step)() if adjoint else step())
    for direct, by_adjoint in zip(*slopes, strict=True):
        weft.testing.assert_close(direct, by_adjoint, atol=1e-5, rtol=1e-4)


# ---- imitation, sequences, transforms ------------------------------------------------------------------------


def test_iaf_learns_what_maf_knows():
    teacher = filled(Flow(MAF(2, (8,)), 2), 0.5, seed=5)
    weft.manual_seed(0)
    student = Flow(IAF(2, (16,)), 2)
    losses = distil(teacher, student, steps=120, batch_size=128, lr=0.02)
    assert np.mean(losses[-20:]) < 0.1 * losses[0] and np.mean(losses[-20:]) > -0.02  # a divergence, so not below 0
    with pytest.raises(ShapeError, match="teacher"):
        distil(teacher, Flow(IAF(3), 3))


def test_sequences_are_a_walk_of_normal_numbers():
    """Before training x_t − x_{t−1} is standard normal, and the density is that of a random walk."""
    flow = SequenceFlow(6, 2, hidden=4, net=(4,), **DOUBLE)
    x = weft.randn(3, 6, 2, **DOUBLE, generator=seeded()).cumsum(1)
    steps = x.diff(dim=1, prepend=weft.zeros(3, 1, 2, **DOUBLE))
    np.testing.assert_allclose(flow.log_prob(x).detach(), stats.norm.logpdf(steps.numpy()).sum((1, 2)))
    flow = filled(flow, 0.4)
    weft.testing.assert_close(flow.decode(flow.encode(x)), x, atol=1e-9, rtol=1e-9)
    changed = x.clone()
    changed[:, 3:] += 1.0  # what comes later changes nothing before it
    weft.testing.assert_close(flow.encode(changed)[:, :3], flow.encode(x)[:, :3])


def test_between_two_normal_densities_the_map_is_that_of_their_cholesky_factors():
    """N1 theorem 10.1 with both sides known: Y = μ + L_Y L_X⁻¹ (x − ν)."""
    make = lambda seed: (lambda a: a @ a.mT + weft.eye(3, **DOUBLE))(weft.randn(3, 3, **DOUBLE, generator=seeded(seed)))
    (s, t), (m, n) = (make(1), make(2)), weft.randn(2, 3, **DOUBLE, generator=seeded(3)).unbind()
    x = m + weft.randn(400, 3, **DOUBLE, generator=seeded(4)) @ weft.linalg.cholesky(s).mT
    y, volume = between(normal_conditionals(m, s), normal_conditionals(n, t))(x)
    factors = [weft.linalg.cholesky(v) for v in (t, s)]
    expected = n + (factors[0] @ weft.linalg.solve_triangular(factors[1], (x - m).mT, upper=False)).mT
    weft.testing.assert_close(y, expected, atol=1e-6, rtol=1e-6)
    u = IntegralTransform(normal_conditionals(m, s))(x)[0].numpy()
    assert all(stats.kstest(u[:, i], "uniform").pvalue > 1e-3 for i in range(3))
    assert abs(np.corrcoef(u.T)[np.triu_indices(3, 1)]).max() < 0.2
    weft.testing.assert_close(volume, volume[:1].expand(400), atol=1e-6, rtol=1e-6)


# ---- Wasserstein gradient flow -------------------------------------------------------------------------------


def test_jko_steps_tend_to_ornstein_uhlenbeck():
    """First order in τ: at time 1, halving τ halves the distance."""
    start, errors = (weft.tensor([2.0], **DOUBLE), weft.tensor([0.3], **DOUBLE)), []
    true = ornstein_uhlenbeck(*start, 1.0, rate=1.5)
    for count in (50, 100):
        mean, std = start
        for _ in range(count):
            mean, std = jko_normal(mean, std, 1 / count, rate=1.5)
        errors.append((abs((mean - true[0]).item()), abs((std - true[1]).item())))
    ratios = np.array(errors[0]) / np.array(errors[1])
    assert np.all(np.abs(ratios - 2) < 0.1) and max(errors[1]) < 0.02


def test_a_learned_jko_step_is_the_closed_one():
    tau, rate = 0.5, 2.0
    x = weft.randn(500, 2, **DOUBLE, generator=seeded())
    x = 1.5 + 0.4 * (x - x.mean(0)) / x.std(0, correction=0)

    class Line(Scaling):
        def __init__(self):
            super().__init__(2, **DOUBLE)
            self.shift = weft.nn.Parameter(weft.zeros(2, **DOUBLE))

        def forward(self, x, context=None):
            y, volume = super().forward(x)
            return y + self.shift, volume

    moved, _ = jko_step(lambda y: -0.5 * rate * (y**2).sum(1), x, Line(), tau, steps=600, lr=0.05)
    mean, std = jko_normal(weft.tensor(1.5), weft.tensor(0.4), tau, rate)
    assert (moved.mean(0) - mean).abs().max() < 1e-3 and (moved.std(0, correction=0) - std).abs().max() < 1e-3


def test_particles_follow_the_same_path():
    x = weft.randn(1000, 1, **DOUBLE, generator=seeded())
    x = 2 + 0.3 * (x - x.mean(0)) / x.std(0, correction=0)
    target = lambda x: -0.5 * (x**2).sum(1)
    mean, std = ornstein_uhlenbeck(weft.tensor(2.0), weft.tensor(0.3), 0.8)
    moved = weft.compile(lambda x: particle_flow(target, x, 400, 0.002, normal_score))(x)
    assert abs(moved.mean() - mean).item() < 5e-3 and abs(moved.std() - std).item() < 5e-3
    rough = particle_flow(target, x[:200], 80, 0.01, kernel_score(0.2))
    assert abs(rough.mean() - mean).item() < 0.05 and abs(rough.std() - std).item() < 0.12
    for call in (lambda: kernel_score(0.0), lambda: jko_normal(mean, std, -1.0)):
        with pytest.raises(OptionError, match="above 0"):
            call()


# ---- levels of grey ------------------------------------------------------------------------------------------


def test_uniform_levels_cost_eight_bits():
    """256 bins, all volumes counted: a density that is uniform over them is log₂ 256 bits, exactly."""
    flow = Flow(Transformed(weft.distributions.AffineTransform(0.0, 256.0)), UniformNoise(3))
    x = weft.tensor([[0, 128, 255], [7, 1, 254.0]]) / 255
    assert Dequantised(flow).bits_per_dim(x, generator=seeded()).tolist() == pytest.approx([8.0, 8.0], abs=1e-6)


def test_noise_stays_in_its_bin():
    """Gaussian noise would not, and would bound nothing."""
    flow = Flow([RowCoupling(4), Squash()], 4)
    q = filled(Flow(RowCoupling(4, context=4), 4, context=4), 1.0)
    x = (weft.arange(256).float() / 255).reshape(64, 4)
    for model in (Dequantised(flow), Dequantised(flow, noise=q)):
        for seed in range(5):
            y, _ = model.dequantised(x, seeded(seed))
            assert weft.equal(y.detach().floor(), (x * 255).round())


@pytest.mark.parametrize("variational", [False, True])
def test_bounds_lie_below_the_probability_and_rise_to_it(variational):
    """P(k) = F(k + 1) − F(k) for one number with a logistic-normal density; summed over all levels at most 1."""
    levels = 5
    flow = Flow(Squash(float(levels), 0.0), 1, **DOUBLE)
    noise = filled(Flow(Scaling(1, **DOUBLE), 1, context=1, **DOUBLE), 0.3) if variational else None
    model = Dequantised(flow, levels, noise).double()
    k = weft.arange(levels, **DOUBLE)
    inner = np.arange(1.0, levels)
    edges = np.concatenate([[0.0], stats.norm.cdf(np.log(inner / (levels - inner))), [1.0]])
    true = np.log(np.diff(edges))
    x = (k / (levels - 1)).unsqueeze(1).repeat_interleave(4000, 0)
    single = model.elbo(x, generator=seeded()).reshape(levels, -1).detach().numpy()
    assert np.all(single.mean(1) < true + 4 * single.std(1) / 63)
    tight = np.log(np.exp(single).mean(1))
    np.testing.assert_allclose(tight, true, atol=0.05)
    assert np.exp(single.mean(1)).sum() <= 1
    bound = model.log_prob_bound(x[::4000], draws=8, generator=seeded())
    assert bound.side == "lower" and bound.value.shape == (levels,)
    assert model.sample(7).unique().tolist() in ([*(n / 4 for n in c)] for c in _subsets(levels))


def _subsets(levels):
    from itertools import chain, combinations

    return chain.from_iterable(combinations(range(levels), n) for n in range(levels + 1))


def test_squash_is_the_logit_of_papers():
    """Papamakarios: logit(α + (1 − 2α) x / 256)."""
    x = weft.tensor([[0.0, 100.5, 255.999]], **DOUBLE)
    alpha = 0.05
    expected = np.log((alpha + 0.9 * x.numpy() / 256) / (1 - alpha - 0.9 * x.numpy() / 256))
    np.testing.assert_allclose(Squash(256.0, alpha).inverse(x)[0], expected, rtol=1e-12)
    with pytest.raises(OptionError, match="alpha"):
        Squash(256.0, 0.5)
    with pytest.raises(OptionError, match="2 levels"):
        Dequantised(Flow(Squash(), 1), 1)
