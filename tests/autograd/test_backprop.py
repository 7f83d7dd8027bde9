"""Backpropagation written out for convolution, pooling and recurrent networks: equal to PyTorch's and the tape's gradients."""

import numpy as np
import pytest
import torch

import weft
from weft.autograd import (
    backprop_avg_pool2d,
    backprop_conv2d,
    backprop_max_pool2d,
    backprop_rnn,
    hidden_jacobian,
    spectral_criterion,
)
from weft.errors import ShapeError


def drawn(*shapes, seed=0):
    rng = np.random.default_rng(seed)
    return [rng.normal(size=shape) for shape in shapes]


def equal(ours, theirs):
    np.testing.assert_allclose(ours.detach().numpy(), theirs.detach().numpy(), rtol=1e-10, atol=1e-10)


@pytest.mark.parametrize(
    ("stride", "padding", "size"),
    [(1, 0, (6, 5)), (2, 1, (6, 5)), ((2, 3), (1, 2), (7, 8)), (3, 0, (7, 7)), (1, 2, (3, 2))],
)
def test_convolution(stride, padding, size):
    x, kernel, bias = drawn((2, 3, *size), (4, 3, 3, 2), 4)
    given = [torch.tensor(a, requires_grad=True) for a in (x, kernel, bias)]
    z = torch.nn.functional.conv2d(*given, stride, padding)
    (delta,) = drawn(tuple(z.shape), seed=1)
    expected = torch.autograd.grad(z, given, torch.tensor(delta))
    found = backprop_conv2d(weft.tensor(x), weft.tensor(kernel), weft.tensor(delta), stride, padding)
    for ours, theirs in zip(found, expected, strict=True):
        equal(ours, theirs)


@pytest.mark.parametrize(("size", "stride"), [(2, None), (3, 2), ((2, 3), (1, 2)), (2, 3)])
@pytest.mark.parametrize("ties", [False, True])
def test_pooling(size, stride, ties):
    """With ties PyTorch's max pooling takes the first of the largest, row by row."""
    (x,) = drawn((2, 3, 7, 8))
    x = np.round(x) if ties else x
    for ours, theirs in (
        (backprop_avg_pool2d, torch.nn.functional.avg_pool2d),
        (backprop_max_pool2d, torch.nn.functional.max_pool2d),
    ):
        leaf = torch.tensor(x, requires_grad=True)
        z = theirs(leaf, size, stride)
        (delta,) = drawn(tuple(z.shape), seed=1)
        (expected,) = torch.autograd.grad(z, leaf, torch.tensor(delta))
        equal(ours(weft.tensor(x), weft.tensor(delta), size, stride), expected)


def test_a_whole_network_backwards_by_hand():
    """conv → ReLU → max pool → conv → average pool → ½‖·‖², formula by formula, against the tape."""
    x, first, second = (weft.tensor(a, requires_grad=True) for a in drawn((2, 1, 9, 9), (3, 1, 2, 2), (2, 3, 3, 3)))
    conv, pool, mean = weft.nn.functional.conv2d, weft.nn.functional.max_pool2d, weft.nn.functional.avg_pool2d
    z1 = conv(x, first)
    a1 = pool(z1.relu(), 2)
    z2 = conv(a1, second, padding=1)
    y = mean(z2, 2)
    expected = weft.autograd.grad((y * y).sum() / 2, [x, first, second])
    with weft.no_grad():
        at_z2 = backprop_avg_pool2d(z2, y, 2)
        top = backprop_conv2d(a1, second, at_z2, padding=1)
        at_z1 = backprop_max_pool2d(z1.relu(), top.input, 2) * (z1 > 0)
        bottom = backprop_conv2d(x, first, at_z1)
    for ours, tape in zip((bottom.input, bottom.weight, top.weight), expected, strict=True):
        equal(ours, tape)


SQUARED = lambda a, y: ((a - y) ** 2).sum() / 2
SIZES = ((4, 3), (4, 4), (2, 4), 4, 2)  # U, W, V and the biases for 3 inputs, 4 units, 2 outputs


@pytest.mark.parametrize("times", [None, (4,), (-1,), (1, 4)])
@pytest.mark.parametrize(
    ("link", "error", "canonical"),
    [
        (None, SQUARED, True),
        (lambda z: z.softmax(-1), lambda a, y: -(y * a.log()).sum(), True),
        (lambda z: z.sigmoid(), SQUARED, False),
    ],
)
def test_through_time(times, link, error, canonical):
    """N1 eqs. 200–206: all outputs, the last one, or intermediate losses (202); by hand and by the tape."""
    x, h, *parameters = drawn((5, 2, 3), (2, 4), *SIZES)
    y = np.eye(2)[np.random.default_rng(2).integers(0, 2, (5, 2))]
    leaves = [weft.tensor(p, requires_grad=True) for p in (*parameters, h)]
    u, w, v, b, c, h0 = leaves
    state, losses = h0, []
    for t in range(5):
        state = (state @ w.mT + weft.tensor(x[t]) @ u.mT + b).tanh()
        z = state @ v.mT + c
        losses.append(error(z if link is None else link(z), weft.tensor(y[t])))
    chosen = range(5) if times is None else times
    expected = weft.autograd.grad(sum(losses[t] for t in chosen) / len(chosen), leaves)
    found = backprop_rnn(
        *map(weft.tensor, (x, y, *parameters)),
        weft.tanh,
        link=link,
        error=None if canonical else error,
        times=times,
        initial=weft.tensor(h),
    )
    mine = ("input_weight", "recurrent_weight", "output_weight", "hidden_bias", "output_bias", "initial")
    for name, tape in zip(mine, expected, strict=True):
        equal(getattr(found, name), tape)


