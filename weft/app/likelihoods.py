"""`weft evaluate`: how good models of data are, every likelihood with its side and its interval."""

from __future__ import annotations

import importlib
import inspect
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from .machine import AsJson
from .naming import complete_run
from .output import Misuse, deliver, figure, table
from .training import Runs, TrustData, data_folder
from .using import Checkpoint, loaded_run

if TYPE_CHECKING:
    from rich.console import Console

    from ..models.generative import Evaluation, GenerativeModel
    from ..tensor import Tensor

Models = Annotated[
    list[str],
    typer.Argument(metavar="RUN|MODEL...", help="Runs, or models as package.module:name.", autocompletion=complete_run),
]
Binarisation = Annotated[
    Literal["fixed", "dynamic", "threshold", "native"] | None,
    typer.Option(help="How examples of 0 and 1 came about.", show_default="what the recipe says"),
]


def register(app: typer.Typer) -> None:
    """Add the command of this file."""
    app.command(rich_help_panel="Runs")(evaluate)


def evaluate(
    models: Models,
    data: Annotated[
        Path | None,
        typer.Option(metavar="DIR|FILE", help="Folder with the data files, or a .npy file of examples."),
    ] = None,
    split: Annotated[Literal["test", "validation"], typer.Option(help="Which part of a run's data.")] = "test",
    binarisation: Binarisation = None,
    seeds: Annotated[int, typer.Option(min=1, help="So many runs of every estimator, seeds 0, 1, …")] = 2,
    chains: Annotated[int, typer.Option(min=1, help="Chains of annealed importance sampling.")] = 100,
    temperatures: Annotated[int, typer.Option(min=1, help="Its steps, most of them at the end of the path.")] = 1000,
    samples: Annotated[
        list[int] | None,
        typer.Option(min=1, help="Importance samples of an example; again for a curve.", show_default="1, 5, 50"),
    ] = None,
    trust_data: TrustData = False,
    checkpoint: Checkpoint = "last",
    runs: Runs = None,
    as_json: AsJson = False,
) -> None:
    """Say how likely models find data: exactly, or from which side and how far.

    Printed with every figure: number of examples, a hash of them, how they were binarised, seeds, 95 % intervals, nats and
    bits per dimension. Several models on the same examples are ranked, unless only bounds of opposite sides are at hand.

    Examples:

      weft evaluate latest --data ~/data

      weft evaluate rbm-mnist-16 mixture-mnist --seeds 3 --temperatures 5000

      weft evaluate my_models:build --data digits.npy --binarisation native

      weft evaluate vae-mnist --samples 50 --samples 5000 --seeds 1
    """
    asked = {"chains": chains, "temperatures": temperatures}
    found = []
    for name in models:
        model, x, known, base = _given(name, data, split, runs, checkpoint, trust_data)
        curve = tuple(samples or (1, 5, 50))
        found.append(_evaluated(name, model, x, binarisation or known, base, seeds, curve, asked))
    order, refused = _ranked(found)
    document = {"evaluations": [e.to_dict() for e in found], "best_first": order, "not_ranked": refused}
    deliver(document, as_json, lambda console: _show(console, found, order, refused))


def _given(
    name: str, data: Path | None, split: str, runs: str | None, checkpoint: str, trust: bool
) -> tuple[GenerativeModel, Tensor, str | None, Tensor | None]:
    """A model, examples, what is known of their bits, and the training examples for the base of annealing."""
    from ..data.sources import trusted

    file = data is not None and data.suffix == ".npy"
    if ":" in name:
        if not file:
            raise Misuse(f"{name} is a model without data of its own: give it a .npy file of examples with --data")
        return _named_model(name), _from_file(data), None, None
    loaded = loaded_run(name, runs, checkpoint)
    model = _density(loaded.task, name)
    known = getattr(loaded.recipe, "binarisation", None)
    if file:
        return model, _from_file(data), known, None
    with trusted(trust or (loaded.trust and data is None)):
        splits = loaded.recipe.data(loaded.settings, data_folder(data) or loaded.root)
    part = getattr(splits, split)
    if part is None:
        raise Misuse(f"{name} keeps no {split} data")
    return model, part.dataset.tensors[0], known, splits.train.dataset.tensors[0]


def _density(task: Any, name: str) -> GenerativeModel:
    from ..models.generative import GenerativeModel

    for module in task.modules():
        if isinstance(module, GenerativeModel):
            return module
    raise Misuse(f"{name} holds no generative model: weft eval tests it by the figures of its recipe")


def _named_model(name: str) -> GenerativeModel:
    """What `package.module:name` stands for: a model, or a function without arguments that gives one."""
    from ..models.generative import GenerativeModel

    module, _, attribute = name.partition(":")
    if "" not in sys.path:
        sys.path.insert(0, "")  # modules of the working directory, as python -m has them
    try:
        made = getattr(importlib.import_module(module), attribute)
    except (ImportError, AttributeError) as error:
        raise Misuse(f"{name}: {error}; expected package.module:name") from None
    model = made() if callable(made) and not isinstance(made, GenerativeModel) else made
    if not isinstance(model, GenerativeModel):
        raise Misuse(f"{name} is a {type(model).__name__}: expected a weft.models.generative.GenerativeModel")
    return model


def _from_file(path: Path) -> Tensor:
    import numpy as np

    import weft

    if not path.is_file():
        raise Misuse(f"--data {path} does not exist")
    array = np.load(path, allow_pickle=False)
    return weft.tensor(array if array.dtype.kind == "f" else array.astype(np.float32))


def _evaluated(
    name: str,
    model: GenerativeModel,
    x: Tensor,
    known: str | None,
    base: Tensor | None,
    seeds: int,
    samples: tuple[int, ...],
    asked: dict,
) -> Evaluation:
    from ..models.energy import base_rates, dense_near_one
    from ..models.generative import evaluate

    takes = inspect.signature(model.log_prob_bound).parameters if "log_prob_bound" in model.promises else {}
    options = {key: value for key, value in asked.items() if key in takes}
    if "temperatures" in options:
        options["temperatures"] = dense_near_one(options["temperatures"], x.dtype)
    if "base" in takes and base is not None and known is not None:
        options["base"] = base_rates(base)
    return evaluate(model, x, name=name, binarisation=known, seeds=range(seeds), samples=samples, options=options)


def _ranked(found: list[Evaluation]) -> tuple[list[str] | None, str | None]:
    """Names, best first; or why there is no order."""
    from ..errors import OptionError
    from ..models.generative import rank

    if len(found) < 2:
        return None, None
    try:
        return [e.model for e in rank(found)], None
    except OptionError as error:
        return None, str(error)


def _show(console: Console, found: list[Evaluation], order: list[str] | None, refused: str | None) -> None:
    for e in found:
        console.print(f"{e.model}: {e.parameters} parameters, {e.data}, seeds {list(e.seeds)}", markup=False)
    rows = []
    for e in found:
        for f in e.likelihoods:
            low, high = f.interval
            kind = f.kind if f.side is None else f"{f.side} bound"
            rows.append((e.model, f.method, kind, f.nats, f"{low:.2f} … {high:.2f}", figure(f.bits_per_dim), f.seconds))
    console.print(table(["model", "likelihood", "kind", ">nats", ">95 %", ">bits/dim", ">seconds"], rows))
    if order:
        console.print(f"Best first: {', '.join(order)}", markup=False)
    if refused:
        console.print(f"Not ranked: {refused}", markup=False)
