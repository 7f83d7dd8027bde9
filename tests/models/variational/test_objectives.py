"""Objectives: what they agree on, and gradients with the same mean and less noise."""

from __future__ import annotations

import math

import numpy as np
import pytest

import weft
from weft.errors import OptionError, UnsupportedError
from weft.models.variational import (
    CIWAE,
    ELBO,
    IWAE,
    MIWAE,
    STL,
    BetaELBO,
    BetaTC,
    DenseGumbelVAE,
    DenseVAE,
    DiagonalGaussian,
    DReG,
    HierarchicalVAE,
    LadderVAE,
    LinearVAE,
    MarkovVAE,
    WarmUp,
    flow_posterior,
)

from .common import DOUBLE, bits, filled, one_example, seeded


@pytest.fixture
def model():
    return filled(DenseVAE(7, (5,), 3), 0, 0.5)


def gradients(model, x, objective, seed=1):
    model.zero_grad()
    value = objective(model, x, None, seeded(seed))
    value.mean().backward()
    return value.detach(), [p.grad.clone() for p in model.parameters()]


def test_beta_one_is_the_vae_bit_for_bit(model):
    x = bits(4, 7, **DOUBLE)
    (value, slopes), (other, others) = (gradients(model, x, f) for f in (ELBO(), BetaELBO(1.0)))
    assert weft.equal(value, other) and all(weft.equal(a, b) for a, b in zip(slopes, others, strict=True))
    assert not weft.equal(value, gradients(model, x, BetaELBO(2.0))[0])


def test_a_warm_up_weighs_the_divergence_step_by_step(model):
    x, objective = bits(4, 7, **DOUBLE), WarmUp(4)
    reconstruction, divergence = model.terms(x, generator=seeded(1))
    for weight in (0.25, 0.5, 0.75, 1.0, 1.0):
        found = objective(model, x, None, seeded(1))
        np.testing.assert_allclose(found.detach(), (reconstruction - weight * divergence).detach(), rtol=1e-6)
    assert weft.equal(WarmUp(4).eval()(model, x, None, seeded(1)), reconstruction - divergence)


def test_bounds_agree_where_they_must(model):
    """MIWAE of one group is IWAE, of groups of one the drawn ELBO; CIWAE goes from one to the other."""
    x = bits(4, 7, **DOUBLE)
    model.closed_form = False
    ask = lambda objective: objective(model, x, None, seeded(3)).detach().numpy()
    pairs = [
        (MIWAE(1, 6), IWAE(6)),
        (MIWAE(6, 1), ELBO(6)),
        (CIWAE(6, beta=0.0), IWAE(6)),
        (CIWAE(6, beta=1.0), ELBO(6)),
        (IWAE(1), ELBO(1)),
        (STL(6), ELBO(6)),
        (DReG(6), IWAE(6)),
    ]
    for one, other in pairs:
        np.testing.assert_allclose(ask(one), ask(other), rtol=1e-12)
    assert (ask(ELBO(6)) < ask(CIWAE(6, beta=0.5))).all() and (ask(CIWAE(6, beta=0.5)) < ask(IWAE(6))).all()


def test_total_correlation_with_weights_one_is_the_elbo(model):
    x = bits(5, 7, **DOUBLE)
    model.closed_form = False
    with weft.no_grad():
        found, true = (f(model, x, None, seeded(2)) for f in (BetaTC(100, beta=1.0), ELBO()))
    np.testing.assert_allclose(found.numpy(), true.numpy(), rtol=1e-10)


def test_total_correlation_by_hand(model):
    """log q(z) ≈ log 1/(N M) Σₘ q(z | xₘ), one loop a sum."""
    x = bits(3, 7, **DOUBLE)
    with weft.no_grad():
        said = model.inferred(x)
        z = model.draws_of(said, x, 1, None, seeded(2)).z[0].numpy()
        mean, log_scale = (part.numpy() for part in said.chunk(2, -1))
        _, parts = BetaTC(50).parts(model, x, None, seeded(2))
    density = lambda i, m, j: (
        math.exp(-0.5 * ((z[i, j] - mean[m, j]) / math.exp(log_scale[m, j])) ** 2 - log_scale[m, j])
        / math.sqrt(2 * math.pi)
    )
    for i in range(3):
        together = math.log(sum(math.prod(density(i, m, j) for j in range(3)) for m in range(3)) / 150)
        alone = sum(math.log(sum(density(i, m, j) for m in range(3)) / 150) for j in range(3))
        assert parts.total_correlation[i].item() == pytest.approx(together - alone, rel=1e-10)
        own = math.log(math.prod(density(i, i, j) for j in range(3)))
        assert parts.mutual_information[i].item() == pytest.approx(own - together, rel=1e-10)


# ---- gradients -------------------------------------------------------------------------------------------------


