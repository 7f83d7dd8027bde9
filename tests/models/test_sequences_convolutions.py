"""TCN and WaveNet: causal with exactly the receptive field of the formula, and as fast generation step by step."""

from __future__ import annotations

import numpy as np
import pytest

import weft
from weft import nn
from weft.models.supervised import TCN, WaveNet, mu_law_decode, mu_law_encode

from .test_sequences import as_torch, close, normal, tokens

CAUSAL = {
    "tcn": lambda: (TCN(2, [3, 4], 3, kernel_size=3, dropout=0.0), 1 + 2 * 2 * 3),
    "tcn one block": lambda: (TCN(2, [3], kernel_size=2, dropout=0.0), 3),
    "wavenet": lambda: (WaveNet(6, 4, 5, layers=3, blocks=2), 1 + 2 * 7),
    "wavenet kernel 3": lambda: (WaveNet(6, 4, 5, layers=2, kernel_size=3), 1 + 2 * 3),
}


@pytest.mark.parametrize("name", CAUSAL)
def test_causal_with_exactly_the_receptive_field(name):
    model, expected = CAUSAL[name]()
    assert model.receptive_field == expected
    for parameter in model.parameters():
        parameter.data.abs_()  # with inputs ≥ 0 no ReLU closes: whatever can reach the output does
    length, at = expected + 5, expected + 2
    if isinstance(model, TCN):
        x = normal(1, length, 2).abs().requires_grad_()
        y = model(x)
    else:
        x = model.embedding(tokens(1, length, high=6)).detach().requires_grad_()
        seen, model.embedding = x, nn.Identity()
        y = model(seen)
    y[0, at].abs().sum().backward()
    reached = np.nonzero(np.asarray(x.grad)[0].any(-1))[0]
    np.testing.assert_array_equal(reached, np.arange(at - expected + 1, at + 1))


@pytest.mark.parametrize("condition", [0, 3])
def test_wavenet_steps_are_the_full_network(condition):
    model = WaveNet(8, 4, 6, layers=3, blocks=2, condition=condition)
    x, c = tokens(2, 20, high=8), normal(2, condition) if condition else None
    full = model(x, c)
    state = None
    for t in range(20):
        logits, state = model.step(x[:, t : t + 1], state, c)
        close(logits, as_torch(full[:, t]))
    close(model.step(x, None, c)[0], as_torch(full[:, -1]))  # all at once
    assert model.generate(x, 4, c, seed=1).shape == (2, 24)


def test_mu_law_is_the_formula_and_comes_back():
    x = np.linspace(-1, 1, 101).astype(np.float32)
    codes = mu_law_encode(weft.tensor(x)).numpy()
    squeezed = np.sign(x) * np.log1p(255 * np.abs(x.astype(float))) / np.log(256)
    np.testing.assert_array_equal(codes, np.floor((squeezed + 1) / 2 * 255 + 0.5))
    assert (codes.min(), codes.max()) == (0, 255)
    back = mu_law_decode(weft.arange(256))
    np.testing.assert_array_equal(mu_law_encode(back).numpy(), np.arange(256))


@pytest.mark.parametrize(("v", "c", "s", "layers", "blocks", "k"), [(8, 4, 6, 3, 2, 2), (5, 3, 2, 1, 1, 3)])
def test_parameters_of_wavenet(v, c, s, layers, blocks, k):
    model = WaveNet(v, c, s, layers=layers, blocks=blocks, kernel_size=k)
    each = 2 * k * c * c + 2 * c + c * c + c + c * s + s
    expected = v * c + blocks * layers * each + s * s + s + s * v + v
    assert sum(p.numel() for p in model.parameters()) == expected
