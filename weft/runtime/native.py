"""Everything that depends on processor and operating system: how threads wait, spin, sleep, tell time and round.

The native side of the pool is written here as LLVM IR. Its functions share a block of memory, the context, one cache
line for each purpose; addresses of system functions come through it, so that no object code asks the linker for a name:

    0    generation (i32): counts launches, workers sleep on it
    64   plan, 80 stop, 88 halt: a kernel wants the plan to end early, 96 how the caller rounds
    128  sleepers (i32): workers that must be woken
    192  number of threads, 200 spins before sleep, 208 yield, 216 wait, 224 wake
    256  barriers that thread 0 has reached, and from the second word on what it has heard of others; thread t's lie 64 t further

A plan is a count and so many steps of four words: function, arguments, flags, label. Bit 0 of the flags asks for a
barrier after the step, bit 1 lets the plan end behind that barrier if `halt` was set before it (no kernel may set it
afterwards: every thread must read the same). Bits 8 to 31 are 0 for a step of all threads, or 1 + t for a step that thread
t (modulo their number) does alone, called as thread 0 of 1; the bits from 32 on say how many from t on do it together,
called as threads 0, 1, … of so many.
"""

from __future__ import annotations

import ctypes
import dataclasses
import platform

import numpy as np

from .barrier import BARRIER_IR, PAUSE_CALL, barrier_ir, family

__all__ = [
    "BARRIER_IR",
    "Waiting",
    "barrier_ir",
    "for_one_thread",
    "runtime_ir",
    "step_flags",
    "waiting",
    "yield_address",
]

CONTEXT_BYTES = 256
HALT, MODE, YIELD = 88, 96, 208  # where in the context
LINE = 64
SPINS_BEFORE_SLEEP = 20_000

# ---------------------------------------------------------------- processors

_TICKS = {  # a counter of constant rate
    "x86_64": "declare i64 @llvm.readcyclecounter()",
    "aarch64": "declare i64 @llvm.readsteadycounter()",
}
_TICKS_CALL = {"x86_64": "call i64 @llvm.readcyclecounter()", "aarch64": "call i64 @llvm.readsteadycounter()"}

_MODES = {  # how numbers are rounded, and whether denormal ones are taken as zero: of the thread that asks
    "x86_64": """
declare void @llvm.x86.sse.stmxcsr(ptr)
declare void @llvm.x86.sse.ldmxcsr(ptr)
define internal i64 @number_mode() nounwind {
  %slot = alloca i32
  call void @llvm.x86.sse.stmxcsr(ptr %slot)
  %mode = load i32, ptr %slot
  %wide = zext i32 %mode to i64
  ret i64 %wide
}
define internal void @set_number_mode(i64 %wide) nounwind {
  %slot = alloca i32
  %mode = trunc i64 %wide to i32
  store i32 %mode, ptr %slot
  call void @llvm.x86.sse.ldmxcsr(ptr %slot)
  ret void
}
""",
    "aarch64": """
declare i64 @llvm.aarch64.get.fpcr()
declare void @llvm.aarch64.set.fpcr(i64)
define internal i64 @number_mode() nounwind {
  %mode = call i64 @llvm.aarch64.get.fpcr()
  ret i64 %mode
}
define internal void @set_number_mode(i64 %mode) nounwind {
  call void @llvm.aarch64.set.fpcr(i64 %mode)
  ret void
}
""",
}
_NO_MODES = """
define internal i64 @number_mode() nounwind {
  ret i64 0
}
define internal void @set_number_mode(i64 %mode) nounwind {
  ret void
}
"""

# ---------------------------------------------------------------- operating systems


@dataclasses.dataclass(frozen=True)
class Waiting:
    """How a worker sleeps until the generation changes, and how sleepers are woken."""

    ir: str
    wait: int = 0
    wake: int = 0


_FUTEX_NUMBER = {"x86_64": 202, "aarch64": 98, "riscv64": 98, "loongarch64": 98, "ppc64le": 221, "s390x": 238}

