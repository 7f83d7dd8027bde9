"""housing-regression: prices of houses in California as normal distributions, with constant or predicted spread.

The network gives the mean; the spread is one learned number for all districts (`variance=constant`, which is least
squares) or a second output (`variance=predicted`). The negative log-likelihood tells them apart where the error hardly
does.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtri

import weft

from ... import nn, optim
from ...data.sources import Table, california_housing
from ...distributions import Normal
from ...distributions.heads import HeteroscedasticNormal, HomoscedasticNormal
from ...errors import OptionError
from ...metrics import RootMeanSquaredError
from ...models.classical.mlp import MLP
from ...tensor import Tensor
from ...train import Task
from .. import pictures
from ..base import Goal, Root, Splits, Trained
from ..baselines import line_nll
from ..settings import TrainSettings, option
from ..shared import Standardize, loaders, one_cycle

if TYPE_CHECKING:
    from matplotlib.figure import Figure

NUMBERS = (
    *("longitude", "latitude", "housing_median_age", "total_rooms", "total_bedrooms", "population", "households"),
    "median_income",
)
NAMES = (*NUMBERS, "ocean_proximity")
COUNTS = slice(3, 7)  # rooms, bedrooms, people, households: spread over decades, so their logarithms are taken
PLACES = ("<1H OCEAN", "INLAND", "ISLAND", "NEAR BAY", "NEAR OCEAN")
COLUMNS = len(NUMBERS) + len(PLACES)
DOLLARS = 100_000  # the unit of prices
QUANTILE = 1.645  # a normal variable lies within so many standard deviations with probability 0.9
HEADS = {"predicted": HeteroscedasticNormal, "constant": HomoscedasticNormal}


@dataclass(kw_only=True)
class HousingSettings(TrainSettings):
    """Settings of housing-regression."""

    epochs: int = 40
    batch_size: int = 128
    lr: float = 0.003
    weight_decay: float = option(0.1, "decay of the weights (AdamW)", at_least=0)
    variance: Literal["predicted", "constant"] = option("predicted", "spread of each district, or one for all")
    width: int = option(128, "units of each of the two hidden layers", at_least=1)
    dropout: float = option(0.1, "share of hidden units left out at each step", at_least=0, at_most=0.9)


class Housing(Task):
    """p(price | x) = N(μ(x), σ²) or N(μ(x), σ(x)²), trained by maximum likelihood: (B, 13) → a distribution of (B, 1)."""

    def __init__(self, settings: HousingSettings, splits: Splits | None) -> None:
        super().__init__()
        self.settings, self.splits = settings, splits
        self.scale = Standardize(COLUMNS)
        hidden = MLP(COLUMNS, [settings.width], settings.width, dropout=settings.dropout)
        self.body = nn.Sequential(hidden, nn.ReLU(), nn.Dropout(settings.dropout))
        self.head = HEADS[settings.variance](settings.width, 1)
        self.error = {stage: RootMeanSquaredError() for stage in ("train", "val", "test")}

    def forward(self, x: Tensor) -> Normal:
        return self.head(self.body(self.scale(x).nan_to_num(0.0)))  # a missing number counts as the mean

    def step(self, batch: Any, stage: str) -> Tensor:
        """Mean negative log-likelihood in nats, error of the mean, share of prices inside the 90 % intervals."""
        x, y = batch
        prices = self(x)
        nll = -prices.log_prob(y).mean()
        inside = (y - prices.mean).abs() < QUANTILE * prices.stddev
        self.log(f"{stage}_nll", nll, prog_bar=True)
        self.log(f"{stage}_coverage", inside.float().mean())
        self.measure(f"{stage}_rmse", self.error[stage], prices.mean, y)
        return nll

    def training_step(self, batch: Any) -> Tensor:
        return self.step(batch, "train")

    def validation_step(self, batch: Any) -> Tensor:
        return self.step(batch, "val")

    def test_step(self, batch: Any) -> Tensor:
        return self.step(batch, "test")

    def configure_optimizers(self) -> Any:
        settings = self.settings
        optimizer = optim.AdamW(self.parameters(), lr=settings.lr, weight_decay=settings.weight_decay)
        return {"optimizer": optimizer, "lr_scheduler": one_cycle(settings, self.splits)(optimizer)}


class HousingRegression(Trained):
    """Two hidden layers on 13 features of a district."""

    title = "California housing, prices with their uncertainty"
    Settings = HousingSettings
    goal = Goal(
        "test_nll",
        at_most=0.58,
        data="4,128 districts kept for testing (nats; prices in $100,000)",
        baseline="linear regression",
        margin=0.2,
    )
    example = "-122.23,37.88,41,880,129,322,126,8.3252,NEAR BAY (" + ", ".join(NAMES) + ")"

    def data(self, settings: HousingSettings, root: Root = None) -> Splits:
        table = california_housing(root, download=root is None)
        parts = table.split((0.7, 0.1, 0.2), seed=0)  # the same test districts whatever the seed
        x = [weft.tensor(features(part)) for part in parts]
        y = [part.to_tensor([part.target]) / DOLLARS for part in parts]  # (N, 1)
        return loaders(settings, *zip(x, y, strict=True))

    def task(self, settings: HousingSettings, splits: Splits | None = None) -> Task:
        task = Housing(settings, splits)
        if splits is not None:
            task.scale.fit(splits.train.dataset.tensors[0])
        return task

    def baseline(self, settings: HousingSettings, splits: Splits) -> float:
        return line_nll(splits)

    def predict(self, task: Task, input: Any) -> Any:
        with weft.no_grad():
            prices = task(weft.tensor(features(districts(input))))
        return [
            {"price": round(DOLLARS * mean), "spread": round(DOLLARS * spread)}
            for mean, spread in zip(prices.mean[:, 0].tolist(), prices.stddev[:, 0].tolist(), strict=True)
        ]

    def picture(self, task: Task, splits: Splits) -> Figure:
        x, y = splits.test.dataset.tensors
        with weft.no_grad():
            prices = task(x)
        return _picture(*(part[:, 0].numpy() for part in (prices.mean, prices.stddev, y)))


def features(table: Table) -> NDArray[np.float32]:
    """The numbers of each district, its counts as logarithms, and a column of 0 and 1 for each place: (N, 13)."""
    numbers = np.stack([table[name].as_float() for name in NUMBERS], 1)  # NaN where one is missing
    numbers[:, COUNTS] = np.log(np.maximum(numbers[:, COUNTS], 1))
    place = np.array(table["ocean_proximity"].tolist())
    return np.concatenate([numbers, place[:, None] == PLACES], 1).astype(np.float32)


def districts(input: Any) -> Table:
    """Rows of nine values, as text (`;` between rows), lists, or mappings by name; an empty number is missing."""
    if isinstance(input, str):
        input = [row.split(",") for row in input.split(";") if row.strip()]
    rows = (
        [input] if isinstance(input, Mapping) or (input and not isinstance(input[0], list | tuple | Mapping)) else input
    )
    rows = [[row.get(name) for name in NAMES] if isinstance(row, Mapping) else list(row) for row in rows]
    if not rows or any(len(row) != len(NAMES) for row in rows):
        raise OptionError(f"predict: expected rows of {len(NAMES)} values: {', '.join(NAMES)}")
    *numbers, places = zip(*rows, strict=True)
    places = [str(place).strip() for place in places]
    if not set(places) <= set(PLACES):
        raise OptionError(f"predict: ocean_proximity must be one of {', '.join(PLACES)}, got {places}")
    columns = {name: [_number(value) for value in column] for name, column in zip(NUMBERS, numbers, strict=True)}
    return Table.from_columns({**columns, "ocean_proximity": places})


def _number(value: Any) -> float:
    if value is None or (isinstance(value, str) and not value.strip()):
        return float("nan")
    try:
        return float(value)
    except (TypeError, ValueError):
        raise OptionError(f"predict: {value!r} is not a number") from None


def _picture(mean: NDArray, spread: NDArray, price: NDArray) -> Figure:
    """Prices against predictions, coloured by the predicted spread; and how often intervals hold what they promise."""
    figure, (left, right) = pictures.blank("housing-regression: test districts", columns=2, width=5)
    shown = left.scatter(mean, price, c=spread, s=3, cmap="viridis", vmax=np.quantile(spread, 0.98))
    left.axline((0, 0), slope=1, color="black", lw=0.8)
    left.set(xlabel="predicted price ($100,000)", ylabel="price ($100,000)")
    figure.colorbar(shown, ax=left, label="predicted standard deviation")
    promised = np.linspace(0.05, 0.95, 19)
    surprise = np.abs(price - mean) / spread
    right.plot(promised, [(surprise < ndtri(0.5 + p / 2)).mean() for p in promised], "o-", ms=3)
    right.axline((0, 0), slope=1, color="black", lw=0.8)
    right.set(xlabel="probability of the interval", ylabel="share of prices inside")
    return figure


recipe = HousingRegression()
