"""The reader of old pickles against Python's own, and against pickles that want more than data."""

from __future__ import annotations

import collections
import pickle
import pickletools

import numpy as np
import pytest
import scipy.sparse as sp

from weft.data.sources.pickles import read_pickle
from weft.io.errors import FileFormatError, LayoutError, UnsafePickleError

KINDS = ["?", "i1", "u1", "<i2", ">i2", "<i4", ">u4", "<i8", "<f4", ">f4", "<f8", "<f2"]


@pytest.mark.parametrize("protocol", range(6))
@pytest.mark.parametrize("kind", KINDS)
def test_arrays(protocol, kind):
    for array in (
        np.arange(24),
        np.zeros((0, 3)),
        np.array(7),
        np.arange(24).reshape(2, 3, 4),
        np.arange(6).reshape(2, 3).T,
    ):
        array = array.astype(kind, order="K")
        found = read_pickle(pickle.dumps(array, protocol), "x")
        assert found.dtype == array.dtype.newbyteorder("=") and found.shape == array.shape
        np.testing.assert_array_equal(found, array)
        found[...] = 0  # it may be written to


@pytest.mark.parametrize("protocol", range(2, 6))
def test_containers_and_sparse(protocol):
    shared = np.arange(3)
    matrix = sp.random(20, 7, 0.2, "csr", np.float32, random_state=0)
    neighbours = collections.defaultdict(list, {0: [1, 2], 5: []})
    tree = {"a": [shared, shared], "m": matrix, "g": neighbours, b"k": (None, True, 1.5, "ü", b"\xff", np.float32(2.5))}
    found = read_pickle(pickle.dumps(tree, protocol), "x")
    assert found["a"][0] is found["a"][1] and found["a"][0].tolist() == [0, 1, 2]
    assert (found["m"] != matrix).nnz == 0 and found["m"].shape == (20, 7) and found["m"].dtype == np.float32
    assert found["g"] == {0: [1, 2], 5: []} and found[b"k"] == (None, True, 1.5, "ü", b"\xff", 2.5)


class Run:
    def __init__(self, function, *arguments):
        self.what = (function, arguments)

    def __reduce__(self):
        return self.what


ATTACKS = {
    "system": Run(__import__("os").system, "touch evil"),
    "eval": Run(eval, "1"),
    "getattr": Run(getattr, [], "append"),
    "object array": np.array([{}, 1], object),
    "structured array": np.zeros(2, [("a", "i4")]),
    "text array": np.array(["a"]),
    "class": np.ndarray,
    "function": collections.OrderedDict,
    "exception": ValueError("x"),
}


@pytest.mark.parametrize("name", ATTACKS)
@pytest.mark.parametrize("protocol", [2, 4])
def test_more_than_data_is_refused(tmp_path, monkeypatch, name, protocol):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(FileFormatError):
        read_pickle(pickle.dumps(ATTACKS[name], protocol), "x")
    assert list(tmp_path.iterdir()) == []


def test_state_of_others_is_not_set():
    """BUILD on the global numpy.dtype, and on a list: neither is an object that waits for its description."""
    for raw in (b"\x80\x02cnumpy\ndtype\n}U\x01xK\x01sb.", b"\x80\x02]}U\x01xK\x01sb."):
        with pytest.raises(UnsafePickleError, match="would change"):
            read_pickle(raw, "x")
        assert pickletools.dis(raw, out=open("/dev/null", "w")) is None


def changed(matrix, **arrays):
    copy = matrix.copy()
    for name, array in arrays.items():
        copy.__dict__[name] = array
    return pickle.dumps(copy, 2)


@pytest.mark.parametrize(
    "arrays",
    [
        {"indices": np.array([0, 9], np.int32)},
        {"indices": np.array([0, -1], np.int32)},
        {"indptr": np.array([0, 1, 5], np.int32)},
        {"indptr": np.array([0, 2], np.int32)},
        {"data": np.array([1.0])},
        {"data": np.array([[1.0, 2.0]])},
        {"data": [1.0, 2.0]},
    ],
)
def test_sparse_matrices_that_point_outside(arrays):
    matrix = sp.csr_matrix(np.array([[1.0, 0], [0, 2.0]]))
    assert (read_pickle(changed(matrix), "x") != matrix).nnz == 0
    with pytest.raises(LayoutError):
        read_pickle(changed(matrix, **arrays), "x")


def test_cut_short_and_flipped_bytes():
    """Whatever the damage, the answer is data or a FileFormatError."""
    raw = pickle.dumps({"data": np.arange(40).reshape(5, 8), "labels": [1, 2, 3], "m": sp.eye(4, format="csr")}, 2)
    for kept in range(len(raw)):
        with pytest.raises(FileFormatError):
            read_pickle(raw[:kept], "x")
    refused = 0
    for position in range(len(raw)):
        damaged = bytearray(raw)
        damaged[position] ^= 0x55
        try:
            read_pickle(bytes(damaged), "x")
        except FileFormatError:
            refused += 1
    assert refused > len(raw) // 4


def test_arrays_that_announce_too_much():
    state = pickle.dumps(np.arange(4, dtype="u1"), 2).replace(b"K\x04\x85", b"M\xff\xff\x85")
    with pytest.raises(LayoutError, match="described by 4 bytes"):
        read_pickle(state, "x")


@pytest.mark.parametrize(
    "name", ["ind.cora.x", "ind.cora.allx", "ind.citeseer.tx", "ind.citeseer.ally", "ind.cora.graph"]
)
@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_real_planetoid_as_python_reads_it(real, name):
    raw = (real / "planetoid" / name).read_bytes()
    found, expected = read_pickle(raw, name), pickle.loads(raw, encoding="latin1")
    if sp.issparse(expected):
        assert (found != expected).nnz == 0 and found.shape == expected.shape
    elif isinstance(expected, np.ndarray):
        np.testing.assert_array_equal(found, expected)
    else:
        assert found == dict(expected)
