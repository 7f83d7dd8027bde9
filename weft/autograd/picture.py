"""The computation graph as SVG: layers from top to bottom, written by hand without a drawing library.

Each box stands in the row below its last input; a leaf stands right above its first use. An arrow
that passes over rows gets a place of its own in each, so that no line runs through a box. Beside
the stub that leaves a box stand the sizes and the value, and under them the gradient.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from html import escape
from itertools import pairwise
from typing import Any

__all__ = ["COLOURS", "svg"]

FONT = 13
SMALL = 11
LETTER = 0.62  # width of a letter as part of the font size, on the safe side
BOX = 28  # height of a box
LINE = 14  # height of a line of small text
GAP = 22  # between neighbours of a row
ROW_GAP = 26  # between a stub and the boxes below
MARGIN = 20
COLOURS = {  # filling and border
    "leaf": ("#dcebfa", "#2f6fad"),
    "constant": ("#f0f0f0", "#8a8a8a"),
    "operation": ("#ffffff", "#555555"),
    "result": ("#e2f3df", "#3d8b37"),
}
DARK, RED, GREY = "#333333", "#b03030", "#444444"


@dataclass(eq=False)
class Cell:
    """One place in a row: a box with the labels beside its stub, or a point that a long arrow passes.

    `left` and `right` are its reach from the middle x.
    """

    box: Any
    row: int
    left: float = 4.0
    right: float = 4.0
    labels: list[tuple[str, str]] = field(default_factory=list)
    x: float = 0.0
    top: float = 0.0
    exit: float = 0.0  # where its stub ends
    above: list[Cell] = field(default_factory=list)
    below: list[Cell] = field(default_factory=list)


def svg(boxes: Sequence[Any]) -> str:
    """The drawing as a string."""
    cells, arrows, table = _laid_out(boxes)
    width = max(cell.x + cell.right for row in table for cell in row) + MARGIN
    height = max(cell.exit for row in table for cell in row) + MARGIN
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width:.0f}" height="{height:.0f}" '
        f'viewBox="0 0 {width:.0f} {height:.0f}" font-family="DejaVu Sans, Verdana, sans-serif">',
        '<defs><marker id="tip" viewBox="0 0 8 8" refX="8" refY="4" markerWidth="8" markerHeight="8" '
        f'orient="auto"><path d="M0,0 L8,4 L0,8 z" fill="{GREY}"/></marker></defs>',
        f'<rect width="{width:.0f}" height="{height:.0f}" fill="white"/>',
        *(_arrow(path) for path in arrows),
    ]
    for cell in cells:
        parts += _drawn(cell)
    return "\n".join([*parts, "</svg>"])


# ------------------------------------------------------------------------------------------- layout


def _laid_out(boxes: Sequence[Any]) -> tuple[list[Cell], list[list[Cell]], list[list[Cell]]]:
    """All cells of boxes, the cells each arrow goes through, and the cells row by row."""
    rows = _rows_of(boxes)
    cells = {id(box): _cell(box, rows[id(box)]) for box in boxes}
    passing: dict[tuple[int, int], Cell] = {}
    arrows = []
    for box in boxes:
        sources = {id(source): source for source, _ in box.inputs}
        arrows += [_path(cells[id(source)], cells[id(box)], passing) for source in sources.values()]
    every = [*cells.values(), *passing.values()]
    table = [[cell for cell in every if cell.row == r] for r in range(1 + max(cell.row for cell in every))]
    _order(table)
    _place_down(table)
    _place_across(table)
    return list(cells.values()), arrows, table


def _rows_of(boxes: Sequence[Any]) -> dict[int, int]:
    """The longest way from a leaf; then leaves move down, next to where they are first used."""
    found: dict[int, int] = {}
    for box in boxes:  # inputs come before what uses them
        found[id(box)] = 1 + max((found[id(source)] for source, _ in box.inputs), default=-1)
    first_use: dict[int, int] = {}
    for box in boxes:
        for source, _ in box.inputs:
            first_use[id(source)] = min(found[id(box)], first_use.get(id(source), found[id(box)]))
    for box in boxes:
        if not box.inputs:
            found[id(box)] = first_use.get(id(box), 1) - 1
    return found


def _cell(box: Any, row: int) -> Cell:
    labels = []
    for number, flow in box.flows.items():
        prefix = f"{number}: " if len(box.flows) > 1 else ""
        labels.append((prefix + flow.shape + (f" = {flow.value}" if flow.value else ""), DARK))
        if flow.grad:
            labels.append((f"δ = {flow.grad}", RED))
    half = max(len(box.label) * FONT * LETTER + 20, 44.0) / 2
    reach = max((len(text) * SMALL * LETTER for text, _ in labels), default=0.0) + 8
    return Cell(box, row, half, max(half, reach), labels)


def _path(source: Cell, target: Cell, passing: dict[tuple[int, int], Cell]) -> list[Cell]:
    """The cells that an arrow goes through; arrows from one box share their points."""
    path = [source]
    for row in range(source.row + 1, target.row):
        key = (id(source.box), row)
        if key not in passing:
            passing[key] = Cell(None, row)
        path.append(passing[key])
    path.append(target)
    for a, b in pairwise(path):
        if b not in a.below:
            a.below.append(b)
            b.above.append(a)
    return path


def _order(table: list[list[Cell]]) -> None:
    """Fewer crossings: sort each row by the mean place of its neighbours, down and up again."""
    for sweep in range(8):
        down = sweep % 2 == 0
        for row in table if down else reversed(table):
            spots = {id(c): k for cells in table for k, c in enumerate(cells)}
            places = {id(c): _middle([spots[id(n)] for n in (c.above if down else c.below)], spots[id(c)]) for c in row}
            row[:] = sorted(row, key=lambda c, places=places: places[id(c)])


def _middle(numbers: Sequence[float], otherwise: float) -> float:
    total = 0.0
    for number in numbers:
        total += number
    return total / len(numbers) if numbers else otherwise


def _place_down(table: list[list[Cell]]) -> None:
    y = float(MARGIN)
    for row in table:
        lines = max(len(cell.labels) for cell in row)
        for cell in row:
            cell.top, cell.exit = y, y + BOX + lines * LINE + 6
        y = row[0].exit + ROW_GAP


def _place_across(table: list[list[Cell]]) -> None:
    """Start side by side, then pull every cell towards its neighbours, keeping order and gaps."""
    for row in table:
        _spread(row, [0.0] * len(row))
    for sweep in range(25):  # the last goes down, so that a chain hangs straight below its first box
        down = sweep % 2 == 0
        for row in table if down else reversed(table):
            wishes = []
            for cell in row:
                near = cell.above if down else cell.below
                wishes.append(_middle([n.x for n in near], cell.x))
            _spread(row, wishes)
    leftmost = min(cell.x - cell.left for row in table for cell in row)
    for row in table:
        for cell in row:
            cell.x += MARGIN - leftmost


def _spread(row: list[Cell], wishes: list[float]) -> None:
    """The places nearest to the wishes (least squares) that keep order and gaps: what collides is pooled."""
    blocks: list[tuple[float, int]] = []  # where a group of touching cells wishes to begin, and how many
    offsets, offset = [], 0.0
    for k, cell in enumerate(row):
        if k:
            offset += row[k - 1].right + cell.left + GAP
        offsets.append(offset)
        level, count = wishes[k] - offset, 1
        while blocks and blocks[-1][0] > level:
            other, many = blocks.pop()
            level, count = (other * many + level * count) / (many + count), many + count
        blocks.append((level, count))
    levels = [level for level, count in blocks for _ in range(count)]
    for cell, level, offset in zip(row, levels, offsets, strict=True):
        cell.x = level + offset


# ------------------------------------------------------------------------------------------ drawing


def _drawn(cell: Cell) -> list[str]:
    box = cell.box
    fill, line = COLOURS["result" if box.is_result else box.kind]
    radius = 4 if box.kind == "operation" else BOX / 2
    parts = [
        f'<rect x="{cell.x - cell.left:.1f}" y="{cell.top:.1f}" width="{2 * cell.left:.1f}" height="{BOX}" '
        f'rx="{radius}" fill="{fill}" stroke="{line}" stroke-width="1.3"/>',
        f'<text x="{cell.x:.1f}" y="{cell.top + BOX / 2 + 4.5:.1f}" font-size="{FONT}" text-anchor="middle">'
        f"{escape(box.label)}</text>",
    ]
    if cell.below:
        stub = f"M{cell.x:.1f},{cell.top + BOX:.1f} V{cell.exit:.1f}"
        parts.append(f'<path d="{stub}" stroke="{GREY}" stroke-width="1.2" fill="none"/>')
    for number, (text, colour) in enumerate(cell.labels):
        y = cell.top + BOX + LINE * (number + 1)
        parts.append(
            f'<text x="{cell.x + 6:.1f}" y="{y:.1f}" font-size="{SMALL}" fill="{colour}">{escape(text)}</text>'
        )
    return parts


def _arrow(path: list[Cell]) -> str:
    """A smooth line from the stub of the first cell through all others to the top of the last."""
    x, y = path[0].x, path[0].exit
    steps = [f"M{x:.1f},{y:.1f}"]
    for before, cell in pairwise(path):
        arrive = cell.x if cell.box is None else _port(before, cell)
        middle = (y + cell.top) / 2
        steps.append(f"C{x:.1f},{middle:.1f} {arrive:.1f},{middle:.1f} {arrive:.1f},{cell.top:.1f}")
        x, y = arrive, cell.top
        if cell.box is None:
            y = cell.exit
            steps.append(f"V{y:.1f}")
    return f'<path d="{" ".join(steps)}" stroke="{GREY}" stroke-width="1.2" fill="none" marker-end="url(#tip)"/>'


def _port(source: Cell, cell: Cell) -> float:
    """Where on its upper side a box takes an arrow: from left to right as the sources lie."""
    order = sorted(cell.above, key=lambda c: c.x)
    span = 2 * cell.left - 16
    return cell.x - span / 2 + span * (order.index(source) + 0.5) / len(order)
