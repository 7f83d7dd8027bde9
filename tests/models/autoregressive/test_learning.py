"""Every model learns the digits that come with the install, in seconds: bits of 8×8 pixels, better than independent ones."""

from __future__ import annotations

import numpy as np
import pytest

import weft
from weft.data import load_digits
from weft.models.autoregressive import (
    FVSBN,
    MADE,
    NADE,
    RNADE,
    GatedPixelCNN,
    LogisticMixtureHead,
    OrderlessNADE,
    PixelCNN,
    PixelRNN,
)

from .common import seeded

ROW, IMAGE = (64,), (1, 8, 8)
MODELS = {  # model, shape of its data, learning rate, nats that it must gain over independent pixels, steps
    "fvsbn": (lambda: FVSBN(64), ROW, 0.05, 4, 150),
    "nade": (lambda: NADE(64, 64), ROW, 0.02, 4, 150),
    "orderless": (lambda: OrderlessNADE(64, (100,), orders=2), ROW, 0.01, 2, 150),
    "made": (lambda: MADE(64, (100,), masks=2), ROW, 0.01, 3, 150),
    "pixelcnn": (lambda: PixelCNN(IMAGE, 16, 2, first=5), IMAGE, 0.02, 2.5, 100),
    "gated-pixelcnn": (lambda: GatedPixelCNN(IMAGE, 12, 2, first=5), IMAGE, 0.03, 2, 140),
    "row-lstm": (lambda: PixelRNN(IMAGE, 8, 1, kind="row", first=5), IMAGE, 0.02, 2.5, 100),
    "diagonal-lstm": (lambda: PixelRNN(IMAGE, 8, 1, first=5), IMAGE, 0.02, 2.5, 90),
}


@pytest.fixture(scope="module")
def digits():
    bits = weft.tensor((load_digits()[0].reshape(-1, 64) > 7).astype(np.float32))
    bits = bits[weft.randperm(len(bits), generator=seeded(0))]
    return bits[:1400], bits[1400:]


def loss_of(model, x):
    if isinstance(model, OrderlessNADE):
        return model.loss(x, generator=None)
    if isinstance(model, MADE):
        return -model.log_prob_under(x, model.next_mask()).mean()
    return -model.log_prob(x).mean()


@pytest.mark.parametrize("name", MODELS)
def test_it_learns_digits(name, digits):
    make, shape, lr, gain, steps = MODELS[name]
    train, test = digits
    weft.manual_seed(0)
    model = make()
    optimizer = weft.optim.Adam(model.parameters(), lr=lr)

    @weft.compile
    def step(x):
        optimizer.zero_grad()
        loss = loss_of(model, x)
        loss.backward()
        optimizer.step()
        return loss

    for number in range(steps):
        rows = weft.randint(len(train), (60,), generator=seeded(number))
        step(train[rows].reshape(-1, *shape))
    rates = (train.sum(0) + 1) / (len(train) + 2)
    independent = weft.distributions.Bernoulli(rates).log_prob(test).sum(1).mean().item()
    with weft.no_grad():
        found = model.log_prob(test.reshape(-1, *shape)).mean().item()
    assert found > independent + gain
    if shape == ROW:  # test_images draws from the others, bit for bit as whole passes do
        drawn = model.sample(100, generator=seeded(1)).flatten(1)
        assert (drawn.mean() - train.mean()).abs() < 0.08  # samples have the ink of digits


def test_levels_of_grey_are_learned_class_by_class():
    """The head of PixelCNN++ on the 17 levels of the digits, given their class, against a histogram of each pixel."""
    images, labels = load_digits()
    mixed = weft.randperm(len(labels), generator=seeded(0)).numpy()
    levels, classes = images[mixed].astype(np.int64), weft.tensor(labels[mixed].astype(np.int64))
    x = weft.tensor((levels[:, None] / 16).astype(np.float32))  # (N, 1, 8, 8)
    weft.manual_seed(0)
    model = PixelCNN(IMAGE, 16, 2, LogisticMixtureHead(3, 17), first=5, classes=10)
    optimizer = weft.optim.Adam(model.parameters(), lr=0.02)

    @weft.compile
    def step(x, given):
        optimizer.zero_grad()
        (-model.log_prob(x, given).mean()).backward()
        optimizer.step()

    for number in range(150):
        rows = weft.randint(1400, (60,), generator=seeded(number))
        step(x[rows], classes[rows])
    counts = 1 + (levels[:1400, :, :, None] == np.arange(17)).sum(0)  # (8, 8, 17)
    shares = counts / counts.sum(-1, keepdims=True)
    chosen = np.take_along_axis(shares[None], levels[1400:, :, :, None], -1)
    independent = np.log(chosen).sum((1, 2, 3)).mean()
    with weft.no_grad():
        right = model.log_prob(x[1400:], classes[1400:]).mean().item()
        wrong = model.log_prob(x[1400:], (classes[1400:] + 1) % 10).mean().item()
    assert right > independent + 10 and right > wrong + 3, (independent, right, wrong)


def test_rnade_learns_a_ring():
    """A density of the plane whose entropy is known: r ~ N(3, 0.3²), a uniform angle."""
    radius = 3 + 0.3 * weft.randn(3000, generator=seeded(0))
    angle = 2 * np.pi * weft.rand(3000, generator=seeded(1))
    x = weft.stack([radius * angle.cos(), radius * angle.sin()], 1)
    weft.manual_seed(0)
    model = RNADE(2, 32, components=8)
    optimizer = weft.optim.Adam(model.parameters(), lr=0.02)

    @weft.compile
    def step(x):
        optimizer.zero_grad()
        (-model.log_prob(x).mean()).backward()
        optimizer.step()

    for number in range(250):
        step(x[weft.randint(2500, (250,), generator=seeded(number))])
    held = x[2500:]
    true = weft.distributions.Normal(3.0, 0.3).log_prob(held.norm(dim=1)) - (2 * np.pi * held.norm(dim=1)).log()
    found = model.log_prob(held).mean().item()
    gaussian = weft.distributions.MultivariateNormal(held.mean(0), held.mT.cov()).log_prob(held).mean().item()
    assert gaussian + 0.5 < found < true.mean().item() + 0.05
