"""Where threads meet: the native function @barrier(ptr %ctx, i64 %tid, i64 %nt), as LLVM text for a processor family.

A few threads look at each other's counts, which lie in the context (native.py). From MANY threads on they go by rounds: in
round r thread t tells thread t + 2ʳ that it and all that it has heard of are there, and waits to be told by thread t − 2ʳ;
after log₂ n rounds everybody has heard of everybody, each having read as many lines as there are rounds.
"""

from __future__ import annotations

import platform

__all__ = ["BARRIER_IR", "PAUSE_CALL", "barrier_ir", "family"]

MANY, MOST = 5, 256  # threads from which a barrier goes by rounds, and up to which: the words of a line

_FAMILIES = {"amd64": "x86_64", "arm64": "aarch64", "x86-64": "x86_64", "x64": "x86_64"}


def family(machine: str) -> str:
    """One name for each processor family."""
    return _FAMILIES.get(machine.lower(), machine.lower())


_PAUSE = {  # one short wait inside a spinning loop
    "x86_64": "declare void @llvm.x86.sse2.pause()",
    "aarch64": "declare void @llvm.aarch64.hint(i32)",
}
PAUSE_CALL = {"x86_64": "call void @llvm.x86.sse2.pause()", "aarch64": "call void @llvm.aarch64.hint(i32 1)"}


_BARRIER = """
{pause}
define internal void @barrier(ptr %ctx, i64 %tid, i64 %nt) nounwind {{
entry:
  %alone = icmp eq i64 %nt, 1
  br i1 %alone, label %done, label %arrive
arrive:
  %counts = getelementptr i8, ptr %ctx, i64 256
  %own = shl i64 %tid, 6
  %mine = getelementptr i8, ptr %counts, i64 %own
  %before = load atomic i64, ptr %mine monotonic, align 64
  %reached = add i64 %before, 1
  %beyond = sub i64 %nt, {many}
  %rounds = icmp ult i64 %beyond, {range}
  br i1 %rounds, label %round, label %here
round:
  %number = phi i64 [ 0, %arrive ], [ %number.next, %told ]
  %distance = phi i64 [ 1, %arrive ], [ %distance.next, %told ]
  %word = getelementptr i64, ptr %mine, i64 %number
  store atomic i64 %reached, ptr %word release, align 8
  %back = sub i64 %tid, %distance
  %wraps = icmp slt i64 %back, 0
  %turned = add i64 %back, %nt
  %from = select i1 %wraps, i64 %turned, i64 %back
  %from.offset = shl i64 %from, 6
  %from.line = getelementptr i8, ptr %counts, i64 %from.offset
  %from.word = getelementptr i64, ptr %from.line, i64 %number
  br label %listen
listen:
  %listens = phi i64 [ 0, %round ], [ %listens.next, %pausing ], [ 0, %giving ]
  %heard = load atomic i64, ptr %from.word acquire, align 8
  %enough = icmp sge i64 %heard, %reached
  br i1 %enough, label %told, label %waiting
waiting:
  %listens.next = add i64 %listens, 1
  %lasting = icmp sgt i64 %listens.next, 200
  br i1 %lasting, label %giving, label %pausing
pausing:
  {pause_call}
  br label %listen
giving:
  %giving.slot = getelementptr i8, ptr %ctx, i64 208
  %giving.yield = load ptr, ptr %giving.slot
  %given = call i32 %giving.yield()
  br label %listen
told:
  %number.next = add i64 %number, 1
  %distance.next = shl i64 %distance, 1
  %further = icmp slt i64 %distance.next, %nt
  br i1 %further, label %round, label %done
here:
  store atomic i64 %reached, ptr %mine release, align 64
  br label %other
other:
  %t = phi i64 [ 0, %here ], [ %t.next, %passed ]
  %offset = shl i64 %t, 6
  %theirs = getelementptr i8, ptr %counts, i64 %offset
  br label %spin
spin:
  %spins = phi i64 [ 0, %other ], [ %spins.next, %rest ], [ 0, %give ]
  %count = load atomic i64, ptr %theirs acquire, align 64
  %there = icmp sge i64 %count, %reached
  br i1 %there, label %passed, label %wait
wait:
  %spins.next = add i64 %spins, 1
  %long = icmp sgt i64 %spins.next, 200
  br i1 %long, label %give, label %rest
rest:
  {pause_call}
  br label %spin
give:
  %yield.slot = getelementptr i8, ptr %ctx, i64 208
  %yield = load ptr, ptr %yield.slot
  %r = call i32 %yield()
  br label %spin
passed:
  %t.next = add i64 %t, 1
  %more = icmp slt i64 %t.next, %nt
  br i1 %more, label %other, label %done
done:
  ret void
}}
"""


def barrier_ir(machine: str = platform.machine()) -> str:
    """The definition of @barrier(ptr %ctx, i64 %tid, i64 %nt) for a processor family."""
    name = family(machine)
    bounds = {"many": MANY, "range": MOST - MANY + 1}
    return _BARRIER.format(pause=_PAUSE.get(name, ""), pause_call=PAUSE_CALL.get(name, ""), **bounds)


BARRIER_IR = barrier_ir()
