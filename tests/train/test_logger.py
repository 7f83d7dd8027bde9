"""What a run leaves behind: rows, tables, TensorBoard's events, curves, results."""

from __future__ import annotations

import csv
import json
import math
import sys
import zlib
from pathlib import Path

import pytest

import weft
from weft.errors import OptionError
from weft.train import RunFolder, Trainer, runs_folder
from weft.train.curves import draw_curves, draw_run, group
from weft.train.events import EventWriter, crc32c, record, records
from weft.train.progress import LiveDisplay, PlainDisplay, line, short

from .problems import digits, loader, mlp, supervised
from .test_resume import BreakOff, run

# ------------------------------------------------------------------------------------------- events


@pytest.mark.parametrize(
    ("data", "expected"),
    [(b"", 0), (b"123456789", 0xE3069283), (bytes(32), 0x8A9136AA), (bytes([255] * 32), 0x62A8AB43)],
    ids=["empty", "check", "zeros", "ones"],
)
def test_crc32c(data: bytes, expected: int) -> None:
    """The check value of the polynomial, and the examples of RFC 3720 (B.4)."""
    assert crc32c(data) == expected
    assert crc32c(data) != zlib.crc32(data) or not data


def test_records_survive_a_torn_end() -> None:
    whole = [b"first", b"", b"third" * 100]
    content = b"".join(map(record, whole))
    assert records(content) == whole
    assert records(content[:-3]) == whole[:2]
    with pytest.raises(ValueError, match="checksum"):
        records(content[:14] + b"X" + content[15:])


def accumulated(folder: Path) -> dict[str, list[tuple[int, float]]]:
    """What TensorBoard itself reads."""
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    found = EventAccumulator(str(folder), size_guidance={"scalars": 0})
    found.Reload()
    return {tag: [(e.step, e.value) for e in found.Scalars(tag)] for tag in found.Tags()["scalars"]}


def test_tensorboard_reads_the_events(tmp_path: Path) -> None:
    writer = EventWriter(tmp_path)
    rows = [(1, {"loss": 0.5, "net/σ": -3.25}), (300, {"loss": 1e-30}), (2**40, {"loss": math.inf, "big": 1e300})]
    for step, values in rows:
        writer.add_scalars(values, step)
    writer.close()
    found = accumulated(tmp_path)
    assert found["loss"] == [(1, 0.5), (300, pytest.approx(1e-30)), (2**40, math.inf)]
    assert found["net/σ"] == [(1, -3.25)] and found["big"] == [(2**40, math.inf)]


def test_tensorboard_forgets_what_a_resumed_run_repeats(tmp_path: Path) -> None:
    first = EventWriter(tmp_path)
    for step in (1, 2, 3, 4):
        first.add_scalars({"loss": float(step)}, step)
    first.close()
    second = EventWriter(tmp_path, step=3)
    second.add_scalars({"loss": 30.0}, 3)
    second.close()
    assert accumulated(tmp_path)["loss"] == [(1, 1.0), (2, 2.0), (3, 30.0)]


def test_event_files_of_a_run(tmp_path: Path) -> None:
    _, trainer = run(tmp_path / "run", log_every_n_steps=2)
    found = accumulated(tmp_path / "run")
    expected = [(row["step"], pytest.approx(row["val_loss"], rel=1e-6)) for row in trainer.run.rows("epoch")]
    assert found["val_loss"] == expected
    assert [step for step, _ in found["loss"]] == [1, 2, 4, 8]  # update 6 ends an epoch, after its last batch
    assert found["lr"]


# ------------------------------------------------------------------------------------------- run folders


