"""Memory shared with NumPy, PyTorch and Python; copies, pickles, and Python's own protocols."""

from __future__ import annotations

import array
import copy
import io
import pickle
import sys

import ml_dtypes
import numpy as np
import pytest
import torch

import weft

NUMPY_TYPES = "bool uint8 uint16 uint32 uint64 int8 int16 int32 int64 float16 float32 float64 complex64 complex128"


def address(x):
    return x.data_ptr() if hasattr(x, "data_ptr") else x.__array_interface__["data"][0]


# --------------------------------------------------------------------------------------- NumPy


@pytest.mark.parametrize("name", [*NUMPY_TYPES.split(), "bfloat16"])
def test_from_numpy_and_back_share_memory(name):
    kind = ml_dtypes.bfloat16 if name == "bfloat16" else name
    source = np.zeros((2, 3), kind)
    x = weft.from_numpy(source)
    assert x.dtype is getattr(weft, name) and address(x) == address(source) == address(x.numpy())
    source[1, 2] = 1
    assert bool(x[1, 2])
    x.fill_(1)
    assert source.all()


def test_from_numpy_keeps_strides():
    source = np.arange(24.0).reshape(2, 3, 4)
    for view in (source.T, source[:, ::2], source[::-1], np.broadcast_to(source[:1], (5, 3, 4)), source[:0]):
        x = weft.from_numpy(view)
        assert x.numpy().strides == view.strides
        np.testing.assert_array_equal(x.numpy(), view)


def test_reshaping_the_array_leaves_the_tensor_alone():
    source = np.zeros(4)
    x = weft.from_numpy(source)
    source.shape = (2, 2)
    assert x.shape == (4,)
    x.numpy().shape = (2, 2)
    assert x.shape == (4,)


@pytest.mark.parametrize(
    ("data", "error", "words"),
    [
        ([1], TypeError, "expected np.ndarray"),
        (np.float64(1), TypeError, "expected np.ndarray"),
        (np.array(["a"]), TypeError, "supported types"),
        (np.array([object()]), TypeError, "supported types"),
        (np.zeros(2, ">f8"), ValueError, "byte order"),
        (np.zeros(3, "i1,f8")["f1"], ValueError, "multiple of the element size"),
    ],
)
def test_from_numpy_refuses(data, error, words):
    with pytest.raises(error, match=words):
        weft.from_numpy(data)


def test_read_only_memory_stays_protected():
    source = np.zeros(3)
    source.flags.writeable = False
    for x in (weft.from_numpy(source), weft.as_tensor(source), weft.from_dlpack(source), weft.asarray(source)):
        assert address(x) == address(source)
        assert (x + 1).tolist() == [1, 1, 1]
        with pytest.raises(RuntimeError, match="read-only"):
            x.add_(1)
    assert not source.any()


def test_array_protocol():
    x = weft.arange(3.0)
    assert address(np.asarray(x)) == address(x) == address(np.array(x, copy=False))
    assert address(np.array(x)) != address(x)
    assert np.asarray(x, np.float64).dtype == np.float64
    with pytest.raises(ValueError):
        np.array(x, dtype=np.float64, copy=False)
    with pytest.raises(RuntimeError, match="requires grad"):
        np.asarray(weft.ones(2, requires_grad=True))
    assert weft.ones(2, requires_grad=True).numpy(force=True).tolist() == [1, 1]


def test_numpy_on_the_left():
    a, x = np.arange(3.0, dtype=np.float32), weft.arange(3.0, requires_grad=True)
    for result in (a + x, a * x, a - x, x + a, np.float32(2) * x, np.float64(2) + x):
        assert isinstance(result, weft.Tensor) and result.requires_grad
    assert (a == x).tolist() == [True] * 3
    assert (np.float32(3) * weft.ones(2)).dtype is weft.float32
    assert isinstance(np.sin(weft.ones(2)), weft.Tensor)


# -------------------------------------------------------------------------------------- DLPack


@pytest.mark.parametrize("name", "bool uint8 int8 int32 int64 float16 bfloat16 float32 float64 complex64".split())
def test_dlpack_with_pytorch_both_ways(name):
    theirs = torch.zeros(3, 4, dtype=getattr(torch, name))
    for t in (theirs, theirs.T, theirs[::2, 1:], theirs[0, 0], theirs[:, :0]):
        x = weft.from_dlpack(t)
        assert x.dtype is getattr(weft, name) and x.shape == tuple(t.shape)
        assert t.numel() == 0 or (address(x) == t.data_ptr() and x.stride() == t.stride())
    x = weft.from_dlpack(theirs)
    theirs[1, 2] = 1
    assert bool(x[1, 2])
    x.fill_(1)
    assert bool(theirs.all())

    ours = weft.zeros(3, 4, dtype=getattr(weft, name))
    t = torch.from_dlpack(ours.T)
    assert t.dtype is getattr(torch, name) and t.data_ptr() == address(ours) and t.stride() == (1, 4)
    t.fill_(1)
    assert bool(ours.all())


