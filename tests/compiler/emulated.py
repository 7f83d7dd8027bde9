"""Plans run as programs of another processor: kernels emitted for it, linked by its compiler, run by QEMU.

A plan is built here, for its tables and buffers. Its kernels are emitted for the other processor and linked with a small
driver in C, which gets the buffers and argument words from a file, runs the steps in order and writes the buffers back.
"""

from __future__ import annotations

import pathlib
import shutil
import struct
import subprocess
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

import weft
from weft.compiler import build_plan
from weft.compiler.fuse.loops import Launch
from weft.compiler.graph.reference import HostPlan
from weft.compiler.plan.buffers import address
from weft.kernels.kernel import Kernel
from weft.kernels.llvm import jit
from weft.runtime.native import CONTEXT_BYTES, barrier_ir

COMPILER, EMULATOR = "aarch64-linux-gnu-gcc", "qemu-aarch64"
IS_HERE = shutil.which(COMPILER) is not None and shutil.which(EMULATOR) is not None

DRIVER = r"""
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef void (*kernel)(void *args, void *ctx, int64_t tid, int64_t nt);
%(declarations)s
static kernel kernels[] = {%(names)s};
static char context[%(context)d] __attribute__((aligned(64)));

static int64_t number(FILE *f) {
    int64_t n;
    if (fread(&n, 8, 1, f) != 1) exit(2);
    return n;
}

int main(int argc, char **argv) {
    FILE *f = fopen(argv[1], "rb");
    int64_t count = number(f);
    char **start = malloc(8 * count);
    int64_t *size = malloc(8 * count);
    for (int64_t i = 0; i < count; i++) {
        size[i] = number(f);
        start[i] = aligned_alloc(64, (size[i] + 127) / 64 * 64);
        if (fread(start[i], 1, size[i], f) != (size_t)size[i]) exit(3);
    }
    int64_t words = number(f);
    int64_t *word = malloc(8 * words + 8);
    for (int64_t i = 0; i < words; i++) {
        int64_t region = number(f), value = number(f);
        word[i] = region < 0 ? value : (int64_t)(start[region] + value);
    }
    int64_t steps = number(f);
    for (int64_t i = 0; i < steps; i++) {
        int64_t which = number(f), at = number(f);
        kernels[which](word + at, context, 0, 1);
    }
    fclose(f);
    f = fopen(argv[2], "wb");
    for (int64_t i = 0; i < count; i++) fwrite(start[i], 1, size[i], f);
    fclose(f);
    return 0;
}
"""


class Foreign:
    """Several functions as one program for another processor."""

    def __init__(self, target: jit.Target, folder: pathlib.Path) -> None:
        self.target, self.folder = target, folder
        self.symbols: dict[str, str] = {}  # by key of the kernel
        self.jobs: list[tuple[Any, list[np.ndarray], list[np.ndarray]]] = []
        self.kinds: set[tuple[str, str]] = set()  # (room, class) of the kernels

    def add(self, function: Callable, *args: Any) -> None:
        """Take a function in: its plan, with memory for results, and what the reference says of the results."""
        compiled = weft.compile(function, threads=1)
        arrays = [a.array for a in args]
        truth = HostPlan(compiled.graph(*args)).run([a.copy() for a in arrays])
        plan = build_plan(compiled.graph(*args), threads=1)
        assert all(isinstance(slot.step, Launch) for slot in plan.slots), plan.host_work()
        for slot in plan.slots:
            self._emit(slot.step.kernel)
        plan._run(arrays)
        self.jobs.append((plan, [*truth], [plan.arrays[v].copy() for v in plan.outputs]))

    def _emit(self, kernel: Kernel) -> None:
        key = kernel.key()
        if key not in self.symbols:
            symbol = self.symbols[key] = f"kernel_{len(self.symbols)}"
            self.kinds.add((type(kernel).__module__.split(".")[2], type(kernel).__name__))
            text = kernel.text(symbol, self.target, barrier_ir("aarch64"))
            (self.folder / f"{symbol}.o").write_bytes(jit.emit_object(text, self.target))

    def run(self) -> list[tuple[list[np.ndarray], list[np.ndarray], list[np.ndarray]]]:
        """For each function: its results there, those of the reference, those of this processor."""
        program = self._linked()
        return [(self._run(program, plan), truth, here) for plan, truth, here in self.jobs]

    def _linked(self) -> pathlib.Path:
        names = list(self.symbols.values())
        declarations = "\n".join(f"void {name}(void *, void *, int64_t, int64_t);" for name in names)
        source, program = self.folder / "driver.c", self.folder / "program"
        form = dict(declarations=declarations, names=", ".join(names), context=CONTEXT_BYTES + 64)
        source.write_text(DRIVER % form)
        objects = [str(self.folder / f"{name}.o") for name in names]
        subprocess.run([COMPILER, "-static", "-O1", str(source), *objects, "-o", str(program)], check=True)
        return program

    def _run(self, program: pathlib.Path, plan: Any) -> list[np.ndarray]:
        regions = [plan.memory, plan.flag, plan.checked, *plan.arrays.values()]
        given, back = self.folder / "given", self.folder / "back"
        given.write_bytes(_image(plan, regions, list(self.symbols), dict.fromkeys(plan.outputs)))
        subprocess.run([EMULATOR, str(program), str(given), str(back)], check=True, timeout=300)
        data, found, at = back.read_bytes(), {}, 0
        for region in regions:
            found[id(region)] = np.frombuffer(data, region.dtype, region.size, at).reshape(region.shape)
            at += region.nbytes
        assert not found[id(plan.flag)].any() and not found[id(plan.checked)].any()
        return [found[id(plan.arrays[v])] for v in plan.outputs]


def _image(plan: Any, regions: Sequence[np.ndarray], keys: list[str], outputs: Any) -> bytes:
    """What the driver reads: buffers, argument words as (buffer, offset) or (−1, number), and steps."""
    results = {id(plan.arrays[v]) for v in outputs}
    parts = [struct.pack("q", len(regions))]
    for region in regions:
        wiped = id(region) in results or region is plan.memory
        content = np.full(region.nbytes, 0xAB, np.uint8).tobytes() if wiped else np.ascontiguousarray(region).tobytes()
        parts += [struct.pack("q", region.nbytes), content]
    starts = [(address(region), region.nbytes) for region in regions]
    parts.append(struct.pack("q", len(plan.words)))
    for word in plan.words.tolist():
        place = next((n for n, (start, size) in enumerate(starts) if size and start <= word < start + size), -1)
        parts.append(struct.pack("qq", place, word - starts[place][0] if place >= 0 else word))
    (table,) = plan.native_tables
    rows, base = table[1:].reshape(-1, 4), address(plan.words)
    parts.append(struct.pack("q", len(rows)))
    for _, arguments, _, number in rows.tolist():
        kernel = plan.slots[number].step.kernel
        parts.append(struct.pack("qq", keys.index(kernel.key()), (arguments - base) // 8))
    return b"".join(parts)
