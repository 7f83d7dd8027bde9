"""What this machine can do, and what else it is doing: fused multiply-adds and bytes a second, cores in use by others.

    python bench/machine.py [threads]

prints the peaks as JSON. Both are measured natively and independently of the libraries that are compared.
"""

from __future__ import annotations

import ctypes
import json
import os
import resource
import subprocess
import sys
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

QUIET = 0.2  # cores in use by others below which a measurement counts as undisturbed
CHAINS = 12  # independent sums: more than latency × throughput of any current core


def environment(threads: int, cache: Path | None = None) -> dict[str, str]:
    """Variables that give every library the same threads, and caches of compiled code that start empty; Python keeps the
    bytecode of what it imports, as it does for installed packages."""
    made = dict(os.environ)
    made.pop("PYTHONDONTWRITEBYTECODE", None)
    for library in ("OMP", "MKL", "OPENBLAS", "NUMEXPR", "VECLIB_MAXIMUM"):
        made[f"{library}_NUM_THREADS"] = str(threads)
    made.update(JAX_PLATFORMS="cpu", CUDA_VISIBLE_DEVICES="")
    if cache:
        made.update(
            WEFT_CACHE_DIR=str(cache / "weft"),
            TORCHINDUCTOR_CACHE_DIR=str(cache / "inductor"),
            JAX_COMPILATION_CACHE_DIR=str(cache / "jax"),
            JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS="0",
        )
    return made


def peaks(threads: int, patience: float) -> dict[str, float]:
    """GFLOP/s (`gflops`) and GB/s (see `byte_probes`) of so many threads together, from a process of its own."""
    wait_quiet(patience)
    command = [sys.executable, __file__, str(threads)]
    done = subprocess.run(command, env=environment(1), capture_output=True, text=True, check=True)
    return json.loads(done.stdout)


# ---------------------------------------------------------------------------------------------- peaks


def native(text: str, names: list[str]) -> tuple[Any, list[int]]:
    """Addresses of the functions of a module in LLVM's language, and what keeps them alive."""
    import llvmlite.binding as llvm

    llvm.initialize_native_target()
    llvm.initialize_native_asmprinter()
    features = llvm.get_host_cpu_features().flatten()
    target = llvm.Target.from_default_triple()
    machine = target.create_target_machine(cpu=llvm.get_host_cpu_name(), features=features, opt=1, jit=True)
    engine = llvm.create_mcjit_compiler(llvm.parse_assembly(text), machine)
    engine.finalize_object()
    return engine, [engine.get_function_address(name) for name in names]


def lanes() -> int:
    """float32 numbers in a vector register: of this machine, or of the smaller one that WEFT_TARGET names."""
    import llvmlite.binding as llvm

    named = {"x86-64-v2": 4, "x86-64-v3": 8}.get(os.environ.get("WEFT_TARGET", ""))
    if named is not None:
        return named
    has = llvm.get_host_cpu_features()
    return 16 if has.get("avx512f") else 8 if has.get("avx") else 4


def multiply_adds(width: int) -> str:
    """`float fma(n)`: n times CHAINS independent fused multiply-adds of vectors."""
    v = f"<{width} x float>"
    chains = range(CHAINS)
    sums = "\n".join(f"  %a{c} = phi {v} [zeroinitializer, %entry], [%b{c}, %loop]" for c in chains)
    steps = "\n".join(f"  %b{c} = call {v} @llvm.fma.v{width}f32({v} %x, {v} %x, {v} %a{c})" for c in chains)
    total = "\n".join(f"  %t{c + 1} = fadd {v} %{f't{c}' if c else 'b0'}, %b{c}" for c in chains)
    return f"""
declare {v} @llvm.fma.v{width}f32({v}, {v}, {v})
define float @fma(i64 %n, float %given) {{
entry:
  %first = insertelement {v} undef, float %given, i32 0
  %x = shufflevector {v} %first, {v} undef, <{width} x i32> zeroinitializer
  br label %loop
loop:
  %i = phi i64 [0, %entry], [%next, %loop]
{sums}
{steps}
  %next = add i64 %i, 1
  %more = icmp ult i64 %next, %n
  br i1 %more, label %loop, label %done
done:
{total}
  %r = extractelement {v} %t{CHAINS}, i32 0
  ret float %r
}}"""


def scaling(name: str, width: int, hint: str = "") -> str:
    """`void name(from, to, n)`: to = (1 + 2⁻²³) · from over n vectors, four at a time; `hint` goes to the stores."""
    v = f"<{width} x float>"
    body = []
    for k in range(4):
        body += [
            f"  %i{k} = add i64 %i, {k}",
            f"  %p{k} = getelementptr {v}, ptr %from, i64 %i{k}",
            f"  %q{k} = getelementptr {v}, ptr %to, i64 %i{k}",
            f"  %x{k} = load {v}, ptr %p{k}, align {4 * width}",
            f"  %y{k} = fmul {v} %x{k}, %s",
            f"  store {v} %y{k}, ptr %q{k}, align {4 * width}{hint}",
        ]
    lines = "\n".join(body)
    return f"""
define void @{name}(ptr %from, ptr %to, i64 %n) {{
entry:
  %first = insertelement {v} undef, float 0x3FF0000020000000, i32 0
  %s = shufflevector {v} %first, {v} undef, <{width} x i32> zeroinitializer
  br label %loop
loop:
  %i = phi i64 [0, %entry], [%next, %loop]
{lines}
  %next = add i64 %i, 4
  %more = icmp ult i64 %next, %n
  br i1 %more, label %loop, label %done
done:
  ret void
}}"""