def test_dlpack_with_numpy_both_ways():
    source = np.arange(6.0).reshape(2, 3)
    x = weft.from_dlpack(source.T)
    assert address(x) == address(source) and x.stride() == (1, 3)
    x[0, 0] = 7
    assert source[0, 0] == 7
    back = np.from_dlpack(x)
    assert address(back) == address(source)
    back[0, 0] = 8
    assert float(x[0, 0]) == 8


def test_dlpack_keeps_the_owner_alive():
    theirs = torch.arange(1000.0)
    x = weft.from_dlpack(theirs)
    y = torch.from_dlpack(weft.arange(1000.0))
    half = torch.from_dlpack(weft.ones(1000, dtype=weft.bfloat16))
    del theirs
    torch.rand(1000), weft.rand(1000)
    assert float(x.sum()) == float(y.sum()) == 499500 and float(half.float().sum()) == 1000


def test_dlpack_arguments():
    x = weft.arange(3.0)
    assert "dltensor_versioned" in repr(x.__dlpack__(max_version=(1, 0)))
    assert "versioned" not in repr(x.__dlpack__(max_version=(0, 8)))
    assert x.__dlpack_device__() == (1, 0)
    assert address(np.from_dlpack(x, copy=True)) != address(x)
    assert address(weft.from_dlpack(x, copy=True)) != address(x)
    assert address(weft.from_dlpack(x, device="cpu", copy=False)) == address(x)
    assert address(weft.from_dlpack(weft.to_dlpack(x))) == address(x)
    assert address(torch.utils.dlpack.from_dlpack(weft.to_dlpack(x))) == address(x)
    with pytest.raises(BufferError):
        x.__dlpack__(dl_device=(2, 0))
    with pytest.raises(BufferError, match="detach"):
        weft.ones(2, requires_grad=True).__dlpack__()
    with pytest.raises(TypeError, match="__dlpack__"):
        weft.from_dlpack(3)


def test_dlpack_capsules_are_used_once():
    capsule = weft.arange(3.0).__dlpack__()
    weft.from_dlpack(capsule)
    with pytest.raises(RuntimeError, match="only once"):
        weft.from_dlpack(capsule)


def test_dlpack_exporters_before_version_1():
    class Old:
        def __init__(self, tensor):
            self.tensor = tensor

        def __dlpack__(self, stream=None):
            return self.tensor.__dlpack__()

        def __dlpack_device__(self):
            return (1, 0)

    theirs = torch.arange(3.0)
    assert address(weft.from_dlpack(Old(theirs))) == theirs.data_ptr()


# ----------------------------------------------------------------------- as_tensor, asarray, buffers


def test_as_tensor_shares_what_it_can():
    source, x = np.arange(3.0), weft.ones(2, requires_grad=True)
    assert address(weft.as_tensor(source)) == address(source)
    assert weft.as_tensor(source, dtype=weft.float32).dtype is weft.float32
    assert weft.as_tensor(x) is x
    assert weft.as_tensor(x, dtype=weft.float64).requires_grad
    assert weft.as_tensor([1, 2.5]).dtype is weft.float32
    assert weft.as_tensor(torch.arange(3)).tolist() == [0, 1, 2]


def test_asarray():
    source, data = np.arange(3.0), bytearray(range(8))
    assert address(weft.asarray(source)) == address(source)
    assert address(weft.asarray(source, copy=True)) != address(source)
    assert weft.asarray(data, dtype=weft.uint8).tolist() == list(range(8))
    assert weft.asarray(3).dtype is weft.int64
    assert weft.asarray(source, requires_grad=True).requires_grad
    theirs = torch.zeros(3)
    assert address(weft.asarray(theirs)) == theirs.data_ptr()
    with pytest.raises(ValueError, match="alias"):
        weft.asarray([1, 2], copy=False)
    with pytest.raises(ValueError, match="alias"):
        weft.asarray(source, dtype=weft.float32, copy=False)


def test_frombuffer_shares_memory():
    data = bytearray(range(8))
    x = weft.frombuffer(data, dtype=weft.int16, count=2, offset=2)
    expected = torch.frombuffer(data, dtype=torch.int16, count=2, offset=2)
    assert x.tolist() == expected.tolist()
    data[2] = 100
    assert x.tolist() == expected.tolist()
    numbers = array.array("d", [1.0, 2.0])
    weft.frombuffer(numbers, dtype=weft.float64).mul_(2)
    assert numbers.tolist() == [2.0, 4.0]
    with pytest.raises(RuntimeError, match="read-only"):
        weft.frombuffer(b"abcd", dtype=weft.uint8).add_(1)


