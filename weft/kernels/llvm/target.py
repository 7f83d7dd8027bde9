"""What kernels are compiled for: vectors, registers and caches of a processor. Whatever assumes such numbers asks here.

A second kind of target, without vectors, would be another class with the same questions.
"""

from __future__ import annotations

import dataclasses
import functools
from typing import Any

import numpy as np

from ...errors import OptionError
from ...runtime.processor import caches
from ...runtime.switches import switch
from . import worker
from .values import BITS

__all__ = ["LINE", "PARTS", "PROCESSORS", "Caches", "Near", "Target", "everywhere"]

LINE = 64  # bytes of a cache line
KIB, MIB = 1 << 10, 1 << 20


@dataclasses.dataclass(frozen=True)
class Caches:
    """Bytes of data that one core may count on in the first and second level, and all of the last."""

    first: int
    second: int
    last: int

    @functools.cached_property
    def near(self) -> Near:
        """What stays near in these caches."""
        return Near(
            operand=self.second // 2,
            block=2 * self.second // 5,
            weights=2 * self.second // 5,
            sums=self.second,
            pixels=self.first,
            many_pixels=self.second // 8,
            all=self.last,
        )


@dataclasses.dataclass(frozen=True)
class Near:
    """Bytes that kernels count on to stay near while something else runs through the caches.

    They decide in which order tiles are computed and what is copied, never how a sum is cut: `PARTS` does.
    """

    operand: int  # of a matrix product, in the second level beside the rest
    block: int  # of one operand of a product, in the second level while the other passes by
    weights: int  # packed weights of a convolution, in the second level beside the images
    sums: int  # of a weight gradient, in the second level
    pixels: int  # that one tile of a weight gradient runs over, in the first level
    many_pixels: int  # the same where the sums do not stay near
    all: int  # more than this no cache keeps: it is written past them


@dataclasses.dataclass(frozen=True)
class Parts:
    """Bytes by which sums are cut into parts that are added up at the end.

    The same on every machine: whatever caches a machine has, results of one instruction set are equal to the bit.
    """

    sums: int = 512 * KIB  # of a matrix product that wait between parts along k
    band: int = 128 * KIB  # of a copied image
    scores: int = 128 * KIB  # of a block of attention


PARTS = Parts()


@dataclasses.dataclass(frozen=True)
class Target:
    """A kind of processor: LLVM's names for it, and what emitters ask about it."""

    triple: str
    cpu: str
    features: str = ""
    vector_bytes: int = 16
    registers: int = 16
    fma: bool = True
    rate: int = 2  # vectors of multiply-adds that start in a cycle; AVX-512: as on processors with one such unit
    caches: Caches = Caches(32 * KIB, 512 * KIB, 16 * MIB)
    far: bool = False  # whether the last level of the cache is far: a mesh of many cores' parts
    bfloat: bool = False  # whether one instruction multiplies and adds pairs of bfloat16 numbers (AVX512-BF16)

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
    def masked_load(self) -> int:
        """Cycles of a load of some lanes: one instruction from AVX on, a branch for each lane without it."""
        return 1 if self.vector_bytes > 16 else 2 * self.vector_bytes // 4

    @property
    def masked_stores(self) -> bool:
        """Whether some lanes are stored as fast as all (AVX-512); else pieces of the vector are faster where they are known."""
        return self.vector_bytes >= 64

    @property
    def long_products(self) -> bool:
        """Whether one instruction multiplies vectors of 64-bit integers (AVX-512)."""
        return self.vector_bytes >= 64

    @property
    def near(self) -> Near:
        """Bytes that stay near in the caches of this target."""
        return self.caches.near

    @functools.cached_property
    def usual(self) -> Target:
        """What is usual for such vectors: rounding may depend on this, not on what one machine has."""
        return dataclasses.replace(_USUAL[self.vector_bytes, self.registers], bfloat=self.bfloat)

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
        caches = self.caches
        return f"{self.triple} {self.cpu} {self.features} {caches.first} {caches.second} {caches.last}"


