"""Options as people write them, and whether they make sense."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ...errors import OptionError

if TYPE_CHECKING:
    from ..trainer import Trainer

__all__ = ["check_options", "seconds_of"]

AT_LEAST_ONE = ("accumulate_grad_batches", "log_every_n_steps", "check_val_every_n_epoch")


def seconds_of(limit: float | str | None) -> float | None:
    """Seconds of a number, or of "HH:MM:SS" or "DD:HH:MM:SS"."""
    if limit is None or not isinstance(limit, str):
        return limit
    parts = limit.split(":")
    try:
        days, hours, minutes, seconds = (0.0,) * (4 - len(parts)) + tuple(map(float, parts))
    except ValueError:
        raise OptionError(f"expected a time as seconds or 'HH:MM:SS', got {limit!r}") from None
    return ((days * 24 + hours) * 60 + minutes) * 60 + seconds


def check_options(trainer: Trainer) -> None:
    """Refuse options that a training could not follow."""
    from ..callbacks import Callback

    for name in AT_LEAST_ONE:
        value = getattr(trainer, name)
        _require(isinstance(value, int) and value >= 1, f"{name} must be a whole number of at least 1, got {value!r}")
    epochs, interval, how = trainer.max_epochs, trainer.val_check_interval, trainer.gradient_clip_algorithm
    _require(epochs is None or epochs >= 0, f"max_epochs must not be negative, got {epochs}")
    fits = interval >= 1 if isinstance(interval, int) else 0 < interval <= 1
    _require(
        fits and not isinstance(interval, bool),
        f"val_check_interval must be a share of an epoch in (0, 1] or a number of batches, got {interval!r}",
    )
    _require(how in ("norm", "value"), f"gradient_clip_algorithm must be 'norm' or 'value', got {how!r}")
    wrong = [type(c).__name__ for c in trainer.callbacks if not isinstance(c, Callback)]
    _require(not wrong, f"callbacks must be of weft.train.Callback, got {', '.join(wrong)}")


def _require(condition: bool, message: str) -> None:
    if not condition:
        raise OptionError(f"Trainer: {message}")
