"""Vector quantisation: k-means and the straight-through gradient as outside truths, and traps of codebooks."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch

import weft
from weft import nn
from weft.errors import OptionError, ShapeError
from weft.metrics import CodeUsage
from weft.models.classical.clustering import lloyd_step
from weft.models.generative import binary_states
from weft.models.variational import (
    VQVAE,
    CodePrior,
    ConvolutionalVQVAE,
    LearnedQuantizer,
    ResidualQuantizer,
    VectorQuantizer,
)


@pytest.fixture(autouse=True)
def seeded():
    weft.manual_seed(0)


def with_codebook(quantizer, rows):
    """A quantizer that has been started with these rows."""
    rows = weft.as_tensor(rows, dtype=weft.float32)
    quantizer.codebook.copy_(rows)
    quantizer.sums.copy_(rows)
    quantizer.started.fill_(True)
    return quantizer


# ---- truths ------------------------------------------------------------------------------------------------


def test_codebook_with_decay_0_takes_a_k_means_step():
    x = weft.randn(200, 3)
    quantizer = with_codebook(VectorQuantizer(6, 3, decay=0.0, revive=0.0), x[:6])
    for _ in range(4):
        expected, labels, _ = lloyd_step(x, quantizer.codebook.clone())
        found = quantizer(x)
        assert weft.equal(found.codes, labels)
        weft.testing.assert_close(quantizer.codebook, expected, rtol=1e-5, atol=1e-6)


def test_codebook_is_the_moving_mean_of_its_vectors():
    """nₖ and mₖ by hand, over three batches; an entry that nobody is near stays where it is."""
    start = np.array([[0.0, 0.0], [4.0, 4.0], [99.0, 99.0]], np.float32)
    quantizer = with_codebook(VectorQuantizer(3, 2, decay=0.9, revive=0.0), start)
    counts, sums = np.ones(3), start.astype(np.float64)
    for seed in range(3):
        x = np.random.default_rng(seed).normal(size=(50, 2)).astype(np.float32) + 4 * (np.arange(50) % 2)[:, None]
        labels = ((x[:, None] - (sums / counts[:, None])) ** 2).sum(-1).argmin(1)
        own = np.eye(3)[labels]
        counts, sums = 0.9 * counts + 0.1 * own.sum(0), 0.9 * sums + 0.1 * own.T @ x
        quantizer(weft.tensor(x, dtype=weft.float32))
    np.testing.assert_allclose(quantizer.codebook.numpy(), sums / counts[:, None], rtol=1e-5)
    np.testing.assert_allclose(quantizer.codebook[2].numpy(), start[2], rtol=1e-5)


@pytest.mark.parametrize("kind", ["moving", "learned", "residual"])
def test_straight_through_gradient(kind):
    """∂L/∂z is ∂L/∂e, plus 2 β (z − e) of the commitment; the codebook gets none of it, as in PyTorch's detach."""
    stages = [VectorQuantizer(5, 3, commitment=0.5) for _ in range(2)]
    make = {
        "moving": lambda: stages[0],
        "learned": lambda: LearnedQuantizer(5, 3, commitment=0.5),
        "residual": lambda: ResidualQuantizer(stages),
    }
    quantizer = make[kind]().eval()
    weight = np.random.default_rng(0).normal(size=(4, 3)).astype(np.float32)
    z = weft.randn(4, 3, requires_grad=True)
    found = quantizer(z)
    weft.testing.assert_close(found.values, quantizer.lookup(found.codes))
    (found.values**2 * weft.tensor(weight)).sum().backward()
    e = torch.tensor(quantizer.lookup(found.codes).detach().numpy())
    theirs = torch.tensor(z.detach().numpy(), requires_grad=True)
    ((theirs + (e - theirs).detach()) ** 2 * torch.tensor(weight)).sum().backward()
    np.testing.assert_allclose(z.grad.numpy(), theirs.grad.numpy(), rtol=1e-6)
    if kind == "learned":
        assert quantizer.codebook.grad is None or not quantizer.codebook.grad.any()


