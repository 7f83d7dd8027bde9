"""Corners in which PyTorch's answer is the definition: acosh below 1, bytes resampled, axes padded away, places kept."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
import torch
import torch.nn.functional as theirs

import weft
import weft.nn.functional as ours

PLACES = [-np.inf, -1e38, -1e10, -2, -1.0000001, -1, -0.5, -0.0, 0, 0.5, 0.9999, 1, 1.5, 2, 1e5, 1e30, np.inf, np.nan]


@pytest.mark.parametrize("kind", ["float32", "float64"])
@pytest.mark.parametrize("copies", [1, 4000])  # small and large arrays take different ways
@pytest.mark.parametrize("compiled", [False, True])
def test_acosh_and_its_slope(kind, copies, compiled):
    values = np.tile(np.array(PLACES, kind), copies)
    x, expected_x = weft.tensor(values, requires_grad=True), torch.tensor(values, requires_grad=True)
    y, expected = (weft.compile(weft.acosh) if compiled else weft.acosh)(x), torch.acosh(expected_x)
    y.sum().backward()
    expected.sum().backward()
    np.testing.assert_allclose(y.detach().numpy(), expected.detach().numpy(), rtol=2e-6, equal_nan=True)
    slope, expected_slope = x.grad.numpy(), expected_x.grad.numpy()
    np.testing.assert_allclose(slope, expected_slope, rtol=2e-6, atol=1e-30, equal_nan=True)


def _bytes(draw):
    shape = (int(draw.integers(1, 3)), int(draw.integers(1, 9)), *(int(n) for n in draw.integers(1, 12, 2)))
    options = {"align_corners": bool(draw.integers(2)), "antialias": bool(draw.integers(2))}
    if draw.integers(3):
        options["size"] = tuple(int(n) for n in draw.integers(2, 14, 2))
    else:
        options["scale_factor"] = tuple(max(float(draw.uniform(0.3, 3)), 2.01 / n) for n in shape[2:])
    return draw.integers(0, 256, shape).astype(np.uint8), options


@pytest.mark.parametrize("mode", ["bilinear", "bicubic"])
@pytest.mark.parametrize("seed", range(4))
def test_bytes_are_resampled_bit_for_bit(mode, seed):
    """Outputs one pixel wide are left out: PyTorch 2.13 reads other memory there."""
    draw = np.random.default_rng(seed)
    for _ in range(50):
        x, options = _bytes(draw)
        expected = theirs.interpolate(torch.tensor(x), mode=mode, **options).numpy()
        np.testing.assert_array_equal(ours.interpolate(weft.tensor(x), mode=mode, **options).numpy(), expected)


@pytest.mark.parametrize("kind", ["int8", "int16", "int32", "int64", "bool"])
@pytest.mark.parametrize("mode", ["nearest", "bilinear", "bicubic", "area"])
def test_other_integers_are_resampled_or_refused_alike(kind, mode):
    x = np.arange(16).reshape(1, 1, 4, 4).astype(kind)
    try:
        expected = theirs.interpolate(torch.tensor(x), size=7, mode=mode).numpy()
    except (RuntimeError, NotImplementedError):
        with pytest.raises(RuntimeError):
            ours.interpolate(weft.tensor(x), size=7, mode=mode)
    else:
        np.testing.assert_array_equal(ours.interpolate(weft.tensor(x), size=7, mode=mode).numpy(), expected)


SHAPES = [
    (1, (2, 4)),
    (1, (2, 2, 4)),
    (1, (2, 1)),
    (1, (0, 2, 4)),
    (2, (2, 3, 4)),
    (2, (1, 2, 3, 4)),
    (3, (1, 2, 3, 4)),
]


@pytest.mark.parametrize("mode", ["reflect", "replicate"])
@pytest.mark.parametrize(("count", "shape"), SHAPES)
def test_padding_may_take_a_whole_axis_away(mode, count, shape):
    draw = np.random.default_rng(0)
    few = [tuple(int(n) for n in draw.integers(-5, 4, 2 * count)) for _ in range(120)]
    for widths in itertools.product(range(-5, 4), repeat=2) if count == 1 else few:
        x = np.arange(np.prod(shape), dtype=np.float32).reshape(shape)
        try:
            expected = theirs.pad(torch.tensor(x), widths, mode).numpy()
        except (RuntimeError, IndexError):
            with pytest.raises(RuntimeError):
                ours.pad(weft.tensor(x), widths, mode)
        else:
            np.testing.assert_array_equal(ours.pad(weft.tensor(x), widths, mode).numpy(), expected, str(widths))


def test_the_slope_of_an_axis_cut_beyond_its_end():
    x = weft.arange(8.0).reshape(2, 4).requires_grad_()
    ours.pad(x, (-5, 3), "reflect").sum().backward()
    y = torch.arange(8.0).reshape(2, 4).requires_grad_()
    theirs.pad(y, (-5, 3), "reflect").sum().backward()
    np.testing.assert_array_equal(x.grad.numpy(), y.grad.numpy())


CHANGES = {
    "module": lambda m, net: setattr(net, "first", m.nn.Linear(2, 3)),
    "parameter": lambda m, net: setattr(net, "scale", m.nn.Parameter(m.ones(2))),
    "buffer": lambda m, net: setattr(net, "mean", m.ones(2)),
    "new buffer": lambda m, net: setattr(net, "mean", m.nn.Buffer(m.ones(2))),
    "none between": lambda m, net: (setattr(net, "first", None), setattr(net, "first", m.nn.Linear(2, 2))),
    "deleted between": lambda m, net: (delattr(net, "first"), setattr(net, "first", m.nn.Linear(2, 2))),
    "module to parameter": lambda m, net: setattr(net, "first", m.nn.Parameter(m.ones(2))),
    "add_module": lambda m, net: net.add_module("first", m.nn.Linear(3, 3)),
    "buffer not kept": lambda m, net: net.register_buffer("mean", m.ones(1), persistent=False),
}


def _network(m):
    net = m.nn.Module()
    net.first, net.scale, net.second = m.nn.Linear(2, 2), m.nn.Parameter(m.zeros(1)), m.nn.Linear(2, 2)
    net.register_buffer("mean", m.zeros(1))
    net.shift = m.nn.Parameter(m.zeros(1))
    net.register_buffer("spread", m.zeros(1))
    return net


@pytest.mark.parametrize("change", CHANGES)
def test_what_is_reassigned_keeps_its_place(change):
    seen = []
    for m in (torch, weft):
        net = _network(m)
        CHANGES[change](m, net)
        parts = ("state_dict", "named_parameters", "named_children", "named_buffers")
        seen.append([list(dict(getattr(net, part)())) for part in parts])
    assert seen[0] == seen[1]
