"""deepar-temperatures: the lowest temperature of the next day in Melbourne, as a distribution (DeepAR).

Figures are −log p of each day given the days before it, in nats, as gains over the seasonal naive forecast: the same
day a year before, with a normal error whose spread is that of the training years. The baseline is a season of sines
and cosines with an AR(1) process around it. Thirty days told at once are compared, too (`test_crps_ahead`, in °C): there
the network is no better than that baseline, one series of seven years has no more to teach it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from numpy.typing import NDArray

import weft

from ... import optim
from ...data.sources import daily_min_temperatures
from ...distributions import Normal
from ...metrics.forecast import crps_ensemble, crps_gaussian
from ...models.sequences.deepar import DeepAR
from ...tensor import Tensor
from ...train import Task
from .. import pictures
from ..base import Goal, Root, Splits, Trained
from ..baselines import SeasonAndLag
from ..inputs import as_rows
from ..settings import TrainSettings, option
from ..shared import Pair, loaders, one_cycle

if TYPE_CHECKING:
    from matplotlib.figure import Figure

YEAR, PAST, FUTURE = 365, 30, 30  # days
HARMONICS = 2
COLUMNS = 2 + 2 * HARMONICS  # temperature, that of a year before, sines and cosines of the season


@dataclass(kw_only=True)
class TemperatureSettings(TrainSettings):
    """Settings of deepar-temperatures."""

    epochs: int = 10
    batch_size: int = 32
    lr: float = 0.005
    hidden: int = option(16, "units of the LSTM", at_least=1)
    likelihood: Literal["gaussian", "student-t"] = option("gaussian", "the distribution of a temperature")


class Forecast(Task):
    """Windows (B, 60, columns) of past and future; −log p of the future days, each given all days before."""

    def __init__(self, settings: TemperatureSettings, splits: Splits | None) -> None:
        super().__init__()
        self.settings, self.splits = settings, splits
        self.model = DeepAR(2 * HARMONICS, settings.hidden, likelihood=settings.likelihood)
        self.register_buffer("naive_spread", weft.ones(()))
        self.register_buffer("scale", weft.ones(()))  # ν = 1 + mean |z| of the training days: there is only one series
        if splits is not None:
            windows = splits.train.dataset.tensors[0]
            self.naive_spread.copy_(naive_spread(windows))
            self.scale.copy_(1 + windows[..., 0].abs().mean())

    def training_step(self, batch: Any) -> Tensor:
        return self.model.loss(batch[0][..., 0], batch[0][..., 2:], self.scales(batch[0]), skip=1)

    def validation_step(self, batch: Any) -> None:
        self.figures(batch[0], "val")

    def test_step(self, batch: Any) -> None:
        self.figures(batch[0], "test")

    def scales(self, windows: Tensor) -> Tensor:
        """The same scale for each. Shape: (B, …) → (B,)"""
        return self.scale.expand(windows.shape[0])

    def figures(self, windows: Tensor, stage: str) -> None:
        """Of the last 30 days of each window."""
        z, before = windows[..., 0], windows[..., 1]
        law = self.model(z, windows[..., 2:], self.scales(windows))
        nll = -law.log_prob(z)[:, PAST:].mean()
        naive = naive_nll(z, before, self.naive_spread)
        inside = (z - law.mean).abs()[:, PAST:] < 1.645 * law.stddev[:, PAST:]
        self.log_dict({f"{stage}_nll": nll, f"{stage}_naive_nll": naive}, prog_bar=True)
        self.log_dict({f"{stage}_gain": naive - nll, f"{stage}_coverage": inside.float().mean()})

    def configure_optimizers(self) -> Any:
        optimizer = optim.Adam(self.parameters(), lr=self.settings.lr)
        return {"optimizer": optimizer, "lr_scheduler": one_cycle(self.settings, self.splits)(optimizer)}


class DeepARTemperatures(Trained):
    """An LSTM over yesterday's temperature and the season."""

    title = "The next day's temperature with its interval, DeepAR"
    Settings = TemperatureSettings
    goal = Goal(
        "test_gain",
        at_least=0.54,
        data="1989 and 1990, the next day, in nats over the seasonal naive forecast",
        baseline="season + AR(1)",
        margin=0.01,
    )
    example = "30 temperatures, and the day of the year (1 … 365) of the last: 31 numbers"

    def data(self, settings: TemperatureSettings, root: Root = None) -> Splits:
        rows = columns(daily_min_temperatures(root, download=root is None).to_tensor("Temp").numpy())
        years = len(rows) // YEAR
        train, held, test = (years - 3) * YEAR, (years - 2) * YEAR, len(rows)
        parts = ((0, train, 1), (train - PAST, held, FUTURE), (held - PAST, test, FUTURE))
        return loaders(settings, *(windows(rows[start:end], step) for start, end, step in parts))

    def task(self, settings: TemperatureSettings, splits: Splits | None = None) -> Task:
        return Forecast(settings, splits)

    def trainer_options(self, settings: TemperatureSettings) -> dict[str, Any]:
        return {"gradient_clip_val": 1.0}

    def baseline(self, settings: TemperatureSettings, splits: Splits) -> float:
        windows = splits.test.dataset.tensors[0]
        z, before = windows[..., 0], windows[..., 1]
        naive = naive_nll(z, before, naive_spread(splits.train.dataset.tensors[0])).item()
        return naive - season_and_lag(splits).nll(z.numpy(), windows[..., 2:].numpy(), PAST)

    def further(self, task: Task, splits: Splits) -> dict[str, float]:
        return days_ahead(task, splits)

    def predict(self, task: Task, input: Any) -> Any:
        row = as_rows(input, PAST + 1)[:1]
        days = row[:, -1:].numpy() + np.arange(1 - PAST, FUTURE + 1)  # (1, 60)
        low, middle, high = quantiles(task, row[:, :PAST], weft.tensor(season(days)))
        return [
            {"day": h + 1, "temperature": _short(middle[h]), "90 %": [_short(low[h]), _short(high[h])]}
            for h in range(FUTURE)
        ]

    def picture(self, task: Task, splits: Splits) -> Figure:
        (found, _) = splits.test.dataset.tensors
        figure, axes = pictures.blank("deepar-temperatures: thirty days told at once", 2, 6, 3.6)
        for number, half in enumerate(axes):
            window = found[number * 3 : number * 3 + 1]
            low, middle, high = quantiles(task, window[:, :PAST, 0], window[..., 2:])
            days = np.arange(PAST, PAST + FUTURE)
            half.plot(window[0, :, 0].numpy(), color="black", label="measured")
            half.fill_between(days, low, high, color=pictures.COLOURS[0], alpha=0.25)
            half.plot(days, middle, color=pictures.COLOURS[0], label="median and 90 % of the samples")
            half.plot(days, window[0, PAST:, 1].numpy(), ":", color=pictures.COLOURS[1], label="a year before")
            half.set(xlabel="day", ylabel="lowest temperature (°C)")
        axes[0].legend(fontsize=8)
        return figure


