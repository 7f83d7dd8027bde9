"""Runs that begin, fail to begin, end and go on: what `weft train`, `list` and `show` do about their folders."""

from __future__ import annotations

import gzip
import json
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest

import weft
from weft import nn, recipes
from weft.app import cli
from weft.data import DataLoader, TensorDataset
from weft.errors import OptionError
from weft.recipes.resuming import check_changes
from weft.runtime.invocation import weft_command
from weft.train import Classification, RunFolder, Trainer

from ..recipes.files import write_idx
from .shell import COMMAND, environment

QUICK = ("--set", "epochs=2", "--set", "hidden=8", "--no-compile")


@pytest.fixture
def told(tmp_path, monkeypatch, capsys):
    """Runs a command in this process, in an empty folder: (exit code, standard output, standard error)."""
    monkeypatch.chdir(tmp_path)
    for name in ("WEFT_RUNS", "WEFT_DATA", "WEFT_TRUST_DATA"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setenv("COLUMNS", "200")

    def run(*arguments: str) -> tuple[int, str, str]:
        with pytest.raises(SystemExit) as ended:
            cli.main(arguments)
        return ended.value.code, *capsys.readouterr()

    return run


@pytest.fixture(scope="module")
def finished(tmp_path_factory) -> Path:
    """The folder of a run of digits-mlp that is finished."""
    place = tmp_path_factory.mktemp("finished")
    settings = {"epochs": 2, "hidden": (8,)}
    return recipes.run("digits-mlp", settings, folder=place / "one", progress=False, compile=False).folder


@pytest.fixture
def copied(finished, tmp_path) -> Path:
    return Path(shutil.copytree(finished, tmp_path / "runs" / "one"))


def content(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


# ------------------------------------------------------------------------------------------- data


@pytest.fixture
def real(tmp_path) -> Path:
    """A folder for $WEFT_DATA with files of MNIST's form."""
    write_idx(tmp_path / "real" / "mnist")
    return tmp_path / "real"


MNIST = ("train", "mnist-linear", "--set", "epochs=1", "--set", "batch_size=50", "--no-compile")


@pytest.mark.parametrize(
    ("data", "words"),
    [
        ("nowhere", "--data nowhere does not exist"),
        ("file", "--data file is no folder"),
        ("empty", "not found (searched"),
    ],
)
@pytest.mark.parametrize("command", [MNIST, ("check", "mnist-linear"), ("search", "mnist-linear", "--space", "lr=1,2")])
def test_a_wrong_data_folder_is_never_replaced(command, data, words, told, real, monkeypatch, tmp_path) -> None:
    monkeypatch.setenv("WEFT_DATA", str(real))
    monkeypatch.setenv("WEFT_TRUST_DATA", "1")
    (tmp_path / "empty").mkdir()
    (tmp_path / "file").write_text("")
    code, out, err = told(*command, "--data", data)
    assert (code, out) == (2, "")
    assert words in err
    assert not (tmp_path / "runs").exists() or not any((tmp_path / "runs").iterdir())


def test_what_was_read_is_what_is_recorded(told, real, monkeypatch, tmp_path) -> None:
    monkeypatch.setenv("WEFT_TRUST_DATA", "1")
    assert told(*MNIST, "--data", "real", "--name", "given")[0] in (0, 3)
    monkeypatch.setenv("WEFT_DATA", str(real))
    assert told(*MNIST, "--name", "usual")[0] in (0, 3)
    given, usual = (json.loads(told("show", name, "--json")[1]) for name in ("given", "usual"))
    assert (given["data"], usual["data"]) == (str(real), None)
    assert given["files"] == usual["files"] == sorted(given["files"], key=given["files"].index)
    assert {Path(file).parent for file in usual["files"]} == {real / "mnist"}
    assert len(usual["files"]) == 4
    assert f"4 files in {real / 'mnist'}" in told("show", "usual")[1].replace("\n", "")


def test_a_recipe_without_files_says_so(told, tmp_path) -> None:
    with pytest.warns(UserWarning, match="reads no files"):
        recipes.run("digits-mlp", ["epochs=1", "hidden=8"], folder="x", root=tmp_path, progress=False, compile=False)
    assert RunFolder("x").settings["data"] is None


def test_a_damaged_file_is_refused_unless_it_is_trusted(told, real, tmp_path) -> None:
    code, out, err = told(*MNIST, "--data", "real")
    assert (code, out) == (1, "")
    assert "is not the canonical mnist/train-images-idx3-ubyte.gz" in err and "--trust-data" in err
    assert not (tmp_path / "runs").exists()
    code, out, err = told(*MNIST, "--data", "real", "--trust-data")
    assert code in (0, 3)
    assert "it is read nevertheless" in err
    assert json.loads(told("show", "latest", "--json")[1])["trust_data"] is True
    assert told("eval", "latest")[0] in (0, 3)  # the run was told to trust its data
    assert "is not the canonical" in told("eval", "latest", "--data", "real")[2]  # but not whatever else is named
    damaged = next(real.rglob("t10k-images*"))
    damaged.write_bytes(gzip.compress(b"\0\0\x08\x03cut"))
    code, _, err = told("eval", "latest")  # and what cannot be read is an error all the same
    assert code == 1 and "the file ends inside its header" in err


# ------------------------------------------------------------------------------------------- resuming


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        (["hidden=16", "epochs=4"], "hidden=16 cannot be taken: it alters the network (model.1"),
        (["seed=5", "epochs=4"], "the run began with seed 0"),
        (["batch_size=16", "epochs=4"], "batch_size=16 cannot be taken: it is settled when a run begins"),
        (["epochs=1"], "the run has 2 epochs behind it"),
        (["lr=0.1"], "is finished; to go on it needs more epochs"),
        (["lrr=0.1"], "did you mean 'lr'?"),
        (["dropout=7", "epochs=4"], "dropout must be at most 0.9"),
    ],
)
def test_refused_changes_change_nothing(changes, words, told, copied) -> None:
    before = content(copied)
    sets = [word for change in changes for word in ("--set", change)]
    code, out, err = told("train", "--resume", "one", *sets)
    assert (code, out) == (2, "")
    assert words in err
    assert content(copied) == before


