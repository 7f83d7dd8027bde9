"""What the sample tables cannot say of shapes: what is a view, properties, padding, windows on memory, errors."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

import weft

RNG = np.random.default_rng(0)


# ---------------------------------------------------------------------------------------- what is a view


@pytest.mark.parametrize(
    "function",
    [
        lambda L, x: x.reshape(6, 4),
        lambda L, x: x.mT.reshape(6, 4),
        lambda L, x: x.flatten(),
        lambda L, x: x.mT.flatten(),
        lambda L, x: x.ravel(),
        lambda L, x: x.unflatten(2, (2, 2)),
        lambda L, x: x.contiguous(),
        lambda L, x: x.T,
        lambda L, x: x.mT,
        lambda L, x: x.movedim(0, 2),
        lambda L, x: x.diagonal(0, 1, 2),
        lambda L, x: L.diag(x[0]),
        lambda L, x: x.unfold(2, 2, 1),
        lambda L, x: x.expand(5, 2, 3, 4),
        lambda L, x: x.squeeze(),
        lambda L, x: x.flip(0),
        lambda L, x: x.roll(1, 0),
        lambda L, x: x.tril(),
        lambda L, x: x.repeat(1, 1, 1),
        lambda L, x: x.tile(1, 1, 1),
        lambda L, x: x.narrow_copy(0, 0, 1),
        lambda L, x: x.narrow(0, 0, 1),
        lambda L, x: x.split(1)[0],
        lambda L, x: x.tensor_split(2)[1],
        lambda L, x: x.hsplit(3)[0],
        lambda L, x: x.unbind(1)[0],
        lambda L, x: L.meshgrid(x[0, 0], x[0, 1], indexing="ij")[0],
        lambda L, x: L.broadcast_tensors(x, x[0])[1],
        lambda L, x: L.atleast_3d(x[0]),
        lambda L, x: L.view_as_complex(x[..., :2]),
        lambda L, x: L.view_as_complex(x[..., :2]).real,
        lambda L, x: L.view_as_complex(x[..., :2]).imag,
        lambda L, x: x.as_strided((2, 2), (1, 2), 3),
        lambda L, x: x.index_select(0, L.tensor([0])),
        lambda L, x: L.constant_pad_nd(x, (0, 0)),
        lambda L, x: x.view(L.int32),
    ],
)
def test_views_and_copies(function):
    """Memory is shared, sizes and strides are equal, exactly where PyTorch has it so."""
    data = RNG.standard_normal((2, 3, 4)).astype(np.float32)
    t, w = torch.tensor(data), weft.tensor(data)
    expected, found = function(torch, t), function(weft, w)
    assert tuple(found.shape) == tuple(expected.shape)
    shares = expected.untyped_storage().data_ptr() == t.untyped_storage().data_ptr()
    assert np.shares_memory(found.array, w.array) == shares
    if shares:
        strides = [(a, b) for a, b, n in zip(found.stride(), expected.stride(), found.shape, strict=True) if n > 1]
        assert all(a == b for a, b in strides)
        assert found.storage_offset() == expected.storage_offset()


def test_results_lie_in_order():
    """Copies are contiguous where PyTorch's are, so that .view works on them."""
    x, i = weft.tensor(RNG.standard_normal((3, 4, 5))), weft.tensor([0, 2])
    for result in (x[:, i], x[i, :, i], x.index_select(2, i), x.gather(1, i.expand(3, 1, 2)), x.flip(1), x.roll(1, 1)):
        assert result.is_contiguous()
    for result in (x.index_add(1, i, x[:, :2]), x.index_copy(2, i, x[..., :2]), x.index_put((i,), x[0])):
        assert result.is_contiguous()


# -------------------------------------------------------------------------------------------- padding


