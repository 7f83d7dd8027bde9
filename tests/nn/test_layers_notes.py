"""Convolutions, filters and pooling of the lecture notes against their formulas, SciPy and PyTorch."""

from __future__ import annotations

import math

import numpy as np
import pytest
import scipy.signal
import torch

import weft
from weft import nn

from .modules_harness import assert_close, check_module, to_numpy, to_weft

# ------------------------------------------------------------------------------------------- convolutions


@pytest.mark.parametrize("n", [1, 2, 3])
def test_full_padding_is_padding_by_the_reach_of_the_kernel(n: int) -> None:
    for dilation, mode in ((1, "zeros"), (2, "zeros"), (1, "replicate")):
        ours = getattr(nn, f"Conv{n}d")(2, 3, 3, padding="full", dilation=dilation, padding_mode=mode)
        theirs = getattr(torch.nn, f"Conv{n}d")(2, 3, 3, padding=2 * dilation, dilation=dilation, padding_mode=mode)
        check_module(theirs, ours, ((2, 2, *(5,) * n),), compare_repr=False)
    assert "padding=full" in repr(ours)


@pytest.mark.parametrize("mode", ["full", "same", "valid"])
@pytest.mark.parametrize(("size", "kernel"), [((9,), (4,)), ((9,), (3,)), ((6, 7), (3, 2)), ((4, 5, 6), (2, 3, 1))])
def test_convolution_and_correlation_equal_scipy(size: tuple, kernel: tuple, mode: str) -> None:
    x, w = np.random.default_rng(0).normal(size=size), np.random.default_rng(1).normal(size=kernel)
    ours = [f(weft.from_numpy(x), weft.from_numpy(w), mode) for f in (nn.convolution, nn.cross_correlation)]
    theirs = [f(x, w, mode, method="direct") for f in (scipy.signal.convolve, scipy.signal.correlate)]
    for got, want in zip(ours, theirs, strict=True):
        np.testing.assert_allclose(got.numpy(), want, atol=1e-12)


def test_convolution_commutes_and_correlation_does_not() -> None:
    weft.manual_seed(0)
    x, w = weft.randn(7, dtype=weft.float64), weft.randn(4, dtype=weft.float64)
    assert weft.allclose(nn.convolution(x, w), nn.convolution(w, x))
    assert not weft.allclose(nn.cross_correlation(x, w), nn.cross_correlation(w, x))
    batch = weft.randn(2, 3, 7, dtype=weft.float64)
    assert weft.allclose(nn.convolution(batch, w)[1, 2], nn.convolution(batch[1, 2], w))


def test_causal_convolution_never_looks_ahead() -> None:
    weft.manual_seed(0)
    layer = nn.CausalConv1d(2, 3, 3, dilation=2, dtype=weft.float64)
    x = weft.randn(1, 2, 9, dtype=weft.float64)
    jacobian = weft.autograd.functional.jacobian(layer, x)[0, :, :, 0]  # (3, 9, 2, 9)
    for t in range(9):
        seen = [s for s in range(9) if bool((jacobian[:, t, :, s] != 0).any())]
        assert seen == [s for s in (t - 4, t - 2, t) if s >= 0]
    y = x.numpy()
    w, b = to_numpy(layer.weight), to_numpy(layer.bias)
    want = [[b[o] + sum(w[o, c, k] * y[0, c, t - 2 * (2 - k)] for c in range(2) for k in range(3) if t >= 2 * (2 - k))
             for t in range(9)] for o in range(3)]  # fmt: skip
    np.testing.assert_allclose(to_numpy(layer(x))[0], want)


def test_depthwise_separable_is_a_convolution_with_a_factored_kernel() -> None:
    layer = nn.DepthwiseSeparableConv2d(3, 5, 7, padding=3, dtype=weft.float64)
    weights = sum(p.numel() for name, p in layer.named_parameters() if "bias" not in name)
    assert weights == 7 * 7 * 3 + 5 * 3  # N2 §6.3.2, instead of 7 · 7 · 5 · 3
    whole = nn.Conv2d(3, 5, 7, padding=3, dtype=weft.float64)
    depth, point = layer.depthwise.weight, layer.pointwise.weight  # (3, 1, 7, 7), (5, 3, 1, 1)
    whole.load_state_dict({"weight": (point * depth[:, 0]).detach(), "bias": layer.pointwise.bias.detach()})
    x = weft.randn(2, 3, 8, 9, dtype=weft.float64)
    assert weft.allclose(layer(x), whole(x))


def test_example_of_stride_and_padding() -> None:
    """N2 §6.2.1: kernel (1 0 −1) over 0 1 2 4 8 4 2 1 0."""
    x = weft.tensor([0.0, 1, 2, 4, 8, 4, 2, 1, 0])
    kernel = weft.tensor([1.0, 0, -1])
    assert nn.cross_correlation(x, kernel, "valid").tolist() == [-2, -3, -6, 0, 6, 3, 2]
    assert nn.cross_correlation(x, kernel, "same").shape == x.shape


