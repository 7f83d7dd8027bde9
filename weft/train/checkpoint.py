"""Checkpoints: everything a training depends on, in one file that is whole or not there.

A file is written beside the others and made durable before it takes a name; the one it replaces becomes `previous`.
A checksum over all numbers tells a damaged file from a good one.
"""

from __future__ import annotations

import contextlib
import os
import random
import shutil
import warnings
import zlib
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import numpy as np

from ..errors import OptionError, WeftError
from ..io import load, save
from ..io.atomic import replacing
from ..nn.module import Module
from ..nn.parallel.shard import cut_of
from ..random import Generator, get_rng_state, set_rng_state
from ..tensor import Tensor, wrap
from .parts import join

__all__ = [
    *(
        "CheckpointError",
        "CheckpointFileError",
        "load_checkpoint",
        "load_weights",
        "newest_checkpoint",
        "save_checkpoint",
    ),
]

FORMAT = 1
INCOMING, LAST, PREVIOUS = "incoming.weft", "last.weft", "previous.weft"
Tree = dict[str, Any]


class CheckpointFileError(WeftError, RuntimeError):
    """A checkpoint that cannot be read, or does not fit what it is loaded into."""


CheckpointError = CheckpointFileError  # its older name; `weft.utils.checkpoint` has another of that name, as PyTorch


# ------------------------------------------------------------------------------------------- files


def save_checkpoint(tree: Tree, path: str | os.PathLike[str]) -> None:
    """Write a tree with its checksum; the file appears whole or not at all."""
    tree = savable(tree)
    save(tree | {"format": FORMAT, "digest": digest(tree)}, path)


def write_checkpoints(tree: Tree, folder: Path, names: list[str]) -> None:
    """Write a tree under several names of one folder. What was `last.weft` becomes `previous.weft`.

    The file is written once and made durable before it takes any name: at every moment the old or the new one is whole.
    """
    incoming = folder / INCOMING
    save_checkpoint(tree, incoming)
    for name in names:
        if name != LAST:
            _link(incoming, folder / name)
    if LAST in names and (folder / LAST).exists():
        os.replace(folder / LAST, folder / PREVIOUS)
    if LAST in names:
        os.replace(incoming, folder / LAST)
    else:
        incoming.unlink()


def _link(source: Path, target: Path) -> None:
    """Give a file a second name, in one move; a copy where the file system has no links."""
    new = target.with_name(f".{target.name}.part")
    new.unlink(missing_ok=True)
    try:
        os.link(source, new)
    except OSError:
        with replacing(target) as file, open(source, "rb") as whole:
            shutil.copyfileobj(whole, file)
        return
    os.replace(new, target)


def load_checkpoint(path: str | os.PathLike[str]) -> Tree:
    """The tree of a file, its checksum verified."""
    try:
        tree = load(path)
    except FileNotFoundError:
        raise CheckpointFileError(f"{path}: there is no such checkpoint") from None
    except (WeftError, OSError) as error:
        raise CheckpointFileError(f"{path}: this checkpoint cannot be read: {error}") from error
    if not isinstance(tree, dict) or tree.get("format") != FORMAT:
        raise CheckpointFileError(f"{path}: not a checkpoint of weft.train (weights alone: weft.load)")
    expected = tree.pop("digest", None)
    tree.pop("format")
    if digest(tree) != expected:
        raise CheckpointFileError(f"{path}: the checkpoint is damaged: its checksum does not fit its content")
    return join(tree, Path(path).parent, CheckpointFileError)


def newest_checkpoint(folder: str | os.PathLike[str]) -> tuple[Path, Tree] | None:
    """The newest whole checkpoint of a folder, (file, tree); damaged ones are passed over with a warning.

    None: there is none. If there are files but none can be read, that is an error.
    """
    folder = Path(folder)
    known = [folder / INCOMING, folder / LAST, folder / PREVIOUS]
    others = sorted((p for p in folder.glob("*.weft") if p not in known), key=_age, reverse=True)
    found = [path for path in (*known, *others) if path.exists()]
    errors = []
    for path in found:
        try:
            tree = load_checkpoint(path)
        except CheckpointFileError as error:
            errors.append(str(error))
            continue
        if "position" not in tree:  # weights alone
            continue
        for error in errors:
            warnings.warn(f"{error}; continuing from {path.name} instead", stacklevel=3)
        return path, tree
    if errors:
        raise CheckpointFileError("no checkpoint can be read:\n  " + "\n  ".join(errors))
    return None


def clear_leftovers(folder: Path) -> None:
    """Remove what a killed process was writing to a run folder."""
    for path in (*folder.glob(".*.part"), *folder.glob("checkpoints/.*.part")):
        with contextlib.suppress(OSError):
            path.unlink()


def load_weights(module: Module, path: str | os.PathLike[str], averaged: bool = True) -> Tree:
    """Load the parameters and buffers of a checkpoint into a module; the whole tree is returned.

    averaged: take the averages that were validated (EMA, SWA) where the checkpoint has them. `path` may be a run folder:
    then its best checkpoint is taken, or its newest.
    """
    path = Path(path)
    if path.is_dir():
        folder = path / "checkpoints" if (path / "checkpoints").is_dir() else path
        best = folder / "best.weft"
        found = (best, load_checkpoint(best)) if best.exists() else newest_checkpoint(folder)
        if found is None:
            raise CheckpointFileError(f"{path}: there are no checkpoints in this folder")
        path, tree = found
    else:
        tree = load_checkpoint(path)
    weights = tree["averaged"] if averaged and tree.get("averaged") else tree["model"]
    _load_into(module, weights, path)
    return tree


