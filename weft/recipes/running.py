"""How a recipe is run, from the start or where an earlier run of it was broken off."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any, NoReturn

import weft

from ..data.sources import noting, trusted
from ..errors import OptionError
from ..runtime.cluster.world import world_rank
from ..train.runs import RunFolder, latest_run, runs_folder
from .base import Folder, Given, Recipe, Result, Root, Run, Trained
from .finding import get
from .resuming import NewNumbers, check_changes

__all__ = ["run"]


def run(
    name: str,
    settings: Given = None,
    *,
    folder: Folder = None,
    root: Root = None,
    resume: bool = False,
    progress: bool | None = None,
    trust_data: bool = False,
    **trainer_options: Any,
) -> Result:
    """Run a recipe and leave a run folder: settings, metrics, curves, checkpoints, the figures it reached.

    settings: a `Settings`, a mapping, words `key=value`, or None; what is not said is the default, or as it was in the
        run that is resumed
    folder: where results go; None takes a fresh folder named after the recipe below `runs` (or `$WEFT_RUNS`)
    root: folder with the data files, which must be there; None: $WEFT_DATA, the cache, a download
    resume: go on with the run in `folder` (None: the latest of this recipe)
    trust_data: read files whose digests are not the published ones
    trainer_options: arguments of `weft.train.Trainer` that the recipe's own are to give way to

    Example:
        >>> weft.recipes.run("digits-mlp", ["epochs=2"]).figures  # doctest: +SKIP
        {'test_loss': 0.17, 'test_accuracy': 0.95}
    """
    recipe = get(name)
    started = time.perf_counter()
    recipe.settings(settings)  # wrong ones leave no folder behind
    if resume:
        begun = _continued(recipe, _place(recipe.name, folder, resume), settings, root)
    else:
        _check_root(root)
        begun = Run(recipe, recipe.settings(settings), _place(recipe.name, folder, resume), root)
    begun.progress, begun.trust = progress, begun.trust or trust_data
    begun.trainer_options = trainer_options
    figures, task = _fitted(begun)
    seconds = time.perf_counter() - started
    if world_rank() == 0:
        _note_result(begun.folder, recipe, figures, seconds)
    reached = recipe.goal.reached(figures)
    return Result(recipe.name, begun.settings, figures, reached, begun.folder.path, seconds, task)


def _continued(recipe: Recipe, place: RunFolder, settings: Given, root: Root) -> Run:
    """A run that goes on; nothing of it has been changed yet."""
    told = place.settings
    earlier, chosen = recipe.settings(told.get("settings")), recipe.settings(settings, told.get("settings"))
    trust = bool(told.get("trust_data")) and root is None  # in the files it began with
    root = told.get("data") if root is None else root
    _check_root(root)
    done = len(place.rows("epoch"))
    changed = check_changes(recipe, earlier, chosen, done)
    run = Run(recipe, chosen, place, root, resume=True, trust=trust)
    run.changes = told.get("changes", [])
    if changed:
        run.changes = [*run.changes, {"epoch": done, "settings": changed}]
        run.callbacks = [NewNumbers(recipe, earlier, chosen)]
    return run


def _check_root(root: Root) -> None:
    if root is not None and not Path(root).expanduser().is_dir():
        raise OptionError(f"data: there is no folder {root}; name another, or none to use $WEFT_DATA or a download")


def _fitted(run: Run) -> tuple[dict[str, float], Any]:
    """What the recipe comes to. The trainer opens the folder of a `Trained` one when its first step can begin."""
    weft.manual_seed(run.settings.seed)
    try:
        with noting() as run.files, trusted(run.trust):
            return run.recipe.fit(run) if isinstance(run.recipe, Trained) else _alone(run)
    except BaseException:
        if not run.folder.real:  # a start that failed
            run.folder.discard()
        raise


def _alone(run: Run) -> tuple[dict[str, float], Any]:
    """A recipe that is done in one go: its folder is there from the start."""
    place = run.folder.open()
    if not (run.resume and any(place.checkpoints.glob("*.weft"))):
        place.truncate(0)
    place.begin(run.described())
    done = run.recipe.fit(run)
    run.check_folder()
    place.update_settings(run.described())
    return done


def _place(name: str, folder: Folder, resume: bool) -> RunFolder:
    """The folder of a run: the one named, the latest of the recipe to be resumed, or a new one."""
    if resume:
        found = RunFolder(folder) if folder is not None else latest_run(recipe=name) or _there_is_none(name)
        _check_resumable(found, name)
        return found
    return RunFolder.create(name=name) if folder is None else RunFolder(folder)


def _check_resumable(place: RunFolder, name: str) -> None:
    recipe = place.settings.get("recipe")
    if recipe != name:
        what = f"holds a run of {recipe}" if recipe else "is no run folder of a recipe: it has no settings.json of one"
        raise OptionError(f"resume {name}: {place.path} {what}; start anew with `weft train {name}`")


def _there_is_none(name: str) -> NoReturn:
    raise OptionError(f"resume: there is no run of {name} below {runs_folder()}/; start one with `weft train {name}`")


def _note_result(place: RunFolder, recipe: Recipe, figures: dict[str, float], seconds: float) -> None:
    """Add the goal, whether it was reached and how its baseline did, to what the trainer has said about its run."""
    news = {"recipe": recipe.name, "goal": str(recipe.goal), "reached": recipe.goal.reached(figures)}
    news["baseline"] = recipe.goal.compared(figures) or None
    place.close()
    done = {"finished": True, "seconds": seconds} | place.result
    place.update_result(done | news | {"figures": figures, "total_seconds": seconds})
