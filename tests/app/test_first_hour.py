"""A new user's first hour, typed into a terminal of 80 columns in a clone called `weft`: only what hints say is typed.

The clone has an environment of its own in `.venv`, as make would have made it, with the libraries of the one that runs
the tests.
"""

from __future__ import annotations

import json
import os
import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import weft
from weft.data import load_digits

from .screen import Screen
from .shell import Done, environment, typed

ROOT = Path(weft.__file__).parent.parent
LEFT_BEHIND = shutil.ignore_patterns(
    ".git", ".venv", "build", "runs", "__pycache__", "*.egg-info", ".*_cache", ".hypothesis"
)
pytestmark = pytest.mark.skipif(
    sys.prefix == sys.base_prefix or not (ROOT / "Makefile").exists() or shutil.which("make") is None,
    reason="needs a clone, make and an environment to borrow libraries from",
)


class Terminal:
    """Where the user types: a clone, and a screen of 80 columns."""

    def __init__(self, clone: Path) -> None:
        self.clone = clone
        path = os.pathsep.join(p for p in os.environ["PATH"].split(os.pathsep) if not p.startswith(sys.prefix))
        self.environment = environment(PATH=path, PYTHONPATH=str(clone), WEFT_CACHE_DIR=str(clone / "kernels"))
        self.environment.pop("PYTHONDONTWRITEBYTECODE", None)

    def type(self, line: str, code: int = 0, interrupt_at: str | None = None) -> list[str]:
        """The lines that stand on the screen after a command."""
        done: Done = typed(shlex.split(line), self.clone, self.environment, interrupt_at)
        screen = Screen(80)
        screen.feed(done.out)
        assert done.code == code, f"{line}\n{done.text}"
        assert "Traceback" not in done.text
        return screen.lines


@pytest.fixture(scope="module")
def terminal(tmp_path_factory) -> Terminal:
    clone = tmp_path_factory.mktemp("home") / "weft"
    shutil.copytree(ROOT, clone, ignore=LEFT_BEHIND)
    scripts = clone / ".venv" / "bin"
    scripts.mkdir(parents=True)
    shutil.copy(Path(sys.prefix) / "pyvenv.cfg", clone / ".venv")
    (clone / ".venv" / "lib").symlink_to(Path(sys.prefix) / "lib")
    (scripts / "python").symlink_to(os.path.realpath(sys.executable))
    (scripts / "weft").write_text(f"#!{scripts / 'python'}\nfrom weft.app.cli import main\n\nmain()\n")
    (scripts / "weft").chmod(0o755)
    for stamp in ("lint", "core", "plots", "test"):
        (clone / ".venv" / f"{stamp}.stamp").touch()
    return Terminal(clone)


def joined(lines: list[str]) -> str:
    """Lines as one text: what the screen broke apart comes together."""
    return re.sub(r"\s+", " ", " ".join(lines))


def test_the_first_hour(terminal: Terminal) -> None:
    clone = terminal.clone

    # weft alone
    lines = terminal.type(".venv/bin/weft")
    assert any(line.startswith(".venv/bin/weft train digits-mlp") for line in lines)

    # make demo ends with the picture, the checkpoint and three commands
    lines = [line for line in terminal.type("make demo") if line]
    labels = {line.split()[0]: line.split()[1] for line in lines if line.startswith(("Picture", "Checkpoint"))}
    assert (clone / labels["Picture"]).read_bytes().startswith(b"\x89PNG")
    assert (clone / labels["Checkpoint"]).exists()
    assert "Goal test_accuracy ≥ 0.97" in joined(lines) and "reached" in joined(lines)
    shown, predicted, trained = (line.removeprefix("Next").strip() for line in lines[-3:])
    assert all(command.startswith(".venv/bin/weft ") for command in (shown, predicted, trained))

    # the three commands as they stand there
    assert "test_accuracy" in joined(terminal.type(shown))
    assert re.match(r"\d +\d+\.\d%  █", terminal.type(predicted)[0])
    lines = terminal.type(
        f"{trained} --set epochs=12 --set hidden=16 --set batch_size=64", 130, interrupt_at="epoch  1/12  "
    )
    going_on = re.search(r"to go on: (\S+ train --resume \S+)", joined(lines))[1]

    # list, what is interrupted, resume
    assert "digits-mlp" in joined(terminal.type(".venv/bin/weft list"))
    assert "unfinished" in joined(terminal.type(".venv/bin/weft list --runs"))
    lines = terminal.type(f"{going_on} --set hidden=32", 2)
    assert "it alters the network" in joined(lines)
    lines = terminal.type(going_on, code_of(clone / "runs" / "digits-mlp-2"))
    assert any(line.startswith("epoch 12/12") for line in lines)
    assert not any(line.startswith("epoch  1/12") for line in lines)
    assert "is finished (12 epochs)" in joined(terminal.type(going_on, code_of(clone / "runs" / "digits-mlp-2")))

    # show, a picture of one's own, a search
    told = json.loads("".join(terminal.type(".venv/bin/weft show latest --json")))
    assert (told["name"], told["settings"]["lr"], told["finished"]) == ("digits-mlp-2", 0.02, True)
    assert len(told["epochs"]) == 12
    paper(clone / "three.png", 3)
    lines = terminal.type(".venv/bin/weft predict digits-mlp three.png")
    assert lines[0].split()[0] == "3" and "inverted" in joined(lines)
    lines = terminal.type(".venv/bin/weft search digits-logistic --space lr=0.001,0.03 --set epochs=2")
    best = next(line for line in lines if line.startswith("Best: "))
    assert best.startswith("Best: .venv/bin/weft train digits-logistic --set epochs=2 --set lr=0.03")

    # nothing but what was asked for lies about
    assert sorted(path.name for path in (clone / "runs").iterdir()) == [
        "digits-logistic-search",
        "digits-mlp",
        "digits-mlp-2",
    ]


class code_of:
    """The exit code of a run that has ended, whichever of reached (0) and missed (3) it came to."""

    def __init__(self, run: Path) -> None:
        self.run = run

    def __eq__(self, code: object) -> bool:
        reached = json.loads((self.run / "result.json").read_text())["reached"]
        return code == (0 if reached else 3)

    __hash__ = None


def paper(path: Path, number: int) -> None:
    """A digit in dark ink on light paper, larger than the network's images."""
    image = pytest.importorskip("PIL.Image")
    strokes = np.kron(load_digits()[0][number] / 16, np.ones((9, 9)))  # (8, 8) → (72, 72)
    sheet = np.pad(strokes, ((20, 30), (40, 25)))
    image.fromarray((240 - 220 * sheet).astype(np.uint8)).save(path)


def test_the_clone_passes_its_tests(terminal: Terminal) -> None:
    """Those that tell a user's code from Weft's: the clone's own path has the package's name in it."""
    tests = ("tests/autograd/test_tape.py", "tests/test_errors.py", "-k", "anomaly or line")
    done = subprocess.run(
        [".venv/bin/python", "-m", "pytest", "-q", *tests],
        cwd=terminal.clone,
        env=terminal.environment,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stdout
