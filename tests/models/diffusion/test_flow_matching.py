"""Flow matching: conditional and marginal gradients, pairs by optimal transport, straightened flows."""

from __future__ import annotations

import itertools
import math

import pytest
from scipy.optimize import linear_sum_assignment

import weft
from weft import nn
from weft.errors import OptionError, ShapeError
from weft.models.diffusion import (
    ConditionalFlowMatcher,
    ExactOptimalTransportConditionalFlowMatcher,
    FlowMatching,
    OTPlanSampler,
    PointNetwork,
    TargetConditionalFlowMatcher,
    VariancePreservingConditionalFlowMatcher,
    pair_by_transport,
)

from .common import normal, seeded

MATCHERS = (
    *(ConditionalFlowMatcher, ExactOptimalTransportConditionalFlowMatcher, TargetConditionalFlowMatcher),
    VariancePreservingConditionalFlowMatcher,
)


def test_the_conditional_gradient_is_the_marginal_one():
    """Σₖ wₖ ∫ p(x|k) 2 (v − uₖ) ∂v = ∫ p(x) 2 (v − E[u|x]) ∂v, on a grid, for data of three points (Lipman et al. 2023, thm 2)."""
    weft.manual_seed(0)
    network = PointNetwork(1, 8, 1, time_scale=10.0).double()
    nn.init.normal_(network.last.weight)
    points, weights = weft.tensor([-1.5, 0.3, 2.0]).double(), weft.tensor([0.2, 0.5, 0.3]).double()
    matcher = TargetConditionalFlowMatcher(0.1)
    x = weft.linspace(-8, 8, 1601, dtype=weft.float64).reshape(-1, 1)
    slopes = []
    for marginal in (False, True):
        network.zero_grad()
        for time in (0.2, 0.7):
            t = weft.full((len(x),), time, dtype=weft.float64)
            v = network(x, t)
            scale = matcher.compute_sigma_t(t[:1])
            means = [matcher.compute_mu_t(None, p, t[:1]) for p in points]
            density = [
                w * weft.distributions.Normal(m, scale).log_prob(x).exp() for m, w in zip(means, weights, strict=True)
            ]
            flows = [matcher.compute_conditional_flow(None, p, t.unsqueeze(1), x) for p in points]
            if marginal:
                total = sum(density)
                mean = sum(d * u for d, u in zip(density, flows, strict=True)) / total
                loss = (total * (v - mean) ** 2).sum() * 0.01
            else:
                loss = sum((d * (v - u) ** 2).sum() for d, u in zip(density, flows, strict=True)) * 0.01
            loss.backward()
        slopes.append([p.grad.clone() for p in network.parameters()])
    assert max(grad.abs().max() for grad in slopes[0]) > 0.1
    assert all(weft.allclose(a, b, rtol=1e-9, atol=1e-12) for a, b in zip(*slopes, strict=True))


def test_batches_are_paired_as_scipy_and_brute_force_do():
    x0, x1 = normal(6, 3), normal(6, 3, seed=1)
    cost = ((x0.unsqueeze(1) - x1) ** 2).sum(2)
    order = pair_by_transport(x0, x1)
    assert order.tolist() == linear_sum_assignment(cost.numpy())[1].tolist()
    paired = sum(cost[i, j].item() for i, j in enumerate(order.tolist()))
    best = min(sum(cost[i, j].item() for i, j in enumerate(p)) for p in itertools.permutations(range(6)))
    assert paired == pytest.approx(best)
    plan = OTPlanSampler().get_map(x0, x1)
    assert (plan * cost).sum().item() == pytest.approx(best / 6)
    assert weft.allclose(plan.sum(0), weft.full((6,), 1 / 6).double())


def test_labels_are_permuted_with_the_data():
    """Noise that lies at the data in reverse: pairs turn x₁ around, and its labels with it."""
    x1 = 10 * weft.arange(5).double().reshape(5, 1)
    noise, labels = x1.flip(0) + 0.1, weft.arange(5)
    matcher = ExactOptimalTransportConditionalFlowMatcher()
    t, xt, u, y0, y1 = matcher.guided_sample_location_and_conditional_flow(noise, x1, y1=labels, generator=seeded())
    assert y0 is None and y1.tolist() == [4, 3, 2, 1, 0]
    end = xt + (1 - t.unsqueeze(1)) * u
    assert weft.allclose(end, 10 * y1.double().unsqueeze(1)) and weft.allclose(u, weft.full((5, 1), -0.1).double())


@pytest.mark.parametrize("make", MATCHERS)
def test_flows_are_the_slopes_of_their_paths(make):
    """u_t = d x_t / dt at fixed x₀, x₁ and ε, by central differences; x begins in noise and ends in data."""
    x0, x1, noise = (normal(4, 3, seed=i) for i in range(3))
    matcher = make(0.05)

    def path(t: float) -> weft.Tensor:
        wide = weft.full((4, 1), t, dtype=weft.float64)
        return matcher.compute_mu_t(x0, x1, wide) + matcher.compute_sigma_t(wide) * noise

    for t in (0.1, 0.6):
        wide = weft.full((4, 1), t, dtype=weft.float64)
        found = matcher.compute_conditional_flow(x0, x1, wide, path(t))
        assert weft.allclose(found, (path(t + 1e-5) - path(t - 1e-5)) / 2e-5, rtol=1e-6)
    assert (path(1.0) - x1 - 0.05 * noise).abs().max() < 1e-12


