"""Files that are made to cost time or memory: each is refused by an error of Weft's, soon and in a few words."""

from __future__ import annotations

import gzip
import io
import json
import os
import pickle
import struct
import tarfile
import time
import tracemalloc
import zipfile

import numpy as np
import pytest
import torch

import weft
from weft.data.sources import files
from weft.data.sources.idx import read_idx
from weft.data.sources.pickles import read_pickle
from weft.data.sources.read_tables import read_table
from weft.data.text import WordTokenizer, load_tokenizer
from weft.data.text.patterns import check_pattern
from weft.errors import WeftError
from weft.io import FileFormatError, load_file, load_torch
from weft.io.bounded import brief, load_json
from weft.models.pretrained.huggingface import from_pretrained

SECONDS, CHARACTERS = 5.0, 2000  # far above what they take, far below what they took


def refused(read, *given, says=None, kind=WeftError):
    start = time.process_time()
    with pytest.raises(kind, match=says) as caught:
        read(*given)
    assert time.process_time() - start < SECONDS and len(str(caught.value)) < CHARACTERS
    return caught.value


# ------------------------------------------------------------------------------------------- pickles


def archive(pickled):
    file = io.BytesIO()
    torch.save({"a": torch.ones(4)}, file)
    source, out = zipfile.ZipFile(file), io.BytesIO()
    with zipfile.ZipFile(out, "w") as made:
        for name in source.namelist():
            made.writestr(name, pickled if name.endswith("data.pkl") else source.read(name))
    return io.BytesIO(out.getvalue())


def shared(levels=60):
    """t = (t, t) so many times, by the memo."""
    return b")" + b"".join(
        b"r" + struct.pack("<I", k) + b"0" + 2 * (b"j" + struct.pack("<I", k)) + b"\x86" for k in range(levels)
    )


CALLS = {
    "a storage": b"\x80\x02" + shared() + b"Q.",
    "a size": b"\x80\x02ctorch\nSize\n" + shared() + b"\x85R.",
    "a device": b"\x80\x02ctorch\ndevice\n" + shared() + b"\x85R.",
    "a layout": b"\x80\x02ctorch.serialization\n_get_layout\n" + shared() + b"\x85R.",
    "an encoding": b"\x80\x02c_codecs\nencode\nX\x01\x00\x00\x00a" + shared() + b"\x86R.",
    "a tensor": b"\x80\x02ctorch._utils\n_rebuild_tensor_v2\n(" + 4 * shared() + b"tR.",
    "a key": b"\x80\x02}" + shared() + b"K\x01s.",
    "an element of a set": b"\x80\x02cbuiltins\nset\n]" + shared() + b"a\x85R.",
}


@pytest.mark.parametrize("name", CALLS)
def test_shared_tuples_are_not_written_out(name):
    refused(load_torch, archive(CALLS[name]), kind=FileFormatError)


def legacy(keys):
    """A file of the old format: magic, protocol, machine, an empty tree, the keys of storages."""
    parts = [0x1950A86A20F9469CFC6C, 1001, {"little_endian": True}, {}]
    return io.BytesIO(b"".join(pickle.dumps(part, 2) for part in parts) + b"\x80\x02" + keys + b".")


def test_shared_tuples_as_keys_of_storages():
    refused(load_torch, legacy(b"]" + shared() + b"a"), says="keys of the storages should be a list of strings")
    machine = pickle.dumps(0x1950A86A20F9469CFC6C, 2) + pickle.dumps(1001, 2) + b"\x80\x02" + shared() + b"."
    refused(load_torch, io.BytesIO(machine), says="little-endian")


def test_numbers_of_one_hash():
    """Multiples of 2⁶¹ - 1 all have the hash 0: a dictionary of them takes quadratic time."""
    many = {k * (2**61 - 1): 0 for k in range(9, 12)}
    refused(load_torch, archive(pickle.dumps(many, 2)), says="bits as a key")
    assert load_torch(archive(pickle.dumps({2**62: 1, -5: 2}, 2))) == {2**62: 1, -5: 2}


def test_many_storages_take_linear_time():
    """20,000 storages of the old format: their sum was taken anew for each."""
    entry = "(X\x07\x00\x00\x00storagectorch\nFloatStorage\nX\x05\x00\x00\x00{:05d}X\x03\x00\x00\x00cpuK\x00NtQ"
    tree = b"\x80\x02]" + b"".join(entry.format(k).encode() + b"0" for k in range(20_000)) + b"."
    parts = [0x1950A86A20F9469CFC6C, 1001, {"little_endian": True}]
    content = b"".join(pickle.dumps(part, 2) for part in parts) + tree
    refused(load_torch, io.BytesIO(content + pickle.dumps(["x"], 2)), says="used by tensors and not in the file")


