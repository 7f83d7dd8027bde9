"""Convolution, pooling, resampling and their relatives against PyTorch, SciPy, loops and closed forms."""

from __future__ import annotations

import itertools
import warnings
from typing import Any

import numpy as np
import pytest
import scipy.signal
import torch

import weft
import weft.nn.functional as ours
from tests.ops.samples.base import S, T
from weft.func import vmap

theirs = torch.nn.functional
IMAGE, ROW, VOLUME = (2, 4, 7, 6), (2, 4, 9), (1, 2, 5, 6, 4)
LINE = T(ROW, distinct=True)
PICTURE = T(IMAGE, distinct=True)
BLOCK = T(VOLUME, distinct=True)
PLACES = T((2, 5, 4, 2), low=-1.4, high=1.4)

CALLS: list[tuple[str, S]] = [
    ("conv1d", S(T(ROW), T((6, 4, 3)), T((6,)), stride=2, padding=1)),
    ("conv1d", S(T((4, 9)), T((6, 2, 2)), padding="same", dilation=3, groups=2)),
    ("conv2d", S(T(IMAGE), T((6, 4, 3, 2)), T((6,)), stride=(2, 1), padding=(1, 0), dilation=(1, 2))),
    ("conv2d", S(T(IMAGE), T((8, 1, 3, 3)), padding=1, groups=4)),
    ("conv2d", S(T((1, 2, 12, 11)), T((3, 2, 3, 3)), padding=2)),
    ("conv2d", S(T((0, 4, 7, 6)), T((6, 4, 3, 2)))),
    ("conv2d", S(T(IMAGE), T((6, 2, 2, 4)), padding="same", groups=2)),
    ("conv3d", S(T(VOLUME), T((3, 2, 2, 3, 2)), T((3,)), stride=2, padding=1)),
    ("conv_tbc", S(T((7, 2, 3)), T((3, 3, 4)), T((4,)), 1)),
    ("conv_transpose1d", S(T(ROW), T((4, 3, 3)), T((3,)), stride=3, padding=1, output_padding=2)),
    ("conv_transpose2d", S(T(IMAGE), T((4, 3, 3, 2)), T((6,)), stride=2, padding=1, groups=2, dilation=2)),
    ("conv_transpose2d", S(T((4, 5, 5)), T((4, 1, 3, 3)), groups=4, padding=3)),
    ("conv_transpose2d", S(T(IMAGE), T((4, 2, 2, 2)), stride=1, dilation=3, padding=1, output_padding=2)),
    ("conv_transpose3d", S(T(VOLUME), T((2, 2, 2, 3, 2)), stride=(1, 2, 3), output_padding=(0, 1, 2))),
    ("unfold", S(T(IMAGE), (3, 2), dilation=(1, 2), padding=(1, 0), stride=2)),
    ("fold", S(T((2, 12, 20)), (6, 5), (2, 3), padding=(0, 1), stride=1, dilation=(2, 1))),
    ("max_pool1d", S(LINE, 3, stride=2, padding=1, ceil_mode=True, return_indices=True)),
    ("max_pool2d", S(PICTURE, (3, 2), stride=(2, 1), padding=1, dilation=(1, 2), return_indices=True)),
    ("max_pool2d", S(PICTURE, 2, ceil_mode=True)),
    ("max_pool3d", S(BLOCK, 2, stride=(1, 2, 2), return_indices=True)),
    ("avg_pool1d", S(T(ROW), 3, stride=2, padding=1, ceil_mode=True)),
    ("avg_pool2d", S(T(IMAGE), 3, 2, 1, ceil_mode=True, count_include_pad=False)),
    ("avg_pool2d", S(T(IMAGE), (2, 3), divisor_override=5)),
    ("avg_pool3d", S(T(VOLUME), 2, 1, 1, count_include_pad=False)),
    ("lp_pool1d", S(T(ROW, low=0.2), 3, 2)),
    ("lp_pool2d", S(T(IMAGE, low=0.2), 2, 3, stride=2, ceil_mode=True)),
    ("lp_pool3d", S(T(VOLUME, low=0.2), 1.5, 2)),
    ("adaptive_avg_pool1d", S(T(ROW), 4)),
    ("adaptive_avg_pool2d", S(T(IMAGE), (3, None))),
    ("adaptive_avg_pool2d", S(T(IMAGE), 1)),
    ("adaptive_avg_pool3d", S(T(VOLUME), (2, 3, 3))),
    ("adaptive_max_pool1d", S(LINE, 4, return_indices=True)),
    ("adaptive_max_pool2d", S(PICTURE, (3, 6), return_indices=True)),
    ("adaptive_max_pool3d", S(BLOCK, (2, 4, 1), return_indices=True)),
    ("interpolate", S(T(IMAGE), scale_factor=(1.7, 0.6))),
    ("interpolate", S(T(IMAGE), size=(11, 4), mode="nearest-exact")),
    ("interpolate", S(T(ROW), size=14, mode="linear", align_corners=True)),
    ("interpolate", S(T(IMAGE), scale_factor=1.6, mode="bilinear")),
    ("interpolate", S(T(IMAGE), scale_factor=1.6, mode="bilinear", recompute_scale_factor=True)),
    ("interpolate", S(T(IMAGE), size=(4, 13), mode="bicubic")),
    ("interpolate", S(T(IMAGE), size=(3, 9), mode="bicubic", antialias=True)),
    ("interpolate", S(T(IMAGE), size=(3, 2), mode="bilinear", antialias=True, align_corners=True)),
    ("interpolate", S(T(IMAGE), size=(3, 9), mode="lanczos", antialias=True)),
    ("interpolate", S(T(VOLUME), size=(3, 7, 5), mode="trilinear")),
    ("interpolate", S(T(IMAGE), size=(5, 9), mode="area")),
    ("upsample_bilinear", S(T(IMAGE), size=(9, 3))),
    ("grid_sample", S(T(IMAGE), PLACES, align_corners=False)),
    ("grid_sample", S(T(IMAGE), PLACES, padding_mode="border", align_corners=True)),
    ("grid_sample", S(T(IMAGE), PLACES, padding_mode="reflection", align_corners=False)),
    ("grid_sample", S(T(IMAGE), T((2, 5, 4, 2), low=-1.4, high=1.4, kind="fixed"), mode="nearest")),
    ("grid_sample", S(T(VOLUME), T((1, 3, 4, 2, 3)), padding_mode="reflection", align_corners=True)),
    ("affine_grid", S(T((2, 2, 3)), (2, 1, 4, 5), align_corners=False)),
    ("affine_grid", S(T((2, 3, 4)), (2, 1, 2, 3, 4), align_corners=True)),
    ("pixel_shuffle", S(T((2, 3, 8, 2, 3)), 2)),
    ("pixel_unshuffle", S(T((3, 4, 6)), 2)),
    ("channel_shuffle", S(T(IMAGE), 2)),
    ("local_response_norm", S(T(IMAGE), 3, alpha=0.5, beta=0.6, k=2.0)),
    ("local_response_norm", S(T(ROW), 2)),
]
names = [f"{name}-{number}" for number, (name, _) in enumerate(CALLS)]
each_call = pytest.mark.parametrize(("name", "call"), CALLS, ids=names)


