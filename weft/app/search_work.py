"""A search over settings at work: what it was told, what is finished, how a trial is run.

A search has a folder. What it was told stands in `search.json`, each finished trial in a file of its own below `trials`
that appears whole or not at all, so after a kill it goes on with what is missing.
"""

from __future__ import annotations

import contextlib
import json
import shutil
import time
from collections.abc import Iterator
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..runtime.places import runs_folder
from .naming import LATEST, typed
from .output import Misuse, hint, plain, progress_console

if TYPE_CHECKING:
    from ..recipes import Recipe
    from ..train.selection import Finished, Search, Space, Trial

__all__ = ["SearchRequest", "Work", "find_search", "parsed", "read_request"]

LOW_IS_GOOD = ("loss", "error", "mae", "mse", "rmse", "nll", "perplexity", "bits")


@dataclass
class SearchRequest:
    """What a search was told; with this it can be continued."""

    recipe: str
    space: dict[str, str]
    method: str
    trials: int
    folds: int
    metric: str | None
    maximize: bool | None
    seed: int
    min_epochs: int
    eta: float
    changes: dict[str, str] = field(default_factory=dict)
    data: str | None = None
    trust: bool = False
    lanes: int = 8


def parsed(text: str) -> Space:
    """A space from text: what `selection.parse_space` takes, or `low..high`."""
    from ..train.selection import Integer, LogUniform, Uniform, parse_space

    low, dots, high = text.partition("..")
    if not dots:
        return parse_space(text)
    try:
        ends = [int(end) if end.strip().lstrip("-").isdigit() else float(end) for end in (low, high)]
    except ValueError:
        raise Misuse(f"--space: expected two numbers low..high, got {text!r}") from None
    if not ends[0] < ends[1]:
        raise Misuse(f"--space: expected low < high, got {text!r}")
    if ends[0] > 0 and ends[1] / ends[0] >= 100:
        return LogUniform(*map(float, ends))
    return Integer(*ends) if all(isinstance(end, int) for end in ends) else Uniform(*map(float, ends))


# ---------------------------------------------------------------- folders


def find_search(name: str, runs: str | None) -> Path:
    searches = sorted(runs_folder(runs).glob("*/search.json"), key=lambda file: file.stat().st_mtime)
    if name == LATEST and searches:
        return searches[-1].parent
    for folder in (runs_folder(runs) / name, Path(name)):
        if (folder / "search.json").is_file():
            return folder
    there = ", ".join(file.parent.name for file in searches) or "none yet"
    raise Misuse(f"there is no search {name!r} in {runs_folder(runs)}/; there are: {there}")


def read_request(folder: Path) -> SearchRequest:
    return SearchRequest(**json.loads((folder / "search.json").read_text(encoding="utf-8")))


def write_json(path: Path, content: Any) -> None:
    from ..io.atomic import replacing

    with replacing(path) as file:
        file.write(json.dumps(plain(content), indent=2, ensure_ascii=False).encode())


# ---------------------------------------------------------------- the work


