"""`weft tune`: measures tilings of matrix products on this machine and keeps the fastest for the programs that follow."""

from __future__ import annotations

import contextlib
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from .checking import watching
from .machine import AsJson
from .naming import changed, complete_recipe
from .output import Misuse, deliver, hint, table
from .training import Changes, Data, TrustData, data_folder

if TYPE_CHECKING:
    from rich.console import Console

    from ..kernels.matmul.product import Product
    from ..kernels.matmul.trying import Trial

__all__: list[str] = []

STEPS = 2  # of a recipe: its plans are made at the first


def register(app: typer.Typer) -> None:
    """Add the command of this file."""
    app.command(rich_help_panel="Machine")(tune)


def tune(
    recipe: Annotated[
        str | None, typer.Argument(help="A recipe: see weft list.", autocompletion=complete_recipe)
    ] = None,
    shapes: Annotated[
        str | None,
        typer.Option(metavar="MxNxK,…", help="Linear layers instead: rows of the batch, outputs, inputs."),
    ] = None,
    forget: Annotated[bool, typer.Option("--forget", help="Remove what was found for this processor.")] = False,
    changes: Changes = None,
    data: Data = None,
    trust_data: TrustData = False,
    threads: Annotated[int, typer.Option(min=1, help="Threads to measure with.")] = 1,
    as_json: AsJson = False,
) -> None:
    """Measure tilings of the matrix products of a recipe, or of linear layers, and keep the fastest.

    What is found lies beside the compiled kernels, by processor, and counts for every later plan that has such a product.
    It changes the order in which tiles are computed, never that in which terms are added: results keep their bits.
    WEFT_TUNING=0 leaves it out, WEFT_TUNING=FILE takes that of one file and no other.

    Examples:

      weft tune digits-mlp

      weft tune --shapes 64x512x784,1024x384x128

      weft tune --forget
    """
    from ..kernels.llvm.target import Target
    from ..kernels.matmul.trying import layouts, planned, try_all
    from ..runtime import tuned

    target = Target.host()
    if forget:
        return _forgotten(tuned.forget(target.identity), as_json)
    if (recipe is None) == (shapes is None):
        raise Misuse(f"tune takes a recipe or --shapes: {hint('tune digits-mlp')}, {hint('tune --shapes 64x512x784')}")
    if shapes is not None:
        products = [p for sizes in _sizes(shapes) for p in layouts(*sizes)]
    else:
        _train_a_little(recipe or "", changes, data, trust_data)
        products = planned()
    with watching(as_json) as watch:
        trials = try_all(products, threads, lambda trial: watch(f"{_sized(trial.product)}: {trial.gain:.2f} ×"))
    document = {
        "target": target.identity,
        "file": str(tuned.place(target.identity) or ""),
        "threads": threads,
        "products": [_row(trial) for trial in trials],
    }
    deliver(document, as_json, lambda console: _show(console, document))


def _forgotten(count: int, as_json: bool) -> None:
    line = f"removed {count} tiling{'' if count == 1 else 's'}"
    deliver({"removed": count}, as_json, lambda console: console.print(line, markup=False))


def _sizes(text: str) -> Iterator[Sequence[int]]:
    """The numbers of `64x512x784,…`."""
    for word in text.split(","):
        numbers = word.strip().lower().replace("×", "x").split("x")
        if len(numbers) != 3 or not all(number.isdigit() and int(number) > 0 for number in numbers):
            raise Misuse(f"--shapes takes ROWSxOUTPUTSxINPUTS, for example 64x512x784, got {word!r}")
        yield [int(number) for number in numbers]


def _train_a_little(name: str, changes: Changes, data: Path | None, trust_data: bool) -> None:
    """A few steps of a recipe, so that its plans are made; nothing is left behind."""
    import weft

    from ..data.sources import trusted
    from ..recipes import get
    from ..train import Trainer

    found = get(name)
    settings = found.settings(changed(changes or ()))
    if not hasattr(found, "task"):
        raise Misuse(f"tune needs a recipe that is trained in steps; {name} is computed in one go")
    with trusted(trust_data):
        splits = found.data(settings, data_folder(data))
    weft.manual_seed(settings.seed)
    trainer = Trainer(max_steps=STEPS, run_folder=False, enable_checkpointing=False, progress=False)
    with tempfile.TemporaryDirectory() as empty, contextlib.chdir(empty):
        trainer.fit(found.task(settings, splits), splits.train)


def _sized(p: Product) -> str:
    """Sizes of a product and how its operands lie."""
    batch = "".join(f"{n}·" for n in p.batch)
    left, right = ("ᵀ" if stride != 1 else "" for stride in (p.a[-1], p.b[-1]))
    return f"{batch}{p.m}×{p.n}×{p.k} A{left} B{right}"


def _row(trial: Trial) -> dict[str, Any]:
    p, choice = trial.product, trial.choice
    return {
        "product": _sized(p),
        "before_us": trial.before * 1e6,
        "after_us": trial.after * 1e6,
        "gflops": p.flops / trial.after / 1e9,
        "gain": trial.gain,
        "tried": trial.tried,
        "choice": choice.written() if choice else None,
    }


def _show(console: Console, document: dict[str, Any]) -> None:
    columns = ("product", ">before µs", ">after µs", ">GFLOP/s", ">gain", ">tried", "tiling")
    cells = [
        (
            row["product"],
            *(f"{row[key]:.1f}" for key in ("before_us", "after_us", "gflops")),
            f"{row['gain']:.2f}",
            row["tried"],
            _told(row["choice"]),
        )
        for row in document["products"]
    ]
    console.print(table(columns, cells))
    better = sum(row["choice"] is not None for row in document["products"])
    console.print(f"{better} of {len(cells)} products have a tiling of their own now", markup=False)
    if document["file"]:
        console.print(f"Kept in {document['file']}", markup=False)


def _told(choice: dict[str, Any] | None) -> str:
    if choice is None:
        return "as usual"
    words = ["copied" if choice["packed"] else "in place"] + (["swapped"] if choice["swapped"] else [])
    return f"{choice['rows']} × {choice['vectors']}, {choice['block']} tiles, {', '.join(words)}"
