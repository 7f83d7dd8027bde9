"""Windows, splits and scaling of series against NumPy and scikit-learn; Bach's chorales."""

from __future__ import annotations

import io
import tarfile

import numpy as np
import pytest
from numpy.lib.stride_tricks import sliding_window_view
from sklearn.model_selection import TimeSeriesSplit
from sklearn.preprocessing import MinMaxScaler, StandardScaler

import weft
from weft.data import DataLoader, sources
from weft.data.sources import Scaler, Windows, split_by_time
from weft.io.errors import LayoutError

SERIES = np.random.default_rng(0).normal(size=(50, 3)).astype(np.float32)


@pytest.mark.parametrize("past", [1, 7])
@pytest.mark.parametrize("future", [1, 4])
@pytest.mark.parametrize("gap", [0, 2])
@pytest.mark.parametrize("step", [1, 3])
def test_windows_as_numpy(past, future, gap, step):
    made = Windows(SERIES, past, future, step=step, gap=gap, targets=[2, 0])
    whole = sliding_window_view(SERIES, past + gap + future, axis=0)[::step].transpose(0, 2, 1)  # (N, window, D)
    assert len(made) == len(whole)
    inputs, targets = made.as_tensors().tensors
    np.testing.assert_array_equal(inputs.numpy(), whole[:, :past])
    np.testing.assert_array_equal(targets.numpy(), whole[:, past + gap :][:, :, [2, 0]])
    np.testing.assert_array_equal(made[-1][0].numpy(), whole[-1, :past])
    batch = next(iter(DataLoader(made, batch_size=3)))
    np.testing.assert_array_equal(batch[1].numpy(), targets.numpy()[:3])


@pytest.mark.parametrize("values", [np.arange(8), list(range(8)), weft.arange(8), np.arange(16)[::2] // 2])
def test_series_of_one_column(values):
    made = Windows(values, past=3)
    assert len(made) == 5 and made[4][0].shape == (3, 1) and made[4][1].item() == 7.0
    assert made[0][0].dtype == weft.float32


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (dict(values=np.zeros(3), past=3), "4 values make a window, the series has 3"),
        (dict(values=np.zeros(0), past=1), "the series has 0"),
        (dict(values=np.zeros((2, 2, 2)), past=1), r"\(T,\) or \(T, D\)"),
        (dict(values=np.zeros(9), past=0), "must be 1 or more"),
        (dict(values=np.zeros(9), past=2, step=0), "must be 1 or more"),
    ],
)
def test_windows_that_cannot_be(arguments, message):
    with pytest.raises(ValueError, match=message):
        Windows(**arguments)
    with pytest.raises(IndexError):
        Windows(np.zeros(9), 2)[7]


def test_split_keeps_the_order_and_nothing_leaks():
    values = np.arange(100)
    parts = split_by_time(values, (0.6, 0.2, 0.2))
    assert np.concatenate(parts).tolist() == values.tolist() and [len(p) for p in parts] == [60, 20, 20]
    later = split_by_time(values, (0.6, 0.2, 0.2), context=5)
    futures = [Windows(part, past=5).as_tensors().tensors[1].numpy().ravel() for part in later]
    assert futures[1].tolist() == list(range(60, 80)) and futures[2].tolist() == list(range(80, 100))
    assert not set(futures[0]) & set(futures[1])
    train, test = list(TimeSeriesSplit(4, test_size=20).split(values))[-1]
    ours = split_by_time(weft.arange(100), (0.8, 0.2))
    assert ours[0].tolist() == train.tolist() and ours[1].tolist() == test.tolist()
    for wrong in ((0.5, 0.6), (0.0, 1.0), (-0.5, 0.5)):
        with pytest.raises(ValueError, match="fractions"):
            split_by_time(values, wrong)