def test_a_finished_run_says_so(told, copied) -> None:
    before = content(copied)
    code, out, _ = told("train", "--resume")
    assert code == 3  # as when it ended
    assert "is finished (2 epochs): nothing was done" in out and "--set epochs=4" in out
    assert json.loads(told("train", "--resume", "--json")[1])["finished"] is True
    assert content(copied) == before


def test_changes_on_the_way_take_effect_and_are_shown(told, copied) -> None:
    changes = ("epochs=4", "lr=0.05", "weight_decay=0.2", "dropout=0.3")
    words = [word for change in changes for word in ("--set", change)]
    assert told("train", "--resume", "one", *words, "--no-compile")[0] in (0, 3)
    shown = json.loads(told("show", "one", "--json")[1])
    assert {name: shown["settings"][name] for name in ("epochs", "lr", "weight_decay", "dropout", "hidden")} == {
        "epochs": 4,
        "lr": 0.05,
        "weight_decay": 0.2,
        "dropout": 0.3,
        "hidden": [8],
    }
    assert [(c["epoch"], sorted(c["settings"])) for c in shown["changes"]] == [
        (2, ["dropout", "epochs", "lr", "weight_decay"])
    ]
    kept = weft.train.load_checkpoint(copied / "checkpoints" / "last.weft")
    (group,) = kept["optimizers"][0]["param_groups"]
    assert group["initial_lr"] == pytest.approx(0.05) and group["weight_decay"] == 0.2
    rates = [row["lr"] for row in RunFolder(copied).rows("epoch")]
    height = weft.recipes.shared.cycle(0.75)  # of the longer cycle, after three of four epochs
    assert rates[2] == pytest.approx(0.05 * height, rel=1e-6)
    assert "lr 0.01 → 0.05 from epoch 3" in told("show", "one")[1]


def test_networks_of_equal_shapes_are_told_apart() -> None:
    recipe = recipes.get("mnist-vit")
    earlier = recipe.settings(["width=16", "heads=2"])
    with pytest.raises(OptionError, match=r"heads=4 cannot be taken: it alters the network"):
        check_changes(recipe, earlier, earlier.replace(heads=4), done=1)
    assert check_changes(recipe, earlier, earlier.replace(lr=0.5), done=1) == {"lr": (earlier.lr, 0.5)}


# ------------------------------------------------------------------------------------------- starts that fail


def test_a_failed_first_step_leaves_no_folder(tmp_path) -> None:
    data = DataLoader(TensorDataset(weft.zeros(4, 3), weft.zeros(4).long()), 2)
    trainer = Trainer(max_epochs=1, run_folder=tmp_path / "run", progress=False)
    with pytest.raises(Exception, match=r"sizes|shape"):
        trainer.fit(Classification(nn.Linear(5, 2)), data)
    assert not (tmp_path / "run").exists()


def test_a_folder_that_was_there_is_kept(tmp_path) -> None:
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / "notes.txt").write_text("mine")
    data = DataLoader(TensorDataset(weft.zeros(4, 3), weft.zeros(4).long()), 2)
    with pytest.raises(Exception, match=r"sizes|shape"):
        Trainer(max_epochs=1, run_folder=tmp_path / "run", progress=False).fit(Classification(nn.Linear(5, 2)), data)
    assert (tmp_path / "run" / "notes.txt").read_text() == "mine"


