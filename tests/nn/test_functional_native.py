"""ATen's entry points (`weft.native_layer_norm`, `weft.grid_sampler` …) against PyTorch's."""

from __future__ import annotations

import numpy as np
import pytest
import torch

import weft


def drawn(*shape, seed=0):
    return np.random.default_rng(seed).normal(size=shape)


X = drawn(2, 4, 3, 5)
W, B = drawn(4, seed=1), drawn(4, seed=2)
CALLS = {
    "native_layer_norm": [((3, 5), None, None, 1e-5), ((5,), drawn(5), drawn(5), 1e-3)],
    "native_group_norm": [(None, None, 2, 4, 15, 2, 1e-5), (W, B, 2, 4, 15, 4, 1e-2), (W, None, 2, 4, 15, 1, 1e-5)],
    "native_batch_norm": [(W, B, None, None, True, 0.1, 1e-5), (W, None, B * 0, B * 0 + 2, False, 0.1, 1e-5)],
}


@pytest.mark.parametrize(("name", "args"), [(name, args) for name, rows in CALLS.items() for args in rows])
def test_norms_with_statistics(name, args):
    """Results, statistics, and gradients through the result."""
    make = lambda m: [m.tensor(a) if isinstance(a, np.ndarray) else a for a in args]
    ours, theirs = weft.tensor(X, requires_grad=True), torch.tensor(X, requires_grad=True)
    found, wanted = getattr(weft, name)(ours, *make(weft)), getattr(torch, name)(theirs, *make(torch))
    for a, b in zip(found, wanted, strict=True):
        assert tuple(a.shape) == tuple(b.shape) and a.requires_grad == b.requires_grad
        np.testing.assert_allclose(a.detach().numpy(), b.detach().numpy(), rtol=1e-9, atol=1e-12)
    for results in (found, wanted):
        sum(r.sin().sum() for r in results if r.requires_grad).backward()
    np.testing.assert_allclose(ours.grad.numpy(), theirs.grad.numpy(), rtol=1e-8, atol=1e-10)


def test_running_statistics_move():
    mean, variance = weft.zeros(4, dtype=weft.float64), weft.ones(4, dtype=weft.float64)
    their_mean, their_variance = torch.zeros(4, dtype=torch.float64), torch.ones(4, dtype=torch.float64)
    weft.native_batch_norm(weft.tensor(X), None, None, mean, variance, True, 0.3, 1e-5)
    torch.native_batch_norm(torch.tensor(X), None, None, their_mean, their_variance, True, 0.3, 1e-5)
    np.testing.assert_allclose(mean.numpy(), their_mean.numpy(), rtol=1e-12)
    np.testing.assert_allclose(variance.numpy(), their_variance.numpy(), rtol=1e-12)


def test_low_precision_keeps_its_type():
    for result in weft.native_layer_norm(weft.tensor(X).half(), (5,), None, None, 1e-5):
        assert result.dtype is weft.float16


@pytest.mark.parametrize("train", [True, None])
def test_dropout_keeps_what_its_mask_says(train):
    weft.manual_seed(0)
    x = weft.randn(200, 50)
    y, mask = weft.native_dropout(x, 0.3, train)
    assert mask.dtype is weft.bool and abs(float(mask.float().mean()) - 0.7) < 0.02
    weft.testing.assert_close(y, x * mask / 0.7)


@pytest.mark.parametrize(("p", "train", "kept"), [(0.5, False, 1.0), (0.0, True, 1.0), (1.0, True, 0.0)])
def test_dropout_of_all_and_nothing(p, train, kept):
    x = weft.randn(4, 5)
    y, mask = weft.native_dropout(x, p, train)
    assert (y == x * kept).all() and (mask == bool(kept)).all()


@pytest.mark.parametrize("corners", [False, True])
@pytest.mark.parametrize("padding", [0, 1, 2])
@pytest.mark.parametrize("mode", [0, 1, 2])
def test_grid_samplers(mode, padding, corners):
    flat = np.random.default_rng(3).uniform(-1.3, 1.3, (2, 6, 4, 2))
    for name in ("grid_sampler", "grid_sampler_2d"):
        ours = getattr(weft, name)(weft.tensor(X), weft.tensor(flat), mode, padding, corners)
        theirs = getattr(torch, name)(torch.tensor(X), torch.tensor(flat), mode, padding, corners)
        np.testing.assert_allclose(ours.numpy(), theirs.numpy(), rtol=1e-9, atol=1e-12)
    if mode != 2:
        volume, solid = drawn(2, 3, 3, 4, 5), np.random.default_rng(4).uniform(-1.3, 1.3, (2, 3, 2, 4, 3))
        ours = weft.grid_sampler_3d(weft.tensor(volume), weft.tensor(solid), mode, padding, corners)
        theirs = torch.grid_sampler_3d(torch.tensor(volume), torch.tensor(solid), mode, padding, corners)
        np.testing.assert_allclose(ours.numpy(), theirs.numpy(), rtol=1e-9, atol=1e-12)


def test_affine_grid_generator():
    theta = drawn(2, 2, 3)
    ours = weft.affine_grid_generator(weft.tensor(theta), (2, 1, 4, 3), False)
    theirs = torch.affine_grid_generator(torch.tensor(theta), (2, 1, 4, 3), False)
    np.testing.assert_allclose(ours.numpy(), theirs.numpy(), rtol=1e-12, atol=1e-14)


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda x: weft.native_group_norm(x, None, None, 2, 4, 14, 2, 1e-5), "HxW=14"),
        (lambda x: weft.native_layer_norm(x, (4,), None, None, 1e-5), "normalized_shape"),
        (lambda x: weft.native_dropout(x, 1.5, True), "between 0 and 1"),
        (lambda x: weft.grid_sampler(x, weft.zeros(2, 1, 1, 2), 3, 0, False), "bicubic"),
        (lambda x: weft.grid_sampler(x, weft.zeros(2, 1, 1, 2), 0, -1, False), "reflection"),
        (lambda x: weft.grid_sampler_2d(x[0], weft.zeros(2, 1, 1, 2), 0, 0, False), "4D"),
        (lambda x: weft.grid_sampler_3d(x, weft.zeros(2, 1, 1, 2), 0, 0, False), "5D"),
    ],
)
def test_errors(call, words):
    with pytest.raises((RuntimeError, ValueError), match=words):
        call(weft.tensor(X).float())


@pytest.mark.parametrize(
    "function",
    [
        lambda x: weft.native_layer_norm(x, (3, 5), None, None, 1e-5),
        lambda x: weft.native_group_norm(x, None, None, 2, 4, 15, 2, 1e-5),
        lambda x: weft.native_batch_norm(x, None, None, None, None, True, 0.1, 1e-5),
        lambda x: weft.native_dropout(x, 0.4, True),
        lambda x: (weft.grid_sampler_2d(x, weft.zeros(2, 2, 2, 2), 0, 0, False),),
        lambda x: (weft.nn.functional.swiglu(x, 1), weft.uniform(-2.0, 5.0, (7,))),
    ],
)
def test_compiled_as_eager(function):
    x = weft.tensor(X).float()
    weft.manual_seed(3)
    wanted = [*function(x), *function(x)]
    weft.manual_seed(3)
    compiled = weft.compile(function)
    for found, value in zip([*compiled(x), *compiled(x)], wanted, strict=True):
        weft.testing.assert_close(found, value)
