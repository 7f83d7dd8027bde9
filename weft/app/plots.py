"""Pictures of checks, searches and comparisons, as PNG files. Without matplotlib there are none, and one line says so."""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..io.atomic import replacing
from ..runtime.extras import MissingExtraError, extra

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from ..train.startup import Report

__all__ = ["overlay", "search_picture", "startup_picture"]

INK, GOOD, BAD = "#31688e", "#35b779", "#d1495b"


def _save(path: Path, size: tuple[float, float], draw: Callable[[Figure], None]) -> Path | None:
    """Draw into a new figure and write it whole; None where matplotlib is missing."""
    try:
        figures = extra("matplotlib.figure", "that needs")
    except MissingExtraError as error:
        warnings.warn(f"no picture was drawn: {error}", stacklevel=2)
        return None
    figure = figures.Figure(figsize=size, layout="constrained")
    draw(figure)
    path.parent.mkdir(parents=True, exist_ok=True)
    with replacing(path) as file:
        figure.savefig(file, format="png", dpi=120)
    return path


# ---------------------------------------------------------------- curves of several runs


def overlay(runs: Mapping[str, Mapping[str, Sequence[float]]], path: Path) -> Path | None:
    """Curves of runs laid over each other, a panel for each figure that two of them share (or any has, if none is)."""
    counts = {name: sum(name in curves for curves in runs.values()) for curves in runs.values() for name in curves}
    shared = [name for name, count in counts.items() if count > 1 and name != "lr"] or list(counts)
    if not shared:
        return None

    def draw(figure: Figure) -> None:
        rows = math.ceil(len(shared) / 2)
        panels = figure.subplots(rows, min(2, len(shared)), squeeze=False).flat
        for panel, name in zip(panels, shared, strict=False):
            for run, curves in runs.items():
                if name in curves:
                    values = curves[name]
                    panel.plot(range(1, len(values) + 1), values, marker="." if len(values) < 30 else "", label=run)
            panel.set(title=name, xlabel="epoch")
            panel.xaxis.get_major_locator().set_params(integer=True)
            panel.grid(alpha=0.3)
        panels = list(figure.axes)
        panels[0].legend(fontsize="small")
        for panel in panels[len(shared) :]:
            panel.set_axis_off()

    return _save(path, (9, 3.2 * math.ceil(len(shared) / 2)), draw)


# ---------------------------------------------------------------- the start-up routine


def startup_picture(report: Report, path: Path, title: str) -> Path | None:
    """What the start-up routine measured, a panel for each thing; panels of skipped steps are left out."""
    panels = [
        (_courses, report.courses),
        (_rates, report.courses),
        (_few, report.few),
        (_grid, report.grid),
        (_bars("share of units without gradient", report.units), report.units),
        (_bars("root mean square gradient", report.gradients, log=True), report.gradients),
        (_bars("size of updates  ‖Δθ‖ / ‖θ‖", report.ratios, log=True, near=(1e-3, 1e-2)), report.ratios),
    ]
    wanted = [draw for draw, numbers in panels if numbers]
    if not wanted:
        return None

    def draw_all(figure: Figure) -> None:
        verdict = "sound" if report.sound else ", ".join(report.faults)
        figure.suptitle(f"{title}: {verdict}", color=GOOD if report.sound else BAD, fontweight="bold")
        figure.subplots(math.ceil(len(wanted) / 2), 2, squeeze=False)
        for panel, draw in zip(figure.axes, wanted, strict=False):
            draw(panel, report)
        for panel in figure.axes[len(wanted) :]:
            panel.set_axis_off()

    return _save(path, (10, 3.1 * math.ceil(len(wanted) / 2) + 0.5), draw_all)


def _courses(panel: Axes, report: Report) -> None:
    """Losses of the trial runs, one line for each rate."""
    from matplotlib import colormaps

    first = report.courses[0].first
    rows = sorted(report.courses, key=lambda course: course.rate)
    for i, course in enumerate(rows):
        colour = colormaps["viridis"](i / max(1, len(rows) - 1))
        panel.plot(course.smooth, color=colour, label=f"{course.rate:.1e}{' exploded' if course.exploded else ''}")
    panel.axhline(3 * first, color=BAD, linestyle=":", label="3 × first loss")
    panel.set(
        title="loss at each learning rate", xlabel="step", ylim=(min(0, first), 3.5 * first) if first > 0 else None
    )
    panel.legend(fontsize=6, ncols=2)


