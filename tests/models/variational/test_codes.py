"""Priors and samplers fitted to codes, MMD objectives, collapse: closed forms, scikit-learn's EM, planted faults."""

from __future__ import annotations

import math
from copy import deepcopy
from types import SimpleNamespace

import numpy as np
import pytest
from sklearn import mixture

import weft
from weft import nn
from weft.data import DataLoader, TensorDataset
from weft.errors import ConditionError, OptionError, ShapeError, StateError, UnsupportedError
from weft.models.autoencoders.wasserstein import mmd
from weft.models.flows import MAF, Flow
from weft.models.variational import (
    ELBO,
    VAE,
    CollapseMonitor,
    ConditionalVAE,
    ConvolutionalVQVAE,
    DenseGumbelVAE,
    DenseVAE,
    DenseVampVAE,
    FlowSampler,
    GaussianMixture,
    HierarchicalVAE,
    InfoELBO,
    LadderVAE,
    MarkovVAE,
    MixtureSampler,
    PriorSampler,
    VampPrior,
    active_units,
    check_elbo,
    code_report,
    flow_posterior,
)
from weft.train import Task, Trainer


@pytest.fixture(autouse=True)
def seeded():
    weft.manual_seed(0)


def bits(rows=40, size=6):
    return weft.bernoulli(weft.full((rows, size), 0.5))


# ---- VampPrior ---------------------------------------------------------------------------------------------


def test_vamp_prior_is_the_mean_of_posteriors():
    """log 1/M Σ N(z; μₘ, σₘ²), by hand; it integrates to 1 and draws have its mean and variance."""
    model = DenseVampVAE(6, (5,), 1, inputs=4)
    with weft.no_grad():
        mean, log_scale = model.posterior.split(model.encoder(model.prior.pseudo_inputs))
        z = weft.linspace(-12, 12, 4001).reshape(1, -1, 1)
        found = model.prior.log_prob(z)[0]
        scale = log_scale.exp()
        each = -0.5 * ((z[0] - mean.T) / scale.T) ** 2 - log_scale.T - 0.5 * math.log(2 * math.pi)
        np.testing.assert_allclose(found.numpy(), (each.logsumexp(1) - math.log(4)).numpy(), rtol=1e-4, atol=1e-4)
        assert (found.exp().sum() * 24 / 4000).item() == pytest.approx(1, abs=1e-3)
        drawn = model.prior_draws(20_000)
        spread = (scale**2 + mean**2).mean() - mean.mean() ** 2
        assert drawn.mean().item() == pytest.approx(mean.mean().item(), abs=5 * (spread.item() / 20_000) ** 0.5)
        assert drawn.var().item() == pytest.approx(spread.item(), rel=0.06)


def test_a_vamp_prior_of_all_the_data_takes_the_marginal_divergence_away():
    """The best prior is the mean of q over the data: then KL(q(z) ‖ p(z)) = 0 and the KL is all mutual information."""
    x = bits(12)
    model = VAE(nn.Linear(6, 4), nn.Linear(2, 6), 2)
    plain = code_report(model, x, 200)
    model.prior, model.closed_form = VampPrior(model.encoder, model.posterior, (6,), 12, start=x, low=-1, high=2), False
    report = code_report(model, x, 200)
    assert plain.marginal_kl > 5 * plain.error
    assert report.marginal_kl == pytest.approx(0, abs=1e-4)
    assert report.kl == pytest.approx(report.mutual_information, abs=1e-3)


def test_vamp_prior_shares_the_encoder_and_survives_copies():
    model = DenseVampVAE(6, (5,), 2, inputs=3)
    assert sum("encoder" in name for name in model.state_dict()) == len(model.encoder.state_dict())
    copy = deepcopy(model)
    assert copy.prior.shared[0] is copy.encoder
    model.loss(bits()).backward()
    assert model.prior.logits.grad.abs().sum() > 0
    assert model.sample(4).shape == (4, 6)
    with pytest.raises(OptionError, match="3 examples"):
        VampPrior(model.encoder, "diagonal", (6,), 3, start=bits(2))


