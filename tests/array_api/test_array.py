"""The array object: operators, in-place operators, indexing, conversion to Python numbers, interchange, gradients."""

import math
import operator

import array_api_strict as strict
import numpy as np
import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as npst

import weft
import weft.array_api as xp

from .oracle import KINDS, PROMOTABLE, compare, drawn

QUICK = settings(max_examples=80, deadline=None, database=None, suppress_health_check=list(HealthCheck))
ARITHMETIC = (
    "add",
    "sub",
    "mul",
    "truediv",
    "floordiv",
    "mod",
    "pow",
    "and_",
    "or_",
    "xor",
    "lshift",
    "rshift",
    "matmul",
)
TAKES = {
    "truediv": "floating", "floordiv": "real", "mod": "real", "and_": "integer or bool", "or_": "integer or bool",
    "xor": "integer or bool", "lshift": "integer", "rshift": "integer", "lt": "real", "le": "real", "gt": "real",
    "ge": "real", "eq": "all", "ne": "all",
}  # fmt: skip


def positive(dtype, shape, seed):
    x = drawn(dtype, shape, seed, low=1)
    return x if x.dtype.kind == "b" else np.where(x == 0, 1, x).astype(dtype)


@pytest.mark.parametrize("name", [*ARITHMETIC, "eq", "ne", "lt", "le", "gt", "ge"])
def test_operators(name):
    function = getattr(operator, name)
    for first, second in PROMOTABLE:
        if {first, second} <= set(KINDS[TAKES.get(name, "numeric")]):
            pair = positive(first, (3, 3), 1), positive(second, (3,), 2)
            compare(lambda _, x, y: function(x, y), *pair, note=f"{name} {first} {second}")
    for dtype in KINDS[TAKES.get(name, "numeric")]:
        number = {"b": True, "i": 2, "u": 2, "f": 1.5, "c": 1.5}[np.dtype(dtype).kind]
        if name != "matmul":
            compare(lambda _, x: function(x, number), positive(dtype, (2,), 3), note=f"{name} {dtype} number")  # noqa: B023
            compare(lambda _, x: function(number, x), positive(dtype, (), 3), note=f"number {name} {dtype}")  # noqa: B023


@pytest.mark.parametrize("name", ARITHMETIC)
def test_operators_in_place(name):
    function = getattr(operator, "i" + name.rstrip("_"))
    for first, second in PROMOTABLE:
        if {first, second} <= set(KINDS[TAKES.get(name, "numeric")]):
            pair = positive(first, (3, 3), 1), positive(second, (3, 3) if name == "matmul" else (3,), 2)
            compare(lambda _, x, y: function(x, y), *pair, note=f"{name} {first} {second}")


def test_in_place_operators_write_the_memory():
    x = xp.asarray([1.0, 2.0, 3.0])
    same, view = x, x[:2]
    x += 1
    assert same is x and np.asarray(view).tolist() == [2, 3]
    view *= 10
    assert np.asarray(x).tolist() == [20, 30, 4]
    with pytest.raises(TypeError, match="float64"):
        x += xp.ones(3, dtype=xp.float64)
    with pytest.raises(TypeError, match="shape"):
        x += xp.ones((2, 3))


def test_unary_operators():
    for dtype in KINDS["numeric"]:
        x = drawn(dtype, (2, 3), 4)
        for function in (operator.abs, operator.neg, operator.pos):
            compare(lambda _, x: function(x), x)  # noqa: B023
    for dtype in KINDS["integer or bool"]:
        compare(lambda _, x: ~x, drawn(dtype, (4,), 5))


def test_operators_refuse_strangers():
    x = xp.ones(3)
    for other in ([1, 2, 3], "a", None, np.ones(3), weft.ones(3)):
        with pytest.raises(TypeError):
            x + other
    with pytest.raises(TypeError):
        xp.sin(3.0)
    with pytest.raises(TypeError):
        xp.add(1.0, 2.0)
    with pytest.raises(TypeError):
        hash(x)
    with pytest.raises(OverflowError):
        xp.ones(2, dtype=xp.uint8) + 300


# ------------------------------------------------------------------------------------------- indexing