@settings(max_examples=80, deadline=None)
@given(st.data())
def test_padding_as_pytorch(data):
    """Every mode and rank, with negative widths: value and gradient."""
    mode = data.draw(st.sampled_from(["constant", "reflect", "replicate", "circular"]))
    count = data.draw(st.integers(1, 3))
    sizes = data.draw(st.lists(st.integers(1, 4), min_size=count, max_size=count))
    shape = (*data.draw(st.sampled_from([(2,), (1, 2)])), *sizes)
    widths = data.draw(st.lists(st.integers(-1, 3), min_size=2 * count, max_size=2 * count))
    kept = [n + min(a, 0) + min(b, 0) for n, a, b in zip(sizes[::-1], widths[::2], widths[1::2], strict=True)]
    if mode == "circular" and any(max(a, b) > n for n, a, b in zip(kept, widths[::2], widths[1::2], strict=True)):
        return  # PyTorch then returns memory that nothing was written to
    array = RNG.standard_normal(shape)
    t, w = torch.tensor(array, requires_grad=True), weft.tensor(array, requires_grad=True)
    try:
        expected = torch.nn.functional.pad(t, widths, mode=mode)
    except (RuntimeError, NotImplementedError) as error:
        if "negative output size" in str(error) or "single memory location" in str(error):
            return
        with pytest.raises((RuntimeError, NotImplementedError)):
            weft.nn.functional.pad(w, widths, mode=mode)
        return
    if 0 in expected.shape:
        return
    found = weft.nn.functional.pad(w, widths, mode=mode)
    np.testing.assert_array_equal(found.detach().numpy(), expected.detach().numpy())
    g = RNG.standard_normal(tuple(expected.shape))
    expected.backward(torch.tensor(g))
    found.backward(weft.tensor(g))
    np.testing.assert_allclose(w.grad.numpy(), t.grad.numpy(), rtol=1e-12, atol=1e-12)


# -------------------------------------------------------------------------------------- windows on memory


@settings(max_examples=60, deadline=None)
@given(
    st.lists(st.tuples(st.integers(0, 3), st.integers(0, 4)), min_size=0, max_size=3),
    st.integers(0, 5),
    st.sampled_from(["whole", "transposed", "part"]),
)
def test_as_strided_as_pytorch(dims, offset, start):
    """Any window, also an overlapping one, on a tensor or on a view of it."""
    size, stride = [n for n, _ in dims], [s for _, s in dims]
    results = []
    for library in (torch, weft):
        x = library.tensor(np.arange(24.0).reshape(4, 6), requires_grad=True)
        y = x * 2
        y = {"whole": y, "transposed": y.T, "part": y[1:]}[start]
        try:
            window = y.as_strided(size, stride, offset)
        except RuntimeError as error:
            results.append(type(error))
            continue
        if window.numel():
            (window * library.tensor(np.arange(1.0, 1 + window.numel()).reshape(size))).sum().backward()
        results.append((window, x.grad))
    if isinstance(results[0], type):
        assert issubclass(results[1], RuntimeError)
        return
    (expected, expected_grad), (found, found_grad) = results
    np.testing.assert_array_equal(found.detach().numpy(), expected.detach().numpy())
    if expected_grad is not None and start == "whole":  # PyTorch drops what lies outside of a view
        np.testing.assert_array_equal(found_grad.numpy(), expected_grad.numpy())


def test_as_strided_scatter_has_the_true_gradient():
    """PyTorch 2.13 gives the replaced elements the gradient that belongs to the others; finite differences decide."""
    x, src = weft.tensor(RNG.standard_normal((3, 3))), weft.tensor(RNG.standard_normal((2, 2)))
    write = lambda x, src: x.as_strided_scatter(src, (2, 2), (1, 2), 1)
    t = torch.tensor(x.numpy()).as_strided_scatter(torch.tensor(src.numpy()), (2, 2), (1, 2), 1)
    np.testing.assert_array_equal(write(x, src).numpy(), t.numpy())
    assert weft.autograd.gradcheck(write, (x.requires_grad_(), src.requires_grad_()))


