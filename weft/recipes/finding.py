"""Where recipes are found, and what each promises, read from its file.

To import every recipe, with its model and all that trains it, takes a second and more; a list of them should not.
"""

from __future__ import annotations

import ast
import functools
import importlib
import importlib.util
import pkgutil
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..errors import OptionError
from .goal import Goal
from .settings import suggestion

if TYPE_CHECKING:
    from .base import Recipe

__all__ = ["Promise", "family", "get", "names", "promise"]

# A recipe lies in the folder of its family.
ROOMS = (
    *("classical", "vision", "text", "sequences", "energy", "autoregressive", "autoencoders", "variational", "flows"),
    *("adversarial", "diffusion", "graphs", "fewlabels"),
)
# Modules of these that are no recipes.
SUPPORT = (
    *("bits", "citations", "codes", "digits", "few_images", "grey", "images", "links", "molecules", "pixels", "plane"),
    *("unlabelled", "words"),
)


@dataclass(frozen=True)
class Promise:
    """What a list says of a recipe: its title, the figure that it must reach (`accuracy ≥ 0.97`), and on which data."""

    name: str
    title: str
    goal: str
    data: str


def names() -> list[str]:
    """The names of all recipes, in alphabetical order; nothing is imported for that."""
    return sorted(_rooms())


def family(name: str) -> str:
    """The family of a recipe: the folder it lies in."""
    return _rooms()[name.replace("_", "-")]


@functools.cache
def _rooms() -> dict[str, str]:
    """The name of each recipe, and the folder it lies in."""
    here = Path(__file__).parent
    found = ((room, module.name) for room in ROOMS for module in pkgutil.iter_modules([str(here / room)]))
    return {name.replace("_", "-"): room for room, name in found if name not in SUPPORT}


def get(name: str) -> Recipe:
    """The recipe of this name (dashes or underscores)."""
    known = names()
    if name.replace("_", "-") not in known:
        raise OptionError(f"there is no recipe {name!r}; {suggestion(name.replace('_', '-'), known)}")
    return importlib.import_module(_module(name)).recipe


def promise(name: str) -> Promise:
    """Title and goal of a recipe: read from its file where they are written out there, else asked of the recipe."""
    title, goal = _written(name) or (get(name).title, get(name).goal)
    return Promise(name, title, goal.bound, goal.data)


def _module(name: str) -> str:
    return f"{__package__}.{family(name)}.{name.replace('-', '_')}"


def _written(name: str) -> tuple[str, Goal] | None:
    """Title and goal (without its baseline) of the class in a recipe's file that has both as literals."""
    spec = importlib.util.find_spec(_module(name))
    source = spec.loader.get_source(spec.name) if spec else None
    for body in _classes(source or ""):
        try:
            given = {key: ast.literal_eval(value) for key, value in _arguments(body["goal"])}
            return ast.literal_eval(body["title"]), Goal(**given)
        except (KeyError, ValueError):  # it has none, or they are computed
            continue
    return None


def _classes(source: str) -> Iterator[dict[str, ast.expr]]:
    """What each class of a file sets."""
    for node in ast.parse(source).body:
        if isinstance(node, ast.ClassDef):
            plain = (step for step in node.body if isinstance(step, ast.Assign))
            yield {target.id: step.value for step in plain for target in step.targets if isinstance(target, ast.Name)}


def _arguments(call: Any) -> Iterator[tuple[str, ast.expr]]:
    """Arguments of `Goal(metric, …)` that a promise tells."""
    if not isinstance(call, ast.Call) or len(call.args) != 1:
        raise ValueError(call)
    yield "metric", call.args[0]
    yield from ((word.arg, word.value) for word in call.keywords if word.arg in ("at_least", "at_most", "data"))
