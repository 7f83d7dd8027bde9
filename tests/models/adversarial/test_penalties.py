"""Penalties on the slope of a critic: closed forms, PyTorch, and the traps of the usual copies."""

from __future__ import annotations

import numpy as np
import pytest
import torch

import weft
from weft import nn
from weft.errors import ConditionError, ShapeError
from weft.models.adversarial import (
    GAN,
    DCDiscriminator,
    DCGenerator,
    GradientPenalty,
    ZeroPenalty,
    gradient_penalty,
    mlp,
    r1_penalty,
    r2_penalty,
)


def images(seed, shape=(4, 2, 3, 3)):
    return weft.randn(*shape, generator=weft.Generator().manual_seed(seed))


def test_gradient_penalty_is_0_for_a_1_lipschitz_linear_critic():
    w = weft.randn(18, dtype=weft.float64, generator=weft.Generator().manual_seed(0))
    w = w / w.norm()
    real, fake = images(1).double(), images(2).double()
    for scale in (1.0, 3.0, 0.5):
        found = gradient_penalty(lambda x, s=scale: s * (x.flatten(1) @ w), real, fake)
        assert found.item() == pytest.approx((scale - 1) ** 2, abs=1e-12)
        one = gradient_penalty(lambda x, s=scale: s * (x.flatten(1) @ w), real, fake, one_sided=True)
        assert one.item() == pytest.approx(max(scale - 1, 0) ** 2, abs=1e-12)


def test_trap_norm_is_over_a_whole_example_not_per_pixel():
    """f = Σ x has slope 1 at each of 18 pixels: the norm is √18. Per pixel it would be 1, and nothing to penalise."""
    found = gradient_penalty(lambda x: x.flatten(1).sum(1), images(1), images(2))
    assert found.item() == pytest.approx((18**0.5 - 1) ** 2, rel=1e-5)


def test_trap_alpha_is_one_number_an_example_even_in_0_to_1():
    """From 0 to 1 in every pixel, x̂ is α itself."""
    seen = []
    critic = lambda x: (seen.append(x.detach()), x.flatten(1).sum(1))[1]
    gradient_penalty(critic, weft.ones(2000, 2, 3), weft.zeros(2000, 2, 3), generator=weft.Generator().manual_seed(0))
    alpha = seen[0].flatten(1).numpy()
    assert (alpha == alpha[:, :1]).all()  # not per pixel
    assert alpha.min() >= 0 and alpha.max() < 1  # not normal
    assert len(np.unique(alpha[:, 0])) > 1990  # not one for the batch
    assert abs(alpha[:, 0].mean() - 0.5) < 0.02 and abs(alpha[:, 0].var() - 1 / 12) < 0.005


def test_trap_square_root_at_0_has_a_finite_slope():
    """A critic that is flat at x̂: norm 0, penalty 1, slope 0 instead of NaN."""
    net = nn.Linear(3, 1)
    with weft.no_grad():
        net.weight.zero_()
    loss = gradient_penalty(net, weft.ones(5, 3), weft.zeros(5, 3))
    loss.backward()
    assert loss.item() == 1 and bool((net.weight.grad == 0).all())


def test_trap_batch_norm_in_the_critic_is_refused_with_the_reason():
    critic = nn.Sequential(nn.Linear(3, 4), nn.BatchNorm1d(4), nn.Linear(4, 1))
    with pytest.raises(ConditionError, match=r"batch normalisation \(1\).*depends on all examples.*LayerNorm"):
        gradient_penalty(critic, weft.ones(5, 3), weft.zeros(5, 3))
    with pytest.raises(ConditionError, match="batch normalisation"):
        GAN(DCGenerator(4, width=2), DCDiscriminator(width=2), 4, "wasserstein", penalties=[GradientPenalty()])
    gradient_penalty(
        nn.Sequential(nn.Linear(3, 4), nn.LayerNorm(4), nn.Linear(4, 1)), weft.ones(5, 3), weft.zeros(5, 3)
    )


