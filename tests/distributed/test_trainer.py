"""Trainer on several ranks: what one process with the joint batch learns, with its figures; checkpoints for any number of ranks."""

from __future__ import annotations

import functools
import json
import pathlib
import shutil
import tempfile

import numpy as np
import pytest

import weft
from weft.data import DataLoader, TensorDataset
from weft.data.ranks import for_rank
from weft.errors import OptionError
from weft.train import Trainer
from weft.train.checkpoint import CheckpointFileError, load_checkpoint, newest_checkpoint

from .launching import rows_of, run_job

pytest.importorskip("mpi4py")


@functools.cache
def place() -> tempfile.TemporaryDirectory:
    return tempfile.TemporaryDirectory()


@functools.cache
def trained(size: int, strategy: str, epochs: int = 4) -> tuple[pathlib.Path, list[dict]]:
    folder = pathlib.Path(place().name) / f"{size}-{strategy}-{epochs}"
    words = (str(folder), strategy, str(epochs), str(12 // size))
    rows = rows_of(run_job(size, "job_trainer.py", *words, COMPILE=str(int(strategy == "ddp"))))
    return folder, sorted(rows, key=lambda row: row["rank"])


def weights(folder: pathlib.Path, size: int) -> dict[str, np.ndarray]:
    with np.load(folder / f"final-{size}.npz") as found:
        return dict(found)


def close_to_alone(folder: pathlib.Path, size: int) -> None:
    alone, many = weights(trained(1, "ddp")[0], 1), weights(folder, size)
    assert max(float(np.abs(alone[name] - many[name]).max()) for name in alone) < 1e-6


@pytest.mark.parametrize(
    ("size", "strategy"),
    [
        (2, "ddp"),
        (2, "zero1"),
        pytest.param(3, "ddp", marks=pytest.mark.slow),
        pytest.param(4, "zero3", marks=pytest.mark.slow),
    ],
)
def test_ranks_learn_what_one_process_learns_with_dropout_and_uneven_last_batches(size, strategy):
    """Weights, losses and metrics of every epoch; one row a rank, all equal; only rank 0 leaves a run."""
    folder, rows = trained(size, strategy)
    alone = trained(1, "ddp")[1][0]
    close_to_alone(folder, size)
    assert (
        len(rows) == size
        and len({row["digest"] for row in rows}) == 1
        and {row["compiled"] for row in rows} == {strategy == "ddp"}
    )
    for own, other in zip(alone["rows"], rows[-1]["rows"], strict=True):
        assert own["val_accuracy"] == other["val_accuracy"] and own["lr"] == other["lr"]
        assert own["train_loss"] == pytest.approx(other["train_loss"], abs=1e-6)
        assert own["val_loss"] == pytest.approx(other["val_loss"], abs=1e-6)
    logged = [json.loads(line) for line in (folder / "metrics.jsonl").read_text().splitlines()]
    assert sum(row["kind"] == "epoch" for row in logged) == 4


def test_a_checkpoint_of_4_ranks_goes_on_with_1_2_and_3(tmp_path):
    """Written in parts by four ranks under zero3, after two of four epochs; without MPI, and cut anew by two and three."""
    source, _ = trained(4, "zero3", 2)
    files = sorted((source / "checkpoints").glob("parts-*/rank-*-of-4.weft"))
    assert len({path.name for path in files}) == 4
    for size, strategy in ((1, "ddp"), (2, "zero3"), (3, "zero1")):
        folder = tmp_path / str(size)
        shutil.copytree(source, folder)
        rows_of(run_job(size, "job_trainer.py", str(folder), strategy, "4", str(12 // size), "resume", COMPILE="0"))
        close_to_alone(folder, size)


def test_a_torn_part_is_recognised_and_the_checkpoint_before_is_used(tmp_path):
    source, _ = trained(4, "zero3", 2)
    folder = tmp_path / "checkpoints"
    shutil.copytree(source / "checkpoints", folder)
    tree = load_checkpoint(folder / "last.weft")
    assert tuple(tree["model"]["net.0.weight"].shape) == (16, 8)
    whole = newest_checkpoint(folder)
    part = next(folder.glob(f"{parts_of(folder / 'last.weft')}/rank-2-of-4.weft"))
    raw = bytearray(part.read_bytes())
    raw[-3] ^= 1
    part.write_bytes(raw)
    with pytest.raises(CheckpointFileError, match="rank-2-of-4"):
        load_checkpoint(folder / "last.weft")
    part.unlink()
    with pytest.warns(UserWarning, match="continuing from previous"):
        path, earlier = newest_checkpoint(folder)
    assert whole[0].name == "last.weft" and path.name == "previous.weft"
    assert earlier["position"]["step"] < tree["position"]["step"]


def parts_of(path: pathlib.Path) -> str:
    return weft.load(path)["parts"]["folder"]


@pytest.mark.parametrize("drop_last", [False, True])
@pytest.mark.parametrize(("count", "size", "batch"), [(52, 4, 3), (53, 3, 4), (7, 4, 1), (3, 4, 2), (24, 2, 6)])
def test_joint_batches_are_those_of_one_process(count, size, batch, drop_last):
    """The parts of all ranks, joined, are the batches of a loader with N × the batch; a rank without a part counts nothing."""
    make = lambda n: DataLoader(TensorDataset(weft.arange(count)), n, shuffle=True, seed=4, drop_last=drop_last)
    loaders = [for_rank(make(batch), rank, size) for rank in range(size)]
    for _ in range(2):
        alone = [x.tolist() for (x,) in make_epoch(make(batch * size), loaders[0]._next.epoch)]
        parts = [[x.tolist() for (x,) in loader] for loader in loaders]
        assert {len(rows) for rows in parts} == {len(alone)} == {len(loader) for loader in loaders}
        for number, joint in enumerate(alone):
            counts = [loader.shares(number) for loader in loaders]
            assert [i for rows, (_, own, _) in zip(parts, counts, strict=True) for i in rows[number][:own]] == joint
            assert all(whole == len(joint) for _, _, whole in counts)


def make_epoch(loader: DataLoader, epoch: int) -> DataLoader:
    loader.set_epoch(epoch)
    return loader


def test_another_number_of_ranks_goes_on_with_the_next_example():
    make = lambda batch, rank, size: for_rank(
        DataLoader(TensorDataset(weft.arange(52)), batch, shuffle=True, seed=4), rank, size
    )
    whole = [i for (x,) in make(52, 0, 1) for i in x.tolist()]
    old = [make(3, rank, 4) for rank in range(4)]
    given = [next(batches) for batches in [iter(loader) for loader in old] for _ in range(1)]
    states = [loader.state_dict() for loader in old]
    assert sorted(i for (x,) in given for i in x.tolist()) == sorted(whole[:12])
    new = [make(5, rank, 2) for rank in range(2)]
    for loader in new:
        loader.load_state_dict(states[0])
    rest = [i for step in zip(*new, strict=True) for (x,) in step for i in x.tolist()]
    assert rest == whole[12:]


def test_what_cannot_be_is_refused():
    with pytest.raises(OptionError, match="weft launch -n 3"):
        Trainer(devices=3)
    with pytest.raises(OptionError, match="ddp, zero1, zero3"):
        Trainer(strategy="dp")
