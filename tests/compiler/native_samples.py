"""Small native functions for the tests of compiling, caching and running; what each does is stated in Python."""

from __future__ import annotations

import ctypes
import os
import subprocess
import sys
from collections.abc import Callable

import numpy as np

from weft.kernels.llvm import jit
from weft.runtime import native

SIGNATURE = "define void @{symbol}(ptr %args, ptr %ctx, i64 %tid, i64 %nt) nounwind"


def scale(symbol: str, lanes: int, factor: float = 2.5, offset: float = 1.0) -> str:
    """x[:lanes] = x[:lanes] * factor + offset, in one vector of float32."""
    vector = f"<{lanes} x float>"
    return f"""
{SIGNATURE.format(symbol=symbol)} {{
  %p = load ptr, ptr %args
  %x = load {vector}, ptr %p, align 4
  %m = fmul {vector} %x, splat (float {factor})
  %y = fadd {vector} %m, splat (float {offset})
  store {vector} %y, ptr %p, align 4
  ret void
}}
"""


def who(symbol: str) -> str:
    """out[2 tid], out[2 tid + 1] += tid + 1, nt."""
    return f"""
{SIGNATURE.format(symbol=symbol)} {{
  %out = load ptr, ptr %args
  %twice = mul i64 %tid, 2
  %p = getelementptr i64, ptr %out, i64 %twice
  %v = load i64, ptr %p
  %number = add i64 %tid, 1
  %w = add i64 %v, %number
  store i64 %w, ptr %p
  %q = getelementptr i64, ptr %p, i64 1
  %a = load i64, ptr %q
  %b = add i64 %a, %nt
  store i64 %b, ptr %q
  ret void
}}
"""


def shift(symbol: str) -> str:
    """out[tid] = x[(tid + 1) % nt] + 1: what the neighbour wrote in the step before."""
    return f"""
{SIGNATURE.format(symbol=symbol)} {{
  %out = load ptr, ptr %args
  %slot = getelementptr i64, ptr %args, i64 1
  %x = load ptr, ptr %slot
  %t = add i64 %tid, 1
  %from = urem i64 %t, %nt
  %p = getelementptr i64, ptr %x, i64 %from
  %v = load i64, ptr %p
  %w = add i64 %v, 1
  %q = getelementptr i64, ptr %out, i64 %tid
  store i64 %w, ptr %q
  ret void
}}
"""


def meetings(symbol: str) -> str:
    """1000 times: all threads meet, then thread 0 adds 1 to x[0]; with `who`'s arguments."""
    return (
        native.BARRIER_IR
        + f"""
{SIGNATURE.format(symbol=symbol)} {{
entry:
  %x = load ptr, ptr %args
  br label %loop
loop:
  %i = phi i64 [ 0, %entry ], [ %i.next, %next ]
  call void @barrier(ptr %ctx, i64 %tid, i64 %nt)
  %first = icmp eq i64 %tid, 0
  br i1 %first, label %add, label %next
add:
  %v = load i64, ptr %x
  %w = add i64 %v, 1
  store i64 %w, ptr %x
  br label %next
next:
  %i.next = add i64 %i, 1
  %more = icmp slt i64 %i.next, 1000
  br i1 %more, label %loop, label %done
done:
  ret void
}}
"""
    )


def count(symbol: str) -> str:
    """x[0] += 1 through memory, n times, by thread 0; n is the second argument word."""
    return f"""
{SIGNATURE.format(symbol=symbol)} {{
entry:
  %x = load ptr, ptr %args
  %slot = getelementptr i64, ptr %args, i64 1
  %n = load i64, ptr %slot
  %first = icmp eq i64 %tid, 0
  br i1 %first, label %loop, label %done
loop:
  %i = phi i64 [ 0, %entry ], [ %i.next, %loop ]
  %v = load volatile i64, ptr %x
  %w = add i64 %v, 1
  store volatile i64 %w, ptr %x
  %i.next = add i64 %i, 1
  %more = icmp slt i64 %i.next, %n
  br i1 %more, label %loop, label %done
done:
  ret void
}}
"""


def product(symbol: str) -> str:
    """out[tid] = x * y for float32, y behind x."""
    return f"""
{SIGNATURE.format(symbol=symbol)} {{
  %out = load ptr, ptr %args
  %slot = getelementptr i64, ptr %args, i64 1
  %p = load ptr, ptr %slot
  %q = getelementptr float, ptr %p, i64 1
  %x = load float, ptr %p
  %y = load float, ptr %q
  %z = fmul float %x, %y
  %at = getelementptr float, ptr %out, i64 %tid
  store float %z, ptr %at
  ret void
}}
"""


def handle(text: Callable[..., str], *arguments: object, target: jit.Target | None = None) -> jit.Handle:
    """The compiled form of one of the functions above."""
    key = f"test {text.__name__} {arguments}"
    return jit.build({key: lambda: text(jit.symbol(key), *arguments)}, target)[key]


def words(*values: int | np.ndarray) -> np.ndarray:
    """Argument words: integers, and the addresses of arrays."""
    return np.array([v.ctypes.data if isinstance(v, np.ndarray) else v for v in values], np.int64)


class Plan:
    """A plan of steps (function, argument words, flags), which it keeps alive."""

    def __init__(self, *steps: tuple[jit.Handle, np.ndarray, int]) -> None:
        self.steps = steps
        rows = [w for n, (fn, args, flags) in enumerate(steps) for w in (fn.address, args.ctypes.data, flags, n)]
        self.table = np.array([len(steps), *rows], np.int64)
        self.address = self.table.ctypes.data


def call(function: jit.Handle, *values: int | np.ndarray) -> None:
    """Call a native function directly, as thread 0 of 1."""
    args = words(*values)
    native_type = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int64, ctypes.c_int64)
    native_type(function.address)(args.ctypes.data, None, 0, 1)


def run_python(source: str, timeout: float = 30.0, **environment: str) -> subprocess.CompletedProcess[str]:
    """A program in a process of its own, with this module's names at hand."""
    return subprocess.run(
        [sys.executable, "-c", "from tests.compiler.native_samples import *\n" + source],
        env={**os.environ, **environment},
        cwd=os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__)))),
        capture_output=True,
        text=True,
        timeout=timeout,
        check=False,
    )
