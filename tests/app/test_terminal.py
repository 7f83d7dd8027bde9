"""Progress as it is seen: terminals of 60, 80 and 120 columns, and none."""

from __future__ import annotations

import io
import re
import time

import pytest
from rich.console import Console

from weft.train import RunFolder
from weft.train.progress import Clock, LiveDisplay, PlainDisplay, clock_time, compact, line

from .screen import Screen, frames
from .shell import in_pipe, in_terminal

WIDTHS = (60, 80, 120)
ROW = {
    "epoch": 11,
    "step": 480,
    "train_loss": 0.12345,
    "train_accuracy": 0.98765,
    "val_loss": 0.23456,
    "val_accuracy": 0.97654,
    "seconds": 12.34,
}
SHOWN = {"train_accuracy", "val_accuracy"}
LINES = {
    None: "epoch 12/40  train_loss 0.1235  val_loss 0.2346  train_accuracy 0.9877  val_accuracy 0.9765  73,028 samples/s  12.3 s",
    120: "epoch 12/40  train_loss 0.1235  val_loss 0.2346  train_accuracy 0.9877  val_accuracy 0.9765  73,028 samples/s  12.3 s",
    100: "epoch 12/40  loss 0.1235 (val 0.2346)  accuracy 0.9877 (val 0.9765)  73k samples/s  12.3 s",
    80: "epoch 12/40  loss 0.1235 (val 0.2346)  accuracy 0.9877 (val 0.9765)  12.3 s",
    60: "epoch 12/40  loss 0.123/0.235  accuracy 0.988/0.977  12.3 s",
    45: "epoch 12/40  loss 0.123/0.235  12.3 s",
    12: "epoch 12/40",
    5: "epoch",
}


@pytest.mark.parametrize("width", LINES)
def test_the_line_of_an_epoch_fits(width) -> None:
    assert line(ROW, SHOWN, 40, 73028.0, width) == LINES[width]


@pytest.mark.parametrize("width", [20, 40, *WIDTHS, 200])
@pytest.mark.parametrize("epochs", [None, 3, 1000])
@pytest.mark.parametrize(
    "figures", [{}, {"loss": 1e-9}, {"loss": float("nan"), "accuracy": 0.5, "another_figure": 12345.6}]
)
def test_the_moving_line_fits(width, epochs, figures) -> None:
    display = LiveDisplay(Console(file=io.StringIO(), force_terminal=True, width=width))
    display.epochs = epochs
    display.epoch(1, 468, 0)
    display.clock.began -= 10
    if figures:
        display.batch(200, 128, figures)
    text = display.moving(width)
    assert len(text) <= width and text.startswith("epoch ")
    if figures and epochs and width >= 60:
        assert ("━" in text or "╌" in text) and " left" in text and "/s" in text and "loss" in text


# ------------------------------------------------------------------------------------------- real terminals

TRAIN = ("train", "digits-mlp", "--set", "epochs=12", "--set", "hidden=16", "--set", "batch_size=9")


@pytest.fixture(scope="module")
def seen(tmp_path_factory) -> dict[int, tuple[list[list[str]], Screen, str]]:
    """A training in each terminal, the first with an empty cache of kernels: every frame, the last screen, the text."""
    found, kernels = {}, str(tmp_path_factory.mktemp("kernels"))
    for width in WIDTHS:
        folder = tmp_path_factory.mktemp(f"terminal{width}")
        done = in_terminal(*TRAIN, cwd=folder, width=width, WEFT_CACHE_DIR=kernels)
        assert done.code in (0, 3), done.text
        assert "warning" not in done.text  # what is shown is no reason to compile anew
        assert RunFolder(folder / "runs" / "digits-mlp").result["compiled"]
        found[width] = (*frames(done.parts, width), done.text)
    return found


@pytest.mark.parametrize("width", WIDTHS)
def test_one_line_an_epoch(width, seen) -> None:
    _, screen, _ = seen[width]
    epochs = [text for text in screen.lines if text.startswith("epoch")]
    assert [text.split("/")[0].split()[1] for text in epochs] == [str(number) for number in range(1, 13)]
    assert all("loss" in text and "accuracy" in text and text.endswith(" s") for text in epochs)
    assert len({len(text) for text in epochs}) <= 3  # columns keep their places, but for the digits of numbers