def drawn(call: S, dtype: str) -> tuple[list[Any], list[bool]]:
    rng = np.random.default_rng(1)
    arrays = [a.draw(rng, dtype) if isinstance(a, T) else a for a in call.args]
    return arrays, [isinstance(a, T) and a.kind == "float" for a in call.args]


def run(library: Any, function: Any, call: S, dtype: str, grad: bool = False) -> tuple[list[Any], list[Any]]:
    """The results and the differentiated inputs of one call in one library."""
    arrays, wanted = drawn(call, dtype)
    args = [library.tensor(a) if isinstance(a, np.ndarray) else a for a in arrays]
    inputs = [a.requires_grad_() for a, want in zip(args, wanted, strict=True) if want and grad]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        result = function(*args, **call.kwargs)
    return list(result) if isinstance(result, tuple) else [result], inputs


def function_of(library: Any, name: str) -> Any:
    return (
        torch.conv_tbc
        if name == "conv_tbc" and library is torch
        else getattr(ours if library is weft else theirs, name)
    )


def assert_close(got: Any, want: Any, tolerance: float = 1e-11) -> None:
    got, want = got.detach().numpy(), want.detach().numpy()
    assert got.dtype == want.dtype and got.shape == want.shape
    np.testing.assert_allclose(got, want, rtol=tolerance, atol=tolerance)


