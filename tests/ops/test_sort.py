"""Order and counting where tables cannot say it: ties, NaN, laws that any sort must keep, histograms."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

import weft

NAN = math.nan
FLOATS = st.floats(-3, 3, width=32) | st.sampled_from([0.0, -0.0, 1.0, math.inf, -math.inf, NAN])
LINES = arrays(np.float32, st.tuples(st.integers(1, 3), st.integers(1, 12)), elements=FLOATS)


@settings(max_examples=60, deadline=None)
@given(LINES, st.booleans())
def test_sort_is_stable_and_puts_nan_last(x, descending):
    values, indices = weft.tensor(x).sort(dim=1, descending=descending, stable=True)
    expected = torch.sort(torch.tensor(x), stable=True, dim=1, descending=descending)
    np.testing.assert_array_equal(values.numpy(), expected.values.numpy())
    np.testing.assert_array_equal(indices.numpy(), expected.indices.numpy())


@settings(max_examples=60, deadline=None)
@given(LINES, st.data())
def test_topk_and_kthvalue_agree_with_sort(x, data):
    k = data.draw(st.integers(1, x.shape[1]))
    ascending = np.sort(x, 1)  # NaN last, as the largest
    t = weft.tensor(x)
    np.testing.assert_array_equal(t.topk(k).values.numpy(), ascending[:, ::-1][:, :k])
    np.testing.assert_array_equal(t.topk(k, largest=False).values.numpy(), ascending[:, :k])
    np.testing.assert_array_equal(t.kthvalue(k).values.numpy(), ascending[:, k - 1])
    found = np.take_along_axis(x, t.topk(k).indices.numpy(), 1)
    np.testing.assert_array_equal(found, t.topk(k).values.numpy())


@settings(max_examples=60, deadline=None)
@given(LINES)
def test_unique_is_a_partition(x):
    values, inverse, counts = weft.tensor(x).unique(return_inverse=True, return_counts=True)
    expected = torch.unique(torch.tensor(x), return_counts=True)
    np.testing.assert_array_equal(values.numpy(), expected[0].numpy())
    np.testing.assert_array_equal(counts.numpy(), expected[1].numpy())
    np.testing.assert_array_equal(values.numpy()[inverse.numpy()], x)


@settings(max_examples=40, deadline=None)
@given(LINES)
def test_medians_and_mode_against_torch(x):
    for name in ("median", "nanmedian"):
        ours, theirs = getattr(weft.tensor(x), name), getattr(torch.tensor(x), name)
        np.testing.assert_array_equal(ours(1).values.numpy(), theirs(1).values.numpy())
        np.testing.assert_array_equal(ours().numpy(), theirs().numpy())
    values, indices = weft.tensor(x).mode(1)
    np.testing.assert_array_equal(np.take_along_axis(x, indices.numpy()[:, None], 1)[:, 0], values.numpy())


def test_topk_of_a_long_line():
    x = np.random.default_rng(0).permutation(10_000).astype(np.float32)
    values, indices = weft.tensor(x).topk(5)
    assert values.tolist() == [9999, 9998, 9997, 9996, 9995] and x[indices.numpy()].tolist() == values.tolist()
    assert weft.tensor(x).topk(3, largest=False).values.tolist() == [0, 1, 2]


def test_gradient_follows_the_chosen_places():
    x = weft.tensor([[3.0, 1.0, 2.0], [0.0, 5.0, 4.0]], requires_grad=True)
    (x.sort(1).values * weft.tensor([1.0, 10.0, 100.0])).sum().backward()
    assert x.grad.tolist() == [[100, 1, 10], [1, 100, 10]]
    x.grad = None
    x.topk(2).values.sum().backward()
    assert x.grad.tolist() == [[1, 0, 1], [0, 1, 1]]
    x.grad = None
    x.median(1).values.sum().backward()
    assert x.grad.tolist() == [[0, 0, 1], [0, 0, 1]]


def test_mode_takes_the_smallest_of_the_most_frequent_at_its_last_place():
    values, indices = weft.tensor([3, 1, 1, 3, 2]).mode()
    assert (values.item(), indices.item()) == (1, 2)


@pytest.mark.parametrize("right", [False, True])
def test_searchsorted_in_rows_and_with_a_sorter(right):
    rng = np.random.default_rng(1)
    line, values = rng.integers(0, 9, (4, 6)).astype(np.float32), rng.integers(-1, 10, (4, 5)).astype(np.float32)
    order = np.argsort(line, 1)
    found = weft.searchsorted(weft.tensor(line), weft.tensor(values), right=right, sorter=weft.tensor(order))
    expected = [
        np.searchsorted(a, v, "right" if right else "left", s) for a, v, s in zip(line, values, order, strict=True)
    ]
    np.testing.assert_array_equal(found.numpy(), expected)


def test_histograms_against_numpy():
    rng = np.random.default_rng(2)
    x, w = rng.standard_normal(200), rng.random(200)
    for options in ({}, {"range": (-1.0, 1.5)}, {"density": True}):
        expected = np.histogram(x, 7, weights=w, **options)
        found = weft.histogram(weft.tensor(x), 7, weight=weft.tensor(w), **options)
        np.testing.assert_allclose(found.hist.numpy(), expected[0])
        np.testing.assert_allclose(found.bin_edges.numpy(), expected[1])
    points = rng.standard_normal((100, 2))
    expected = np.histogramdd(points, (3, 4), density=True)
    found = weft.histogramdd(weft.tensor(points), (3, 4), density=True)
    np.testing.assert_allclose(found.hist.numpy(), expected[0])


def test_covariance_against_numpy():
    rng = np.random.default_rng(3)
    x, often, sure = rng.standard_normal((3, 8)), rng.integers(1, 4, 8), rng.random(8)
    found = weft.cov(weft.tensor(x), fweights=weft.tensor(often), aweights=weft.tensor(sure))
    np.testing.assert_allclose(found.numpy(), np.cov(x, fweights=often, aweights=sure))
    np.testing.assert_allclose(weft.corrcoef(weft.tensor(x)).numpy(), np.corrcoef(x))


@pytest.mark.parametrize("interpolation", ["linear", "lower", "higher", "midpoint", "nearest"])
def test_quantiles_against_numpy(interpolation):
    x = np.random.default_rng(4).standard_normal((5, 9))
    q = [0.0, 0.1, 0.5, 0.73, 1.0]
    found = weft.tensor(x).quantile(weft.tensor(q, dtype=weft.float64), 1, interpolation=interpolation)
    np.testing.assert_allclose(found.numpy(), np.quantile(x, q, axis=1, method=interpolation))
    x[0, 2] = x[3, :] = NAN
    holes = weft.tensor(x)
    assert math.isnan(holes.quantile(0.5, 1)[0].item()) and math.isnan(holes.nanquantile(0.5, 1)[3].item())
    np.testing.assert_allclose(holes.nanquantile(0.3, 1).numpy()[:3], np.nanquantile(x[:3], 0.3, axis=1))


@pytest.mark.parametrize(
    ("call", "kind", "message"),
    [
        (lambda x: x.topk(4), RuntimeError, "topk: selected index k out of range: k=4"),
        (lambda x: x.kthvalue(0), RuntimeError, "kthvalue: selected number k out of range"),
        (lambda x: x.sort(2), IndexError, "sort: Dimension out of range"),
        (lambda x: (x + 0j).sort(), RuntimeError, "sort: .*complex"),
        (lambda x: weft.searchsorted(x, 1.0), RuntimeError, "searchsorted: input value can be a scalar only"),
        (lambda x: weft.searchsorted(x, x, side="middle"), ValueError, "searchsorted: side can only be"),
        (lambda x: weft.bucketize(x, x), RuntimeError, "bucketize: boundaries tensor must be 1 dimension"),
        (lambda x: weft.isin(1, 2), TypeError, "isin: at least one"),
        (lambda x: weft.zeros(2, 0).unique(dim=0), RuntimeError, "unique: there are 0 sized dimensions"),
        (lambda x: weft.zeros(0, 2).median(0), IndexError, "median: Expected reduction dim 0"),
        (lambda x: weft.histogramdd(x, [2]), RuntimeError, "histogramdd: the size of bins"),
    ],
)
def test_errors_say_what_to_do(call, kind, message):
    with pytest.raises(kind, match=message):
        call(weft.tensor([[1.0, 2.0, 3.0], [3.0, 4.0, 5.0]]))
