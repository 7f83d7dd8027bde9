"""What a gradient formula reads, found in its code, so that the tape saves that and nothing else."""

from __future__ import annotations

import dis
from collections.abc import Callable
from types import CodeType
from typing import Any

from ...dtypes import dtype
from ...sizes import Size
from ...tape.modes import switches
from ...tensor import Tensor

__all__ = ["DROP", "LOOK", "SAVE", "Meta", "formula_reads"]

_METADATA = frozenset("shape dtype ndim device dim size numel is_complex is_floating_point".split())


class Meta:
    """Stands for an input of which only the shape and type are remembered."""

    __slots__ = ("kind", "sizes")
    device = "cpu"

    def __init__(self, tensor: Tensor) -> None:
        try:
            seen = tensor if switches.interpreting else tensor.array  # who stands over it is told
        except AttributeError:  # a transform keeps its values to itself
            seen = tensor
        kind = seen.dtype
        self.sizes, self.kind = seen.shape, kind.np if kind.__class__ is dtype else kind

    @property
    def shape(self) -> Size:
        return Size(self.sizes)

    @property
    def dtype(self) -> dtype:
        return dtype.by_numpy[self.kind]

    @property
    def ndim(self) -> int:
        return len(self.sizes)

    def dim(self) -> int:
        return len(self.sizes)

    def size(self, dim: int | None = None) -> Any:
        return self.shape if dim is None else self.shape[dim]

    def numel(self) -> int:
        return self.shape.numel()

    def is_complex(self) -> bool:
        return self.dtype.is_complex

    def is_floating_point(self) -> bool:
        return self.dtype.is_floating_point


def _reads(code: CodeType) -> tuple[set[str], set[str]]:
    """Names whose value a piece of code reads, and names of which it reads only shape or type."""
    values: set[str] = set()
    metadata: set[str] = set()
    instructions = [i for i in dis.get_instructions(code) if i.opname not in ("CACHE", "EXTENDED_ARG")]
    for here, following in zip(instructions, [*instructions[1:], None], strict=True):
        if not here.opname.startswith(("LOAD_FAST", "LOAD_DEREF", "LOAD_CLASSDEREF")):
            continue
        names = here.argval if isinstance(here.argval, tuple) else (here.argval,)
        values.update(names[:-1])
        looks_only = (
            following is not None and following.opname in ("LOAD_ATTR", "LOAD_METHOD") and following.argval in _METADATA
        )
        (metadata if looks_only else values).add(names[-1])
    return values, metadata


def formula_reads(vjp: Callable, inputs: int) -> list[tuple[set[str], set[str]]]:
    """For each input: what `vjp` reads (values, metadata) to make the gradient of that input.

    When `vjp` returns one lambda for each input, only that lambda's reads count for it.
    """
    code = vjp.__code__
    values, metadata = _reads(code)
    lambdas = [c for c in code.co_consts if isinstance(c, CodeType)]
    inner = [_reads(c) for c in lambdas]
    for nested, c in zip(inner, lambdas, strict=True):
        for deeper in (k for k in c.co_consts if isinstance(k, CodeType)):
            more = _reads(deeper)
            nested[0].update(more[0])
            nested[1].update(more[1])
    if len(lambdas) == inputs and inputs > 0:
        return [(values | v, metadata | m) for v, m in inner]
    everything = (values.union(*(v for v, _ in inner)), metadata.union(*(m for _, m in inner)))
    return [everything] * inputs


SAVE, LOOK, DROP = "save", "look", None