def by_rows(objective, rows: int = 6000):
    """∂ bound / ∂ (μ, log σ) of one example, once for each of many independent draws: (rows, 4)"""
    said = weft.tensor([[0.3, -0.2, -0.4, -0.1]], **DOUBLE)
    model = one_example(said, rows, objective=objective)
    x = weft.tensor([[0.8, -0.5, 0.4]], **DOUBLE).repeat(rows, 1)
    model.objective(model, x, None, seeded(11)).sum().backward()
    return model.encoder.said.grad.numpy()


@pytest.mark.parametrize(("plain", "better"), [(IWAE(4), DReG(4)), (IWAE(16), DReG(16))], ids=["k=4", "k=16"])
def test_dreg_has_the_same_mean_and_less_noise(plain, better):
    one, other = by_rows(plain), by_rows(better)
    error = np.sqrt((one.var(0) + other.var(0)) / len(one))
    assert (np.abs(one.mean(0) - other.mean(0)) < 4 * error).all()
    assert other.var(0).sum() < 0.7 * one.var(0).sum()


def test_stl_has_the_same_mean():
    """Of the drawn ELBO, near the posterior."""
    one, other = by_rows(MIWAE(1, 1)), by_rows(STL(1))
    error = np.sqrt((one.var(0) + other.var(0)) / len(one))
    assert (np.abs(one.mean(0) - other.mean(0)) < 4 * error).all() and error.max() < 0.1


def test_dreg_squares_the_weights_for_the_encoder_and_not_for_the_decoder():
    """Σ w̃² ∂log w/∂z ∂z/∂φ against the formula with autograd; the decoder's gradient is IWAE's."""
    said = weft.tensor([[0.3, -0.2, -0.4, -0.1]], **DOUBLE)
    model, x = one_example(said, 1), weft.tensor([[0.8, -0.5, 0.4]], **DOUBLE)
    _, slopes = gradients(model, x, DReG(5), 2)
    _, plain = gradients(model, x, IWAE(5), 2)
    names = [name for name, _ in model.named_parameters()]
    for name, a, b in zip(names, slopes, plain, strict=True):
        assert name == "encoder.said" or weft.allclose(a, b, rtol=1e-12)
    noise = weft.randn(5, 1, 2, generator=seeded(2), **DOUBLE)
    z = (said[:, :2] + said[:, 2:].exp() * noise).requires_grad_()
    weight = model.log_likelihood(z, x) + model.prior.log_prob(z) - model.posterior.log_prob(said, z)
    share = weight.detach().softmax(0)  # (5, 1)
    (path,) = weft.autograd.grad(weight.sum(), [z])
    through = (share**2).unsqueeze(-1) * path
    true = weft.cat([through.sum(0), (through * noise * said[:, 2:].exp()).sum(0)], 1)
    np.testing.assert_allclose(slopes[names.index("encoder.said")].numpy(), true.numpy(), rtol=1e-9)


@pytest.mark.parametrize("objective", [STL(3), DReG(3)], ids=["stl", "dreg"])
def test_path_gradients_vanish_at_the_true_posterior(objective):
    """Draw for draw, where the plain estimators only vanish in the mean."""
    rows = weft.randn(30, 4, generator=seeded(0), **DOUBLE) @ weft.randn(4, 4, generator=seeded(1), **DOUBLE)
    model = LinearVAE(4, 2, **DOUBLE).solve(rows)
    encoder = len(list(model.encoder.parameters()))
    named = [name.startswith("encoder") for name, _ in model.named_parameters()]
    slopes = [s for s, own in zip(gradients(model, rows[:3], objective)[1], named, strict=True) if own]
    noisy = [s for s, own in zip(gradients(model, rows[:3], IWAE(3))[1], named, strict=True) if own]
    assert len(slopes) == encoder and max(s.abs().max().item() for s in slopes) < 1e-10
    assert max(s.abs().max().item() for s in noisy) > 1e-2


def test_compiled_gradients_are_those_of_eager_code(model):
    """The hook that squares weights is part of the plan."""
    x = bits(4, 7, **DOUBLE)
    _, eager = gradients(model, x, DReG(3))
    generator = seeded(1)

    @weft.compile
    def step(x):
        model.zero_grad()
        DReG(3)(model, x, None, generator).mean().backward()

    step(x)
    for parameter, slope in zip(model.parameters(), eager, strict=True):
        np.testing.assert_allclose(parameter.grad.numpy(), slope.numpy(), rtol=1e-9, atol=1e-12)


@pytest.mark.filterwarnings("ignore:.*bfloat16")
def test_weights_that_are_squared_keep_the_type_of_codes_in_bfloat16():
    """Codes are bfloat16 under autocast, the bound is float32: gradients are those of float32 within bfloat16's 2⁻⁸."""
    weft.manual_seed(0)
    model, x = DenseVAE(12, (16,), 4), bits(64, 12)
    _, exact = gradients(model, x, DReG(3))
    with weft.autocast("cpu", weft.bfloat16):
        _, found = gradients(model, x, DReG(3))
    for near, far in zip(found, exact, strict=True):
        assert (near - far).norm() <= 0.05 * far.norm()


