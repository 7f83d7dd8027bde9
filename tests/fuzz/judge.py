"""What came of a call: done, refused by Weft, or an error that is not ours.

An error is ours if it is one of `weft/errors.py`, or was raised by a `raise` statement in a file of the package: then
somebody wrote its text for this case. Python's own complaint that the arguments do not fit the signature of the
function that was called, or that operands do not go together, is as good. 'reworded' are those among ours that
`weft/refusal.py` has made of others': they name the function and its arguments, but not what was expected. All else (an AttributeError deep inside, NumPy's texts, MemoryError) is foreign.
"""

from __future__ import annotations

import ast
import functools
import linecache
import re
import traceback
from pathlib import Path

import weft
from weft.errors import WeftError

PACKAGE = str(Path(weft.__file__).parent)
SIGNATURE = re.compile(r"^[\w.<>]+\(\) (missing|got|takes)\b")


def judged(error: BaseException) -> str:
    """'ours', 'reworded' or 'foreign'."""
    if isinstance(error, WeftError):
        return "reworded" if error.__cause__ is not None and "inside, " in str(error) else "ours"
    frames = traceback.extract_tb(error.__traceback__)
    within = [f for f in frames if f.filename.startswith(PACKAGE)]
    if isinstance(error, TypeError) and (not within or (SIGNATURE.match(str(error)) and len(within) <= 1)):
        return "ours"  # Python's own, before anything of ours ran but perhaps a wrapper
    last = frames[-1]
    if last.filename.startswith(PACKAGE) and last.lineno in raise_lines(last.filename):
        return "ours"
    return "foreign"


@functools.cache
def raise_lines(filename: str) -> set[int]:
    """The lines of a file that belong to `raise` statements which make an error, or to assertions with a text."""
    tree = ast.parse("".join(linecache.getlines(filename)))
    lines: set[int] = set()
    for node in ast.walk(tree):
        if (isinstance(node, ast.Raise) and node.exc) or (isinstance(node, ast.Assert) and node.msg):
            lines.update(range(node.lineno, node.end_lineno + 1))
    return lines


def place(error: BaseException) -> str:
    """Where it happened, for counting: the last line of ours and the kind of error."""
    frames = [f for f in traceback.extract_tb(error.__traceback__) if f.filename.startswith(PACKAGE)]
    where = f"{frames[-1].filename[len(PACKAGE) + 1 :]}:{frames[-1].lineno}" if frames else "?"
    return f"{type(error).__name__} at {where}: {str(error)[:100]}"
