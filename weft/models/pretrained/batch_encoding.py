"""What a tokeniser returns: columns of numbers by name, as lists, tensors or arrays."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Self

import numpy as np

import weft

from ...errors import OptionError, ShapeError

__all__ = ["BatchEncoding", "as_kind", "filled", "listed"]


class BatchEncoding(dict):
    """What a tokeniser returns: input_ids, attention_mask … by name or as attributes; encodings: those of the library."""

    def __init__(self, fields: Mapping[str, Any], encodings: Sequence[Any] = ()) -> None:
        super().__init__(fields)
        self.encodings = list(encodings)

    def __getattr__(self, name: str) -> Any:
        if name in self:
            return self[name]
        raise AttributeError(f"BatchEncoding has no {name!r}; it has {', '.join(self)}")

    def to(self, *place: Any, **options: Any) -> Self:
        """Itself: all tensors are where they are needed."""
        return self

    def tokens(self, row: int = 0) -> list[str]:
        return self.encodings[row].tokens

    def word_ids(self, row: int = 0) -> list[int | None]:
        """The number of the word that each token is of."""
        return self.encodings[row].word_ids

    def sequence_ids(self, row: int = 0) -> list[int | None]:
        """0 for tokens of the first text, 1 for those of the second, None for special ones."""
        return self.encodings[row].sequence_ids


def as_kind(rows: list[Any], kind: str | None, name: str) -> Any:
    """Rows as lists, tensors or arrays."""
    if kind is None:
        return rows
    if kind not in ("pt", "weft", "np"):
        raise OptionError(f"tokenizer: return_tensors must be 'pt' (or 'weft'), 'np' or None, got {kind!r}")
    try:
        found = np.array(rows, np.int64)
    except ValueError:
        lengths = sorted({len(row) for row in rows})
        raise ShapeError(f"tokenizer: rows of {name} have {lengths} tokens; padding=True makes them equal") from None
    return found if kind == "np" else weft.from_numpy(found)


def listed(values: Any) -> Any:
    return values.tolist() if hasattr(values, "tolist") else list(values) if isinstance(values, tuple) else values


def filled(row: list[int], length: int, value: int, side: str) -> list[int]:
    extra = [value] * (length - len(row))
    return [*extra, *row] if side == "left" else [*row, *extra]