def _load_into(module: Module, weights: Tree, path: Any) -> None:
    try:
        module.load_state_dict(weights)
    except (RuntimeError, KeyError) as error:
        raise CheckpointFileError(f"{path}: the weights do not fit this model: {error}") from error


def _age(path: Path) -> float:
    try:
        return path.stat().st_mtime
    except OSError:
        return 0.0


# ------------------------------------------------------------------------------------------- trees


def savable(value: Any) -> Any:
    """The tree in types that `weft.save` knows; functions are left out, they come from the program."""
    if isinstance(value, dict):
        return {key: savable(part) for key, part in value.items() if not callable(part) or isinstance(part, Tensor)}
    if isinstance(value, (list, tuple)):
        parts = [savable(part) for part in value]
        return tuple(parts) if isinstance(value, tuple) else parts
    if isinstance(value, np.ndarray):
        return wrap(np.ascontiguousarray(value))
    if isinstance(value, np.generic):
        return value.item()
    return value.detach() if isinstance(value, Tensor) else value


def like(template: Any, value: Any) -> Any:
    """`value` in the containers of `template`, where these are kinds of dicts that files do not know (Counter …)."""
    if isinstance(template, dict) and isinstance(value, dict):
        parts = {key: like(template.get(key), part) for key, part in value.items()}
        return parts if type(template) is dict else type(template)(parts)
    return value


def digest(tree: Any) -> int:
    """A checksum (CRC-32) of all keys and values of a tree."""
    total = 0
    for piece in _pieces(tree):
        total = zlib.crc32(piece, total)
    return total


def _pieces(value: Any) -> Iterator[Any]:
    if isinstance(value, dict):
        for key, part in value.items():
            yield repr(key).encode()
            yield from _pieces(part)
    elif isinstance(value, (list, tuple)):
        yield f"[{len(value)}".encode()
        for part in value:
            yield from _pieces(part)
    elif isinstance(value, Tensor):
        yield f"{value.dtype}{tuple(value.shape)}".encode()
        array = np.ascontiguousarray(value.detach().array)
        yield memoryview(array.reshape(-1).view(np.uint8))
    else:
        yield repr(value).encode()


# ------------------------------------------------------------------------------------------- randomness


def random_state(task: Module) -> Tree:
    """Where all random streams are: the default generator, those of the task's modules, Python's and NumPy's."""
    version, words, gauss = random.getstate()
    kind, key, *rest = np.random.get_state()  # noqa: NPY002  datasets of users may draw from it
    return {
        "default": get_rng_state(),
        "modules": {name: generator.get_state() for name, generator in _generators(task)},
        "python": [version, wrap(np.asarray(words, np.int64)), gauss],
        "numpy": [kind, wrap(np.array(key, np.int64)), *rest],
    }


def restore_random_state(task: Module, state: Tree) -> None:
    set_rng_state(state["default"])
    for name, generator in _generators(task):
        if name in state["modules"]:
            generator.set_state(state["modules"][name])
    version, words, gauss = state["python"]
    random.setstate((version, tuple(words.tolist()), gauss))
    kind, key, *rest = state["numpy"]
    np.random.set_state((kind, key.numpy().astype(np.uint32), *rest))  # noqa: NPY002


def _generators(task: Module) -> Iterable[tuple[str, Generator]]:
    for path, module in task.named_modules():
        for name, value in vars(module).items():
            if isinstance(value, Generator):
                yield f"{path}.{name}", value


# ------------------------------------------------------------------------------------------- loaders


def loader_state(loader: Any, batches: int) -> Tree | None:
    """Where a loader continues, `batches` of this epoch having been used; 0: at the next epoch."""
    if not hasattr(loader, "state_dict"):
        return None
    state = dict(loader.state_dict())
    given = state.get("batches_given", batches)
    if "by_worker" in state and batches and given != batches:
        return state  # a stream read by several workers cannot go back
    if batches == 0 and given:
        state["epoch"] += 1
        state |= {"by_worker": [0] * len(state["by_worker"])} if "by_worker" in state else {}
    return state | ({"batches_given": batches} if "batches_given" in state else {})


def check_same_model(task: Module, tree: Tree, path: Any) -> None:
    """Say clearly if the checkpoint is of another model."""
    own, saved = task.state_dict(keep_vars=True), tree["model"]
    if set(own) != set(saved):
        raise CheckpointFileError(
            f"{path}: the checkpoint is of another model: it lacks {sorted(set(own) - set(saved))[:5]} and has "
            f"{sorted(set(saved) - set(own))[:5]} more"
        )
    for name, value in own.items():
        cut = cut_of(value)
        shape = tuple(value.shape) if cut is None else cut.shape
        if isinstance(value, Tensor) and shape != tuple(saved[name].shape):
            raise OptionError(f"{path}: {name} has shape {tuple(saved[name].shape)} in the checkpoint, {shape} here")
