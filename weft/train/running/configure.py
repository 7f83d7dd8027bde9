"""What `configure_optimizers` may return, brought into one form."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from ...errors import OptionError
from ...optim import Optimizer
from ...optim.lr_scheduler import ReduceLROnPlateau

__all__ = ["Schedule", "read_optimizers"]


@dataclass
class Schedule:
    """A learning-rate schedule and when it goes on: every `frequency` epochs or updates."""

    scheduler: Any
    interval: str = "epoch"
    frequency: int = 1
    monitor: str = "val_loss"  # what a schedule that looks at figures (ReduceLROnPlateau) is given

    def __post_init__(self) -> None:
        if self.interval not in ("epoch", "step"):
            raise OptionError(f"lr_scheduler: interval must be 'epoch' or 'step', got {self.interval!r}")
        if self.frequency < 1:
            raise OptionError(f"lr_scheduler: frequency must be at least 1, got {self.frequency}")

    def step(self, figures: Mapping[str, float]) -> None:
        """Go on; a schedule whose figure is not there yet waits."""
        if not isinstance(self.scheduler, ReduceLROnPlateau):
            self.scheduler.step()
        elif self.monitor in figures:
            self.scheduler.step(figures[self.monitor])
        elif self.interval == "epoch":
            raise OptionError(
                f"ReduceLROnPlateau: its figure {self.monitor!r} was not logged; logged are {sorted(figures)}; name it "
                "with {'scheduler': …, 'monitor': name}"
            )


def read_optimizers(given: Any) -> tuple[list[Optimizer], list[Schedule]]:
    """Optimisers and schedules from an optimiser, a list, (optimisers, schedules), or dicts {'optimizer', …}."""
    if isinstance(given, (tuple, list)) and len(given) == 2 and _all(given[1], _is_schedule) and _listed(given[1]):
        optimizers, schedules = _listed(given[0]), [_schedule(s) for s in _listed(given[1])]
    else:
        optimizers, schedules = [], []
        for part in _listed(given):
            if isinstance(part, Mapping):
                optimizers.append(part.get("optimizer"))
                schedules += [_schedule(s) for s in _listed(part.get("lr_scheduler"))]
            else:
                optimizers.append(part)
    wrong = [o for o in optimizers if not isinstance(o, Optimizer)]
    if wrong or not optimizers:
        raise OptionError(
            "configure_optimizers: expected an optimizer, a list of them, (optimizers, schedulers) or a dict "
            f"{{'optimizer', 'lr_scheduler'}}, got {type(wrong[0]).__name__ if wrong else 'nothing'}"
        )
    return optimizers, schedules


def _listed(given: Any) -> list[Any]:
    return [] if given is None else list(given) if isinstance(given, (list, tuple)) else [given]


def _all(given: Any, test: Any) -> bool:
    return all(map(test, _listed(given)))


def _is_schedule(x: Any) -> bool:
    return (isinstance(x, Mapping) and "scheduler" in x) or (
        hasattr(x, "step") and not isinstance(x, (Optimizer, Mapping))
    )


def _schedule(given: Any) -> Schedule:
    if not isinstance(given, Mapping):
        return Schedule(given)
    known = {k: given[k] for k in ("scheduler", "interval", "frequency", "monitor") if k in given}
    unknown = sorted(set(given) - set(known) - {"name", "strict"})
    if "scheduler" not in given or unknown:
        raise OptionError(
            "lr_scheduler: the dict needs 'scheduler' and may have 'interval', 'frequency' and 'monitor'"
            + (f"; unknown: {unknown}" if unknown else "")
        )
    return Schedule(**known)
