"""Creation functions: asarray in all its forms, ranges, filled arrays."""

import array
import math

import numpy as np
import pytest

import weft
import weft.array_api as xp

from .oracle import KINDS, compare


@pytest.mark.parametrize(
    ("obj", "dtype"),
    [
        (True, "bool"),
        (3, "int64"),
        (2.5, "float32"),
        (1j, "complex64"),
        ([], "float32"),
        ([True, False], "bool"),
        ([True, 2], "int64"),
        ([1, 2.5], "float32"),
        ([[1, 2j], [2.5, True]], "complex64"),
        ((range(3), range(3)), "int64"),
    ],
)
def test_asarray_infers_the_type(obj, dtype):
    found = xp.asarray(obj)
    assert found.dtype.name == dtype
    np.testing.assert_array_equal(np.asarray(found), np.asarray(obj, dtype))


def test_asarray_of_everything_else():
    np.testing.assert_array_equal(np.asarray(xp.asarray(array.array("d", [1, 2]))), [1.0, 2.0])
    assert xp.asarray(memoryview(b"ab")).dtype is xp.uint8
    assert xp.asarray(np.float64(3)).dtype is xp.float64 and xp.asarray(weft.ones(2)).shape == (2,)
    nested = xp.asarray([[xp.asarray(1), 2], [xp.asarray(3, dtype=xp.int8), 4]])
    assert nested.dtype is xp.int64 and np.asarray(nested).tolist() == [[1, 2], [3, 4]]
    rows = xp.asarray(xp.unstack(xp.ones((2, 3), dtype=xp.int8)), dtype=xp.int16)
    assert rows.dtype is xp.int16 and rows.shape == (2, 3)
    assert xp.asarray([2**64 - 1], dtype=xp.uint64).tensor.item() == 2**64 - 1
    assert xp.asarray(1e300, dtype=xp.float32).tensor.item() == math.inf
    for bad in (object(), "abc", ["a"], {1: 2}):
        with pytest.raises(TypeError):
            xp.asarray(bad)
    with pytest.raises(ValueError):
        xp.asarray([[1, 2], [3]])
    with pytest.raises(OverflowError):
        xp.asarray(300, dtype=xp.uint8)
    with pytest.raises(RuntimeError, match="tpu"):
        xp.asarray(1, device="tpu")


def test_asarray_copies_when_told():
    source = np.arange(3.0)
    for copy, shared in ((None, True), (False, True), (True, False)):
        x = xp.asarray(source, copy=copy)
        assert np.shares_memory(np.asarray(x, copy=False), source) is shared
        y = xp.asarray(x, copy=copy)
        assert np.shares_memory(np.asarray(y, copy=False), np.asarray(x, copy=False)) is shared
    for obj in ([1, 2], 3):
        with pytest.raises(ValueError, match="copy"):
            xp.asarray(obj, copy=False)
    with pytest.raises(ValueError, match="copy"):
        xp.asarray(source, dtype=xp.float32, copy=False)


@pytest.mark.parametrize("dtype", KINDS["all"])
def test_filled_arrays(dtype):
    for shape in ((), 3, (2, 0), (2, 3)):
        compare(lambda s: s.zeros(shape, dtype=getattr(s, dtype)))  # noqa: B023
        compare(lambda s: s.ones(shape, dtype=getattr(s, dtype)))  # noqa: B023
        compare(lambda s: s.empty(shape, dtype=getattr(s, dtype)).shape)  # noqa: B023
        value = True if dtype == "bool" else 3
        compare(lambda s: s.full(shape, value, dtype=getattr(s, dtype)))  # noqa: B023
    for rows, columns, k in ((3, None, 0), (2, 4, 1), (4, 2, -2), (3, 3, 10**30), (0, 2, 0), (2, 2, -(10**30))):
        found = xp.eye(rows, columns, k=k, dtype=getattr(xp, dtype))
        assert found.dtype.name == dtype
        wanted = np.eye(rows, columns, k=max(-9, min(9, k)))
        np.testing.assert_array_equal(np.asarray(found), wanted.astype(dtype))


def test_full_infers_the_type():
    assert [xp.full(2, v).dtype.name for v in (True, 1, 1.0, 1j)] == ["bool", "int64", "float32", "complex64"]
    assert xp.full((), 2**64 - 1, dtype=xp.uint64).tensor.item() == 2**64 - 1
    assert xp.zeros(2).dtype is xp.ones(2).dtype is xp.empty(2).dtype is xp.eye(2).dtype is xp.float32


@pytest.mark.parametrize(
    "arguments", [(5,), (-3,), (2, 7), (7, 2), (0, 10, 3), (10, 0, -3), (0, 10, -1), (2**62, 2**62 + 3), (0, 1, 0.25)]
)
def test_arange(arguments):
    found = xp.arange(*arguments)
    assert found.dtype is (xp.float32 if any(isinstance(a, float) for a in arguments) else xp.int64)
    np.testing.assert_array_equal(np.asarray(found), np.arange(*arguments).astype(found.dtype.name))
    if max(arguments) < 100 and min(arguments) >= 0:
        for dtype in KINDS["real"]:
            assert xp.arange(*arguments, dtype=getattr(xp, dtype)).dtype.name == dtype


def test_arange_of_large_unsigned_numbers():
    found = xp.arange(2**64 - 3, 2**64 - 1, dtype=xp.uint64)
    assert [int(x) for x in found] == [2**64 - 3, 2**64 - 2]
    with pytest.raises(ValueError, match="step"):
        xp.arange(0, 3, 0)


@pytest.mark.parametrize("dtype", ["float32", "float64", "complex64", "complex128"])
def test_linspace(dtype):
    for start, stop, num in ((0, 1, 5), (-2.5, 3, 1), (1, 1, 3), (0, 1, 0), (5, -5, 11)):
        for endpoint in (True, False):
            call = lambda s: s.linspace(start, stop, num, dtype=getattr(s, dtype), endpoint=endpoint)  # noqa: B023
            compare(call)
    assert xp.linspace(0, 1, 3).dtype is xp.float32 and xp.linspace(0, 1j, 3).dtype is xp.complex64
    with pytest.raises(TypeError):
        xp.linspace(0, 1j, 3, dtype=xp.float32)
    with pytest.raises(ValueError, match="num"):
        xp.linspace(0, 1, -1)


def test_frequencies():
    for n in (1, 4, 5):
        compare(lambda s: s.fft.fftfreq(n, d=0.5, dtype=s.float64))  # noqa: B023
        compare(lambda s: s.fft.rfftfreq(n, dtype=s.float32))  # noqa: B023
    assert xp.fft.fftfreq(3).dtype is xp.float32


def test_astype():
    for first in KINDS["all"]:
        for second in KINDS["all"]:
            x = np.asarray([0, 1, 2], first)
            if second == "bool" and x.dtype.kind == "c":
                continue  # strict refuses it; the standard says that 0 + 0j becomes False
            compare(lambda s, x: s.astype(x, getattr(s, second)), x, note=f"{first} {second}")  # noqa: B023
    x = xp.ones(2)
    assert xp.astype(x, xp.float32, copy=False) is x and xp.astype(x, xp.float32) is not x
    assert np.asarray(xp.astype(xp.asarray([0.0, math.nan, 0.5]), xp.bool)).tolist() == [False, True, True]
    with pytest.raises(TypeError, match="real"):
        xp.astype(xp.asarray([1j]), xp.float32)


def test_meshgrid_of_nothing_and_options():
    assert xp.meshgrid() == []
    with pytest.raises(ValueError, match="indexing"):
        xp.meshgrid(xp.ones(2), indexing="yx")
