"""What a recipe is, where recipes are found, and how one is run.

A recipe names its settings, its data, its model, the figure it must reach and on which data. Most are trained by
gradients (`Trained`); those that are not (a learning rule, a closed form, a study over many models) have a `fit` of
their own and write the same run folder.
"""

from __future__ import annotations

import importlib
import os
import pkgutil
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

import weft

from ..errors import OptionError
from ..io.atomic import replacing
from ..train.checkpoint import load_weights, save_checkpoint
from ..train.runs import RunFolder, environment, runs_folder
from .settings import Settings, pairs, suggestion

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from ..data import DataLoader
    from ..nn import Module
    from ..train import Task, Trainer

Root = Folder = str | os.PathLike[str] | None
Given = Settings | Mapping[str, Any] | Iterable[str] | None  # how settings may be said
SUPPORT = ("base", "inputs", "pictures", "settings", "shared", "words")  # modules of this package that are no recipes


@dataclass(frozen=True)
class Goal:
    """The figure that a recipe must reach, in which direction, and on which data.

    Example:
        >>> from weft.recipes import Goal
        >>> goal = Goal("test_accuracy", at_least=0.97, data="360 digits")
        >>> str(goal), goal.reached({"test_accuracy": 0.975})
        ('test_accuracy ≥ 0.97 on 360 digits', True)
    """

    metric: str
    at_least: float | None = None
    at_most: float | None = None
    data: str = "the test set"

    def __post_init__(self) -> None:
        if (self.at_least is None) == (self.at_most is None):
            raise OptionError(f"Goal({self.metric!r}): give one of at_least and at_most")

    @property
    def target(self) -> float:
        """The number to reach."""
        return self.at_most if self.at_least is None else self.at_least

    def reached(self, figures: Mapping[str, float]) -> bool:
        """Whether the figures meet the goal; a missing figure or NaN does not."""
        value = figures.get(self.metric, float("nan"))
        return bool(value <= self.target if self.at_least is None else value >= self.target)

    def __str__(self) -> str:
        return f"{self.metric} {'≤' if self.at_least is None else '≥'} {self.target:g} on {self.data}"


@dataclass
class Splits:
    """Loaders of the three parts of the data: (inputs, targets) batches. A recipe without validation has None there."""

    train: DataLoader
    validation: DataLoader | None
    test: DataLoader


@dataclass
class Run:
    """One run of a recipe: what it was told, and the folder that takes its results."""

    recipe: Recipe
    settings: Any
    folder: RunFolder
    root: Root = None
    resume: bool = False
    progress: bool | None = None
    trainer_options: dict[str, Any] = field(default_factory=dict)

    def described(self) -> dict[str, Any]:
        """What `settings.json` says, so that the run can be repeated, resumed and loaded."""
        root = None if self.root is None else str(self.root)
        return {"recipe": self.recipe.name, "settings": self.settings.to_dict(), "data": root}

    def trainer(self, **options: Any) -> Trainer:
        """A trainer that writes to this run's folder; what the caller of `run` asked for comes last."""
        from ..train import Trainer

        told = {"max_epochs": self.settings.epochs, "progress": self.progress, "settings": self.described()}
        return Trainer(run_folder=self.folder, **{**told, **options, **self.trainer_options})

    def draw(self, make: Callable[[], Figure | None], name: str = "picture") -> None:
        """Save a picture in the folder; without matplotlib the log says what is missing."""
        try:
            figure = make()
        except ImportError as error:
            self.folder.log(f"no {name}.png: {error}")
            return
        if figure is not None:
            with replacing(self.folder.path / f"{name}.png") as file:
                figure.savefig(file, format="png", dpi=120)

    def keep(self, model: Module) -> None:
        """Save a model that no trainer has saved, where `load` will look for it."""
        save_checkpoint({"model": dict(model.state_dict()), "averaged": None}, self.folder.checkpoint("last"))


