"""Pointwise code inside kernels: a DAG of elementwise operations with loads and stores at the current index.

An index space has some axes; the last index given is that of lane 0, and lanes run along one of the axes. `Access` says
where element (i₀, i₁, …) of a buffer lies: Σ iₐ · strideₐ elements from the address in its argument word.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from .llvm.builder import Function
from .llvm.values import Val

__all__ = ["Access", "Body", "Step", "run_step"]


@dataclass(frozen=True)
class Access:
    """Argument word `arg` read or written as type `kind`, with a stride (in elements) for each axis of the space."""

    arg: int
    kind: str
    strides: tuple[int, ...]

    def place(self, f: Function, index: Sequence[Any]) -> Any:
        """Σ iₐ strideₐ."""
        known, total = 0, None
        for i, stride in zip(index, self.strides, strict=True):
            if stride == 0:
                continue
            if isinstance(i, int):
                known += i * stride
                continue
            part = i if stride == 1 else i * stride
            total = part if total is None else total + part
        if total is None:
            return known
        return total + known if known else total

    def load(self, f: Function, index: Sequence[Any], axis: int, lanes: int = 1, mask: Val | None = None) -> Val:
        """The element at `index`; with several lanes, those along `axis` (one lane if it does not vary there)."""
        stride = self.strides[axis] if self.strides else 0
        wide = lanes if stride else 1
        return f.load(f.arg(self.arg), self.place(f, index), self.kind, wide, mask if wide > 1 else None, stride or 1)

    def store(
        self,
        f: Function,
        value: Val,
        index: Sequence[Any],
        axis: int,
        lanes: int,
        mask: Val | None,
        past: bool = False,
    ) -> None:
        stride = self.strides[axis] if self.strides else 0
        value, place = f.splat(value, lanes), self.place(f, index)
        f.store(value, f.arg(self.arg), place, mask if lanes > 1 else None, stride or 1, past)


@dataclass(frozen=True)
class Step:
    """One operation: `op.lower(f, *operands, **params)` on earlier results, numbered on from the loads and givens.

    `kind` is the type of the result and `work` the type the operands are converted to first (None: as they are).
    """

    op: Any
    operands: tuple[int, ...]
    kind: str
    work: str | None
    params: tuple[tuple[str, Any], ...] = ()

    def key(self) -> str:
        return f"{self.op.title}{self.operands}{self.kind}{self.work}{self.params}"


@dataclass(frozen=True)
class Body:
    """Values are numbered: first the `given` ones (accumulators of the kernel around it), then constants, then
    loads, then steps. `stores` writes values."""

    given: tuple[str, ...] = ()
    constants: tuple[tuple[str, float], ...] = ()
    loads: tuple[Access, ...] = ()
    steps: tuple[Step, ...] = ()
    stores: tuple[tuple[Access, int], ...] = ()
    _key: list[str] = field(default_factory=list, compare=False, hash=False, repr=False)

    def key(self) -> str:
        if not self._key:
            steps = ";".join(s.key() for s in self.steps)
            constants = ",".join(f"{k}:{v!r}" for k, v in self.constants)
            self._key.append(f"{self.given}|{constants}|{self.loads}|{steps}|{self.stores}")
        return self._key[0]

    def emit(
        self,
        f: Function,
        index: Sequence[Any],
        axis: int,
        lanes: int = 1,
        mask: Val | None = None,
        given: Sequence[Val] = (),
        known: Mapping[int, Val] | None = None,
    ) -> list[Val]:
        """Compute at one index (or `lanes` of them along `axis`, those of `mask` only) and store.

        `known` gives values of loads that the kernel has in registers already. Returns all values by number.
        """
        uniform = self.uniform(f)
        values: list[Val] = list(given)
        values += [f.const(kind, value) for kind, value in self.constants]
        for access in self.loads:
            number = len(values)
            if known and number in known:
                values.append(known[number])
            elif number in uniform:
                values.append(uniform[number])
            else:
                values.append(access.load(f, index, axis, lanes, mask))
        for step in self.steps:
            number = len(values)
            values.append(uniform[number] if number in uniform else run_step(f, step, values))
        for access, number in self.stores:
            access.store(f, values[number], index, axis, lanes, mask)
        return values

    def uniform(self, f: Function) -> dict[int, Val]:
        """The loads and steps that are the same at every index, computed once at the start of the function."""
        found = f.uniform.get(id(self))
        if found is not None:
            return found
        found = f.uniform[id(self)] = {}
        stored = {access.arg for access, _ in self.stores}
        with f.at_start():
            values: dict[int, Val] = {
                len(self.given) + n: f.const(kind, value) for n, (kind, value) in enumerate(self.constants)
            }
            for number, access in enumerate(self.loads, len(self.given) + len(self.constants)):
                if not any(access.strides) and access.arg not in stored:
                    values[number] = found[number] = f.load(f.arg(access.arg), 0, access.kind)
            for number, step in enumerate(self.steps, len(self.given) + len(self.constants) + len(self.loads)):
                if all(i in values for i in step.operands):
                    values[number] = found[number] = run_step(f, step, values)
        return found


def run_step(f: Function, step: Step, values: Any) -> Val:
    """The value of one step from those before it."""
    operands = [values[i] if step.work is None else f.cast(values[i], step.work) for i in step.operands]
    return f.cast(step.op.lower(f, *operands, **dict(step.params)), step.kind)
