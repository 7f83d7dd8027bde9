"""ratings-rbm: collaborative filtering by an RBM on planted tastes, from a file in the format of MovieLens (N1 §4.2).

Ratings of a few hidden tastes plus noise, most of them missing. The file is written, read back and split; the machine
must predict held-out ratings better than the means of persons and items do.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

import weft

from ... import optim
from ...data.sources.ratings import Ratings, read_ratings
from ...models.energy.ratings_rbm import RatingsDivergence, RatingsRBM
from ...tensor import Tensor
from .. import pictures
from ..base import Goal, Recipe, Run
from ..settings import TrainSettings, option

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = ["RatingsRBMRecipe", "RatingsSettings", "recipe"]

VALUES = 5
SMOOTHING = 5.0  # ratings' worth of the mean in every mean


@dataclass(kw_only=True)
class RatingsSettings(TrainSettings):
    """Settings of ratings-rbm."""

    epochs: int = 60
    batch_size: int = 100
    lr: float = 0.02
    people: int = option(1500, "persons", at_least=20)
    items: int = option(120, "items", at_least=5)
    rank: int = option(3, "hidden tastes in the data", at_least=1)
    known: float = option(0.25, "share of ratings that somebody gave", above=0, at_most=1)
    hidden: int = option(16, "hidden units", at_least=1)


class RatingsRBMRecipe(Recipe):
    """Softmax units for ratings that are there, none for those that are missing."""

    title = "Collaborative filtering: an RBM on ratings with planted tastes"
    Settings = RatingsSettings
    goal = Goal(
        "test_rmse",
        at_most=0.8,
        data="a fifth of planted ratings, held out",
        baseline="means of persons and items",
        margin=0.1,
    )

    def fit(self, run: Run) -> tuple[dict[str, float], Any]:
        settings = run.settings
        file = run.folder.path / "u.data"
        write_planted(file, settings)
        train, test = read_ratings(file).split(0.2, settings.seed)
        weft.manual_seed(settings.seed)
        model = RatingsRBM(len(train.items), VALUES, settings.hidden)
        known = train.matrix()
        rows = _learned(model, known, settings)
        for epoch, loss in enumerate(rows):
            run.folder.append({"kind": "epoch", "epoch": epoch, "step": epoch + 1, "train_loss": loss})
        with weft.no_grad():
            predicted = model(known).numpy()[test.user, test.item]
        means = of_means(train)[test.user, test.item]
        run.draw(lambda: _picture(test.value, predicted, means))
        error = lambda found: float(np.sqrt(((found - test.value) ** 2).mean()))
        return {"test_rmse": error(predicted), self.goal.beside: error(means), "ratings": float(len(train))}, None


def write_planted(path: Path, settings: RatingsSettings) -> None:
    """u.data with ratings round(3 + taste · kind + noise), one to five, for a share of all pairs."""
    random = np.random.default_rng(settings.seed)
    tastes = random.normal(size=(settings.people, settings.rank))
    kinds = random.normal(size=(settings.rank, settings.items)) / np.sqrt(settings.rank)
    score = 3 + 1.2 * tastes @ kinds + 0.3 * random.normal(size=(settings.people, settings.items))
    ratings = np.clip(np.round(score), 1, VALUES).astype(int)
    user, item = np.nonzero(random.random(ratings.shape) < settings.known)
    lines = [f"{u + 1}\t{i + 1}\t{ratings[u, i]}\t0" for u, i in zip(user, item, strict=True)]
    path.write_text("\n".join(lines) + "\n")


def of_means(train: Ratings) -> np.ndarray:
    """The item's mean, and how far the person lies from the means of what they have rated: (persons, items)."""
    mean = train.value.mean()
    of = lambda index, size, value: np.bincount(index, value, size) / (np.bincount(index, minlength=size) + SMOOTHING)
    item = mean + of(train.item, len(train.items), train.value - mean)
    person = of(train.user, len(train.users), train.value - item[train.item])
    return np.clip(item + person[:, None], 1, VALUES)


def _learned(model: RatingsRBM, ratings: Tensor, settings: RatingsSettings) -> list[float]:
    """Training; the root mean squared error of ratings given all others, ten times on the way."""
    generator = weft.Generator().manual_seed(settings.seed)
    model.start_at(ratings)
    known = model.one_hot(ratings)
    learning = RatingsDivergence(model, centred=True)
    learning.centre(known)
    optimizer = optim.Adam(model.parameters(), lr=settings.lr)

    @weft.compile
    def step(v: Tensor) -> None:
        optimizer.zero_grad()
        learning(v, generator).backward()
        optimizer.step()

    rows = []
    batch = min(settings.batch_size, len(known))
    for epoch in range(settings.epochs):
        for group in optimizer.param_groups:
            group["lr"] = settings.lr * (1 - epoch / settings.epochs)
        for v in known[weft.randperm(len(known), generator=generator)].split(batch):
            if len(v) == batch:
                step(v)
        if epoch % max(settings.epochs // 10, 1) == 0 or epoch == settings.epochs - 1:
            with weft.no_grad():
                wrong = (model(ratings[:500]) - ratings[:500])[ratings[:500] > 0]
            rows.append((wrong**2).mean().sqrt().item())
    return rows


def _picture(true: np.ndarray, predicted: np.ndarray, means: np.ndarray) -> Figure:
    figure, axes = pictures.blank("ratings-rbm: held-out ratings and what was expected", 2)
    for axis, found, name in zip(axes, (predicted, means), ("RBM", "means of persons and items"), strict=True):
        axis.boxplot([found[true == value] for value in range(1, VALUES + 1)], showfliers=False)
        axis.set(xlabel="rating", ylabel="expected", title=name, ylim=(0.8, 5.2))
    return figure


recipe = RatingsRBMRecipe()