def test_resize_and_set():
    """Other sizes over the same memory; growth keeps what was there."""
    for library in (torch, weft):
        x = library.arange(6.0)
        assert x.resize_(2, 2).tolist() == [[0.0, 1.0], [2.0, 3.0]]
        assert x.resize_(3, 2).tolist()[0] == [0.0, 1.0]
        assert tuple(x.resize_as_(library.zeros(5, 2)).shape) == (5, 2) and x.view(-1)[:4].tolist() == [
            0.0,
            1.0,
            2.0,
            3.0,
        ]
        y = library.zeros(3)
        z = library.arange(4.0)
        y.set_(z)
        z[0] = 7.0
        assert y.tolist() == [7.0, 1.0, 2.0, 3.0]


@pytest.mark.parametrize("offset", [-(2**31), -(2**63), -3, -2, 0, 3, 4, 2**31, 2**63 - 1])
def test_diagonals_outside_are_empty(offset):
    """NumPy reads past the end of the memory at −2³¹."""
    w, t = weft.arange(12.0).reshape(3, 4), torch.arange(12.0).reshape(3, 4)
    np.testing.assert_array_equal(weft.diagonal_copy(w, offset).numpy(), torch.diagonal_copy(t, offset).numpy())


def test_fill_diagonal():
    for shape, wrap in (((3, 4), False), ((7, 3), False), ((7, 3), True), ((3, 3, 3), False)):
        t, w = torch.zeros(shape), weft.zeros(shape)
        np.testing.assert_array_equal(w.fill_diagonal_(5.0, wrap).numpy(), t.fill_diagonal_(5.0, wrap).numpy())


def test_keyword_forms():
    """The names PyTorch gives to sizes and orders."""
    x = weft.arange(6.0).reshape(shape=(2, 3))
    assert weft.permute(x, dims=(1, 0)).shape == (3, 2)
    assert weft.flip(x, dims=[0]).tolist() == x[[1, 0]].tolist()
    assert weft.tile(x, dims=(2,)).shape == (2, 6)
    assert x.repeat(repeats=(2, 1)).shape == (4, 3)
    assert x.expand(size=(4, 2, 3)).shape == (4, 2, 3)
    assert weft.split(x, split_size_or_sections=1)[0].shape == (1, 3)
    assert [p.shape for p in weft.tensor_split(x, sections=3, dim=1)] == [(2, 1)] * 3


# ------------------------------------------------------------------------------------------------ laws


@settings(max_examples=50, deadline=None)
@given(st.permutations(range(4)))
def test_permutations_compose(order):
    x = weft.tensor(RNG.standard_normal((2, 3, 4, 5)))
    back = [order.index(d) for d in range(4)]
    assert weft.equal(x.permute(order).permute(back), x)
    assert weft.equal(x.permute(order), x.movedim(order, (0, 1, 2, 3)))


def test_adjoint_identities():
    """⟨flip x, y⟩ = ⟨x, flip y⟩, ⟨roll x, y⟩ = ⟨x, roll⁻¹ y⟩, rot90⁴ = 1, combinations and products are counted."""
    x, y = weft.tensor(RNG.standard_normal((3, 4))), weft.tensor(RNG.standard_normal((3, 4)))
    inner = lambda a, b: float((a * b).sum())
    assert math.isclose(inner(x.flip(0, 1), y), inner(x, y.flip(0, 1)))
    assert math.isclose(inner(x.roll((1, 2), (0, 1)), y), inner(x, y.roll((-1, -2), (0, 1))))
    assert weft.equal(x.rot90().rot90().rot90().rot90(), x)
    assert weft.combinations(weft.arange(6), 3).shape == (math.comb(6, 3), 3)
    assert weft.combinations(weft.arange(6), 3, with_replacement=True).shape == (math.comb(8, 3), 3)
    assert weft.cartesian_prod(weft.arange(3), weft.arange(4)).shape == (12, 2)


def test_vandermonde_evaluates_polynomials():
    x, c = RNG.standard_normal(5), RNG.standard_normal(4)
    np.testing.assert_allclose((weft.vander(weft.tensor(x), 4) @ weft.tensor(c)).numpy(), np.polyval(c, x), rtol=1e-12)


# ----------------------------------------------------------------------------------------------- errors

