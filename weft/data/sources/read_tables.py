"""Tables from files: CSV and its kin without any extra library, Parquet and Excel with one."""

from __future__ import annotations

import csv
import io
import os
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from ...errors import OptionError
from ...io.bounded import brief
from ...io.errors import FileFormatError, LayoutError
from ...runtime.extras import extra
from ..arrow import read_parquet
from .errors import SourceError
from .files import content
from .kinds import MISSING, column_of, infer
from .tables import Column, Table

__all__ = ["read_table"]

DELIMITERS = (",", "\t", ";", "|")
BLANKS = " "  # any run of blanks and tabs
Row = tuple[int, list[str]]  # the number of its line, its cells


def read_table(
    path: str | os.PathLike[str],
    *,
    delimiter: str | None = None,
    header: bool | None = None,
    names: Sequence[str] | None = None,
    kinds: Mapping[str, str] | None = None,
    missing: Iterable[str] = MISSING,
    encoding: str | None = None,
    comment: str | None = None,
    sheet: str | int = 0,
    target: str | None = None,
) -> Table:
    """Read a table: .parquet, .xlsx, otherwise text with delimiters (.csv, .tsv, .txt, .data…), packed by gzip or not.

    delimiter: told from the first lines where None; " " means any run of blanks
    header: whether the first row has the names; told from its cells where None
    names: of the columns, instead of those in the file; kinds: of some columns, where the inference is not wanted
    missing: what stands for a missing value; encoding: by default UTF-8 or UTF-16, told by the byte order mark
    comment: lines that begin with it are left out; sheet: of an Excel file, its name or number

    Kinds are int, float, bool, datetime (2024-05-01, with or without a time), category (text with repeated values, at
    most 64 different ones), string. Numbers with a leading zero are text, for they are codes.

    Example:
        >>> read_table("iris.csv", names=["a", "b", "c", "d", "species"]).kinds  # doctest: +SKIP
        {'a': 'float', 'b': 'float', 'c': 'float', 'd': 'float', 'species': 'category'}
    """
    path = Path(path).expanduser()
    if not path.is_file():
        raise SourceError(f"read_table: there is no file {path}")
    endings = [ending.lower() for ending in path.suffixes]
    if endings[-1:] == [".parquet"]:
        columns = _parquet(path, kinds or {})
    elif endings[-1:] in ([".xlsx"], [".xlsm"]):
        columns = _excel(path, sheet, header, names, kinds or {})
    elif endings[-1:] in ([".xls"], [".ods"]):
        raise OptionError(f"read_table: {path} is in an old or foreign format; save it as .xlsx or .csv")
    else:
        columns = read_text(_decoded(path, encoding), str(path), delimiter, header, names, kinds, missing, comment)
    return Table(columns, target)


# ------------------------------------------------------------------------------------------ text
def read_text(
    characters: str,
    place: str,
    delimiter: str | None = None,
    header: bool | None = None,
    names: Sequence[str] | None = None,
    kinds: Mapping[str, str] | None = None,
    missing: Iterable[str] = MISSING,
    comment: str | None = None,
) -> list[Column]:
    """The columns of a table in text with delimiters; `place` names the file in messages."""
    delimiter = delimiter or _told_delimiter(characters, comment)
    rows = list(_rows(characters, delimiter, comment, place))
    if not rows:
        raise LayoutError(f"{place}: the file is empty; a table has at least a row of names")
    blanks = frozenset(missing)
    if header is None:
        header = _is_header(rows[0][1], blanks)
    names = _names(rows[0][1], header, names, place)
    body = rows[1:] if header else rows
    _check_widths(body, len(names), place)
    _check_known(kinds or {}, names, place)
    cells = zip(*(cells for _, cells in body), strict=True) if body else ((),) * len(names)
    return [infer(name, column, (kinds or {}).get(name), blanks) for name, column in zip(names, cells, strict=True)]


def _decoded(path: Path, encoding: str | None) -> str:
    raw = content(path)
    if encoding is None:
        encoding = "utf-16" if raw[:2] in (b"\xff\xfe", b"\xfe\xff") else "utf-8-sig"
    try:
        return raw.decode(encoding)
    except UnicodeDecodeError as error:
        line = raw.count(b"\n", 0, error.start) + 1
        raise FileFormatError(
            f"{path}, line {line}: byte {raw[error.start]:#04x} is not {error.encoding}; pass encoding=, perhaps "
            "'latin-1' or 'cp1252'"
        ) from None


def _rows(characters: str, delimiter: str, comment: str | None, place: str) -> Iterator[Row]:
    lines = io.StringIO(characters, newline="")
    if delimiter == BLANKS:
        yield from ((i, line.split()) for i, line in enumerate(lines, 1) if _counts(line, comment))
        return
    reader = csv.reader(_told_lines(lines, comment), delimiter=delimiter, skipinitialspace=True, strict=True)
    try:
        yield from ((reader.line_num, cells) for cells in reader if any(cells) or len(cells) > 1)
    except csv.Error as error:
        raise LayoutError(f"{place}, line {reader.line_num}: {error}; is a quotation mark left open?") from None


def _counts(line: str, comment: str | None) -> bool:
    return bool(line.strip()) and not (comment and line.lstrip().startswith(comment))


