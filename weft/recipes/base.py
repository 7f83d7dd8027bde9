"""What a recipe is, and how a run of one is read back; `finding.py` finds them, `running.py` runs them.

A recipe names its settings, its data, its model, the figure it must reach and on which data. Most are trained by
gradients (`Trained`); those that are not (a learning rule, a closed form, a study over many models) have a `fit` of
their own and write the same run folder.
"""

from __future__ import annotations

import os
import warnings
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

from ..errors import OptionError
from ..io.atomic import replacing
from ..train.checkpoint import load_weights, save_checkpoint
from ..train.runs import RunFolder
from .finding import get
from .goal import Goal
from .settings import Settings, pairs

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from ..data import DataLoader
    from ..nn import Module
    from ..train import Task, Trainer

__all__ = ["Folder", "Given", "Goal", "Recipe", "Result", "Root", "Run", "Splits", "Trained", "standard_error"]

Root = Folder = str | os.PathLike[str] | None
Given = Settings | Mapping[str, Any] | Iterable[str] | None  # how settings may be said


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
    files: list[Path] = field(default_factory=list)  # of the data, as far as they have been read
    trust: bool = False
    changes: list[dict[str, Any]] = field(default_factory=list)  # of settings, where the run was resumed with others
    callbacks: list[Any] = field(default_factory=list)  # of the trainer, beside those of the recipe or the caller

    def described(self) -> dict[str, Any]:
        """What `settings.json` says, so that the run can be repeated, resumed and loaded: what was really used."""
        told = {"recipe": self.recipe.name, "settings": self.settings.to_dict(), "data": None, "files": []}
        if self.files:
            told |= {"data": self.root and os.path.abspath(Path(self.root).expanduser()), "trust_data": self.trust}
            told["files"] = [os.path.abspath(path) for path in self.files]
        return told | ({"changes": self.changes} if self.changes else {})

    def trainer(self, **options: Any) -> Trainer:
        """A trainer that writes to this run's folder; what the caller of `run` asked for comes last."""
        from ..train import Trainer

        self.check_folder()
        told = {"max_epochs": self.settings.epochs, "progress": self.progress, "settings": self.described()}
        options = {**told, **options, **self.trainer_options}
        given = options.pop("callbacks", ())
        callbacks = [*(given if isinstance(given, Iterable) else [given]), *self.callbacks]
        return Trainer(run_folder=self.folder, callbacks=callbacks, **options)

    def check_folder(self) -> None:
        """Say so if a folder with data was named and nothing of it was read."""
        if self.root is not None and not self.files:
            warnings.warn(f"{self.recipe.name} reads no files: the data folder {self.root} is not used", stacklevel=2)

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

    def baseline(self, settings: Any, splits: Splits) -> float:
        """The goal's figure of the simple method that it names, fitted to the same training data, its choices made on the
        validation data."""
        raise self._has_no("baseline")

    def judged(
        self, figures: Mapping[str, float], settings: Any, splits: Splits, known: float | None = None
    ) -> dict[str, float]:
        """The figures of a test with what they are judged by: the baseline's, and the standard error of an accuracy.

        `known` is the baseline's figure where it was computed before; some train for minutes.
        """
        found, metric = dict(figures), self.goal.metric
        if metric == "test_accuracy" and metric in found:
            found["test_accuracy_error"] = standard_error(found[metric], len(splits.test.dataset))
        if self.goal.baseline:
            found[self.goal.beside] = float(self.baseline(settings, splits) if known is None else known)
        return found

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

    def further(self, task: Task, splits: Splits) -> dict[str, float]:
        """Figures on the test data that no step of the trainer measures."""
        return {}

    def fit(self, run: Run) -> tuple[dict[str, float], Any]:
        """Train, test on the test split, draw."""
        splits = self.data(run.settings, run.root)
        task = self.task(run.settings, splits)
        trainer = run.trainer(**self.trainer_options(run.settings))
        trainer.fit(task, splits.train, splits.validation, resume=run.resume)
        figures = self.judged(trainer.test(task, splits.test), run.settings, splits) | self.further(task, splits)
        run.draw(lambda: self.picture(task, splits))
        return figures, task


def standard_error(share: float, count: int) -> float:
    """√(p (1 − p) / n): how far a share measured on n examples lies from that on all there could be, typically."""
    return (max(share * (1 - share), 0.0) / max(count, 1)) ** 0.5


@dataclass(frozen=True)
class Loaded:
    """A run read back: the recipe, its settings, the trained task, and where its data lay."""

    recipe: Recipe
    settings: Any
    task: Any
    folder: Path
    root: str | None
    trust: bool = False


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
    return Loaded(recipe, settings, task, place.path, told.get("data"), bool(told.get("trust_data")))