ERRORS = [
    (lambda L, x: x.view(5, 3), "shape '[5, 3]' is invalid for input of size 12"),
    (lambda L, x: x.T.view(12), "not compatible"),
    (lambda L, x: x.reshape(-1, -1), "only one dimension can be inferred"),
    (lambda L, x: x.permute(0), "number of dimensions"),
    (lambda L, x: x.permute(0, 0), "appears multiple times"),
    (lambda L, x: x.transpose(0, 2), "Dimension out of range"),
    (lambda L, x: x.unsqueeze(4), "Dimension out of range"),
    (lambda L, x: x.expand(3, 5), "must match the existing size (4)"),
    (lambda L, x: x.expand(3), "must be greater or equal"),
    (lambda L, x: x.select(1, 4), "out of range"),
    (lambda L, x: x.narrow(0, 2, 2), "exceeds dimension size (3)"),
    (lambda L, x: x.narrow(0, 0, -1), "length must be non-negative"),
    (lambda L, x: x.diagonal(0, 1, 1), "cannot be identical"),
    (lambda L, x: L.diag(L.zeros(2, 2, 2)), "1D or 2D"),
    (lambda L, x: x.flatten(1, 0), "cannot come after"),
    (lambda L, x: x.unflatten(1, (3, 2)), "[3, 2]"),
    (lambda L, x: x.unfold(0, 4, 1), "maximum size for tensor at dimension 0 is 3 but size is 4"),
    (lambda L, x: x.unfold(0, 1, 0), "step is 0 but must be > 0"),
    (lambda L, x: x.split([1, 1]), "sum exactly to 3"),
    (lambda L, x: x.split(-1), "non-negative"),
    (lambda L, x: x.split(0), "split_size"),
    (lambda L, x: x.chunk(0), "greater than 0"),
    (lambda L, x: x.hsplit(3), "not divisible"),
    (lambda L, x: x.dsplit(1), "at least 3 dimension"),
    (lambda L, x: x.tensor_split(0), "larger than 0"),
    (lambda L, x: x.movedim((0, 1), (0,)), "same number of elements"),
    (lambda L, x: x.repeat(2), "can not be smaller"),
    (lambda L, x: x.repeat_interleave(-1), "negative"),
    (lambda L, x: x.repeat_interleave(L.tensor([1, 2]), 0), "repeats"),
    (lambda L, x: x.rot90(1, (0, 0)), "different"),
    (lambda L, x: x.roll((1, 2), 0), "must align"),
    (lambda L, x: L.cat([x, x.T]), "match except in dimension 0"),
    (lambda L, x: L.cat([]), "non-empty"),
    (lambda L, x: L.stack([x, x[0]]), "equal size"),
    (lambda L, x: L.cat([x[0, 0], x[0, 0]]), "zero-dimensional"),
    (lambda L, x: L.broadcast_shapes((2,), (3,)), "must match the size"),
    (lambda L, x: L.meshgrid(x, indexing="ij"), "0D or 1D"),
    (lambda L, x: L.view_as_complex(x), "size 2"),
    (lambda L, x: L.view_as_real(x), "complex"),
    (lambda L, x: x.imag, "complex"),
    (lambda L, x: x[0].mT, "matrices"),
    (lambda L, x: x[0].tril(), "at least 2 dimensions"),
    (lambda L, x: x.select_scatter(L.zeros(3), 0, 0), "src size = [3], slice size = [4]"),
    (lambda L, x: x.as_strided((5, 5), (4, 1)), "bounds"),
]


@pytest.mark.parametrize(("call", "says"), ERRORS, ids=[says for _, says in ERRORS])
def test_errors(call, says):
    """Where PyTorch raises we raise, an error of a class that catches the same, which says what is wrong."""
    with pytest.raises((RuntimeError, IndexError, ValueError, TypeError)) as theirs:
        call(torch, torch.zeros(3, 4))
    with pytest.raises((RuntimeError, IndexError, ValueError, TypeError)) as ours:
        call(weft, weft.zeros(3, 4))
    assert says in str(ours.value)
    assert isinstance(ours.value, theirs.type)