def test_the_sum_over_earlier_times_written_out():
    """∂L_t/∂W = ∂L_t/∂h_t Σ_k ∂h_t/∂h_k ∂⁺h_k/∂W (204), every product of (205) taken by itself."""
    x, *parameters = drawn((6, 1, 3), *SIZES)
    y = np.zeros((6, 1, 2))
    found = backprop_rnn(*map(weft.tensor, (x, y, *parameters)), weft.tanh, times=(5,))
    _, w, v, _, _ = parameters
    at_state = (found.outputs[5].numpy() - 0) @ v  # (1, H): ∂L/∂h_τ of ½‖ŷ‖²
    total = np.zeros((4, 4))
    states = np.concatenate([np.zeros((1, 4)), found.hidden.numpy()[:, 0]])
    for k in range(6):
        jacobian = hidden_jacobian(found.slopes, weft.tensor(w), 5, k).numpy()[0]
        total += np.outer(at_state[0] @ jacobian * found.slopes.numpy()[k, 0], states[k])
    np.testing.assert_allclose(found.recurrent_weight.numpy(), total, rtol=1e-10, atol=1e-12)


def test_the_spectrum_bounds_what_is_left_over_time():
    x, w, u, v, b, c = drawn((40, 3, 3), (4, 4), (4, 3), (2, 4), 4, 2)
    for scale in (0.3, 1.2):
        weight = w / np.abs(np.linalg.eigvals(w)).max() * scale
        criterion = spectral_criterion(weft.tensor(weight))
        assert criterion.radius == pytest.approx(scale) and criterion.norm == pytest.approx(np.linalg.norm(weight, 2))
        assert (criterion.verdict == "can explode") == (scale > 1)
        run = backprop_rnn(*map(weft.tensor, (x, np.zeros((40, 3, 2)), u, weight, v, b, c)), weft.tanh)
        for lag in (1, 5, 20, 39):
            norms = np.linalg.norm(hidden_jacobian(run.slopes, weft.tensor(weight), 39, 39 - lag).numpy(), 2, (1, 2))
            assert norms.max() <= criterion.bound(lag) * (1 + 1e-12)
    assert spectral_criterion(weft.tensor(0.9 * np.eye(3))).verdict == "vanishes"
    assert spectral_criterion(weft.tensor(3.9 * np.eye(3)), slope=0.25).verdict == "vanishes"


def test_at_full_slope_the_rate_is_the_spectral_radius():
    """Gelfand: ‖(∂h_t/∂h_k)‖^(1/lag) → ρ(W) for the identity; a nilpotent W has ρ = 0 and loses all in n steps."""
    (w,) = drawn((5, 5))
    w /= np.abs(np.linalg.eigvals(w)).max()
    ones = weft.ones(801, 1, 5, dtype=weft.float64)
    for radius in (0.9, 1.1):
        reached = np.linalg.norm(hidden_jacobian(ones, weft.tensor(radius * w), 800, 0).numpy()[0], 2)
        assert reached ** (1 / 800) == pytest.approx(spectral_criterion(weft.tensor(radius * w)).radius, rel=5e-3)
    shift = weft.tensor(np.diag(np.full(4, 7.0), 1))
    criterion = spectral_criterion(shift)
    assert criterion.verdict == "undecided" and criterion.radius == 0 and criterion.norm == 7
    assert hidden_jacobian(ones, shift, 4, 0).abs().max() == 7**4
    assert hidden_jacobian(ones, shift, 5, 0).abs().max() == 0


ERRORS = {
    "delta of a convolution": lambda a: backprop_conv2d(a(1, 1, 4, 4), a(1, 1, 2, 2), a(1, 1, 2, 2)),
    "delta of a pool": lambda a: backprop_max_pool2d(a(1, 1, 4, 4), a(1, 1, 4, 4), 2),
    "weights": lambda a: backprop_rnn(a(2, 1, 3), a(2, 1, 2), a(4, 2), a(4, 4), a(2, 4), a(4), a(2), weft.tanh),
    "targets": lambda a: backprop_rnn(a(2, 1, 3), a(2, 2), a(4, 3), a(4, 4), a(2, 4), a(4), a(2), weft.tanh),
    "time": lambda a: backprop_rnn(
        a(2, 1, 3), a(2, 1, 2), a(4, 3), a(4, 4), a(2, 4), a(4), a(2), weft.tanh, times=(2,)
    ),
    "the future": lambda a: hidden_jacobian(a(3, 1, 4), a(4, 4), 0, 2),
    "no square": lambda a: spectral_criterion(a(2, 3)),
    "nothing": lambda a: spectral_criterion(a(0, 0)),
}


@pytest.mark.parametrize("name", ERRORS)
def test_errors(name):
    with pytest.raises(ShapeError):
        ERRORS[name](weft.zeros)
