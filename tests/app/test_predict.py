"""`weft predict`: pictures as people have them, examples of the test data, what is no digit, and how answers look."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

import weft
from weft import recipes
from weft.app import cli
from weft.app.predictions import bar
from weft.data import load_digits
from weft.errors import OptionError
from weft.recipes.photos import fitted, light_on_dark

Image = pytest.importorskip("PIL.Image")
DIGITS, LABELS = load_digits()
KNOWN = [0, 10, 20, 30, 40, 50, 60, 70, 80, 90]  # one of each


@pytest.fixture(scope="module")
def run(tmp_path_factory) -> Path:
    """A trained run of digits-mlp."""
    place = tmp_path_factory.mktemp("runs") / "digits"
    recipes.run("digits-mlp", ["epochs=12", "hidden=64"], folder=place, progress=False)
    return place


@pytest.fixture
def told(run, tmp_path, monkeypatch, capsys):
    """What `weft predict` says of an input: (exit code, standard output, standard error)."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "100")

    def predict(*arguments: str) -> tuple[int, str, str]:
        with pytest.raises(SystemExit) as ended:
            cli.main(["predict", str(run), *arguments])
        return ended.value.code, *capsys.readouterr()

    return predict


def answer(told, *arguments: str) -> dict:
    code, out, err = told(*arguments, "--json")
    assert err == ""
    (row,) = json.loads(out)
    assert code == ("refused" in row)
    return row


