"""`weft list`, `weft show`, `weft compare`: what can be trained, and what came out."""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ..runtime.places import runs_folder
from .interchange import show_onnx
from .machine import AsJson
from .naming import complete_recipe, complete_run, find_run, run_folders
from .output import deliver, figure, hint, labelled, print_baseline, sparkline, table
from .training import Runs

if TYPE_CHECKING:
    from rich.console import Console

    from ..train.runs import RunFolder

from ..errors import OptionError

__all__ = ["RunName"]

ROOM = 110  # columns for a table of recipes with everything
RunName = Annotated[str, typer.Argument(help="A run: its name, its path, or latest.", autocompletion=complete_run)]


def register(app: typer.Typer) -> None:
    """Add the commands of this file."""
    app.command("list", rich_help_panel="Models")(list_all)
    for command in (show, compare):
        app.command(rich_help_panel="Runs")(command)


def list_all(
    recipe: Annotated[
        str | None, typer.Argument(help="A recipe whose settings to list.", autocompletion=complete_recipe)
    ] = None,
    runs: Annotated[
        str | None, typer.Option(metavar="[DIR]", help="List runs (of this folder) instead of recipes.")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """List the recipes with title, goal and data, the settings of one of them, or, with --runs, the runs.

    Examples:

      weft list

      weft list digits-mlp

      weft list --runs
    """
    if recipe is not None:
        _list_settings(recipe, as_json)
    elif runs is None:
        _list_recipes(as_json)
    else:
        _list_runs(runs, as_json)


def _list_settings(name: str, as_json: bool) -> None:
    from ..recipes import get

    recipe = get(name)
    fields = recipe.Settings.describe()
    document = {"name": recipe.name, "title": recipe.title, "goal": str(recipe.goal), "settings": fields}
    document["predict_takes"] = recipe.example

    def show(console: Console) -> None:
        console.print(f"{recipe.name}: {recipe.title}", markup=False)
        console.print(f"Goal {recipe.goal}", markup=False)
        if recipe.example:
            console.print(f"predict takes {recipe.example}", markup=False)
        console.print()
        rows = [(field.name, field.type, _words(field.default), field.help) for field in fields]
        console.print(table(("setting", "type", "default", "meaning"), rows))

    deliver(document, as_json, show)


def _words(value: Any) -> str:
    """A setting's value as --set takes it."""
    if value is None:
        return "none"
    return ",".join(map(str, value)) if isinstance(value, tuple | list) else str(value)


def _list_recipes(as_json: bool) -> None:
    from ..recipes.finding import ROOMS, family, names

    rows = [_promised(name) | {"family": family(name)} for name in names()]
    rows.sort(key=lambda row: ROOMS.index(row["family"]))
    deliver(rows, as_json, lambda console: _show_recipes(console, rows))


def _promised(name: str) -> dict[str, Any]:
    """A row of the list; a recipe that needs what is not installed, or is none, is a row that says so."""
    from ..recipes.finding import promise

    try:
        return dataclasses.asdict(promise(name))
    except (AttributeError, ImportError) as error:
        return {"name": name, "title": f"cannot be loaded: {error}", "goal": None, "data": None}


def _show_recipes(console: Console, rows: list[dict[str, Any]]) -> None:
    """A line for each family, then its recipes. All columns where there is room; on what data the goal is stands in the
    list of one recipe, too."""
    heads = ("recipe", "title", "goal", "on") if console.width >= ROOM else ("recipe", "title", "goal")
    cells: list[list[Any]] = []
    for family, recipes in itertools.groupby(rows, key=lambda row: row["family"]):
        cells += [[f"{family}:"], *([row[key] for key in ("name", "title", "goal", "data")] for row in recipes)]
    console.print(table(heads, [[*row, "", "", ""][: len(heads)] for row in cells]))
    if console.width < ROOM:
        console.print(f"{hint('list RECIPE')} shows the settings and the data of one", markup=False)


def _list_runs(runs: str, as_json: bool) -> None:
    from ..train.runs import RunFolder

    rows = [_listed(RunFolder(folder)) for folder in run_folders(runs)]

    def show(console: Console) -> None:
        if not rows:
            console.print(f"no runs in {runs_folder(runs)}/; start one with: {hint('train digits-mlp')}", markup=False)
            return
        cells = [
            (row["name"], row["recipe"], _figures(row["figures"]), _goal_word(row), row["seconds"]) for row in rows
        ]
        console.print(table(("run", "recipe", "figures", "goal", ">seconds"), cells))
        for row in rows:
            if "broken" in row:
                console.print(f"broken: {row['broken']}", markup=False)

    deliver(rows, as_json, show)


def _listed(run: RunFolder) -> dict[str, Any]:
    """A row of the list; one broken folder is a row that says so."""
    try:
        return _row(run)
    except (OptionError, OSError) as error:
        nothing = dict.fromkeys(("recipe", "reached", "seconds"))
        return {"name": run.name, **nothing, "figures": {}, "finished": False, "folder": str(run.path)} | {
            "broken": str(error)
        }


def _row(run: RunFolder) -> dict[str, Any]:
    result, told = run.result, run.settings
    return {
        "name": run.name,
        "recipe": told.get("recipe"),
        "figures": result.get("figures", {}),
        "finished": bool(result.get("finished")),
        "reached": result.get("reached"),
        "seconds": result.get("seconds"),
        "folder": str(run.path),
    }


def _figures(figures: dict[str, Any]) -> str:
    """Figures of the test where there are any, else all."""
    tested = {name: value for name, value in figures.items() if name.startswith("test_")}
    return ", ".join(f"{name} {figure(value)}" for name, value in (tested or figures).items()) or "–"


def _goal_word(row: dict[str, Any]) -> str:
    if "broken" in row:
        return "broken"
    if not row["finished"]:
        return "unfinished"
    return {True: "reached", False: "missed"}.get(row["reached"], "–")


# ---------------------------------------------------------------- one run


def show(run: RunName, runs: Runs = None, as_json: AsJson = False) -> None:
    """Show the settings, figures and curves of a run; of an ONNX file its inputs, outputs, operators and parameters.

    Examples:

      weft show latest

      weft show digits-mlp-2 --json

      weft show model.onnx
    """
    if run.endswith(".onnx"):
        show_onnx(run, as_json)
        return
    found = find_run(run, runs)
    rows = found.rows("epoch")
    picture = found.path / "curves.png"
    document = {
        **_row(found),
        "goal": found.result.get("goal"),
        "baseline": found.result.get("baseline"),
        "settings": _settings(found),
        **_used(found),
        "environment": found.environment,
        "curves": str(picture) if picture.exists() else None,
        "epochs": rows,
    }
    deliver(document, as_json, lambda console: _show(console, document))


def _settings(run: RunFolder) -> dict[str, Any]:
    told = run.settings
    return told.get("settings", told)


def _used(run: RunFolder) -> dict[str, Any]:
    """What the run really worked with: files, changes on the way, compiled or not."""
    told, result = run.settings, run.result
    return {
        "data": told.get("data"),
        "files": told.get("files", []),
        "trust_data": told.get("trust_data", False),
        "changes": told.get("changes", []),
        "compiled": result.get("compiled"),
        "eager_because": result.get("eager_because"),
        "stopped_by": result.get("stopped_by"),
    }


def _used_words(document: dict[str, Any]) -> list[tuple[str, str]]:
    """The same in words, where there is something to say."""
    files, known = document["files"], document["environment"]
    folders = ", ".join(dict.fromkeys(str(Path(file).parent) for file in files))
    of = f"{len(files)} file{'s' if len(files) > 1 else ''} in {folders}" if files else ""
    if document["trust_data"]:
        of += ", trusted without their digests"
    eager = document["eager_because"]
    steps = {True: "compiled", False: f"eager{f' ({eager})' if eager else ''}"}.get(document["compiled"], "")
    threads = known.get("threads")
    worked = ", ".join(
        part for part in (steps, f"{threads} thread{'s' if threads != 1 else ''}" if threads else "") if part
    )
    changes = [
        f"{name} {_words(old)} → {_words(new)} from epoch {change['epoch'] + 1}"
        for change in document["changes"]
        for name, (old, new) in change["settings"].items()
    ]
    rows = [("data", of), ("steps", worked), ("started", known.get("started", "")), ("changed", "; ".join(changes))]
    ended = [("ended", document["stopped_by"] or "")]
    return [(name, text) for name, text in rows + ended if text]


def _show(console: Console, document: dict[str, Any]) -> None:
    seconds = document["seconds"]
    state = _goal_word(document) + (f", {seconds:.1f} s" if seconds is not None else "")
    console.print(f"{document['name']}: {document['recipe']} ({state})", markup=False)
    if document["goal"]:
        console.print(f"Goal {document['goal']}", markup=False)
        print_baseline(console, document["baseline"])
    console.print(labelled(_used_words(document)))
    for heads, part in ((("setting", "value"), "settings"), (("figure", ">value"), "figures")):
        console.print()
        console.print(
            table(heads, [(name, _words(v) if part == "settings" else v) for name, v in document[part].items()])
        )
    curves = [(name, values[0], values[-1], sparkline(values)) for name, values in columns(document["epochs"]).items()]
    if curves:
        title = f"{len(document['epochs'])} epochs"
        console.print()
        console.print(table(("curve", ">first", ">last", title), curves))
    if document["curves"]:
        console.print(f"Curves {document['curves']}", markup=False)


def columns(rows: Sequence[dict[str, Any]]) -> dict[str, list[float]]:
    """Figures by name over epochs, where they are numbers."""
    names = dict.fromkeys(name for row in rows for name in row if name not in ("kind", "epoch", "step", "seconds"))
    found = {name: [row[name] for row in rows if isinstance(row.get(name), int | float)] for name in names}
    return {name: [float(v) for v in values] for name, values in found.items() if values}


# ---------------------------------------------------------------- several runs


def compare(
    names: Annotated[
        list[str], typer.Argument(metavar="RUN RUN…", help="Two runs or more.", autocompletion=complete_run)
    ],
    runs: Runs = None,
    plot: Annotated[
        Path | None,
        typer.Option(metavar="PNG", help="Picture of the curves.", show_default="compare.png in the runs folder"),
    ] = None,
    no_plot: Annotated[bool, typer.Option("--no-plot", help="Draw no picture.")] = False,
    as_json: AsJson = False,
) -> None:
    """Compare runs: the settings that differ, the figures, the curves laid over each other.

    Example: weft compare digits-mlp digits-mlp-2
    """
    from .plots import overlay

    found = [find_run(name, runs) for name in names]
    place = None if no_plot else overlay({run.name: columns(run.rows("epoch")) for run in found}, plot or _beside(runs))
    document = {
        "runs": [run.name for run in found],
        "settings": _differing([{"recipe": run.settings.get("recipe"), **_settings(run)} for run in found]),
        "figures": _side_by_side([run.result.get("figures", {}) for run in found]),
        "seconds": [run.result.get("seconds") for run in found],
        "plot": str(place) if place else None,
    }

    def show(console: Console) -> None:
        heads = [f">{name}" for name in document["runs"]]
        if document["settings"]:
            console.print(table(("setting", *heads), [(key, *values) for key, values in document["settings"].items()]))
            console.print()
        else:
            console.print("the settings are the same")
        rows = [(key, *values) for key, values in document["figures"].items()]
        console.print(table(("figure", *heads), [*rows, ("seconds", *document["seconds"])]))
        if place:
            console.print(f"Curves {place}", markup=False)

    deliver(document, as_json, show)


def _beside(runs: str | None) -> Path:
    return runs_folder(runs) / "compare.png"


def _side_by_side(tables: Sequence[dict[str, Any]]) -> dict[str, list[Any]]:
    names = dict.fromkeys(name for one in tables for name in one)
    return {name: [one.get(name) for one in tables] for name in names}


def _differing(tables: Sequence[dict[str, Any]]) -> dict[str, list[Any]]:
    return {name: values for name, values in _side_by_side(tables).items() if any(v != values[0] for v in values)}
