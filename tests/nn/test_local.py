"""Locally connected layers, non-local blocks, positions in images and beside the input, classification by kernels."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from sklearn.datasets import load_iris
from sklearn.neighbors import KNeighborsClassifier, RadiusNeighborsClassifier

import weft
from weft import nn
from weft.errors import OptionError, ShapeError

f64 = dict(dtype=weft.float64)


@pytest.fixture(autouse=True)
def _same_numbers_for_every_test() -> None:
    weft.manual_seed(0)


# ------------------------------------------------------------------------------- locally connected


@pytest.mark.parametrize(
    ("size", "kernel", "stride", "padding"), [((5, 6), 3, 1, 0), ((5, 6), (2, 3), (2, 1), (1, 0)), (4, 4, 1, 0)]
)
@pytest.mark.parametrize("bias", [True, False])
def test_every_place_has_its_own_kernel(size, kernel, stride, padding, bias) -> None:
    """PyTorch's convolution with the kernel of one place, read at that place."""
    layer = nn.LocallyConnected2d(2, 3, size, kernel, stride, padding, bias, **f64)
    x = weft.randn(2, 2, *layer.input_size, **f64)
    found = layer(x).detach().numpy()
    expected = np.zeros_like(found)
    for place, (i, j) in enumerate(np.ndindex(*layer.output_size)):
        weight = torch.tensor(layer.weight[place].detach().numpy()).reshape(3, 2, *layer.kernel_size)
        whole = torch.nn.functional.conv2d(torch.tensor(x.numpy()), weight, None, layer.stride, layer.padding)
        expected[:, :, i, j] = whole[:, :, i, j].numpy() + (layer.bias[:, i, j].detach().numpy() if bias else 0)
    np.testing.assert_allclose(found, expected, rtol=1e-12)
    assert weft.autograd.gradcheck(layer, x.requires_grad_())


def test_equal_kernels_are_a_convolution() -> None:
    conv = nn.Conv2d(3, 4, 3, 2, 1, **f64)
    layer = nn.LocallyConnected2d.from_conv(conv, (7, 6))
    x = weft.randn(2, 3, 7, 6, **f64)
    np.testing.assert_allclose(layer(x).detach().numpy(), conv(x).detach().numpy(), rtol=1e-12)
    places = 4 * 3
    assert sum(p.numel() for p in layer.parameters()) == places * sum(p.numel() for p in conv.parameters())
    with pytest.raises(OptionError):
        nn.LocallyConnected2d.from_conv(nn.Conv2d(4, 4, 3, groups=2), 7)


def test_sequences() -> None:
    layer = nn.LocallyConnected1d(2, 3, 7, 3, stride=2, padding=1, **f64)
    x = weft.randn(4, 2, 7, **f64)
    wide = np.pad(x.numpy(), ((0, 0), (0, 0), (1, 1)))
    weight, bias = layer.rows.weight.detach().numpy().reshape(4, 3, 2, 3), layer.rows.bias.detach().numpy()[:, 0]
    for t in range(4):
        expected = np.einsum("ncp,ocp->no", wide[:, :, 2 * t : 2 * t + 3], weight[t]) + bias[:, t]
        np.testing.assert_allclose(layer(x)[:, :, t].detach().numpy(), expected, rtol=1e-12)


def test_sizes_are_fixed_and_said() -> None:
    layer = nn.LocallyConnected2d(1, 1, 5, 3)
    with pytest.raises(ShapeError, match="sizes are fixed"):
        layer(weft.zeros(1, 1, 6, 5))
    with pytest.raises(ShapeError, match="no window"):
        nn.LocallyConnected2d(1, 1, 2, 3)
    assert layer(weft.zeros(0, 1, 5, 5)).shape == (0, 1, 3, 3)


# -------------------------------------------------------------------------------------- non-local


def _places(x: weft.Tensor) -> torch.Tensor:
    return torch.tensor(x.numpy()).flatten(2).mT


@pytest.mark.parametrize("shape", [(2, 4, 5), (2, 4, 3, 2), (1, 4, 2, 2, 2)])
def test_non_local_blocks_follow_their_formulas(shape) -> None:
    x = weft.randn(*shape, **f64)
    for pairwise in ("embedded", "gaussian", "dot"):
        block = nn.NonLocal(4, 3, pairwise, **f64)
        nn.init.normal_(block.out.weight)
        q, k, g, z = (
            (lambda a, m=m: a if isinstance(m, nn.Identity) else a @ _t(m.weight).T + _t(m.bias))
            for m in (block.query, block.key, block.value, block.out)
        )
        places = _places(x)
        q, k, g = q(places), k(places), g(places)
        if pairwise == "dot":
            y = torch.einsum("npc,nqc,nqd->npd", q, k, g) / places.shape[1]
        else:
            y = torch.nn.functional.scaled_dot_product_attention(q, k, g, scale=1.0)
        expected = x.numpy() + z(y).mT.reshape(shape).numpy()
        np.testing.assert_allclose(block(x).detach().numpy(), expected, rtol=1e-10)


def _t(x: weft.Tensor) -> torch.Tensor:
    return torch.tensor(x.detach().numpy())


def test_a_new_non_local_block_is_the_identity() -> None:
    x = weft.randn(2, 6, 3, 3)
    block = nn.NonLocal(6)
    assert (block(x) == x).all() and block.value.weight.shape == (3, 6)
    with pytest.raises(OptionError, match="pairwise"):
        nn.NonLocal(4, pairwise="sum")


# -------------------------------------------------------------------------------------- positions