def drawn(number: int, sizes: tuple[int, int], light: bool, path: Path) -> None:
    """A digit as a larger picture with a margin, in one of both polarities, on a ground that is not quite black or white."""
    scale = (min(sizes) * 3 // 5) // 8
    strokes = np.kron(DIGITS[number] / 16, np.ones((scale, scale)))  # (8, 8) → (8s, 8s)
    canvas = np.zeros(sizes)
    top, left = sizes[0] // 8, sizes[1] // 3
    canvas[top : top + 8 * scale, left : left + 8 * scale] = strokes
    brightness = 0.1 + 0.8 * canvas if light else 0.95 - 0.85 * canvas
    Image.fromarray((255 * brightness).astype(np.uint8)).save(path)


# ------------------------------------------------------------------------------------------- pictures


@pytest.mark.parametrize("light", [True, False], ids=["light", "dark"])
@pytest.mark.parametrize("sizes", [(60, 60), (120, 200), (301, 173)], ids=str)
def test_pictures_of_any_size_and_polarity(sizes, light, run, tmp_path) -> None:
    loaded = recipes.load(run)
    direct = loaded.recipe.predict(loaded.task, DIGITS[KNOWN])
    right = 0
    for number, expected in zip(KNOWN, direct, strict=True):
        drawn(number, sizes, light, tmp_path / "digit.png")
        (said,) = loaded.recipe.predict(loaded.task, tmp_path / "digit.png")
        right += said["label"] == expected["label"]
        assert said["done"] == [
            *([] if light else ["dark on a light ground: inverted"]),
            f"cut to the strokes and scaled from {sizes[1]}×{sizes[0]} to 8×8",
        ]
    assert right >= 9


def test_no_digit_is_taken_for_its_negative() -> None:
    images = DIGITS[:, None] / 16
    assert not any(light_on_dark(image)[1] for image in images)
    for image in images:
        back, done = light_on_dark(1 - image)
        assert done and np.allclose(back, image + (1 - image.max()) - image.min(), atol=1e-6)


def test_inverted_arrays_are_recognised(run) -> None:
    loaded = recipes.load(run)
    upright, inverted = (loaded.recipe.predict(loaded.task, images) for images in (DIGITS[KNOWN], 16 - DIGITS[KNOWN]))
    assert [row["label"] for row in upright] == [row["label"] for row in inverted]
    assert all(row["done"] == ["dark on a light ground: inverted"] for row in inverted)
    assert not any("done" in row for row in upright)


def test_transparent_ground_is_white(tmp_path, run) -> None:
    strokes = np.kron(DIGITS[0] / 16, np.ones((6, 6)))
    pixels = np.zeros((48, 48, 4), np.uint8)
    pixels[..., 3] = 255 * strokes
    Image.fromarray(pixels).save(tmp_path / "ink.png")
    loaded = recipes.load(run)
    (said,) = loaded.recipe.predict(loaded.task, tmp_path / "ink.png")
    assert said["label"] == "0"


def test_strokes_of_mnist_are_centred_by_mass() -> None:
    picture = np.zeros((1, 90, 140), np.float32)
    picture[0, 10:70, 20:40] = 1.0
    picture[0, 50:70, 20:60] = 1.0  # an L
    image, _ = fitted(picture, (1, 28, 28), ink=True)
    rows, columns = (np.flatnonzero(image[0].max(axis) > 0.2) for axis in (1, 0))
    assert rows[-1] - rows[0] + 1 == 20
    places = np.arange(28) + 0.5
    centre = [(image[0].sum(1 - axis) * places).sum() / image.sum() for axis in (0, 1)]
    assert np.abs(np.array(centre) - 14).max() <= 0.6
    assert columns[-1] - columns[0] + 1 == pytest.approx(20 * 40 / 60, abs=1)


def test_other_pictures_are_cut_to_their_middle() -> None:
    picture = np.zeros((3, 40, 100), np.float32)
    picture[:, :, 30:70] = 1.0
    image, done = fitted(picture, (3, 32, 32), ink=False)
    assert image.shape == (3, 32, 32) and image.min() == 1.0
    assert done == ["cut to the middle square and scaled from 100×40 to 32×32"]


# ------------------------------------------------------------------------------------------- refusals


def noise() -> np.ndarray:
    return np.random.default_rng(0).integers(0, 256, (64, 64)).astype(np.uint8)


REFUSED = {
    "blank": (np.full((50, 40), 200, np.uint8), "the picture is blank: its brightness spans 0.00"),
    "faint": (np.where(np.arange(1600).reshape(40, 40) % 40 < 20, 200, 210).astype(np.uint8), "the picture is blank"),
    "noise": (noise(), "looks like no digit: its correlation with the nearest of 1,797 known digits is 0."),
    "checkers": ((np.indices((64, 64)).sum(0) // 16 % 2 * 255).astype(np.uint8), "looks like no digit"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_is_no_digit_is_refused(name, told, tmp_path) -> None:
    pixels, words = REFUSED[name]
    Image.fromarray(pixels).save(tmp_path / "x.png")
    said = answer(told, "x.png")
    assert said["label"] is None and said["probability"] is None
    assert words in said["refused"] and "is the least" in said["refused"]
    code, out, _ = told("x.png")
    assert (code, out.startswith("refused: ")) == (1, True)


def test_the_criterion_lets_digits_pass() -> None:
    """Of the digits themselves, compared with all others, one in a thousand would be refused at most."""
    rows = DIGITS.reshape(len(DIGITS), -1).astype(float)
    likeness = np.corrcoef(rows)
    np.fill_diagonal(likeness, -1)
    assert (likeness.max(1) < 0.7).mean() <= 1e-3


def test_an_unsure_answer_is_called_so(run, told, monkeypatch) -> None:
    monkeypatch.setattr("weft.app.predictions.UNSURE", 1.1)
    assert "unsure: the best guess is below" in told("--sample", "0")[1]


# ------------------------------------------------------------------------------------------- answers


def test_an_example_of_the_test_data(told, run) -> None:
    said = answer(told, "--sample", "3")
    assert said["truth"] == str(LABELS[15])
    loaded = recipes.load(run)
    (direct,) = loaded.recipe.predict(loaded.task, DIGITS[15])
    assert {name: said[name] for name in direct} == direct
    code, out, _ = told("--sample", "3")
    first, *_ = out.splitlines()
    label, share, *drawing = first.split()
    assert code == 0
    assert (label, share) == (said["label"], f"{said['probability']:.1%}")
    assert drawing[0].startswith("█") and f"truly {said['truth']}" in out


def test_several_answers_are_a_table(told, tmp_path) -> None:
    np.save(tmp_path / "many.npy", np.concatenate([DIGITS[:3], np.eye(8)[None] * 16]).astype(np.int64))
    code, out, _ = told("many.npy")
    rows = [line.split() for line in out.splitlines()[2:]]
    assert [row[0] for row in rows[:3]] == ["0", "1", "2"] and all("%" in row[2] for row in rows[:3])
    assert code == 1 and "refused: it looks like no digit" in " ".join(rows[3])


MISUSE = {
    (): "predict needs an input or --sample N; this run expects a picture of one digit",
    ("digit.png", "--sample", "1"): "predict needs an input or --sample N",
    ("--sample", "360"): "there are 360 test examples, 0 to 359",
    ("text.png",): "is no picture that Pillow can read",
    ("small.npy",): "expected images of shape (1, 8, 8) (channels, height, width), got (7, 7); digits-mlp expects",
    ("nan.npy",): "elements that are not finite",
}


@pytest.mark.parametrize("arguments", MISUSE, ids=" ".join)
def test_misuse(arguments, told, tmp_path) -> None:
    (tmp_path / "text.png").write_text("no picture")
    np.save(tmp_path / "small.npy", np.zeros((7, 7)))
    np.save(tmp_path / "nan.npy", np.full((8, 8), np.nan))
    code, out, err = told(*arguments)
    assert (code, out) == (2, "")
    assert MISUSE[arguments] in err and err.count("\n") == 1


def test_a_recipe_without_pictures_has_no_samples(tmp_path, monkeypatch, capsys) -> None:
    monkeypatch.chdir(tmp_path)
    recipes.run("moons-mlp", ["epochs=1"], folder="runs/moons", progress=False, compile=False)
    with pytest.raises(SystemExit) as ended:
        cli.main(["predict", "moons", "--sample", "1"])
    assert ended.value.code == 2
    assert "moons-mlp expects points like 0.5,-0.2" in capsys.readouterr().err


def test_pictures_without_pillow(monkeypatch, tmp_path, run) -> None:
    import sys

    (tmp_path / "x.png").write_bytes(b"")
    monkeypatch.setitem(sys.modules, "PIL.Image", None)
    monkeypatch.setitem(sys.modules, "PIL", None)
    loaded = recipes.load(run)
    with pytest.raises(ImportError, match="pip install pillow"):
        loaded.recipe.predict(loaded.task, tmp_path / "x.png")


@pytest.mark.parametrize(("share", "drawn"), [(0, ""), (1, "████"), (0.5, "██"), (1 / 32, "▏"), (2, "████")])
def test_bars(share, drawn) -> None:
    assert bar(share, width=4) == drawn


def test_bad_arrays_are_refused_in_python(run) -> None:
    loaded = recipes.load(run)
    with pytest.raises(OptionError, match="not finite"):
        loaded.recipe.predict(loaded.task, weft.full((8, 8), float("inf")))
