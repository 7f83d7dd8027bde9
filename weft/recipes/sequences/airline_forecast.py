"""airline-forecast: passengers of the next twelve months from the last twenty-four, with intervals.

The network sees how the last two years went and predicts the growth of each coming month over the same month a year
before, as normal distributions of its logarithm. Errors are told as shares of the seasonal naive forecast's, the same as last
year. The baseline is last year × growth: the last twelve months, times their sum over that of the twelve before.

The spread of a month is measured, not trained: the root mean square of the errors in all windows up to the end of the
validation years. Errors of the training years alone would be too small, since the network was fitted to them. In
forecasts of earlier years (no month after 1958) such 90 % intervals held 94 % of the months.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

import weft

from ... import nn, optim
from ...data.sources import Windows, airline_passengers
from ...distributions import Normal
from ...models.classical.mlp import MLP
from ...tensor import Tensor
from ...train import Task
from .. import pictures
from ..base import Goal, Root, Splits, Trained
from ..baselines import grown
from ..inputs import as_rows
from ..settings import TrainSettings, option
from ..shared import Pair, loaders, one_cycle

if TYPE_CHECKING:
    from matplotlib.figure import Figure

PAST, FUTURE = 24, 12  # months seen and told
TEST, VALIDATION = 24, 24  # months at the end, and before those
QUANTILE = 1.645  # a normal variable lies within so many standard deviations with probability 0.9


@dataclass(kw_only=True)
class AirlineSettings(TrainSettings):
    """Settings of airline-forecast."""

    epochs: int = 200
    batch_size: int = 16
    lr: float = 0.01
    weight_decay: float = option(0.1, "decay of the weights (AdamW)", at_least=0)
    hidden: int = option(16, "units of the hidden layer", at_least=1)


class Forecast(Task):
    """log y[t + h] ~ N(log y[t + h − 12] + growth_h, σ_h²): (B, 24) passengers → (B, 12).

    The growth is fitted by least squares; σ_h² is the mean squared error of month h in the windows known so far.
    """

    def __init__(self, settings: AirlineSettings, splits: Splits | None) -> None:
        super().__init__()
        self.settings, self.splits = settings, splits
        self.growth = MLP(PAST, [settings.hidden], FUTURE, activation="tanh")
        self.register_buffer("spread", weft.ones(FUTURE))

    def forward(self, past: Tensor) -> Normal:
        """The distribution of the logarithms of the next year."""
        logs = past.log()
        growth = self.growth(logs - logs.mean(1, keepdim=True))
        return Normal(logs[:, -FUTURE:] + growth, self.spread)

    def training_step(self, batch: Any) -> Tensor:
        past, future = batch
        return nn.functional.mse_loss(self(past).mean, future.log())

    def on_validation_start(self) -> None:
        """Measure the spread with the weights as they are."""
        known = (self.splits.train, self.splits.validation)
        past, future = (weft.cat(parts) for parts in zip(*(part.dataset.tensors for part in known), strict=True))
        with weft.no_grad():
            error = future.log() - self(past).mean
            self.spread.copy_((error**2).mean(0).sqrt())

    def validation_step(self, batch: Any) -> None:
        self.figures(batch, "val")

    def test_step(self, batch: Any) -> None:
        self.figures(batch, "test")

    def figures(self, batch: Any, stage: str) -> None:
        """Errors in thousands of passengers over all windows, which are one batch."""
        past, future = batch
        logs = self(past)
        error, naive = (_rmse(told, future) for told in (logs.mean.exp(), past[:, -FUTURE:]))
        inside = (future.log() - logs.mean).abs() < QUANTILE * logs.stddev
        self.log(f"{stage}_nll", -logs.log_prob(future.log()).mean())
        self.log_dict(
            {f"{stage}_rmse": error, f"{stage}_naive_rmse": naive, f"{stage}_ratio": error / naive}, prog_bar=True
        )
        self.log(f"{stage}_coverage", inside.float().mean())

    def configure_optimizers(self) -> Any:
        settings = self.settings
        optimizer = optim.AdamW(self.parameters(), lr=settings.lr, weight_decay=settings.weight_decay)
        return {"optimizer": optimizer, "lr_scheduler": one_cycle(settings, self.splits)(optimizer)}


class AirlineForecast(Trained):
    """A small network with one hidden layer on 24 logarithms."""

    title = "Airline passengers, the next year with intervals"
    Settings = AirlineSettings
    goal = Goal(
        "test_ratio",
        at_most=0.5,
        data="the last 24 months (RMSE over that of the same month a year before)",
        baseline="last year × growth",
        margin=0.1,
    )
    example = "24 numbers, the passengers of the last two years"

    def data(self, settings: AirlineSettings, root: Root = None) -> Splits:
        series = airline_passengers(root, download=root is None).to_tensor("Passengers").numpy()
        first = len(series) - TEST - VALIDATION
        parts = series[:first], series[first - PAST : -TEST], series[-TEST - PAST :]
        return loaders(settings, *(windows(part) for part in parts))

    def task(self, settings: AirlineSettings, splits: Splits | None = None) -> Task:
        return Forecast(settings, splits)

    def baseline(self, settings: AirlineSettings, splits: Splits) -> float:
        past, future = splits.test.dataset.tensors
        error, naive = (_rmse(told, future).item() for told in (grown(past), past[:, -FUTURE:]))
        return error / naive

    def predict(self, task: Task, input: Any) -> Any:
        low, middle, high = _interval(task, as_rows(input, PAST))
        return [
            [
                {"month": h + 1, "passengers": _short(middle[i, h]), "90 %": [_short(low[i, h]), _short(high[i, h])]}
                for h in range(FUTURE)
            ]
            for i in range(len(middle))
        ]

    def picture(self, task: Task, splits: Splits) -> Figure:
        past, future = splits.test.dataset.tensors
        return _picture(task, np.append(past[0].numpy(), [future[0].numpy(), future[-1].numpy()]))


def windows(series: NDArray[np.float32]) -> Pair:
    """Every 24 months with the 12 that follow: (N, 24), (N, 12)."""
    past, future = Windows(series, PAST, FUTURE).as_tensors().tensors
    return past[:, :, 0], future[:, :, 0]


def _rmse(told: Tensor, future: Tensor) -> Tensor:
    return ((told - future) ** 2).mean().sqrt()


def _interval(task: Task, past: Tensor) -> tuple[NDArray, NDArray, NDArray]:
    """Lower end, median and upper end of the 90 % intervals, in passengers: (B, 12) each."""
    with weft.no_grad():
        logs = task(past)
    middle, spread = logs.mean.numpy(), QUANTILE * logs.stddev.numpy()
    return np.exp(middle - spread), np.exp(middle), np.exp(middle + spread)


def _short(value: float) -> float:
    return round(float(value), 1)


def _picture(task: Task, series: NDArray) -> Figure:
    """The last 48 months, and the forecasts of the last two years, each made at the end of the year before."""
    figure, axes = pictures.blank("airline-forecast: two years, each told at its beginning", width=8)
    months = np.arange(len(series)) - len(series)
    axes.plot(months, series, color="black", label="passengers (thousands)")
    for start in (PAST, PAST + FUTURE):
        low, middle, high = _interval(task, weft.tensor(series[None, start - PAST : start]))
        told = months[start : start + FUTURE]
        axes.fill_between(told, low[0], high[0], color=pictures.COLOURS[0], alpha=0.25)
        axes.plot(
            told, middle[0], color=pictures.COLOURS[0], label="forecast and 90 % interval" if start == PAST else None
        )
        axes.plot(
            told,
            series[start - FUTURE : start],
            ":",
            color=pictures.COLOURS[1],
            label="same month a year before" if start == PAST else None,
        )
    axes.set(xlabel="months before the end of 1960")
    axes.legend(fontsize=8)
    return figure


recipe = AirlineForecast()
