"""What kernels are compiled for: vectors, registers and caches of a processor. Whatever assumes such numbers asks here.

A second kind of target, without vectors, would be another class with the same questions.
"""

from __future__ import annotations

import dataclasses
import functools
from typing import Any

import numpy as np

from ...errors import OptionError
from ...runtime.switches import switch
from . import worker
from .values import BITS

__all__ = ["LINE", "NEAR", "PROCESSORS", "Near", "Target"]

LINE = 64  # bytes of a cache line


@dataclasses.dataclass(frozen=True)
class Near:
    """Bytes that kernels count on to stay near while something else runs through the caches.

    Measured, and the same on every machine: how sums are cut into parts depends on some of them, and results should not
    differ from one machine to the next. First level about 32 kB, second about 1 MB, last 32 MB and more are supposed.
    """

    operand: int = 512 * 1024  # of a matrix product, in the second level beside the rest
    block: int = 200 * 1024  # of one operand of a product, in the second level while the other passes by
    weights: int = 400_000  # packed weights of a convolution, in the second level beside the images
    sums: int = 1 << 20  # of a weight gradient, in the second level
    pixels: int = 1 << 15  # that one tile of a weight gradient runs over, in the first level
    many_pixels: int = 1 << 17  # the same where the sums do not stay near
    band: int = 1 << 17  # of a copied image
    scores: int = 1 << 17  # of a block of attention
    all: int = 1 << 25  # more than this no cache keeps: it is written past them


NEAR = Near()


@dataclasses.dataclass(frozen=True)
class Target:
    """A kind of processor: LLVM's names for it, and what emitters ask about it."""

    triple: str
    cpu: str
    features: str = ""
    vector_bytes: int = 16
    registers: int = 16
    fma: bool = True

    def lanes(self, dtype: Any) -> int:
        """How many elements of `dtype` one vector register holds."""
        return self.vector_bytes // np.dtype(dtype).itemsize

    def lanes_of(self, kind: str) -> int:
        """The same of a kind of LLVM value: 'f32', 'i64', …"""
        return 8 * self.vector_bytes // BITS[kind]

    @property
    def many_registers(self) -> bool:
        """Whether there is room for large tiles: 32 vector registers, not 16."""
        return self.registers >= 32

    @property
    def arch(self) -> str:
        """The processor family: the first part of the triple."""
        return self.triple.partition("-")[0]

    @staticmethod
    def host() -> Target:
        """This machine, or the one that `WEFT_TARGET` names."""
        return Target.named(switch("WEFT_TARGET"))

    @staticmethod
    @functools.cache
    def named(name: str) -> Target:
        """'host', or a processor of the table `_NAMED` (older processors of this family run here too)."""
        if name == "host":
            return _detect()
        if name not in _NAMED:
            raise OptionError(f"WEFT_TARGET: expected 'host' or one of {sorted(_NAMED)}, got {name!r}")
        found, here = _NAMED[name], worker.binding().get_process_triple()
        return dataclasses.replace(found, triple=here) if here.startswith(f"{found.arch}-") else found

    @property
    def identity(self) -> str:
        """What object code for this target depends on."""
        return f"{self.triple} {self.cpu} {self.features}"


_X86 = "x86_64-unknown-linux-gnu"
_NAMED = {
    "x86-64-v2": Target(_X86, "x86-64-v2", "", 16, 16, fma=False),
    "x86-64-v3": Target(_X86, "x86-64-v3", "", 32, 16),
    "x86-64-v4": Target(_X86, "x86-64-v4", "", 64, 32),
    "aarch64": Target("aarch64-unknown-linux-gnu", "generic", "+neon", 16, 32),
    "apple-m1": Target("arm64-apple-macosx", "apple-m1", "", 16, 32),
    "arm-neon": Target("armv7-unknown-linux-gnueabihf", "cortex-a15", "+neon,+vfp4", 16, 16),
}
# (bytes of a vector register, number of them) of all kinds: memory is asked for before it is known which one runs
PROCESSORS = tuple(sorted({(target.vector_bytes, target.registers) for target in _NAMED.values()}))


def _detect() -> Target:
    llvm = worker.binding()
    triple, has = llvm.get_process_triple(), llvm.get_host_cpu_features()
    cpu, features = llvm.get_host_cpu_name(), has.flatten()
    if not triple.startswith(("x86_64", "amd64")):
        return Target(triple, cpu, features, 16, 32 if triple.startswith(("aarch64", "arm64")) else 16)
    if has.get("avx512f") and has.get("avx512vl") and has.get("avx512dq") and has.get("avx512bw"):
        return Target(triple, cpu, features, 64, 32)
    return Target(triple, cpu, features, 32 if has.get("avx2") else 16, 16, fma=bool(has.get("fma")))