_FUTEX = """
define internal void @wait(ptr %ctx, ptr %how, i32 %seen) nounwind {{
  %value = zext i32 %seen to i64
  %r = call i64 (i64, ...) %how(i64 {number}, ptr %ctx, i64 128, i64 %value, ptr null, ptr null, i64 0)
  ret void
}}
define internal void @wake(ptr %ctx, ptr %how) nounwind {{
  %r = call i64 (i64, ...) %how(i64 {number}, ptr %ctx, i64 129, i64 2147483647, ptr null, ptr null, i64 0)
  ret void
}}
"""

_ULOCK = """
define internal void @wait(ptr %ctx, ptr %how, i32 %seen) nounwind {
  %value = zext i32 %seen to i64
  %r = call i32 %how(i32 1, ptr %ctx, i64 %value, i32 0)
  ret void
}
define internal void @wake(ptr %ctx, ptr %how) nounwind {
  %r = call i32 %how(i32 257, ptr %ctx, i64 0)
  ret void
}
"""

_WAIT_ON_ADDRESS = """
define internal void @wait(ptr %ctx, ptr %how, i32 %seen) nounwind {
  %slot = alloca i32
  store i32 %seen, ptr %slot
  %r = call i32 %how(ptr %ctx, ptr %slot, i64 4, i32 -1)
  ret void
}
define internal void @wake(ptr %ctx, ptr %how) nounwind {
  call void %how(ptr %ctx)
  ret void
}
"""

_NAP = """
define internal void @wait(ptr %ctx, ptr %how, i32 %seen) nounwind {{
  call void %how(i32 {time})
  ret void
}}
define internal void @wake(ptr %ctx, ptr %how) nounwind {{
  ret void
}}
"""


def _address(library: ctypes.CDLL, name: str) -> int:
    return ctypes.cast(getattr(library, name), ctypes.c_void_p).value or 0


# What code that naps tells the function of `napping`: microseconds, on Windows milliseconds.
NAP_MICROSECONDS = 1 if platform.system() == "Windows" else 50


def napping(system: str = platform.system()) -> Waiting:
    """A way that every system has: look at the generation once in a millisecond."""
    if system == "Windows":
        return Waiting(_NAP.format(time=1), _address(ctypes.windll.kernel32, "Sleep"))
    return Waiting(_NAP.format(time=1000), _address(ctypes.CDLL(None), "usleep"))


def waiting(system: str = platform.system(), machine: str = platform.machine()) -> Waiting:
    """The system's own way to sleep on a word of memory, or `napping` where it has none."""
    try:
        if system == "Linux" and family(machine) in _FUTEX_NUMBER:
            syscall = _address(ctypes.CDLL(None), "syscall")
            return Waiting(_FUTEX.format(number=_FUTEX_NUMBER[family(machine)]), syscall, syscall)
        if system == "Darwin":
            library = ctypes.CDLL(None)
            return Waiting(_ULOCK, _address(library, "__ulock_wait"), _address(library, "__ulock_wake"))
        if system == "Windows":
            library = ctypes.WinDLL("api-ms-win-core-synch-l1-2-0.dll")
            return Waiting(_WAIT_ON_ADDRESS, _address(library, "WaitOnAddress"), _address(library, "WakeByAddressAll"))
    except (AttributeError, OSError):
        pass
    return napping(system)


def yield_address(system: str = platform.system()) -> int:
    """The function that gives the processor to another thread that is ready."""
    if system == "Windows":
        return _address(ctypes.windll.kernel32, "SwitchToThread")
    return _address(ctypes.CDLL(None), "sched_yield")


# ---------------------------------------------------------------- plan, launch, worker