@pytest.mark.parametrize("options", [dict(count=9), dict(offset=7), dict(offset=8), dict(offset=-1), dict(count=0)])
def test_frombuffer_refuses_what_pytorch_refuses(options):
    for library in (torch, weft):
        with pytest.raises(ValueError):
            library.frombuffer(bytearray(8), dtype=library.int16, **options)


def test_memoryview():
    x = weft.arange(3.0)
    if sys.version_info >= (3, 12):
        assert memoryview(x).tolist() == [0.0, 1.0, 2.0]
    assert memoryview(x.numpy()).tolist() == [0.0, 1.0, 2.0]


# ------------------------------------------------------------------------------- copies and pickles


@pytest.mark.parametrize("name", [*NUMPY_TYPES.split(), "bfloat16"])
def test_pickle_keeps_type_value_and_flags(name):
    x = weft.ones(2, 3, dtype=getattr(weft, name)).T
    y = pickle.loads(pickle.dumps(x))
    assert y.dtype is x.dtype and weft.equal(x, y) and y.stride() == x.stride()


def test_pickle_of_graph_members():
    leaf = weft.ones(2, requires_grad=True)
    leaf.note = "kept"
    again = pickle.loads(pickle.dumps(leaf))
    assert again.requires_grad and again.is_leaf and again.note == "kept"
    result = pickle.loads(pickle.dumps(leaf * 2))
    assert result.requires_grad and result.is_leaf
    stream = io.BytesIO()
    pickle.dump({"a": leaf, "shape": leaf.shape, "dtype": leaf.dtype}, stream)
    assert pickle.loads(stream.getvalue())["dtype"] is weft.float32


def test_copy_shares_memory():
    x = weft.ones(3, requires_grad=True)
    y = copy.copy(x)
    assert y is not x and address(y) == address(x) and y.requires_grad and y.is_leaf
    assert copy.copy(x * 2).is_leaf


def test_deepcopy_keeps_sharing_within_one_call():
    x = weft.arange(6.0)
    both = copy.deepcopy({"whole": x, "part": x[2:4], "turned": x.reshape(2, 3).T, "again": x})
    assert address(both["whole"]) != address(x) and both["again"] is both["whole"]
    both["whole"].fill_(9)
    assert both["part"].tolist() == [9, 9] and both["turned"].shape == (3, 2) and bool((both["turned"] == 9).all())
    assert both["part"].storage_offset() == 2 and x.tolist() == [0, 1, 2, 3, 4, 5]


def test_deepcopy_of_leaves_and_others():
    x = weft.ones(2, requires_grad=True)
    (x * 3).sum().backward()
    y = copy.deepcopy(x)
    assert y.requires_grad and y.grad.tolist() == [3, 3] and address(y.grad) != address(x.grad)
    with pytest.raises(RuntimeError, match="leaf"):
        copy.deepcopy(x * 2)
    permuted = weft.rand(2, 3, 4).permute(1, 2, 0)
    for t in (permuted, permuted.clone(), weft.ones(3, dtype=weft.bfloat16)[1:], weft.zeros(1).expand(5)):
        again = copy.deepcopy(t)
        assert again.stride() == t.stride() and weft.equal(again, t)


# ----------------------------------------------------------------------------- Python's protocols


def test_identity_hash_iteration_and_membership():
    x, y = weft.tensor([[1, 2], [3, 4]]), weft.tensor([[1, 2], [3, 4]])
    assert len({x, y}) == 2 and {x: "x"}[x] == "x"
    assert [row.tolist() for row in x] == [[1, 2], [3, 4]]
    assert [row.tolist() for row in reversed(x)] == [[3, 4], [1, 2]]
    assert 3 in x and 9 not in x and weft.tensor(4) in x
    with pytest.raises(RuntimeError, match="__contains__"):
        "a" in x  # noqa: B015


def test_questions():
    assert weft.is_tensor(weft.ones(1)) and not weft.is_tensor(np.ones(1))
    assert weft.is_nonzero(weft.tensor([[2]])) and not weft.is_nonzero(weft.tensor(0.0))
    for bad in (weft.ones(2), weft.ones(0)):
        with pytest.raises(RuntimeError, match="ambiguous"):
            weft.is_nonzero(bad)
    with pytest.raises(TypeError):
        weft.is_floating_point(3)
    assert weft.result_type(weft.ones(1), weft.tensor(1j)) is weft.complex64
    assert weft.result_type(weft.ones(1, dtype=weft.uint8), 3) is weft.uint8


def test_pickles_from_before_the_move_are_read():
    """Made when `weft.dtypes` was `weft.dtype` and `weft.protocols` was `weft.borders`."""
    dtype, rebuild = "cweft.dtype\n_named\n(Vfloat32\ntR.", "cweft.borders\n_rebuild\n."
    assert pickle.loads(dtype.encode()) is weft.float32
    x = weft.arange(2.0)
    assert pickle.loads(rebuild.encode()) is x.__reduce_ex__(2)[0]
