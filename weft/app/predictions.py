"""Predictions as people read them: class, probability and a bar, what was done to the input, and why it was refused."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from .output import figure, table

if TYPE_CHECKING:
    from rich.console import Console

__all__ = ["show_predictions"]

UNSURE = 0.7  # best guesses below this are called so
BAR, EIGHTHS = 24, " ▏▎▍▌▋▊▉"


def show_predictions(console: Console, rows: Any) -> None:
    """Print predictions: one class by class, several in a table, other values as they are."""
    rows = rows if isinstance(rows, list) else [rows]
    classes = bool(rows) and all(isinstance(row, dict) and "probabilities" in row for row in rows)
    if classes and len(rows) == 1:
        _one(console, rows[0])
    elif classes:
        console.print(table((">", "class", ">probability", "", ""), [_row(*item) for item in enumerate(rows)]))
    elif rows and all(isinstance(row, dict) for row in rows):
        names = list(dict.fromkeys(name for row in rows for name in row))
        cells = [(number, *(_cell(row.get(name)) for name in names)) for number, row in enumerate(rows, 1)]
        console.print(table((">", *names), cells))
    else:
        for row in rows:
            console.print(_cell(row), markup=False)


def _one(console: Console, row: dict[str, Any]) -> None:
    from rich.text import Text

    if row.get("refused"):
        console.print(f"[red]refused[/]: {row['refused']}")
    else:
        ranked = sorted(row["probabilities"].items(), key=lambda item: -item[1])[:3]
        wide = max(len(name) for name, _ in ranked)
        for place, (name, chance) in enumerate(ranked):
            style = "bold" if place == 0 else "dim"
            console.print(Text(f"{name:>{wide}}  {chance:7.1%}  {bar(chance)}".rstrip(), style=style))
        if ranked[0][1] < UNSURE:
            console.print(f"[yellow]unsure[/]: the best guess is below {UNSURE:.0%}")
    if "truth" in row:
        right = (
            "" if row["label"] is None else ", as predicted" if row["label"] == row["truth"] else ", not as predicted"
        )
        console.print(f"truly {row['truth']}{right}", markup=False)
    if row.get("done"):
        console.print("; ".join(row["done"]), markup=False)


def _row(number: int, row: dict[str, Any]) -> tuple[Any, ...]:
    done = "; ".join(row.get("done", ()))
    if row.get("refused"):
        return number, "–", "", "", f"refused: {row['refused']}"
    chance = row["probability"]
    remark = "; ".join(part for part in ("unsure" if chance < UNSURE else "", done) if part)
    return number, row["label"], f"{chance:.1%}", bar(chance), remark


def bar(share: float, width: int = BAR) -> str:
    """A share of 1 as a bar in eighths of a character."""
    whole, rest = divmod(round(max(0.0, min(1.0, share)) * width * 8), 8)
    return "█" * whole + EIGHTHS[rest].strip()


def _cell(value: Any) -> str:
    """One value in a table; of many probabilities the three largest."""
    if isinstance(value, dict):
        top = sorted(value.items(), key=lambda item: -item[1] if isinstance(item[1], int | float) else 0)[:3]
        return ", ".join(f"{name} {figure(number)}" for name, number in top)
    if isinstance(value, list):
        return ", ".join(map(_cell, value))
    return figure(value)