_INTERPRET = """
{ticks}
define internal i64 @now() nounwind {{
  %t = {ticks_call}
  ret i64 %t
}}
define internal void @interpret(ptr %plan, ptr %times, ptr %ctx, i64 %tid, i64 %nt) nounwind {{
entry:
  %count = load i64, ptr %plan
  %steps = getelementptr i8, ptr %plan, i64 8
  %timed = icmp ne ptr %times, null
  br i1 %timed, label %begin, label %check
begin:
  %start = call i64 @now()
  br label %check
check:
  %clock = phi i64 [ 0, %entry ], [ %start, %begin ]
  %some = icmp sgt i64 %count, 0
  br i1 %some, label %step, label %done
step:
  %i = phi i64 [ 0, %check ], [ %i.next, %next ]
  %last = phi i64 [ %clock, %check ], [ %last.next, %next ]
  %at = getelementptr {{ ptr, ptr, i64, i64 }}, ptr %steps, i64 %i
  %fn = load ptr, ptr %at
  %args.slot = getelementptr i8, ptr %at, i64 8
  %args = load ptr, ptr %args.slot
  %flags.slot = getelementptr i8, ptr %at, i64 16
  %flags = load i64, ptr %flags.slot
  %above = lshr i64 %flags, 8
  %only = and i64 %above, 16777215
  %shared = icmp eq i64 %only, 0
  br i1 %shared, label %together, label %single
together:
  call void %fn(ptr %args, ptr %ctx, i64 %tid, i64 %nt)
  br label %meet
single:
  %wanted = sub i64 %only, 1
  %who = urem i64 %wanted, %nt
  %behind = sub i64 %tid, %who
  %wraps = icmp slt i64 %behind, 0
  %turned = add i64 %behind, %nt
  %place = select i1 %wraps, i64 %turned, i64 %behind
  %said = lshr i64 %flags, 32
  %none = icmp eq i64 %said, 0
  %few = select i1 %none, i64 1, i64 %said
  %too.many = icmp sgt i64 %few, %nt
  %group = select i1 %too.many, i64 %nt, i64 %few
  %me = icmp slt i64 %place, %group
  br i1 %me, label %alone, label %meet
alone:
  call void %fn(ptr %args, ptr %ctx, i64 %place, i64 %group)
  br label %meet
meet:
  %bit = and i64 %flags, 1
  %barrier = icmp ne i64 %bit, 0
  br i1 %barrier, label %sync, label %tell
sync:
  call void @barrier(ptr %ctx, i64 %tid, i64 %nt)
  %way = and i64 %flags, 2
  %exit = icmp ne i64 %way, 0
  br i1 %exit, label %ask, label %tell
ask:
  %halt.slot = getelementptr i8, ptr %ctx, i64 {halt}
  %halt = load atomic i64, ptr %halt.slot monotonic, align 8
  %halted = icmp ne i64 %halt, 0
  br i1 %halted, label %done, label %tell
tell:
  br i1 %timed, label %record, label %next
record:
  %stop = call i64 @now()
  %elapsed = sub i64 %stop, %last
  %time.slot = getelementptr i64, ptr %times, i64 %i
  store i64 %elapsed, ptr %time.slot
  br label %next
next:
  %last.next = phi i64 [ %last, %tell ], [ %stop, %record ]
  %i.next = add i64 %i, 1
  %more = icmp slt i64 %i.next, %count
  br i1 %more, label %step, label %done
done:
  ret void
}}
"""

_CALL_SLEEPERS = """
define internal void @call_sleepers(ptr %ctx) nounwind {
  %old = atomicrmw add ptr %ctx, i32 1 seq_cst
  %sleepers.slot = getelementptr i8, ptr %ctx, i64 128
  %sleepers = load atomic i32, ptr %sleepers.slot seq_cst, align 64
  %any = icmp sgt i32 %sleepers, 0
  br i1 %any, label %call, label %done
call:
  %how.slot = getelementptr i8, ptr %ctx, i64 224
  %how = load ptr, ptr %how.slot
  call void @wake(ptr %ctx, ptr %how)
  br label %done
done:
  ret void
}
"""

