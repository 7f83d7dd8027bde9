"""Convolutions and pooling over volumes, positions of maxima, resampling: compiled without host calls, as in PyTorch."""

from __future__ import annotations

import numpy as np
import pytest
import torch

import weft

from .test_index_writes import assert_native, numbers

F64 = np.float64


def results(library, function, inputs, weights):
    """What a function gives, and the gradients of a weighted sum of its first result."""
    found = function(library.nn.functional, *inputs)
    found = found if isinstance(found, tuple) else (found,)
    weight = library.tensor(np.resize(weights, tuple(found[0].shape)))
    return (*found, *library.autograd.grad((found[0] * weight).sum(), inputs))


def compare(function, *arrays, threads=None, eager=False):
    """Compiled code beside PyTorch, and beside eager code."""
    weights = numbers((997,), F64, 9)
    ours, theirs = ([lib.tensor(a, requires_grad=True) for a in arrays] for lib in (weft, torch))
    compiled = weft.compile(lambda *inputs: results(weft, function, inputs, weights), threads=threads)
    found = compiled(*ours)
    assert_native(compiled)
    wanted = [results(torch, function, theirs, weights)]
    wanted += [results(weft, function, ours, weights)] if eager else []
    for expected in wanted:
        for a, b in zip(found, expected, strict=True):
            np.testing.assert_allclose(a.detach().numpy(), b.detach().numpy(), 1e-10, 1e-10)


# ------------------------------------------------------------------------------------------ convolutions

GEOMETRIES = [
    {},
    {"padding": 1},
    {"stride": 2, "padding": 1},
    {"stride": (1, 2, 3), "padding": (0, 1, 2)},
    {"stride": (3, 1, 2), "padding": (2, 0, 1), "dilation": (1, 2, 1)},
    {"dilation": 2, "padding": 2},
    {"stride": 2, "dilation": (3, 1, 2), "padding": (1, 0, 0)},
    {"groups": 2, "padding": 1},
    {"groups": 2, "stride": 2, "dilation": (2, 1, 1)},
    {"groups": 4},
]


