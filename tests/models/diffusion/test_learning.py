"""Every model learns a density of the plane in a second or two, and images of 8×8 pixels."""

from __future__ import annotations

import numpy as np
import pytest

import weft
from weft.data import load_digits
from weft.models.diffusion import DDPM, EDM, NCSN, DiT, FlowMatching, PointNetwork, ScoreSDE, UNet

from .common import seeded

TWO = weft.tensor([[-1.5, 0.0], [1.5, 1.0]])
MODELS = {
    "ddpm v min-snr": lambda net: DDPM(net(2), (2,), "cosine", 50, prediction_type="v_prediction", min_snr=5.0),
    "ddpm learned": lambda net: DDPM(net(2, outputs=4), (2,), "cosine", 50, variance_type="learned_range"),
    "ncsn": lambda net: NCSN(net(2, time_scale=100.0), (2,), high=5.0, low=0.1, levels=10, steps=20),
    "sde": lambda net: ScoreSDE(net(2, time_scale=1000.0), (2,)),
    "edm": lambda net: EDM(net(2, time_scale=250.0), (2,), data_scale=1.2),
    "flow": lambda net: FlowMatching(net(2, time_scale=1000.0), (2,)),
}


def learned(model, batch, steps: int, lr: float, compiled: bool = True) -> None:
    adam = weft.optim.Adam(model.parameters(), lr=lr)

    def step(*given):
        adam.zero_grad()
        model.loss(*given).backward()
        adam.step()

    run = weft.compile(step) if compiled else step
    for number in range(steps):
        run(*batch(number))


@pytest.mark.parametrize("name", MODELS)
def test_it_learns_two_clusters(name):
    """Equal shares within 0.2 of the two middles' lines, deviations of 0.3."""
    weft.manual_seed(0)
    model = MODELS[name](lambda *a, **o: PointNetwork(*a, hidden=48, layers=2, **o))

    def batch(number):
        chosen = weft.randint(2, (200,), generator=seeded(number))
        return (TWO[chosen] + 0.3 * weft.randn(200, 2, generator=seeded(number + 500)),)

    learned(model, batch, 350, 4e-3)
    drawn = model.sample(1000, generator=seeded(1))
    near = ((drawn.unsqueeze(1) - TWO) ** 2).sum(2)
    right = (near.argmin(1) == 1).double().mean().item()
    spread = (near.min(1).values.mean() / 2).sqrt().item()
    assert 0.35 < right < 0.65
    assert 0.2 < spread < 0.5  # 0.3 of the truth, somewhat more of so short a training
    x = batch(9999)[0]
    exact = weft.distributions.Normal(TWO, 0.3).log_prob(x.unsqueeze(1)).sum(2).logsumexp(1).mean().item() - np.log(2)
    if "log_prob" in model.promises:
        assert exact - 0.5 < model.log_prob(x, steps=40).mean().item() < exact + 0.25
    if name == "ddpm v min-snr":
        assert exact - 2.5 < model.log_prob_bound(x, generator=seeded(1), draws=10).value.mean() < exact


@pytest.mark.parametrize("kind", ["unet", "dit"])
def test_networks_of_images_learn_digits(kind):
    """The loss of ε falls to a half of what it is for a network that says nothing, 1: in Python, as compiling takes longer."""
    losses = trained_on_digits(kind, compiled=False)
    assert np.mean(losses) < 0.5


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["unet", "dit"])
def test_compiled_networks_of_images_learn_digits(kind):
    losses = trained_on_digits(kind, compiled=True)
    assert np.mean(losses) < 0.5


def trained_on_digits(kind: str, compiled: bool) -> list[float]:
    """Losses after a short training."""
    weft.manual_seed(0)
    images, labels = load_digits()
    x = weft.tensor(images[:1000].reshape(-1, 1, 8, 8).astype(np.float32)) / 16
    y = weft.tensor(labels[:1000].astype(np.int64))
    network = (
        UNet(1, 4, (1, 2), attention=(1,), classes=10)
        if kind == "unet"
        else DiT(1, 8, patch=2, features=32, layers=1, heads=2, classes=10)
    )
    model = DDPM(network, (1, 8, 8), "cosine", 100, levels=17, classes=10)

    def batch(number):
        rows = weft.randint(1000, (16,), generator=seeded(number))
        return x[rows], y[rows]

    learned(model, batch, 60 if kind == "unet" else 80, 0.01, compiled)
    with weft.no_grad():
        return [model.loss(*batch(10000 + i), generator=seeded(i)).item() for i in range(10)]
