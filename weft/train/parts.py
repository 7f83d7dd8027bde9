"""State that is cut over ranks, in checkpoints: every rank writes its part to a file, the checkpoint names them.

The parts are made durable before the checkpoint that names them takes its name, so a checkpoint is whole or not there. Joined
parts are whole tensors: any number of ranks, or one process without MPI, goes on with them.
"""

from __future__ import annotations

import secrets
import shutil
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from ..distributed.shards import Cut
from ..io import load, save
from ..nn.module import Module
from ..nn.parallel.distributed import average_gradients
from ..nn.parallel.shard import cut_of, load_whole_state_dict
from ..tensor import Tensor, wrap

__all__ = [
    "Part",
    "folder_of",
    "join",
    "load_model",
    "of_gradients",
    "of_model",
    "of_optimizer",
    "own",
    "own_state",
    "remove_unused",
    "write",
]

PREFIX = "parts-"


@dataclass
class Part:
    """This rank's elements of a tensor."""

    tensor: Tensor
    cut: Cut


def of_model(task: Module) -> dict[str, Any]:
    """Parameters and buffers, those that are cut as parts."""
    return {name: _wrapped(value, cut_of(value)) for name, value in task.state_dict(keep_vars=True).items()}


def load_model(task: Module, model: dict[str, Any]) -> None:
    """Give a model whole parameters and buffers, of which a rank keeps its part where they are cut."""
    if any(cut_of(p) is not None for p in task.parameters()):
        load_whole_state_dict(task, model)
    else:
        task.load_state_dict(model)


def of_gradients(task: Module, ranks: Any) -> dict[str, Any]:
    """Gradients that wait for an update: their means over ranks, so that any rank may go on with them."""
    waiting = [(name, p) for name, p in task.named_parameters() if p.grad is not None]
    if ranks.size > 1:
        before = [p.grad for _, p in waiting]
        for _, p in waiting:
            p.grad = p.grad.clone()
        average_gradients([p for _, p in waiting if cut_of(p) is None], ranks.group)
        found = {name: _wrapped(p.grad, cut_of(p)) for name, p in waiting}
        for (_, p), gradient in zip(waiting, before, strict=True):
            p.grad = gradient
        return found
    return {name: p.grad for name, p in waiting}


def _wrapped(value: Any, cut: Cut | None) -> Any:
    if not isinstance(value, Tensor):
        return value
    return value.detach() if cut is None else Part(value.detach().reshape(-1)[: cut.high - cut.low], cut)


def _cut_for(optimizer: Any, parameter: Tensor) -> Cut | None:
    return optimizer.cut(parameter) if hasattr(optimizer, "cut") else cut_of(parameter)


def of_optimizer(optimizer: Any) -> dict[str, Any]:
    """The state dict of an optimiser, what it keeps of cut parameters as parts."""
    packed = optimizer.state_dict()
    parameters = [p for group in optimizer.param_groups for p in group["params"]]
    state = {}
    for number, entry in packed["state"].items():
        cut = _cut_for(optimizer, parameters[number]) if isinstance(number, int) else None
        state[number] = entry if cut is None else _parts_of(entry, cut, optimizer._counters)
    return packed | {"state": state}


def _parts_of(entry: dict[str, Any], cut: Cut, counters: tuple[str, ...]) -> dict[str, Any]:
    sizes = (cut.high - cut.low, cut.chunk)
    fits = lambda name, x: isinstance(x, Tensor) and name not in counters and x.ndim == 1 and x.numel() in sizes
    return {name: _wrapped(x, cut) if fits(name, x) else x for name, x in entry.items()}


def own(whole: Tensor, cut: Cut | None) -> Tensor:
    """This rank's places of a whole tensor, as its parameter has them."""
    return whole if cut is None else cut.filled(cut.part(whole))


def own_state(optimizer: Any, packed: dict[str, Any]) -> dict[str, Any]:
    """A state dict with whole tensors, as this rank's optimiser takes it."""
    parameters = [p for group in optimizer.param_groups for p in group["params"]]
    state = {}
    for number, entry in packed["state"].items():
        cut = _cut_for(optimizer, parameters[number]) if isinstance(number, int) else None
        if cut is not None:
            filled = cut_of(parameters[number]) is not None
            take = lambda x, cut=cut, filled=filled: (own(x, cut) if filled else cut.part(x)).clone()
            entry = {
                name: take(x)
                if isinstance(x, Tensor) and name not in optimizer._counters and tuple(x.shape) == cut.shape
                else x
                for name, x in entry.items()
            }
        state[number] = entry
    return packed | {"state": state}


