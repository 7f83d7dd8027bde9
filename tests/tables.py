"""Rows of tables for `pytest.mark.parametrize`: all of them in `make test-all`, some of them in `make test`."""

from __future__ import annotations

from collections.abc import Callable, Container, Iterable
from typing import Any

import pytest

__all__ = ["slow_but"]


def slow_but(quick: Container[Any] | Callable[[Any], bool], rows: Iterable[Any]) -> list[Any]:
    """The rows, those that are not among the quick ones marked as slow."""
    chosen = quick if callable(quick) else quick.__contains__
    return [row if chosen(row) else pytest.param(row, marks=pytest.mark.slow) for row in rows]
