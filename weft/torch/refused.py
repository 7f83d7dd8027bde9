"""Modules of which libraries import much and call nothing here: every name is there, what is called says that it cannot."""

from __future__ import annotations

from typing import Any

from ..errors import UnsupportedError

__all__: list[str] = []


class Refused:
    """Something that Weft lacks, by its name; tests for instances are false."""

    def __init__(self, *args: Any, **options: Any) -> None:
        raise UnsupportedError(
            f"{type(self).__name__}: this part of PyTorch is not here. Ranks share batches and parameters "
            "(weft.nn.parallel); weft.train.Trainer writes checkpoints that any number of ranks reads; there are no "
            "quantised integers (weft.bfloat16 halves memory)"
        )


def __getattr__(name: str) -> Any:
    if name.startswith("__"):
        raise AttributeError(name)
    made = type(name, (Refused,), {"__doc__": f"`{name}`, which Weft lacks.", "__module__": __name__})
    globals()[name] = made
    return made