# ------------------------------------------------------------------------------------------- files


def _paths(tree: Any, at: tuple[Any, ...] = ()) -> Iterator[tuple[tuple[Any, ...], Any]]:
    """Every leaf of dicts and lists, with the keys that lead to it."""
    if isinstance(tree, dict):
        for key, value in tree.items():
            yield from _paths(value, (*at, key))
    elif isinstance(tree, (list, tuple)):
        for number, value in enumerate(tree):
            yield from _paths(value, (*at, number))
    else:
        yield at, tree


def _replaced(tree: Any, change: Any) -> Any:
    if isinstance(tree, dict):
        return {key: _replaced(value, change) for key, value in tree.items()}
    if isinstance(tree, (list, tuple)):
        return type(tree)(_replaced(value, change) for value in tree) if type(tree) in (list, tuple) else tree
    return change(tree)


def write(tree: dict[str, Any], folder: Path, ranks: Any) -> dict[str, Any]:
    """Write this rank's parts; the tree with their names in their places. All ranks call it."""
    if not ranks.cuts:
        return tree
    found: list[Part] = [leaf for _, leaf in _paths(tree) if isinstance(leaf, Part)]
    name = ranks.told(f"{PREFIX}{tree['position']['step']}-{secrets.token_hex(4)}")  # never one that a checkpoint names
    place = folder / name
    place.mkdir(parents=True, exist_ok=True)
    file = f"rank-{ranks.rank}-of-{ranks.size}.weft"
    own_parts = {str(k): part.tensor.detach().contiguous() for k, part in enumerate(found)}
    save(own_parts, place / file)
    told = [file, [_digest(x) for x in own_parts.values()]]
    files = ranks.every(told)
    numbers = iter(range(len(found)))

    def named(leaf: Any) -> Any:
        return {"cut": next(numbers), "shape": list(leaf.cut.shape)} if isinstance(leaf, Part) else leaf

    return _replaced(tree, named) | {"parts": {"folder": name, "files": files}}


def _digest(x: Tensor) -> int:
    return zlib.crc32(np.ascontiguousarray(x.detach().array).reshape(-1).view(np.uint8))


def join(tree: dict[str, Any], folder: Path, error: type[Exception]) -> dict[str, Any]:
    """The tree with whole tensors, from the files of all ranks that wrote it."""
    told = tree.get("parts")
    if not told:
        return tree
    columns: list[list[Tensor]] = []
    for file, digests in told["files"]:
        path = folder / told["folder"] / file
        try:
            found = load(path)
        except Exception as cause:
            raise error(f"{path}: a part of the checkpoint cannot be read: {cause}") from cause
        parts = [found[str(k)] for k in range(len(digests)) if str(k) in found]
        if [_digest(x) for x in parts] != list(digests):
            raise error(f"{path}: this part of the checkpoint is damaged: its checksum does not fit")
        columns.append(parts)

    def whole(leaf: Any) -> Any:
        rows = [column[leaf["cut"]].array for column in columns]
        return wrap(np.concatenate(rows).reshape(leaf["shape"]))

    return {key: value for key, value in _joined(tree, whole).items() if key != "parts"}


def _joined(tree: Any, whole: Any) -> Any:
    if isinstance(tree, dict):
        if set(tree) == {"cut", "shape"}:
            return whole(tree)
        return {key: _joined(value, whole) for key, value in tree.items()}
    if type(tree) in (list, tuple):
        return type(tree)(_joined(value, whole) for value in tree)
    return tree


def folder_of(path: Path) -> str:
    """The folder of parts that a checkpoint names, '' if it names none or cannot be read."""
    try:
        tree = load(path)
    except Exception:
        return ""
    return (tree.get("parts") or {}).get("folder", "") if isinstance(tree, dict) else ""


def remove_unused(folder: Path, used: set[str]) -> None:
    """Remove the parts that no checkpoint names."""
    for place in folder.glob(f"{PREFIX}*"):
        if place.name not in used:
            shutil.rmtree(place, ignore_errors=True)
