"""Constructors beyond the sample table: Python data, options, memory order, the errors of PyTorch."""

from __future__ import annotations

import numpy as np
import pytest
import torch

import weft

INF, NAN = float("inf"), float("nan")

DATA = [
    3,
    2.5,
    True,
    1 + 2j,
    [],
    [[]],
    [1, 2.5, True],
    [True, 2],
    [[1, 2], [3, 4]],
    [1 + 2j, 3],
    range(3),
    (1, (2)),
    [np.float64(1), 2],
    [np.float32(1), np.int64(2)],
    [np.int32(1)],
    [np.array([1, 2]), np.array([3, 4])],
    np.arange(6.0).reshape(2, 3).T,
    np.float64(2),
    bytearray(b"ab"),
]


@pytest.mark.parametrize("data", DATA, ids=lambda d: f"{type(d).__name__}{str(d)[:20]}")
def test_tensor_from_data(data):
    expected, found = torch.tensor(data), weft.tensor(data)
    assert found.dtype.name == str(expected.dtype).split(".")[1]
    assert tuple(found.shape) == tuple(expected.shape)
    assert found.stride() == expected.stride() or not found.numel()
    np.testing.assert_array_equal(found.numpy(), expected.numpy())


def test_tensor_from_tensors_in_a_list():
    parts = [weft.tensor(1.0, dtype=weft.float64), weft.tensor([2]), 3]
    assert weft.tensor(parts).dtype is weft.float64
    assert weft.tensor(parts).tolist() == [1.0, 2.0, 3.0]


def test_tensor_copies_and_leaves_the_graph():
    array = np.ones(3)
    x = weft.tensor(array)
    array[0] = 5
    assert x.tolist() == [1, 1, 1]
    source = weft.ones(2, requires_grad=True)
    assert not weft.tensor(source).requires_grad


@pytest.mark.parametrize(
    ("call", "error"),
    [
        (lambda m: m.tensor([[1], [2, 3]]), ValueError),
        (lambda m: m.tensor([1, 2**63]), ValueError),
        (lambda m: m.tensor([None]), RuntimeError),
        (lambda m: m.tensor("a"), TypeError),
        (lambda m: m.tensor({1: 2}), RuntimeError),
        (lambda m: m.tensor([m.ones(3), m.ones(3)]), ValueError),
        (lambda m: m.tensor(NAN, dtype=m.int64), RuntimeError),
        (lambda m: m.tensor([300], dtype=m.uint8), RuntimeError),
        (lambda m: m.tensor(1j, dtype=m.float32), TypeError),
        (lambda m: m.tensor([1, 2], requires_grad=True), RuntimeError),
        (lambda m: m.full((2,), 300, dtype=m.uint8), RuntimeError),
        (lambda m: m.full((2,), 1e40), RuntimeError),
        (lambda m: m.full(2, 3), TypeError),
        (lambda m: m.full_like(m.ones(2), 1j), RuntimeError),
        (lambda m: m.zeros(), TypeError),
        (lambda m: m.zeros(2.5), TypeError),
        (lambda m: m.zeros(-1), RuntimeError),
        (lambda m: m.zeros(2, foo=3), TypeError),
        (lambda m: m.zeros(2, 3, size=(3,)), TypeError),
        (lambda m: m.zeros(3, out=m.ones(3, dtype=m.int64), dtype=m.float32), RuntimeError),
        (lambda m: m.zeros(3, out=m.ones(3, requires_grad=True)), RuntimeError),
        (lambda m: m.zeros_like(3), TypeError),
        (lambda m: m.arange(), TypeError),
        (lambda m: m.arange("a"), TypeError),
        (lambda m: m.arange(0, NAN), RuntimeError),
        (lambda m: m.arange(3, dtype=m.bool), RuntimeError),
        (lambda m: m.linspace(m.ones(1), 1, 3), RuntimeError),
        (lambda m: m.linspace(0, 1, 2.0), TypeError),
        (lambda m: m.empty_strided((2, 3), (1,)), RuntimeError),
        (lambda m: m.empty_strided((2, 3), (-1, 2)), RuntimeError),
        (lambda m: m.empty_permuted((2, 3), (0, 0)), RuntimeError),
        (lambda m: m.eye(2.0), TypeError),
        (lambda m: m.Tensor(3.5), TypeError),
    ],
)
def test_errors_of_pytorch(call, error):
    for library in (torch, weft):
        with pytest.raises(error):
            call(library)