def test_losses_bind_vectors_and_entries():
    """β ‖z − sg(e)‖² pulls z, ‖sg(z) − e‖² pulls e."""
    quantizer = LearnedQuantizer(3, 2, commitment=0.25)
    z = weft.randn(6, 2, requires_grad=True)
    found = quantizer(z)
    entries = quantizer.codebook[found.codes].detach()
    weft.testing.assert_close(found.loss, 1.25 * ((z - entries) ** 2).sum(1))
    found.loss.sum().backward()
    weft.testing.assert_close(z.grad, 0.5 * (z - entries).detach())
    expected = weft.zeros(3, 2).index_add(0, found.codes, 2 * (entries - z).detach())
    weft.testing.assert_close(quantizer.codebook.grad, expected)


def test_residual_codebooks_never_make_it_worse():
    """With a zero entry in every codebook the error of each stage is at most that of the one before."""
    x = weft.randn(300, 4)
    stages = [VectorQuantizer(8, 4, decay=0.0, revive=0.0) for _ in range(3)]
    quantizer = ResidualQuantizer(stages)
    for _ in range(10):
        quantizer(x)
    for stage in stages:
        stage.codebook[0] = 0.0
    quantizer.eval()
    codes = quantizer.numbers(x)
    assert codes.shape == (300, 3)
    left, errors = x, [(x**2).mean().item()]
    for stage, own in zip(stages, codes.unbind(-1), strict=True):
        left = left - stage.lookup(own)
        errors.append((left**2).mean().item())
    assert errors == sorted(errors, reverse=True)
    assert errors[-1] < 0.4 * errors[1]
    weft.testing.assert_close(x - quantizer(x).values, left, rtol=1e-5, atol=1e-6)


# ---- traps -------------------------------------------------------------------------------------------------


def test_perplexity_is_that_of_the_epoch_not_the_mean_of_batches():
    """The trap: batches sorted by class use few codes each, the epoch uses all of them alike."""
    usage, batches = CodeUsage(16), [weft.full((10,), code, dtype=weft.int64) for code in range(16)]
    each = [usage(batch) for batch in batches]
    assert np.mean(each) == pytest.approx(1)
    assert usage.compute() == pytest.approx(16)
    assert usage.used == 16
    p = np.array([0.5, 0.25, 0.25])
    assert CodeUsage(8).once([0, 0, 1, 2]) == pytest.approx(math.exp(-(p * np.log(p)).sum()))
    with pytest.raises(OptionError, match="from 0 to 15"):
        usage.update([16])


def test_dead_codes_are_revived():
    """All but two of the entries begin far away; without revival they stay unused for ever."""
    x = weft.randn(512, 2)
    start = weft.full((16, 2), 50.0)
    start[:2] = x[:2]
    used = {}
    for revive in (0.0, 0.1):
        quantizer = with_codebook(VectorQuantizer(16, 2, decay=0.5, revive=revive), start)
        for _ in range(20):
            quantizer(x)
        used[revive] = len(quantizer.eval()(x).codes.unique())
    assert used == {0.0: 2, 0.1: 16}


@pytest.mark.parametrize("compiled", [False, True], ids=["eager", "compiled"])
def test_the_first_batch_starts_the_codebook(compiled):
    """Also in a compiled step, and once: the second batch does not start it again."""
    quantizer = VectorQuantizer(8, 2, decay=0.999, revive=0.0)
    step = weft.compile(lambda z: quantizer(z).codes) if compiled else lambda z: quantizer(z).codes
    first = weft.randn(64, 2) + 100
    step(first)
    assert bool(quantizer.started)
    assert len({tuple(row) for row in quantizer.codebook.round(decimals=1).tolist()}) == 8
    assert ((quantizer.codebook - 100).abs() < 6).all()
    step(weft.randn(64, 2) - 100)
    assert (quantizer.codebook > 50).all()


def test_evaluation_changes_no_codebook():
    model = ConvolutionalVQVAE((1, 8, 8), codes=8, dimension=4, width=8)
    x = weft.bernoulli(weft.full((6, 1, 8, 8), 0.5))
    model.loss(x)
    before = {name: value.clone() for name, value in model.state_dict().items()}
    model.eval()
    model.loss(x)
    model.elbo(x)
    model.reconstruct(x)
    assert all(weft.equal(value, before[name]) for name, value in model.state_dict().items())


