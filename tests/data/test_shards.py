"""Sharded streams: every sample once, over any split, resumable anywhere; damaged folders are named."""

from __future__ import annotations

import hashlib
import json

import numpy as np
import pytest
import safetensors.numpy

import weft
from weft.data import DataLoader, ShardedDataset, ShardWriter
from weft.data.shards import shuffled
from weft.errors import OptionError, ShapeError
from weft.io.errors import FileFormatError, HeaderError, TruncatedError

COUNT = 100
IMAGES = np.random.default_rng(0).random((COUNT, 4, 5), np.float32)


def write(folder, count=COUNT, shard_bytes=1500):
    with ShardWriter(folder, shard_bytes) as out:
        for i in range(count):
            out.write((IMAGES[i], i))
    return folder


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return write(tmp_path_factory.mktemp("shards") / "set")


def numbers(stream):
    return [int(row[1]) for row in stream]


def test_shards_are_safetensors_files_with_digests(folder):
    index = json.loads((folder / "index.json").read_text())
    assert sum(shard["rows"] for shard in index["shards"]) == COUNT and len(index["shards"]) > 4
    start = 0
    for shard in index["shards"]:
        data = (folder / shard["file"]).read_bytes()
        assert (hashlib.sha256(data).hexdigest(), len(data)) == (shard["sha256"], shard["bytes"])
        held = safetensors.numpy.load(data)
        np.testing.assert_array_equal(held["0"], IMAGES[start : start + shard["rows"]])
        assert held["1"].tolist() == list(range(start, start + shard["rows"]))
        start += shard["rows"]


def test_rows_in_the_order_of_writing(folder):
    stream = ShardedDataset(folder, shuffle=False, verify=True)
    rows = list(stream)
    assert numbers(rows) == list(range(COUNT)) and len(stream) == COUNT
    np.testing.assert_array_equal(np.stack([row[0].numpy() for row in rows]), IMAGES)


@pytest.mark.parametrize("size", [1, 7, 64, 1000])
def test_shuffling_gives_every_row_once(folder, size):
    stream = ShardedDataset(folder, buffer_size=size, seed=3)
    first = numbers(stream)
    assert sorted(first) == list(range(COUNT)) and first != list(range(COUNT))
    assert numbers(stream) == first  # the same epoch
    stream.set_epoch(1)
    assert sorted(numbers(stream)) == list(range(COUNT)) and numbers(stream) != first


def test_a_buffer_as_large_as_the_stream_shuffles_uniformly():
    """χ² of where item 0 of 8 comes to lie, 4000 times: 7 degrees of freedom, 24.3 at 0.1 %."""
    places = [list(shuffled(iter(range(8)), 8, weft.Generator().manual_seed(s))).index(0) for s in range(4000)]
    counts = np.bincount(places, minlength=8)
    assert ((counts - 500) ** 2 / 500).sum() < 24.3


def test_a_small_buffer_never_gives_a_row_before_it_was_read():
    order = list(shuffled(iter(range(1000)), 10, weft.Generator().manual_seed(0)))
    assert sorted(order) == list(range(1000)) != order
    assert all(item < place + 11 for place, item in enumerate(order))


@pytest.mark.parametrize("shuffle", [False, True])
@pytest.mark.parametrize("world", [1, 2, 3, 16])
def test_ranks_share_the_rows(folder, world, shuffle):
    """Also where there are more ranks than shards: shards are then cut."""
    parts = [numbers(ShardedDataset(folder, shuffle, seed=1, rank=r, world_size=world)) for r in range(world)]
    assert sorted(n for part in parts for n in part) == list(range(COUNT)) and all(parts)


def test_rank_and_world_come_from_the_environment(folder, monkeypatch):
    monkeypatch.setenv("WORLD_SIZE", "2")
    monkeypatch.setenv("RANK", "1")
    stream = ShardedDataset(folder, seed=0)
    assert (stream.rank, stream.world_size) == (1, 2) and 0 < len(numbers(stream)) < COUNT


@pytest.mark.parametrize("workers", [0, 1, 2])
def test_loaders_split_it_over_workers_and_continue_exactly(folder, workers):
    make = lambda seed: DataLoader(ShardedDataset(folder, buffer_size=20, seed=seed), 8, num_workers=workers, seed=0)
    batches = lambda loader: [batch[1].tolist() for batch in loader]
    a, b = make(1), make(2)
    epochs = [batches(a), batches(a)]
    for epoch in epochs:
        assert sorted(n for batch in epoch for n in batch) == list(range(COUNT))
    assert epochs[0] != epochs[1]
    a.set_epoch(0)
    iterator = iter(a)
    [next(iterator) for _ in range(5)]
    b.load_state_dict(a.state_dict())
    assert batches(b) == epochs[0][5:] and batches(b) == epochs[1]


