"""`weft` end to end: every command in a pipe, the visible ones in a pseudo-terminal, misuse, Ctrl-C, kill -9."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest
from safetensors.numpy import load_file

from weft import recipes
from weft.app import cli
from weft.app.output import figure, plain, sparkline
from weft.app.search_work import parsed
from weft.data import load_digits
from weft.recipes import finding
from weft.train.selection import Choice, Integer, LogUniform, Uniform

from .. import pace
from .shell import ESCAPE, begun, environment, in_pipe, in_terminal

QUICK = ("--set", "epochs=2", "--set", "hidden=32")
COLOUR = re.compile(r"\x1b\[[0-9;]*3[0-7]m")


@pytest.fixture(scope="module")
def place(tmp_path_factory) -> Path:
    """A folder with two short runs of digits-mlp, made by the command."""
    folder = tmp_path_factory.mktemp("cli")
    first = in_pipe("train", "digits-mlp", *QUICK, "--name", "one", cwd=folder)
    assert first.code == 3, first.err  # two epochs do not reach the goal
    second = in_pipe("train", "digits-mlp", *QUICK, "--set", "lr=0.03", "--name", "two", "--json", cwd=folder)
    (folder / "two.json").write_text(second.out)
    images, _ = load_digits()
    np.save(folder / "digits.npy", images[:5].astype(np.int64))
    np.savetxt(folder / "digits.csv", images[:5].reshape(5, 64), fmt="%d", delimiter=",")
    return folder


def predictions(path: Path) -> np.ndarray:
    """Predictions of exported weights for the test digits, computed by NumPy alone: (360,)."""
    weights = load_file(path)
    x = load_digits()[0][::5].reshape(-1, 64).astype(np.float32) / 16
    names = [name for name in weights if name.endswith("weight") and weights[name].ndim == 2]
    for i, name in enumerate(names):
        x = x @ weights[name].T + weights[name.removesuffix("weight") + "bias"]
        x = np.maximum(x, 0) if i + 1 < len(names) else x
    return x.argmax(1)


# ------------------------------------------------------------------------------------------- each command, in a pipe


def test_train_in_a_pipe(place):
    told = json.loads((place / "two.json").read_text())
    assert told["recipe"] == "digits-mlp"
    assert told["settings"]["lr"] == 0.03
    assert told["reached"] is (told["figures"]["test_accuracy"] >= 0.97)
    run = place / told["folder"]
    assert run == place / "runs" / "two"
    assert {"settings.json", "metrics.jsonl", "result.json", "checkpoints"} <= {p.name for p in run.iterdir()}


def test_the_figures_are_those_of_the_weights(place):
    done = in_pipe("export", "two", "--to", "safetensors", "-o", "two.safetensors", "--json", cwd=place)
    told = json.loads(done.out)
    accuracy = float((predictions(place / "two.safetensors") == load_digits()[1][::5]).mean())
    assert told["tensors"] == len(load_file(place / "two.safetensors"))
    evaluated = in_pipe("eval", "two", "--json", cwd=place)
    figures = json.loads(evaluated.out)["figures"]
    assert figures["test_accuracy"] == pytest.approx(accuracy, abs=1e-6)
    assert figures == pytest.approx(json.loads((place / "two.json").read_text())["figures"], rel=1e-4)
    assert evaluated.code == (0 if accuracy >= 0.97 else 3)


def test_predict_takes_arrays_tables_and_pictures(place):
    from PIL import Image

    images, _ = load_digits()
    Image.fromarray((images[0] * 15.9).astype(np.uint8)).save(place / "digit.png")
    in_pipe("export", "one", "-o", "one.safetensors", cwd=place)
    expected = predictions(place / "one.safetensors")[:1]
    said = {
        name: json.loads(in_pipe("predict", "one", name, "--json", cwd=place).out)
        for name in ("digits.npy", "digits.csv")
    }
    assert said["digits.npy"] == said["digits.csv"]
    assert len(said["digits.csv"]) == 5
    assert said["digits.csv"][0]["label"] == str(expected[0])
    assert sum(said["digits.csv"][0]["probabilities"].values()) == pytest.approx(1, abs=1e-3)
    assert json.loads(in_pipe("predict", "one", "digit.png", "--json", cwd=place).out)[0]["label"] == str(expected[0])


def test_show_and_list(place):
    shown = json.loads(in_pipe("show", "one", "--json", cwd=place).out)
    assert shown["settings"]["epochs"] == 2
    assert [row["epoch"] for row in shown["epochs"]] == [0, 1]
    rows = json.loads(in_pipe("list", "--runs", "--json", cwd=place).out)
    assert [row["name"] for row in rows] == ["one", "two"]
    assert all(row["finished"] for row in rows)


def test_compare_draws_and_tells_what_differs(place):
    done = in_pipe("compare", "one", "two", "--json", cwd=place)
    told = json.loads(done.out)
    assert told["settings"] == {"lr": [recipes.get("digits-mlp").Settings().lr, 0.03]}
    assert len(told["figures"]["test_accuracy"]) == 2
    assert (place / told["plot"]).read_bytes().startswith(b"\x89PNG")


@pytest.mark.parametrize(
    "arguments", [("info",), ("cache",), ("bench", "--seconds", "0.05"), ("list",), ("list", "digits-mlp")]
)
def test_machines_read_json(arguments, tmp_path):
    done = in_pipe(*arguments, "--json", cwd=tmp_path)
    assert done.code == 0, done.err
    assert json.loads(done.out)
    assert done.err == ""


def test_cache_clear_empties_the_named_folder(tmp_path):
    in_pipe("bench", "--seconds", "0.05", cwd=tmp_path, WEFT_CACHE_DIR=str(tmp_path / "kernels"))
    before = json.loads(in_pipe("cache", "--json", cwd=tmp_path, WEFT_CACHE_DIR=str(tmp_path / "kernels")).out)
    after = json.loads(in_pipe("cache", "clear", "--json", cwd=tmp_path, WEFT_CACHE_DIR=str(tmp_path / "kernels")).out)
    assert before["entries"] == after["removed"] > 0
    assert after["entries"] == 0


@pytest.mark.parametrize(
    ("damage", "faults"),
    [
        (None, []),
        ("rate", ["learning rate too high"]),
        ("labels", ["labels shuffled"]),
        ("weights", ["dead initialisation"]),
        ("biases", ["dead initialisation"]),
    ],
)
def test_check_names_the_fault(damage, faults, tmp_path):
    options = ("--break", damage) if damage else ("--plot", "picture.png")
    done = in_pipe("check", "digits-mlp", "--steps", "30", "--json", *options, cwd=tmp_path)
    told = json.loads(done.out)
    assert told["faults"] == faults
    assert done.code == (1 if faults else 0)
    assert Path(tmp_path, told["plot"]).read_bytes().startswith(b"\x89PNG")


# ------------------------------------------------------------------------------------------- terminal and pipe


def test_no_escapes_and_nothing_twice_in_a_pipe(tmp_path):
    done = in_pipe("train", "digits-mlp", *QUICK, cwd=tmp_path)
    assert not ESCAPE.search(done.out + done.err)
    assert "\r" not in done.out
    assert done.err == ""
    lines = done.out.splitlines()
    assert len(lines) == len(set(lines))
    assert sum("test_accuracy" in line and "Goal" not in line for line in lines) == 1
    assert sum(line.endswith("runs/digits-mlp") for line in map(str.rstrip, lines)) == 1


def test_a_terminal_sees_colours_and_progress(tmp_path):
    done = in_terminal("train", "digits-mlp", *QUICK, cwd=tmp_path)
    assert done.code == 3
    assert COLOUR.search(done.out)
    assert done.text.count("epoch 2/2  ") == 1
    assert "missed" in done.text


def test_no_color_and_columns_are_respected(place):
    coloured = in_terminal("check", "digits-mlp", "--break", "weights", "--no-plot", cwd=place)
    plainly = in_terminal("check", "digits-mlp", "--break", "weights", "--no-plot", cwd=place, NO_COLOR="1")
    assert COLOUR.search(coloured.out)
    assert not COLOUR.search(plainly.out)
    narrow = in_pipe("list", cwd=place, COLUMNS="60")
    assert max(map(len, narrow.out.splitlines())) <= 60
    wide = in_pipe("list", cwd=place)
    assert any(line.startswith(" digits-mlp ") and "test_accuracy" in line for line in wide.out.splitlines())


def test_recipes_are_listed_by_family(place):
    lines = [line.strip() for line in in_pipe("list", cwd=place).out.splitlines()]
    heads = [lines.index(f"{family}:") for family in finding.ROOMS]
    first = {
        word: next(n for n, line in enumerate(lines) if line.startswith(f"{word} "))
        for word in ("mnist-cnn", "ising-4x4")
    }
    assert heads == sorted(heads)
    assert heads[1] < first["mnist-cnn"] < heads[2] and heads[4] < first["ising-4x4"]
    rows = json.loads(in_pipe("list", "--json", cwd=place).out)
    assert {row["family"] for row in rows} == set(finding.ROOMS)


def test_a_terminal_shows_tables(place):
    done = in_terminal("show", "one", cwd=place)
    assert done.code == 0
    assert "batch_size" in done.text
    assert any(bar in done.text for bar in "▁█")
    assert "two" in in_terminal("list", "--runs", cwd=place).text


def test_a_closed_pipe_is_no_error(place):
    done = subprocess.run(
        f"{sys.executable} -m weft.app.cli list | head -1",
        shell=True,
        cwd=place,
        env=environment(),
        capture_output=True,
    )
    assert done.returncode == 0
    assert done.stderr == b""


# ------------------------------------------------------------------------------------------- misuse

MISUSE = {
    ("train", "digit-mlp"): "did you mean 'digits-mlp'?",
    ("train",): "train needs a recipe",
    ("train", "digits-mlp", "--set", "lrr=1"): "did you mean 'lr'?",
    ("train", "digits-mlp", "--set", "lr=fast"): "lr takes float, got 'fast'",
    ("train", "digits-mlp", "--set", "lr"): "--set takes key=value, got 'lr'",
    ("train", "digits-mlp", "--set", "dropout=2"): "dropout must be at most 0.9",
    ("train", "digits-mlp", "--name", "one"): "holds a run already",
    ("train", "digits-mlp", "--threads", "0"): "--threads",
    ("train", "--resume", "nothing"): "there is no run 'nothing'",
    ("train", "digits-logistic", "--resume", "one"): "is a run of digits-mlp",
    ("trian",): "Did you mean 'train'?",
    ("train", "--nonsense"): "--nonsense",
    ("show", "on"): "did you mean 'one'?",
    ("show", "."): "it has no settings.json",
    ("eval", "one", "--checkpoint", "first"): "there are: best, last",
    ("predict", "one"): "predict needs an input or --sample N; this run expects a picture of one digit",
    ("predict", "one", "missing.png"): "there is no file missing.png",
    ("predict", "one", "words"): "there is no file words",
    ("export", "one", "--to", "pickle"): "safetensors",
    ("check", "digits-mlp", "--break", "everything"): "labels",
    ("search", "digits-mlp"): "search needs a recipe and a --space",
    ("search", "digits-mlp", "--space", "lr=3..1"): "low < high",
    ("search", "digits-mlp", "--space", "nonsense=1,2"): "there is no 'nonsense'",
    ("search", "digits-mlp", "--space", "lr=0.1", "--folds", "1"): "--folds takes 2 or more",
    ("search", "--resume", "nothing"): "there is no search 'nothing'",
    ("compare", "one", "three"): "there is no run 'three'",
}


@pytest.mark.parametrize("arguments", MISUSE, ids=" ".join)
def test_misuse_is_one_line_and_exit_code_2(arguments, place, monkeypatch, capsys):
    monkeypatch.chdir(place)
    for name in ("WEFT_RUNS", "WEFT_DEBUG"):
        monkeypatch.delenv(name, raising=False)
    with pytest.raises(SystemExit) as ended:
        cli.main(arguments)
    out, err = capsys.readouterr()
    assert ended.value.code == 2
    assert out == ""
    assert err.startswith("weft: ")
    assert err.count("\n") == 1
    assert MISUSE[arguments] in err


def test_an_unexpected_error_is_one_line_unless_debug(place):
    broken = place / "runs" / "broken"
    broken.mkdir(exist_ok=True)
    (broken / "settings.json").write_text("{ torn")
    done = in_pipe("show", "broken", cwd=place)
    assert done.code == 2
    assert done.err.count("\n") == 1
    assert "settings.json" in done.err
    assert "Traceback" in in_pipe("show", "broken", "--debug", cwd=place).err
    (broken / "settings.json").unlink()


def test_help_has_examples(tmp_path):
    for command in (
        "train",
        "list",
        "show",
        "compare",
        "eval",
        "predict",
        "export",
        "check",
        "search",
        "bench",
        "info",
        "cache",
    ):
        assert re.search(rf"weft {command}\b.*\n", _help(command)), command
        assert "xample" in _help(command), command


def _help(command: str) -> str:
    import contextlib
    import io

    text = io.StringIO()
    with contextlib.redirect_stdout(text), pytest.raises(SystemExit) as ended:
        cli.main([command, "--help"])
    assert ended.value.code == 0
    return text.getvalue()


HEAVY = ("scipy", "llvmlite", "matplotlib", "torch", "weft.nn", "weft.train", "weft.models", "weft.compiler")


@pytest.mark.parametrize(("word", "more"), [("--help", {"weft.recipes"}), ("list", set())])
def test_help_and_list_are_quick(word, more, tmp_path):
    program = (
        f"{pace.BEFORE}\nimport sys; from weft.app import cli\ntry: cli.main([{word!r}])\n"
        f"except SystemExit: pass\n{pace.AFTER}\nprint(_paces, *sys.modules)"
    )
    told = environment(PYTHONPYCACHEPREFIX=str(tmp_path))
    told.pop("PYTHONDONTWRITEBYTECODE", None)
    paces = []
    for _ in range(3):
        done = subprocess.run([sys.executable, "-c", program], env=told, capture_output=True, text=True, check=True)
        taken, *modules = done.stdout.splitlines()[-1].split()
        paces.append(float(taken))
    known = {finding._module(name) for name in recipes.names()}  # none is imported for its title
    assert {*HEAVY, *known, *more} & {*modules} == set()
    assert min(paces) < 11, paces  # of tests/pace.py: other work on the machine hardly counts; 7.5 were seen, 0.8 s


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("weft tr", {"train"}),
        ("weft train digits", {"digits-logistic", "digits-mlp"}),
        ("weft train digits-mlp --set dr", {"dropout="}),
        ("weft show tw", {"two"}),
        ("weft eval o", {"one"}),
    ],
)
def test_completion(line, expected, place):
    told = environment(_WEFT_COMPLETE="complete_bash", COMP_WORDS=line, COMP_CWORD=str(len(line.split()) - 1))
    done = subprocess.run([sys.executable, "-m", "weft.app.cli"], cwd=place, env=told, capture_output=True, text=True)
    assert set(done.stdout.split()) == expected


# ------------------------------------------------------------------------------------------- broken off and continued


@pytest.mark.slow
def test_ctrl_c_keeps_the_run_and_resume_ends_with_the_same_weights(tmp_path):
    settings = ("--set", "epochs=40", "--set", "hidden=32", "--set", "batch_size=72")
    stopped = in_terminal("train", "digits-mlp", *settings, "--name", "a", cwd=tmp_path, interrupt_at="epoch  1/40  ")
    assert stopped.code == 130
    assert "weft train --resume a" in stopped.text
    assert "Traceback" not in stopped.text
    assert json.loads((tmp_path / "runs/a/result.json").read_text())["finished"] is False
    assert in_pipe("train", "--resume", cwd=tmp_path).code in (0, 3)
    in_pipe("train", "digits-mlp", *settings, "--name", "b", cwd=tmp_path)
    for name in ("a", "b"):
        in_pipe("export", name, "-o", f"{name}.safetensors", cwd=tmp_path)
    a, b = load_file(tmp_path / "a.safetensors"), load_file(tmp_path / "b.safetensors")
    assert all(np.array_equal(a[name], b[name]) for name in b)


SPACE = ("--space", "lr=0.003,0.01,0.03", "--space", "hidden=8,16", "--space", "dropout=0,0.3")


@pytest.mark.slow
def test_a_killed_search_goes_on(tmp_path):
    arguments = ("search", "digits-mlp", *SPACE, "--set", "epochs=2", "--name", "s")
    process = begun(arguments, tmp_path)
    deadline = time.monotonic() + 60
    while len(list(tmp_path.glob("runs/s/trials/*.json"))) < 3 and time.monotonic() < deadline:
        time.sleep(0.01)
    process.kill()
    process.wait()
    kept = {path: path.stat().st_mtime_ns for path in tmp_path.glob("runs/s/trials/*.json")}
    assert 3 <= len(kept) < 12
    done = in_pipe("search", "--resume", "--json", cwd=tmp_path)
    told = json.loads(done.out)
    assert done.code == 0
    assert len(told["trials"]) == 12
    assert len({json.dumps(trial["settings"]) for trial in told["trials"]}) == 12
    assert all(path.stat().st_mtime_ns == when for path, when in kept.items())  # what was finished was not run again
    scores = [trial["score"] for trial in told["trials"]]
    assert told["score"] == max(scores) == scores[0]
    assert (tmp_path / told["plot"]).read_bytes().startswith(b"\x89PNG")
    again = in_pipe(*arguments, cwd=tmp_path)
    assert again.out.count("\n") == 12 + 2 + 2  # the table, the best, the picture
    assert in_pipe(*arguments, "--seed", "3", cwd=tmp_path).code == 2  # another search in the same folder


@pytest.mark.slow
def test_halving_gives_more_epochs_to_fewer(tmp_path):
    arguments = ("--space", "lr=1e-4..1e-1", "--method", "halving", "--trials", "4", "--eta", "2", "--set", "epochs=4")
    told = json.loads(in_pipe("search", "digits-logistic", *arguments, "--json", cwd=tmp_path).out)
    epochs = [(trial["rung"], trial["budget"]) for trial in told["trials"]]
    assert sorted(epochs) == [(0, 1)] * 4 + [(1, 2)] * 2 + [(2, 4)]
    first = sorted((trial for trial in told["trials"] if trial["rung"] == 0), key=lambda trial: -trial["score"])
    second = {trial["number"] for trial in told["trials"] if trial["rung"] == 1}
    assert second == {trial["number"] for trial in first[:2]}


@pytest.mark.slow
def test_folds_score_by_all_rows_but_the_test(tmp_path):
    arguments = ("--space", "lr=0.01,0.03", "--folds", "3", "--set", "epochs=2")
    told = json.loads(in_pipe("search", "digits-logistic", *arguments, "--json", cwd=tmp_path).out)
    assert [len(list((tmp_path / told["folder"] / "trials" / f"000{i}.0").iterdir())) for i in (0, 1)] == [3, 3]
    assert all(trial["figures"]["val_accuracy_std"] > 0 for trial in told["trials"])
    assert "test_accuracy" not in told["trials"][0]["figures"]


# ------------------------------------------------------------------------------------------- pieces


@pytest.mark.parametrize(
    ("text", "space"),
    [
        ("1e-4..1e-1", LogUniform(1e-4, 0.1)),
        ("0..0.5", Uniform(0.0, 0.5)),
        ("1..8", Integer(1, 8)),
        ("-1..1", Integer(-1, 1)),
        ("16,32", Choice((16, 32))),
        ("uniform(0,1)", Uniform(0, 1)),
        ("relu,tanh", Choice(("relu", "tanh"))),
    ],
)
def test_spaces_are_read(text, space):
    assert parsed(text) == space


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        (["train", "--resume"], ["train", "--resume=latest"]),
        (["train", "--resume", "--json"], ["train", "--resume=latest", "--json"]),
        (["train", "--resume", "one"], ["train", "--resume", "one"]),
        (["list", "--runs"], ["list", "--runs="]),
    ],
)
def test_options_with_an_optional_value(given, expected):
    assert cli.complete_options(given) == expected


@pytest.mark.parametrize(
    ("values", "bars"),
    [
        ([], ""),
        ([1.0], "▁"),
        ([0, 7], "▁█"),
        ([float("nan"), 1, 2], " ▁█"),
        ([3, 3], "▁▁"),
        (list(range(8)), "▁▂▃▄▅▆▇█"),
    ],
)
def test_sparkline(values, bars):
    assert sparkline(values) == bars


def test_sparkline_keeps_the_width():
    assert len(sparkline(list(range(1000)), width=40)) == 40


def test_json_has_no_nan():
    assert plain({"a": float("nan"), 1: np.float32(2.0), "b": (1, Path("x")), "c": np.arange(2)}) == {
        "a": None,
        "1": 2.0,
        "b": [1, "x"],
        "c": [0, 1],
    }
    assert figure(1234567.0) == "1.235e+06"
    assert figure(0.123456) == "0.1235"
    assert figure(None) == "–"


def test_exit_code_0_when_the_goal_is_reached(tmp_path):
    done = in_pipe("train", "digits-logistic", "--no-compile", "--seed", "1", cwd=tmp_path)
    assert done.code == 0, done.out + done.err
    assert "reached" in done.out
    assert os.listdir(tmp_path / "runs") == ["digits-logistic"]
