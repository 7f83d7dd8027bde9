"""Damaged, wrong and hostile files: each has an error of its own, and nothing of it is loaded or run."""

from __future__ import annotations

import io
import json
import os
import pickle
import struct
import tracemalloc
import zipfile

import pytest
import torch

import weft
from weft.errors import DtypeError
from weft.io import errors as faults
from weft.io import load_file, load_torch

# ------------------------------------------------------------------------------------------- safetensors


def tensors_file(header=None, data=bytes(24), length=None):
    """A safetensors file from its parts; by default one with `a` (2, 2) and `b` (2,), all zero."""
    entries = {
        "a": {"dtype": "F32", "shape": [2, 2], "data_offsets": [0, 16]},
        "b": {"dtype": "F32", "shape": [2], "data_offsets": [16, 24]},
    }
    text = header if isinstance(header, bytes) else json.dumps(entries | (header or {})).encode()
    return (len(text) if length is None else length).to_bytes(8, "little") + text + data


def entry(shape, begin, end, dtype="F32"):
    return {"dtype": dtype, "shape": shape, "data_offsets": [begin, end]}


GOOD = tensors_file()
SAFETENSORS = {
    "empty": (b"", faults.TruncatedError, "at least 10 bytes"),
    "five bytes": (GOOD[:5], faults.TruncatedError, "at least 10 bytes"),
    "ends in the header": (GOOD[:60], faults.TruncatedError, "the header claims"),
    "ends in the data": (GOOD[:-1], faults.TruncatedError, "need 24 bytes of data, the file has 23"),
    "text": (b"hello, this is a text file", faults.MagicError, "not a safetensors file"),
    "a pickle": (pickle.dumps({"a": 1}), faults.MagicError, "read with load_torch"),
    "header longer than the file": (tensors_file(length=10**6), faults.TruncatedError, "claims 1000000 bytes"),
    "header of an exabyte": (tensors_file(length=10**18), faults.HeaderError, "at most 100000000"),
    "header too short": (tensors_file(length=20), faults.HeaderError, "not valid JSON"),
    "header is a deep nest": (tensors_file(b'{"a":' + b"[" * 100_000), faults.HeaderError, "not valid JSON"),
    "header not UTF-8": (tensors_file(b'{"\xff": 1}'), faults.HeaderError, "not valid JSON"),
    "name twice": (tensors_file(b'{"a": 1, "a": 2}'), faults.HeaderError, "'a' appears twice"),
    "wrong shape": (tensors_file({"b": entry([3], 16, 24)}), faults.LayoutError, r"shape \(3,\).*needs 12 bytes"),
    "negative size": (tensors_file({"b": entry([-2], 16, 24)}), faults.HeaderError, "list of sizes"),
    "size not whole": (tensors_file({"b": entry([2.0], 16, 24)}), faults.HeaderError, "list of sizes"),
    "shape of an exabyte": (tensors_file({"b": entry([10**15], 16, 24)}), faults.LayoutError, "needs 4000000000000000"),
    "overlap": (tensors_file({"b": entry([2], 8, 16)}), faults.LayoutError, "'a' and 'b' overlap"),
    "gap": (tensors_file({"b": entry([2], 20, 28)}, bytes(28)), faults.LayoutError, "belong to no tensor"),
    "offsets backwards": (tensors_file({"b": entry([2], 24, 16)}), faults.LayoutError, "hold -8"),
    "bytes left over": (tensors_file(data=bytes(30)), faults.LayoutError, "6 bytes after the last tensor"),
    "extra key in an entry": (tensors_file({"b": entry([2], 16, 24) | {"x": 1}}), faults.HeaderError, "exactly dtype"),
    "unknown type": (tensors_file({"b": entry([2], 16, 24, "Q7")}), DtypeError, "'Q7'"),
    "metadata not strings": (tensors_file({"__metadata__": {"a": 1}}), faults.HeaderError, "__metadata__"),
}


@pytest.mark.parametrize("content, error, says", SAFETENSORS.values(), ids=SAFETENSORS)
@pytest.mark.parametrize("read", [load_file, weft.load])
def test_safetensors(read, content, error, says, tmp_path):
    path = tmp_path / "bad.safetensors"
    path.write_bytes(content)
    with pytest.raises(error, match=says) as caught:
        read(path)
    assert type(caught.value) is error and str(path) in str(caught.value)


# ------------------------------------------------------------------------------------------- weft.save


