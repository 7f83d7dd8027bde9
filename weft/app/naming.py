"""Names that a person types, found and completed: recipes, runs, settings."""

from __future__ import annotations

import difflib
import os
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from .output import Misuse, hint

if TYPE_CHECKING:
    from ..train.runs import RunFolder

LATEST = "latest"


def runs_folder(given: str | os.PathLike[str] | None = None) -> Path:
    """Where runs lie: what was given, `$WEFT_RUNS`, or `runs` in the current folder."""
    return Path(given or os.environ.get("WEFT_RUNS") or "runs")


def run_folders(given: str | os.PathLike[str] | None = None) -> list[Path]:
    """The folders of all runs, the one that was begun or resumed last at the end."""
    from ..train.runs import found_runs

    return [run.path for run in found_runs(runs_folder(given))]


def find_run(name: str, given: str | os.PathLike[str] | None = None, recipe: str | None = None) -> RunFolder:
    """The run of a name: a path, a folder among the runs, or `latest` (of a recipe, if one is given).

    The latest is the one that was begun or resumed last, among those that a training has left something in.
    """
    from ..train.runs import RunFolder

    if name == LATEST:
        return RunFolder(_latest(given, recipe))
    for folder in (runs_folder(given) / name, Path(name)):
        if (folder / "settings.json").is_file():
            return RunFolder(folder)
    if Path(name).is_dir():
        raise Misuse(f"{name} is not the folder of a run: it has no settings.json")
    known = [folder.name for folder in run_folders(given)]
    raise Misuse(f"there is no run {name!r} in {runs_folder(given)}/; {_suggestion(name, known)}")


def _latest(given: str | os.PathLike[str] | None, recipe: str | None) -> Path:
    from ..train.runs import RunFolder

    for folder in reversed(run_folders(given)):
        run = RunFolder(folder)
        if run.real and (recipe is None or run.settings.get("recipe") == recipe):
            return folder
    what = f"run of {recipe}" if recipe else "run"
    start = hint(f"train {recipe or 'digits-mlp'}")
    raise Misuse(f"there is no {what} in {runs_folder(given)}/; start one with: {start}")


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


def pairs(words: Iterable[str], option: str = "--set") -> dict[str, str]:
    """`key=value` words as a mapping."""
    found = {}
    for word in words:
        key, equals, value = word.partition("=")
        if not equals or not key.strip():
            raise Misuse(f"{option} takes key=value, got {word!r}; for example {option} lr=0.01")
        found[key.strip()] = value.strip()
    return found


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
