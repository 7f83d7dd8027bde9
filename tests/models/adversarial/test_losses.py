"""Losses of both players against PyTorch and against the slopes that the notes state (N1 §9, lemma 9.1)."""

from __future__ import annotations

import numpy as np
import pytest
import torch

import weft
from weft.errors import OptionError
from weft.models.adversarial import GAN, LOSSES, AdversarialLoss, mlp
from weft.models.adversarial import losses as ours

REAL, FAKE = np.random.default_rng(0).normal(0, 2, (2, 7, 1))
T = torch.nn.functional
ONES, ZEROS = torch.ones(7, 1, dtype=torch.float64), torch.zeros(7, 1, dtype=torch.float64)
# (loss of D, loss of G) as PyTorch's users write them
THEIRS = {
    "minimax": (
        lambda r, f: T.binary_cross_entropy_with_logits(r, ONES) + T.binary_cross_entropy_with_logits(f, ZEROS),
        lambda f: torch.log(1 - torch.sigmoid(f)).mean(),
    ),
    "non_saturating": (
        lambda r, f: T.binary_cross_entropy_with_logits(r, ONES) + T.binary_cross_entropy_with_logits(f, ZEROS),
        lambda f: T.binary_cross_entropy_with_logits(f, ONES),
    ),
    "hinge": (lambda r, f: T.relu(1 - r).mean() + T.relu(1 + f).mean(), lambda f: -f.mean()),
    "least_squares": (
        lambda r, f: T.mse_loss(r, ONES) / 2 + T.mse_loss(f, ZEROS) / 2,
        lambda f: T.mse_loss(f, ONES) / 2,
    ),
    "wasserstein": (lambda r, f: f.mean() - r.mean(), lambda f: -f.mean()),
}


@pytest.mark.parametrize("name", LOSSES)
def test_losses_and_their_slopes_are_those_of_pytorch(name):
    own, theirs = LOSSES[name], THEIRS[name]
    for given, f, g in (((REAL, FAKE), own.discriminator, theirs[0]), ((FAKE,), own.generator, theirs[1])):
        x = [weft.tensor(a, requires_grad=True) for a in given]
        y = [torch.tensor(a, requires_grad=True) for a in given]
        a, b = f(*x), g(*y)
        a.backward()
        b.backward()
        assert a.item() == pytest.approx(b.item(), abs=1e-12)
        for p, q in zip(x, y, strict=True):
            np.testing.assert_allclose(p.grad.numpy(), q.grad.numpy(), atol=1e-12)


def test_lemma_9_1_slopes_of_the_generator_saturate_and_do_not():
    """∂/∂a log(1 − σ(a)) = −D and ∂/∂a −log σ(a) = −(1 − D): the first is gone where D is sure."""
    a = weft.tensor([-30.0, -5.0, 0.0, 5.0], dtype=weft.float64)
    d = a.sigmoid()
    slope = lambda f: weft.func.grad(lambda a: f(a) * len(a))(a)
    np.testing.assert_allclose(slope(ours.minimax_generator).numpy(), -d.numpy(), atol=1e-15)
    np.testing.assert_allclose(slope(ours.non_saturating_generator).numpy(), (d - 1).numpy(), atol=1e-15)
    assert slope(ours.minimax_generator)[0].abs() < 1e-12 and slope(ours.non_saturating_generator)[0] < -0.99


def test_lemma_9_1_the_generator_has_no_slope_in_the_data_term():
    """∇_G V = ∇_G E log(1 − D(G(z))): that of the whole value through draws with slopes, at fixed noise."""
    weft.manual_seed(0)
    gan = GAN(mlp(2, (5,), 3).double(), mlp(3, (5,), 1).double(), 2, "minimax")
    x, z = weft.randn(6, 3, dtype=weft.float64), weft.randn(6, 2, dtype=weft.float64)
    weights = list(gan.generator_parameters())
    fake = gan.criticise(gan.generate(z))
    whole = -ours.logistic_discriminator(gan.criticise(x), fake)
    one, other = (weft.autograd.grad(v, weights, retain_graph=True) for v in (whole, ours.minimax_generator(fake)))
    for a, b in zip(one, other, strict=True):
        np.testing.assert_allclose(a.numpy(), b.numpy(), atol=1e-14)


def test_huge_scores_stay_finite():
    far = weft.tensor([[1e4], [-1e4]], requires_grad=True)
    for own in LOSSES.values():
        total = own.discriminator(far, far) + own.generator(far)
        (slope,) = weft.autograd.grad(total, far)
        assert bool(total.isfinite()) and bool(slope.isfinite().all())


def test_a_loss_of_the_callers_own_and_a_wrong_name():
    own = AdversarialLoss(lambda r, f: f.mean(), lambda f: f.sum())
    assert GAN(mlp(1, (), 1), mlp(1, (), 1), 1, own).loss is own
    with pytest.raises(OptionError, match="expected one of minimax, non_saturating, hinge"):
        GAN(mlp(1, (), 1), mlp(1, (), 1), 1, "wgan")
