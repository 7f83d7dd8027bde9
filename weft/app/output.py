"""How results reach people and programs: tables on terminals and in pipes, one JSON document with `--json`.

Results go to standard output, progress and complaints to standard error, so that a pipe carries nothing but results.
"""

from __future__ import annotations

import dataclasses
import json
import math
import os
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from ..errors import WeftError

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table

__all__ = [
    *("DONE", "FAILED", "INTERRUPTED", "MISSED", "MISUSED", "TERMINATED"),
    *("Interrupted", "Misuse", "console", "deliver", "figure", "hint", "labelled"),
    *("plain", "print_baseline", "progress_console", "sparkline", "table"),
]

DONE, FAILED, MISUSED, MISSED, INTERRUPTED, TERMINATED = 0, 1, 2, 3, 130, 143  # exit codes

PIPE_WIDTH = 200  # columns where nobody has said how wide the page is: tables must not be cut
BARS = "▁▂▃▄▅▆▇█"


class Misuse(WeftError, ValueError):
    """A command that was given something it cannot use: exit code 2."""


class Interrupted(WeftError):
    """Ctrl-C or SIGTERM, with what to do to go on: exit code 130 or 143."""

    def __init__(self, cause: BaseException, advice: str) -> None:
        self.code = exit_code(cause)
        super().__init__(f"{'terminated' if self.code == TERMINATED else 'interrupted'}; {advice}")


def exit_code(interrupt: BaseException) -> int:
    """The exit code of an interrupted command."""
    from ..train.running.signals import Terminated

    return TERMINATED if isinstance(interrupt, Terminated) else INTERRUPTED


def hint(words: str) -> str:
    """A command of weft as it can be typed here."""
    from ..runtime.invocation import weft_command

    return f"{weft_command()} {words}"


def console() -> Console:
    """Where results are printed: colours on a terminal (unless NO_COLOR), the width of the terminal or COLUMNS."""
    return _console(sys.stdout)


def progress_console() -> Console:
    """Where progress and complaints are printed."""
    return _console(sys.stderr)


def _console(stream: Any) -> Console:
    from rich.console import Console

    known = stream.isatty() or os.environ.get("COLUMNS")
    return Console(file=stream, highlight=False, width=None if known else PIPE_WIDTH, soft_wrap=not known)


def deliver(document: Any, as_json: bool, show: Callable[[Console], None]) -> None:
    """Print a result once: as JSON, or by `show(console)`."""
    if as_json:
        sys.stdout.write(json.dumps(plain(document), indent=2, ensure_ascii=False) + "\n")
    else:
        show(console())


def plain(value: Any) -> Any:
    """A value as JSON has it: dataclasses and mappings as objects, arrays as lists, numbers that are not finite as null."""
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {f.name: plain(getattr(value, f.name)) for f in dataclasses.fields(value)}
    if isinstance(value, Mapping):
        return {str(key): plain(item) for key, item in value.items()}
    if isinstance(value, str | bool | int | None):
        return value
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if hasattr(value, "tolist"):
        return plain(value.tolist())
    return [plain(item) for item in value] if isinstance(value, Iterable) else str(value)


def print_baseline(console: Console, said: str | None) -> None:
    """How the simple method did that the goal names, where it names one."""
    if said:
        console.print(f"Baseline {said}", markup=False)


def labelled(rows: Iterable[tuple[str, str]]) -> Table:
    """Names in one column, what they stand for in the other."""
    from rich.table import Table
    from rich.text import Text

    made = Table.grid(padding=(0, 2))
    made.add_column(no_wrap=True)
    made.add_column(overflow="fold")
    for name, value in rows:
        made.add_row(Text(name, style="bold"), Text(str(value)))
    return made


def table(columns: Sequence[str], rows: Iterable[Sequence[Any]], title: str | None = None) -> Table:
    """A table; columns whose name starts with '>' are numbers and stand flush right."""
    from rich import box
    from rich.table import Table
    from rich.text import Text

    made = Table(title=title, box=box.SIMPLE_HEAD, title_justify="left", header_style="bold", show_edge=False)
    for place, name in enumerate(columns):
        right, whole = name.startswith(">"), place == 0  # names that are typed are not broken apart
        made.add_column(name.removeprefix(">"), justify="right" if right else "left", overflow="fold", no_wrap=whole)
    for row in rows:
        made.add_row(*(cell if isinstance(cell, Text) else Text(figure(cell)) for cell in row))
    return made


def figure(value: Any) -> str:
    """A number with four significant places, anything else as text."""
    if value is None:
        return "–"
    if isinstance(value, bool) or not isinstance(value, float):
        return str(value)
    if not math.isfinite(value):
        return str(value)
    return f"{value:.4g}" if abs(value) < 1e5 else f"{value:.3e}"


def sparkline(values: Sequence[float | None], width: int = 40) -> str:
    """Values as a row of bars, the smallest lowest; gaps where they are not finite; at most `width` characters."""
    known = [v if v is not None and math.isfinite(v) else math.nan for v in values]
    if len(known) > width:
        known = [known[i * (len(known) - 1) // (width - 1)] for i in range(width)]
    finite = [v for v in known if not math.isnan(v)]
    if not finite:
        return ""
    low, span = min(finite), max(finite) - min(finite)
    return "".join(" " if math.isnan(v) else BARS[round((v - low) / span * 7) if span else 0] for v in known)