def clock(threads: int) -> Callable[[], float]:
    """Seconds: of the processor for one thread, so that waiting for other programs is left out; else of the wall."""
    return time.process_time if threads == 1 else time.perf_counter


def probe(work: Callable[[int], Any], amount: float, threads: int) -> Callable[[], float]:
    """A function that lets so many threads each call `work(thread)` once and tells how many `amount`s a second they did."""
    now = clock(threads)
    spread = map if threads == 1 else ThreadPoolExecutor(threads).map

    def measured() -> float:
        start = now()
        list(spread(work, range(threads)))
        return threads * amount / (now() - start)

    return measured


def flop_probe(threads: int, turns: int = 1_000_000) -> Callable[[], float]:
    """Measures GFLOP/s of fused multiply-adds in registers."""
    width = lanes()
    engine, (address,) = native(multiply_adds(width), ["fma"])
    run = ctypes.CFUNCTYPE(ctypes.c_float, ctypes.c_int64, ctypes.c_float)(address)
    run.kept = engine  # which owns the code
    return probe(lambda _: run(turns, 1.0), 2e-9 * width * CHAINS * turns, threads)


def byte_probes(threads: int, arrays: tuple[Any, Any] | None = None) -> dict[str, Callable[[], float]]:
    """Measure GB/s read and written by scaling float32 arrays that no cache holds: `arrays`, or two of 96 MiB.

    streams: into other memory, past the caches; place: in the same memory; numpy: into other memory, by NumPy
    """
    import numpy as np

    source, target = map(aligned, arrays or (np.ones(24 * 2**20, np.float32) for _ in range(2)))
    width, count = lanes(), min(source.size, target.size) // threads // 64 * 64
    pairs = [tuple(x[t * count :][:count] for x in (source, target)) for t in range(threads)]
    past = scaling("past", width, ", !nontemporal !0")
    engine, addresses = native(f"{past}\n{scaling('plain', width)}\n!0 = !{{i32 1}}", ["past", "plain"])
    kind = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int64)
    run, plain = map(kind, addresses)
    run.kept = plain.kept = engine, pairs  # the code and the memory that it is given
    places = [tuple(array.ctypes.data for array in pair) for pair in pairs]
    amount = 8e-9 * count
    return {
        "streams": probe(lambda t: run(*places[t], count // width), amount, threads),
        "place": probe(lambda t: plain(places[t][0], places[t][0], count // width), amount, threads),
        "numpy": probe(lambda t: np.multiply(pairs[t][0], np.float32(1.5), out=pairs[t][1]), amount, threads),
    }


def best(measure: Callable[[], float], rounds: int = 15) -> float:
    """The highest of several measurements."""
    return max(measure() for _ in range(rounds))


def aligned(memory: Any) -> Any:
    """The part of a float32 array from the first address on that is a multiple of 64."""
    return memory[-(memory.ctypes.data // 4) % 16 :]


# ------------------------------------------------------------------------------------- who else is busy


def busy_seconds() -> float:
    """Processor seconds of the whole machine since it started; 0 where the system does not tell."""
    try:
        with open("/proc/stat") as file:
            user, nice, system, _idle, _wait, irq, soft, _steal = map(int, file.readline().split()[1:9])
    except OSError:
        return 0.0
    return (user + nice + system + irq + soft) / os.sysconf("SC_CLK_TCK")


def own_seconds() -> float:
    used = resource.getrusage(resource.RUSAGE_SELF)
    return used.ru_utime + used.ru_stime


def peak_memory(restart: bool = False) -> float:
    """The most memory this process has had resident, MiB; `restart` forgets what came before, where the system can.

    The kernel's figure for the address space: `ru_maxrss` also counts the process that started this one.
    """
    try:
        if restart:
            Path("/proc/self/clear_refs").write_text("5")
        lines = Path("/proc/self/status").read_text().splitlines()
        return next(int(line.split()[1]) for line in lines if line.startswith("VmHWM")) / 1024
    except (OSError, StopIteration):
        unit = 2**20 if sys.platform == "darwin" else 2**10
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / unit


def wait_quiet(patience: float) -> None:
    """Wait, `patience` seconds at most, until others leave the machine alone."""
    end = time.perf_counter() + patience
    while time.perf_counter() < end:
        busy, start = busy_seconds(), time.perf_counter()
        time.sleep(0.25)
        if (busy_seconds() - busy) / (time.perf_counter() - start) < QUIET:
            return


if __name__ == "__main__":
    count = int(sys.argv[1]) if len(sys.argv) > 1 else 2
    found = {name: best(measure) for name, measure in byte_probes(count).items()}
    print(json.dumps({"threads": count, "gflops": best(flop_probe(count)), **found}))
