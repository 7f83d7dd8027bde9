"""Limits as people write them."""

from __future__ import annotations

from ..errors import OptionError


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
