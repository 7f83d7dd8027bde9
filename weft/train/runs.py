"""The folder of one run: settings, environment, figures row by row, checkpoints, the result.

Rows are only ever appended, so a kill leaves at most one torn line at the end, which reading leaves out. Everything
else is replaced whole.
"""

from __future__ import annotations

import contextlib
import csv
import io
import itertools
import json
import math
import os
import platform
import re
import shutil
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from ..errors import OptionError
from ..io.atomic import replacing
from ..notebook import history_html
from ..runtime.places import runs_folder
from .history import History

__all__ = ["RunFolder", "found_runs", "latest_run", "runs_folder"]

Row = dict[str, Any]
OWN_FILES = ("*.json", "metrics.*", "events.out.tfevents.*", "*.png", "log.txt", "checkpoints")


def found_runs(parent: str | os.PathLike[str] | None = None) -> list[RunFolder]:
    """The runs in a folder, the one that was begun or resumed last at the end; those that cannot be read as well."""
    parent = runs_folder(parent)
    dated = []
    for file in parent.glob("*/settings.json"):
        with contextlib.suppress(OSError):  # removed meanwhile
            dated.append((file.stat().st_mtime_ns, file.parent.name, file.parent))
    return [RunFolder(path) for *_, path in sorted(dated)]


def latest_run(parent: str | os.PathLike[str] | None = None, recipe: str | None = None) -> RunFolder | None:
    """The run (of a recipe) that was begun or resumed last, among those that a training has left something in."""
    real = (run for run in reversed(found_runs(parent)) if run.real)
    return next((run for run in real if recipe is None or run.settings.get("recipe") == recipe), None)


