"""`weft eval`, `weft predict`, `weft export`: what a trained run is good for."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from .machine import AsJson
from .naming import find_run
from .output import Misuse, deliver, figure, plain, table
from .runs import RunName
from .training import Data, NoCompile, Runs

if TYPE_CHECKING:
    from rich.console import Console

    from ..recipes import Loaded

Checkpoint = Annotated[str, typer.Option(help="Which weights: last, best, or the name of another checkpoint.")]


def register(app: typer.Typer) -> None:
    """Add the commands of this file."""
    app.command("eval", rich_help_panel="Runs")(evaluate)
    for command in (predict, export):
        app.command(rich_help_panel="Runs")(command)


def _loaded(run: str, runs: str | None, checkpoint: str) -> Loaded:
    """A run with its trained weights."""
    from ..recipes import load

    folder = find_run(run, runs)
    file = folder.checkpoint(checkpoint)
    if "recipe" not in folder.settings:
        raise Misuse(f"{folder.path} was not begun by weft train: its settings name no recipe")
    if not file.exists():
        there = sorted(path.stem for path in folder.checkpoints.glob("*.weft"))
        raise Misuse(f"{folder.path} has no checkpoint {checkpoint!r}; there are: {', '.join(there) or 'none'}")
    return load(folder.path, checkpoint)


def evaluate(
    run: RunName,
    data: Data = None,
    checkpoint: Checkpoint = "last",
    runs: Runs = None,
    no_compile: NoCompile = False,
    as_json: AsJson = False,
) -> None:
    """Test a trained run on its test data; exit code 1 when it misses the goal of its recipe.

    Example: weft eval latest --data ~/data
    """
    from ..train import Trainer

    loaded = _loaded(run, runs, checkpoint)
    splits = loaded.recipe.data(loaded.settings, data or loaded.root)
    figures = Trainer(progress=False, compile=not no_compile).test(loaded.task, splits.test)
    goal = loaded.recipe.goal
    document = {"run": loaded.folder.name, "figures": figures, "goal": str(goal), "reached": goal.reached(figures)}

    def show(console: Console) -> None:
        console.print(", ".join(f"{name} {figure(value)}" for name, value in figures.items()), markup=False)
        console.print(f"Goal {goal}: {'[green]reached[/]' if document['reached'] else '[red]missed[/]'}")

    deliver(document, as_json, show)
    raise typer.Exit(0 if document["reached"] else 1)


# ---------------------------------------------------------------- predictions


def predict(
    run: RunName,
    input: Annotated[str, typer.Argument(help="A .csv, .npy, picture or text file, or the input itself.")],
    checkpoint: Checkpoint = "last",
    runs: Runs = None,
    as_json: AsJson = False,
) -> None:
    """Say what a trained run makes of an input.

    A .csv file is a table of numbers (a first line of names is left out), a .npy file an array; what is no file is
    handed over as it is.

    Examples:

      weft predict digits-mlp digit.png

      weft predict moons-mlp "0.5,-0.2; 1,1" --json
    """
    loaded = _loaded(run, runs, checkpoint)
    found = _predicted(loaded, read_input(input))
    rows = plain(found)
    deliver(rows, as_json, lambda console: _show_predictions(console, rows))


def read_input(given: str) -> Any:
    """What a person named: numbers of a .csv or .npy file, the text of a .txt file, the path of another, the words."""
    import numpy as np

    path = Path(given)
    kind = path.suffix.lower()
    if kind in (".csv", ".npy", ".txt", ".png", ".jpg", ".jpeg", ".bmp", ".gif") and not path.is_file():
        raise Misuse(f"predict: there is no file {given}")
    if kind == ".csv":
        return _table(path)
    if kind == ".npy":
        return np.load(path, allow_pickle=False)
    return path.read_text(encoding="utf-8") if kind == ".txt" else given


def _table(path: Path) -> Any:
    """The numbers of a .csv file (rows, columns); whole numbers as integers."""
    import csv

    import numpy as np

    with open(path, encoding="utf-8-sig", newline="") as file:
        rows = [row for row in csv.reader(file) if row]
    try:
        numbers = np.array([[float(cell) for cell in row] for row in rows[_has_header(rows) :]])
    except ValueError as error:
        raise Misuse(f"{path}: expected rows of equally many numbers: {error}") from None
    return numbers.astype(np.int64) if numbers.size and not (numbers % 1).any() else numbers


def _has_header(rows: list[list[str]]) -> bool:
    try:
        [float(cell) for row in rows[:1] for cell in row]
    except ValueError:
        return True
    return False


def _predicted(loaded: Loaded, given: Any) -> Any:
    """The prediction; rows of pixels that come from a table are tried as square pictures."""
    from ..errors import ShapeError

    try:
        return loaded.recipe.predict(loaded.task, given)
    except ShapeError:
        side = round(given.shape[1] ** 0.5) if getattr(given, "ndim", 0) == 2 else 0
        if not side or side**2 != given.shape[1]:
            raise
        return loaded.recipe.predict(loaded.task, given.reshape(-1, side, side))  # (N, S²) → (N, S, S)


def _show_predictions(console: Console, rows: Any) -> None:
    if not isinstance(rows, list):
        rows = [rows]
    if rows and all(isinstance(row, dict) for row in rows):
        names = list(dict.fromkeys(name for row in rows for name in row))
        cells = [(number, *(_cell(row.get(name)) for name in names)) for number, row in enumerate(rows, 1)]
        console.print(table((">", *names), cells))
    else:
        for row in rows:
            console.print(_cell(row), markup=False)


def _cell(value: Any) -> str:
    """One prediction in a table; of many probabilities the three largest."""
    if isinstance(value, dict):
        top = sorted(value.items(), key=lambda item: -item[1] if isinstance(item[1], int | float) else 0)[:3]
        return ", ".join(f"{name} {figure(number)}" for name, number in top)
    if isinstance(value, list):
        return ", ".join(map(_cell, value))
    return figure(value)


# ---------------------------------------------------------------- weights


def export(
    run: RunName,
    to: Annotated[Literal["safetensors", "weft"], typer.Option(help="The kind of file.")] = "safetensors",
    output: Annotated[
        Path | None, typer.Option("--output", "-o", help="The file.", show_default="in the run's folder")
    ] = None,
    checkpoint: Checkpoint = "last",
    runs: Runs = None,
    as_json: AsJson = False,
) -> None:
    """Write the weights of a run to one file; names and shapes are PyTorch's.

    A .safetensors file is read by PyTorch, JAX and others; recipe and settings stand in its metadata.

    Example: weft export digits-mlp --to safetensors -o digits.safetensors
    """
    import weft

    from ..io import save_file

    loaded = _loaded(run, runs, checkpoint)
    weights = {name: value.detach() for name, value in loaded.task.state_dict().items()}
    path = output or loaded.folder / f"{loaded.folder.name}.{to}"
    about = {"recipe": loaded.recipe.name, "settings": json.dumps(plain(loaded.settings)), "checkpoint": checkpoint}
    if to == "safetensors":
        save_file(weights, path, metadata=about)
    else:
        weft.save({"weights": weights, "about": about}, path)
    count = sum(value.numel() for value in weights.values())
    document = {
        "file": str(path),
        "format": to,
        "tensors": len(weights),
        "numbers": count,
        "bytes": path.stat().st_size,
    }
    line = f"{path}: {len(weights)} tensors, {count} numbers, {document['bytes'] / 1024:.1f} KiB"
    deliver(document, as_json, lambda console: console.print(line, markup=False))
