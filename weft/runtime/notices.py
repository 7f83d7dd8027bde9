"""Compiling takes a while now and then: whoever shows progress is told when it begins and ends."""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from typing import Any, TypeVar

__all__ = ["announced", "listening"]

Listener = Callable[[], AbstractContextManager[Any]]
F = TypeVar("F", bound=Callable[..., Any])
_listeners: list[Listener] = []


@contextlib.contextmanager
def listening(listener: Listener) -> Iterator[None]:
    """Within, `listener()` surrounds everything that is compiled."""
    _listeners.append(listener)
    try:
        yield
    finally:
        _listeners.remove(listener)


def announced(function: F) -> F:
    """A function that compiles, with the listeners around it."""

    @functools.wraps(function)
    def told(*args: Any, **kwargs: Any) -> Any:
        with contextlib.ExitStack() as stack:
            for listener in _listeners:
                stack.enter_context(listener())
            return function(*args, **kwargs)

    return told
