"""Square brackets and their functions: random keys against PyTorch and NumPy, gradients, errors, batches."""

from __future__ import annotations

import warnings

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

import weft

warnings.filterwarnings("ignore", message=".*(uint8|non-tuple sequence).*")

# ------------------------------------------------------------------------------------- random keys


@st.composite
def keys(draw, shape, negative_steps=False):
    """A key for a tensor of `shape`; index arrays stand as ('index', …) and masks as ('mask', …)."""
    items, d, places, ellipsis = [], 0, None, False
    while d < len(shape):
        size = shape[d]
        kinds = ["slice", "int", "index", "mask", "none", "ellipsis", "stop", "list"]
        kind = draw(st.sampled_from(kinds))
        if kind == "stop":
            break
        if kind == "none":
            items.append(None)
            if len(items) > 6:
                break
            continue
        if kind == "ellipsis":
            if ellipsis:
                continue
            ellipsis = True
            skip = draw(st.integers(0, len(shape) - d))
            rest = len(shape) - d - skip
            items.append(Ellipsis)
            items.extend(slice(None) for _ in range(rest))
            break
        if kind == "int":
            items.append(draw(st.integers(-size, size - 1)))
        elif kind == "slice":
            end = st.one_of(st.none(), st.integers(-size - 1, size + 1))
            step = st.sampled_from([None, 1, 2, 3] + ([-1, -2] if negative_steps else []))
            items.append(slice(draw(end), draw(end), draw(step)))
        elif kind in ("index", "list"):
            if places is None:
                places = draw(st.sampled_from([(3,), (2, 2), (1,), (2, 1)]))
            count = int(np.prod(places))
            numbers = draw(st.lists(st.integers(-size, size - 1), min_size=count, max_size=count))
            array = np.array(numbers, np.int64).reshape(places)
            items.append(array.tolist() if kind == "list" and array.ndim == 1 else ("index", array))
        elif kind == "mask":
            if places is not None:
                continue  # a mask broadcasts with index arrays only by luck
            mask = np.array(draw(st.lists(st.booleans(), min_size=size, max_size=size)), np.bool_)
            places = (int(mask.sum()),)
            items.append(("mask", mask))
            if places == (0,):
                places = None
                items[-1] = slice(None)
        d += 1
    return tuple(items)


def key_for(key, make):
    return tuple(make(k[1]) if isinstance(k, tuple) else k for k in key)


SHAPES = [(3,), (3, 4), (2, 3, 4), (2, 1, 3, 2)]
case = st.sampled_from(SHAPES).flatmap(lambda shape: st.tuples(st.just(shape), keys(shape)))


def base(shape):
    return np.arange(1.0, 1 + np.prod(shape)).reshape(shape)


def outcomes(function_torch, function_weft):
    """Both results, or both errors."""
    try:
        expected, refused = function_torch(), None
    except (IndexError, RuntimeError, ValueError, TypeError) as error:
        expected, refused = None, error
    if refused is not None:
        with pytest.raises((IndexError, RuntimeError, ValueError, TypeError)):
            function_weft()
        return None
    return expected, function_weft()


@settings(max_examples=150, deadline=None)
@given(case)
def test_reading_as_pytorch(example):
    """Value, gradient, and whether the result is a view."""
    shape, key = example
    t = torch.tensor(base(shape), requires_grad=True)
    w = weft.tensor(base(shape), requires_grad=True)
    both = outcomes(lambda: t[key_for(key, torch.tensor)], lambda: w[key_for(key, weft.tensor)])
    if both is None:
        return
    expected, found = both
    np.testing.assert_array_equal(found.detach().numpy(), expected.detach().numpy())
    assert found._is_view() == expected._is_view()
    g = np.arange(1.0, 1 + expected.numel()).reshape(tuple(expected.shape))
    expected.backward(torch.tensor(g))
    found.backward(weft.tensor(g))
    np.testing.assert_array_equal(w.grad.numpy(), t.grad.numpy())