def test_two_dimensional_sinusoids() -> None:
    found = nn.sinusoidal_positions_2d(3, 4, 8).numpy()
    for i, j, k in np.ndindex(3, 4, 2):
        angle = 10000 ** (-2 * k / 4)
        expected = [np.sin(i * angle), np.cos(i * angle), np.sin(j * angle), np.cos(j * angle)]
        np.testing.assert_allclose(found[i, j, [2 * k, 2 * k + 1, 4 + 2 * k, 5 + 2 * k]], expected, atol=1e-6)
    x = weft.randn(2, 3, 4, 8)
    np.testing.assert_allclose((nn.SinusoidalPosition2d(8)(x) - x).numpy(), np.stack([found] * 2), atol=1e-6)


def test_learned_rows_and_columns() -> None:
    layer = nn.LearnedPosition2d(5, 6, 4, std=1.0)
    assert sum(p.numel() for p in layer.parameters()) == (5 + 6) * 2
    found = layer(weft.zeros(3, 4, 4)).detach().numpy()
    rows, columns = layer.rows.detach().numpy(), layer.columns.detach().numpy()
    for i, j in np.ndindex(3, 4):
        np.testing.assert_array_equal(found[i, j], [*rows[i], *columns[j]])
    with pytest.raises(ShapeError, match="larger"):
        layer(weft.zeros(6, 6, 4))
    for bad in (lambda: nn.LearnedPosition2d(2, 2, 3), lambda: nn.sinusoidal_positions_2d(2, 2, 3)):
        with pytest.raises(ShapeError, match="even"):
            bad()


@pytest.mark.parametrize("inner", ["sinusoidal", "learned", "2d"])
def test_positions_beside_the_input(inner: str) -> None:
    """[X ‖ E]: the input stays as it is, the positions are those that would be added to zeros."""
    layer = {"sinusoidal": nn.SinusoidalPosition(4), "learned": nn.LearnedPosition(7, 4)}.get(
        inner, nn.SinusoidalPosition2d(4)
    )
    shape = (2, 3, 5, 6)
    x, beside = weft.randn(*shape), nn.ConcatenatedPosition(layer, 4)
    found = beside(x)
    assert found.shape == (2, 3, 5, 10) and (found[..., :6] == x).all()
    assert (found[..., 6:] == layer(weft.zeros(2, 3, 5, 4))).all()


def test_positions_compared() -> None:
    """The patches of N1 example 12.2, 14 × 14: what a linear map can read off each scheme, as in N2 table 1.

    Two-dimensional sinusoids tell row and column; one long sinusoid over the flat sequence tells the place in it, which is
    the row, but not the column; untrained learned vectors tell nothing, about the 14/4 = 3.5 of always guessing the middle.
    """
    size, features = 14, 64
    plane = nn.grid_reconstruction_error(nn.sinusoidal_positions_2d(size, size, features))
    line = nn.grid_reconstruction_error(nn.sinusoidal_positions(size * size, features).reshape(size, size, features))
    learned = nn.LearnedPosition(size * size, features)(weft.zeros(size * size, features)).reshape(size, size, features)
    random = nn.grid_reconstruction_error(learned.detach())
    assert max(plane) < 1e-3
    assert line[0] < 0.3 and line[1] > 3 * max(plane[1], 0.3)
    assert min(random) > 3


def test_attention_with_positions_beside_it_is_no_longer_equivariant() -> None:
    """MHA([PX ‖ E]) ≠ P MHA([X ‖ E]) (N3)."""
    attention = nn.MultiheadAttention(8, 2, batch_first=True)
    x, order = weft.randn(1, 5, 4), weft.tensor([2, 0, 1, 4, 3])
    position = nn.ConcatenatedPosition(nn.SinusoidalPosition(4), 4)
    with_positions = lambda x: attention(*(position(x),) * 3)[0]
    without = lambda x: attention(*(weft.cat([x, x], -1),) * 3)[0]
    assert weft.allclose(without(x[:, order]), without(x)[:, order], atol=1e-6)
    assert not weft.allclose(with_positions(x[:, order]), with_positions(x)[:, order], atol=1e-3)


# ------------------------------------------------------------------------------- classification


@pytest.mark.parametrize("width", [0.4321, 1.0321])  # no two irises are that far apart
def test_kernel_classification_equals_scikit_learn(width: float) -> None:
    """All neighbours, weighted by the kernel; for the boxcar all within reach, weighted equally."""
    x, y = load_iris(return_X_y=True)
    seen, held = np.arange(150) % 3 != 0, np.arange(150) % 3 == 0
    known, labels, new = x[seen], y[seen], x[held]
    kernels = {
        "gaussian": KNeighborsClassifier(seen.sum(), weights=lambda d: np.exp(-(d**2) / (2 * width**2))),
        "epanechnikov": KNeighborsClassifier(seen.sum(), weights=lambda d: np.maximum(1e-300, 1 - d / width)),
        "boxcar": RadiusNeighborsClassifier(width, outlier_label=0),
    }
    for kernel, oracle in kernels.items():
        found = nn.nadaraya_watson_classify(*map(weft.tensor, (new, known, labels)), 3, kernel, width).numpy()
        expected = oracle.fit(known, labels).predict_proba(new)
        inside = ~np.isnan(found).any(1)
        assert inside.mean() > 0.8
        np.testing.assert_allclose(found[inside], expected[inside], rtol=1e-7, atol=1e-9)
        assert (found[inside].argmax(1) == y[held][inside]).mean() > 0.9
