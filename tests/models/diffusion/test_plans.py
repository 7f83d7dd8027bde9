"""Samplers are single plans: compiled once, with the stream of eager code, and with no step outside of them."""

from __future__ import annotations

import pytest

import weft
from weft.models.diffusion import DDPM, EDM, NCSN, FlowMatching, PointNetwork, ScoreSDE

from .common import seeded

OPTIONS = {
    "ddpm": (lambda net: DDPM(net, (2,), "cosine", 12), {}),
    "ddim": (lambda net: DDPM(net, (2,), "cosine", 12), {"sampler": "ddim", "steps": 4, "eta": 0.5}),
    "ncsn": (lambda net: NCSN(net, (2,), levels=3, steps=3), {}),
    "pc": (lambda net: ScoreSDE(net, (2,)), {"steps": 4}),
    "edm": (lambda net: EDM(net, (2,)), {"steps": 4}),
    "flow": (lambda net: FlowMatching(net, (2,)), {"steps": 4, "method": "midpoint"}),
}


@pytest.mark.parametrize("name", OPTIONS)
def test_a_sampler_is_one_plan_with_the_stream_of_eager(name, monkeypatch):
    make, options = OPTIONS[name]
    weft.manual_seed(0)
    model = make(PointNetwork(2, 8, 1))
    weft.nn.init.normal_(model.network.last.weight, std=0.1)
    first, second, other = (model.sample(6, generator=seeded(seed), **options) for seed in (1, 1, 2))
    assert weft.equal(first, second) and not weft.equal(first, other) and not first.requires_grad
    (planned,) = model._plans.made.values()
    assert planned.plans == 1
    monkeypatch.setattr(planned, "compiled", planned.function)
    eager = model.sample(6, generator=seeded(1), **options)
    assert weft.allclose(eager, first, rtol=1e-3, atol=1e-4)