def test_rows_and_table(tmp_path: Path) -> None:
    folder = RunFolder(tmp_path / "run").open()
    rows = [
        {"kind": "step", "epoch": 0, "step": 1, "loss": 0.1},
        {"kind": "epoch", "epoch": 0, "step": 5, "train_loss": 1 / 3},
        {"kind": "epoch", "epoch": 1, "step": 10, "train_loss": math.nan, "val_loss": -math.inf},
        {"kind": "epoch", "epoch": 2, "step": 15, "train_loss": weft.tensor(0.5)},
    ]
    for row in rows:
        folder.append(row)
    folder.close()
    found = folder.rows()
    assert found[:2] == rows[:2] and folder.rows("step") == rows[:1]
    assert math.isnan(found[2]["train_loss"]) and found[2]["val_loss"] == -math.inf and found[3]["train_loss"] == 0.5
    with open(tmp_path / "run" / "metrics.csv", newline="") as file:
        table = list(csv.DictReader(file))
    assert list(table[0]) == ["epoch", "step", "train_loss", "val_loss"]
    assert float(table[0]["train_loss"]) == 1 / 3 and table[0]["val_loss"] == "" and table[1]["val_loss"] == "-inf"
    again = RunFolder(tmp_path / "run").open()
    assert again.count == 4
    again.truncate(2)
    assert again.rows() == rows[:2]
    assert (tmp_path / "run" / "metrics.csv").read_text().splitlines()[1:] == [f"0,5,{1 / 3!r}"]


@pytest.mark.parametrize("torn", [b'{"kind": "ep', b"\x00\xff garbage", b'{"kind": "epoch"}', b"[1, 2]\n"])
def test_a_torn_line_ends_the_rows(tmp_path: Path, torn: bytes) -> None:
    folder = RunFolder(tmp_path).open()
    folder.append({"kind": "epoch", "epoch": 0, "step": 1})
    folder.close()
    with open(tmp_path / "metrics.jsonl", "ab") as file:
        file.write(torn)
    assert folder.rows() == [{"kind": "epoch", "epoch": 0, "step": 1}]


def test_names_are_unique(tmp_path: Path) -> None:
    made = [RunFolder.create(tmp_path, "my task/π") for _ in range(3)]
    assert len({folder.path for folder in made}) == 3
    assert all(folder.path.parent == tmp_path and "/" not in folder.name for folder in made)


def test_default_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WEFT_RUNS", str(tmp_path / "all"))
    assert runs_folder() == tmp_path / "all"
    x, y = digits(64)
    trainer = Trainer(max_epochs=1, progress=False)
    trainer.fit(supervised(mlp()), loader(x, y))
    assert trainer.run.path.parent == tmp_path / "all" and trainer.run.name.startswith("supervised-")
    monkeypatch.delenv("WEFT_RUNS")
    assert runs_folder() == Path("runs")


def test_everything_a_run_leaves(tmp_path: Path) -> None:
    _, trainer = run(tmp_path / "run", settings={"lesson": 3, "place": Path("x")}, seed=5)
    folder = trainer.run
    names = {path.name.split(".")[0] for path in folder.path.iterdir()}
    expected = {"settings", "environment", "metrics", "events", "curves", "log", "result", "checkpoints"}
    assert names == expected
    assert folder.settings["lesson"] == 3 and folder.settings["max_epochs"] == 3 and folder.settings["place"] == "x"
    assert folder.environment["weft"] == weft.__version__
    result = folder.result
    assert result["finished"] is True and result["steps"] == 9 and result["epochs"] == 3
    assert 0 <= result["data_wait"] < 1 and result["seconds"] > 0
    assert result["figures"]["val_loss"] == trainer.history["val_loss"][-1]
    assert (folder.path / "curves.png").read_bytes()[:8] == b"\x89PNG\r\n\x1a\n"
    trainer.test(trainer.loop.task, loader(*digits(64)))
    assert "test_loss" in folder.result["figures"] and folder.result["finished"] is True


def test_time_waiting_for_data_is_measured(tmp_path: Path) -> None:
    import time

    (x, y), slept = digits(64), []

    class Slow:
        def __iter__(self):
            for _ in range(10):
                start = time.perf_counter()
                time.sleep(0.03)
                slept.append(time.perf_counter() - start)  # more than asked for, on a busy machine
                yield x, y

    history = Trainer(max_epochs=2, run_folder=False, progress=False).fit(supervised(mlp()), Slow())
    waited = history.data_wait * history.seconds
    assert 0.95 * sum(slept) <= waited <= history.seconds


def test_a_broken_settings_file_is_told(tmp_path: Path) -> None:
    (tmp_path / "settings.json").write_text("{")
    with pytest.raises(OptionError, match=r"settings\.json"):
        _ = RunFolder(tmp_path).settings


