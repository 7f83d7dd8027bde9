"""The figures of a run as a picture: curves.png in its folder. Nothing fails because of a picture."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from ..io.atomic import replacing
from ..runtime.extras import MissingExtraError, extra
from .callbacks.base import mode_for
from .runs import RunFolder

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

__all__ = ["draw_curves", "draw_run"]

STAGES = ("train", "val", "test")
COLOURS = {"train": "#4878a8", "val": "#d1602e", "test": "#5a8f53"}
OTHERS = ("#7a5195", "#2f8f8f", "#b0862c", "#888888", "#c44e77")
PANELS_AT_MOST = 6
Row = dict[str, Any]


def draw_run(run: RunFolder, say: Callable[[str], None] = print) -> bool:
    """Draw `curves.png` of a run folder; False: it could not be drawn, and `say` was told why."""
    try:
        figure = draw_curves(run.rows(), title=run.name)
        if figure is None:
            return False
        with replacing(run.path / "curves.png") as file:
            figure.savefig(file, format="png", dpi=120)
        return True
    except MissingExtraError as error:
        say(f"No curves were drawn: {error}")
    except Exception as error:
        say(f"No curves were drawn: {type(error).__name__}: {error}")
    return False


def draw_curves(rows: list[Row], title: str = "") -> Figure | None:
    """One panel for each kind of figure (loss, acc …), training and validation together, and one for the rate.

    Logarithmic where values span more than a decade and a half; the best validation is marked. None: nothing to draw.
    """
    figures = extra("matplotlib.figure", "that needs")
    panels = group(rows)
    if not panels:
        return None
    across = min(3, len(panels))
    down = math.ceil(len(panels) / across)
    figure = figures.Figure(figsize=(4.6 * across, 3.4 * down), layout="constrained")
    axes = figure.subplots(down, across, squeeze=False).flat
    for axis, (name, lines) in zip(axes, panels.items(), strict=False):
        _panel(axis, name, lines)
    for axis in list(axes)[len(panels) :]:
        axis.remove()
    if title:
        figure.suptitle(title, fontsize=11)
    return figure


def group(rows: list[Row]) -> dict[str, dict[str, tuple[list[float], list[float]]]]:
    """kind of figure → curve → (updates, values). Losses come first, the learning rate last."""
    panels: dict[str, dict[str, tuple[list[float], list[float]]]] = {}
    for row in rows:
        for name, value in row.items():
            if not isinstance(value, (int, float)) or name in ("epoch", "step", "seconds"):
                continue
            stage, kind = _split(name)
            if row.get("kind") != "epoch" and kind != "lr":
                continue
            curve = panels.setdefault(kind, {}).setdefault(stage or name, ([], []))
            curve[0].append(row["step"])
            curve[1].append(value)
    if len({value for _, values in panels.get("lr", {}).values() for value in values}) == 1:
        del panels["lr"]  # a rate that never changes is no curve
    order = sorted(panels, key=lambda kind: (kind != "loss", kind == "lr", list(panels).index(kind)))
    if len(order) > PANELS_AT_MOST:
        order = order[: PANELS_AT_MOST - 1] + order[-1:]  # the last is the rate, if it is there
    return {kind: panels[kind] for kind in order}


def _split(name: str) -> tuple[str, str]:
    """('val', 'loss') of val_loss; ('', 'lr') of lr_1; ('', name) of others."""
    stage, _, kind = name.partition("_")
    if stage in STAGES and kind:
        return stage, kind
    return ("", "lr") if stage == "lr" else ("", name)


def _panel(axis: Axes, name: str, lines: dict[str, tuple[list[float], list[float]]]) -> None:
    others = iter(OTHERS)
    for curve, (steps, values) in lines.items():
        colour = COLOURS.get(curve) or next(others, "#888888")
        few = len(steps) < 30
        axis.plot(steps, values, color=colour, label=curve, linewidth=1.6, marker="o" if few else None, markersize=3)
    _mark_best(axis, name, lines)
    if _wants_logarithm([v for _, values in lines.values() for v in values]):
        axis.set_yscale("log")
    axis.set_title({"lr": "learning rate"}.get(name, name), fontsize=10)
    axis.set_xlabel("update", fontsize=9)
    axis.grid(alpha=0.25, linewidth=0.6)
    axis.tick_params(labelsize=8)
    for side in ("top", "right"):
        axis.spines[side].set_visible(False)
    if len(lines) > 1 or "val" in lines:
        axis.legend(frameon=False, fontsize=8)


def _mark_best(axis: Axes, name: str, lines: dict[str, tuple[list[float], list[float]]]) -> None:
    """A ring around the best validation, with its value."""
    if "val" not in lines:
        return
    points = [(s, v) for s, v in zip(*lines["val"], strict=True) if math.isfinite(v)]
    if not points:
        return
    pick = max if mode_for(name, None) == "max" else min
    step, value = pick(points, key=lambda point: point[1])
    axis.plot([step], [value], "o", mfc="none", mec=COLOURS["val"], markersize=9, label=f"best {value:.4g}")


def _wants_logarithm(values: list[float]) -> bool:
    finite = [v for v in values if math.isfinite(v)]
    return bool(finite) and min(finite) > 0 and max(finite) > 30 * min(finite)
