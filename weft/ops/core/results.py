"""Results with several named parts, such as `(values, indices)`: tuples that print one part a line, as PyTorch's do."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

__all__ = ["named_result"]

Result = TypeVar("Result", bound=tuple)


def named_result(name: str) -> Callable[[type[Result]], type[Result]]:
    """Let a NamedTuple print as `weft.return_types.name(` and a line for each part."""

    def enter(cls: type[Result]) -> type[Result]:
        cls.__name__ = cls.__qualname__ = name
        cls.__repr__ = _shown
        return cls

    return enter


def _shown(self: tuple) -> str:
    parts = ",\n".join(f"{field}={value!r}" for field, value in zip(self._fields, self, strict=True))
    return f"weft.return_types.{type(self).__name__}(\n{parts})"