@pytest.mark.parametrize("size", [(3, 3, 3), (2, 1, 3), (1, 2, 2)])
@pytest.mark.parametrize("geometry", GEOMETRIES, ids=str)
def test_conv3d_and_its_gradients(geometry, size):
    groups = geometry.get("groups", 1)
    arrays = numbers((2, 4, 9, 8, 10), F64), numbers((8, 4 // groups, *size), F64, 1), numbers((8,), F64, 2)
    compare(lambda f, x, w, b: f.conv3d(x, w, b, **geometry), *arrays)


@pytest.mark.parametrize("size", [(3, 3, 3), (2, 1, 3), (1, 2, 2)])
@pytest.mark.parametrize("geometry", GEOMETRIES, ids=str)
def test_conv_transpose3d_and_its_gradients(geometry, size):
    groups = geometry.get("groups", 1)
    arrays = numbers((2, 8, 6, 5, 7), F64), numbers((8, 4 // groups, *size), F64, 1), numbers((4,), F64, 2)
    compare(lambda f, x, w, b: f.conv_transpose3d(x, w, b, **geometry), *arrays)


def test_output_padding():
    arrays = numbers((2, 8, 5, 4, 6), F64), numbers((8, 3, 3, 3, 3), F64, 1)
    compare(lambda f, x, w: f.conv_transpose3d(x, w, stride=2, padding=1, output_padding=1), *arrays)


@pytest.mark.parametrize("threads", [1, 2])
def test_layers_in_a_row_keep_the_channels_densest(threads):
    def network(f, x, w, u):
        y = f.relu(f.conv3d(x, w, padding=1))
        return f.relu(f.conv3d(f.max_pool3d(y, 2), u, padding=1) + 1)

    arrays = numbers((2, 3, 8, 10, 12), F64), numbers((16, 3, 3, 3, 3), F64, 1), numbers((8, 16, 3, 3, 3), F64, 2)
    compare(network, *arrays, threads=threads)


# ------------------------------------------------------------------------------------------------- pooling

POOLING = {
    "max": lambda f, x: f.max_pool3d(x, 2),
    "max, overlapping": lambda f, x: f.max_pool3d(x, 3, 2, 1),
    "max, all options": lambda f, x: f.max_pool3d(x, (3, 2, 1), (1, 2, 3), (1, 0, 0), (2, 1, 1), True),
    "max, places": lambda f, x: f.max_pool3d(x, (3, 2, 2), (2, 1, 2), 1, return_indices=True),
    "max, all options, places": lambda f, x: f.max_pool3d(x, (3, 2, 2), 2, (1, 1, 0), (2, 2, 1), True, True),
    "adaptive max": lambda f, x: f.adaptive_max_pool3d(x, (3, 4, 5)),
    "adaptive max, places": lambda f, x: f.adaptive_max_pool3d(x, (3, 3, 4), return_indices=True),
    "mean": lambda f, x: f.avg_pool3d(x, 3, 2, 1),
    "mean, all options": lambda f, x: f.avg_pool3d(x, (3, 2, 1), 2, (1, 1, 0), True, False),
    "adaptive mean": lambda f, x: f.adaptive_avg_pool3d(x, (3, 3, 4)),
    "power mean": lambda f, x: f.lp_pool3d(x.abs(), 2, 2),
}
IMAGES = {
    "places": lambda f, x: f.max_pool2d(x, 3, 2, 1, return_indices=True),
    "adaptive max": lambda f, x: f.adaptive_max_pool2d(x, (4, 5), return_indices=True),
    "adaptive max, equal": lambda f, x: f.adaptive_max_pool2d(x, (5, 6)),
    "and back": lambda f, x: f.max_unpool2d(*f.max_pool2d(x, 2, return_indices=True), 2),
}


def with_ties(x):
    return np.round(x / 4)


def with_nan(x):
    return np.where(np.random.default_rng(7).random(x.shape) < 0.05, np.nan, x)


@pytest.mark.parametrize("change", [np.asarray, with_ties, with_nan])
@pytest.mark.parametrize("name", POOLING)
def test_pooling_of_volumes(name, change):
    compare(POOLING[name], change(numbers((2, 5, 9, 8, 10), F64)), eager=True)


@pytest.mark.parametrize("change", [np.asarray, with_ties, with_nan])
@pytest.mark.parametrize("name", IMAGES)
def test_positions_of_maxima_of_images(name, change):
    compare(IMAGES[name], change(numbers((2, 5, 10, 12), F64)), eager=True)


def test_volumes_without_a_batch():
    compare(POOLING["max, places"], numbers((5, 9, 8, 10), F64), eager=True)


# --------------------------------------------------------------------------------------------- resampling

RESAMPLING = {
    "twice": ((2, 3, 11, 40), {"scale_factor": 2, "mode": "bilinear"}),
    "corners": ((2, 3, 11, 40), {"size": (5, 70), "mode": "bicubic", "align_corners": True}),
    "smaller": ((2, 3, 11, 40), {"size": (5, 9), "mode": "bilinear", "antialias": True}),
    "nearest": ((2, 3, 11, 40), {"scale_factor": 3}),
    "line": ((2, 3, 37), {"size": 60, "mode": "linear"}),
    "volume": ((2, 3, 5, 6, 7), {"scale_factor": 2, "mode": "trilinear"}),
}


@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("name", RESAMPLING)
def test_interpolation(name, threads):
    shape, options = RESAMPLING[name]
    compare(lambda f, x: f.interpolate(x, **options), numbers(shape, F64), threads=threads, eager=True)


@pytest.mark.parametrize("sizes", [(4, 5), (7, 40), (1, 3)])
def test_adaptive_means(sizes):
    compare(lambda f, x: f.adaptive_avg_pool2d(x, sizes), numbers((2, 3, 11, 40), F64), eager=True)


def test_what_is_beside_the_taps_is_not_read():
    x = weft.tensor([[[1.0, np.nan, 3.0, 4.0, 5.0, 6.0]]])
    run = lambda x: weft.nn.functional.interpolate(x, size=3, mode="linear", align_corners=True)
    np.testing.assert_array_equal(weft.compile(run)(x).numpy(), run(x).numpy())
