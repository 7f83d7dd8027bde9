"""Nothing grows past what a reader can hold: files in a folder, lines in a file, lines in a function.

The length of a function is its lines from `def` (decorators left out) to its last one, both counted, less its docstring;
lines of functions inside it count, as their reader has them before the eyes. Comments and empty lines count.
"""

from __future__ import annotations

import ast
import pathlib
import statistics
from collections.abc import Iterator

import weft

ROOT = pathlib.Path(weft.__file__).parent
FILES = sorted(ROOT.rglob("*.py"))
MOST_FILES, MOST_LINES, LONGEST = 25, 500, 60
MEDIAN, NINETIETH = 6, 20
WIDE = {"distributions"}  # one file a distribution: a shelf, not a room


def _lengths(path: pathlib.Path) -> Iterator[tuple[str, int]]:
    """The functions of a file, nested ones too, and their lengths."""
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
            first = node.body[0]
            docstring = first.end_lineno - first.lineno + 1 if ast.get_docstring(node) is not None else 0
            yield f"{path.relative_to(ROOT)}:{node.lineno} {node.name}", node.end_lineno - node.lineno + 1 - docstring


LENGTHS = dict(pair for path in FILES for pair in _lengths(path))


def test_length_of_a_function_is_counted_as_said():
    name = f"{pathlib.Path('runtime', 'frames.py')}"
    assert {key.split()[-1]: n for key, n in LENGTHS.items() if key.startswith(name)}["is_ours"] == 2


def test_no_folder_is_too_full():
    counts = {f.relative_to(ROOT): len(list(f.glob("*.py"))) for f in [ROOT, *ROOT.rglob("*")] if f.is_dir()}
    assert {str(f): n for f, n in counts.items() if n > MOST_FILES and str(f) not in WIDE} == {}


def test_no_file_is_too_long():
    lines = {str(path.relative_to(ROOT)): len(path.read_text(encoding="utf-8").splitlines()) for path in FILES}
    assert {name: n for name, n in lines.items() if n > MOST_LINES} == {}


def test_no_function_is_too_long():
    assert {name: n for name, n in LENGTHS.items() if n > LONGEST} == {}


def test_functions_are_short():
    lengths = list(LENGTHS.values())
    assert len(lengths) > 5000
    assert statistics.median(lengths) <= MEDIAN
    assert statistics.quantiles(lengths, n=10)[-1] <= NINETIETH
