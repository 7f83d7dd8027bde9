"""Autoencoders that can be sampled from: MMD against a double sum, the adversary against PyTorch, the fitted density."""

from __future__ import annotations

import numpy as np
import pytest
import torch

import weft
from weft import nn
from weft.errors import OptionError, ShapeError, UnsupportedError
from weft.models.autoencoders import (
    AdversarialAutoencoder,
    DeepAutoencoder,
    RegularisedAutoencoder,
    WassersteinAutoencoder,
    mmd,
)

SCALES = (0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 10.0)


def seeded(seed=0):
    return weft.Generator().manual_seed(seed)


def k(a, b, kernel):
    d2, total = np.sum((a - b) ** 2), 0.0
    for scale in SCALES:
        width = 2 * len(a) * scale
        total += width / (width + d2) if kernel == "imq" else np.exp(-d2 / width)
    return total


@pytest.mark.parametrize("kernel", ["imq", "rbf"])
def test_mmd_is_its_double_sums(kernel):
    rng = np.random.default_rng(0)
    x, y = rng.standard_normal((6, 3)), 1 + rng.standard_normal((4, 3))
    own_x = np.mean([k(x[i], x[j], kernel) for i in range(6) for j in range(6) if i != j])
    own_y = np.mean([k(y[i], y[j], kernel) for i in range(4) for j in range(4) if i != j])
    cross = np.mean([k(a, b, kernel) for a in x for b in y])
    assert mmd(weft.tensor(x), weft.tensor(y), kernel).item() == pytest.approx(own_x + own_y - 2 * cross, rel=1e-10)


@pytest.mark.parametrize("kernel", ["imq", "rbf"])
def test_mmd_has_no_bias_and_sees_a_shift(kernel):
    generator = seeded()
    draw = lambda: weft.randn(20, 2, generator=generator)
    same = np.array([mmd(draw(), draw(), kernel).item() for _ in range(300)])
    assert abs(same.mean()) < 4 * same.std() / np.sqrt(300) and (same < 0).any()
    moved = np.array([mmd(draw() + 0.5, draw(), kernel).item() for _ in range(50)])
    assert moved.mean() > 10 * same.std() / np.sqrt(300)


def test_mmd_refuses():
    with pytest.raises(OptionError, match="imq"):
        mmd(weft.zeros(3, 2), weft.zeros(3, 2), "cosine")
    with pytest.raises(ShapeError, match="two rows"):
        mmd(weft.zeros(1, 2), weft.zeros(3, 2))


def ring(n, generator):
    angle = 6.2832 * weft.rand(n, 1, generator=generator)
    return weft.cat([angle.cos(), angle.sin(), 0.5 * angle.cos()], 1) + 0.02 * weft.randn(n, 3, generator=generator)


def fitted(loss, parameters, steps=400, lr=5e-3):
    optimizer = weft.optim.Adam(list(parameters), lr=lr)

    @weft.compile
    def step():
        optimizer.zero_grad()
        found = loss()
        found.backward()
        optimizer.step()
        return found.detach()

    return [step().item() for _ in range(steps)]


def halves(code=2):
    parts = DeepAutoencoder(3, (32,), code, activation="tanh")
    return parts.encoder, parts.decoder


def test_a_wasserstein_autoencoder_brings_its_codes_to_the_prior():
    weft.manual_seed(0)
    generator, model = seeded(1), WassersteinAutoencoder(*halves(), 2, weight=5.0)
    x = ring(1000, generator)
    distance = lambda: mmd(model.embed(x), weft.randn(1000, 2, generator=generator)).item()
    before = distance()
    fitted(lambda: model.loss(ring(128, generator), generator), model.parameters())
    assert distance() < 0.1 * before and model.squared_error(x).mean().item() < 0.2
    drawn = model.sample(500, generator=generator)
    assert (
        drawn.shape == (500, 3) and (drawn[:, 2] - 0.5 * drawn[:, 0]).abs().mean().item() < 0.2
    )  # the plane of the ring
    with pytest.raises(UnsupportedError, match="no condition"):
        model.sample(3, condition=1)


def test_the_adversary_is_cross_entropy_and_leaves_the_encoder_alone():
    model = AdversarialAutoencoder(*halves(), nn.Linear(2, 1), 2, weight=0.5)
    x, generator = ring(50, seeded(2)), seeded(3)
    loss = model.discriminator_loss(x, generator)
    drawn = weft.randn(50, 2, generator=seeded(3))
    logits = [torch.tensor(model.discriminator(part).detach().numpy()) for part in (drawn, model.encode(x))]
    theirs = [
        torch.nn.functional.binary_cross_entropy_with_logits(part, torch.full_like(part, truth))
        for part, truth in zip(logits, (1.0, 0.0), strict=True)
    ]
    assert loss.item() == pytest.approx(sum(theirs).item(), rel=1e-5)
    loss.backward()
    assert all(p.grad is None for p in model.autoencoder_parameters())
    fooled = torch.nn.functional.binary_cross_entropy_with_logits(logits[1], torch.ones_like(logits[1]))
    penalty = model.loss(x) - model.reconstruction_error(x).mean()
    assert penalty.item() == pytest.approx(0.5 * fooled.item(), rel=1e-4)


def test_an_adversarial_autoencoder_brings_its_codes_to_the_prior():
    weft.manual_seed(0)
    discriminator = nn.Sequential(nn.Linear(2, 32), nn.LeakyReLU(0.2), nn.Linear(32, 1))
    generator, model = seeded(1), AdversarialAutoencoder(*halves(), discriminator, 2, weight=0.1)
    with weft.no_grad():
        model.encoder.output.bias.fill_(3.0)  # far from the prior
    adam = weft.optim.Adam
    first, second = adam(list(model.autoencoder_parameters()), lr=3e-3), adam(discriminator.parameters(), lr=3e-3)

    @weft.compile
    def step():
        x = ring(128, generator)
        second.zero_grad()
        model.discriminator_loss(x, generator).backward()
        second.step()
        first.zero_grad()
        model.loss(x, generator).backward()
        first.step()

    x = ring(1000, generator)
    prior = weft.randn(1000, 2, generator=generator)
    before = mmd(model.embed(x), prior).item()
    for _ in range(600):
        step()
    assert mmd(model.embed(x), prior).item() < 0.1 * before
    assert model.squared_error(x).mean().item() < 0.1 and model.sample(4).shape == (4, 3)


def test_a_regularised_autoencoder_samples_from_the_codes_it_has_seen():
    weft.manual_seed(0)
    generator = seeded(1)
    model = RegularisedAutoencoder(*halves(), 2, code_weight=0.02, decoder_weight=1e-4)
    x = ring(1000, generator)
    z = model.encode(x)
    matrices = [p for p in model.decoder.parameters() if p.ndim > 1]
    expected = 0.01 * (z**2).sum(1).mean() + 1e-4 * sum((p**2).sum() for p in matrices)
    assert (model.loss(x) - model.reconstruction_error(x).mean()).item() == pytest.approx(expected.item(), rel=1e-3)
    fitted(lambda: model.loss(x), model.parameters(), 300)
    model.fit_density(x)
    codes = model.embed(x).numpy()
    np.testing.assert_allclose(model.mean, codes.mean(0), atol=1e-5)
    np.testing.assert_allclose(model.factor @ model.factor.mT, np.cov(codes.T, bias=True), atol=1e-4)
    drawn = model.sample(2000, generator=generator)
    assert (drawn[:, 2] - 0.5 * drawn[:, 0]).abs().mean().item() < 0.1