def test_recipes_that_fail_at_the_start_leave_nothing(told, tmp_path, monkeypatch) -> None:
    monkeypatch.setattr("weft.data.sources.fetch.download", _offline)
    monkeypatch.setenv("WEFT_RUNS", str(tmp_path / "runs"))
    with pytest.raises(OSError, match="offline"):
        recipes.run("mnist-linear")
    assert told("train", "word2vec-shakespeare")[0] == 1  # a recipe with a folder from the start
    assert list((tmp_path / "runs").iterdir()) == []


def _offline(url, path, **options):
    raise weft.data.sources.DownloadError(f"{url}: offline")


# ------------------------------------------------------------------------------------------- lists


def broken(folder: Path, name: str, settings: str) -> None:
    (folder / name).mkdir(parents=True)
    (folder / name / "settings.json").write_text(settings)


def test_latest_is_the_last_real_run(told, copied) -> None:
    for name, settings in {"torn": "{ torn", "list": "[1]", "empty": "{}", "begun": '{"recipe": "digits-mlp"}'}.items():
        broken(copied.parent, name, settings)
    (copied.parent / "folder" / "settings.json").mkdir(parents=True)
    assert json.loads(told("show", "latest", "--json")[1])["name"] == "one"
    assert "one is finished" in told("train", "--resume")[1]
    code, out, _ = told("list", "--runs")
    assert code == 0
    assert out.count("broken") == 3 * 2
    rows = json.loads(told("list", "--runs", "--json")[1])
    assert {row["name"] for row in rows if "broken" in row} == {"torn", "list", "folder"}
    assert next(row for row in rows if row["name"] == "one")["finished"]


# ------------------------------------------------------------------------------------------- exit codes


def test_exit_codes_are_in_the_help(told) -> None:
    code, out, _ = told("--help")
    assert code == 0
    text = " ".join(out.replace("│", " ").split())
    for words in ("0 done", "1 failed", "2 bad usage", "3 goal missed", "130 interrupted", "143 terminated"):
        assert words in text


@pytest.mark.parametrize(
    ("number", "code", "word"), [(signal.SIGINT, 130, "interrupted"), (signal.SIGTERM, 143, "terminated")]
)
def test_signals_during_training(number, code, word, tmp_path) -> None:
    process = subprocess.Popen(
        [*COMMAND, "train", "digits-logistic", "--set", "epochs=100000", "--no-compile"],
        cwd=tmp_path,
        env=environment(),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert " 1/100000" in process.stdout.readline()
    process.send_signal(number)
    _, err = process.communicate(timeout=60)
    assert process.returncode == code
    assert err.startswith(f"weft: {word}; to go on: ") and "train --resume digits-logistic" in err
    assert RunFolder(tmp_path / "runs" / "digits-logistic").result["finished"] is False


SLOW_START = "import time, weft.recipes.classical.digits_mlp as m; m.load_digits = lambda: (print('reading', flush=True), time.sleep(60))"


def test_a_signal_before_the_first_step(tmp_path) -> None:
    program = f"{SLOW_START}\nfrom weft.app.cli import main\nmain(['train', 'digits-mlp'])"
    process = subprocess.Popen(
        [sys.executable, "-c", program],
        cwd=tmp_path,
        env=environment(),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert process.stdout.readline() == "reading\n"
    process.send_signal(signal.SIGTERM)
    _, err = process.communicate(timeout=60)
    assert process.returncode == 143
    assert err == "weft: terminated; the training had not begun, nothing is left behind\n"
    assert not (tmp_path / "runs").exists()


# ------------------------------------------------------------------------------------------- the first words


def test_weft_alone_shows_a_short_start(told, copied) -> None:
    code, out, err = told()
    assert (code, err) == (0, "")
    for words in ("list", "train digits-mlp", "show latest", "predict latest", "--help"):
        assert words in out
    assert len(out.splitlines()) <= 12
    assert max(map(len, (line.strip() for line in out.replace(weft_command(), ".venv/bin/weft").splitlines()))) <= 80
    assert "Your latest run is runs/one" in out


def test_a_training_ends_with_what_to_do_next(told, tmp_path) -> None:
    code, out, _ = told("train", "digits-mlp", *QUICK)
    lines = [line.rstrip() for line in out.splitlines()]
    assert code == 3
    assert "Picture     runs/digits-mlp/curves.png" in lines
    assert "Checkpoint  runs/digits-mlp/checkpoints/best.weft" in lines
    assert all(Path(line.split()[1]).exists() for line in lines if line.startswith(("Picture", "Checkpoint")))
    commands = [line.removeprefix("Next").strip() for line in lines[-3:]]
    for command in commands:
        words = command.partition("weft ")[2].split()
        extra = QUICK if words[0] == "train" else ()
        assert told(*words, *extra)[0] in (0, 3), command
