"""Results with several named parts, such as `(values, indices)`: tuples that print one part a line, as PyTorch's do."""

from __future__ import annotations

from collections import namedtuple

__all__ = ["named_result"]


def named_result(name: str, fields: str | tuple[str, ...]) -> type[tuple]:
    """A named tuple whose `repr` is `weft.return_types.name(` and a line for each part."""
    made = namedtuple(name, fields)
    made.__repr__ = _shown
    return made


def _shown(self: tuple) -> str:
    parts = ",\n".join(f"{field}={value!r}" for field, value in zip(self._fields, self, strict=True))
    return f"weft.return_types.{type(self).__name__}(\n{parts})"
