"""What ranks of one machine tell each other from inside a plan: that data are there, and that they wait for those of others.

Words that differ from run to run are filled by the plan (compiler/plan/meetings.py): `meeting` of them follow the operands
and results.
"""

from __future__ import annotations

from ...runtime.native import NAP_MICROSECONDS, YIELD
from ..kernel import Kernel
from ..llvm.builder import Function
from ..llvm.values import Val

__all__ = ["Await", "Meet", "Publish"]

LOOKS = 4000  # at the slot of another rank before the processor is given to others in between,
YIELDS = 400  # times that it is given, and after that
NAPS = 1600  # naps until Python is asked to look who is missing: about a quarter of a second


class Publish(Kernel):
    """(x, token) → (sent, token + 1): x lies where other ranks see it, or is copied there; then the slot of the call says so.

    Further words: where x belongs, the slot, what it will hold.
    """

    meeting = 3

    def __init__(self, nbytes: int) -> None:
        self.nbytes = self.count = nbytes

    def key(self) -> str:
        return f"Publish {self.count}"

    def emit(self, f: Function) -> None:
        here, there = (f.emit(f"ptrtoint {f.arg(k).typed} to i64", "i64") for k in (0, 4))
        with f.when(here.ne(there)):
            words = self.count // 8
            low, high = f.split(words, 8)
            with f.loop(low, high) as loop:
                f.store(f.load(f.arg(0), loop.i, "i64"), f.arg(4), loop.i)
            with f.when(f.tid.eq(0)), f.loop(8 * words, self.count) as loop:
                f.store(f.load(f.arg(0), loop.i, "u8"), f.arg(4), loop.i)
        f.barrier()
        with f.when(f.tid.eq(0)):
            f.store(f.const("i64", 0), f.arg(2), 0)
            f.store(f.load(f.arg(1), 0, "i64") + 1, f.arg(3), 0)
            f.do(f"store atomic i64 {f.number(6).ir}, {f.arg(5).typed} release, align 8")


class Await(Kernel):
    """sent → what each rank has put up, which lies there: waits until the slots of all ranks hold what is expected.

    If that takes long, or another call stands there, the plan ends behind this step, and Python looks after it.
    Further words: the slots of all ranks, what they will hold, the function that naps, where to tell that the plan has
    ended, and what to tell there.
    """

    def __init__(self, ranks: int) -> None:
        self.ranks, self.meeting = ranks, ranks + 4

    def key(self) -> str:
        return f"Await {self.ranks}"

    def emit(self, f: Function) -> None:
        first = 1 + self.ranks  # behind `sent` and the results
        wanted, nap = f.number(first + self.ranks), f.arg(first + self.ranks + 1)
        f.barrier()  # nobody ends the plan here before all have been asked whether it ended earlier
        slot = f.emit(f"getelementptr i8, ptr %ctx, i64 {YIELD}", "ptr")
        give = f.emit(f"load ptr, {slot.typed}", "ptr")
        for k in range(self.ranks):
            self._one(f, f.arg(first + k), wanted, nap, give)
        f.do("br label %there")
        f.label("late")
        f.halt()
        f.do(
            f"store atomic i64 {f.number(first + self.ranks + 3).ir}, {f.arg(first + self.ranks + 2).typed} monotonic, align 8"
        )
        f.do("br label %there")
        f.label("there")

    def _one(self, f: Function, slot: Val, wanted: Val, nap: Val, give: Val) -> None:
        """Until one slot holds what is expected."""
        n = f.fresh("look")
        before = f.block
        f.do(f"br label %{n}")
        f.label(n)
        f.do(f"%{n}.count = phi i64 [ 0, %{before} ], [ %{n}.next, %{n}.rest ]")
        f.do(f"%{n}.seen = load atomic i64, {slot.typed} acquire, align 8")
        f.do(f"%{n}.same = icmp eq i64 %{n}.seen, {wanted.ir}")
        f.do(f"br i1 %{n}.same, label %{n}.done, label %{n}.wait")
        f.label(f"{n}.wait")
        f.do(f"%{n}.their = ashr i64 %{n}.seen, 32")
        f.do(f"%{n}.our = ashr i64 {wanted.ir}, 32")
        f.do(f"%{n}.past = icmp sge i64 %{n}.their, %{n}.our")
        f.do(f"br i1 %{n}.past, label %late, label %{n}.before")
        f.label(f"{n}.before")
        f.do(f"%{n}.next = add i64 %{n}.count, 1")
        f.do(f"%{n}.short = icmp slt i64 %{n}.next, {LOOKS}")
        f.do(f"br i1 %{n}.short, label %{n}.rest, label %{n}.long")
        f.label(f"{n}.long")
        f.do(f"%{n}.middle = icmp slt i64 %{n}.next, {LOOKS + YIELDS}")
        f.do(f"br i1 %{n}.middle, label %{n}.give, label %{n}.sleep")
        f.label(f"{n}.give")
        f.do(f"%{n}.r = call i32 {give.ir}()")
        f.do(f"br label %{n}.rest")
        f.label(f"{n}.sleep")
        f.do(f"%{n}.over = icmp sgt i64 %{n}.next, {LOOKS + YIELDS + NAPS}")
        f.do(f"br i1 %{n}.over, label %late, label %{n}.nap")
        f.label(f"{n}.nap")
        f.do(f"call void {nap.ir}(i32 {NAP_MICROSECONDS})")
        f.do(f"br label %{n}.rest")
        f.label(f"{n}.rest")
        f.do(f"br label %{n}")
        f.label(f"{n}.done")


class Meet(Kernel):
    """Nothing: threads that have been asked whether the plan ends go on together from here."""

    def key(self) -> str:
        return "Meet"

    def emit(self, f: Function) -> None:
        """No instruction."""
