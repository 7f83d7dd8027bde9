"""Names that a person types, found and completed: recipes, runs, settings."""

from __future__ import annotations

import difflib
import os
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

import typer

from ..runtime.places import runs_folder
from .output import Misuse, hint

if TYPE_CHECKING:
    from ..train.runs import RunFolder

__all__ = [
    "LATEST",
    "changed",
    "complete_recipe",
    "complete_run",
    "complete_setting",
    "find_run",
    "run_folders",
    "typed",
]

LATEST = "latest"


def run_folders(given: str | os.PathLike[str] | None = None) -> list[Path]:
    """The folders of all runs, the one that was begun or resumed last at the end."""
    from ..train.runs import found_runs

    return [run.path for run in found_runs(runs_folder(given))]


def find_run(name: str, given: str | os.PathLike[str] | None = None, recipe: str | None = None) -> RunFolder:
    """The run of a name: a path, a folder among the runs, or `latest` (of a recipe, if one is given).

    The latest is the one that was begun or resumed last, among those that a training has left something in.
    """
    from ..train.runs import RunFolder, latest_run

    if name == LATEST:
        return latest_run(runs_folder(given), recipe) or _there_is_none(runs_folder(given), recipe)
    for run in map(RunFolder, (runs_folder(given) / name, Path(name))):
        if run.begun:
            return run
    if Path(name).is_dir():
        raise Misuse(f"{name} is not the folder of a run: it has no settings.json")
    known = [folder.name for folder in run_folders(given)]
    raise Misuse(f"there is no run {name!r} in {runs_folder(given)}/; {_suggestion(name, known)}")


def _there_is_none(parent: Path, recipe: str | None) -> NoReturn:
    what = f"run of {recipe}" if recipe else "run"
    start = hint(f"train {recipe or 'digits-mlp'}")
    raise Misuse(f"there is no {what} in {parent}/; start one with: {start}")


def typed(run: Path) -> str:
    """How a run is named in a command: its name where that finds it, else its path."""
    import shlex

    usual = run.parent.resolve() == runs_folder().resolve()
    return shlex.quote(run.name if usual and run.name != LATEST else str(run))


def _suggestion(name: str, known: list[str]) -> str:
    close = difflib.get_close_matches(name, known, n=1, cutoff=0.5)
    if close:
        return f"did you mean {close[0]!r}?"
    return f"there are: {', '.join(known[-8:])}" if known else "there are no runs yet"


def changed(words: Iterable[str], option: str = "--set") -> dict[str, str]:
    """The `key=value` words that an option was given, as a mapping."""
    from ..recipes.settings import pairs

    return pairs(words, f"{option} takes", f"{option} lr=0.01")


# ---------------------------------------------------------------- completion


def complete_recipe(incomplete: str) -> list[str]:
    """Recipes that begin so."""
    from ..recipes import names

    return [name for name in names() if name.startswith(incomplete)]


def complete_run(ctx: typer.Context, incomplete: str) -> list[str]:
    """Runs that begin so."""
    known = [LATEST, *(folder.name for folder in run_folders(ctx.params.get("runs")))]
    return [name for name in known if name.startswith(incomplete)]


def complete_setting(ctx: typer.Context, incomplete: str) -> list[tuple[str, str]]:
    """Settings of the recipe on the line that begin so, with their help."""
    fields = _settings(ctx.params.get("recipe")).describe()
    return [(f"{f.name}=", f"{f.help} ({f.default})") for f in fields if f.name.startswith(incomplete)]


def _settings(recipe: str | None) -> Any:
    """The settings of a recipe, or of the one that the line being completed names; without one, those that all have.

    Where an option still lacks its value the parser tells nothing about the line: then its words are looked through.
    """
    from ..recipes import Settings, get, names

    line = os.environ.get("COMP_WORDS") or os.environ.get("_TYPER_COMPLETE_ARGS") or ""
    named = next((word for word in (recipe, *line.split()) if word in names()), None)
    return get(named).Settings if named else Settings