def _rates(panel: Axes, report: Report) -> None:
    """Loss at the end over the learning rate."""
    rows = sorted(report.courses, key=lambda course: course.rate)
    fine = [course for course in rows if not course.exploded]
    panel.plot([c.rate for c in fine], [c.final for c in fine], "o-", color=INK)
    panel.axhline(rows[0].first, color="grey", linestyle=":", label="first loss")
    for i, course in enumerate(course for course in rows if course.exploded):
        panel.axvline(course.rate, color=BAD, alpha=0.5, label=None if i else "exploded")
    panel.legend(fontsize=7)
    panel.set(title="loss at the end of each trial", xlabel="learning rate", xscale="log")


def _few(panel: Axes, report: Report) -> None:
    panel.semilogy([max(value, 1e-12) for value in report.few], color=INK)
    panel.set(title="a few examples learned by heart", xlabel="step", ylabel="loss")


def _grid(panel: Axes, report: Report) -> None:
    """Progress over rate and decay."""
    rates = sorted({course.rate for course in report.grid})
    decays = sorted({course.decay for course in report.grid})
    found = {(c.rate, c.decay): c.final if not c.exploded else math.nan for c in report.grid}
    values = [[found.get((rate, decay), math.nan) for rate in rates] for decay in decays]
    panel.imshow(values, aspect="auto", origin="lower", cmap="Blues", alpha=0.6)
    panel.set_xticks(range(len(rates)), [f"{rate:.1e}" for rate in rates])
    panel.set_yticks(range(len(decays)), [f"{decay:g}" for decay in decays])
    for row, line in enumerate(values):
        for column, value in enumerate(line):
            panel.text(column, row, "exploded" if math.isnan(value) else f"{value:.3g}", ha="center", va="center")
    panel.set(title="loss at the end", xlabel="learning rate", ylabel="weight decay")


def _bars(
    title: str, numbers: Mapping[str, float], log: bool = False, near: tuple[float, float] | None = None
) -> Callable[[Any, Any], None]:
    """A panel with a line for each weight; near: a band that the values should lie in."""

    def draw(panel: Axes, report: Report) -> None:
        places, values = range(len(numbers)), [value or 1e-12 if log else value for value in numbers.values()]
        panel.plot(values, places, "o", color=INK, zorder=3)
        panel.set_yticks(places, map(_short, numbers), fontsize=6 if len(numbers) > 8 else 8)
        panel.set(title=title, xscale="log" if log else "linear", ylim=(len(numbers) - 0.5, -0.5))
        seen = [*values, *(near or ())]
        panel.set_xlim(*((min(seen) / 3, max(seen) * 3) if log else (-0.02, 1.02)))
        panel.grid(alpha=0.3)
        if near:
            panel.axvspan(*near, color=GOOD, alpha=0.3, zorder=0)

    return draw


def _short(name: str) -> str:
    """The name of a weight without what all of them have."""
    name = name.removeprefix("model.").removesuffix(".weight")
    return name if len(name) <= 24 else f"…{name[-23:]}"


# ---------------------------------------------------------------- searches


def search_picture(trials: Sequence[Mapping[str, Any]], best: int | None, metric: str, path: Path) -> Path | None:
    """The score of each trial over each setting that was varied; the best one is marked."""
    scored = [trial for trial in trials if trial["score"] is not None]
    names = list(dict.fromkeys(name for trial in scored for name in trial["settings"]))
    if not names:
        return None

    def draw(figure: Figure) -> None:
        panels = figure.subplots(math.ceil(len(names) / 3), min(3, len(names)), squeeze=False).flat
        for panel, name in zip(panels, names, strict=False):
            _scores(panel, [(t["settings"][name], t["score"], t["rung"], t["number"] == best) for t in scored], name)
            panel.set(ylabel=metric)
        for panel in figure.axes[len(names) :]:
            panel.set_axis_off()
        figure.suptitle(f"{len(scored)} trials, the best in red", fontsize="medium")

    return _save(path, (4 * min(3, len(names)) + 1, 3.2 * math.ceil(len(names) / 3)), draw)


def _scores(panel: Axes, points: list[tuple[Any, float, int, bool]], name: str) -> None:
    """Scores over one setting; later rungs of halving are darker."""
    numbers = all(isinstance(x, int | float) and not isinstance(x, bool) for x, *_ in points)
    places = [x for x, *_ in points] if numbers else [str(x) for x, *_ in points]
    last = max(rung for *_, rung, _ in points)
    for place, (_, score, rung, best) in zip(places, points, strict=True):
        chosen = best and rung == last
        shade = 1.0 if chosen else 0.35 + 0.65 * rung / last if last else 0.8
        panel.scatter(place, score, color=BAD if chosen else INK, alpha=shade, zorder=3 if chosen else 2)
    if numbers and min(places) > 0 and max(places) / min(places) >= 9:
        panel.set_xscale("log")
    panel.set_xlabel(name)
    panel.grid(alpha=0.3)