@each_call
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_values(name: str, call: S, dtype: str) -> None:
    got, _ = run(weft, function_of(weft, name), call, dtype)
    want, _ = run(torch, function_of(torch, name), call, dtype)
    for a, b in zip(got, want, strict=True):
        assert_close(a, b, 3e-5 if dtype == "float32" else 1e-11)


@each_call
def test_gradients_of_first_and_second_order(name: str, call: S) -> None:
    """g = ∂⟨y, u⟩/∂x and ∂⟨g, v⟩/∂(x, u) for fixed random u, v."""
    found = []
    for library in (weft, torch):
        rng = np.random.default_rng(2)
        ys, inputs = run(library, function_of(library, name), call, "float64", grad=True)
        u = library.tensor(rng.standard_normal(tuple(ys[0].shape))).requires_grad_()
        first = library.autograd.grad(ys[0], inputs, u, create_graph=True)
        total = sum((g * library.tensor(rng.standard_normal(tuple(g.shape)))).sum() for g in first)
        variables = [*inputs, u]
        second = library.autograd.grad(total, variables, allow_unused=True)
        zero = [library.tensor(np.zeros(tuple(v.shape))) for v in variables]
        found.append([*first, *(z if s is None else s for s, z in zip(second, zero, strict=True))])
    for a, b in zip(*found, strict=True):
        assert_close(a, b, 1e-9)


@each_call
def test_batched_as_a_loop(name: str, call: S) -> None:
    function = function_of(weft, name)
    arrays, wanted = drawn(call, "float64")
    dims = tuple(0 if want else None for want in wanted)
    args = [weft.tensor(np.stack([a, a[::-1] * 0.5])) if want else a for a, want in zip(arrays, wanted, strict=True)]
    args = [weft.tensor(a) if isinstance(a, np.ndarray) else a for a in args]
    batched = vmap(lambda *a: function(*a, **call.kwargs), in_dims=dims)(*args)
    for row in range(2):
        single = function(*(a[row] if d == 0 else a for a, d in zip(args, dims, strict=True)), **call.kwargs)
        whole = batched if isinstance(batched, tuple) else (batched,)
        for a, b in zip(whole, single if isinstance(single, tuple) else (single,), strict=True):
            assert_close(a[row], b)


# ---------------------------------------------------------------------------------------- convolution


def test_convolution_is_scipys_correlation() -> None:
    rng = np.random.default_rng(0)
    x, w = rng.standard_normal((1, 3, 9, 8)), rng.standard_normal((2, 3, 4, 3))
    want = [sum(scipy.signal.correlate2d(x[0, i], w[c, i], "valid") for i in range(3)) for c in range(2)]
    np.testing.assert_allclose(ours.conv2d(weft.tensor(x), weft.tensor(w)).numpy()[0], want, rtol=1e-12)