_X86 = "x86_64-unknown-linux-gnu"
_ARM = Caches(64 * KIB, MIB, 32 * MIB)
_NAMED = {
    "x86-64-v2": Target(_X86, "x86-64-v2", "", 16, 16, False, 1, Caches(32 * KIB, 256 * KIB, 8 * MIB)),
    "x86-64-v3": Target(_X86, "x86-64-v3", "", 32, 16, True, 2, Caches(32 * KIB, 512 * KIB, 16 * MIB)),
    "x86-64-v4": Target(_X86, "x86-64-v4", "", 64, 32, True, 1, Caches(32 * KIB, MIB, 32 * MIB)),
    "x86-64-v4-bf16": Target(
        _X86, "x86-64-v4", "+avx512bf16", 64, 32, True, 1, Caches(32 * KIB, MIB, 32 * MIB), bfloat=True
    ),
    "aarch64": Target("aarch64-unknown-linux-gnu", "generic", "+neon", 16, 32, True, 2, _ARM),
    "apple-m1": Target("arm64-apple-macosx", "apple-m1", "", 16, 32, True, 4, Caches(128 * KIB, 3 * MIB, 12 * MIB)),
    "arm-neon": Target("armv7-unknown-linux-gnueabihf", "cortex-a15", "+neon,+vfp4", 16, 16, True, 1),
}
# (bytes of a vector register, number of them) of all kinds: memory is asked for before it is known which one runs
PROCESSORS = tuple(sorted({(target.vector_bytes, target.registers) for target in _NAMED.values()}))
_USUAL = {(x.vector_bytes, x.registers): x for x in reversed(_NAMED.values())}
_MODELS = {  # KiB of the first two levels, for each core, where the system does not tell
    **dict.fromkeys(("haswell", "broadwell", "skylake"), (32, 256)),
    **dict.fromkeys(("znver1", "znver2", "znver3"), (32, 512)),
    **dict.fromkeys(("znver4", "skylake-avx512", "cascadelake"), (32, 1024)),
    **dict.fromkeys(("icelake-server", "alderlake", "raptorlake"), (48, 1280)),
    **dict.fromkeys(("sapphirerapids", "emeraldrapids", "graniterapids"), (48, 2048)),
    "znver5": (48, 1024),
}
_FAR = (
    "skylake-avx512",
    "cascadelake",
    "cooperlake",
    "icelake-server",
    "sapphirerapids",
    "emeraldrapids",
    "graniterapids",
)


def everywhere() -> tuple[Target, ...]:
    """This machine, and one target of every kind of processor."""
    return (Target.host(), *_USUAL.values())


def _detect() -> Target:
    llvm = worker.binding()
    triple, has = llvm.get_process_triple(), llvm.get_host_cpu_features()
    cpu, features = llvm.get_host_cpu_name(), has.flatten()
    if not triple.startswith(("x86_64", "amd64")):
        found = _NAMED["aarch64" if triple.startswith(("aarch64", "arm64")) else "arm-neon"]
    elif has.get("avx512f") and has.get("avx512vl") and has.get("avx512dq") and has.get("avx512bw"):
        found = _NAMED["x86-64-v4-bf16" if has.get("avx512bf16") else "x86-64-v4"]
    else:
        found = _NAMED["x86-64-v3" if has.get("avx2") else "x86-64-v2"]
        found = dataclasses.replace(found, fma=bool(has.get("fma")))
    return dataclasses.replace(
        found, triple=triple, cpu=cpu, features=features, caches=_caches(cpu, found.caches), far=cpu in _FAR
    )


def _caches(cpu: str, usual: Caches) -> Caches:
    """What the system says, else what is known of the model, else what is usual."""
    told = caches()
    first, second = (KIB * size for size in _MODELS.get(cpu, (usual.first // KIB, usual.second // KIB)))
    each = {level: cache.size // (cache.shared if level == 2 else 1) for level, cache in told.items()}
    last = each.get(3) or (told[2].size if 2 in told else usual.last)
    return Caches(each.get(1, first), each.get(2, second), last)