@dataclass(frozen=True)
class Result:
    """What came out of a run: figures on the data that the goal names, whether it was reached, where the rest lies."""

    recipe: str
    settings: Settings
    figures: dict[str, float]
    reached: bool
    folder: Path
    seconds: float
    task: Any = field(default=None, repr=False, compare=False)

    def _repr_html_(self) -> str:
        from ..notebook import facts_html

        reached = "reached" if self.reached else "missed"
        facts = {**self.figures, "goal": reached, "seconds": round(self.seconds, 1), "folder": self.folder}
        return facts_html(f"recipe {self.recipe}", facts)


class Recipe(ABC):
    """A reproducible result. Its name is the name of its file: `digits_mlp.py` → `digits-mlp`."""

    title: ClassVar[str]
    Settings: ClassVar[type[Settings]]
    goal: ClassVar[Goal]
    example: ClassVar[Any] = None  # an input that `predict` takes, for help

    @property
    def name(self) -> str:
        """The file's name with dashes."""
        return type(self).__module__.rpartition(".")[2].replace("_", "-")

    def settings(self, given: Given = None, earlier: Mapping[str, Any] | None = None) -> Any:
        """The recipe's settings from what was given: settings, a mapping, words `key=value`, or nothing.

        earlier: values, such as those of a run that is resumed, for settings that are not given
        """
        if isinstance(given, self.Settings):
            return given
        values = given if isinstance(given, Mapping) else pairs(given or ())
        return self.Settings.from_dict({**(earlier or {}), **values})

    @abstractmethod
    def fit(self, run: Run) -> tuple[dict[str, float], Any]:
        """Do the work; the figures, and the model that `predict` takes (None where there is no single one)."""

    def data(self, settings: Any, root: Root = None) -> Splits:
        """Loaders of training, validation and test data; root: a folder with the files, for recipes that read any."""
        raise self._has_no("data that a model could be tested on")

    def task(self, settings: Any, splits: Splits | None = None) -> Task:
        """A fresh task; without splits its weights, and whatever it learns from data, will be loaded from a file."""
        raise self._has_no("model that could be trained or loaded")

    def predict(self, task: Any, input: Any) -> Any:
        """What the trained model says about an input, as values that JSON can hold."""
        raise self._has_no("model to predict with")

    def _has_no(self, what: str) -> OptionError:
        return OptionError(f"{self.name} is a study over many models: it has no {what}; run it with `weft train`")


class Trained(Recipe):
    """A recipe trained by gradients: it states data and task, the trainer does the rest."""

    def trainer_options(self, settings: Any) -> dict[str, Any]:
        """Arguments of the trainer that this recipe needs, beside the number of epochs: callbacks, clipping …"""
        return {}

    def picture(self, task: Task, splits: Splits) -> Figure | None:
        """A picture of the trained model; drawn into `picture.png`."""
        return None

    def fit(self, run: Run) -> tuple[dict[str, float], Any]:
        """Train, test on the test split, draw."""
        splits = self.data(run.settings, run.root)
        task = self.task(run.settings, splits)
        trainer = run.trainer(**self.trainer_options(run.settings))
        trainer.fit(task, splits.train, splits.validation, resume=run.resume)
        figures = trainer.test(task, splits.test)
        run.draw(lambda: self.picture(task, splits))
        return figures, task


def names() -> list[str]:
    """The names of all recipes, in alphabetical order; nothing is imported for that."""
    files = (module.name for module in pkgutil.iter_modules([str(Path(__file__).parent)]))
    return sorted(name.replace("_", "-") for name in files if name not in SUPPORT)


def get(name: str) -> Recipe:
    """The recipe of this name (dashes or underscores)."""
    known = names()
    if name.replace("_", "-") not in known:
        raise OptionError(f"there is no recipe {name!r}; {suggestion(name.replace('_', '-'), known)}")
    return importlib.import_module(f"{__package__}.{name.replace('-', '_')}").recipe