def test_a_stream_of_its_own_continues(folder):
    a, b = ShardedDataset(folder, seed=1), ShardedDataset(folder, seed=2)
    a.set_epoch(4)
    iterator = iter(a)
    [next(iterator) for _ in range(33)]
    assert a.state_dict() == {"seed": 1, "epoch": 4, "samples_given": 33}
    b.load_state_dict(a.state_dict())
    assert numbers(b) == numbers(iterator)
    assert b.state_dict() == {"seed": 1, "epoch": 5, "samples_given": 0}


def test_going_to_a_position_reads_no_rows_before_it(folder, monkeypatch):
    stream, read = ShardedDataset(folder, seed=1), []
    original = ShardedDataset._read
    monkeypatch.setattr(ShardedDataset, "_read", lambda self, places: read.extend(places) or original(self, places))
    wanted = numbers(stream)[90:]
    read.clear()
    assert numbers(stream.start_at(90)) == wanted and len(read) == 10


@pytest.mark.parametrize("kind", ["single", "dict", "tuple"])
def test_kinds_of_samples(tmp_path, kind):
    make = {
        "single": lambda i: weft.full((2,), float(i)),
        "dict": lambda i: {"b": np.int64(i), "a": np.arange(3) < i},
        "tuple": lambda i: (float(i), np.zeros(0, np.uint8)),
    }[kind]
    with ShardWriter(tmp_path / "s") as out:
        for i in range(3):
            out.write(make(i))
    for i, row in enumerate(ShardedDataset(tmp_path / "s", shuffle=False)):
        parts, wanted = (list(x.values()) if kind == "dict" else x for x in (row, make(i)))
        for found, value in zip(*([p] if kind == "single" else p for p in (parts, wanted)), strict=True):
            np.testing.assert_array_equal(found.numpy(), np.asarray(value))


def test_transforms_are_applied_to_rows(folder):
    assert next(iter(ShardedDataset(folder, shuffle=False, transform=lambda row: -row[1]))).item() == 0


def test_an_empty_set(tmp_path):
    with ShardWriter(tmp_path / "s"):
        pass
    assert list(ShardedDataset(tmp_path / "s")) == [] and list(DataLoader(ShardedDataset(tmp_path / "s"), 4)) == []


def test_many_shards_do_not_use_up_descriptors(tmp_path):
    write(tmp_path / "s", shard_bytes=1)
    stream = ShardedDataset(tmp_path / "s", seed=0)
    assert sorted(numbers(stream)) == list(range(COUNT)) and len(stream._open) <= 64


# ------------------------------------------------------------------------------------------- faults


@pytest.mark.parametrize("sample", [(IMAGES[0],), (IMAGES[0][:2], 1), {"0": IMAGES[0], "1": 1}, (IMAGES[0], 1.0)])
def test_samples_that_differ_from_the_first(tmp_path, sample):
    with pytest.raises(ShapeError, match="same fields"), ShardWriter(tmp_path / "s") as out:
        out.write((IMAGES[0], 0))
        out.write(sample)
    with pytest.raises(FileFormatError, match="index is written last"):
        ShardedDataset(tmp_path / "s")  # an error leaves no index


def test_values_that_are_no_numbers(tmp_path):
    with pytest.raises(TypeError, match="field '0'"), ShardWriter(tmp_path / "s") as out:
        out.write("text")


def test_a_finished_folder_is_not_written_over(folder):
    with pytest.raises(OptionError, match="already holds shards"), ShardWriter(folder):
        pass


def test_folders_that_are_no_sets(tmp_path):
    with pytest.raises(FileFormatError, match=r"no index\.json"):
        ShardedDataset(tmp_path)
    for text in (
        "",
        "[]",
        '{"format": "other", "shards": []}',
        '{"format": "weft-shards-1", "shards": [{"file": "../x"}]}',
    ):
        (tmp_path / "index.json").write_text(text)
        with pytest.raises(HeaderError, match=r"index\.json"):
            ShardedDataset(tmp_path)


def test_damaged_shards_are_named(tmp_path):
    write(tmp_path / "s")
    shard = tmp_path / "s" / "shard-00001.safetensors"
    data = shard.read_bytes()
    shard.write_bytes(data[:-1] + bytes([data[-1] ^ 1]))
    with pytest.raises(FileFormatError, match=r"shard-00001\.safetensors: the SHA-256 digest"):
        list(ShardedDataset(tmp_path / "s", verify=True))
    shard.write_bytes(data[:-10])
    with pytest.raises(TruncatedError, match=rf"says {len(data)} bytes, the file has {len(data) - 10}"):
        list(ShardedDataset(tmp_path / "s"))
    shard.unlink()
    with pytest.raises(FileFormatError, match="missing"):
        list(ShardedDataset(tmp_path / "s"))


def test_a_wrong_buffer(folder):
    with pytest.raises(OptionError, match="buffer_size"):
        ShardedDataset(folder, buffer_size=0)
