"""moons-mlp: two interleaved half circles, which no straight line separates; with a picture of the boundary."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import weft

from ... import nn
from ...data.synthetic import moons
from ...models.classical.mlp import MLP
from .. import pictures
from ..base import Goal, Root, Splits, Trained
from ..baselines import pixels_accuracy
from ..inputs import as_rows
from ..settings import TrainSettings, option
from ..shared import classifier, loaders

if TYPE_CHECKING:
    from matplotlib.figure import Figure


@dataclass(kw_only=True)
class MoonsSettings(TrainSettings):
    """Settings of moons-mlp."""

    epochs: int = 60
    batch_size: int = 50
    lr: float = 0.02
    weight_decay: float = option(0.01, "decay of the weights (AdamW)", at_least=0)
    noise: float = option(0.15, "standard deviation of the points around the half circles", at_least=0)
    examples: int = option(500, "training points; half as many for validation, twice as many for testing", at_least=10)
    hidden: tuple[int, ...] = option((32, 32), "widths of the hidden layers", at_least=1)


class MoonsMLP(Trained):
    """2 → 32 → 32 → 2 with tanh."""

    title = "Two moons in the plane, a small network"
    Settings = MoonsSettings
    goal = Goal(
        "test_accuracy",
        at_least=0.97,
        data="1,000 fresh points",
        baseline="a straight line (ridge regression)",
        margin=0.05,
    )
    example = "points like 0.5,-0.2; 1,1"

    def data(self, settings: MoonsSettings, root: Root = None) -> Splits:
        sizes = settings.examples, settings.examples // 2, 2 * settings.examples
        streams = weft.Generator().manual_seed(settings.seed).split(3)
        drawn = [moons(size, settings.noise, generator=own) for size, own in zip(sizes, streams, strict=True)]
        return loaders(settings, *drawn)

    def task(self, settings: MoonsSettings, splits: Splits | None = None) -> nn.Module:
        return classifier(MLP(2, settings.hidden, 2, activation="tanh"), settings, splits)

    def baseline(self, settings: MoonsSettings, splits: Splits) -> float:
        return pixels_accuracy(splits)

    def predict(self, task: nn.Module, input: Any) -> Any:
        chances = task(as_rows(input, 2)).softmax(1)[:, 1]
        return [{"label": int(p > 0.5), "probability of 1": round(p, 4)} for p in chances.tolist()]

    def picture(self, task: nn.Module, splits: Splits) -> Figure:
        def score(grid: Any) -> Any:
            with weft.no_grad():
                logits = task(weft.tensor(grid))
            return (logits[:, 1] - logits[:, 0]).numpy()

        x, y = (part.numpy() for part in splits.train.dataset.tensors)
        return pictures.decision_boundary("moons-mlp: boundary and training points", score, x, y)


recipe = MoonsMLP()
