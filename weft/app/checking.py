"""`weft check`: the start-up routine over a recipe, with a verdict for each step and a picture."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from ..runtime.places import runs_folder
from .machine import AsJson, Threads
from .naming import changed
from .output import DONE, FAILED, Misuse, deliver, progress_console, table
from .training import Changes, Data, NoCompile, RecipeName, Runs, TrustData, data_folder

if TYPE_CHECKING:
    from rich.console import Console

    from ..train.startup import Report

__all__ = ["watching"]

COLOURS = {"ok": "green", "note": "yellow", "fault": "bold red", "skipped": "dim"}
Breakage = Literal["rate", "labels", "weights", "biases"]


def register(app: typer.Typer) -> None:
    """Add the command of this file."""
    app.command(rich_help_panel="Models")(check)


def check(
    recipe: RecipeName,
    changes: Changes = None,
    data: Data = None,
    trust_data: TrustData = False,
    steps: Annotated[int, typer.Option(min=10, help="Length of each trial run.")] = 50,
    damage: Annotated[
        Breakage | None,
        typer.Option(
            "--break",
            help="Break the set-up first, to see what the routine says: a rate 10,000 times too high, labels shuffled, weights all zero, biases of −100.",
        ),
    ] = None,
    plot: Annotated[
        Path | None,
        typer.Option(metavar="PNG", help="The picture.", show_default="RECIPE-check.png in the runs folder"),
    ] = None,
    no_plot: Annotated[bool, typer.Option("--no-plot", help="Draw no picture.")] = False,
    runs: Runs = None,
    threads: Threads = None,
    no_compile: NoCompile = False,
    as_json: AsJson = False,
) -> None:
    """Go through the start-up routine: is this set-up sound before hours are spent on it?

    Data, initial loss against log C, gradient flow and dead units, a few examples learned by heart, regularisation,
    labels against chance, learning rates and decays in log space, the size of updates. Each step gets a verdict and
    says what to do. Exit code 1 when there is a fault.

    Examples:

      weft check digits-mlp

      weft check digits-mlp --set lr=50

      weft check digits-mlp --break labels
    """
    import weft

    from ..data.sources import trusted
    from ..recipes import get
    from ..train import startup

    if threads:
        weft.set_num_threads(threads)
    found = get(recipe)
    settings = found.settings(changed(changes or ()))
    with trusted(trust_data):
        splits = found.data(settings, data_folder(data))
    weft.manual_seed(settings.seed)
    task, batches = broken(_by_gradients(found.task(settings, splits), found.name), splits.train, damage)
    with watching(as_json) as watch:
        report = startup.check(task, batches, steps=steps, compile=not no_compile, watch=watch)
    picture = None if no_plot else _drawn(report, plot or runs_folder(runs) / f"{found.name}-check.png", found.name)
    document = {
        "recipe": found.name,
        "sound": report.sound,
        "faults": report.faults,
        "findings": report.findings,
        "plot": str(picture) if picture else None,
    }
    deliver(document, as_json, lambda console: _show(console, report, picture))
    raise typer.Exit(DONE if report.sound else FAILED)


@contextlib.contextmanager
def watching(quiet: bool) -> Iterator[Callable[[str], None]]:
    """A line on the terminal that says what goes on; nothing elsewhere."""
    console = progress_console()
    if quiet or not console.is_terminal:
        yield lambda text: None
        return
    with console.status("checking") as status:
        yield lambda text: status.update(f"checking: {text}")


def _by_gradients(task: Any, name: str) -> Any:
    if not hasattr(task, "configure_optimizers"):
        raise Misuse(f"check needs a recipe that is trained by gradients; {name} has a rule or a formula of its own")
    return task


def _drawn(report: Report, path: Path, title: str) -> Path | None:
    from .plots import startup_picture

    return startup_picture(report, path, title)


def _show(console: Console, report: Report, picture: Path | None) -> None:
    from rich.text import Text

    rows = []
    for finding in report.findings:
        said = Text(finding.found)
        if finding.advice:
            said.append(f"\n→ {finding.advice}", style=COLOURS[finding.verdict])
        rows.append((finding.step, Text(finding.verdict, style=COLOURS[finding.verdict]), said))
    console.print(table(("step", "verdict", "found"), rows))
    if report.sound:
        console.print("[green]Sound[/]: no fault found")
    else:
        console.print(f"[bold red]Fault[/]: {', '.join(report.faults)}")
    if picture:
        console.print(f"Picture {picture}", markup=False)


def broken(task: Any, batches: Any, damage: Breakage | None) -> tuple[Any, Any]:
    """A task and its batches with one thing spoilt: what the routine must notice."""
    import weft

    from ..nn import Module

    if damage == "rate":
        return _hasty(task), batches
    if damage == "labels":
        return task, [(x, y[weft.randperm(len(y))]) for x, y in batches]
    with weft.no_grad():
        for name, parameter in task.named_parameters() if isinstance(task, Module) and damage else ():
            if damage == "weights":
                parameter.zero_()
            elif name.endswith("bias"):
                parameter.fill_(-100.0)
    return task, batches


def _hasty(task: Any) -> Any:
    """The same task with learning rates 10,000 times as high."""
    configure = task.configure_optimizers

    def hasty() -> Any:
        from ..train.running.configure import read_optimizers

        optimizers, _ = read_optimizers(configure())
        for group in (group for optimizer in optimizers for group in optimizer.param_groups):
            for name in {"lr", "initial_lr", "max_lr"} & {*group}:
                group[name] *= 1e4
        return optimizers

    task.configure_optimizers = hasty
    return task
