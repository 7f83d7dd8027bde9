"""The table of operators: (domain, name) → rules by the opset from which they hold, and how a rule is called.

A rule is a function of an operator's inputs, with its attributes as keyword arguments under ONNX's names. Values are
tensors, or NumPy arrays where they are known without computing (shapes and what follows from them, constants, strings,
8-bit floats), or lists for sequences. A rule sees tensors, except for the inputs that it asks for as `numbers`; a `raw` rule
sees what there is. Operators whose inputs are all known are computed at once, also while a function is traced, so that sizes
stay numbers in compiled code.
"""

from __future__ import annotations

import contextlib
import inspect
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ...dtypes import dtype
from ...tape.modes import mode
from ...tensor import Tensor, wrap

__all__ = ["RULES", "Rule", "as_array", "as_tensor", "concretely", "find", "ints", "known", "newest", "plain", "rule"]

NEWEST = 28  # the opset that the table was written for


@dataclass(frozen=True)
class Rule:
    """How one operator is computed from some opset on."""

    function: Callable[..., Any]
    since: int
    numbers: frozenset[int]  # inputs that are wanted as NumPy arrays
    fixed: frozenset[int]  # inputs that are settings, not weights, though they are floats
    raw: bool  # it takes values as they are
    options: frozenset[str]
    counts: bool  # it wants to know how many outputs are asked for

    def __call__(self, inputs: Sequence[Any], options: dict[str, Any]) -> tuple[Any, ...]:
        """The outputs for these inputs."""
        if self.raw:
            return _several(self.function(*inputs, **options))
        if inputs and all(x is None or known(x) for x in inputs):
            with concretely():
                found = _several(self.function(*self._given(inputs), **options))
                return tuple(x.array if isinstance(x, Tensor) else x for x in found)
        return _several(self.function(*self._given(inputs), **options))

    def _given(self, inputs: Sequence[Any]) -> list[Any]:
        return [
            x if x is None else as_array(x) if position in self.numbers else as_tensor(x)
            for position, x in enumerate(inputs)
        ]


def _several(found: Any) -> tuple[Any, ...]:
    return found if isinstance(found, tuple) else (found,)


RULES: dict[tuple[str, str], list[Rule]] = {}


def rule(
    name: str,
    since: int = 1,
    *,
    domain: str = "",
    numbers: Sequence[int] = (),
    fixed: Sequence[int] = (),
    raw: bool = False,
) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Enter a function into the table, for the operators (several names may be given) from an opset on."""

    def enter(function: Callable[..., Any]) -> Callable[..., Any]:
        given = inspect.signature(function).parameters.values()
        options = frozenset(p.name for p in given if p.kind is p.KEYWORD_ONLY)
        made = Rule(
            function,
            since,
            frozenset(numbers),
            frozenset(fixed) | frozenset(numbers),
            raw,
            options,
            "outputs" in options,
        )
        for word in name.split():
            held = RULES.setdefault((domain, word), [])
            held.append(made)
            held.sort(key=lambda r: r.since)
        return function

    return enter


def find(domain: str, name: str, version: int) -> Rule | None:
    """The rule that holds at an opset: the newest that is not newer."""
    fitting = [r for r in RULES.get((domain, name), ()) if r.since <= version]
    return fitting[-1] if fitting else None


def newest() -> int:
    """The opset that the table knows everything up to."""
    return NEWEST


# ---------------------------------------------------------------------------------------------- values


def known(x: Any) -> bool:
    """Whether a value is there without computing, in an element type that tensors have."""
    return isinstance(x, np.ndarray) and x.dtype in dtype.by_numpy


def plain(x: Any) -> bool:
    """Whether a value is a tensor or can be one."""
    return isinstance(x, Tensor) or known(x)


def as_tensor(x: Any) -> Any:
    """A tensor of a known value; tensors, lists and strings as they are."""
    return wrap(x) if known(x) else x


def as_array(x: Any) -> np.ndarray:
    """The numbers of a value; of one that is computed, Python asks for them here."""
    return np.asarray(x.tolist(), x.dtype.np).reshape(tuple(x.shape)) if isinstance(x, Tensor) else np.asarray(x)


def ints(x: Any) -> list[int]:
    """Sizes, axes and the like as Python's numbers."""
    found = as_array(x).reshape(-1).tolist()
    return [int(n) for n in found]


@contextlib.contextmanager
def concretely() -> Iterator[None]:
    """Compute at once, also while a function is traced."""
    held = mode.interpreter
    mode.give_to(None)
    try:
        yield
    finally:
        mode.give_to(held)