# ---- the model ---------------------------------------------------------------------------------------------


def test_the_bound_is_one():
    """log p(x) = log Σₖ p(x | eₖ) / K over all codes of a model small enough to sum."""
    model = VQVAE(nn.Linear(6, 2), nn.Linear(2, 6), VectorQuantizer(8, 2), ()).eval()
    x = binary_states(6)
    entries = model.quantizer.codebook
    each = model.likelihood.log_prob(model.said(entries).repeat_interleave(len(x), 0), x)  # (8, 64)
    true = each.logsumexp(0) - math.log(8)
    assert weft.allclose(true.exp().sum(), weft.tensor(1.0))
    assert (model.elbo(x) <= true + 1e-6).all()
    found = model.log_prob_bound(x, samples=3)
    weft.testing.assert_close(found.value, model.elbo(x))
    assert not found.error.any()


def test_a_prior_over_codes_sums_to_one_and_draws_codes():
    prior = CodePrior(4, (2, 2), features=4, layers=2)
    digits = binary_states(8).reshape(-1, 2, 2, 2)
    codes = prior.read(digits)
    assert weft.equal(prior.written(codes), digits)
    with weft.no_grad():
        assert prior.log_prob(codes).exp().sum().item() == pytest.approx(1, abs=1e-5)
    drawn = prior.draw(50)
    assert drawn.shape == (50, 2, 2) and set(drawn.unique().tolist()) <= {0, 1, 2, 3}


def test_a_trained_prior_is_part_of_bound_and_samples():
    model = ConvolutionalVQVAE((1, 8, 8), codes=4, dimension=2, width=4).eval()
    x = weft.bernoulli(weft.full((3, 1, 8, 8), 0.5))
    before = model.elbo(x)
    uniform = model.prior.log_prob(model.codes(x))
    model.prior = CodePrior(4, (2, 2), features=4, layers=2)
    weft.testing.assert_close(model.elbo(x) - before, model.prior.log_prob(model.codes(x)) - uniform)
    same = [model.sample(5, generator=weft.Generator().manual_seed(1)) for _ in range(2)]
    assert same[0].shape == (5, 1, 8, 8) and weft.equal(*same)
    assert model.interpolate(x[:1], x[1:2], 4).shape == (4, 1, 1, 8, 8)


def test_a_short_training_uses_the_codebook():
    """Bars, horizontal or vertical: 60 compiled steps halve the loss with every code in use."""
    place, across = weft.randint(0, 8, (256,)), weft.rand(256) < 0.5
    lines = (weft.arange(8) == place.unsqueeze(1)).float()  # (256, 8)
    x = weft.where(across[:, None, None], lines.unsqueeze(1), lines.unsqueeze(2)).unsqueeze(1)
    x = x.expand(256, 1, 8, 8).contiguous()
    model = ConvolutionalVQVAE((1, 8, 8), codes=8, dimension=4, width=8)
    optimizer = weft.optim.Adam(model.parameters(), lr=0.01)

    @weft.compile
    def step(x):
        loss = model.loss(x)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        return loss

    losses = [step(x).item() for _ in range(60)]
    assert losses[-1] < 0.5 * losses[0]
    usage = CodeUsage(8)
    usage.update(model.eval().codes(x))
    assert usage.used == 8


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (lambda: VectorQuantizer(1, 2), OptionError, "codes ≥ 2"),
        (lambda: VectorQuantizer(4, 2, decay=1.0), OptionError, "below 1"),
        (lambda: VectorQuantizer(4, 2)(weft.zeros(3, 3)), ShapeError, r"\(…, 2\)"),
        (lambda: ResidualQuantizer([]), OptionError, "at least one"),
        (lambda: CodePrior(6, (2, 2)), OptionError, "2, 4, 8"),
        (lambda: ConvolutionalVQVAE((1, 9, 8)), OptionError, "multiples of 4"),
        (
            lambda: VQVAE(nn.Linear(6, 3), nn.Linear(2, 6), VectorQuantizer(8, 2), ()).codes(weft.zeros(2, 6)),
            ShapeError,
            "2",
        ),
    ],
)
def test_what_is_refused(call, error, message):
    with pytest.raises(error, match=message):
        call()
