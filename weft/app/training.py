"""`weft train`: run a recipe, show its progress, leave a run folder, say whether the goal was reached."""

from __future__ import annotations

import itertools
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ..runtime.places import runs_folder
from .machine import AsJson, Threads
from .naming import LATEST, changed, complete_recipe, complete_run, complete_setting, find_run, typed
from .output import DONE, MISSED, Interrupted, Misuse, deliver, figure, hint, labelled, print_baseline

if TYPE_CHECKING:
    from rich.console import Console

    from ..recipes import Recipe, Result
    from ..train.runs import RunFolder

__all__ = ["Changes", "Data", "NoCompile", "RecipeName", "Runs", "TrustData", "data_folder"]

RecipeName = Annotated[str, typer.Argument(help="A recipe: see weft list.", autocompletion=complete_recipe)]
Changes = Annotated[
    list[str] | None,
    typer.Option("--set", metavar="KEY=VALUE", help="Change a setting.", autocompletion=complete_setting),
]
Data = Annotated[
    Path | None,
    typer.Option(
        "--data", metavar="DIR", help="Folder with the data files.", show_default="$WEFT_DATA, the cache, a download"
    ),
]
TrustData = Annotated[bool, typer.Option("--trust-data", help="Read files whose digests are not the published ones.")]
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
    trust_data: TrustData = False,
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

    Exit code 3 when the recipe's goal was not reached. Ctrl-C keeps the last checkpoint; --resume goes on from there, also
    with more epochs, another lr, weight_decay or dropout (--set): what cannot change on the way is refused.

    Examples:

      weft train digits-mlp

      weft train digits-mlp --set lr=0.01 --set epochs=5 --name quick

      weft train mnist-cnn --data ~/data --threads 2

      weft train --resume

      weft train --resume digits-mlp --set epochs=80
    """
    import weft

    from ..recipes import run

    if threads:
        weft.set_num_threads(threads)
    given = changed([*(changes or ()), *([f"seed={seed}"] if seed is not None else ())])
    made = _resumed(recipe, resume, runs, given, data, as_json) if resume else _new(recipe, runs, name, given, data)
    options: dict[str, Any] = {"compile": False} if no_compile else {}
    try:
        result = run(**made, trust_data=trust_data, progress=False if as_json else None, **options)
    except KeyboardInterrupt as interrupt:
        raise Interrupted(interrupt, _way_on(made["folder"])) from None
    report(result, as_json)
    raise typer.Exit(DONE if result.reached else MISSED)


def _way_on(folder: Path) -> str:
    from ..train.runs import RunFolder

    if RunFolder(folder).real:
        return f"to go on: {hint(f'train --resume {typed(folder)}')}"
    return "the training had not begun, nothing is left behind"


def _new(
    recipe: str | None, runs: str | None, name: str | None, given: dict[str, str], data: Path | None
) -> dict[str, Any]:
    """Arguments of `recipes.run` for a run that begins."""
    from ..recipes import get
    from ..train.runs import RunFolder

    if recipe is None:
        raise Misuse(f"train needs a recipe, for example: {hint('train digits-mlp')}; {hint('list')} shows them")
    found = get(recipe)
    found.settings(given)
    folder = runs_folder(runs) / name if name else fresh(runs_folder(runs), found.name)
    if RunFolder(folder).begun:
        way = hint(f"train --resume {typed(folder)}")
        raise Misuse(f"{folder} holds a run already; give another --name, or go on with it: {way}")
    return {"name": found.name, "settings": given, "folder": folder, "root": data_folder(data)}


def fresh(parent: Path, name: str) -> Path:
    """A folder that is not there yet: name, name-2, name-3 …"""
    places = (parent / (name if number == 1 else f"{name}-{number}") for number in itertools.count(1))
    return next(place for place in places if not place.exists())


def data_folder(given: Path | None) -> Path | None:
    """What --data names, which must be there: another folder is never taken in its place."""
    if given is not None and not given.expanduser().is_dir():
        what = "is no folder" if given.expanduser().exists() else "does not exist"
        raise Misuse(f"--data {given} {what}; name a folder with the files, or leave --data out")
    return given


# ---------------------------------------------------------------- runs that go on


def _resumed(
    recipe: str | None, resume: str, runs: str | None, given: dict[str, str], data: Path | None, as_json: bool
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
    if folder.result.get("finished") and "reached" in folder.result:
        _check_more_to_do(folder, get(told["recipe"]), given, as_json)
    settings = {**told["settings"], **given}
    return {
        "name": told["recipe"],
        "settings": settings,
        "folder": folder.path,
        "root": data_folder(data) or told.get("data"),
        "resume": True,
    }


def _check_more_to_do(folder: RunFolder, recipe: Recipe, given: dict[str, str], as_json: bool) -> None:
    """Of a finished run say so, and leave; unless it is to be trained for more epochs than it has behind it."""
    earlier, done = folder.settings["settings"], len(folder.rows("epoch"))
    chosen = recipe.settings(given, earlier)
    if getattr(chosen, "epochs", None) != earlier.get("epochs"):
        return
    longer = hint(f"train --resume {typed(folder.path)} --set epochs={max(2 * done, 1)}") if "epochs" in earlier else ""
    if given:
        raise Misuse(f"{folder.path} is finished" + (f"; to go on it needs more epochs: {longer}" if longer else ""))
    _report_finished(folder, longer, as_json)
    raise typer.Exit(DONE if folder.result["reached"] else MISSED)


def _report_finished(folder: RunFolder, longer: str, as_json: bool) -> None:
    result = folder.result
    document = {"recipe": result["recipe"], "settings": folder.settings["settings"], "finished": True}
    document |= {name: result.get(name) for name in ("figures", "goal", "baseline", "reached", "seconds", "stopped_by")}
    document["folder"] = str(folder.path)

    def show(console: Console) -> None:
        epochs = len(folder.rows("epoch"))
        why = f", {result['stopped_by']}" if result.get("stopped_by") else ""
        console.print(f"{folder.path} is finished ({epochs} epochs{why}): nothing was done", markup=False)
        console.print(f"Goal {result['goal']}: {_verdict(result['reached'])}")
        print_baseline(console, result.get("baseline"))
        if longer:
            console.print(f"To train longer: {longer}", markup=False)

    deliver(document, as_json, show)


# ---------------------------------------------------------------- what came out


def report(result: Result, as_json: bool) -> None:
    """Print what a run came to, where it lies, and what to do next."""
    from ..recipes import get

    recipe: Recipe = get(result.recipe)
    document = {
        "recipe": result.recipe,
        "settings": result.settings.to_dict(),
        "figures": result.figures,
        "goal": str(recipe.goal),
        "baseline": recipe.goal.compared(result.figures) or None,
        "reached": result.reached,
        "folder": str(result.folder),
        "seconds": round(result.seconds, 3),
    }

    def show(console: Console) -> None:
        console.print(", ".join(f"{name} {figure(value)}" for name, value in result.figures.items()), markup=False)
        console.print(f"Goal {recipe.goal}: {_verdict(result.reached)}")
        print_baseline(console, document["baseline"])
        console.print(labelled(_ending(result.folder, recipe)))

    deliver(document, as_json, show)


def _verdict(reached: bool) -> str:
    return "[green]reached[/]" if reached else "[red]missed[/]"


def _ending(folder: Path, recipe: Recipe) -> list[tuple[str, str]]:
    """The files that people look for, and three commands to try next."""
    pictures = [path for path in (folder / "picture.png", folder / "curves.png") if path.exists()]
    checkpoints = [path for name in ("best", "last") if (path := folder / "checkpoints" / f"{name}.weft").exists()]
    name = typed(folder)
    pictured = checkpoints and "picture" in (recipe.example or "")
    usual = recipe.settings()
    other = f"lr={2 * usual.lr:g}" if hasattr(usual, "lr") else f"seed={usual.seed + 1}"
    commands = [
        f"show {name}",
        f"predict {name} --sample 7" if pictured else f"list {recipe.name}",
        f"train {recipe.name} --set {other}",
    ]
    return [
        *(("Picture", str(path)) for path in pictures[:1]),
        *(("Checkpoint", str(path)) for path in checkpoints[:1]),
        ("Folder", str(folder)),
        *(("Next" if i == 0 else "", hint(command)) for i, command in enumerate(commands)),
    ]