FLOWS = {kind: (lambda kind=kind: bent(kind)) for kind in ("planar", "radial", "iaf")}
LEVELS = {kind.__name__: (lambda kind=kind: kind(6, (5,), (3, 2))) for kind in (MarkovVAE, HierarchicalVAE, LadderVAE)}


def bent(kind):
    return DenseVAE(6, (5,), 3, posterior=flow_posterior(kind, 3, 2, 4, 8))


@pytest.mark.parametrize("make", [*FLOWS.values(), *LEVELS.values()], ids=[*FLOWS, *LEVELS])
@pytest.mark.parametrize("pair", [(IWAE(4), DReG(4)), (IWAE(1), STL(1))], ids=["dreg", "stl"])
def test_paths_through_flows_and_levels_have_the_same_mean(make, pair):
    """Each gradient is the mean over 300 rows of one example; twelve of them tell the error."""
    model = filled(make(), 0, 0.4).eval()
    x = bits(1, 6, **DOUBLE).repeat(300, 1)
    found = []
    for number, objective in enumerate(pair):
        slopes = [gradients(model, x, objective, seed)[1] for seed in range(12 * number, 12 * number + 12)]
        found.append(np.array([np.concatenate([s.numpy().ravel() for s in row]) for row in slopes]))
    one, other = found
    error = np.sqrt((one.var(0, ddof=1) + other.var(0, ddof=1)) / 12)
    distance = (one.mean(0) - other.mean(0)) / np.maximum(error, 1e-12)
    assert np.abs(distance).max() < 7 and np.sqrt((distance**2).mean()) < 1.6
    same = [objective(model, x[:3], None, seeded(5)).detach().numpy() for objective in pair]
    np.testing.assert_allclose(*same, rtol=1e-12)


@pytest.mark.parametrize("kind", ["planar", "radial"])
def test_slopes_of_flow_posteriors_are_those_of_their_density(kind):
    """∂log q/∂z by the Jacobian on the way out, against differences of log q by the way back."""
    model = filled(bent(kind), 1, 0.4)
    x = bits(1, 6, **DOUBLE)
    said = model.inferred(x).detach()
    noise = weft.randn(1, 1, 3, generator=seeded(2), **DOUBLE)
    z, log_posterior = (part.detach() for part in model.posterior.path_draw(said, noise))
    np.testing.assert_allclose(log_posterior, model.posterior.log_prob(said, z).detach(), rtol=1e-8)
    slope, step = model.posterior._slope(said, noise), 1e-4
    for i in range(3):
        ahead, behind = (z + sign * step * weft.eye(3, **DOUBLE)[i] for sign in (1, -1))
        rise = model.posterior.log_prob(said, ahead) - model.posterior.log_prob(said, behind)
        assert slope[0, 0, i].item() == pytest.approx(rise.item() / (2 * step), rel=1e-4, abs=1e-5)


@pytest.mark.parametrize("make", [FLOWS["iaf"], LEVELS["MarkovVAE"]], ids=["iaf", "MarkovVAE"])
def test_paths_through_flows_and_levels_are_compiled(make):
    model, x, generator = filled(make(), 0, 0.4), bits(4, 6, **DOUBLE), seeded(1)
    _, eager = gradients(model, x, DReG(3), 1)

    @weft.compile
    def step(x):
        model.zero_grad()
        DReG(3)(model, x, None, generator).mean().backward()

    step(x)
    for parameter, slope in zip(model.parameters(), eager, strict=True):
        np.testing.assert_allclose(parameter.grad.numpy(), slope.numpy(), rtol=1e-7, atol=1e-10)


class OneScale(DiagonalGaussian):
    """A posterior with a weight of its own that says nothing of how to hold it."""

    def __init__(self):
        super().__init__()
        self.scale = weft.nn.Parameter(weft.ones(()))


def test_what_does_not_fit_is_refused():
    x = bits(2, 4)
    with pytest.raises(UnsupportedError, match="no paths from the noise"):
        DenseGumbelVAE(4, (5,), 2, 3, objective=DReG(2)).loss(x)
    with pytest.raises(UnsupportedError, match="weights of its own"):
        DenseVAE(4, (5,), 2, posterior=OneScale(), objective=STL()).loss(x)
    with pytest.raises(UnsupportedError, match="independent elements"):
        DenseVAE(4, (5,), 2, posterior="full", objective=BetaTC(10)).loss(x)
    for wrong in (lambda: IWAE(0), lambda: BetaELBO(-1.0), lambda: CIWAE(2, 1.5), lambda: BetaTC(0), lambda: DReG(0)):
        with pytest.raises(OptionError):
            wrong()