@settings(max_examples=150, deadline=None)
@given(case, st.sampled_from(["number", "full", "one", "row", "wide"]))
def test_writing_as_pytorch(example, kind):
    """The target after the write, and the gradients of target and value."""
    shape, key = example
    try:
        places = torch.zeros(shape)[key_for(key, torch.tensor)].shape
    except IndexError:
        return
    sizes = {"full": tuple(places), "one": (), "row": tuple(places[-1:]), "wide": (1, 1, *places), "number": ()}[kind]
    values = np.arange(50.0, 50 + max(int(np.prod(sizes)), 1)).reshape(sizes) if 0 not in sizes else np.zeros(sizes)
    results = []
    for library in (torch, weft):
        x = library.tensor(base(shape), requires_grad=True)
        v = library.tensor(values, requires_grad=True)
        y = x * 2
        whole = y[:]  # a view that must see the write
        y[key_for(key, library.tensor)] = 7.0 if kind == "number" else v
        (y * library.tensor(base(shape))).sum().backward()
        results.append((y, whole, x.grad, v.grad))
    compared = 3 if _repeats(shape, key) else 4  # PyTorch's gradient of a value that was overwritten is not 0
    for expected, found in list(zip(*results, strict=True))[:compared]:
        if expected is None:
            assert found is None
        else:
            np.testing.assert_allclose(found.detach().numpy(), expected.detach().numpy(), rtol=1e-12)


def _repeats(shape, key):
    """Whether some element is written twice."""
    counts = np.zeros(shape)
    np.add.at(counts, key_for(key, np.array), 1) if key else None
    return counts.max() > 1


@settings(max_examples=100, deadline=None)
@given(st.sampled_from(SHAPES).flatmap(lambda s: st.tuples(st.just(s), keys(s, negative_steps=True))))
def test_negative_steps_as_numpy(example):
    """Basic keys with negative steps are views, written through both ways."""
    shape, key = example
    key = tuple(slice(None, None, -1) if isinstance(k, (tuple, list)) else k for k in key)
    a = base(shape)
    w = weft.tensor(a)
    np.testing.assert_array_equal(w[key].numpy(), a[key])
    assert w[key]._base is w
    w[key] = -1.0
    a[key] = -1.0
    np.testing.assert_array_equal(w.numpy(), a)


def test_negative_steps_have_gradients():
    x = weft.arange(6.0).requires_grad_()
    y = x * 2
    y[::-2] = y[::2] * weft.tensor([1.0, 10.0, 100.0])
    assert y.tolist() == [0.0, 800.0, 4.0, 40.0, 8.0, 0.0]
    y.backward(weft.tensor([1.0, 2.0, 3.0, 4.0, 5.0, 6.0]))
    # y = (2x₀, 200x₄, 2x₂, 20x₂, 2x₄, 2x₀)
    assert x.grad.tolist() == [2 + 12.0, 0.0, 6 + 80.0, 0.0, 400 + 10.0, 0.0]


# --------------------------------------------------------------------------------- particular keys


@pytest.mark.parametrize(
    "key",
    [
        "True",
        "False",
        "None, True",
        "L.tensor(True)",
        "L.tensor(False), 0",
        ":, True, [0, 1]",
        "0, :, [1, 2]",
        "[0, 1], :, [1, 2]",
        "[0, 1], None, [1, 2]",
        "L.tensor(1), :, L.tensor([0, 1])",
        "L.tensor([1, 0], dtype=L.uint8)",
        "L.tensor([1, 0], dtype=L.int32)",
        "range(2)",
        "[[0, 1], [1, 0]]",
        "[True, False]",
        "[]",
        "np.array([0, 1]), np.array(1)",
        "np.int64(1), np.array([True, False, True])",
        "L.ones(2, 3).bool()",
        "L.ones(2, 3).bool(), [0] * 6",
        ":, L.ones(3, 4).bool()",
        "..., [0, 1]",
        "(),",
        "()",
        "...",
        "slice(L.tensor(0), L.tensor(1))",
    ],
)
def test_unusual_keys(key):
    """Masks of any rank, Python bools, lists, arrays, ranges, 0-d tensors: as PyTorch reads them."""
    read = lambda library: eval(
        f"library.arange(24).reshape(2, 3, 4)[{key}]", {"library": library, "L": library, "np": np}
    )
    expected, found = read(torch), read(weft)
    assert tuple(found.shape) == tuple(expected.shape)
    np.testing.assert_array_equal(found.numpy(), expected.numpy())