@pytest.mark.parametrize("width", WIDTHS)
def test_a_bar_with_rate_and_time_left(width, seen) -> None:
    shots, _, _ = seen[width]
    moving = [text for shot in shots for text in shot if "━" in text or "╌" in text]
    assert moving and max(map(len, moving)) <= width
    full = [text for text in moving if " left" in text]
    assert full and all(re.search(r"[\d.]+[kM]?( samples)?/s  \d+:\d\d left$", text) for text in full)
    assert all(text.count("━") + text.count("╌") >= 6 for text in full)


@pytest.mark.parametrize("width", WIDTHS)
def test_compiling_is_said_and_not_counted(width, seen) -> None:
    shots, screen, _ = seen[width]
    assert any(re.fullmatch(r"epoch +1/12 compiling… \d+ s", text) for shot in shots for text in shot)
    assert not any("compiling" in text or "━" in text for text in screen.lines)  # nothing of it stays
    if width == 120:
        rates = [
            float(re.search(r"([\d,]+) samples/s", t)[1].replace(",", "")) for t in screen.lines if "samples/s" in t
        ]
        assert (
            rates[0] > sorted(rates)[len(rates) // 2] / 20
        )  # the first epoch holds a compilation of many epochs' time


@pytest.mark.parametrize("width", WIDTHS)
def test_nothing_else_breaks_lines_apart(width, seen) -> None:
    _, screen, _ = seen[width]
    ended = next(i for i, text in enumerate(screen.lines) if text.startswith("epoch 12/12"))
    assert screen.lines[ended + 1].endswith("waiting for data")


def test_without_a_terminal(tmp_path) -> None:
    done = in_pipe(*TRAIN, cwd=tmp_path)
    epochs = [text for text in done.out.splitlines() if text.startswith("epoch")]
    assert len(epochs) == 12
    assert all(re.search(r"train_loss [\d.]+  val_loss .* [\d,]+ samples/s  [\d.]+ s$", text) for text in epochs)
    assert "compiling" not in done.out and "━" not in done.out and "\x1b" not in done.out + done.err


# ------------------------------------------------------------------------------------------- pieces


def test_the_clock_stands_still_while_compiling() -> None:
    clock = Clock()
    clock.epoch()
    with clock.pause(), clock.pause():
        time.sleep(0.2)
        assert clock.now() - clock.epoch_began < 0.1
    clock.batch(100)
    assert clock.rate() > 100 / 0.15
    assert clock.left(10) is None  # nothing can be said after a moment
    clock.began -= 1
    assert 9 < clock.left(10) < 13


def test_compiling_is_heard_of() -> None:
    import weft

    display = PlainDisplay(Console(file=io.StringIO()))
    display.start(1)
    step = weft.compile(lambda x: (x * 3 + 1).tanh())
    step(weft.ones(7))
    heard = display.clock.pauses
    step(weft.ones(7))
    display.close()
    assert heard > 0 and display.clock.pauses == heard
    weft.compile(lambda x: (x * 5 + 1).tanh())(weft.ones(7))
    assert display.clock.pauses == heard


@pytest.mark.parametrize(
    ("number", "text"), [(0, "0"), (7.25, "7.25"), (999.4, "999"), (999.6, "1k"), (12345, "12.3k"), (4.5e6, "4.5M")]
)
def test_compact_numbers(number, text) -> None:
    assert compact(number) == text


@pytest.mark.parametrize(
    ("seconds", "text"), [(0, "0:00"), (6.2, "0:07"), (754, "12:34"), (3723, "1:02:03"), (432000, "5 days")]
)
def test_clock_times(seconds, text) -> None:
    assert clock_time(seconds) == text


def test_the_screen_itself() -> None:
    """The emulator against what terminals do: wrapping, going up, erasing."""
    screen = Screen(5)
    screen.feed("abcdefg\r\nxy\x1b[2K\r12\x1b[1A\rZ")
    assert screen.lines == ["abcde", "Zg", "12"]
    assert screen.wrapped == 1