def columns(series: NDArray) -> NDArray[np.float32]:
    """Temperature, that of a year before and the season, from the second year on. Shape: (N,) → (N − 365, columns)"""
    days = np.arange(YEAR, len(series))
    return np.concatenate([series[YEAR:, None], series[:-YEAR, None], season(days)], 1).astype(np.float32)


def season(days: NDArray) -> NDArray[np.float32]:
    """sin and cos of 2π k day / 365, k = 1 … HARMONICS. Shape: (*) → (*, 2 · HARMONICS)"""
    angles = 2 * np.pi * days[..., None] / YEAR * np.arange(1, HARMONICS + 1)
    return np.concatenate([np.sin(angles), np.cos(angles)], -1).astype(np.float32)


def windows(rows: NDArray, step: int) -> Pair:
    """Stretches of 60 days, every `step` days, as inputs (W, 60, columns); the targets are the temperatures in them."""
    starts = np.arange(0, len(rows) - PAST - FUTURE + 1, step)
    found = weft.tensor(rows[starts[:, None] + np.arange(PAST + FUTURE)])
    return found, found[..., 0]


def naive_spread(windows: Tensor) -> Tensor:
    """The standard deviation of the change from one year to the next."""
    return (windows[..., 0] - windows[..., 1]).std()


def naive_nll(z: Tensor, before: Tensor, spread: Tensor) -> Tensor:
    """Mean −ln p of the last 30 days given those of a year before."""
    return -Normal(before, spread, validate_args=False).log_prob(z)[:, PAST:].mean()


def season_and_lag(splits: Splits) -> SeasonAndLag:
    """The baseline, fitted to the training days in one piece."""
    windows = splits.train.dataset.tensors[0].numpy()  # one a day: (W, 60, columns)
    days = np.concatenate([windows[:, 0], windows[-1, 1:]])  # (W + 59, columns)
    return SeasonAndLag(days[:, 0], days[:, 2:])


def days_ahead(task: Task, splits: Splits) -> dict[str, float]:
    """CRPS of thirty days told at once, by 200 sampled futures and by the baseline's normal distributions."""
    windows = splits.test.dataset.tensors[0]
    z, x = windows[..., 0], windows[..., 2:]
    paths = task.model.sample(z[:, :PAST], FUTURE, x, samples=200, scale=task.scales(windows))  # (200, B, 30)
    mean, spread = season_and_lag(splits).ahead(z.numpy(), x.numpy(), PAST)
    return {
        "test_crps_ahead": crps_ensemble(paths.permute(1, 2, 0), z[:, PAST:]).mean().item(),
        "baseline_crps_ahead": crps_gaussian(mean, np.broadcast_to(spread, mean.shape), z[:, PAST:]).mean().item(),
    }


def quantiles(task: Task, past: Tensor, x: Tensor) -> tuple[NDArray, NDArray, NDArray]:
    """The 5 %, 50 % and 95 % quantiles of 200 sampled futures: (30,) each."""
    found = task.model.quantiles(past, FUTURE, [0.05, 0.5, 0.95], x, samples=200, scale=task.scales(past))
    return tuple(found[:, 0].numpy())


def _short(value: float) -> float:
    return round(float(value), 1)


recipe = DeepARTemperatures()