def test_out_takes_the_type_and_memory_of_the_target():
    target = weft.ones(3, dtype=weft.int64)
    memory = target.data_ptr()
    assert weft.zeros(3, out=target) is target
    assert target.tolist() == [0, 0, 0] and target.data_ptr() == memory
    assert weft.arange(0.5, 3.5, out=target).tolist() == [0, 1, 2]
    assert weft.full((3,), 1.5, out=target).tolist() == [1, 1, 1]
    assert target._version == 3


def test_options_are_accepted_and_checked():
    x = weft.zeros(2, layout="strided", device="cpu", pin_memory=False, requires_grad=True)
    assert x.requires_grad and x.is_leaf
    with pytest.raises(TypeError, match="layout"):
        weft.zeros(2, layout="sparse_coo")
    with pytest.raises(RuntimeError, match="cuda"):
        weft.zeros(2, device="cuda")


@pytest.mark.parametrize("name", ["zeros_like", "empty_like", "rand_like", "randn_like"])
def test_like_keeps_the_order_in_memory(name):
    for make in (
        lambda m: m.zeros(2, 3).T,
        lambda m: m.zeros(2, 3, 4).permute(2, 0, 1),
        lambda m: m.zeros(3, 1).expand(3, 4),
        lambda m: m.zeros(4, 6)[::2, ::2],
    ):
        expected = getattr(torch, name)(make(torch)).stride()
        assert getattr(weft, name)(make(weft)).stride() == expected
    plain = getattr(weft, name)(weft.zeros(2, 3).T, memory_format="contiguous_format")
    assert plain.stride() == (2, 1)


def test_strided_and_permuted_memory():
    x = weft.empty_strided((2, 3), (1, 2), dtype=weft.float64)
    assert x.stride() == (1, 2) and x.dtype is weft.float64
    assert x.untyped_storage().nbytes() == 6 * 8
    assert weft.empty_strided((3, 2), (1, 1)).untyped_storage().nbytes() == 4 * 4
    assert weft.empty_permuted((2, 3, 4), (2, 0, 1)).stride() == (3, 1, 6)
    assert weft.ones(1).new_empty_strided((2, 2), (1, 2)).stride() == (1, 2)


def test_new_methods_take_the_type():
    x = weft.ones(2, dtype=weft.float64)
    assert x.new_zeros(2, 3).dtype is weft.float64
    assert x.new_ones((2,), dtype=weft.int32).dtype is weft.int32
    assert x.new_full((2,), 3).tolist() == [3.0, 3.0]
    assert x.new_tensor([1, 2]).dtype is weft.float64
    assert x.new_empty(()).shape == ()
    assert weft.arange(3).new_full((2,), 3.7).tolist() == [3, 3]


def test_ends_given_as_tensors():
    one = weft.tensor(1.0, dtype=weft.float64)
    assert weft.linspace(weft.tensor(0), one, 3).dtype is weft.float32
    assert weft.logspace(weft.tensor(0.0), 2 * one, 3, base=weft.tensor(2.0)).tolist() == [1.0, 2.0, 4.0]
    assert weft.arange(weft.tensor(3)).tolist() == [0, 1, 2]


def test_linspace_hits_both_ends_exactly():
    for dtype in (weft.float32, weft.float64, weft.float16):
        x = weft.linspace(0.1, 0.7, 1001, dtype=dtype)
        ends = weft.tensor([0.1, 0.7], dtype=dtype)
        assert x[0] == ends[0] and x[-1] == ends[1]


def test_legacy_constructor():
    assert weft.Tensor(2, 3).shape == (2, 3)
    assert weft.Tensor([1, 2]).dtype is weft.float32
    assert weft.Tensor(weft.Size([2])).shape == (2,)
    assert weft.Tensor().shape == (0,)


def test_default_dtype_is_followed():
    weft.set_default_dtype(weft.float64)
    try:
        assert weft.tensor(1.5).dtype is weft.float64
        assert weft.zeros(1).dtype is weft.float64
        assert weft.arange(0.0, 2).dtype is weft.float64
        assert weft.rand(1).dtype is weft.float64
        assert weft.full((1,), 1j).dtype is weft.complex128
    finally:
        weft.set_default_dtype(weft.float32)