@QUICK
@given(st.data())
def test_basic_indexing(data):
    shape = data.draw(npst.array_shapes(min_dims=0, max_dims=4, min_side=0, max_side=4))
    array = np.arange(math.prod(shape)).reshape(shape)
    key = data.draw(npst.basic_indices(shape, allow_newaxis=True, allow_ellipsis=True))
    found = xp.asarray(array)[key]
    assert found.shape == array[key].shape
    np.testing.assert_array_equal(np.asarray(found), array[key])
    if not any(part is None for part in (key if isinstance(key, tuple) else (key,))):
        mine, theirs = xp.asarray(array, copy=True), array.copy()
        value = np.arange(array[key].size).reshape(array[key].shape) - 50
        mine[key], theirs[key] = xp.asarray(value), value
        np.testing.assert_array_equal(np.asarray(mine), theirs)
        mine[key] = 7
        assert (np.asarray(mine)[key] == 7).all()


@QUICK
@given(st.data())
def test_masks(data):
    shape = data.draw(npst.array_shapes(min_dims=0, max_dims=3, min_side=0, max_side=3))
    array = np.arange(math.prod(shape)).reshape(shape)
    mask = data.draw(npst.arrays(bool, shape[: data.draw(st.integers(0, len(shape)))]))
    found = xp.asarray(array)[xp.asarray(mask)]
    np.testing.assert_array_equal(np.asarray(found), array[mask])
    mine, theirs = xp.asarray(array, copy=True), array.copy()
    mine[xp.asarray(mask)], theirs[mask] = -1, -1
    np.testing.assert_array_equal(np.asarray(mine), theirs)


@QUICK
@given(st.data())
def test_integer_arrays_as_indices(data):
    shape = data.draw(npst.array_shapes(min_dims=1, max_dims=3, min_side=1, max_side=4))
    array = np.arange(math.prod(shape)).reshape(shape)
    key = data.draw(npst.integer_array_indices(shape, dtype=data.draw(st.sampled_from(["u1", "i4", "i8"]))))
    if data.draw(st.booleans()):
        key = (data.draw(st.integers(-shape[0], shape[0] - 1)), *key[1:])
    if not any(isinstance(part, np.ndarray) for part in key):
        return
    found = xp.asarray(array)[tuple(xp.asarray(part) if isinstance(part, np.ndarray) else part for part in key)]
    np.testing.assert_array_equal(np.asarray(found), array[key])


def test_masks_without_elements_and_wrong_masks():
    x = xp.ones((2, 3))
    assert x[xp.zeros((0,), dtype=xp.bool)].shape == (0, 3)
    assert x[xp.zeros((2, 0), dtype=xp.bool)].shape == (0,)
    assert x[xp.asarray(True)].shape == (1, 2, 3) and x[xp.asarray(False)].shape == (0, 2, 3)
    for shape in ((3,), (2, 2), (2, 3, 1)):
        with pytest.raises(IndexError):
            x[xp.zeros(shape, dtype=xp.bool)]
    with pytest.raises(IndexError):
        x[2]
    with pytest.raises(IndexError):
        x[0, 0, 0]
    with pytest.raises(IndexError):
        x[xp.asarray([0.5])]


def test_zero_dimensional_arrays_as_indices():
    x = xp.reshape(xp.arange(6), (2, 3))
    assert int(x[xp.asarray(1), xp.asarray(-1, dtype=xp.int8)]) == 5
    assert [10, 20, 30][xp.asarray(2, dtype=xp.uint64)] == 30


def test_assignment_keeps_the_type():
    x = xp.zeros(3, dtype=xp.int32)
    x[0] = xp.asarray(5, dtype=xp.int8)
    assert x.dtype is xp.int32 and int(x[0]) == 5
    with pytest.raises(TypeError, match="float"):
        x[0] = xp.asarray(1.5)
    big = xp.zeros(2, dtype=xp.uint64)
    big[1] = 2**64 - 1
    assert int(big[1]) == 2**64 - 1


def test_iteration():
    assert [int(part) for part in xp.arange(3)] == [0, 1, 2]
    assert len(xp.ones((4, 2))) == 4 and all(isinstance(row, xp.Array) for row in xp.ones((4, 2)))
    with pytest.raises(TypeError):
        iter(xp.asarray(1.0))


# ------------------------------------------------------------------------------------- Python's numbers


