"""Random shapes, types and index expressions: Weft says what PyTorch and NumPy say."""

from __future__ import annotations

import numpy as np
import torch
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

import weft

torch.set_num_threads(1)
TYPES = ["bool", "uint8", "int16", "int64", "float16", "float32", "float64", "complex64"]
quick = settings(max_examples=150, deadline=None)


def both(array):
    return weft.tensor(array), torch.from_numpy(np.array(array))


def torch_name(tensor):
    """PyTorch's type by name; Weft has no half-precision complex type and takes the next one."""
    return str(tensor.dtype).split(".")[1].replace("complex32", "complex64")


def assert_same(ours, theirs):
    assert tuple(ours.shape) == tuple(theirs.shape)
    assert ours.dtype.name == torch_name(theirs)
    expected = theirs.detach()
    expected = expected.to(torch.complex64) if expected.dtype is torch.complex32 else expected
    loose = 1e-3 if "16" in str(theirs.dtype) or theirs.dtype is torch.complex32 else 1e-6
    np.testing.assert_allclose(ours.detach().numpy(), expected.numpy(), rtol=loose, atol=1e-6)


@st.composite
def broadcast_pair(draw):
    shapes = draw(hnp.mutually_broadcastable_shapes(num_shapes=2, max_dims=4, max_side=4, min_side=0))
    kinds = [draw(st.sampled_from(TYPES)) for _ in range(2)]
    seed = draw(st.integers(0, 2**16))
    rng = np.random.default_rng(seed)
    return [
        np.asarray(rng.integers(1, 5, shape)).astype(kind)
        for shape, kind in zip(shapes.input_shapes, kinds, strict=True)
    ]


@quick
@given(broadcast_pair(), st.sampled_from(["add", "mul", "eq", "where", "true_divide"]))
def test_broadcasting_and_promotion(arrays, name):
    (a, ta), (b, tb) = both(arrays[0]), both(arrays[1])
    if name == "where":
        assert_same(weft.where(a == 1, a, b), torch.where(ta == 1, ta, tb))
    else:
        try:
            expected = getattr(torch, name)(ta, tb)
        except NotImplementedError:  # PyTorch has no complex numbers of half precision here
            assume(False)
        assert_same(getattr(weft, name)(a, b), expected)


@quick
@given(broadcast_pair())
def test_gradient_of_broadcasting(arrays):
    """d Σ (a·b + a) with sizes of 1, missing axes and empty axes."""
    a, b = (weft.tensor(x.real.astype("float64"), requires_grad=True) for x in arrays)
    ta, tb = (torch.from_numpy(x.real.astype("float64")).requires_grad_() for x in arrays)
    (a * b + a).sum().backward()
    (ta * tb + ta).sum().backward()
    assert_same(a.grad, ta.grad)
    assert_same(b.grad, tb.grad)


@quick
@given(
    st.sampled_from(TYPES),
    st.sampled_from(TYPES),
    st.booleans(),
    st.booleans(),
    st.sampled_from([None, True, 2, 1.5, 2j]),
)
def test_result_type(first, second, first_has_dims, second_has_dims, number):
    """Tensors with dimensions outrank 0-d tensors, which outrank numbers."""
    a = np.ones((2,) if first_has_dims else (), first)
    b = np.ones((2,) if second_has_dims else (), second)
    ours = weft.tensor(a) * weft.tensor(b)
    theirs = torch.from_numpy(np.asarray(a)) * torch.from_numpy(np.asarray(b))
    if number is not None:
        ours, theirs = ours * number, theirs * number
    assert ours.dtype.name == torch_name(theirs)


@st.composite
def index_expression(draw):
    """A shape and an index that PyTorch and NumPy read alike: basic parts and at most one kind of advanced ones."""
    shape = tuple(draw(st.lists(st.integers(1, 5), min_size=1, max_size=4)))
    key, advanced = [], draw(st.sampled_from(["none", "ints", "mask"]))
    width = draw(st.integers(1, 3))
    used_ellipsis = False
    position = 0
    while position < len(shape):
        size = shape[position]
        choice = draw(st.sampled_from(["int", "slice", "new", "advanced", "ellipsis", "stop"]))
        if choice == "new":
            key.append(None)
            continue
        if choice == "ellipsis" and not used_ellipsis:
            used_ellipsis = True
            key.append(Ellipsis)
            position += draw(st.integers(0, len(shape) - position))
            remaining = len(shape) - position
            key += [slice(None)] * remaining
            break
        if choice == "stop":
            break
        if choice == "advanced" and advanced == "ints":
            key.append(np.array(draw(st.lists(st.integers(-size, size - 1), min_size=width, max_size=width))))
        elif choice == "advanced" and advanced == "mask":
            key.append(np.array(draw(st.lists(st.booleans(), min_size=size, max_size=size)), bool))
            advanced = "none"
        elif choice == "int":
            key.append(draw(st.integers(-size, size - 1)))
        else:
            key.append(
                slice(
                    draw(st.integers(-6, 6) | st.none()), draw(st.integers(-6, 6) | st.none()), draw(st.integers(1, 3))
                )
            )
        position += 1
    return shape, tuple(key)


def for_torch(key):
    return tuple(torch.from_numpy(k) if isinstance(k, np.ndarray) else k for k in key)


def for_weft(key):
    return tuple(weft.tensor(k) if isinstance(k, np.ndarray) else k for k in key)


@quick
@given(index_expression())
def test_indexing(case):
    """x[key], its gradient, and x[key] = v with the gradients of both."""
    shape, key = case
    values = np.arange(np.prod(shape), dtype="float64").reshape(shape)
    x, tx = weft.tensor(values, requires_grad=True), torch.from_numpy(values.copy()).requires_grad_()
    y, ty = x[for_weft(key)], tx[for_torch(key)]
    assert_same(y, ty)
    (y * y).sum().backward()
    (ty * ty).sum().backward()
    assert_same(x.grad, tx.grad)
    value = np.linspace(1, 2, max(y.numel(), 1))[: y.numel()].reshape(tuple(y.shape))
    v, tv = weft.tensor(value, requires_grad=True), torch.from_numpy(value.copy()).requires_grad_()
    has_duplicates = any(isinstance(k, np.ndarray) and k.dtype != bool for k in key)
    if has_duplicates:
        return
    z, tz = x * 1, tx * 1
    z[for_weft(key)] = v
    tz[for_torch(key)] = tv
    assert_same(z, tz)
    ours = weft.autograd.grad((z * z).sum(), [x, v])
    theirs = torch.autograd.grad((tz * tz).sum(), [tx, tv])
    for a, b in zip(ours, theirs, strict=True):
        assert_same(a, b)


@quick
@given(hnp.arrays(np.float64, hnp.array_shapes(max_dims=3, max_side=6), elements=st.floats(-5, 5)), st.data())
def test_negative_steps_are_views_as_in_numpy(array, data):
    """x[::-k]: PyTorch refuses it, NumPy makes a view; so does Weft."""
    step = data.draw(st.integers(-3, -1))
    ours, theirs = weft.tensor(array), array.copy()
    view, expected = ours[::step], theirs[::step]
    np.testing.assert_array_equal(view.numpy(), expected)
    view.mul_(2)
    expected *= 2
    np.testing.assert_array_equal(ours.numpy(), theirs)