@pytest.mark.parametrize("samples", [1, 3, 70])
@pytest.mark.parametrize("length", [5, 40])
def test_chunks_of_the_batch_agree(samples: int, length: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Convolution and both gradients, computed a few samples at a time, for short and long outputs."""
    monkeypatch.setattr("weft.ops.layers.sliding.COLUMN_ELEMENTS", 5000)
    rng = np.random.default_rng(0)
    x, w = rng.standard_normal((samples, 4, length, 6)), rng.standard_normal((6, 2, 3, 3))
    found = []
    for library, function in ((weft, ours.conv2d), (torch, theirs.conv2d)):
        a, b = library.tensor(x).requires_grad_(), library.tensor(w).requires_grad_()
        y = function(a, b, padding=1, groups=2, stride=(1, 2))
        found.append((y, *library.autograd.grad((y * y).sum(), (a, b))))
    for got, want in zip(*found, strict=True):
        assert_close(got, want, 1e-9)


def test_convolution_remembers_only_its_arguments() -> None:
    x, w = weft.ones(2, 3, 8, 8, requires_grad=True), weft.ones(4, 3, 3, 3, requires_grad=True)
    saved = ours.conv2d(x, w).grad_fn.saved
    assert [tuple(s.shape) for s in saved] == [tuple(x.shape), tuple(w.shape)]


@pytest.mark.parametrize("dtype", ["int64", "complex128", "int32"])
def test_convolution_of_other_numbers(dtype: str) -> None:
    rng = np.random.default_rng(0)
    x, w = (
        rng.integers(-9, 9, s) + (1j * rng.integers(-9, 9, s) if "c" in dtype else 0) for s in (IMAGE, (2, 4, 3, 3))
    )
    x, w = x.astype(dtype), w.astype(dtype)
    assert_close(ours.conv2d(weft.tensor(x), weft.tensor(w)), theirs.conv2d(torch.tensor(x), torch.tensor(w)))


def test_complex_gradients_have_the_conjugate() -> None:
    rng = np.random.default_rng(0)
    x, w = (rng.standard_normal(s) + 1j * rng.standard_normal(s) for s in ((2, 2, 6), (3, 2, 3)))
    found = []
    for library, function in ((weft, ours.conv1d), (torch, theirs.conv1d)):
        a, b = library.tensor(x).requires_grad_(), library.tensor(w).requires_grad_()
        found.append(library.autograd.grad(function(a, b, stride=2).abs().sum(), (a, b)))
    for got, want in zip(*found, strict=True):
        assert_close(got, want)


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_low_precision_sums_in_float32(dtype: str) -> None:
    """4096 ones add up exactly; in float16 itself the sum would stop at 2048."""
    kind = getattr(weft, dtype)
    y = ours.conv1d(weft.ones(1, 4096, 1).to(kind), weft.ones(1, 4096, 1).to(kind))
    assert y.dtype is kind and y.item() == 4096
    assert ours.avg_pool1d(weft.ones(1, 1, 4096).to(kind), 4096).item() == 1


def test_unfold_owns_its_memory_and_fold_counts_the_windows() -> None:
    x = weft.ones(1, 1, 4, 4)
    columns = ours.unfold(x, 1)
    columns.zero_()
    assert x.sum() == 16
    counts = ours.fold(ours.unfold(x, 3, padding=1), 4, 3, padding=1)
    np.testing.assert_array_equal(counts.numpy()[0, 0], np.outer([2, 3, 3, 2], [2, 3, 3, 2]))


# -------------------------------------------------------------------------------------------- pooling


@pytest.mark.parametrize("pool", ["max_pool2d", "adaptive_max_pool2d"])
@pytest.mark.parametrize("fill", [0.0, -np.inf, np.nan, np.inf])
def test_maxima_among_equals_infinities_and_nan(pool: str, fill: float) -> None:
    """Ties and empty maxima: the same value, the same place, the same gradient as PyTorch."""
    x = np.round(np.random.default_rng(0).standard_normal((2, 3, 7, 7)))
    x[:, :, 1:5, 2:6] = fill
    x[1] = fill
    options = ((3, 2, 1),) if pool == "max_pool2d" else ((3,), (7,)) if not np.isnan(fill) else ((3,),)
    for arguments in options:
        found = []
        for library, space in ((weft, ours), (torch, theirs)):
            a = library.tensor(x).requires_grad_()
            y, index = getattr(space, pool)(a, *arguments, return_indices=True)
            found.append((y, index, *library.autograd.grad(y, a, library.ones_like(y))))
        for got, want in zip(*found, strict=True):
            assert_close(got, want)


def test_adaptive_windows_of_all_sizes() -> None:
    for length, count in itertools.product(range(1, 12), range(1, 14)):
        x = np.random.default_rng(length).standard_normal((1, 2, length))
        assert_close(
            ours.adaptive_avg_pool1d(weft.tensor(x), count), theirs.adaptive_avg_pool1d(torch.tensor(x), count)
        )
        got = ours.adaptive_max_pool1d(weft.tensor(x), count, return_indices=True)
        want = theirs.adaptive_max_pool1d(torch.tensor(x), count, return_indices=True)
        assert_close(got[0], want[0])
        assert_close(got[1], want[1])


def test_integer_pooling() -> None:
    x = np.random.default_rng(0).integers(-50, 50, IMAGE)
    assert_close(ours.avg_pool2d(weft.tensor(x), 2), theirs.avg_pool2d(torch.tensor(x), 2))
    assert_close(ours.max_pool2d(weft.tensor(x), 3, 2, 1), theirs.max_pool2d(torch.tensor(x), 3, 2, 1))


def test_power_pooling_has_no_gradient_where_the_sum_is_zero() -> None:
    x = weft.tensor([[[0.0, 0.0, 3.0, 4.0]]], requires_grad=True)
    y = ours.lp_pool1d(x, 2, 2)
    y.sum().backward()
    np.testing.assert_allclose(y.detach().numpy(), [[[0, 5]]])
    np.testing.assert_allclose(x.grad.numpy(), [[[0, 0, 0.6, 0.8]]])


def test_unpooling_puts_maxima_back() -> None:
    x = weft.tensor(np.random.default_rng(0).uniform(1, 2, IMAGE))
    y, index = ours.max_pool2d(x, 2, return_indices=True)
    back = ours.max_unpool2d(y, index, 2, output_size=x.shape)
    assert_close(ours.max_pool2d(back, 2), torch.tensor(y.numpy()))
    assert int((back != 0).sum()) == y.numel() and bool(((back == 0) | (back == x)).all())


@pytest.mark.parametrize("n", [2, 3])
def test_fractional_pooling_with_given_samples(n: int) -> None:
    rng = np.random.default_rng(0)
    x, u = rng.standard_normal((2, 3, 9, 11, 8)[: n + 2]), rng.uniform(0, 1, (2, 3, n))
    name, size, output = f"fractional_max_pool{n}d", (2, 3, 2)[:n], (5, 6, 4)[:n]
    options = dict(output_size=output, return_indices=True)
    got = getattr(ours, name)(weft.tensor(x), size, _random_samples=weft.tensor(u), **options)
    want = getattr(theirs, name)(torch.tensor(x), size, _random_samples=torch.tensor(u), **options)
    for a, b in zip(got, want, strict=True):
        assert_close(a, b)


def test_fractional_pooling_is_reproducible() -> None:
    x = weft.tensor(np.random.default_rng(0).standard_normal(IMAGE))
    draws = []
    for seed in (3, 3, 4):
        weft.manual_seed(seed)
        draws.append(ours.fractional_max_pool2d(x, 2, output_ratio=(0.6, 0.7)))
    assert draws[0].shape == (2, 4, 4, 4)
    assert bool((draws[0] == draws[1]).all()) and not bool((draws[0] == draws[2]).all())


# ----------------------------------------------------------------------------------------- resampling


@pytest.mark.parametrize("mode", ["nearest", "nearest-exact", "linear"])
def test_interpolation_of_all_sizes(mode: str) -> None:
    for length, count in itertools.product(range(1, 9), range(1, 20)):
        x = np.random.default_rng(length).standard_normal((1, 1, length)).astype(np.float32)
        got = ours.interpolate(weft.tensor(x), size=count, mode=mode)
        assert_close(got, theirs.interpolate(torch.tensor(x), size=count, mode=mode), 1e-5)


def test_a_nan_spoils_only_its_neighbours() -> None:
    x = weft.zeros(1, 1, 16)
    x[0, 0, 8] = float("nan")
    assert int(ours.interpolate(x, scale_factor=2, mode="linear").isnan().sum()) == 4
    assert int(ours.adaptive_avg_pool1d(x, 5).isnan().sum()) == 1


def test_bytes_are_interpolated_and_rounded() -> None:
    x = np.random.default_rng(0).integers(0, 256, (1, 3, 11, 13)).astype(np.uint8)
    for mode in ("nearest", "bilinear", "bicubic"):
        got = ours.interpolate(weft.tensor(x), size=(5, 7), mode=mode).numpy().astype(int)
        want = theirs.interpolate(torch.tensor(x), size=(5, 7), mode=mode).numpy().astype(int)
        assert np.abs(got - want).max() <= 1


@pytest.mark.parametrize("mode", ["bilinear", "nearest", "bicubic"])
@pytest.mark.parametrize("padding_mode", ["zeros", "border", "reflection"])
@pytest.mark.parametrize("align_corners", [False, True])
def test_grid_sample_far_outside(mode: str, padding_mode: str, align_corners: bool) -> None:
    rng = np.random.default_rng(0)
    x, grid = rng.standard_normal((2, 3, 5, 1)), rng.uniform(-6, 6, (2, 8, 9, 2))
    options = dict(mode=mode, padding_mode=padding_mode, align_corners=align_corners)
    found = []
    for library, space in ((weft, ours), (torch, theirs)):
        a, b = library.tensor(x).requires_grad_(), library.tensor(grid).requires_grad_()
        y = space.grid_sample(a, b, **options)
        wanted = (a,) if mode == "nearest" else (a, b)
        found.append((y, *library.autograd.grad((y * y).sum(), wanted)))
    for got, want in zip(*found, strict=True):
        assert_close(got, want, 1e-9)


def test_an_identity_map_samples_the_image_itself() -> None:
    x = weft.tensor(np.random.default_rng(0).standard_normal(IMAGE))
    identity = weft.tensor(np.tile(np.eye(2, 3), (2, 1, 1)))
    for align in (False, True):
        grid = ours.affine_grid(identity, IMAGE, align_corners=align)
        assert_close(ours.grid_sample(x, grid, align_corners=align), torch.tensor(x.numpy()), 1e-12)


# --------------------------------------------------------------------------------------------- errors

x3, x4, x5 = T(ROW), T(IMAGE), T(VOLUME)
REFUSED: list[tuple[str, S, str]] = [
    ("conv2d", S(T((4, 4)), T((1, 4, 3, 3))), "3D .unbatched. or 4D"),
    ("conv2d", S(x4, T((6, 3, 3, 3))), "expected input.* to have 3 channels, but got 4"),
    ("conv2d", S(x4, T((5, 2, 3, 3)), groups=2), "divisible by 2"),
    ("conv2d", S(x4, T((6, 4, 9, 9))), "Kernel size can't be greater"),
    ("conv2d", S(x4, T((6, 4, 3, 3)), T((5,))), "bias to be 1-dimensional with 6 elements"),
    ("conv2d", S(x4, T((6, 4, 3, 3)), stride=0), "stride should be greater than zero"),
    ("conv2d", S(x4, T((6, 4, 3, 3)), stride=(1, 1, 1)), "list of 2 values"),
    ("conv2d", S(x4, T((6, 4, 3, 3)), padding=-1), "padding should be non-negative"),
    ("conv2d", S(x4, T((6, 4, 3, 3)), padding="same", stride=2), "not supported for strided"),
    ("conv2d", S(x4, T((6, 4, 3, 3)), padding="whole"), "Invalid padding string"),
    ("conv2d", S(x4, T((6, 4, 3, 3)), groups=0), "groups"),
    ("conv2d", S(x4, T((6, 4, 3, 3), kind="int64")), "should be the same"),
    ("conv_transpose2d", S(x4, T((3, 4, 3, 3))), "to have 3 channels"),
    ("conv_transpose2d", S(x4, T((4, 4, 3, 3)), output_padding=1), "output padding must be smaller"),
    ("conv_transpose2d", S(x4, T((4, 4, 1, 1)), padding=4), "too small"),
    ("unfold", S(x4, 9), "must be at least one"),
    ("unfold", S(x3, 0), "greater than zero"),
    ("fold", S(T((1, 5, 4)), (3, 3), 2), "divisible by the product of kernel_size"),
    ("fold", S(T((1, 4, 5)), (3, 3), 2), "number of sliding blocks"),
    ("max_pool2d", S(x4, 2, padding=2), "pad should be at most half"),
    ("max_pool2d", S(x4, 9), "Output size is too small"),
    ("max_pool2d", S(x4, (2, 2, 2)), "list of 2 values"),
    ("max_pool2d", S(T((2, 0, 4, 4)), 2), "optional 0 dim batch"),
    ("avg_pool2d", S(x4, 2, divisor_override=0), "divisor must be not zero"),
    ("adaptive_avg_pool2d", S(x4, (1, 2, 3)), "must have 2 values"),
    ("adaptive_max_pool2d", S(T((1, 2, 0, 4)), 2), "non-zero size"),
    ("max_unpool2d", S(x4, T((2, 4, 7, 5), 0, 3, "index"), 2), "shape of indices"),
    ("max_unpool2d", S(x4, T(IMAGE, 900, 901, "index"), 2), "invalid max index"),
    ("fractional_max_pool2d", S(x4, 2), "either an output_size or an output_ratio"),
    ("interpolate", S(x4), "either size or scale_factor"),
    ("interpolate", S(x4, 3, 2), "only one of size or scale_factor"),
    ("interpolate", S(x3, 3, mode="bilinear"), "needs 4D input"),
    ("interpolate", S(x4, 3, mode="nearest", align_corners=True), "align_corners option"),
    ("interpolate", S(x4, (3, 3, 3)), "same number of spatial dimensions"),
    ("interpolate", S(x4, 0), "greater than 0"),
    ("interpolate", S(x4, 3, antialias=True), "Anti-alias option"),
    ("grid_sample", S(x4, T((2, 5, 4, 3))), "size 2 in the last dimension"),
    ("grid_sample", S(x4, T((1, 5, 4, 2))), "batch size 2"),
    ("grid_sample", S(x5, T((1, 3, 4, 2, 3)), mode="bicubic"), "bicubic interpolation only supports 4D"),
    ("grid_sample", S(x4, PLACES, mode="best"), "mode must be"),
    ("affine_grid", S(T((2, 2, 2)), (2, 1, 3, 3)), "affine matrices of shape 2x3"),
    ("pixel_shuffle", S(x4, 3), "divisible by the square"),
    ("pixel_unshuffle", S(x4, 4), "divisible by downscale_factor"),
    ("channel_shuffle", S(x4, 3), "divisible by groups"),
    ("local_response_norm", S(T((3, 3)), 2), "3D or higher"),
]


@pytest.mark.parametrize(("name", "call", "message"), REFUSED, ids=[f"{n}-{i}" for i, (n, _, _) in enumerate(REFUSED)])
def test_refused_as_by_pytorch(name: str, call: S, message: str) -> None:
    with pytest.raises(Exception) as theirs_raised:
        run(torch, getattr(theirs, name), call, "float64")
    with pytest.raises(type(theirs_raised.value), match=message) as raised:
        run(weft, getattr(ours, name), call, "float64")
    assert str(raised.value).split(":")[0] in (name, name.rstrip("123d"))