@pytest.mark.parametrize(
    ("key", "error", "says"),
    [
        ("5", IndexError, "index 5 is out of bounds for dimension 0 with size 2"),
        (":, -4", IndexError, "index -4 is out of bounds for dimension 1 with size 3"),
        (":, [0, 3]", IndexError, "index 3 is out of bounds for dimension 1 with size 3"),
        ("[0, 1], :, [0, 9]", IndexError, "index 9 is out of bounds for dimension 2 with size 4"),
        ("0, 0, 0, 0", IndexError, "too many indices for tensor of dimension 3"),
        ("L.ones(3).bool()", IndexError, "mask [3] at index 0 does not match"),
        ("[0, 1], [0, 1, 2]", IndexError, "could not be broadcast together"),
        ("1.0", IndexError, "got float"),
        ("L.tensor([0.0])", IndexError, "must be long, int, byte or bool"),
        ("L.tensor([0], dtype=L.int8)", IndexError, "must be long, int, byte or bool"),
        ("::0", ValueError, "step cannot be zero"),
        ("1.5:", TypeError, "slice indices"),
    ],
)
def test_wrong_keys(key, error, says):
    """PyTorch's error classes, for reading and for writing, with dimension, index and size in the message."""
    names = {"L": torch, "x": torch.zeros(2, 3, 4)}
    with pytest.raises(error):
        eval(f"x[{key}]", names)
    for statement in (f"x[{key}]", f"x[{key}] = 1.0", f"x[{key}] = L.ones(())"):
        with pytest.raises(error) as caught:
            exec(statement, {"L": weft, "x": weft.zeros(2, 3, 4)})
        assert says in str(caught.value)


@pytest.mark.parametrize(
    ("call", "says"),
    [
        (lambda x: x.__setitem__(0, weft.ones(5)), "copy_"),
        (lambda x: x.__setitem__([0, 1], weft.ones(5)), "cannot be broadcast to indexing result of shape [2, 4]"),
        (lambda x: x.__setitem__(x > 0, weft.ones(5)), "cannot be broadcast to indexing result of shape [0]"),
        (lambda x: x.__setitem__(0, 1j), "cannot be converted"),
        (lambda x: x.long().__setitem__(0, float("nan")), "overflow"),
        (lambda x: x.byte().__setitem__(0, 300), "overflow"),
        (lambda x: x.gather(0, weft.tensor([[3]])), "index 3 is out of bounds for dimension 0 with size 3"),
        (lambda x: x.gather(0, weft.tensor([[-1]])), "index -1 is out of bounds"),
        (lambda x: x.gather(0, weft.tensor([0])), "same number of dimensions"),
        (lambda x: x.gather(0, weft.zeros(1, 9).long()), "no larger than"),
        (lambda x: x.index_select(1, weft.tensor([4])), "index 4 is out of bounds for dimension 1 with size 4"),
        (lambda x: x.index_add(0, weft.tensor([0]), weft.ones(2, 4)), "need [1, 4]"),
        (lambda x: x.index_copy(0, weft.tensor([0]), weft.ones(1, 4).double()), "float64"),
        (lambda x: x.scatter_reduce(0, weft.tensor([[0]]), weft.ones(1, 1), "max"), "sum, prod, mean, amax, amin"),
        (lambda x: x.masked_scatter(x == 0, weft.ones(3)), "3 elements"),
        (lambda x: x.masked_fill(x, 1.0), "bool mask"),
        (lambda x: x.take(weft.tensor([12])), "index 12 is out of bounds"),
        (lambda x: x[0, 0][0], "0-dim"),
    ],
)
def test_wrong_values(call, says):
    with pytest.raises((RuntimeError, IndexError, ValueError)) as caught:
        call(weft.zeros(3, 4))
    assert says in str(caught.value)