def test_conversion_to_numbers():
    assert bool(xp.asarray(math.nan)) and bool(xp.asarray(0.5)) and not bool(xp.asarray(-0.0))
    assert bool(xp.asarray(1j)) and bool(xp.asarray(True))
    assert int(xp.asarray(-2.75)) == -2 and float(xp.asarray(3)) == 3.0 and complex(xp.asarray(True)) == 1
    assert complex(xp.asarray(1 + 2j)) == 1 + 2j and operator.index(xp.asarray(7, dtype=xp.uint8)) == 7
    assert type(int(xp.asarray(3))) is int and type(float(xp.asarray(3.0))) is float
    with pytest.raises(OverflowError):
        int(xp.asarray(math.inf))
    with pytest.raises(ValueError, match="NaN"):
        int(xp.asarray(math.nan))
    for call, value in ((float, 1j), (int, 1j), (operator.index, 1.0), (operator.index, True)):
        with pytest.raises(TypeError):
            call(xp.asarray(value))
    for call in (bool, int, float, complex, operator.index):
        with pytest.raises(TypeError):
            call(xp.ones(1, dtype=xp.int64))


def test_attributes():
    x = xp.zeros((2, 3, 4), dtype=xp.int16)
    assert (x.ndim, x.shape, x.size, x.dtype) == (3, (2, 3, 4), 24, xp.int16)
    assert type(x.shape) is tuple and x.mT.shape == (2, 4, 3) and x[0, ...].T.shape == (4, 3)
    assert x.to_device(x.device) is x and xp.asarray(1.0).size == 1 and xp.zeros((0, 3)).size == 0
    with pytest.raises(ValueError, match="T"):
        x.T  # noqa: B018
    with pytest.raises(ValueError, match="mT"):
        xp.ones(3).mT  # noqa: B018
    with pytest.raises(ValueError, match="stream"):
        x.to_device(x.device, stream=1)
    with pytest.raises(RuntimeError, match="tpu"):
        x.to_device("tpu")
    assert x.__array_namespace__() is xp is x.__array_namespace__(api_version="2023.12")
    with pytest.raises(ValueError, match="version"):
        x.__array_namespace__(api_version="2020.01")
    assert repr(xp.asarray([1, 2])) == "Array(tensor([1, 2]))"


# -------------------------------------------------------------------------------------------- interchange


@pytest.mark.parametrize("dtype", KINDS["all"])
def test_dlpack(dtype):
    x = xp.asarray(drawn(dtype, (2, 3), 6))
    assert x.__dlpack_device__() == (1, 0)
    for options in (
        {},
        {"copy": True},
        {"copy": False},
        {"max_version": (0, 0)},
        {"max_version": (2, 0)},
        {"dl_device": (1, 0)},
    ):
        assert type(x.__dlpack__(**options)).__name__ == "PyCapsule"
    y = xp.from_dlpack(x, device=x.device)
    z = xp.from_dlpack(x, copy=True)
    x[0, 0] = not bool(x[0, 0]) if dtype == "bool" else 9
    assert xp.all(x == y) and not xp.all(x == z)
    np.testing.assert_array_equal(np.from_dlpack(x), np.asarray(x))
    np.testing.assert_array_equal(np.asarray(xp.from_dlpack(torch.arange(3))), np.arange(3))
    np.testing.assert_array_equal(np.asarray(strict.from_dlpack(x)), np.asarray(x))


def test_dlpack_errors():
    with pytest.raises(AttributeError, match="__dlpack__"):
        xp.from_dlpack([1, 2])
    with pytest.raises(BufferError):
        xp.from_dlpack(xp.ones(2), device="tpu")


def test_gradients_flow_through():
    w = weft.tensor([1.0, 2.0, 3.0], requires_grad=True)
    x = xp.asarray(w)
    loss = xp.sum(xp.sin(x) * x[::-1]) / 2 + xp.mean(xp.linalg.outer(x, x))
    loss.tensor.backward()
    v = torch.tensor([1.0, 2.0, 3.0], requires_grad=True)
    (torch.sum(torch.sin(v) * v.flip(0)) / 2 + torch.outer(v, v).mean()).backward()
    np.testing.assert_allclose(w.grad.numpy(), v.grad.numpy(), rtol=1e-5)
