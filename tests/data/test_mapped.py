"""Arrays that stay on disk: the same rows as NumPy's, files that are wrong, and memory that stays bounded."""

from __future__ import annotations

import os
import pathlib
import pickle
import subprocess
import sys

import ml_dtypes
import numpy as np
import pytest

import weft
from weft.data import ArrayWriter, DataLoader, MappedArray, MappedDataset, TensorDataset
from weft.errors import DtypeError, IndexRangeError, OptionError, ShapeError
from weft.io.errors import HeaderError, MagicError, TruncatedError

ROWS = np.random.default_rng(0).standard_normal((101, 3, 4)).astype(np.float32)


@pytest.fixture
def path(tmp_path):
    np.save(tmp_path / "rows.npy", ROWS)
    return tmp_path / "rows.npy"


@pytest.mark.parametrize(
    "index",
    [0, -1, np.int64(7), slice(3, 9), slice(90, 200), slice(50, 2, -7), [5, 5, 0, -2], np.arange(101)[::-1], []],
)
def test_rows_are_those_of_numpy(path, index):
    mapped = MappedArray(path)
    found = mapped[index]
    np.testing.assert_array_equal(found, ROWS[index])
    assert found.dtype == np.float32 and mapped.shape == ROWS.shape and mapped.nbytes == ROWS.nbytes


def test_many_rows_in_any_order(path):
    rows = np.random.default_rng(1).integers(0, 101, 5000)  # more than one call may take, with runs and repetitions
    np.testing.assert_array_equal(MappedArray(path).read(rows), ROWS[rows])
    np.testing.assert_array_equal(MappedArray(path).read(np.sort(rows)), ROWS[np.sort(rows)])


@pytest.mark.parametrize("index", [101, -102, [0, 500]])
def test_rows_that_are_not_there(path, index):
    with pytest.raises(IndexRangeError, match=r"0\.\.100"):
        MappedArray(path)[index]


@pytest.mark.parametrize("shape", [(101, 12), (-1, 3, 4), (-1,), (101, -1)])
def test_raw_numbers(tmp_path, shape):
    (tmp_path / "raw").write_bytes(b"sixteen bytes...."[:16] + ROWS.tobytes())
    found = MappedArray(tmp_path / "raw", "float32", shape, offset=16)
    np.testing.assert_array_equal(found[:], ROWS.reshape(shape))


@pytest.mark.parametrize("shape", [(), (-1, -1), (-2, 3), (-1, 7), (-1, 0)])
def test_raw_shapes_that_do_not_fit(tmp_path, shape):
    (tmp_path / "raw").write_bytes(ROWS.tobytes())
    with pytest.raises((ShapeError, TruncatedError)):
        MappedArray(tmp_path / "raw", "float32", shape)


@pytest.mark.parametrize("keep", [0, 5, 40, 127, 128, 300])
def test_files_cut_short(path, keep):
    path.write_bytes(path.read_bytes()[:keep])
    with pytest.raises((TruncatedError, MagicError), match=r"rows\.npy"):
        MappedArray(path)


def test_a_file_cut_short_while_it_is_used(path):
    mapped = MappedArray(path)
    os.truncate(path, 500)
    with pytest.raises(TruncatedError, match="was cut short"):
        mapped[90]


@pytest.mark.parametrize(
    "array, error",
    [
        (np.asfortranarray(ROWS), HeaderError),
        (np.float32(3), ShapeError),
        (np.array([{}, None]), DtypeError),
        (np.array(["a", "b"]), DtypeError),
    ],
    ids=["column by column", "0-d", "objects", "strings"],
)
def test_arrays_that_have_no_rows_of_numbers(tmp_path, array, error):
    np.save(tmp_path / "odd.npy", array, allow_pickle=True)
    with pytest.raises(error, match=r"odd\.npy"):
        MappedDataset(tmp_path / "odd.npy")


def test_missing_and_foreign_files(tmp_path):
    with pytest.raises(FileNotFoundError):
        MappedArray(tmp_path / "nothing.npy")
    (tmp_path / "text.npy").write_text("not an array, but long enough to have a header")
    with pytest.raises(MagicError, match="give dtype and shape"):
        MappedArray(tmp_path / "text.npy")


def test_the_set_equals_one_in_memory(path):
    labels = np.arange(101)
    mapped, held = MappedDataset(path, labels), TensorDataset(ROWS, labels)
    assert len(mapped) == 101 and (mapped[7][0] == held[7][0]).all() and mapped[-1][1].item() == 100
    for workers in (0, 2):
        a, b = (DataLoader(data, 8, True, seed=1, num_workers=n) for data, n in ((mapped, workers), (held, 0)))
        for (x, i), (y, j) in zip(a, b, strict=True):
            assert (x == y).all() and (i == j).all()
    for (x, _), (y, _) in zip(DataLoader(mapped, 8), DataLoader(held, 8), strict=True):
        assert (x == y).all()


def test_pickles_hold_the_path_only(path):
    text = pickle.dumps(MappedDataset(path))
    assert len(text) < 1000
    assert (pickle.loads(text)[3][0].numpy() == ROWS[3]).all()


def test_sets_that_do_not_fit(path):
    with pytest.raises(ShapeError, match=r"\[101, 100\]"):
        MappedDataset(path, np.zeros(100))
    with pytest.raises(OptionError):
        MappedDataset()


def test_descriptors_and_maps_are_given_back(path):
    count = lambda: (len(os.listdir("/proc/self/fd")), pathlib.Path("/proc/self/maps").read_text().count("rows.npy"))
    before = count()
    for _ in range(20):
        MappedArray(path)[0]
    assert count() == before