class Work:
    """A search with its folder: what is finished, what is missing, and how a trial is run."""

    def __init__(self, request: SearchRequest, folder: Path, options: dict[str, Any]) -> None:
        from ..recipes import get

        self.request, self.folder, self.options = request, folder, options
        self.recipe: Recipe = get(request.recipe)
        self.metric = request.metric or self.recipe.goal.metric.replace("test_", "val_")
        self.search = self._search()
        for settings in self.search.candidates():
            self._settings(settings)  # a value that a setting cannot take is noticed before anything runs
        self._claim()

    def _search(self) -> Search:
        from ..train.selection import AsynchronousHalving, Grid, Random, SuccessiveHalving

        request, space = self.request, {name: parsed(text) for name, text in self.request.space.items()}
        if request.method == "grid":
            return Grid(space, self._maximize())
        if request.method == "random":
            return Random(space, request.trials, request.seed, self._maximize())
        most = max(request.min_epochs, self._settings({}).epochs)
        rungs = (request.trials, request.min_epochs, most, request.eta, request.seed, self._maximize())
        if request.method == "asha":
            return AsynchronousHalving(space, *rungs, request.lanes)
        return SuccessiveHalving(space, *rungs)

    def _maximize(self) -> bool:
        if self.request.maximize is not None:
            return self.request.maximize
        if self.request.metric is None:
            return self.recipe.goal.at_least is not None
        return not any(word in self.request.metric.lower() for word in LOW_IS_GOOD)

    def _settings(self, chosen: dict[str, Any], **more: Any) -> Any:
        return self.recipe.settings({**self.request.changes, **{k: str(v) for k, v in chosen.items()}, **more})

    def _claim(self) -> None:
        """Take the folder, which must be new or belong to the same search."""
        told = self.folder / "search.json"
        if told.exists() and asdict(read_request(self.folder)) != asdict(self.request):
            raise Misuse(
                f"{self.folder} holds another search; give this one a --name, or go on with: {hint(f'search --resume {typed(self.folder)}')}"
            )
        self.made = not self.folder.exists()
        (self.folder / "trials").mkdir(parents=True, exist_ok=True)
        if not told.exists():
            write_json(told, self.request)

    @property
    def records(self) -> list[dict[str, Any]]:
        """The finished trials, as their files have them."""
        return [json.loads(file.read_text(encoding="utf-8")) for file in sorted(self.folder.glob("trials/*.json"))]

    @property
    def finished(self) -> list[Finished]:
        from ..train.selection import Finished

        return [Finished(record["number"], record["score"], record["rung"]) for record in self.records]

    def best(self) -> Trial | None:
        """The best of the finished trials."""
        return self.search.best(self.finished)

    def pending(self) -> list[Trial]:
        """The trials that can run now."""
        return self.search.pending(self.finished)

    def go(self, quiet: bool, elsewhere: Any = None) -> None:
        """Run what is missing, here or `elsewhere` (on_ray.py); a terminal sees how far it is."""
        from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

        console = progress_console()
        columns = TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn()
        with (
            self._leaving_no_trace(),
            Progress(*columns, console=console, disable=quiet or not console.is_terminal, transient=True) as progress,
        ):
            bar = progress.add_task("searching", total=self._count())
            progress.update(bar, completed=len(self.finished))
            while pending := self.pending():
                if elsewhere is not None:
                    elsewhere.run(self.pending, lambda trial: progress.advance(bar))
                    continue
                for trial in pending:
                    progress.update(bar, description=f"trial {trial.number + 1}: {_words(trial.settings)}")
                    self.run(trial)
                    progress.advance(bar)

    @contextlib.contextmanager
    def _leaving_no_trace(self) -> Iterator[None]:
        """Remove the folder if it is new and no trial was finished in it."""
        try:
            yield
        except Exception:
            if self.made and not self.records:
                shutil.rmtree(self.folder, ignore_errors=True)
            raise

    def _count(self) -> int | None:
        """How many trials there will be, where that is known beforehand."""
        if self.request.method == "asha":
            return None
        if hasattr(self.search, "plan"):
            return sum(map(len, self.search.plan()))
        return len(self.search.candidates())

    def run(self, trial: Trial) -> None:
        """Run a trial and write down what came of it; a trial that fails has no score."""
        from ..errors import WeftError

        name = f"{trial.number:04d}.{trial.rung}"
        more = {} if trial.budget is None else {"epochs": str(round(trial.budget))}
        started, error = time.perf_counter(), None
        try:
            figures = self._figures(self._settings(trial.settings, **more), self.folder / "trials" / name)
        except (WeftError, ArithmeticError) as problem:
            if isinstance(problem, OSError):  # files that are missing or damaged are so for every trial
                raise
            figures, error = {}, " ".join(str(problem).split())
        if not error and self.metric not in figures:
            raise Misuse(
                f"search: {self.metric!r} is not among the figures of {self.request.recipe}: {', '.join(figures)}; choose with --metric"
            )
        record = {"number": trial.number, "rung": trial.rung, "settings": trial.settings, "budget": trial.budget}
        record |= {"score": figures.get(self.metric), "figures": figures, "error": error}
        write_json(
            self.folder / "trials" / f"{name}.json", record | {"seconds": round(time.perf_counter() - started, 3)}
        )

    def _figures(self, settings: Any, folder: Path) -> dict[str, float]:
        """Figures of one run: those of validation at the end, and those of the test."""
        from ..recipes import run
        from ..train.runs import RunFolder

        if self.request.folds:
            return self._cross_validated(settings, folder)
        begun = (folder / "checkpoints" / "last.weft").exists()
        options = {
            "root": self.request.data,
            "trust_data": self.request.trust,
            "resume": begun,
            "progress": False,
            **self.options,
        }
        result = run(self.request.recipe, settings, folder=folder, **options)
        rows = RunFolder(folder).rows("epoch")
        last = {k: v for k, v in (rows[-1] if rows else {}).items() if isinstance(v, float) and k != "seconds"}
        return last | result.figures

    def _cross_validated(self, settings: Any, folder: Path) -> dict[str, float]:
        """Means over folds of training and validation data together; the test data are not touched."""
        import numpy as np

        import weft

        from ..data.sources import trusted
        from ..train import Trainer

        rows = []
        with trusted(self.request.trust):
            data = self.recipe.data(settings, self.request.data)
        for number, splits in enumerate(folds(data, self.request.folds, settings.seed)):
            weft.manual_seed(settings.seed)
            task = self.recipe.task(settings, splits)
            trainer = Trainer(
                max_epochs=settings.epochs,
                seed=settings.seed,
                progress=False,
                run_folder=folder / f"fold-{number}",
                **self.options,
            )
            trainer.fit(task, splits.train)
            rows.append(trainer.validate(task, splits.validation))
        means = {name: float(np.mean([row[name] for row in rows])) for name in rows[0]}
        return means | {f"{name}_std": float(np.std([row[name] for row in rows])) for name in rows[0]}


def folds(splits: Any, count: int, seed: int) -> list[Any]:
    """k splits of training and validation data; each row is validated once."""
    import weft

    from ..data import DataLoader, TensorDataset
    from ..recipes import Splits
    from ..train.selection import k_fold

    parts = [loader.dataset for loader in (splits.train, splits.validation) if loader is not None]
    if not all(isinstance(part, TensorDataset) for part in parts):
        raise Misuse("--folds needs data that lie in memory as tensors; this recipe's do not")
    whole = [weft.cat(list(columns)) for columns in zip(*(part.tensors for part in parts), strict=True)]
    labels = whole[-1].numpy() if not whole[-1].is_floating_point() and whole[-1].ndim == 1 else None
    found = []
    for split in k_fold(len(whole[0]), count, seed=seed, stratify=labels):
        train, held = ([column[weft.tensor(rows)] for column in whole] for rows in (split.train, split.validation))
        first = splits.train
        options = {"batch_size": min(first.batch_size, len(train[0])), "shuffle": True, "drop_last": first.drop_last}
        loader = DataLoader(TensorDataset(*train), seed=seed, batch_transform=first.batch_transform, **options)
        found.append(Splits(loader, DataLoader(TensorDataset(*held), batch_size=500), splits.test))
    return found


def _words(settings: dict[str, Any]) -> str:
    return ", ".join(f"{k} {v:.3g}" if isinstance(v, float) else f"{k} {v}" for k, v in settings.items())