def test_many_arrays_in_a_pickle_take_linear_time():
    """10,000 arrays: each searched the whole memo for itself."""
    arrays = [np.full(1, k, np.int32) for k in range(10_000)]
    start = time.process_time()
    found = read_pickle(pickle.dumps(arrays, 2), "many")
    assert time.process_time() - start < SECONDS and [int(x[0]) for x in found[:3]] == [0, 1, 2]


def test_arrays_of_absurd_shapes():
    content = pickle.dumps(np.zeros((3, 1), np.int32), 2)
    assert content.count(b"K\x03K\x01\x86") == 1
    for shape in (b"(" + b"K\x01" * 100_000 + b"t", shared() + b"\x85", b"(" + b"I" + b"9" * 4000 + b"\nt"):
        refused(read_pickle, content.replace(b"K\x03K\x01\x86", shape), "absurd", kind=FileFormatError)


# ------------------------------------------------------------------------------------------- safetensors


def tensors(header, data=b""):
    return io.BytesIO(len(header).to_bytes(8, "little") + header + data)


HEADERS = {
    "names twice": (b"{" + b",".join(b'"%06d":0' % (k // 2 if k > 99_998 else k) for k in range(100_000)) + b"}"),
    "a list as an entry": b'{"a":' + json.dumps(list(range(200_000))).encode() + b"}",
    "a long name": b'{"' + b"a" * 1_200_000 + b'":5}',
    "many dimensions": b'{"a":{"dtype":"F32","shape":['
    + b",".join([b"9223372036854775807"] * 60_000)
    + b'],"data_offsets":[0,4]}}',
    "metadata": b'{"__metadata__":' + json.dumps({str(k): k for k in range(100_000)}).encode() + b"}",
    "a type that is a list": b'{"a":{"dtype":[[[]]],"shape":[1],"data_offsets":[0,4]}}',
    "a nest": b'{"a":' + b'{"b":' * 100_000 + b"1" + b"}" * 100_001,
}


@pytest.mark.parametrize("name", HEADERS)
@pytest.mark.parametrize("read", [load_file, weft.load])
def test_headers_of_safetensors(read, name):
    refused(read, tensors(HEADERS[name]))


# ------------------------------------------------------------------------------------------- tables


@pytest.mark.parametrize(
    "content, says",
    [
        ("x," * 100_000 + "x\n1\n", "two columns are called 'x'"),
        (",".join(f"c{k}" for k in range(50_000)) + "\n" + "1\n" * 3, "1 cells instead of 50000"),
        ("a\n" + "9" * 100_000 + "\nb\n", None),
        ("a\n" + "x" * 1_000_000 + "\n", "field larger than field limit"),
    ],
)
def test_tables(content, says, tmp_path):
    (tmp_path / "a.csv").write_text(content)
    start = time.process_time()
    if says is None:
        assert read_table(tmp_path / "a.csv").shape == (2, 1)
    else:
        refused(lambda path: read_table(path, header=True), tmp_path / "a.csv", says=says)
    assert time.process_time() - start < SECONDS


def test_a_table_of_many_columns_takes_linear_time(tmp_path):
    count = 20_000
    (tmp_path / "a.csv").write_text(",".join(f"c{k}" for k in range(count)) + "\n" + "1," * (count - 1) + "1\n")
    start = time.process_time()
    assert read_table(tmp_path / "a.csv").shape == (1, count)
    assert time.process_time() - start < SECONDS


# ------------------------------------------------------------------------------------------- bombs


@pytest.fixture
def narrow(monkeypatch):
    """Limits of megabytes instead of gigabytes, and a bomb of 64 MB."""
    monkeypatch.setattr(files, "PLAIN_SIZE", 1 << 20)
    return bytes(64 << 20)


def memory_of(work):
    tracemalloc.start()
    try:
        work()
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


def test_gzip_bombs(narrow, tmp_path):
    path = tmp_path / "a.gz"
    path.write_bytes(gzip.compress(narrow))
    for read in (files.content, read_idx, read_table):
        assert memory_of(lambda read=read: refused(read, path, says="unpacked it would take more than")) < 40 << 20
    path.write_bytes(gzip.compress(os.urandom(1 << 18) * 3))
    assert len(files.content(path)) == 3 << 18


@pytest.mark.parametrize("kind", ["one large file", "zeros after the end"])
def test_tar_bombs(kind, narrow, tmp_path):
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w") as tar:
        entry = tarfile.TarInfo("a")
        entry.size = len(narrow) if kind == "one large file" else 3
        tar.addfile(entry, io.BytesIO(narrow))
    (tmp_path / "a.tar.gz").write_bytes(gzip.compress(packed.getvalue() + (narrow if entry.size == 3 else b"")))
    for read in (files.members, lambda path: files.unpack(path, tmp_path / "out")):
        assert memory_of(lambda read=read: refused(read, tmp_path / "a.tar.gz", says="would take")) < 40 << 20
    assert not list(tmp_path.glob("out/*"))


# ------------------------------------------------------------------------------------------- pipes


def test_pipes_are_refused_at_once(tmp_path):
    """Opening one would wait for somebody to write to it."""
    path = tmp_path / "pipe"
    os.mkfifo(path)
    for read in (files.content, files.text, files.members, read_idx, load_json, load_tokenizer, load_file, load_torch):
        refused(read, path, says="named pipe")


# ------------------------------------------------------------------------------------------- JSON

NESTS = {
    "brackets": b"[" * 100_000,
    "objects": b'{"model_type":"bert","a":' + b'{"b":' * 900 + b"1" + b"}" * 901,
    "no JSON": b"{",
    "a list": b"[]",
    "digits": b'{"a":' + b"9" * 100_000 + b"}",
}


@pytest.mark.parametrize("name", NESTS)
def test_config_files(name, tmp_path):
    (tmp_path / "config.json").write_bytes(NESTS[name])
    refused(from_pretrained, tmp_path, says="expected")
    (tmp_path / "tokenizer.json").write_bytes(NESTS[name])
    refused(load_tokenizer, tmp_path)


def test_json_files_of_any_size(tmp_path, monkeypatch):
    monkeypatch.setattr("weft.io.bounded.LARGEST_JSON", 1000)
    (tmp_path / "a").write_text(json.dumps("x" * 2000))
    refused(load_json, tmp_path / "a", says="more than 1000 bytes")


# ------------------------------------------------------------------------------------------- regular expressions

BOMBS = [
    *("(a+)+", "(a*)*b", "(a|a)*", "(a|aa)+$", "([a-z]+)*", r"(\w+\s?)*$", "((a+)b?)+", "(a{1,}){2,}", "(x+x+)+y"),
    *(
        r"(?:[\w-]+)+",
        r"(?:\p{L}+)*",
        "(?P<n>a+)+",
        "(.*)*",
        "(a+|b)*",
        "(a{0,99})*",
        r"(\d|\w)*",
        "(?:-[a-z-]+)*",
        "(?:[ab]|b)+",
        "(?:[-a]a+)*",
    ),
]
FINE = [
    r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+",
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+",
    r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+(?i:'s|'t|'re|'ve|'m|'ll|'d)?",
    r"[a-z]+(?:-[a-z]+)*", r"(?:\r\n|\n)+", "(ab)+", "(?>a+)+", "(?:a+)++", r"\d+(?:,\d{3})*(?:\.\d+)?", "", "a)", "[]a]+", "(?:[a-z]+ )+", r"\w+(?:['’]\w+)*", "(?:[ab]|c)+",
    r"\w+(?:'\w+)?|[^\w\s]",
]  # fmt: skip


@pytest.mark.parametrize("pattern", BOMBS)
def test_patterns_that_explode_are_refused(pattern, tmp_path):
    refused(check_pattern, pattern, "a file", says="exponential time")
    fields = {
        "added_tokens": [],
        "pre_tokenizer": {"type": "Sequence", "pretokenizers": [{"pattern": {"Regex": pattern}}]},
    }
    (tmp_path / "tokenizer.json").write_text(json.dumps(fields))
    refused(load_tokenizer, tmp_path, says="exponential time")


@pytest.mark.parametrize("pattern", FINE)
def test_patterns_of_real_tokenisers_are_taken(pattern):
    assert check_pattern(pattern, "a file") == pattern


def test_a_word_tokeniser_with_a_bomb(tmp_path):
    WordTokenizer.train(["a b"], pattern="[a-z]+(?:-[a-z]+)*").save(tmp_path)
    assert load_tokenizer(tmp_path).encode("b") == WordTokenizer.train(["a b"]).encode("b")
    text = (tmp_path / "tokenizer.json").read_text()
    (tmp_path / "tokenizer.json").write_text(text.replace("[a-z]+(?:-[a-z]+)*", "(a+)+$"))
    refused(load_tokenizer, tmp_path, says="exponential time")
    (tmp_path / "tokenizer.json").write_text(text.replace("[a-z]+(?:-[a-z]+)*", "a" * 20_000))
    refused(load_tokenizer, tmp_path, says="20000 characters")


# ------------------------------------------------------------------------------------------- values in messages


def test_values_in_messages():
    endless = ()
    for _ in range(100):
        endless = (endless, endless)
    assert brief(endless) == "a tuple of 2" and brief([1, 2]) == "[1, 2]" and brief("abc") == "'abc'"
    assert brief(1 << 10_000) == "a number of 10001 bits" and len(brief("x" * 10**6)) < 130 and brief(None) == "None"