def test_result_of_an_interrupted_run(tmp_path: Path) -> None:
    with pytest.raises(KeyboardInterrupt):
        run(tmp_path / "run", BreakOff(7))
    result = json.loads((tmp_path / "run" / "result.json").read_text())
    assert result["finished"] is False and result["stopped_by"] == "Ctrl-C"
    assert (tmp_path / "run" / "curves.png").exists()


# ------------------------------------------------------------------------------------------- curves

ROWS = [
    {
        "kind": "epoch",
        "epoch": e,
        "step": 10 * e,
        "train_loss": 10.0**-e,
        "val_loss": v,
        "val_acc": e / 10,
        "lr": 0.1 / (e + 1),
    }
    for e, v in enumerate((1.0, 0.5, 0.7))
]


def test_curves_say_what_they_show() -> None:
    figure = draw_curves(ROWS, title="a run")
    loss, accuracy, rate = figure.axes
    assert [axis.get_title() for axis in figure.axes] == ["loss", "acc", "learning rate"]
    assert loss.get_yscale() == "log" and accuracy.get_yscale() == "linear"
    labels = [text.get_text() for text in loss.get_legend().get_texts()]
    assert labels == ["train", "val", "best 0.5"]
    assert loss.lines[-1].get_xydata().tolist() == [[10.0, 0.5]]  # the ring around the best
    assert accuracy.lines[-1].get_ydata() == [0.2] and rate.get_legend() is None


def test_curves_of_few_and_strange_rows() -> None:
    assert draw_curves([]) is None
    assert draw_curves([{"kind": "epoch", "epoch": 0, "step": 1, "train_loss": math.nan}]) is not None
    many = [{"kind": "epoch", "epoch": 0, "step": 1, **{f"m{k}": 1.0 for k in range(20)}, "lr": 0.1}]
    assert len(group(many)) == 6
    assert "lr" not in group(ROWS[:1])


def test_a_missing_library_costs_only_the_picture(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
    said: list[str] = []
    folder = RunFolder(tmp_path).open()
    for row in ROWS:
        folder.append(row)
    assert draw_run(folder, said.append) is False
    assert len(said) == 1 and "pip install matplotlib" in said[0]


# ------------------------------------------------------------------------------------------- what is shown


def test_one_line_an_epoch_without_a_terminal(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    x, y = digits(64)
    Trainer(max_epochs=2, run_folder=tmp_path / "run").fit(supervised(mlp()), loader(x, y), loader(x, y))
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) == 3
    assert lines[0].startswith("epoch 1/2  train_loss ") and "val_loss" in lines[0] and "samples/s" in lines[0]
    assert "waiting for data" in lines[2] and "run" in lines[2]


def test_silence(capsys: pytest.CaptureFixture[str]) -> None:
    x, y = digits(64)
    Trainer(max_epochs=1, run_folder=False, progress=False).fit(supervised(mlp()), loader(x, y))
    assert capsys.readouterr() == ("", "")


def test_live_line_in_a_terminal() -> None:
    import io

    from rich.console import Console

    text = io.StringIO()
    display = LiveDisplay(Console(file=text, force_terminal=True, width=100))
    display.start(2)
    display.epoch(0, 10, 0)
    display.batch(5, 32, {"loss": 0.25})
    display.live.refresh()
    display.row({"epoch": 0, "step": 10, "train_loss": 0.25, "seconds": 1.0}, set())
    display.close()
    shown = text.getvalue()
    assert "epoch 1/2" in shown and "5/20" in shown and "loss 0.2500" in shown and "samples/s" in shown
    assert shown.count("train_loss 0.2500") == 1


def test_lines_and_figures() -> None:
    row = {"epoch": 2, "step": 9, "train_loss": 1e-5, "val_acc": 0.5, "lr": 0.1, "seconds": 3.0}
    assert line(row, {"val_acc"}, 5, 1234.5) == "epoch 3/5  train_loss 1.00e-05  val_acc 0.5000  1,234 samples/s  3.0 s"
    assert [short(v) for v in (0.0, 1234.5, math.nan, -0.5)] == ["0.0000", "1.23e+03", "nan", "-0.5000"]
    assert isinstance(PlainDisplay(None).rate(), float)
