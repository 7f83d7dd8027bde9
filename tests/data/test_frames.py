"""Frames, Arrow tables, Parquet files and folders of `datasets` as data sets: shared memory, and damaged files."""

from __future__ import annotations

import io
import json
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import weft
from weft.data import DataLoader, FrameDataset, from_arrow, from_frame, from_hf, from_parquet
from weft.errors import WeftError
from weft.io import FileFormatError, OversizeError

pa = pytest.importorskip("pyarrow")
import pyarrow.ipc  # noqa: E402
import pyarrow.parquet as pq  # noqa: E402

COLUMNS: dict[str, Any] = {
    "x": np.arange(6, dtype=np.float32) / 2,
    "y": np.array([3, 1, 4, 1, 5, 9], np.int64),
    "text": ["a", "bb", "", "d", "é", "f"],
}


def shares(tensor: weft.Tensor, array: np.ndarray) -> bool:
    return np.shares_memory(tensor.numpy(), array)


@pytest.mark.parametrize("library", ["pandas", "polars", "dict", "structured", "arrow", "batch"])
def test_rows_and_batches_are_those_of_the_frame(library: str) -> None:
    frame: Any = COLUMNS
    if library in ("pandas", "polars"):
        frame = pytest.importorskip(library).DataFrame(COLUMNS)
    elif library == "structured":
        frame = np.array(
            list(zip(*COLUMNS.values(), strict=True)), [("x", np.float32), ("y", np.int64), ("text", object)]
        )
    elif library in ("arrow", "batch"):
        frame = pa.table(COLUMNS)
        frame = frame.to_batches()[0] if library == "batch" else frame
    data = from_frame(frame)
    assert len(data) == 6 and data.column_names == ["x", "y", "text"]
    assert data["x"].dtype is weft.float32 and data["y"].dtype is weft.int64
    row = data[4]
    assert (row["x"].item(), row["y"].item(), row["text"]) == (2.0, 5, "é")
    batches = list(DataLoader(data, batch_size=4))
    assert batches[0]["x"].tolist() == [0, 0.5, 1, 1.5] and batches[1]["text"] == ["é", "f"]
    _, y = data.as_tensors("x", "y").tensors
    np.testing.assert_array_equal(y.numpy(), COLUMNS["y"])
    assert from_frame(frame, ["y"]).column_names == ["y"]
    shuffled = {int(v) for batch in DataLoader(data, batch_size=2, shuffle=True) for v in batch["y"]}
    assert shuffled == set(COLUMNS["y"].tolist())


def test_numbers_are_shared_not_copied() -> None:
    assert shares(from_frame(COLUMNS)["x"], COLUMNS["x"])
    table = pa.table({"x": pa.array(COLUMNS["x"])})
    assert shares(from_frame(table)["x"], table.column("x").chunk(0).to_numpy())
    pandas, polars = pytest.importorskip("pandas"), pytest.importorskip("polars")
    frame = pandas.DataFrame({"x": COLUMNS["x"]})
    assert shares(from_frame(frame)["x"], frame["x"].to_numpy())
    other = polars.DataFrame({"x": COLUMNS["x"]})
    assert shares(from_frame(other)["x"], other["x"].to_numpy())
    window = from_frame(COLUMNS).gather(range(1, 4))["x"]
    assert shares(window, COLUMNS["x"])
    with pytest.raises(ValueError, match="read-only"):
        window.numpy()[0] = 1


def test_gaps_pieces_lists_and_truths() -> None:
    pieces = pa.chunked_array([[1, 2], [3]])
    table = pa.table(
        {
            "whole": pieces,
            "gaps": pa.chunked_array([[1, None], [3]]),
            "pairs": pa.chunked_array([pa.array([[1.0, 2], [3, 4], [5, 6]], pa.list_(pa.float32(), 2))]),
            "lists": [[1], [], [2, 3]],
            "truth": [True, False, True],
            "none": pa.array([None, "a", None]),
        }
    )
    data = from_arrow(table)
    assert data["whole"].tolist() == [1, 2, 3] and data["truth"].dtype is weft.bool
    assert np.isnan(data["gaps"].numpy()[1]) and data["gaps"].numpy()[2] == 3
    assert data["pairs"].tolist() == [[1, 2], [3, 4], [5, 6]]
    assert data[2]["lists"] == [2, 3] and data[0]["none"] is None
    assert len(from_arrow(pa.table({"x": pa.array([], pa.int32())}))) == 0


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda: from_frame(np.zeros(3)), "named fields"),
        (lambda: from_frame(3), "named columns"),
        (lambda: from_frame(COLUMNS, ["z"]), "there are x, y, text"),
        (lambda: from_frame({}), "one length"),
        (lambda: FrameDataset({"a": weft.zeros(2), "b": [1]}), "one length"),
        (lambda: from_frame(COLUMNS)[6], "below 6"),
        (lambda: from_frame(COLUMNS)["z"], "no column 'z'"),
        (lambda: from_frame(COLUMNS).as_tensors("text"), "no numbers"),
        (lambda: from_hf("nowhere"), "no folder or file"),
        (lambda: from_parquet("nowhere.parquet"), "no such file"),
    ],
)
def test_what_cannot_be_says_why(call: Any, words: str) -> None:
    with pytest.raises(WeftError, match=words):
        call()