# ------------------------------------------------------------------------------------------- writing


@pytest.mark.parametrize("pieces", [[ROWS], [ROWS[:1], ROWS[1:50], ROWS[50:50], ROWS[50:]], [], [weft.tensor(ROWS)]])
def test_pieces_become_one_array(tmp_path, pieces):
    with ArrayWriter(tmp_path / "out.npy", (3, 4)) as out:
        for piece in pieces:
            out.append(piece)
    np.testing.assert_array_equal(np.load(tmp_path / "out.npy"), ROWS if pieces else ROWS[:0])
    assert os.listdir(tmp_path) == ["out.npy"]


def test_scalars_and_casts(tmp_path):
    with ArrayWriter(tmp_path / "out.npy", dtype="int32") as out:
        out.append(np.arange(5))
    assert np.load(tmp_path / "out.npy").dtype == np.int32


def test_bfloat16_is_asked_for_by_name(tmp_path):
    numbers = np.arange(10).astype(ml_dtypes.bfloat16)
    with ArrayWriter(tmp_path / "out.npy", dtype="bfloat16") as out:
        out.append(numbers)
    assert (MappedArray(tmp_path / "out.npy", "bfloat16")[:] == numbers).all()
    with pytest.raises(DtypeError, match="2 bytes"):
        MappedArray(tmp_path / "out.npy", "float32")


@pytest.mark.parametrize(
    "rows, error", [(ROWS[0], ShapeError), (ROWS.astype(complex), DtypeError), (np.float32(1), ShapeError)]
)
def test_an_error_leaves_the_old_file(tmp_path, rows, error):
    np.save(tmp_path / "out.npy", ROWS[:2])
    with pytest.raises(error), ArrayWriter(tmp_path / "out.npy", (3, 4)) as out:
        out.append(ROWS)
        out.append(rows)
    assert len(np.load(tmp_path / "out.npy")) == 2 and os.listdir(tmp_path) == ["out.npy"]


def test_writing_outside_of_the_block(tmp_path):
    with pytest.raises(OptionError, match="with"):
        ArrayWriter(tmp_path / "out.npy").append([1.0])


# ------------------------------------------------------------------------------------------- memory

TRAIN = """
import sys
import numpy as np
import weft
from weft.data import DataLoader, MappedDataset

folder, steps, workers = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
peak = lambda: int(next(x for x in open("/proc/self/status") if x.startswith("VmHWM")).split()[1]) // 1024
data = MappedDataset(f"{folder}/x.npy", f"{folder}/y.npy")
loader = DataLoader(data, batch_size=256, shuffle=True, seed=0, num_workers=workers)
model = weft.nn.Linear(data.arrays[0].shape[1], 1, bias=False)
optimizer = weft.optim.SGD(model.parameters(), lr=0.05)

@weft.compile
def step(x, y):
    optimizer.zero_grad()
    loss = ((model(x).squeeze(1) - y) ** 2).mean()
    loss.backward()
    optimizer.step()
    return loss

losses, before = [], None
for number, (x, y) in zip(range(steps), loader):
    losses.append(step(x, y).item())
    before = before or peak()
print(before, peak(), np.mean(losses[:5]), np.mean(losses[-5:]), x.shape[0] * len(losses))
"""


def train(folder, rows, width, steps, resident=None, workers=0):
    """Train on a set of rows × width float32 numbers in a process of its own; the size on disk and what that prints.

    Every 16th block holds numbers, the others are holes: zeros, which take no room on disk but as much memory when read.
    """
    rng, block = np.random.default_rng(0), 1 << 9
    x = np.lib.format.open_memmap(folder / "x.npy", "w+", np.float32, (rows, width))
    y = np.lib.format.open_memmap(folder / "y.npy", "w+", np.float32, (rows,))
    for start in range(0, rows, 16 * block):
        x[start : start + block] = rng.standard_normal((block, width), np.float32)
        y[start : start + block] = x[start : start + block, 0] - x[start : start + block, 1]
    del x, y
    code = TRAIN if resident is None else f"import weft.data.mapped\nweft.data.mapped.RESIDENT = {resident}\n{TRAIN}"
    made = subprocess.run(
        [sys.executable, "-c", code, str(folder), str(steps), str(workers)],
        capture_output=True,
        text=True,
        check=True,
        env={**os.environ, "OMP_NUM_THREADS": "1"},
    )
    return (folder / "x.npy").stat().st_size, [float(word) for word in made.stdout.split()]


@pytest.mark.parametrize("workers", [0, 1])
def test_a_bounded_part_of_a_file_is_resident(tmp_path, workers):
    size, (before, peak, first, last, seen) = train(tmp_path, 1 << 16, 256, 256, 8 << 20, workers)
    assert size >= 64 << 20 and seen == 1 << 16  # every row was read once
    assert peak - before < 20  # MiB: 8 of the map, and batches; the file has 64
    assert last < 0.5 * first


@pytest.mark.slow
def test_4_gb_on_disk_train_with_less_than_1_gb(tmp_path, record_property, capsys):
    try:
        size, (before, peak, first, last, seen) = train(tmp_path, 1 << 20, 1024, 4096)
    finally:
        (tmp_path / "x.npy").unlink()  # pytest keeps folders of its last runs
    with capsys.disabled():
        print(
            f"\n{size / 2**30:.2f} GiB on disk, {seen:.0f} rows read: at most {peak:.0f} MiB resident, {before:.0f} before"
        )
    record_property("resident MiB", peak)
    assert size >= 4 << 30 and seen == 1 << 20
    assert peak < 1024 and last < 0.5 * first