def test_a_variance_preserving_path_keeps_unit_variance():
    x0, x1 = normal(50000, 1), normal(50000, 1, seed=1)
    _, xt, _ = VariancePreservingConditionalFlowMatcher().sample_location_and_conditional_flow(
        x0, x1, weft.full((50000,), 0.4).double()
    )
    assert xt.var().item() == pytest.approx(1, abs=4.5 * math.sqrt(2 / 50000))


class Gaussian(nn.Module):
    """The marginal velocity of straight lines from N(0, 1) to N(m, v): E[x₁ − x₀ | x_t]."""

    def __init__(self, mean: float, variance: float) -> None:
        super().__init__()
        self.mean, self.variance = mean, variance

    def forward(self, x, t):
        t = t.unsqueeze(1)
        total = (1 - t) ** 2 + t**2 * self.variance
        return self.mean + (t * self.variance - (1 - t)) / total * (x - t * self.mean)


def test_the_flow_of_a_gaussian_is_exact():
    """Noise z ends at m + √v z, log p is that of N(m, v), and the loss is the variance that is left."""
    model = FlowMatching(Gaussian(1.5, 0.25), (2,))
    noise = normal(30, 2)
    end = model.carried(noise, steps=25, method="rk4")
    assert weft.allclose(end, 1.5 + 0.5 * noise, atol=1e-4)
    assert weft.allclose(model.carried(noise, method="dopri5"), 1.5 + 0.5 * noise, atol=1e-3)
    truth = weft.distributions.Normal(1.5, 0.5).log_prob(end).sum(1)
    assert weft.allclose(model.log_prob(end), truth, atol=1e-4)
    drawn = model.log_prob(end[:1].expand(2000, 2), generator=seeded(1), trace="hutchinson")
    assert weft.allclose(drawn, truth[:1].expand(2000), atol=1e-3)  # its Jacobian is diagonal: every direction is exact
    t = (weft.arange(1000).double() + 0.5) / 1000
    left = (0.25 + 1 - (0.25 * t - (1 - t)) ** 2 / ((1 - t) ** 2 + t**2 * 0.25)).mean().item()
    assert model.loss(1.5 + 0.5 * normal(100000, 2), generator=seeded(1)).item() == pytest.approx(left, rel=0.02)


def test_transport_and_reflow_straighten_a_flow():
    """Two far clusters: pairs at random cross, pairs of a trained flow do not (Liu et al. 2023)."""
    signs = 2.0 * (weft.rand(2000, 1, generator=seeded(1)) < 0.5) - 1
    x = weft.cat([2 * signs, weft.zeros(2000, 1)], 1) + 0.2 * weft.randn(2000, 2, generator=seeded(2))

    def trained(pairs) -> FlowMatching:
        weft.manual_seed(0)
        model = FlowMatching(PointNetwork(2, 32, 2, time_scale=1000.0), (2,))
        adam = weft.optim.Adam(model.parameters(), lr=5e-3)

        @weft.compile
        def step(noise, x):
            adam.zero_grad()
            model.loss(x, noise=noise).backward()
            adam.step()

        for number in range(300):
            step(*pairs(number))
        return model

    rows = lambda number: weft.randint(2000, (128,), generator=seeded(number))
    first = trained(lambda number: (weft.randn(128, 2, generator=seeded(number + 1000)), x[rows(number)]))
    noise, ends = first.reflow_pairs(2000, generator=seeded(5), steps=10)
    second = trained(lambda number: (noise[rows(number)], ends[rows(number)]))
    start = weft.randn(300, 2, generator=seeded(6))
    assert second.straightness(start) < 0.5 * first.straightness(start)
    once = second.carried(start, steps=1)  # one call of the network lands in the clusters
    assert ((once[:, 0].abs() - 2).abs() < 0.8).double().mean() > 0.75


def test_what_does_not_fit_is_refused():
    with pytest.raises(ShapeError, match="differ in shape"):
        ConditionalFlowMatcher().sample_location_and_conditional_flow(weft.zeros(2, 3), weft.zeros(3, 3))
    with pytest.raises(ShapeError, match="batches of one shape"):
        pair_by_transport(weft.zeros(2, 3), weft.zeros(3, 3))
    with pytest.raises(OptionError, match="sigma of 0 or more"):
        ConditionalFlowMatcher(-1.0)
    with pytest.raises(OptionError, match="'exact'"):
        OTPlanSampler("sinkhorn")
    with pytest.raises(OptionError, match="rk4"):
        FlowMatching(Gaussian(0.0, 1.0), (2,)).sample(2, method="rk5")
    with pytest.raises(OptionError, match="1 step or more"):
        FlowMatching(Gaussian(0.0, 1.0), (2,)).sample(2, steps=0)