# ------------------------------------------------------------------------------------------- folders


def write_stream(table: Any, file: Path) -> None:
    with pa.OSFile(str(file), "wb") as sink, pyarrow.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table)


def save_to_disk(
    table: Any, folder: Path, pieces: int = 1, indices: list[int] | None = None, split: str = "train"
) -> None:
    """What `datasets.Dataset.save_to_disk` leaves: Arrow streams, state.json, dataset_info.json."""
    folder.mkdir(parents=True)
    step = -(-len(table) // pieces)
    names = [f"data-{i:05}-of-{pieces:05}.arrow" for i in range(pieces)]
    for i, name in enumerate(names):
        write_stream(table.slice(i * step, step), folder / name)
    state: dict[str, Any] = {"_data_files": [{"filename": name} for name in names], "_split": split}
    if indices is not None:
        write_stream(pa.table({"indices": pa.array(indices, pa.uint64())}), folder / "indices.arrow")
        state["_indices_files"] = [{"filename": "indices.arrow"}]
    (folder / "state.json").write_text(json.dumps(state))
    (folder / "dataset_info.json").write_text("{}")


def test_folders_of_datasets(tmp_path: Path) -> None:
    table = pa.table({key: pa.array(value) for key, value in COLUMNS.items()})
    save_to_disk(table, tmp_path / "one", pieces=2)
    data = from_hf(tmp_path / "one")
    assert len(data) == 6 and data[5]["text"] == "f" and data[5]["y"].item() == 9
    save_to_disk(table, tmp_path / "chosen", indices=[5, 0])
    chosen = from_hf(tmp_path / "chosen", "train")
    assert len(chosen) == 2 and chosen[0]["y"].item() == 9
    assert [batch["y"].tolist() for batch in DataLoader(chosen, batch_size=2)] == [[9, 3]]
    for split in ("train", "test"):
        save_to_disk(table, tmp_path / "both" / split, split=split)
    (tmp_path / "both" / "dataset_dict.json").write_text(json.dumps({"splits": ["train", "test"]}))
    assert set(from_hf(tmp_path / "both")) == {"train", "test"}
    assert len(from_hf(tmp_path / "both", "test", ["x"])) == 6
    with pytest.raises(weft.errors.OptionError, match="there are train, test"):
        from_hf(tmp_path / "both", "dev")


def test_arrow_files_are_mapped_and_pictures_opened(tmp_path: Path) -> None:
    image = pytest.importorskip("PIL.Image")
    memory = io.BytesIO()
    image.fromarray(np.full((4, 5, 3), 7, np.uint8)).save(memory, "PNG")
    pictures = pa.array([{"bytes": memory.getvalue(), "path": None}])
    table = pa.table({"image": pictures, "label": pa.array([1])})
    save_to_disk(table, tmp_path / "pictures")
    found = from_hf(tmp_path / "pictures")[0]
    assert found["image"].size == (5, 4) and found["label"].item() == 1
    big = pa.table({"x": pa.array(np.arange(1 << 16, dtype=np.float64))})
    write_stream(big, tmp_path / "big.arrow")
    before = pa.total_allocated_bytes()
    data = from_hf(tmp_path / "big.arrow")
    assert data["x"][-1].item() == 65535 and pa.total_allocated_bytes() - before < 1 << 16  # windows on the file


def test_parquet_of_the_hub(tmp_path: Path) -> None:
    table = pa.table(COLUMNS)
    (tmp_path / "data").mkdir()
    for name in ("train-00000-of-00002", "train-00001-of-00002", "test-00000-of-00001"):
        pq.write_table(table, tmp_path / "data" / f"{name}.parquet")
    found = from_hf(tmp_path)
    assert {name: len(data) for name, data in found.items()} == {"train": 12, "test": 6}
    one = from_parquet(tmp_path / "data/test-00000-of-00001.parquet", ["text", "x"])
    assert one.column_names == ["text", "x"] and one[1]["text"] == "bb"


# ------------------------------------------------------------------------------------------- hostile files


def parquet_bytes() -> bytes:
    memory = io.BytesIO()
    pq.write_table(pa.table(COLUMNS), memory)
    return memory.getvalue()


def refused(path: Path) -> None:
    begin = time.process_time()
    with pytest.raises(FileFormatError):
        from_parquet(path)
    assert time.process_time() - begin < 2


def test_parquet_cut_anywhere_is_refused(tmp_path: Path) -> None:
    whole, path = parquet_bytes(), tmp_path / "x.parquet"
    for length in range(0, len(whole), max(len(whole) // 60, 1)):
        path.write_bytes(whole[:length])
        refused(path)


@pytest.mark.parametrize("footer", [0, 1, 2**31 - 1, 2**32 - 1])
def test_parquet_with_a_wrong_footer_is_refused(footer: int, tmp_path: Path) -> None:
    whole = parquet_bytes()
    (tmp_path / "x.parquet").write_bytes(whole[:-8] + footer.to_bytes(4, "little") + b"PAR1")
    refused(tmp_path / "x.parquet")
    (tmp_path / "y.parquet").write_bytes(b"PAR1" + bytes(100) + footer.to_bytes(4, "little") + b"PAR1")
    refused(tmp_path / "y.parquet")


def test_parquet_that_unpacks_to_far_more_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A constant column of ten million values in a few kilobytes, where less is allowed."""
    from weft.data import arrow

    path = tmp_path / "x.parquet"
    pq.write_table(pa.table({"x": pa.array(np.zeros(10**6))}), path)
    assert path.stat().st_size < 10**5 and len(from_parquet(path)) == 10**6
    monkeypatch.setattr(arrow, "ALWAYS", 1 << 16)
    monkeypatch.setattr(arrow, "GROWTH", 2)
    with pytest.raises(OversizeError, match="1000000 rows"):
        from_parquet(path)


def test_random_damage_never_ends_in_an_error_of_python(tmp_path: Path) -> None:
    whole, random, path = parquet_bytes(), np.random.default_rng(0), tmp_path / "x.parquet"
    for _ in range(150):
        damaged = bytearray(whole)
        for place in random.integers(0, len(whole), 2):
            damaged[place] = random.integers(0, 256)
        path.write_bytes(damaged)
        try:
            data = from_parquet(path)
            _ = [data[i] for i in range(len(data))]
        except WeftError:
            pass


def test_folders_that_reach_outside_or_lie(tmp_path: Path) -> None:
    table = pa.table(COLUMNS)
    for number, (change, words) in enumerate(
        [
            ({"_data_files": [{"filename": "../secret.arrow"}]}, "lie in the folder"),
            ({"_data_files": [{"filename": 3}]}, "lie in the folder"),
            ({"_data_files": "all"}, "list of files"),
            ({"_data_files": []}, "names no files"),
            ({"_data_files": [{"filename": "gone.arrow"}]}, "no such file"),
        ]
    ):
        folder = tmp_path / str(number)
        save_to_disk(table, folder)
        (folder / "state.json").write_text(json.dumps(change))
        with pytest.raises(WeftError, match=words):
            from_hf(folder)
    save_to_disk(table, tmp_path / "beyond", indices=[6])
    with pytest.raises(FileFormatError, match="do not have"):
        from_hf(tmp_path / "beyond")
    save_to_disk(table, tmp_path / "cut")
    file = tmp_path / "cut/data-00000-of-00001.arrow"
    whole = file.read_bytes()
    for length in (0, 10, len(whole) // 2, len(whole) - 40):
        file.write_bytes(whole[:length])
        with pytest.raises(FileFormatError, match="Arrow"):
            from_hf(tmp_path / "cut")
    (tmp_path / "empty").mkdir()
    with pytest.raises(WeftError, match=r"expected state\.json"):
        from_hf(tmp_path / "empty")
