"""Contractive and sparse penalties against autograd, PyTorch and closed forms."""

from __future__ import annotations

import numpy as np
import pytest
import torch

import weft
from weft import nn
from weft.errors import OptionError, UnsupportedError
from weft.models.autoencoders import (
    Autoencoder,
    Contraction,
    ConvolutionalAutoencoder,
    DeepAutoencoder,
    KLSparsity,
    L1Sparsity,
    SigmoidContraction,
    TiedAutoencoder,
    jacobian_norm,
)


@pytest.fixture
def x():
    return weft.tensor(np.random.default_rng(0).standard_normal((5, 7)))


def doubled(module):
    return module.to(weft.float64)


def in_torch(encoder):
    """The same layers and weights."""
    made = []
    for part in encoder:
        if isinstance(part, nn.Linear):
            layer = torch.nn.Linear(part.in_features, part.out_features, dtype=torch.float64)
            layer.load_state_dict({k: torch.tensor(v.detach().numpy()) for k, v in part.state_dict().items()})
            made.append(layer)
        else:
            made.append(getattr(torch.nn, type(part).__name__)())
    return torch.nn.Sequential(*made)


def squared_jacobians(encoder, x):
    """‖J‖² of each row, by PyTorch's autograd, row by row."""
    rows = [torch.autograd.functional.jacobian(encoder, row, create_graph=True) for row in torch.tensor(x.numpy())]
    return torch.stack([(j**2).sum() for j in rows])


@pytest.mark.parametrize("depth", [1, 2])
def test_the_penalty_is_the_jacobians_norm_and_so_is_its_slope(depth, x):
    weft.manual_seed(0)
    layers = (
        [nn.Linear(7, 4), nn.Sigmoid()] if depth == 1 else [nn.Linear(7, 6), nn.Tanh(), nn.Linear(6, 4), nn.Sigmoid()]
    )
    encoder = doubled(nn.Sequential(*layers))
    other = in_torch(encoder)
    theirs = squared_jacobians(other, x)
    np.testing.assert_allclose(jacobian_norm(encoder, x).detach(), theirs.detach().numpy(), rtol=1e-10)
    model = Autoencoder(encoder, doubled(nn.Linear(4, 7)), penalties=[Contraction(0.3)])
    penalty = model.loss(x) - model.reconstruction_error(x).mean()
    assert penalty.item() == pytest.approx(0.3 * theirs.mean().item(), rel=1e-10)
    penalty.backward()
    (0.3 * theirs.mean()).backward()
    for ours, its in zip(encoder.parameters(), other.parameters(), strict=True):
        np.testing.assert_allclose(ours.grad, its.grad.numpy(), rtol=1e-8, atol=1e-12)


def test_one_sigmoid_layer_has_a_closed_form(x):
    model = doubled(TiedAutoencoder(7, [4]))
    z = model.encode(x)
    closed, general = SigmoidContraction(2.0)(model, x, z), Contraction(2.0)(model, x, z)
    assert closed.item() == pytest.approx(general.item(), rel=1e-10)
    slopes = [weft.autograd.grad(value, model.encoder[0].weight)[0] for value in (closed, general)]
    np.testing.assert_allclose(*(s.numpy() for s in slopes), rtol=1e-9, atol=1e-14)


def test_images_have_jacobians_too():
    model = doubled(ConvolutionalAutoencoder((1, 5, 4), (3,), 2))
    images = weft.randn(3, 1, 5, 4, dtype=weft.float64)
    each = [weft.func.jacrev(lambda row: model.encode(row.unsqueeze(0))[0])(image) for image in images]
    expected = [(j**2).sum().item() for j in each]
    np.testing.assert_allclose(jacobian_norm(model.encode, images).detach(), expected, rtol=1e-9)


def test_a_closed_form_is_refused_where_it_does_not_hold(x):
    model = doubled(DeepAutoencoder(7, (5,), 3, penalties=[SigmoidContraction(1.0)]))
    with pytest.raises(UnsupportedError, match="Contraction takes any"):
        model.loss(x)


def test_kl_sparsity_is_the_divergence_of_coins(x):
    model = doubled(TiedAutoencoder(7, [4], penalties=[KLSparsity(3.0, 0.1)]))
    on = torch.tensor(model.encode(x).mean(0).detach().numpy())
    theirs = torch.distributions.kl_divergence(
        torch.distributions.Bernoulli(torch.full_like(on, 0.1)), torch.distributions.Bernoulli(on)
    ).sum()
    penalty = model.loss(x) - model.reconstruction_error(x).mean()
    assert penalty.item() == pytest.approx(3 * theirs.item(), rel=1e-10)
    at_rest = KLSparsity(1.0, 0.25)(model, x, weft.full((6, 4), 0.25))
    assert at_rest.item() == pytest.approx(0, abs=1e-7)


def test_l1_sparsity_sums_each_code(x):
    model = doubled(DeepAutoencoder(7, (5,), 3, penalties=[L1Sparsity(0.5)]))
    expected = 0.5 * np.abs(model.encode(x).detach().numpy()).sum(1).mean()
    assert (model.loss(x) - model.reconstruction_error(x).mean()).item() == pytest.approx(expected, rel=1e-10)


def test_shares_that_are_none():
    for share in (0.0, 1.0):
        with pytest.raises(OptionError, match="share"):
            KLSparsity(1.0, share)
