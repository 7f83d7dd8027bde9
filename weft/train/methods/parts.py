"""Parts of a model: picked by patterns of their names as a shell matches files (`*.attention.*`), set to one mode."""

from __future__ import annotations

import contextlib
import difflib
from collections.abc import Iterable, Iterator
from fnmatch import fnmatchcase

from ...errors import OptionError
from ...nn.module import Module

__all__ = ["Patterns", "evaluating", "listed", "matching"]

Patterns = str | Iterable[str]


def listed(patterns: Patterns) -> list[str]:
    """One pattern or several, as a list."""
    return [patterns] if isinstance(patterns, str) else list(patterns)


def matching(names: Iterable[str], patterns: Patterns, who: str) -> list[str]:
    """The names that match one of the patterns, in their own order; a pattern without any match is an error."""
    names, patterns = list(names), listed(patterns)
    for pattern in patterns:
        if not any(fnmatchcase(name, pattern) for name in names):
            close = difflib.get_close_matches(pattern, names, n=3, cutoff=0.3) or names[:3]
            raise OptionError(f"{who}: no name matches {pattern!r}; names are like {', '.join(map(repr, close))}")
    return [name for name in names if any(fnmatchcase(name, pattern) for pattern in patterns)]


@contextlib.contextmanager
def evaluating(model: Module) -> Iterator[None]:
    """Inside, the model and its parts are in evaluation mode; then each is in its own mode again."""
    modes = [(part, part.training) for part in model.modules()]
    model.eval()
    try:
        yield
    finally:
        for part, training in modes:
            part.training = training
