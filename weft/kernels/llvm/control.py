"""Control of the builder `Function`: loops, conditions, the share of a thread, barriers."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from ...runtime.native import HALT
from .values import Val

__all__ = ["Control"]


class Loop:
    """A counting loop being written: `i` is its counter, `carry` the values that go round.

    Call `next(values)` in the body with what the next round starts from; after the loop `results` are the last ones.
    """

    def __init__(self, i: Val, carry: list[Val]) -> None:
        self.i, self.carry, self.results = i, carry, carry
        self.following: list[Val] | None = None

    def next(self, values: Sequence[Val]) -> None:
        self.following = list(values)


class Control:
    """Blocks and the branches between them; the builder `Function` supplies the instructions."""

    @contextmanager
    def loop(self, lo: Any, hi: Any, step: Any = 1, carry: Sequence[Val] = (), runs: bool = False) -> Iterator[Loop]:
        """for i in range(lo, hi, step), step > 0; `runs`: the loop is known to run at least once."""
        lo, hi, step = self.index(lo), self.index(hi), self.index(step)
        before = self.block
        head, body, after = self.fresh("head"), self.fresh("body"), self.fresh("after")
        self.do(f"br label %{head}")
        self.label(head)
        counter = Val(self, "%" + self.fresh("i"), "i64")
        loop = Loop(counter, [Val(self, "%" + self.fresh("c"), v.kind, v.lanes) for v in carry])
        place = len(self.lines)
        if not runs:
            going = self.compare("lt", counter, hi)
            self.do(f"br {going.typed}, label %{body}, label %{after}")
            self.label(body)
        yield loop
        following = loop.following if loop.following is not None else loop.carry
        latch = self.block
        advanced = self.emit(f"add nsw i64 {counter.ir}, {step.ir}", "i64")
        phis = [f"  {counter.ir} = phi i64 [{lo.ir}, %{before}], [{advanced.ir}, %{latch}]"]
        for old, start, new in zip(loop.carry, carry, following, strict=True):
            phis.append(f"  {old.ir} = phi {old.type} [{start.ir}, %{before}], [{new.ir}, %{latch}]")
        self.lines[place:place] = phis
        if runs:
            going = self.compare("lt", advanced, hi)
            self.do(f"br {going.typed}, label %{head}, label %{after}")
            loop.results = following
        else:
            self.do(f"br label %{head}")
        self.label(after)

    @contextmanager
    def when(self, condition: Val) -> Iterator[None]:
        """if condition: …"""
        yes, after = self.fresh("then"), self.fresh("after")
        self.do(f"br {condition.typed}, label %{yes}, label %{after}")
        self.label(yes)
        yield
        self.do(f"br label %{after}")
        self.label(after)

    @property
    def branches(self) -> bool:
        """Whether there may be branches here: not in what runs at the start, before blocks that are written already."""
        return self.lines is not self.prologue

    def unless(self, rare: Val, usual: Sequence[Val], write: Callable[[Sequence[Val]], Sequence[Val]]) -> list[Val]:
        """The usual values, or those that `write` makes of them where a condition that rarely holds does so in some lane."""
        before, yes, after = self.block, self.fresh("rare"), self.fresh("after")
        some = rare if rare.lanes == 1 else self.call(f"llvm.vector.reduce.or.v{rare.lanes}i1", "i1", 1, rare)
        self.do(f'br {some.typed}, label %{yes}, label %{after}, !prof !{{!"branch_weights", i32 1, i32 2000}}')
        self.label(yes)
        others = write(usual)
        last = self.block
        self.do(f"br label %{after}")
        self.label(after)
        return [
            self.emit(f"phi {a.type} [{a.ir}, %{before}], [{b.ir}, %{last}]", a.kind, a.lanes)
            for a, b in zip(usual, others, strict=True)
        ]

    def split(self, count: int, grain: int = 1) -> tuple[Val, Val]:
        """The part [lo, hi) of range(count) that this thread works on, in whole grains."""
        units = -(-count // grain)
        lo = (self.tid * units) // self.nt
        hi = ((self.tid + 1) * units) // self.nt
        if grain == 1:
            return lo, hi
        lo, hi = lo * grain, hi * grain
        if count % grain:
            hi = self.intrinsic("smin", hi, count)
        return lo, hi

    def fence(self) -> None:
        """What was written past the caches is seen by others from here on."""
        self.do("fence seq_cst")

    def halt(self) -> None:
        """Let the plan end at its next step that may be the last."""
        place = self.emit(f"getelementptr i8, ptr %ctx, i64 {HALT}", "ptr")
        self.do(f"store atomic i64 1, {place.typed} monotonic, align 8")

    def barrier(self) -> None:
        """Wait until every thread is here."""
        self.do("call void @barrier(ptr %ctx, i64 %tid, i64 %nt)")
