"""What depth does: shattered gradients against the kernel formula, degradation, sensitivity over time, depth against width."""

import itertools
import math

import numpy as np
import pytest
import torch

import weft
from weft import inspect, nn
from weft.errors import OptionError, ShapeError


def pairs(cosine, count=200, size=10):
    rng = np.random.default_rng(0)
    a, b = rng.normal(size=(2, count, size))
    a /= np.linalg.norm(a, axis=1, keepdims=True)
    b -= (a * b).sum(1, keepdims=True) * a
    b /= np.linalg.norm(b, axis=1, keepdims=True)
    return weft.tensor(a), weft.tensor(cosine * a + math.sqrt(1 - cosine**2) * b)


@pytest.mark.parametrize("skip", [None, 0.3, 1.0])
@pytest.mark.parametrize("cosine", [0.0, 0.8])
@pytest.mark.parametrize("depth", [1, 6])
def test_gradients_shatter_as_the_kernels_say(depth, cosine, skip):
    """Wide random networks, three of them: the mean over pairs is the arc-cosine kernel's product."""
    x, other = pairs(cosine)
    found = np.mean(
        [
            inspect.gradient_correlation(
                inspect.deep_network(10, 300, depth, 1, skip, weft.Generator().manual_seed(seed), weft.float64),
                x,
                other,
            )
            for seed in range(3)
        ]
    )
    assert found == pytest.approx(inspect.expected_gradient_correlation(cosine, depth, skip), abs=0.06)


def test_shattered_with_depth_unless_there_is_a_skip():
    plain = [inspect.expected_gradient_correlation(0.0, depth) for depth in (1, 5, 20, 50)]
    assert plain[0] == 0.5 and all(a > b for a, b in itertools.pairwise(plain)) and plain[2] < 0.1
    for depth in (5, 20, 50):
        assert inspect.expected_gradient_correlation(0.0, depth, 1 / math.sqrt(depth)) > math.exp(-0.5)
    assert inspect.expected_gradient_correlation(1.0, 50) == 1
    with pytest.raises(OptionError):
        inspect.expected_gradient_correlation(1.1, 2)
    with pytest.raises(ShapeError):
        inspect.gradient_correlation(nn.Linear(2, 1), weft.zeros(3, 2), weft.zeros(2, 2))


def test_sizes_are_kept_by_the_start():
    network = inspect.deep_network(8, 400, 10, 400)
    x = weft.randn(64, 8)
    assert float(network(x).square().mean()) == pytest.approx(float(x.square().mean()), rel=0.35)


def test_degradation_is_of_plain_networks():
    """After the same steps a plain network of 40 layers ends far above one of 4; a residual one does not."""
    shallow, deep = inspect.degradation([4, 40], steps=60)
    assert deep.plain > 5 * shallow.plain
    assert deep.residual < 3 * shallow.residual + 1e-3
    assert deep.residual < deep.plain / 5


# ------------------------------------------------------------------------------------------- over time


@pytest.mark.parametrize("kind", ["RNN", "LSTM", "GRU"])
def test_sensitivity_equals_torch(kind):
    torch.manual_seed(0)
    theirs = getattr(torch.nn, kind)(3, 4).double()
    ours = getattr(nn, kind)(3, 4).double()
    ours.load_state_dict({k: weft.tensor(v.numpy()) for k, v in theirs.state_dict().items()})
    x = torch.randn(6, 3, dtype=torch.float64)
    state = lambda a: (lambda s: s[1] if isinstance(s, tuple) else s)(theirs(a)[1])[-1]
    slopes = torch.autograd.functional.jacobian(state, x).numpy()
    np.testing.assert_allclose(
        inspect.sensitivity_over_time(ours, weft.tensor(x.numpy())), np.sqrt((slopes**2).sum((0, 2))), rtol=1e-9
    )


def test_an_rnn_forgets_and_an_lstm_need_not():
    """RNN: at most ‖U‖_F ‖W‖^lag. LSTM with open forget gates and no feedback: c_T = Σ i_t c̃_t knows every input equally."""
    weft.manual_seed(0)
    rnn, lstm = nn.RNN(2, 4).double(), nn.LSTM(2, 4).double()
    with weft.no_grad():
        rnn.weight_hh_l0.mul_(0.7 / np.linalg.norm(rnn.weight_hh_l0.detach().numpy(), 2))
        lstm.weight_hh_l0.zero_()
        lstm.weight_ih_l0[4:8] = 0  # the forget gate (i, f, g, o)
        lstm.bias_ih_l0[4:8] = 40.0
    x = weft.ones(30, 2, dtype=weft.float64)
    forgets, keeps = inspect.sensitivity_over_time(rnn, x), inspect.sensitivity_over_time(lstm, x)
    lag = np.arange(29, -1, -1)
    assert (forgets <= np.linalg.norm(rnn.weight_ih_l0.detach().numpy()) * 0.7**lag + 1e-15).all()
    assert forgets[0] < 1e-4 * forgets[-1]
    np.testing.assert_allclose(keeps, keeps[-1], rtol=1e-9)
    with pytest.raises(ShapeError):
        inspect.sensitivity_over_time(rnn, weft.zeros(3, 1, 2))


def test_depth_against_width():
    """(width + 1)^depth pieces, counted, against the D + 1 of one layer of 3D + 1 parameters."""
    for row in inspect.depth_against_width([1, 2, 3, 4, 5], width=3):
        assert row.pieces == 4**row.depth
        units = row.pieces_of_one_layer - 1
        assert 3 * units + 1 <= row.parameters < 3 * (units + 1) + 1
        wide = nn.Sequential(nn.Linear(1, units), nn.ReLU(), nn.Linear(units, 1))
        assert inspect.line_regions(wide).count <= row.pieces_of_one_layer
    assert row.pieces > 50 * row.pieces_of_one_layer