class RunFolder:
    """`<runs>/<name>/` with settings.json, environment.json, metrics.jsonl, metrics.csv, result.json, checkpoints/ …

    >>> run = RunFolder.create(name="digits")
    >>> run.append({"kind": "epoch", "epoch": 0, "step": 12, "val_loss": 0.7})
    >>> run.rows()[0]["val_loss"]
    0.7
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.path = Path(path)
        self.count = 0  # rows of metrics.jsonl
        self.made = False  # whether `open` made it
        self._file: Any = None
        self._table_is_old = False

    @classmethod
    def create(cls, parent: str | os.PathLike[str] | None = None, name: str = "run") -> RunFolder:
        """A new folder `<parent>/<name>-<date>-<time>`, with a number added if that exists."""
        parent = runs_folder(parent)
        stem = f"{_safe(name)}-{time.strftime('%Y%m%d-%H%M%S')}"
        for number in range(1, 10_000):
            path = parent / (stem if number == 1 else f"{stem}-{number}")
            with contextlib.suppress(FileExistsError):
                path.mkdir(parents=True)
                run = cls(path).open()
                run.made = True
                return run
        raise OptionError(f"{parent}: there are too many folders {stem}-…; give the run another name")

    def open(self) -> RunFolder:
        """Make the folder if it is not there, and be ready to append rows."""
        with contextlib.suppress(FileExistsError):
            self.path.mkdir(parents=True)
            self.made = True  # by us, not by another process at the same moment
        self.checkpoints.mkdir(exist_ok=True)
        self.count = len(self.rows())
        return self

    def discard(self) -> None:
        """Remove the folder if `open` made it: a start that failed leaves nothing behind."""
        self.close()
        if self.made:
            shutil.rmtree(self.path, ignore_errors=True)

    def put_aside(self) -> Path | None:
        """Move an earlier run in this folder to `earlier-1` (2, 3 …) within it; None: there is none."""
        if not (self.rows() or list(self.checkpoints.glob("*.weft"))):
            return None
        self.close()
        place = next(p for p in (self.path / f"earlier-{n}" for n in itertools.count(1)) if not p.exists())
        place.mkdir()
        for path in [p for pattern in OWN_FILES for p in self.path.glob(pattern)]:
            path.rename(place / path.name)
        self.open()
        return place

    def __repr__(self) -> str:
        return f"RunFolder({str(self.path)!r})"

    def _repr_html_(self) -> str:
        rows = self.rows("epoch")
        return history_html(rows, History(rows).names, f"run {self.path}")

    @property
    def name(self) -> str:
        return self.path.name

    @property
    def begun(self) -> bool:
        """Whether the folder is that of a run: it has settings."""
        return (self.path / "settings.json").is_file()

    @property
    def real(self) -> bool:
        """Whether a training has left something here that can be read: settings, and figures, a checkpoint or a result."""
        try:
            return bool(self.settings) and bool(self.result or self.rows() or any(self.checkpoints.glob("*.weft")))
        except (OptionError, OSError):
            return False

    @property
    def checkpoints(self) -> Path:
        return self.path / "checkpoints"

    def checkpoint(self, name: str) -> Path:
        """The file of a checkpoint: 'last', 'best', …"""
        return self.checkpoints / f"{_safe(name)}.weft"

    # ------------------------------------------------------------------------------ whole files
    def begin(self, told: Row) -> None:
        """Write settings.json and environment.json: what the run is told, and where it begins."""
        self.write_json("settings", told)
        self.write_json("environment", environment())

    def update_settings(self, told: Row) -> None:
        """Add to what settings.json says, or replace it by name."""
        self.write_json("settings", self.settings | told)

    def write_result(self, told: Row) -> None:
        """Write result.json: what came of the run."""
        self.write_json("result", told)

    def update_result(self, told: Row) -> None:
        """Add to what result.json says, or replace it by name; the figures are taken one by one."""
        known = self.result
        figures = known.get("figures", {}) | told.get("figures", {})
        self.write_result(known | told | {"figures": figures})

    def write_json(self, name: str, content: Any) -> None:
        """Replace `<name>.json`."""
        with replacing(self.path / f"{name}.json") as file:
            file.write((json.dumps(_plain(content), indent=2, allow_nan=False, ensure_ascii=False) + "\n").encode())

    def read_json(self, name: str) -> dict[str, Any]:
        """The content of `<name>.json`; an empty dict if it is not there."""
        path = self.path / f"{name}.json"
        if not path.exists():
            return {}
        try:
            content = _back(json.loads(path.read_text("utf-8")))
        except (ValueError, RecursionError) as error:
            raise OptionError(f"{path}: not a readable JSON file: {error}") from None
        if not isinstance(content, dict):
            raise OptionError(f"{path}: expected an object with names and values, got {type(content).__name__}")
        return content

    @property
    def settings(self) -> dict[str, Any]:
        return self.read_json("settings")

    @property
    def result(self) -> dict[str, Any]:
        return self.read_json("result")

    @property
    def environment(self) -> dict[str, Any]:
        return self.read_json("environment")

    def log(self, text: str) -> None:
        """Add a line with the time to log.txt."""
        with open(self.path / "log.txt", "a", encoding="utf-8") as file:
            file.write(f"{time.strftime('%Y-%m-%d %H:%M:%S')}  {text}\n")

    # ------------------------------------------------------------------------------ rows
    def append(self, row: Row) -> None:
        """Add a row to metrics.jsonl, and a row of an epoch to metrics.csv. After an error nothing of it is there."""
        if self._file is None:
            self._file = open(self.path / "metrics.jsonl", "ab", buffering=0)
        before = self._file.seek(0, os.SEEK_END)
        line = memoryview(_line(row))
        try:
            while line:
                line = line[self._file.write(line) :]
        except OSError:
            self._file.truncate(before)
            raise
        self.count += 1
        if row.get("kind") == "epoch":
            try:
                self._append_table(row)
            except OSError:  # it can be made anew from the rows, and is with the next one
                self._table_is_old = True

    def rows(self, kind: str | None = None) -> list[Row]:
        """All rows, or those of a kind ('step', 'epoch'); a line that was torn by a kill ends them."""
        return [row for row in self._read_rows() if kind is None or row.get("kind") == kind]

    def _read_rows(self) -> Iterator[Row]:
        path = self.path / "metrics.jsonl"
        if not path.exists():
            return
        with open(path, "rb") as file:
            for line in file:
                try:
                    row = json.loads(line) if line.endswith(b"\n") else None
                except ValueError:
                    row = None
                if not isinstance(row, dict):
                    return
                yield _back(row)

    def truncate(self, count: int) -> None:
        """Keep the first `count` rows: a resumed run writes the others anew."""
        rows = list(self._read_rows())[:count]
        self.close()
        with replacing(self.path / "metrics.jsonl") as file:
            for row in rows:
                file.write(_line(row))
        self.count = len(rows)
        self._write_table([row for row in rows if row.get("kind") == "epoch"])

    def flush(self) -> None:
        """Make the rows durable: checkpoints count on them."""
        if self._file is not None:
            os.fsync(self._file.fileno())

    def close(self) -> None:
        if self._file is not None:
            self._file.close()
            self._file = None

    # ------------------------------------------------------------------------------ the table of epochs
    def _append_table(self, row: Row) -> None:
        path = self.path / "metrics.csv"
        columns = _columns([row])
        if path.exists() and not self._table_is_old:
            with open(path, encoding="utf-8", newline="") as file:
                known = next(csv.reader(file), [])
            if set(columns) <= set(known):
                with open(path, "a", encoding="utf-8", newline="") as file:
                    csv.writer(file).writerow([_cell(row.get(name)) for name in known])
                return
        self._write_table(self.rows("epoch"))

    def _write_table(self, rows: list[Row]) -> None:
        columns = _columns(rows)
        text = io.StringIO(newline="")
        writer = csv.writer(text)
        writer.writerow(columns)
        writer.writerows([[_cell(row.get(name)) for name in columns] for row in rows])
        with replacing(self.path / "metrics.csv") as file:
            file.write(text.getvalue().encode())
        self._table_is_old = False


def environment() -> dict[str, Any]:
    """Versions, processor and settings that a run depends on."""
    import numpy

    import weft

    return {
        "weft": weft.__version__,
        "python": platform.python_version(),
        "numpy": numpy.__version__,
        "system": platform.platform(),
        "processor": platform.processor() or platform.machine(),
        "cores": os.cpu_count(),
        "threads": weft.get_num_threads(),
        "command": [Path(sys.argv[0]).name, *sys.argv[1:]],
        "started": time.strftime("%Y-%m-%d %H:%M:%S"),
    }


def _line(row: Row) -> bytes:
    return (json.dumps(_plain(row), allow_nan=False, ensure_ascii=False) + "\n").encode()


def _columns(rows: list[Row]) -> list[str]:
    """Epoch, step, then the figures in the order in which they came."""
    names = dict.fromkeys(name for row in rows for name in row if name != "kind")
    return [*(name for name in ("epoch", "step") if name in names), *(n for n in names if n not in ("epoch", "step"))]


def _cell(value: Any) -> Any:
    return "" if value is None else repr(value) if isinstance(value, float) else value


def _safe(name: str) -> str:
    """A name that can be a file's."""
    return re.sub(r"[^\w.=+-]+", "-", name).strip("-.") or "run"


def _plain(value: Any) -> Any:
    """What JSON can hold: numbers that are not finite become the strings 'nan', 'inf', '-inf'."""
    if isinstance(value, dict):
        return {str(key): _plain(part) for key, part in value.items()}
    if isinstance(value, (list, tuple, set)):
        return [_plain(part) for part in value]
    if hasattr(value, "item") and getattr(value, "ndim", None) == 0:
        value = value.item()
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)
    return value if value is None or isinstance(value, (bool, int, float, str)) else str(value)


def _back(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _back(part) for key, part in value.items()}
    if isinstance(value, list):
        return [_back(part) for part in value]
    return float(value) if isinstance(value, str) and value in ("nan", "inf", "-inf") else value