def test_fixed_filters() -> None:
    """Averages sum to 1 and keep constant images; derivatives sum to 0 and see only their own direction."""
    sums = {name: float(nn.filter_kernel(name, weft.float64).sum()) for name in nn.FILTER_KERNELS}
    ones = ("identity", "box_blur", "sharpen", "mean", "gaussian")
    assert all(math.isclose(total, float(name in ones), abs_tol=1e-12) for name, total in sums.items())
    row, column = weft.arange(8.0).reshape(1, 8, 1).expand(3, 8, 8), weft.arange(8.0).expand(3, 8, 8)
    for image, horizontal, vertical in ((row, 0.0, 8.0), (column, 8.0, 0.0)):
        assert (nn.FixedFilter2d("sobel_horizontal", padding="valid")(image) == horizontal).all()
        assert (nn.FixedFilter2d("sobel_vertical", padding="valid")(image) == vertical).all()
        assert (nn.FixedFilter2d("edge", padding="valid")(image) == 0).all()  # the Laplacian of a linear image
    x = weft.randn(2, 3, 6, 7)
    assert weft.equal(nn.FixedFilter2d("identity")(x), x)
    sharpened, edges = nn.FixedFilter2d("sharpen")(x), nn.FixedFilter2d("edge")(x)
    assert weft.allclose(sharpened, x + edges, atol=1e-5)
    want = torch.nn.functional.avg_pool2d(torch.from_numpy(x.numpy()), 5, 1)
    assert_close(nn.FixedFilter2d("mean", padding="valid")(x), want, "mean", (1e-5, 1e-6))
    assert not list(nn.FixedFilter2d("mean").parameters())


def test_gaussian_kernel_is_a_discrete_gaussian() -> None:
    kernel = nn.gaussian_kernel(5, 1.0, weft.float64).numpy()
    line = np.exp(-(np.arange(-2, 3.0) ** 2) / 2)
    np.testing.assert_allclose(kernel, np.outer(line, line) / np.outer(line, line).sum())
    printed = nn.filter_kernel("gaussian", weft.float64).numpy()  # N1 example 3.1 rounds it to integers over 273
    assert np.abs(kernel - printed).max() < 0.013


# ------------------------------------------------------------------------------------------- pooling


def test_global_pooling_is_adaptive_pooling_to_one() -> None:
    for n in (1, 2, 3):
        x = torch.randn(2, 3, *(4, 5, 6)[:n], dtype=torch.float64)
        for kind, ours in (("Avg", nn.GlobalAvgPool), ("Max", nn.GlobalMaxPool)):
            want = getattr(torch.nn, f"Adaptive{kind}Pool{n}d")(1)(x)
            assert_close(ours(keepdim=True)(to_weft(x)), want, kind, (1e-12, 1e-12))
            assert_close(ours()(to_weft(x)), want.flatten(1), kind, (1e-12, 1e-12))


def test_pooling_over_channels_is_pooling_of_the_transposed_image() -> None:
    x = torch.randn(2, 7, 3, 4, dtype=torch.float64)
    across = x.permute(0, 2, 3, 1).reshape(-1, 1, 7)  # channels as a line
    for kind, ours in (("Avg", nn.ChannelAvgPool), ("Max", nn.ChannelMaxPool)):
        for size, stride in ((2, None), (3, 2), (3, 1)):
            want = getattr(torch.nn, f"{kind}Pool1d")(size, stride)(across)
            want = want.reshape(2, 3, 4, -1).permute(0, 3, 1, 2)
            assert_close(ours(size, stride)(to_weft(x)), want, kind, (1e-12, 1e-12))
    with pytest.raises(ValueError, match="larger than the 2 channels"):
        nn.ChannelMaxPool(3)(weft.ones(1, 2, 4))


def test_maxout_contains_relu_and_absolute_value() -> None:
    x = weft.linspace(-2, 2, 9, dtype=weft.float64).requires_grad_()
    pairs = {"relu": (x, 0 * x), "absolute": (x, -x)}
    for name, pair in pairs.items():
        y = nn.Maxout(2)(weft.stack(pair, -1))  # (9, 2) → (9, 1)
        want = x.relu() if name == "relu" else x.abs()
        assert weft.equal(y[:, 0], want)
        (slope,) = weft.autograd.grad(y.sum(), x)
        keep = x.detach() != 0
        (expected,) = weft.autograd.grad(want.sum(), x)
        assert weft.equal(slope[keep], expected[keep])
    assert nn.Maxout(3, dim=1)(weft.randn(2, 6, 4)).shape == (2, 2, 4)
    with pytest.raises(ValueError, match="not a multiple"):
        nn.Maxout(4)(weft.randn(2, 6))
