"""Every model learns the digits that come with the install, in a second or so: bits of 8×8 pixels."""

from __future__ import annotations

import numpy as np
import pytest

import weft
from weft.data import load_digits
from weft.models.generative import ProductOfBernoullis
from weft.models.variational import (
    CIWAE,
    IWAE,
    BetaTC,
    ConditionalVAE,
    DenseVAE,
    DReG,
    HierarchicalVAE,
    LadderVAE,
    MarkovVAE,
    WarmUp,
    flow_posterior,
)

from .common import seeded

MODELS = {  # a model, and the nats that its bound must gain over independent pixels in 150 steps
    "vae": (lambda: DenseVAE(64, (64,), 8), 3.5),
    "full": (lambda: DenseVAE(64, (64,), 6, posterior="full"), 3.5),
    "iwae": (lambda: DenseVAE(64, (64,), 8, objective=IWAE(5)), 2.5),
    "dreg": (lambda: DenseVAE(64, (64,), 8, objective=DReG(5)), 3.5),
    "ciwae": (lambda: DenseVAE(64, (64,), 8, objective=CIWAE(5, 0.5)), 3.5),
    "beta-tc": (lambda: DenseVAE(64, (64,), 8, objective=BetaTC(1400, beta=2.0)), 3),
    "conditional": (lambda: ConditionalVAE(64, (64,), 8, conditions=10, learned_prior=True), 7),
    "markov": (lambda: MarkovVAE(64, (64,), (8, 4)), 3),
    "hierarchical": (lambda: HierarchicalVAE(64, (64,), (8, 4)), 3),
    "ladder": (lambda: LadderVAE(64, (64,), (8, 4), objective=WarmUp(100)), 2),
    "planar": (lambda: DenseVAE(64, (64,), 8, posterior=flow_posterior("planar", 8, 3, 8)), 3),
    "radial": (lambda: DenseVAE(64, (64,), 8, posterior=flow_posterior("radial", 8, 3, 8)), 3),
    "iaf": (lambda: DenseVAE(64, (64,), 8, posterior=flow_posterior("iaf", 8, 2, 8, 24)), 3),
    "drawn divergence": (lambda: DenseVAE(64, (64,), 8, closed_form=False), 3.5),
}


@pytest.fixture(scope="module")
def digits():
    images, labels = load_digits()
    bits = weft.tensor((images.reshape(-1, 64) > 7).astype(np.float32))
    order = weft.randperm(len(bits), generator=seeded(0))
    bits, labels = bits[order], weft.tensor(labels.astype(np.int64))[order]
    return bits[:1400], labels[:1400], bits[1400:], labels[1400:]


@pytest.mark.parametrize("name", MODELS)
def test_it_learns_digits(name, digits):
    make, gain = MODELS[name]
    train, labels, test, classes = digits
    weft.manual_seed(0)
    model = make()
    known = isinstance(model, ConditionalVAE)
    optimizer = weft.optim.Adam(model.parameters(), lr=0.01)

    @weft.compile
    def step(x, condition):
        optimizer.zero_grad()
        loss = model.loss(x, condition)
        loss.backward()
        optimizer.step()
        return loss

    for number in range(150):
        rows = weft.randint(len(train), (100,), generator=seeded(number))
        step(train[rows], labels[rows] if known else None)
    model.eval()
    with weft.no_grad():
        bound = model.elbo(test, classes if known else None, samples=5, generator=seeded(0)).mean().item()
        simple = ProductOfBernoullis(64).fit(train).log_prob(test).mean().item()
    assert bound > simple + gain