def run(
    name: str,
    settings: Given = None,
    *,
    folder: Folder = None,
    root: Root = None,
    resume: bool = False,
    progress: bool | None = None,
    **trainer_options: Any,
) -> Result:
    """Run a recipe and leave a run folder: settings, metrics, curves, checkpoints, the figures it reached.

    settings: a `Settings`, a mapping, words `key=value`, or None; what is not said is the default, or as it was in the
        run that is resumed
    folder: where results go; None takes a fresh folder named after the recipe below `runs` (or `$WEFT_RUNS`)
    root: folder with the data files; resume: go on with the run in `folder` (None: the latest of this recipe)
    trainer_options: arguments of `weft.train.Trainer` that the recipe's own are to give way to

    Example:
        >>> weft.recipes.run("digits-mlp", ["epochs=2"]).figures  # doctest: +SKIP
        {'test_loss': 0.17, 'test_accuracy': 0.95}
    """
    recipe = get(name)
    started = time.perf_counter()
    recipe.settings(settings)  # wrong ones leave no folder behind
    place = _place(recipe.name, folder, resume)
    told = place.settings if resume else {}
    chosen = recipe.settings(settings, told.get("settings"))
    root = told.get("data") if root is None else root
    begun = Run(recipe, chosen, place.open(), root, resume, progress, trainer_options)
    place.write_json("settings", told | begun.described())
    if not isinstance(recipe, Trained):  # the trainer sees to both
        place.truncate(0)
        place.write_json("environment", environment())
    weft.manual_seed(chosen.seed)
    figures, task = recipe.fit(begun)
    seconds = time.perf_counter() - started
    _note_result(place, recipe, figures, seconds)
    return Result(recipe.name, chosen, figures, recipe.goal.reached(figures), place.path, seconds, task)


def _place(name: str, folder: Folder, resume: bool) -> RunFolder:
    """The folder of a run: the one named, the latest of the recipe to be resumed, or a new one."""
    if resume:
        found = RunFolder(folder) if folder is not None else _latest(name)
        _check_resumable(found, name)
        return found
    return RunFolder.create(name=name) if folder is None else RunFolder(folder)


def _check_resumable(place: RunFolder, name: str) -> None:
    recipe = place.settings.get("recipe")
    if recipe != name:
        what = f"holds a run of {recipe}" if recipe else "is no run folder of a recipe: it has no settings.json of one"
        raise OptionError(f"resume {name}: {place.path} {what}; start anew with `weft train {name}`")


def _latest(name: str) -> RunFolder:
    """The folder of this recipe that was begun last."""
    dated = sorted(runs_folder().glob("*/settings.json"), key=lambda file: file.stat().st_mtime, reverse=True)
    for place in (RunFolder(file.parent) for file in dated):
        if place.settings.get("recipe") == name:
            return place
    raise OptionError(f"resume: there is no run of {name} below {runs_folder()}/; start one with `weft train {name}`")


def _note_result(place: RunFolder, recipe: Recipe, figures: dict[str, float], seconds: float) -> None:
    """Add the goal, and whether it was reached, to what the trainer has said about its run."""
    said = {"finished": True, "seconds": seconds} | place.result
    news = {"recipe": recipe.name, "goal": str(recipe.goal), "reached": recipe.goal.reached(figures)}
    figures = said.get("figures", {}) | figures
    place.close()
    place.write_json("result", said | news | {"figures": figures, "total_seconds": seconds})


@dataclass(frozen=True)
class Loaded:
    """A run read back: the recipe, its settings, the trained task, and where its data lay."""

    recipe: Recipe
    settings: Any
    task: Any
    folder: Path
    root: str | None


def load(folder: str | os.PathLike[str], checkpoint: str = "last") -> Loaded:
    """The trained model of a run folder, ready for `recipe.predict(task, input)` or for testing.

    checkpoint: `last`, `best`, or the name of another file below `checkpoints`
    """
    place = RunFolder(folder)
    told = place.settings
    if "recipe" not in told:
        raise OptionError(f"{place.path} is no run folder of a recipe: it has no settings.json of one")
    recipe = get(told["recipe"])
    settings = recipe.settings(told["settings"])
    task = recipe.task(settings)
    load_weights(task, place.checkpoint(checkpoint))
    task.eval()
    return Loaded(recipe, settings, task, place.path, told.get("data"))
