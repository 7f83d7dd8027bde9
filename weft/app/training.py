"""`weft train`: run a recipe, show its progress, leave a run folder, say whether the goal was reached."""

from __future__ import annotations

import itertools
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from .machine import AsJson, Threads
from .naming import LATEST, complete_recipe, complete_run, complete_setting, find_run, pairs, runs_folder
from .output import Interrupted, Misuse, deliver, figure

if TYPE_CHECKING:
    from rich.console import Console

    from ..recipes import Recipe, Result

RecipeName = Annotated[str, typer.Argument(help="A recipe: see weft list.", autocompletion=complete_recipe)]
Changes = Annotated[
    list[str] | None,
    typer.Option("--set", metavar="KEY=VALUE", help="Change a setting.", autocompletion=complete_setting),
]
Data = Annotated[
    Path | None, typer.Option("--data", metavar="DIR", help="Folder with the data files.", show_default="$WEFT_DATA")
]
Runs = Annotated[
    str | None, typer.Option(metavar="DIR", help="Folder that holds the runs.", show_default="$WEFT_RUNS or runs")
]
NoCompile = Annotated[bool, typer.Option("--no-compile", help="Run steps eagerly, without native code.")]


def register(app: typer.Typer) -> None:
    """Add the command of this file."""
    app.command(rich_help_panel="Models")(train)


def train(
    recipe: Annotated[
        str | None, typer.Argument(help="A recipe: see weft list.", autocompletion=complete_recipe)
    ] = None,
    changes: Changes = None,
    data: Data = None,
    resume: Annotated[
        str | None,
        typer.Option(
            metavar="[RUN]", help="Go on with a run; without a name, the latest.", autocompletion=complete_run
        ),
    ] = None,
    runs: Runs = None,
    name: Annotated[str | None, typer.Option(help="Name of the run's folder.", show_default="the recipe's")] = None,
    threads: Threads = None,
    seed: Annotated[int | None, typer.Option(min=0, help="Seed; the same as --set seed=….")] = None,
    no_compile: NoCompile = False,
    as_json: AsJson = False,
) -> None:
    """Train a recipe and leave a run folder: settings, metrics, curves, checkpoints, figures.

    Exit code 1 when the recipe's goal was not reached. Ctrl-C keeps the last checkpoint; --resume goes on from there.

    Examples:

      weft train digits-mlp

      weft train digits-mlp --set lr=0.01 --set epochs=5 --name quick

      weft train mnist-cnn --data ~/data --threads 2

      weft train --resume
    """
    import weft

    from ..recipes import run

    if threads:
        weft.set_num_threads(threads)
    given = pairs([*(changes or ()), *([f"seed={seed}"] if seed is not None else ())])
    made = _resumed(recipe, resume, runs, given, data) if resume else _new(recipe, runs, name, given, data)
    options: dict[str, Any] = {"compile": False} if no_compile else {}
    try:
        result = run(**made, progress=False if as_json else None, **options)
    except KeyboardInterrupt:
        raise Interrupted(f"interrupted; to go on: weft train --resume {made['folder']}") from None
    report(result, as_json)
    raise typer.Exit(0 if result.reached else 1)


def _new(
    recipe: str | None, runs: str | None, name: str | None, given: dict[str, str], data: Path | None
) -> dict[str, Any]:
    """Arguments of `recipes.run` for a run that begins."""
    from ..recipes import get

    if recipe is None:
        raise Misuse("train needs a recipe, for example: weft train digits-mlp; weft list shows them")
    found = get(recipe)
    found.settings(given)
    folder = runs_folder(runs) / name if name else fresh(runs_folder(runs), found.name)
    if (folder / "settings.json").exists():
        raise Misuse(
            f"{folder} holds a run already; give another --name, or go on with it: weft train --resume {folder}"
        )
    return {"name": found.name, "settings": given, "folder": folder, "root": data}


def fresh(parent: Path, name: str) -> Path:
    """A folder that is not there yet: name, name-2, name-3 …"""
    places = (parent / (name if number == 1 else f"{name}-{number}") for number in itertools.count(1))
    return next(place for place in places if not place.exists())


def _resumed(
    recipe: str | None, resume: str, runs: str | None, given: dict[str, str], data: Path | None
) -> dict[str, Any]:
    """Arguments of `recipes.run` for a run that goes on, with the settings it began with but for those changed."""
    from ..recipes import get, names

    if recipe is None and resume in names() and not (runs_folder(runs) / resume).exists():
        recipe, resume = resume, LATEST  # weft train --resume digits-mlp
    folder = find_run(resume, runs, get(recipe).name if recipe else None)
    told = folder.settings
    if "recipe" not in told:
        raise Misuse(f"{folder.path} was not begun by weft train: its settings name no recipe")
    if recipe and get(recipe).name != told["recipe"]:
        raise Misuse(f"{folder.path} is a run of {told['recipe']}, not of {recipe}")
    settings = {**told["settings"], **given}
    return {
        "name": told["recipe"],
        "settings": settings,
        "folder": folder.path,
        "root": data or told.get("data"),
        "resume": True,
    }


def report(result: Result, as_json: bool) -> None:
    """Print what a run came to."""
    from ..recipes import Trained, get

    recipe: Recipe = get(result.recipe)
    document = {
        "recipe": result.recipe,
        "settings": result.settings.to_dict(),
        "figures": result.figures,
        "goal": str(recipe.goal),
        "reached": result.reached,
        "folder": str(result.folder),
        "seconds": round(result.seconds, 3),
    }

    def show(console: Console) -> None:
        figures = ", ".join(f"{name} {figure(value)}" for name, value in result.figures.items())
        verdict = "[green]reached[/]" if result.reached else "[red]missed[/]"
        console.print(figures, markup=False)
        console.print(f"Goal {recipe.goal}: {verdict}")
        if not isinstance(recipe, Trained):  # for the others the trainer has said so
            console.print(f"{result.seconds:.1f} s; run: {result.folder}", markup=False)

    deliver(document, as_json, show)
