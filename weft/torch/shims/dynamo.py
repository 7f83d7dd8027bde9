"""`torch._dynamo`, `torch.compiler`, `torch.fx`: words with which programs speak to PyTorch's compiler."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

from ...tape.modes import mode

__all__ = [
    "Proxy",
    "allow_in_graph",
    "config",
    "cudagraph_mark_step_begin",
    "disable",
    "graph_break",
    "is_compiling",
    "is_dynamo_compiling",
    "is_exporting",
    "mark_dynamic",
    "mark_static",
    "maybe_mark_dynamic",
    "reset",
    "set_stance",
    "substitute_in_graph",
    "wrap",
]

config = SimpleNamespace(suppress_errors=False, cache_size_limit=8, verbose=False, recompile_limit=8)


class Proxy:
    """A value of a graph of PyTorch's; Weft makes none, so nothing is one."""


def _marker(fn: Any = None, *args: Any, **options: Any) -> Any:
    """A decorator that changes nothing, with or without options."""
    return fn if callable(fn) else lambda fn: fn


allow_in_graph = disable = wrap = assume_constant_result = run = _marker


def substitute_in_graph(original_fn: Any, **options: Any) -> Any:
    """A decorator that changes nothing."""
    return lambda fn: fn


def is_compiling() -> bool:
    """Whether the function that runs is being traced by `weft.compile`."""
    return mode.interpreter is not None


is_dynamo_compiling = is_compiling


def is_exporting() -> bool:
    """Whether a model is being exported."""
    return False


def reset() -> None:
    """Nothing to forget: each compiled function holds its own plans."""


def _remembered(*args: Any, **options: Any) -> None:
    """Remembered by nobody."""


mark_dynamic = mark_static = maybe_mark_dynamic = mark_static_address = graph_break = _remembered
cudagraph_mark_step_begin = _remembered


@contextlib.contextmanager
def set_stance(*args: Any, **options: Any) -> Iterator[None]:
    """Nothing changes."""
    yield
