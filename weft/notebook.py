"""How tensors, modules and runs look in a notebook: small tables and trees of HTML, every text in them escaped."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from html import escape
from typing import TYPE_CHECKING, Any

import numpy as np

from .tape.interpreter import interpreter_of

if TYPE_CHECKING:
    from .nn.module import Module
    from .tensor import Tensor

__all__ = ["facts_html", "history_html", "module_html", "tensor_html"]

EDGE = 4  # rows and columns shown at each edge of a matrix
MOST_SCANNED = 10_000_000  # elements looked through for the range
MOST_MODULES = 200  # further ones are counted
MOST_EPOCHS = 12  # rows of a history: the first and the last ones
CELL = 'style="text-align:right;font-family:monospace"'
NOTE = 'style="color:#777"'


# ----------------------------------------------------------------------------------------------------- tensors


def tensor_html(x: Tensor) -> str:
    """Sizes, type and range, then vectors and matrices as a table (their edges), anything else as it is printed."""
    if interpreter_of(x) is not None:  # inside vmap or a trace there are no values
        return _printed(repr(x))
    array = x.array
    facts = [f"({', '.join(map(str, array.shape))})", x.dtype.name, *(["requires grad"] if x.requires_grad else [])]
    head = f"<div {NOTE}>tensor {escape(' · '.join([*facts, *_range(array)]))}</div>"
    if array.ndim not in (1, 2) or array.size == 0:
        return head + _printed(repr(x))
    return head + _matrix(array.reshape(-1, array.shape[-1]))


def _range(array: np.ndarray) -> list[str]:
    """The smallest and largest number, where a look at the table would not tell."""
    if not 4 * EDGE * EDGE < array.size <= MOST_SCANNED or array.dtype.kind == "b" or np.iscomplexobj(array):
        return []
    wide = array.astype(np.float64)  # bfloat16 is no type of NumPy's
    finite = wide[np.isfinite(wide)]
    broken = wide.size - finite.size
    shown = [f"{_number(finite.min())} … {_number(finite.max())}"] if finite.size else []
    return shown + ([f"{broken} not finite"] if broken else [])


def _matrix(array: np.ndarray) -> str:
    rows, columns = _edges(array.shape[0]), _edges(array.shape[1])
    lines = [
        [("⋮" if c != -1 else "⋱") if r == -1 else "…" if c == -1 else _number(array[r, c]) for c in columns]
        for r in rows
    ]
    return _table(lines)


def _edges(length: int) -> list[int]:
    """Places to show; −1 stands for those left out."""
    if length <= 2 * EDGE + 1:
        return list(range(length))
    return [*range(EDGE), -1, *range(length - EDGE, length)]


def _number(value: Any) -> str:
    if isinstance(value, (bool, np.bool_)) or np.iscomplexobj(value):
        return str(value)
    return f"{value:d}" if isinstance(value, (int, np.integer)) else f"{float(value):.4g}"


# ----------------------------------------------------------------------------------------------------- modules


def module_html(module: Module) -> str:
    """The tree of modules, each with its settings and parameters; inner ones fold."""
    left = [MOST_MODULES]
    return f"<div>{_branch('', module, left, True)}</div>"


def _branch(name: str, module: Module, left: list[int], is_open: bool) -> str:
    left[0] -= 1
    title = f"({escape(name)}): " if name else ""
    settings = module.extra_repr().replace("\n", ", ")
    line = f"{title}<b>{escape(module._get_name())}</b>({escape(_cut(settings))}){_counted(module)}"
    parts = list(module._modules.items())
    if not parts:
        return f'<div style="margin-left:1.2em">{line}</div>'
    inside = []
    for number, (key, part) in enumerate(parts):
        if left[0] <= 0:
            inside.append(f"<div {NOTE}>… {len(parts) - number} more</div>")
            break
        inside.append(f"<div>({escape(key)}): None</div>" if part is None else _branch(key, part, left, False))
    fold = "<details open" if is_open else "<details"
    return f'{fold} style="margin-left:1.2em"><summary>{line}</summary>{"".join(inside)}</details>'


def _counted(module: Module) -> str:
    count = sum(p.numel() for p in module.parameters())
    return f" <span {NOTE}>{count:,} parameters</span>" if count else ""


# -------------------------------------------------------------------------------------------------------- runs


def history_html(rows: Sequence[Mapping[str, Any]], names: Iterable[str], note: str) -> str:
    """Figures epoch by epoch, the middle left out of long ones."""
    names = list(names)
    head = f"<div {NOTE}>{escape(note)}</div>"
    if not rows:
        return head
    shown: list[Mapping[str, Any] | None] = list(rows)
    if len(rows) > MOST_EPOCHS:
        shown = [*rows[:3], None, *rows[3 - MOST_EPOCHS :]]
    lines = [["⋮"] * (1 + len(names)) if row is None else _epoch(row, names) for row in shown]
    return head + _table(lines, ["epoch", *names])


def _epoch(row: Mapping[str, Any], names: Sequence[str]) -> list[str]:
    return [str(row.get("epoch", "")), *(_figure(row.get(name)) for name in names)]


def facts_html(title: str, facts: Mapping[str, Any]) -> str:
    """A title and a table of two columns."""
    return f"<div><b>{escape(title)}</b></div>" + _table([[name, _figure(value)] for name, value in facts.items()])


def _figure(value: Any) -> str:
    if value is None:
        return ""
    if isinstance(value, float):
        return f"{value:.4g}" if math.isfinite(value) else str(value)
    return _cut(str(value))


# ------------------------------------------------------------------------------------------------------- pieces


def _table(lines: Sequence[Sequence[str]], head: Sequence[str] = ()) -> str:
    row = lambda cells, tag: "<tr>" + "".join(f"<{tag} {CELL}>{escape(cell)}</{tag}>" for cell in cells) + "</tr>"
    title = f"<thead>{row(head, 'th')}</thead>" if head else ""
    return f"<table>{title}<tbody>{''.join(row(cells, 'td') for cells in lines)}</tbody></table>"


def _printed(text: str) -> str:
    return f"<pre>{escape(text)}</pre>"


def _cut(text: str, most: int = 160) -> str:
    return text if len(text) <= most else text[: most - 1] + "…"
