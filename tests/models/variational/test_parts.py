"""Likelihoods, posteriors and priors against PyTorch, SciPy and the notes; what likelihoods refuse."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
import torch

import weft
from weft import nn
from weft.errors import (
    ArgumentError,
    DtypeError,
    IndexRangeError,
    InvalidValueError,
    OptionError,
    ShapeError,
    UnsupportedError,
)
from weft.models.autoregressive import ContinuousBernoulliHead, LogisticMixtureHead
from weft.models.generative import binary_states, check_normalised, grid
from weft.models.variational import (
    VAE,
    BetaELBO,
    ConditionalNormal,
    ConditionalVAE,
    DenseVAE,
    DiagonalGaussian,
    FullGaussian,
    Likelihood,
    SharedVariance,
    StandardNormal,
    VectorCondition,
    flow_posterior,
)

from ..autoregressive.common import drawn_as_promised
from .common import DOUBLE, bits, filled, seeded

POSTERIORS = {
    "diagonal": (DiagonalGaussian, 2),
    "full": (FullGaussian, 2),
    "planar": (lambda: flow_posterior("planar", 2, 3, 4), 2),
    "radial": (lambda: flow_posterior("radial", 2, 3, 4), 2),
    "iaf": (lambda: flow_posterior("iaf", 2, 2, 4, 8), 2),
}


@pytest.fixture(params=POSTERIORS)
def posterior(request):
    return filled(POSTERIORS[request.param][0](), 1, 0.5)


# ---- posteriors ------------------------------------------------------------------------------------------------


def test_log_q_of_a_draw_is_its_density(posterior):
    """log p(ε) − log|det ∂z/∂ε| (N1 thm. 8.3) against the density at z."""
    said = 0.5 * weft.randn(3, posterior.size(2), generator=seeded(1), **DOUBLE)
    z, log_q = posterior.draw(said, posterior.noise((4, 3, 2), weft.float64, seeded(2)))
    assert z.shape == (4, 3, 2) and log_q.shape == (4, 3)
    np.testing.assert_allclose(log_q.detach(), posterior.log_prob(said, z).detach(), rtol=1e-7, atol=1e-9)


def test_log_q_is_the_volume_of_the_map_from_noise(posterior):
    said = 0.5 * weft.randn(1, posterior.size(2), generator=seeded(1), **DOUBLE)
    noise = weft.randn(2, generator=seeded(3), **DOUBLE)
    map = lambda e: posterior.draw(said, e.reshape(1, 1, 2))[0].reshape(2)
    volume = np.linalg.slogdet(weft.func.jacrev(map)(noise).detach().numpy())[1]
    true = -0.5 * (noise**2).sum().item() - math.log(2 * math.pi) - volume
    assert posterior.draw(said, noise.reshape(1, 1, 2))[1].item() == pytest.approx(true, rel=1e-9)


def test_q_integrates_to_one(posterior):
    said = 0.3 * weft.randn(1, posterior.size(2), generator=seeded(5), **DOUBLE)
    density = lambda z: posterior.log_prob(said, z.unsqueeze(1))[:, 0].detach()
    check_normalised(density, *grid([(-14, 14), (-14, 14)], 120), tolerance=1e-3)


def test_closed_divergences_are_pytorchs():
    said = weft.randn(5, 14, generator=seeded(0), **DOUBLE)
    mean, log_scale = (torch.tensor(part.numpy()) for part in said[:, :8].chunk(2, -1))
    one = torch.distributions.MultivariateNormal(torch.zeros(4, dtype=torch.float64), torch.eye(4, dtype=torch.float64))
    true = torch.distributions.MultivariateNormal(mean, torch.diag_embed((2 * log_scale).exp()))
    found = DiagonalGaussian().kl(said[:, :8], StandardNormal())
    np.testing.assert_allclose(found.numpy(), torch.distributions.kl_divergence(true, one), rtol=1e-10)
    mean, factor = (torch.tensor(part.numpy()) for part in FullGaussian().split(said))
    true = torch.distributions.MultivariateNormal(mean, scale_tril=factor)
    found = FullGaussian().kl(said, StandardNormal())
    np.testing.assert_allclose(found.numpy(), torch.distributions.kl_divergence(true, one), rtol=1e-10)


def test_divergences_from_a_conditional_prior_are_pytorchs():
    prior, condition = filled(ConditionalNormal(3, 4), 3), weft.eye(3, **DOUBLE)
    p_mean, p_scale = (torch.tensor(p.detach().numpy()) for p in prior.network(condition).chunk(2, -1))
    p = torch.distributions.MultivariateNormal(p_mean, torch.diag_embed((2 * p_scale).exp()))
    said = weft.randn(3, 14, generator=seeded(0), **DOUBLE)
    for posterior, numbers in ((DiagonalGaussian(), said[:, :8]), (FullGaussian(), said)):
        q = posterior.distribution(numbers)
        covariance = torch.tensor((q.covariance_matrix if numbers is said else q.variance.diag_embed()).numpy())
        true = torch.distributions.MultivariateNormal(torch.tensor(q.mean.numpy()), covariance)
        found = posterior.kl(numbers, prior, condition).detach().numpy()
        np.testing.assert_allclose(found, torch.distributions.kl_divergence(true, p), rtol=1e-9)


def test_worked_divergence_of_the_notes():
    """½ Σ (μ² + σ² − 1 − log σ²), N1 (245): μ = (1, 0), σ = (1, 2) gives ½ + ½ (3 − log 4)."""
    said = weft.tensor([[1.0, 0.0, 0.0, math.log(2)]], **DOUBLE)
    assert DiagonalGaussian().kl(said, StandardNormal()).item() == pytest.approx(0.5 + 0.5 * (3 - math.log(4)))


def test_a_full_covariance_draws_what_it_says():
    said = weft.randn(1, 5, generator=seeded(1), **DOUBLE)
    z, _ = FullGaussian().draw(said, weft.randn(40_000, 1, 2, generator=seeded(2), **DOUBLE))
    mean, factor = FullGaussian().split(said)
    np.testing.assert_allclose(z[:, 0].mean(0), mean[0], atol=0.03)
    np.testing.assert_allclose(np.cov(z[:, 0].numpy().T), (factor[0] @ factor[0].mT), atol=0.03)
    assert abs(factor[0, 1, 0].item()) > 0.1  # the elements do hang together


def test_the_elbo_of_planar_flows_is_that_of_the_theorem():
    """N1 thm. 10.2, with its sign: log p(x, z_K) − log q₀(z₀) + Σ log|1 + uₖᵀ ψₖ(z_{k−1})|, written out."""
    posterior = flow_posterior("planar", 2, 3, 0)
    model = filled(VAE(nn.Linear(5, 4), nn.Linear(2, 5), 2, posterior=posterior), 4)
    x = bits(3, 5, **DOUBLE)
    with weft.no_grad():
        found = model.elbo(x, generator=seeded(9)).numpy()
        mean, log_scale = (part.numpy() for part in model.inferred(x).chunk(2, -1))
        noise = weft.randn(1, 3, 2, generator=seeded(9), **DOUBLE)[0].numpy()
        z = mean + np.exp(log_scale) * noise
        log_q0 = (-0.5 * noise**2 - log_scale - 0.5 * math.log(2 * math.pi)).sum(1)
        volumes = 0.0
        for planar in posterior.flow.parts:
            u, w, b = (part.numpy() for part in planar.directions())
            psi = (1 - np.tanh(z @ w.T + b) ** 2) * w
            volumes = volumes + np.log(np.abs(1 + psi @ u.T))[:, 0]
            z = z + u * np.tanh(z @ w.T + b)
        logits = z @ model.decoder.weight.detach().numpy().T + model.decoder.bias.detach().numpy()
        joint = (x.numpy() * logits - np.logaddexp(0, logits)).sum(1)
        joint = joint + (-0.5 * z**2 - 0.5 * math.log(2 * math.pi)).sum(1)
    np.testing.assert_allclose(found, joint - log_q0 + volumes, rtol=1e-10)


def test_flow_posteriors_have_no_closed_divergence_and_say_so():
    model = DenseVAE(5, (4,), 2, posterior=flow_posterior("iaf", 2, 1, 3, 4))
    assert not model.closed_form
    with pytest.raises(OptionError, match="no closed form"):
        DenseVAE(5, (4,), 2, posterior=flow_posterior("planar", 2, 1, 0), closed_form=True)
    with pytest.raises(UnsupportedError, match="draw from it"):
        model.posterior.distribution(model.inferred(weft.zeros(1, 5)))
    with pytest.raises(OptionError, match="planar, radial, iaf"):
        flow_posterior("glow", 2)


# ---- likelihoods -----------------------------------------------------------------------------------------------


def test_log_likelihoods_are_pytorchs():
    said, x = weft.randn(6, 8, generator=seeded(0), **DOUBLE), weft.rand(3, 4, generator=seeded(1), **DOUBLE)
    out = torch.tensor(said.numpy()).reshape(2, 3, 8)
    y, binary = torch.tensor(x.numpy()), bits(3, 4, **DOUBLE)
    true = torch.distributions.Normal(out[..., :4], out[..., 4:].clamp(min=-7).exp()).log_prob(y).sum(-1)
    np.testing.assert_allclose(Likelihood("gaussian").log_prob(said, x).numpy(), true, rtol=1e-10)
    true = torch.distributions.Bernoulli(logits=out[..., :4]).log_prob(torch.tensor(binary.numpy())).sum(-1)
    np.testing.assert_allclose(Likelihood("bernoulli").log_prob(said[:, :4], binary).numpy(), true, rtol=1e-10)
    true = torch.distributions.ContinuousBernoulli(logits=out[..., :4]).log_prob(y).sum(-1)
    found = Likelihood("continuous_bernoulli").log_prob(said[:, :4], x)
    np.testing.assert_allclose(found.numpy(), true, rtol=1e-6)
    shared = filled(SharedVariance(), 2)
    true = torch.distributions.Normal(out[..., :4], math.exp(shared.log_scale.item())).log_prob(y).sum(-1)
    np.testing.assert_allclose(shared.log_prob(said[:, :4], x).detach().numpy(), true, rtol=1e-10)


def test_parameters_of_pictures_lie_by_channels():
    """(N, P · C, H, W): the first C channels are the first parameter of each pixel."""
    said = weft.arange(2 * 6 * 4.0).reshape(2, 6, 2, 2)
    spread = Likelihood("gaussian").spread(said)
    assert spread.shape == (2, 3, 2, 2, 2)
    assert weft.equal(spread[..., 0], said[:, :3]) and weft.equal(spread[..., 1], said[:, 3:])


def test_a_discretised_logistic_likelihood_sums_to_one():
    head = LogisticMixtureHead(components=2, levels=4)
    levels = weft.tensor(list(itertools.product(range(4), repeat=3)), **DOUBLE) / 3
    said = weft.randn(1, 3 * head.parameters, generator=seeded(0), **DOUBLE)
    found = Likelihood(head).log_prob(said.repeat(len(levels), 1), levels)[0]
    assert found.exp().sum().item() == pytest.approx(1, abs=1e-9)


def test_a_continuous_bernoulli_integrates_to_one_and_draws_its_mean():
    head, logits = ContinuousBernoulliHead(), weft.tensor([[-3.0], [0.0], [4.0]], **DOUBLE)
    for row in logits:
        check_normalised(lambda x, row=row: head.log_prob(row, x[:, 0]), *grid([(0, 1)], 4000), tolerance=1e-5)
    drawn = head.draw(logits.unsqueeze(1).expand(3, 20_000, 1), head.noise((3, 20_000), weft.float64, seeded(0)))
    np.testing.assert_allclose(drawn.mean(1), head.mean(logits), atol=0.01)


@pytest.mark.parametrize(
    ("likelihood", "x", "error"),
    [
        ("bernoulli", weft.full((2, 3), 0.5), "bits, 0 or 1"),
        ("bernoulli", weft.full((2, 3), math.nan), "bits, 0 or 1"),
        ("continuous_bernoulli", weft.full((2, 3), 1.5), "from 0 to 1"),
        (LogisticMixtureHead(1, 4), weft.full((2, 3), 0.4), "levels 0, 1/3"),
        ("gaussian", weft.full((2, 3), math.inf), "finite"),
    ],
    ids=["grey values for bits", "nan", "brighter than white", "between levels", "infinite"],
)
def test_what_has_no_probability_is_refused(likelihood, x, error):
    """Cross entropy of grey values is not called a likelihood: eagerly an error, compiled NaN."""
    model = DenseVAE(3, (4,), 2, likelihood)
    for ask in (model.elbo, model.loss, lambda x: model.log_prob_bound(x, samples=2)):
        with pytest.raises(InvalidValueError, match=error):
            ask(x)


def test_compiled_code_says_nan_of_grey_values():
    model = DenseVAE(3, (4,), 2)
    loss = weft.compile(model.loss)
    assert loss(weft.ones(2, 3)).isfinite() and loss(weft.full((2, 3), 0.5)).isnan()


def test_a_mean_over_pixels_would_be_a_hidden_beta():
    """Trap: mean-reduced cross entropy with a summed KL is, but for a factor, β = number of pixels. Ours sums both."""
    model = filled(DenseVAE(20, (6,), 3), 1)
    x = bits(8, 20, **DOUBLE)
    with weft.no_grad():
        reconstruction, divergence = model.terms(x, generator=seeded(0))
        toy = -(reconstruction / 20).mean() + divergence.mean()
        hidden = -BetaELBO(20.0)(model, x, None, seeded(0)).mean() / 20
        assert toy.item() == pytest.approx(hidden.item(), rel=1e-12)
        summed = model.loss(x, generator=seeded(0)).item()
    assert summed == pytest.approx((divergence - reconstruction).mean().item(), rel=1e-12)
    assert abs(summed - 20 * toy.item()) > 1


def test_the_loss_and_its_gradient_are_those_of_a_pytorch_program():
    model = filled(DenseVAE(6, (5,), 2), 0, 0.4)
    x, noise = bits(4, 6, **DOUBLE), weft.randn(1, 4, 2, generator=seeded(5), **DOUBLE)
    loss = model.loss(x, generator=seeded(5))
    loss.backward()
    weights = {name: torch.tensor(p.detach().numpy(), requires_grad=True) for name, p in model.named_parameters()}
    affine = lambda h, name: h @ weights[f"{name}.weight"].T + weights[f"{name}.bias"]
    mlp = lambda h, name: affine(torch.tanh(affine(h, f"{name}.hidden.0.linear")), f"{name}.output")
    target = torch.tensor(x.numpy())
    mean, log_scale = mlp(target, "encoder").chunk(2, -1)
    z = mean + log_scale.exp() * torch.tensor(noise[0].numpy())
    bce = torch.nn.functional.binary_cross_entropy_with_logits(mlp(z, "decoder"), target, reduction="sum")
    kl = 0.5 * (mean**2 + (2 * log_scale).exp() - 1 - 2 * log_scale).sum()
    true = (bce + kl) / 4
    true.backward()
    assert loss.item() == pytest.approx(true.item(), rel=1e-12)
    for name, parameter in model.named_parameters():
        np.testing.assert_allclose(parameter.grad.numpy(), weights[name].grad, rtol=1e-9, atol=1e-12)


def test_bounds_and_draws_of_bits_against_the_integral():
    """With one number of code p(x) is an integral over a line: bounds below it for every x, draws as often as it says."""
    model = filled(DenseVAE(3, (4,), 1), 6, 1.5)
    with weft.no_grad():
        model.encoder.output.weight.mul_(0.2)
    states, (line, cell) = binary_states(3, weft.float64), grid([(-9, 9)], 3000)
    with weft.no_grad():
        each = model.log_likelihood(line.unsqueeze(1).expand(-1, 8, -1), states)  # (3000, 8)
        true = (each + model.prior.log_prob(line).unsqueeze(1)).logsumexp(0) + math.log(cell)
        assert true.exp().sum().item() == pytest.approx(1, abs=1e-9)
        elbo = model.elbo(states, samples=4000, generator=seeded(0))
        assert (elbo < true + 0.02).all() and (elbo < true - 0.05).any()
    drawn_as_promised(model.sample(20_000, generator=seeded(1)), states, true)


def test_the_protocol():
    model = filled(DenseVAE(5, (4,), 2), 0, 0.5)
    x, y = bits(2, 5, 0, **DOUBLE), bits(2, 5, 1, **DOUBLE)
    path = model.interpolate(x, y, 5)
    assert (
        path.shape == (5, 2, 5) and weft.allclose(path[0], model.reconstruct(x)) and weft.allclose(path[-1], model(y))
    )
    np.testing.assert_allclose(model.decode(model.embed(x)).detach(), model.reconstruct(x).detach())
    promised = {"log_prob_bound": "bound", "elbo": "bound", "encode": "exact", "decode": "exact", "sample": "exact"}
    assert promised.items() <= model.promises.items() and "log_prob" not in model.promises
    assert weft.equal(model.sample(4, generator=seeded(2)), model.sample(4, generator=seeded(2)))


# ---- conditions and shapes -------------------------------------------------------------------------------------


def test_a_condition_is_what_networks_see_beside_x():
    model = filled(ConditionalVAE(4, (5,), 2, conditions=3), 0)
    plain = VAE(model.encoder.network, nn.Linear(2, 4, **DOUBLE), 2)
    x, classes = bits(3, 4, **DOUBLE), weft.tensor([2, 0, 1])
    joined = weft.cat([x, weft.eye(3, **DOUBLE)[classes]], 1)
    np.testing.assert_array_equal(
        model.encode(x, classes).detach(), plain.posterior.mean(plain.encoder(joined)).detach()
    )
    each = weft.cat(
        [model.elbo(x[i : i + 1], classes[i : i + 1].item(), samples=1, generator=seeded(3)) for i in range(3)]
    )
    noise = weft.randn(1, 1, 2, generator=seeded(3), **DOUBLE)  # the same for each
    said = model.encoder.network(joined)
    z = model.posterior.draw(said, noise)[0][0]
    logits = model.decoder.network(weft.cat([z, weft.eye(3, **DOUBLE)[classes]], 1))
    true = (x * logits - nn.functional.softplus(logits)).sum(1) - model.posterior.kl(said, model.prior)
    np.testing.assert_allclose(each.detach(), true.detach(), rtol=1e-10)


def test_draws_under_a_condition_follow_it():
    """A decoder that copies the condition draws it; a learned prior puts codes where it says."""
    model = filled(ConditionalVAE(3, (), 2, conditions=3, learned_prior=True), 0, 0.0)
    with weft.no_grad():
        model.decoder.network.output.weight[:, 2:] = 40 * weft.eye(3, **DOUBLE)
        model.decoder.network.output.bias.fill_(-20)
        model.prior.network.weight[0, 1] = 7.0
        model.prior.network.bias[2:] = -5.0
    drawn = model.sample(6, condition=weft.tensor([0, 1, 2, 2, 1, 0]), generator=seeded(0))
    np.testing.assert_array_equal(drawn.argmax(1), [0, 1, 2, 2, 1, 0])
    codes = model.prior_draws(3, weft.eye(3, **DOUBLE), seeded(1))
    np.testing.assert_allclose(codes.detach(), [[0, 0], [7, 0], [0, 0]], atol=0.1)
    assert model.log_prob_bound(drawn, [0, 1, 2, 2, 1, 0], samples=20, at_once=40).value.shape == (6,)


def test_conditions_are_checked():
    model = ConditionalVAE(3, (4,), 2, conditions=3)
    x = bits(2, 3)
    with pytest.raises(ArgumentError, match="needs a condition"):
        model.elbo(x)
    with pytest.raises(ShapeError, match="expected 2 classes"):
        model.elbo(x, weft.tensor([0, 1, 2]))
    with pytest.raises(IndexRangeError, match="0 … 2"):
        model.elbo(x, weft.tensor([0, 3]))
    with pytest.raises(UnsupportedError, match="takes no condition"):
        DenseVAE(3, (4,), 2).elbo(x, 1)
    vector = ConditionalVAE(3, (4,), 2, conditions=VectorCondition(2))
    assert vector.elbo(x, weft.zeros(2)).shape == (2,)
    with pytest.raises(ShapeError, match=r"\(2, 2\)"):
        vector.elbo(x, weft.zeros(2, 3))


def test_shapes_and_types_are_checked():
    x = bits(2, 3)
    with pytest.raises(ShapeError, match="needs \\(2, 4\\)"):
        VAE(nn.Linear(3, 3), nn.Linear(2, 3), 2).elbo(x)
    with pytest.raises(ShapeError, match="the decoder speaks of events"):
        VAE(nn.Linear(3, 4), nn.Linear(2, 5), 2).elbo(x)
    with pytest.raises(DtypeError, match="float"):
        DenseVAE(3, (4,), 2).elbo(x.to(weft.int64))
    with pytest.raises(ShapeError, match=r"\(B, \*event\)"):
        DenseVAE(3, (4,), 2).elbo(x[0])
    with pytest.raises(OptionError, match="diagonal, full"):
        DenseVAE(3, (4,), 2, posterior="round")
    with pytest.raises(OptionError, match="at least one sample"):
        DenseVAE(3, (4,), 2).log_prob_bound(x, samples=0)


def test_empty_single_and_scattered_batches():
    model = DenseVAE(3, (4,), 2)
    assert model.elbo(weft.zeros(0, 3)).shape == (0,) and model.elbo(weft.zeros(1, 3)).shape == (1,)
    wide = bits(4, 6)
    assert weft.allclose(
        model.elbo(wide[:, ::2], generator=seeded(1)), model.elbo(wide[:, ::2].contiguous(), generator=seeded(1))
    )
    assert DenseVAE(1, (4,), 1).elbo(weft.ones(2, 1)).shape == (2,)
    assert DenseVAE(3, (4,), 2, "gaussian").elbo(weft.full((1, 3), 1e15)).isfinite()