_ENTRIES = {
    "launch": """
define void @{symbol}(ptr %ctx, ptr %plan, ptr %times) nounwind {{
entry:
  %plan.slot = getelementptr i8, ptr %ctx, i64 64
  store ptr %plan, ptr %plan.slot
  %mode = call i64 @number_mode()
  %mode.slot = getelementptr i8, ptr %ctx, i64 {mode}
  store i64 %mode, ptr %mode.slot
  %halt.slot = getelementptr i8, ptr %ctx, i64 {halt}
  store atomic i64 0, ptr %halt.slot monotonic, align 8
  %nt.slot = getelementptr i8, ptr %ctx, i64 192
  %nt = load i64, ptr %nt.slot
  %alone = icmp eq i64 %nt, 1
  br i1 %alone, label %go, label %call
call:
  call void @call_sleepers(ptr %ctx)
  br label %go
go:
  call void @interpret(ptr %plan, ptr %times, ptr %ctx, i64 0, i64 %nt)
  call void @barrier(ptr %ctx, i64 0, i64 %nt)
  ret void
}}
""",
    "worker": """
define void @{symbol}(ptr %ctx, i64 %tid) nounwind {{
entry:
  %mode.slot = getelementptr i8, ptr %ctx, i64 {mode}
  %plan.slot = getelementptr i8, ptr %ctx, i64 64
  %stop.slot = getelementptr i8, ptr %ctx, i64 80
  %sleepers = getelementptr i8, ptr %ctx, i64 128
  %nt.slot = getelementptr i8, ptr %ctx, i64 192
  %nt = load i64, ptr %nt.slot
  %limit.slot = getelementptr i8, ptr %ctx, i64 200
  %limit = load i64, ptr %limit.slot
  %yield.slot = getelementptr i8, ptr %ctx, i64 208
  %yield = load ptr, ptr %yield.slot
  %how.slot = getelementptr i8, ptr %ctx, i64 216
  %how = load ptr, ptr %how.slot
  br label %idle
idle:
  %seen = phi i32 [ 0, %entry ], [ %generation, %run ]
  br label %spin
spin:
  %spins = phi i64 [ 0, %idle ], [ %spins.next, %rest ], [ %spins.next, %give ], [ %limit, %sleep ]
  %generation = load atomic i32, ptr %ctx acquire, align 64
  %same = icmp eq i32 %generation, %seen
  br i1 %same, label %waiting, label %called
waiting:
  %spins.next = add i64 %spins, 1
  %long = icmp sgt i64 %spins.next, %limit
  br i1 %long, label %sleep, label %look
look:
  %low = and i64 %spins.next, 63
  %turn = icmp eq i64 %low, 0
  br i1 %turn, label %give, label %rest
rest:
  {pause_call}
  br label %spin
give:
  %r = call i32 %yield()
  br label %spin
sleep:
  %more = atomicrmw add ptr %sleepers, i32 1 seq_cst
  call void @wait(ptr %ctx, ptr %how, i32 %seen)
  %less = atomicrmw sub ptr %sleepers, i32 1 seq_cst
  br label %spin
called:
  %stop = load i64, ptr %stop.slot
  %stopped = icmp ne i64 %stop, 0
  br i1 %stopped, label %leave, label %run
run:
  %mode = load i64, ptr %mode.slot
  call void @set_number_mode(i64 %mode)
  %plan = load ptr, ptr %plan.slot
  call void @interpret(ptr %plan, ptr null, ptr %ctx, i64 %tid, i64 %nt)
  call void @barrier(ptr %ctx, i64 %tid, i64 %nt)
  br label %idle
leave:
  ret void
}}
""",
    "stop": """
define void @{symbol}(ptr %ctx) nounwind {{
  %stop.slot = getelementptr i8, ptr %ctx, i64 80
  store i64 1, ptr %stop.slot
  call void @call_sleepers(ptr %ctx)
  ret void
}}
""",
    "ticks": """
define i64 @{symbol}() nounwind {{
  %t = call i64 @now()
  ret i64 %t
}}
""",
}


def step_flags(first: int | None, count: int = 1) -> int:
    """The bits of a step for one thread, or for `count` from `first` on; None: for all."""
    if first is None:
        return 0
    return 1 + first << 8 | (count << 32 if count > 1 else 0)


def for_one_thread(flags: np.ndarray) -> bool:
    """Whether every step with these flags is for one thread."""
    return bool((((flags >> 8) & 0xFFFFFF) > 0).all() and not (flags >> 32).any())


def runtime_ir(entry: str, symbol: str, machine: str, how: Waiting) -> str:
    """The module of one entry of the pool: 'launch', 'worker', 'stop' or 'ticks', under the name `symbol`."""
    name = family(machine)
    ticks, call = _TICKS.get(name, ""), _TICKS_CALL.get(name, "add i64 0, 0")
    interpret = _INTERPRET.format(ticks=ticks, ticks_call=call, halt=HALT)
    shared = barrier_ir(machine) + interpret + _MODES.get(name, _NO_MODES) + how.ir + _CALL_SLEEPERS
    return shared + _ENTRIES[entry].format(symbol=symbol, pause_call=PAUSE_CALL.get(name, ""), halt=HALT, mode=MODE)
