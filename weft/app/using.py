"""`weft eval`, `weft predict`, `weft export`: what a trained run is good for."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from .interchange import write_onnx
from .machine import AsJson
from .naming import find_run
from .output import DONE, FAILED, MISSED, Misuse, deliver, figure, plain, print_baseline
from .predictions import show_predictions
from .runs import RunName
from .training import Data, NoCompile, Runs, TrustData, data_folder

if TYPE_CHECKING:
    from rich.console import Console

    from ..recipes import Loaded

__all__ = ["Checkpoint", "loaded_run", "read_input"]

Checkpoint = Annotated[str, typer.Option(help="Which weights: last, best, or the name of another checkpoint.")]


def register(app: typer.Typer) -> None:
    """Add the commands of this file."""
    app.command("eval", rich_help_panel="Runs")(evaluate)
    for command in (predict, export):
        app.command(rich_help_panel="Runs")(command)


def loaded_run(run: str, runs: str | None, checkpoint: str) -> Loaded:
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
    trust_data: TrustData = False,
    checkpoint: Checkpoint = "last",
    runs: Runs = None,
    no_compile: NoCompile = False,
    as_json: AsJson = False,
) -> None:
    """Test a trained run on its test data; exit code 3 when it misses the goal of its recipe.

    Example: weft eval latest --data ~/data
    """
    from ..data.sources import trusted
    from ..train import RunFolder, Trainer

    loaded = loaded_run(run, runs, checkpoint)
    with trusted(trust_data or (loaded.trust and data is None)):  # the run was told to trust its own files
        splits = loaded.recipe.data(loaded.settings, data_folder(data) or loaded.root)
    figures = Trainer(progress=False, compile=not no_compile).test(loaded.task, splits.test)
    goal = loaded.recipe.goal
    before = RunFolder(loaded.folder).result.get("figures", {})
    known = before.get(goal.beside) if data is None else None  # of other data it is computed anew
    figures = loaded.recipe.judged(figures, loaded.settings, splits, known)
    document = {"run": loaded.folder.name, "figures": figures, "goal": str(goal), "reached": goal.reached(figures)}
    document["baseline"] = goal.compared(figures) or None

    def show(console: Console) -> None:
        console.print(", ".join(f"{name} {figure(value)}" for name, value in figures.items()), markup=False)
        console.print(f"Goal {goal}: {'[green]reached[/]' if document['reached'] else '[red]missed[/]'}")
        print_baseline(console, document["baseline"])

    deliver(document, as_json, show)
    raise typer.Exit(DONE if document["reached"] else MISSED)


# ---------------------------------------------------------------- predictions


def predict(
    run: RunName,
    input: Annotated[
        str | None, typer.Argument(help="A picture, .csv, .npy or text file, or the input itself.", show_default=False)
    ] = None,
    sample: Annotated[
        int | None, typer.Option(min=0, metavar="N", help="Take example N of the test data instead of an input.")
    ] = None,
    data: Data = None,
    checkpoint: Checkpoint = "last",
    runs: Runs = None,
    as_json: AsJson = False,
) -> None:
    """Say what a trained run makes of an input.

    What a run expects stands in `weft list RECIPE`. Pictures of digits may have any size and polarity: dark ink on a light
    ground is inverted, the strokes are cut out and scaled, and the answer says so. Refused (exit code 1, no label): a
    picture whose brightness spans less than 0.1; for runs on 8×8 digits also what has a correlation below 0.7 with every
    one of the 1,797 digits that come with Weft. A best guess below 70 % is called unsure.

    A .csv file is a table of numbers (a first line of names is left out), a .npy file an array; what is no file is
    handed over as it is.

    Examples:

      weft predict digits-mlp digit.png

      weft predict digits-mlp --sample 7

      weft predict moons-mlp "0.5,-0.2; 1,1" --json
    """
    if (input is None) == (sample is None):
        example = loaded_run(run, runs, checkpoint).recipe.example
        raise Misuse(f"predict needs an input or --sample N; this run expects {example or 'what its recipe says'}")
    loaded = loaded_run(run, runs, checkpoint)
    if sample is None:
        found, truth = _predicted(loaded, read_input(input)), None
    else:
        found, truth = _sampled(loaded, sample, data_folder(data))
    rows = plain(found)
    if truth is not None:
        rows[0]["truth"] = truth
    deliver(rows, as_json, lambda console: show_predictions(console, rows))
    refused = isinstance(rows, list) and any(isinstance(row, dict) and "refused" in row for row in rows)
    raise typer.Exit(FAILED if refused else DONE)


def _sampled(loaded: Loaded, number: int, data: Path | None) -> tuple[Any, Any]:
    """The prediction for an example of the test data, and its true class."""
    from ..data import TensorDataset
    from ..data.sources import trusted

    with trusted(loaded.trust and data is None):
        test = loaded.recipe.data(loaded.settings, data or loaded.root).test.dataset
    if not isinstance(test, TensorDataset) or not test.tensors[0].is_floating_point() or test.tensors[0].ndim != 4:
        raise Misuse(f"--sample takes pictures; {loaded.recipe.name} expects {loaded.recipe.example}")
    if number >= len(test):
        raise Misuse(f"--sample {number}: there are {len(test)} test examples, 0 to {len(test) - 1}")
    image, target = test[number]
    found = loaded.recipe.predict(loaded.task, image)
    return found, list(found[0]["probabilities"])[int(target)]


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
    from ..errors import OptionError, ShapeError

    try:
        return loaded.recipe.predict(loaded.task, given)
    except (OptionError, ShapeError) as error:
        side = round(given.shape[1] ** 0.5) if getattr(given, "ndim", 0) == 2 else 0
        if not side or side**2 != given.shape[1]:
            expected = loaded.recipe.example
            raise Misuse(f"{error}; {loaded.recipe.name} expects {expected}" if expected else str(error)) from error
        return loaded.recipe.predict(loaded.task, given.reshape(-1, side, side))  # (N, S²) → (N, S, S)


# ---------------------------------------------------------------- weights


def export(
    run: RunName,
    to: Annotated[
        Literal["safetensors", "onnx", "torch", "weft"], typer.Option(help="The kind of file.")
    ] = "safetensors",
    output: Annotated[
        Path | None, typer.Option("--output", "-o", help="The file.", show_default="in the run's folder")
    ] = None,
    checkpoint: Checkpoint = "last",
    data: Data = None,
    runs: Runs = None,
    as_json: AsJson = False,
) -> None:
    """Write the weights of a run to one file; names and shapes are PyTorch's.

    A .safetensors file is read by PyTorch, JAX and others; recipe and settings stand in its metadata. --to torch writes what
    torch.load reads, --to onnx the whole model for any number of examples, traced on one batch of the test data.

    Examples:

      weft export digits-mlp --to safetensors -o digits.safetensors

      weft export latest --to onnx
    """
    import weft

    from ..io import save_file, save_torch

    loaded = loaded_run(run, runs, checkpoint)
    weights = {name: value.detach() for name, value in loaded.task.state_dict().items()}
    path = output or loaded.folder / f"{loaded.folder.name}.{'pt' if to == 'torch' else to}"
    about = {"recipe": loaded.recipe.name, "settings": json.dumps(plain(loaded.settings)), "checkpoint": checkpoint}
    if to == "safetensors":
        save_file(weights, path, metadata=about)
    elif to == "torch":
        save_torch(weights, path)
    elif to == "onnx":
        write_onnx(loaded, data_folder(data), path)
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