def tree_file(tree, tensors, data=bytes(8)):
    text = json.dumps({"tree": tree, "tensors": tensors})
    header = {"__metadata__": {"format": "weft-tree-1", "tree": text}, "a": entry([2], 0, 8)}
    return tensors_file(json.dumps(header).encode(), data)


SOUND = {"class": "Tensor", "dtype": "float32", "grad": False, "name": "a", "shape": [2]}
TREES = {
    "no such tensor": ({"tensor": 3}, [SOUND], faults.HeaderError, "tree in this file"),
    "no such array": ({"tensor": 0}, [SOUND | {"name": "b"}], faults.HeaderError, "tree in this file"),
    "no such class": ({"tensor": 0}, [SOUND | {"class": "Module"}], faults.HeaderError, "tree in this file"),
    "no such container": ({"eval": ["1"]}, [SOUND], faults.HeaderError, "tree in this file"),
    "another shape": ({"tensor": 0}, [SOUND | {"shape": [3]}], faults.LayoutError, "the tree says"),
    "window outside": ({"tensor": 0}, [SOUND | {"strides": [8], "offset": 0}], faults.LayoutError, "0 to 12 of 8"),
    "window before": ({"tensor": 0}, [SOUND | {"strides": [-4], "offset": 0}], faults.LayoutError, "-4 to 4"),
    "not a tree": ({"dict": 5, "keys": 5}, [SOUND], faults.HeaderError, "tree in this file"),
}


@pytest.mark.parametrize("tree, tensors, error, says", TREES.values(), ids=TREES)
def test_trees(tree, tensors, error, says, tmp_path):
    (tmp_path / "bad").write_bytes(tree_file(tree, tensors))
    with pytest.raises(error, match=says):
        weft.load(tmp_path / "bad")
    (tmp_path / "good").write_bytes(tree_file({"tensor": 0}, [SOUND]))
    assert weft.load(tmp_path / "good").tolist() == [0, 0]


# ------------------------------------------------------------------------------------------- PyTorch


class Run:
    """What a hostile file wants done when it is unpickled."""

    def __init__(self, function, *arguments):
        self.call = function, arguments

    def __reduce__(self):
        return self.call


def saved(value, **options):
    file = io.BytesIO()
    torch.save(value, file, **options)
    return file.getvalue()


def archive(changed=(), without=(), compression=zipfile.ZIP_STORED, value=None):
    """PyTorch's own file of {"a": ones(4)} with entries changed, added or left out."""
    source = zipfile.ZipFile(io.BytesIO(saved({"a": torch.ones(4)} if value is None else value)))
    entries = {name.partition("/")[2]: source.read(name) for name in source.namelist()} | dict(changed)
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w", compression) as out:
        for name, content in entries.items():
            if name not in without:
                out.writestr(name if name.startswith(("/", "..")) or ":" in name else f"archive/{name}", content)
    return file.getvalue()


def pickled(content):
    """The same file with another pickle."""
    return archive({"data.pkl": content})


def edited(old, new, value=None):
    """The same file with some bytes of its pickle replaced."""
    source = zipfile.ZipFile(io.BytesIO(saved({"a": torch.ones(4)} if value is None else value)))
    content = source.read("archive/data.pkl")
    assert old in content
    return archive({"data.pkl": content.replace(old, new)})


def lying_directory(size):
    """An archive whose directory claims `size` bytes for the storage, with nothing behind them."""
    content = bytearray(archive())
    at = content.rindex(b"archive/data/0")
    content[at - 46 + 20 : at - 46 + 28] = struct.pack("<II", size, size)
    return bytes(content)


HOSTILE = {
    "os.system": (Run(os.system, "touch marker"), "posix.system|nt.system"),
    "eval": (Run(eval, "open('marker', 'w')"), "eval"),
    "open": (Run(open, "marker", "w"), "open"),
    "getattr": (Run(getattr, {}, "clear"), "getattr"),
    "a module": (torch.nn.Linear(1, 1), "torch.nn.modules.linear.Linear"),
    "hidden in a state dict": ({"weight": torch.ones(2), "bias": Run(os.system, "touch marker")}, "system"),
    "numpy": (Run(__import__, "numpy"), "__import__"),
}