def twins(net):
    """The same network in both libraries, in float64."""
    other = torch.nn.Sequential(
        torch.nn.Conv2d(2, 3, 2), torch.nn.Tanh(), torch.nn.Flatten(), torch.nn.Linear(12, 1)
    ).double()
    other.load_state_dict({name: torch.tensor(x.numpy()) for name, x in net.state_dict().items()})
    return other


@pytest.mark.parametrize("compiled", [False, True])
def test_penalties_and_their_second_derivatives_are_those_of_pytorch(compiled):
    net = nn.Sequential(nn.Conv2d(2, 3, 2), nn.Tanh(), nn.Flatten(), nn.Linear(12, 1)).double()
    other, real, fake = twins(net), images(1).double(), images(2).double()
    alpha = weft.rand(4, 1, 1, 1, dtype=weft.float64, generator=weft.Generator().manual_seed(3)).numpy()
    x, y = (torch.tensor(a.numpy()) for a in (real, fake))
    a = torch.tensor(alpha)

    def slope(at):
        at = at.clone().requires_grad_()
        return torch.autograd.grad(other(at).sum(), at, create_graph=True)[0].flatten(1)

    theirs = ((slope(a * x + (1 - a) * y).norm(dim=1) - 1) ** 2).mean()
    theirs = theirs + 0.5 * (slope(x) ** 2).sum(1).mean() + 0.25 * (slope(y) ** 2).sum(1).mean()
    theirs.backward()
    own = weft.Generator().manual_seed(3)
    zero = ZeroPenalty(1.0, 0.5)

    def step(real, fake):
        loss = gradient_penalty(net, real, fake, generator=own) + zero(net, real, fake)
        loss.backward()
        return loss

    found = (weft.compile(step) if compiled else step)(real, fake)
    assert found.item() == pytest.approx(theirs.item(), rel=1e-10)
    for p, q in zip(net.parameters(), other.parameters(), strict=True):
        if q.grad is not None:
            np.testing.assert_allclose(p.grad.numpy(), q.grad.numpy(), atol=1e-10)


def test_r1_and_r2_of_a_linear_critic():
    net = nn.Linear(3, 1).double()
    expected = 0.5 * (net.weight**2).sum().item()
    x = weft.randn(5, 3, dtype=weft.float64)
    assert r1_penalty(net, x).item() == pytest.approx(expected) and r2_penalty(net, x).item() == pytest.approx(expected)
    assert ZeroPenalty(0, 0)(net, x, x).item() == 0


def test_penalty_wants_data_and_draws_of_one_shape():
    with pytest.raises(ShapeError, match="one shape"):
        gradient_penalty(nn.Linear(3, 1), weft.ones(5, 3), weft.ones(4, 3))


def test_spectral_norm_is_the_largest_singular_value():
    """Of every layer, after power iterations; so the whole network is 1-Lipschitz."""
    weft.manual_seed(0)
    net = mlp(3, (8, 8), 1, "leaky_relu", spectral=True)
    layers = [layer for layer in net if hasattr(layer, "parametrizations")]
    plain = [layer.parametrizations.weight.original.detach().numpy().copy() for layer in layers]
    for _ in range(100):
        net(weft.zeros(1, 3))
    net.eval()
    for layer, weight in zip(layers, plain, strict=True):
        np.testing.assert_allclose(layer.weight.detach().numpy(), weight / np.linalg.svd(weight)[1][0], atol=1e-4)
    x, y = weft.randn(2, 500, 3)
    ratio = (net(x) - net(y)).abs()[:, 0] / (x - y).norm(dim=1)
    assert len(layers) == 3 and ratio.max().item() <= 1 + 1e-4


def test_weight_clipping_keeps_every_weight_of_the_critic_alone():
    gan = GAN(mlp(2, (8,), 2), mlp(2, (8,), 1), 2, "wasserstein")
    before = [p.detach().clone() for p in gan.generator_parameters()]
    gan.clip_weights(0.01)
    assert all(p.abs().max() <= 0.01 for p in gan.discriminator_parameters())
    assert all(weft.equal(p, q) for p, q in zip(gan.generator_parameters(), before, strict=True))