def _told_lines(lines: Iterable[str], comment: str | None) -> Iterator[str]:
    """Comments as empty lines, so that the numbers of the lines stay right."""
    return (("\n" if comment and line.lstrip().startswith(comment) else line) for line in lines)


def _told_delimiter(characters: str, comment: str | None) -> str:
    """The first of , tab ; | that cuts the first lines into the same number of cells, more than one; else blanks."""
    lines = [line for line in characters[: 1 << 16].splitlines()[:20] if _counts(line, comment)]
    for delimiter in DELIMITERS:
        widths = [len(next(csv.reader([line], delimiter=delimiter), [])) for line in lines]
        if widths and widths[0] > 1 and sum(width == widths[0] for width in widths) > len(widths) / 2:
            return delimiter
    widths = {len(line.split()) for line in lines}
    return BLANKS if len(widths) == 1 and widths != {1} else ","


def _is_header(first: Sequence[str], missing: frozenset[str]) -> bool:
    """A row of different words is one of names; the name of an index may be empty."""
    cells = [cell.strip() for cell in first]
    words = [cell for cell in cells if cell]
    are_words = all(cell not in missing and infer("", [cell]).kind == "string" for cell in words)
    return bool(words) and are_words and len(set(cells)) == len(cells)


def _names(first: Sequence[str], header: bool, names: Sequence[str] | None, place: str) -> list[str]:
    if names is not None and len(names) != len(first):
        raise LayoutError(f"{place}: {len(names)} names for {len(first)} columns")
    if names is None:
        names = first if header else [""] * len(first)
    found = [name.strip() or f"column_{i}" for i, name in enumerate(names)]
    twice = sorted(name for name, count in Counter(found).items() if count > 1)
    if twice:
        raise LayoutError(f"{place}: two columns are called {brief(twice[0])}; pass names= with different ones")
    return found


def _check_widths(body: Sequence[Row], width: int, place: str) -> None:
    wrong = [(line, len(cells)) for line, cells in body if len(cells) != width]
    if wrong:
        line, got = wrong[0]
        more = f" (and {len(wrong) - 1} more such lines)" if len(wrong) > 1 else ""
        raise LayoutError(f"{place}, line {line}: {got} cells instead of {width}{more}; is delimiter= right?")


def _check_known(kinds: Mapping[str, str], names: Sequence[str], place: str) -> None:
    unknown = [name for name in kinds if name not in names]
    if unknown:
        raise OptionError(f"{place}: kinds names {unknown[0]!r}; the columns are {', '.join(names)}")


# ------------------------------------------------------------------------------------------ Parquet, Excel
def _parquet(path: Path, kinds: Mapping[str, str]) -> list[Column]:
    arrow = extra("pyarrow", "reading Parquet files needs")
    table = read_parquet(path)
    _check_known(kinds, table.column_names, str(path))
    return [_arrow_column(name, table[name], kinds.get(name), arrow) for name in table.column_names]


def _arrow_column(name: str, values: Any, kind: str | None, arrow: Any) -> Column:
    """A dictionary column is a category, whatever its values."""
    if arrow.types.is_dictionary(values.type) and kind is None:
        kind = "category"
    return column_of(name, values.to_pylist(), kind)


def _excel(
    path: Path, sheet: str | int, header: bool | None, names: Sequence[str] | None, kinds: Mapping[str, str]
) -> list[Column]:
    rows = [row for row in _excel_rows(path, sheet) if any(cell is not None for cell in row)]
    if not rows:
        raise LayoutError(f"{path}: the sheet is empty")
    width = max(max(i for i, cell in enumerate(row, 1) if cell is not None) for row in rows)
    rows = [(*row, *(None,) * width)[:width] for row in rows]
    if header is None:
        header = all(isinstance(cell, str) for cell in rows[0]) and len(set(rows[0])) == width
    found = _names(["" if cell is None else str(cell) for cell in rows[0]], header, names, str(path))
    _check_known(kinds, found, str(path))
    cells = zip(*rows[1:], strict=True) if header and len(rows) > 1 else zip(*rows, strict=True)
    cells = ((),) * width if header and len(rows) == 1 else cells
    return [column_of(name, column, kinds.get(name)) for name, column in zip(found, cells, strict=True)]


def _excel_rows(path: Path, sheet: str | int) -> list[tuple[Any, ...]]:
    openpyxl = extra("openpyxl", "reading Excel files needs")
    try:
        book = openpyxl.load_workbook(path, read_only=True, data_only=True)
    except Exception as error:  # the library raises zip, XML and key errors alike for a damaged file
        raise FileFormatError(f"{path}: no Excel file, or a damaged one ({error})") from error
    try:
        if isinstance(sheet, str) and sheet not in book.sheetnames:
            raise OptionError(f"{path}: no sheet {sheet!r}; it has {', '.join(book.sheetnames)}")
        if isinstance(sheet, int) and not 0 <= sheet < len(book.worksheets):
            raise OptionError(f"{path}: no sheet {sheet}; it has {len(book.worksheets)}")
        chosen = book[sheet] if isinstance(sheet, str) else book.worksheets[sheet]
        return list(chosen.iter_rows(values_only=True))
    finally:
        book.close()