@pytest.mark.parametrize("value, says", HOSTILE.values(), ids=HOSTILE)
@pytest.mark.parametrize("options", [{}, {"pickle_protocol": 4}, {"_use_new_zipfile_serialization": False}], ids=str)
def test_hostile_pickles(value, says, options, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    path = tmp_path / "bad.pth"
    path.write_bytes(saved(value, **options))
    with pytest.raises(faults.UnsafePickleError, match=says) as caught:
        load_torch(path)
    assert isinstance(caught.value, pickle.UnpicklingError) and os.listdir(tmp_path) == ["bad.pth"]


def test_these_pickles_are_hostile_indeed(tmp_path, monkeypatch):
    """Unpickled the ordinary way the first of them does its work."""
    monkeypatch.chdir(tmp_path)
    torch.load(io.BytesIO(saved(HOSTILE["os.system"][0])), weights_only=False)
    assert os.listdir(tmp_path) == ["marker"]


TORCH = {
    "empty": (b"", faults.TruncatedError, "empty"),
    "text": (b"not a checkpoint", faults.MagicError, "neither a zip archive nor a pickle"),
    "ends early": (archive()[:-30], faults.TruncatedError, "directory is missing or damaged"),
    "half": (archive()[: len(archive()) // 2], faults.TruncatedError, "directory is missing or damaged"),
    "another zip": (archive(without=["data.pkl"]), faults.ArchiveError, "without data.pkl"),
    "TorchScript": (archive({"constants.pkl": b""}), faults.UnsafePickleError, "TorchScript"),
    "big endian": (archive({"byteorder": b"big"}), faults.ByteOrderError, "byte order is b'big'"),
    "missing storage": (archive(without=["data/0"]), faults.MissingStorageError, "has no data/0"),
    "storage too short": (archive({"data/0": bytes(12)}), faults.LayoutError, "should have 4 elements of 4 bytes"),
    "compressed bomb": (
        archive({"data/0": bytes(10**7)}, compression=zipfile.ZIP_DEFLATED),
        faults.OversizeError,
        "decompression bomb",
    ),
    "directory claims 4 GiB": (lying_directory(2**32 - 2), faults.OversizeError, "claim 4294"),
    "storage of 4 exabytes": (
        edited(b"K\x04", b"\x8a\x08" + (2**60).to_bytes(8, "little")),
        faults.LayoutError,
        "should have 1152921504606846976",
    ),
    "name above the archive": (archive({"../../etc/passwd": b"x"}), faults.UnsafeNameError, "points outside"),
    "absolute name": (archive({"/etc/passwd": b"x"}), faults.UnsafeNameError, "points outside"),
    "name with a drive": (archive({"c:\\x": b"x"}), faults.UnsafeNameError, "points outside"),
    "window outside its storage": (
        edited(b"K\x04\x85q", b"K\x05\x85q"),
        faults.LayoutError,
        r"shape \(5,\).*reaches element 4.*has 4",
    ),
    "offset outside its storage": (edited(b"QK\x00K\x04", b"QK\x07K\x04"), faults.LayoutError, "offset 7"),
    "negative stride": (edited(b"K\x01\x85", b"J\xff\xff\xff\xff\x85"), faults.LayoutError, "cannot be"),
    "pickle ends early": (pickled(b"\x80\x02}q\x00(X\x01"), faults.TruncatedError, "ends too early"),
    "pickle of nothing": (pickled(b""), faults.TruncatedError, "ends too early"),
    "pickle without a stack": (pickled(b"\x80\x02s."), faults.HeaderError, "malformed"),
    "pickle with an unknown memory": (pickled(b"\x80\x02h\x07."), faults.HeaderError, "malformed"),
    "instruction that makes objects": (
        pickled(b"\x80\x02c__builtin__\nset\n)\x81."),
        faults.UnsafePickleError,
        "NEWOBJ",
    ),
    "attribute of a function": (
        pickled(b"\x80\x02ctorch._utils\n_rebuild_tensor_v2\n}X\x0c\x00\x00\x00__defaults__Nsb."),
        faults.UnsafePickleError,
        "would change",
    ),
    "attribute of a state dict": (
        pickled(b"\x80\x02ccollections\nOrderedDict\n)R}X\x05\x00\x00\x00items}sb."),
        faults.UnsafePickleError,
        "other than _metadata",
    ),
    "constructor of tensors": (
        pickled(b"\x80\x02ctorch\nTensor\nJ\xff\xff\xff\x7f\x85R."),
        faults.UnsafePickleError,
        "not a known function",
    ),
    "a class as a value": (pickled(b"\x80\x02ctorch\nFloatStorage\n."), faults.UnsafePickleError, "torch.FloatStorage"),
    "memory index of 2 GiB": (pickled(b"\x80\x02Nr\xff\xff\xff\x7f0h\x00."), faults.HeaderError, "malformed"),
    "text of 4 GiB": (pickled(b"\x80\x02X\xff\xff\xff\xffabc."), faults.TruncatedError, "ends too early"),
    "deep nest as a key": (
        pickled(b"\x80\x02}" + b")" + b"\x85" * 100_000 + b"K\x01s."),
        faults.HeaderError,
        "malformed",
    ),
    "sparse": (saved(torch.eye(2).to_sparse()), DtypeError, "sparse"),
    "eight-bit floats": (saved(torch.ones(2).to(torch.float8_e5m2)), faults.UnsafePickleError, "float8_e5m2"),
    "an old pickle of no tensors": (pickle.dumps({"a": 1}, 2), faults.MagicError, "not one that PyTorch's save wrote"),
}
LEGACY = saved({"a": torch.ones(4)}, _use_new_zipfile_serialization=False)
TORCH |= {
    "old: ends early": (LEGACY[:-3], faults.TruncatedError, "ends inside storage"),
    "old: ends in the tree": (LEGACY[:150], faults.TruncatedError, "ends too early"),
    "old: big endian": (
        LEGACY.replace(b"little_endianq\x02\x88", b"little_endianq\x02\x89"),
        faults.ByteOrderError,
        "not written on a little-endian machine",
    ),
    "old: huge storage": (
        LEGACY.replace(b"K\x04Nt", b"\x8a\x08" + (2**60).to_bytes(8, "little") + b"Nt"),
        faults.OversizeError,
        "more than the file has",
    ),
    "old: another count": (
        LEGACY[:-24] + (9).to_bytes(8, "little") + LEGACY[-16:],
        faults.LayoutError,
        "has 9 elements",
    ),
}


@pytest.mark.parametrize("content, error, says", TORCH.values(), ids=TORCH)
def test_torch_files(content, error, says, tmp_path):
    path = tmp_path / "bad.pth"
    path.write_bytes(content)
    tracemalloc.start()
    try:
        with pytest.raises(error, match=says) as caught:
            load_torch(path)
        assert tracemalloc.get_traced_memory()[1] < 64 * 2**20, "a bad file must not cost much memory"
    finally:
        tracemalloc.stop()
    assert type(caught.value) is error
    load_torch(io.BytesIO(archive()))  # and the next good file is read as ever


def test_a_file_that_grows_when_read_is_not_expanded():
    """Lists of lists of lists: 2 ** 40 elements if it were written out, a hundred objects as it is shared."""
    nested = [1]
    for _ in range(40):
        nested = [nested, nested]
    found = load_torch(io.BytesIO(saved(nested)))
    assert found[0] is found[1]


# ------------------------------------------------------------------------------------------- into a model

STATE = {"weight": (3, 2), "bias": (3,)}
WRONG = {
    "wrong shape": ({"weight": (3, 2), "bias": (4,)}, r"size mismatch for bias: .*\[4\].*\[3\]"),
    "extra key": ({"weight": (3, 2), "bias": (3,), "scale": (1,)}, r'Unexpected key\(s\) in state_dict: "scale"'),
    "missing key": ({"weight": (3, 2)}, r'Missing key\(s\) in state_dict: "bias"'),
    "all at once": (
        {"weight": (1, 2), "scale": (1,)},
        r"(?s)Missing.*bias.*Unexpected.*scale.*size mismatch for weight",
    ),
}


@pytest.mark.parametrize("shapes, says", WRONG.values(), ids=WRONG)
def test_state_dicts_that_do_not_fit_change_nothing(shapes, says, tmp_path):
    torch.save({name: torch.ones(shape) for name, shape in shapes.items()}, tmp_path / "bad.pth")
    model = weft.nn.Linear(2, 3)
    before = [p.detach().clone() for p in model.parameters()]
    for assign in (False, True):
        with pytest.raises(RuntimeError, match=says):
            model.load_state_dict(load_torch(tmp_path / "bad.pth"), assign=assign)
        for p, old in zip(model.parameters(), before, strict=True):
            assert (p == old).all() and isinstance(p, weft.nn.Parameter) and p.requires_grad


def test_lazy_modules_stay_lazy_when_a_state_dict_does_not_fit():
    model = weft.nn.Sequential(weft.nn.LazyLinear(3), weft.nn.Linear(3, 1))
    with pytest.raises(RuntimeError, match="size mismatch"):
        model.load_state_dict(
            {"0.weight": weft.ones(3, 5), "0.bias": weft.ones(3), "1.weight": weft.ones(2), "1.bias": weft.ones(1)}
        )
    assert isinstance(model[0].weight, weft.nn.UninitializedParameter) and model(weft.ones(2, 7)).shape == (2, 1)
