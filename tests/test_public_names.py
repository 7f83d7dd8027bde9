"""Public names stay: none of those in tests/public_names.json may disappear from its module or class.

python -m tests.test_public_names    add new names to the list; it removes none, that is done by hand and on purpose
"""

from __future__ import annotations

import functools
import importlib
import inspect
import json
import pathlib
import sys
import types
from typing import Any, TypeVar

import pytest

import weft
from weft.ops.core.primitive import OPERATIONS

LISTED = pathlib.Path(__file__).with_name("public_names.json")
PLACES = """
    weft weft.Tensor weft.array_api weft.array_api.fft weft.array_api.linalg weft.autograd weft.autograd.Function
    weft.autograd.forward_ad weft.autograd.function weft.autograd.functional weft.autograd.graph weft.backends
    weft.compiler weft.cuda weft.data weft.data.augment weft.data.sources weft.data.synthetic weft.data.text
    weft.distributed weft.distributions weft.distributions.Distribution weft.distributions.constraints weft.distributions.kl
    weft.distributions.transforms weft.distributions.utils weft.errors weft.fft weft.func weft.graphs weft.graphs.nn weft.inspect weft.integrate weft.io
    weft.linalg weft.masked weft.metrics weft.models weft.models.graphs weft.models.supervised weft.nn weft.nn.Module weft.nn.functional
    weft.nn.init weft.nn.parallel weft.nn.utils weft.nn.utils.clip_grad weft.nn.utils.parametrizations weft.nn.utils.parametrize
    weft.nn.utils.rnn weft.onnx weft.optim weft.optim.Optimizer weft.optim.lr_scheduler weft.optim.swa_utils
    weft.random weft.recipes weft.signal.windows weft.sklearn weft.sparse weft.special weft.testing
    weft.train weft.train.Trainer weft.train.callbacks weft.train.methods weft.utils.checkpoint
    weft.utils.data weft.utils.pytree
""".split()


@pytest.mark.parametrize("place", PLACES)
def test_no_public_name_is_gone(place):
    listed = set(json.loads(LISTED.read_text())[place])
    assert sorted(listed - set(public_names(place))) == []


def test_every_list_is_compared():
    assert sorted(json.loads(LISTED.read_text())) == sorted(PLACES)


def public_names(place: str) -> list[str]:
    """What a user may take from a module or class: no submodules, nothing that only its own code needs."""
    owner = found(place)
    names = [name for name in {*dir(owner), *getattr(owner, "__all__", ())} if not name.startswith("_")]
    return sorted(name for name in names if inspect.isclass(owner) or _is_offered(owner, name))


def found(place: str) -> Any:
    """`weft.nn.Module` (say) as a user reaches it: by attributes, or by the import of a module."""
    try:
        return functools.reduce(getattr, place.split(".")[1:], weft)
    except AttributeError:
        return importlib.import_module(place)


def _is_offered(module: types.ModuleType, name: str) -> bool:
    value = getattr(module, name)
    if inspect.ismodule(value) or isinstance(value, TypeVar):
        return False
    home = getattr(value, "__module__", None) or ""
    if home == module.__name__ or f"{module.__name__}.{name}" in {f"weft.{entry}" for entry in OPERATIONS}:
        return True
    if hasattr(module, "__all__"):
        return name in module.__all__
    gathers = hasattr(module, "__path__") or not hasattr(module, "__file__")  # what other files define is offered here
    return gathers and (home.startswith("weft") or not home)


def _write() -> None:
    before = json.loads(LISTED.read_text()) if LISTED.exists() else {}
    names = {place: sorted({*before.get(place, ()), *public_names(place)}) for place in PLACES}
    LISTED.write_text(json.dumps(names, indent=1) + "\n")
    print(f"{LISTED.name}: {sum(map(len, names.values()))} names in {len(names)} places")


if __name__ == "__main__":
    sys.exit(_write())