# ---- InfoVAE -----------------------------------------------------------------------------------------------


def test_info_elbo_is_the_drawn_elbo_at_alpha_0_lambda_1():
    model, x = DenseVAE(6, (5,), 2, closed_form=False), bits()
    seeded = lambda: weft.Generator().manual_seed(1)
    one, other = (objective(model, x, None, seeded()) for objective in (InfoELBO(0.0, 1.0), ELBO()))
    assert weft.equal(one, other)


def test_info_elbo_adds_its_mmd():
    model, x = DenseVAE(6, (5,), 2), bits()
    generator = weft.Generator().manual_seed(1)
    draws = model.draws(x, 1, None, generator)
    z, prior = draws.z[0], model.prior_draws(len(x), generator=generator)
    expected = draws.log_likelihood[0] - 10 * mmd(z, prior, "rbf")
    found = InfoELBO(1.0, 10.0, "rbf")(model, x, None, weft.Generator().manual_seed(1))
    weft.testing.assert_close(found, expected)
    with pytest.raises(OptionError, match="α"):
        InfoELBO(2.0)


# ---- samplers ----------------------------------------------------------------------------------------------


def two_clouds(rows=400):
    """Codes on two tilted clouds."""
    left = weft.randn(rows // 2, 2) @ weft.tensor([[1.0, 0.4], [0.0, 0.3]]) + 3
    return weft.cat([left, 0.5 * weft.randn(rows // 2, 2) - 3])


def test_gaussian_mixture_by_em_is_scikit_learns():
    x = two_clouds().double()
    ours = GaussianMixture(2, 2, dtype=weft.float64).fit(x, tol=1e-10)
    theirs = mixture.GaussianMixture(2, tol=1e-10, max_iter=500, random_state=0).fit(x.numpy())
    np.testing.assert_allclose(ours.log_prob(x).numpy(), theirs.score_samples(x.numpy()), rtol=1e-4, atol=1e-4)
    order = ours.means[:, 0].argsort()
    np.testing.assert_allclose(ours.weights[order].numpy(), sorted(theirs.weights_, reverse=True), atol=1e-4)
    drawn = ours.sample(20_000)
    np.testing.assert_allclose(drawn.mean(0).numpy(), x.mean(0).numpy(), atol=0.1)
    np.testing.assert_allclose(np.cov(drawn.numpy().T), np.cov(x.numpy().T), rtol=0.05, atol=0.1)


def test_samplers_follow_the_codes_where_the_prior_does_not():
    """An encoder that is the identity: codes are the data, far from N(0, I)."""
    model = VAE(nn.Identity(), nn.Identity(), 2, "gaussian")
    model.encode, model.decode = lambda x, condition=None: x, lambda z, condition=None: z
    x = two_clouds(600)
    near = lambda drawn: weft.cdist(drawn, x).amin(1).mean().item()
    mixed = MixtureSampler(model, 2).fit(x)
    flowing = FlowSampler(model, Flow([MAF(2, hidden=(16,), order=order) for order in ("natural", "reversed")], 2))
    flowing.fit(x, steps=150, lr=0.01)
    assert near(weft.randn(300, 2)) > 3 * near(mixed.sample(300))
    assert near(weft.randn(300, 2)) > 1.5 * near(flowing.sample(300))
    for sampler in (mixed, flowing):
        seeded = [sampler.sample(5, generator=weft.Generator().manual_seed(1)) for _ in range(2)]
        assert weft.equal(*seeded)


def test_the_prior_sampler_and_what_is_refused():
    model = DenseVAE(6, (5,), 2)
    assert PriorSampler(model).sample(3).shape == (3, 6)
    for sampler in (MixtureSampler(model), FlowSampler(model)):
        with pytest.raises(StateError, match="call fit"):
            sampler.sample(2)
    with pytest.raises(ShapeError, match="at least 10 rows"):
        MixtureSampler(model).fit(bits(5))
    with pytest.raises(OptionError, match="at least one component"):
        GaussianMixture(0, 2)


# ---- collapse ----------------------------------------------------------------------------------------------


def linear(scale):
    """A VAE whose code is scale · (the first two bits − ½), with σ = ½: information in closed form is not needed, its
    limits are."""
    model = VAE(nn.Linear(6, 4), nn.Linear(2, 6), 2)
    with weft.no_grad():
        model.encoder.weight.zero_()
        model.encoder.weight[0, 0] = model.encoder.weight[1, 1] = scale
        model.encoder.bias.copy_(weft.tensor([-scale / 2, -scale / 2, math.log(0.5), math.log(0.5)]))
    return model


def test_elbo_in_parts_adds_up():
    """KL = I(n; z) + KL(q(z) ‖ p(z)); codes far apart say which of the distinct codes an example has."""
    x = bits(64)
    report = code_report(linear(200.0), x, 50)
    assert report.elbo == pytest.approx(report.reconstruction - report.kl, rel=1e-5)
    assert report.mutual_information + report.marginal_kl == pytest.approx(report.kl, rel=1e-3)
    kinds = np.unique(x[:, :2].numpy(), axis=0, return_counts=True)[1] / 64
    assert report.mutual_information == pytest.approx(-(kinds * np.log(kinds)).sum(), abs=1e-3)
    near = linear(0.7)
    assert near.posterior.kl(near.inferred(x), near.prior).mean().item() == pytest.approx(
        code_report(near, x).kl_per_dimension.sum().item(), rel=1e-5
    )


def test_active_units_are_those_whose_mean_moves():
    model, x = linear(1.0), bits(64)
    with weft.no_grad():
        model.encoder.weight[1] = 0
    assert active_units(model, x).tolist() == [True, False]


def test_check_elbo_passes_sound_models_and_finds_collapse():
    x = bits(32)
    for model in (linear(1.0), DenseVAE(6, (5,), 2, posterior="full"), DenseVampVAE(6, (5,), 2, inputs=4)):
        check_elbo(model, x, may_collapse=True)
    assert check_elbo(linear(1.0), x).active_units == 2
    dead = linear(0.0)
    with pytest.raises(ConditionError, match="collapsed: 0 of 2 units"):
        check_elbo(dead, x)
    assert check_elbo(dead, x, may_collapse=True).collapsed
    with pytest.raises(UnsupportedError, match="got Linear"):
        code_report(nn.Linear(6, 2), x)


OTHERS = {
    "planar": lambda: DenseVAE(6, (5,), 2, posterior=flow_posterior("planar", 2, 2, 3)),
    "iaf": lambda: DenseVAE(6, (5,), 2, posterior=flow_posterior("iaf", 2, 1, 3, 8)),
    "markov": lambda: MarkovVAE(6, (5,), (3, 2)),
    "hierarchical": lambda: HierarchicalVAE(6, (5,), (3, 2)),
    "ladder": lambda: LadderVAE(6, (5,), (3, 2)).eval(),
    "gumbel": lambda: DenseGumbelVAE(6, (5,), 2, 3),
}


@pytest.mark.parametrize("make", OTHERS.values(), ids=OTHERS)
def test_check_elbo_takes_every_model_with_codes(make):
    """Sound ones pass; a divergence that lacks three nats is found."""
    model, x = make(), bits(24)
    check_elbo(model, x, may_collapse=True)
    whole = type(model).draws

    class Short(type(model)):
        def terms(self, x, condition=None, samples=1, generator=None):
            found = whole(self, x, samples, condition, generator)
            return found.log_likelihood.mean(0), (found.log_posterior - found.log_prior).mean(0) - 3

    model.__class__ = Short
    with pytest.raises(ConditionError, match="standard errors apart"):
        check_elbo(model, x, may_collapse=True)


@pytest.mark.parametrize("make", OTHERS.values(), ids=OTHERS)
def test_densities_of_codes_under_other_examples(make):
    """Under its own example a code has the density that it was drawn with; information lies between 0 and log N."""
    model, x = make(), bits(8)
    found = model.draws(x, 1)
    every = model.pairwise_log_posterior(found.z[0], x)
    weft.testing.assert_close(every.diagonal(), found.log_posterior[0], atol=1e-3, rtol=1e-3)
    one = model.pairwise_log_posterior(found.z[0, 2:3], x[5:6])
    weft.testing.assert_close(every[2, 5], one[0, 0], atol=1e-4, rtol=1e-4)


def test_codes_that_are_numbers_say_which_kind_an_example_is():
    """Hard codes: the information is the entropy of how often each code is used, exactly."""
    model = ConvolutionalVQVAE((1, 8, 8), 4, 3, 4).eval()
    x = weft.rand(12, 1, 8, 8).round()
    codes = model.codes(x).flatten(1).numpy()
    shares = np.unique(codes, axis=0, return_counts=True)[1] / 12
    report = code_report(model, x)
    assert report.mutual_information == pytest.approx(-(shares * np.log(shares)).sum(), abs=1e-5)
    assert report.kl == pytest.approx(4 * math.log(4), rel=1e-6)


def test_codes_of_conditional_models_are_looked_at_with_their_conditions():
    model, x, y = ConditionalVAE(6, (5,), 2, conditions=3), bits(24), weft.arange(24) % 3
    report = check_elbo(model, x, y, may_collapse=True)
    assert report.mutual_information + report.marginal_kl == pytest.approx(report.kl, abs=8 * report.error + 1e-3)
    with pytest.raises(Exception, match="condition"):
        code_report(model, x)


class MeanOverPixels(VAE):
    """The trap: reconstruction averaged over pixels, the KL summed; a hidden β of the number of pixels."""

    def terms(self, x, condition=None, samples=1, generator=None):
        reconstruction, divergence = super().terms(x, condition, samples, generator)
        return reconstruction / x[0].numel(), divergence


def test_check_elbo_catches_a_mean_beside_a_sum_and_a_wrong_divergence():
    x = bits(32)
    broken = MeanOverPixels(nn.Linear(6, 4), nn.Linear(2, 6), 2)
    with pytest.raises(ConditionError, match=r"elbo\(x\) and"):
        check_elbo(broken, x)
    wrong = linear(1.0)
    wrong.posterior.kl = lambda said, prior, condition=None: weft.zeros(len(said))
    with pytest.raises(ConditionError, match="standard errors apart"):
        check_elbo(wrong, x)


class Learning(Task):
    def __init__(self, model):
        super().__init__()
        self.model = model

    def training_step(self, batch):
        return self.model.loss(batch[0])

    def validation_step(self, batch):
        self.log("val_loss", self.model.loss(batch[0]))

    def configure_optimizers(self):
        return weft.optim.Adam(self.parameters(), lr=0.01)


def test_the_monitor_logs_active_units_and_says_when_codes_are_silent():
    x = bits(32)
    loader = lambda: DataLoader(TensorDataset(x), batch_size=16)
    model, monitor = linear(3.0), CollapseMonitor(x)
    trainer = Trainer(max_epochs=2, callbacks=[monitor], run_folder=False, progress=False, compile=False)
    trainer.fit(Learning(model), loader(), loader())
    assert trainer.history["active_units"] == [2.0, 2.0]
    assert trainer.history["largest_kl"][-1] == pytest.approx(monitor.history[-1].max().item())
    assert monitor.history.shape == (2, 2) and model.training
    said = []
    watched = SimpleNamespace(run=SimpleNamespace(log=said.append))
    monitor.on_validation_end(watched, Learning(linear(0.0)))
    assert len(said) == 1 and "codes say nothing about x" in said[0]
    again = CollapseMonitor(x)
    again.load_state_dict(monitor.state_dict())
    assert weft.equal(again.history, monitor.history)