@pytest.mark.parametrize(("kind", "witness"), [("standard", StandardScaler), ("minmax", MinMaxScaler)])
def test_scaler_as_scikit_learn(kind, witness):
    train, test = SERIES[:40].astype(float), SERIES[40:].astype(float)
    scaler, expected = Scaler(train, kind), witness().fit(train)
    np.testing.assert_allclose(scaler(test), expected.transform(test), rtol=1e-12, atol=1e-14)
    np.testing.assert_allclose(scaler.inverse(scaler(test)), test, rtol=1e-12, atol=1e-14)
    as_tensor = scaler(weft.from_numpy(SERIES))
    assert isinstance(as_tensor, weft.Tensor) and as_tensor.dtype == weft.float32
    batch = scaler(weft.from_numpy(SERIES[None, :4]))
    np.testing.assert_array_equal(batch.numpy()[0], as_tensor.numpy()[:4])
    assert Scaler(np.arange(5))(np.arange(5)).shape == (5,)
    assert Scaler(np.full(5, 3.0), kind)(np.full(5, 3.0)).tolist() == [0.0] * 5


def test_scaler_faults():
    with pytest.raises(ValueError, match="'standard' or 'minmax'"):
        Scaler(SERIES, "robust")
    with pytest.raises(ValueError, match="empty"):
        Scaler(np.zeros((0, 2)))


def test_real_airline_windows(real):
    """The last 24 months as test part, scaled by figures of the others."""
    values = sources.airline_passengers(real)["Passengers"].values
    train, test = split_by_time(values, (120 / 144, 24 / 144), context=12)
    scaler = Scaler(train)
    inputs, targets = Windows(scaler(test), past=12).as_tensors().tensors
    assert inputs.shape == (24, 12, 1) and targets.shape == (24, 1, 1)
    np.testing.assert_allclose(scaler.inverse(targets).numpy().ravel(), values[120:], rtol=1e-6)


# ------------------------------------------------------------------------------------------ chorales
def write_chorales(path, entries):
    with tarfile.open(path, "w:gz") as archive:
        for name, content in entries.items():
            info = tarfile.TarInfo(name)
            info.size = len(content)
            archive.addfile(info, io.BytesIO(content.encode()))


HEADER = "note0,note1,note2,note3\n"


@pytest.mark.filterwarnings("ignore::weft.data.sources.SourceWarning")
def test_chorales(tmp_path):
    path = tmp_path / "jsb_chorales.tgz"
    write_chorales(
        path,
        {
            "train/chorale_001.csv": HEADER + "70,60,50,0\n",
            "train/chorale_000.csv": HEADER + "74,70,65,58\n75,70,58,55\n",
        },
    )
    made = sources.JSBChorales(tmp_path)
    assert len(made) == 2 and made[0].tolist() == [[74, 70, 65, 58], [75, 70, 58, 55]]
    roll = sources.piano_roll(made[1])
    assert roll.shape == (1, 88) and np.flatnonzero(roll.numpy()).tolist() == [50 - 21, 60 - 21, 70 - 21]
    with pytest.raises(ValueError, match=r"outside of 60\.\.71"):
        sources.piano_roll(made[0], 60, 12)
    with pytest.raises(LayoutError, match="no folder 'test'"):
        sources.JSBChorales(tmp_path, "test")
    for content, message in [
        ("a,b\n1,2\n", "four columns"),
        (HEADER + "1,2,3,x\n", "four columns"),
        (HEADER + "1,2,3,200\n", r"0\.\.127"),
    ]:
        write_chorales(path, {"train/chorale_000.csv": content})
        with pytest.raises(LayoutError, match=message):
            sources.JSBChorales(tmp_path)


def test_real_chorales(real):
    parts = {split: sources.JSBChorales(real, split) for split in ("train", "valid", "test")}
    assert {split: len(part) for split, part in parts.items()} == {"train": 229, "valid": 76, "test": 77}
    assert parts["train"][0][0].tolist() == [74, 70, 65, 58]
    notes = np.concatenate([chorale.numpy() for chorale in parts["train"]])
    assert notes[notes > 0].min() == 36 and notes.max() == 81  # C1 to A5: Géron, Hands-on Machine Learning, ch. 15
