"""Which kind a column is of, told from text or from Python values, and the values it then holds."""

from __future__ import annotations

import datetime
import decimal
import re
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np

from ...errors import OptionError
from ...io.errors import LayoutError
from ...tensor import Tensor
from .tables import KINDS, Column

__all__ = ["MISSING", "column_of", "infer"]

MISSING = frozenset(("", "NA", "N/A", "n/a", "NaN", "nan", "NULL", "null", "None", "none", "?", "#N/A", "<NA>"))
MOST_CATEGORIES = 64  # text with more different values than this stays text

# Codes such as 00501 are no numbers: a leading zero would be lost.
INTEGER = re.compile(r"[+-]?(?:0|[1-9][0-9]*)")
REAL = re.compile(
    r"[+-]?(?:(?:(?:0|[1-9][0-9]*)(?:\.[0-9]*)?|\.[0-9]+)(?:[eE][+-]?[0-9]+)?|inf(?:inity)?)", re.IGNORECASE
)
TIME = re.compile(r"[0-9]{4}-[0-9]{2}(?:-[0-9]{2}(?:[T ][0-9]{2}:[0-9]{2}(?::[0-9]{2}(?:\.[0-9]{1,6})?)?Z?)?)?")
TRUTH = {"true": True, "false": False}


def infer(name: str, cells: Sequence[str], kind: str | None = None, missing: frozenset[str] = MISSING) -> Column:
    """A column from the text of its cells; the kind is the first of bool, int, float, datetime that fits all.

    Other text is a category where a value occurs twice and there are at most 64 different ones, else a string.
    """
    if kind is not None and kind not in KINDS:
        raise OptionError(f"column {name!r}: a kind is one of {', '.join(KINDS)}, got {kind!r}")
    stripped = [cell.strip() for cell in cells]
    absent = np.fromiter((cell in missing for cell in stripped), bool, len(stripped))
    present = [cell for cell in stripped if cell not in missing]
    kind = kind or _kind(present)
    return _filled(name, kind, _parsed(name, kind, present), absent)


def _kind(present: Sequence[str]) -> str:
    if not present:
        return "float"  # a column without any value: all NaN
    for kind, fits in (("bool", _is_truth), ("int", _is_integer), ("float", REAL.fullmatch), ("datetime", _is_time)):
        if all(map(fits, present)):
            return kind
    return _text_kind(present)


def _text_kind(present: Sequence[str]) -> str:
    different = len(set(present))
    return "category" if different < len(present) and different <= MOST_CATEGORIES else "string"


def _is_truth(cell: str) -> bool:
    return cell.lower() in TRUTH


def _is_integer(cell: str) -> bool:
    """Whole numbers of 64 bits; larger ones are floats."""
    return INTEGER.fullmatch(cell) is not None and (
        len(cell) < 19 or (len(cell) <= 20 and -(2**63) <= int(cell) < 2**63)
    )


def _is_time(cell: str) -> bool:
    return TIME.fullmatch(cell) is not None and _reads(_time, cell, "datetime64[us]")


def _time(cell: str) -> np.datetime64:
    return np.datetime64(cell.removesuffix("Z").replace(" ", "T"), "us")


def _truth(cell: str) -> bool:
    return {"1": True, "0": False, "yes": True, "no": False, **TRUTH}[cell.lower()]


READ: dict[str, tuple[Callable[[str], Any], Any]] = {
    "int": (int, np.int64),
    "float": (float, np.float64),
    "bool": (_truth, np.bool_),
    "datetime": (_time, "datetime64[us]"),
}


def _parsed(name: str, kind: str, present: Sequence[str]) -> Any:
    if kind not in READ:
        return present
    read, dtype = READ[kind]
    try:
        return np.array([read(cell) for cell in present], dtype)
    except (ValueError, KeyError, OverflowError):
        wrong = next(cell for cell in present if not _reads(read, cell, dtype))
        raise LayoutError(
            f"column {name!r}: {wrong!r} is no {kind}; leave out the kind, or list it as missing"
        ) from None


def _reads(read: Callable[[str], Any], cell: str, dtype: Any) -> bool:
    try:
        np.array(read(cell), dtype)
    except (ValueError, KeyError, OverflowError):
        return False
    return True


FILLERS = {
    "int": 0,
    "float": np.nan,
    "bool": False,
    "category": -1,
    "datetime": np.datetime64("NaT", "us"),
    "string": "",
}


def _filled(name: str, kind: str, present: Any, absent: np.ndarray) -> Column:
    """A column of the present values, with the filler of the kind in between."""
    categories: tuple[str, ...] = ()
    if kind == "category":
        categories = tuple(sorted(set(present)))
        codes = {value: code for code, value in enumerate(categories)}
        present = np.array([codes[value] for value in present], np.int64)
    dtype = {"string": object, "category": np.int64}.get(kind) or READ[kind][1]
    values = np.full(len(absent), FILLERS[kind], dtype)
    values[~absent] = present
    return Column(name, kind, values, absent, categories)


# ------------------------------------------------------------------------------------------ values with types
def column_of(name: str, values: Any, kind: str | None = None) -> Column:
    """A column from an array, a tensor or a list of Python values (None and NaN are missing).

    Text stays text, also where it looks like numbers; a mixture of text and numbers is read as a file of text is.
    """
    cells = values.array.tolist() if isinstance(values, Tensor) else list(_plain(values))
    absent = np.fromiter((_is_absent(cell) for cell in cells), bool, len(cells))
    present = [cell for cell in cells if not _is_absent(cell)]
    found = _kind_of(present)
    if found == "text":
        found = _text_kind(present) if kind is None else kind
        present = _parsed(name, found, present)
    elif found == "mixed" or kind not in (None, found):
        return infer(name, ["" if gone else str(cell) for cell, gone in zip(cells, absent, strict=True)], kind)
    elif found == "datetime":
        present = np.array([np.datetime64(_naive(value), "us") for value in present], "datetime64[us]")
    return _filled(name, found, present, absent)


def _plain(values: Any) -> Iterable[Any]:
    if isinstance(values, np.ndarray):
        if values.dtype.kind == "M":
            return values.astype("datetime64[us]").tolist()
        return values.tolist()
    return (value.item() if isinstance(value, np.generic) else value for value in values)


def _is_absent(cell: Any) -> bool:
    return cell is None or cell != cell


def _kind_of(present: Sequence[Any]) -> str:
    types = {type(value) for value in present}
    if not types:
        return "float"
    if types == {bool}:
        return "bool"
    if types == {int}:
        return "int" if all(-(2**63) <= value < 2**63 for value in present) else "float"
    if types <= {int, float, decimal.Decimal}:
        return "float"
    if types <= {datetime.datetime, datetime.date}:
        return "datetime"
    return "text" if types == {str} else "mixed"


def _naive(value: datetime.date) -> datetime.date:
    """Times of another zone as UTC; dates as they are."""
    if isinstance(value, datetime.datetime) and value.tzinfo is not None:
        return value.astimezone(datetime.UTC).replace(tzinfo=None)
    return value
