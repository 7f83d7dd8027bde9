"""Models of other systems at the command line: runs written as ONNX files, and such files looked at."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from .output import Misuse, deliver, labelled, table

if TYPE_CHECKING:
    from rich.console import Console

    from ..recipes import Loaded

__all__ = ["show_onnx", "write_onnx"]


def write_onnx(loaded: Loaded, data: Path | None, path: Path) -> None:
    """The model of a run as an ONNX file, traced on a batch of its test data; the number of examples stays open."""
    from .. import onnx
    from ..data.sources import trusted
    from ..tensor import Tensor
    from ..utils.pytree import tree_flatten

    model = getattr(loaded.task, "model", None)
    if model is None:
        raise Misuse(f"{loaded.recipe.name} trains no single model; export it in Python with weft.onnx.export")
    with trusted(loaded.trust and data is None):
        batch = next(iter(loaded.recipe.data(loaded.settings, data or loaded.root).test))
    inputs = batch[0] if isinstance(batch, (tuple, list)) else batch
    args = tuple(inputs) if isinstance(inputs, (tuple, list)) else (inputs,)
    axes = tuple({0: "batch"} if isinstance(x, Tensor) and x.ndim else None for x in args)
    if not all(isinstance(x, Tensor) for x in tree_flatten(args)[0]):
        raise Misuse(f"{loaded.recipe.name}: its batches are not made of tensors; export it in Python")
    onnx.export(model, args, path, dynamic_shapes=axes)


def show_onnx(name: str, as_json: bool) -> None:
    """Print what an ONNX file holds."""
    from ..onnx import summary

    if not Path(name).is_file():
        raise Misuse(f"there is no file {name}")
    found = summary(name)
    deliver({"file": name, **found}, as_json, lambda console: _show(console, name, found))


def _show(console: Console, name: str, found: dict[str, Any]) -> None:
    opsets = ", ".join(f"{domain} {version}" for domain, version in found["opsets"].items())
    console.print(f"{name}: ONNX, opset {opsets}", markup=False)
    rows = [("made by", found["producer"]), ("parameters", f"{found['parameters']} in {found['initializers']} tensors")]
    console.print(labelled([(word, text) for word, text in rows if text]))
    for word in ("inputs", "outputs"):
        console.print()
        console.print(table((word[:-1], "type"), list(found[word].items())))
    console.print()
    console.print(table(("operator", ">nodes"), list(found["operators"].items())))