def test_last_of_several_writes_stays():
    """Also in the gradient: a value that was overwritten has none (PyTorch leaves this undefined)."""
    x, v = weft.zeros(3).requires_grad_(), weft.tensor([1.0, 2.0, 3.0], requires_grad=True)
    y = x * 1
    y[[0, 2, 0]] = v
    assert y.tolist() == [3.0, 0.0, 2.0]
    (y * weft.tensor([1.0, 10.0, 100.0])).sum().backward()
    assert v.grad.tolist() == [0.0, 100.0, 1.0]
    assert x.grad.tolist() == [0.0, 10.0, 0.0]


@pytest.mark.parametrize("dtype", ["float32", "float64", "float16", "bfloat16", "complex64"])
@pytest.mark.parametrize("rows", [5, 3000])
def test_sums_at_repeated_places(dtype, rows):
    """The embedding gradient, on its small and its large way, against a dense matrix product."""
    rng = np.random.default_rng(0)
    places, values = rng.integers(0, 7, rows), rng.standard_normal((rows, 3))
    weight = weft.zeros(7, 3, dtype=getattr(weft, dtype)).requires_grad_()
    g = weft.tensor(values).to(getattr(weft, dtype))
    weight[weft.tensor(places)].backward(g)
    expected = np.eye(7)[:, places] @ g.to(weft.complex128 if dtype == "complex64" else weft.float64).numpy()
    tolerance = {"float16": 2**-9, "bfloat16": 2**-6, "float64": 1e-13}.get(dtype, 1e-5)
    found = weight.grad.to(weft.complex128 if dtype == "complex64" else weft.float64).numpy()
    np.testing.assert_allclose(found, expected, rtol=tolerance, atol=tolerance * 10)


# ---------------------------------------------------------------------------------- batches of indices

R = np.random.default_rng(3)
X, IDX = R.standard_normal((5, 3, 4)), R.integers(0, 3, (5, 2, 4))


@pytest.mark.parametrize("which", [(0, 0), (0, None), (None, 0)])
@pytest.mark.parametrize(
    "function",
    [
        lambda x, i: x[i],
        lambda x, i: x[:, i],
        lambda x, i: x[i, i],
        lambda x, i: x[i, None, i],
        lambda x, i: x[i[0, 0]],
        lambda x, i: x.gather(0, i),
        lambda x, i: x.index_select(1, i[0]),
        lambda x, i: x.scatter(0, i, x[:2]),
        lambda x, i: x.scatter_add(0, i, x[:2]),
        lambda x, i: x.scatter_reduce(0, i, x[1:], "amax"),
        lambda x, i: x.index_put((i,), x[0]),
        lambda x, i: x.index_put((i, i), x[0], accumulate=True),
        lambda x, i: x.take(i),
    ],
)
def test_vmap_over_indices(function, which):
    """vmap over the tensor, the index, or both equals a loop; so does its gradient."""
    x, i = weft.tensor(X).requires_grad_(), weft.tensor(IDX)
    arguments = lambda n: (x[n] if which[0] == 0 else x[0], i[n] if which[1] == 0 else i[0])
    given = (x if which[0] == 0 else x[0], i if which[1] == 0 else i[0])
    found = weft.vmap(function, in_dims=which)(*given)
    expected = weft.stack([function(*arguments(n)) for n in range(5)])
    np.testing.assert_allclose(found.detach().numpy(), expected.detach().numpy(), rtol=1e-12)
    g = weft.tensor(R.standard_normal(tuple(expected.shape)))
    (a,), (b,) = weft.autograd.grad(found, x, g), weft.autograd.grad(expected, x, g)
    np.testing.assert_allclose(a.numpy(), b.numpy(), rtol=1e-10, atol=1e-12)


def test_writing_inside_vmap():
    def write(x, v):
        y = x * 1
        y[1:] = v
        y[y > 2] = 0.0
        return y

    x, v = weft.arange(6.0).reshape(2, 3), weft.tensor([1.0, 5.0])
    assert weft.vmap(write)(x, v).tolist() == [[0.0, 1.0, 1.0], [0.0, 0.0, 0.0]]
