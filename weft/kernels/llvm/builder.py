"""Writing one native function as LLVM text: instructions on typed values.

`Function` is the builder that every kernel gets: arithmetic and lanes here, loads and stores in `llvm_memory`, loops in
`llvm_control`, mathematical functions in `mathlib`; its values are those of `llvm_values`. Floating-point code may
contract a·b + c into one instruction and does nothing else that changes results: NaN, infinities and the sign of zero
behave as in NumPy.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from ...errors import ArgumentError, InvalidValueError
from ..math.library import Math
from .control import Control
from .memory import MemoryAccess
from .values import BITS, LLVM_TYPES, Val, is_float, literal

__all__ = ["Function"]

FLOAT_FLAGS = "contract"


class Function(MemoryAccess, Control, Math):
    """The builder of one kernel: `define void @symbol(ptr %args, ptr %ctx, i64 %tid, i64 %nt)`."""

    def __init__(self, symbol: str, target: Any) -> None:
        self.symbol, self.target = symbol, target
        self.lines: list[str] = []
        self.prologue: list[str] = []  # stack memory and argument words, before everything else
        self.count = 0
        self.declarations: dict[str, None] = {}
        self.tid, self.nt = Val(self, "%tid", "i64"), Val(self, "%nt", "i64")
        self.block = "entry"
        self._arguments: dict[int, Val] = {}
        self.uniform: dict[int, dict[int, Val]] = {}  # what bodies have computed at the start

    # ------------------------------------------------------------------------------------ text
    def fresh(self, prefix: str = "v") -> str:
        self.count += 1
        return f"{prefix}{self.count}"

    def emit(self, text: str, kind: str, lanes: int = 1) -> Val:
        """One instruction with a result."""
        name = f"%v{self.count}"
        self.count += 1
        self.lines.append(f"  {name} = {text}")
        return Val(self, name, kind, lanes)

    def do(self, text: str) -> None:
        """One instruction without a result."""
        self.lines.append("  " + text)

    @contextmanager
    def at_start(self) -> Iterator[None]:
        """What is written here runs once, before everything else; straight-line code only."""
        before, self.lines = self.lines, self.prologue
        try:
            yield
        finally:
            self.prologue, self.lines = self.lines, before

    def label(self, name: str) -> None:
        self.lines.append(name + ":")
        self.block = name

    def text(self, barrier: str = "") -> str:
        """The whole module; `barrier` is the definition of @barrier, included when it is called."""
        body = "\n".join(self.prologue + self.lines)
        head = "\n".join(self.declarations)
        if "@barrier(" in body:
            head = barrier + "\n" + head
        signature = f"define void @{self.symbol}(ptr noalias %args, ptr noalias %ctx, i64 %tid, i64 %nt) #0"
        attributes = f'attributes #0 = {{ nounwind "prefer-vector-width"="{8 * self.target.vector_bytes}" }}'
        return f"{head}\n{signature} {{\nentry:\n{body}\n  ret void\n}}\n{attributes}\n"

    # ------------------------------------------------------------------------------- constants
    def const(self, kind: str, value: Any, lanes: int = 1) -> Val:
        one = literal(kind, value)
        if lanes == 1:
            return Val(self, one, kind)
        return Val(self, f"splat ({LLVM_TYPES[kind]} {one})", kind, lanes)

    def index(self, value: Any) -> Val:
        """A Python integer (or a value already) as i64."""
        return value if isinstance(value, Val) else self.const("i64", value)

    def iota(self, kind: str, lanes: int) -> Val:
        """0, 1, 2, … in the lanes."""
        items = ", ".join(f"{LLVM_TYPES[kind]} {literal(kind, i)}" for i in range(lanes))
        return Val(self, f"<{items}>", kind, lanes)

    def tail_mask(self, lanes: int, count: Any) -> Val:
        """True in the first `count` lanes."""
        if isinstance(count, int):
            items = ", ".join(f"i1 {'true' if i < count else 'false'}" for i in range(lanes))
            return Val(self, f"<{items}>", "i1", lanes)
        small = self.cast(count, "i32")
        return self.compare("lt", self.iota("i32", lanes), small)

    def known_tail(self, mask: Val) -> int:
        """The number of lanes that `tail_mask` was given as a number; 0 for any other mask."""
        count = mask.ir.count("true")
        return count if mask.ir == self.tail_mask(mask.lanes, count).ir else 0

    def poison(self, kind: str, lanes: int) -> Val:
        return Val(self, "poison", kind, lanes)

    # ------------------------------------------------------------------------------ arithmetic
    def splat(self, x: Val, lanes: int) -> Val:
        if x.lanes == lanes:
            return x
        if x.lanes != 1:
            raise InvalidValueError(f"splat: {x.lanes} lanes cannot become {lanes}")
        if not x.ir.startswith("%"):
            return Val(self, f"splat ({x.type} {x.ir})", x.kind, lanes)
        vector = f"<{lanes} x {x.type}>"
        one = self.emit(f"insertelement {vector} poison, {x.typed}, i64 0", x.kind, lanes)
        zeros = f"<{lanes} x i32> zeroinitializer"
        return self.emit(f"shufflevector {vector} {one.ir}, {vector} poison, {zeros}", x.kind, lanes)

    def pair(self, a: Any, b: Any) -> tuple[Val, Val]:
        """Two operands of one type and width; Python numbers take the type of the other."""
        if not isinstance(a, Val):
            a = self.const(b.kind, a, b.lanes)
        elif not isinstance(b, Val):
            b = self.const(a.kind, b, a.lanes)
        if a.lanes != b.lanes:
            lanes = max(a.lanes, b.lanes)
            a, b = self.splat(a, lanes), self.splat(b, lanes)
        return a, b

    def binary(self, name: str, a: Any, b: Any) -> Val:
        a, b = self.pair(a, b)
        if LLVM_TYPES[a.kind] != LLVM_TYPES[b.kind]:
            raise ArgumentError(f"{name}: operands {a!r} and {b!r} differ in type")
        flags = FLOAT_FLAGS + " " if name[0] == "f" else ""
        return self.emit(f"{name} {flags}{a.type} {a.ir}, {b.ir}", a.kind, a.lanes)

    def rounded_product(self, a: Any, b: Any) -> Val:
        """a · b of floats, rounded also where it is added to something: what NumPy computes."""
        a, b = self.pair(a, b)
        return self.emit(f"fmul {a.type} {a.ir}, {b.ir}", a.kind, a.lanes)

    def compare(self, name: str, a: Any, b: Any) -> Val:
        a, b = self.pair(a, b)
        if a.is_float:
            how = "fcmp " + ("une" if name == "ne" else "o" + name)
        elif name in ("eq", "ne"):
            how = "icmp " + name
        else:
            how = "icmp " + ("s" if a.is_signed and a.kind != "i1" else "u") + name
        return self.emit(f"{how} {a.type} {a.ir}, {b.ir}", "i1", a.lanes)

    def select(self, condition: Val, yes: Any, no: Any) -> Val:
        yes, no = self.pair(yes, no)
        lanes = max(condition.lanes, yes.lanes)
        condition, yes, no = self.splat(condition, lanes), self.splat(yes, lanes), self.splat(no, lanes)
        return self.emit(f"select {condition.typed}, {yes.typed}, {no.typed}", yes.kind, lanes)

    def intrinsic(self, name: str, *operands: Any, flags: str = "") -> Val:
        """An LLVM intrinsic whose operands and result have one type, such as 'fma', 'sqrt', 'smax'."""
        first = next(x for x in operands if isinstance(x, Val))
        lanes = max(x.lanes for x in operands if isinstance(x, Val))
        values = [self.splat(x, lanes) if isinstance(x, Val) else self.const(first.kind, x, lanes) for x in operands]
        return self.call(f"llvm.{name}.{self.suffix(first.kind, lanes)}", first.kind, lanes, *values, flags=flags)

    def call(self, name: str, kind: str, lanes: int, *values: Val, flags: str = "") -> Val:
        """A function by its full name."""
        result = LLVM_TYPES[kind] if lanes == 1 else f"<{lanes} x {LLVM_TYPES[kind]}>"
        self.declarations[f"declare {result} @{name}({', '.join(v.type for v in values)})"] = None
        flags = flags + " " if flags else ""
        return self.emit(f"call {flags}{result} @{name}({', '.join(v.typed for v in values)})", kind, lanes)

    def suffix(self, kind: str, lanes: int) -> str:
        scalar = kind if is_float(kind) else f"i{BITS[kind]}"
        return scalar if lanes == 1 else f"v{lanes}{scalar}"

    def fma(self, a: Any, b: Any, c: Any) -> Val:
        """a · b + c with one rounding."""
        return self.intrinsic("fma", a, b, c)

    def cast(self, x: Val, kind: str) -> Val:
        """Convert as NumPy's astype does; a float that no integer holds gives some integer, never poison."""
        if x.kind == kind:
            return x
        if x.kind == "bf16":
            return self.cast(self.bitcast(self.cast(Val(self, x.ir, "u16", x.lanes), "u32") << 16, "f32"), kind)
        if kind == "bf16":
            upper = self.cast(self._rounded_bits(self.cast(x, "f32")) >> 16, "u16")
            return Val(self, upper.ir, kind, x.lanes)
        to = LLVM_TYPES[kind] if x.lanes == 1 else f"<{x.lanes} x {LLVM_TYPES[kind]}>"
        if kind == "i1":
            return self.compare("ne", x, 0)
        if x.is_float and is_float(kind):
            how = "fpext" if BITS[kind] > BITS[x.kind] else "fptrunc"
        elif x.is_float:
            return self._float_to_integer(x, kind)
        elif is_float(kind):
            how = "sitofp" if x.is_signed and x.kind != "i1" else "uitofp"
        elif BITS[kind] == BITS[x.kind]:
            return Val(self, x.ir, kind, x.lanes)
        elif BITS[kind] < BITS[x.kind]:
            how = "trunc"
        else:
            how = "sext" if x.is_signed and x.kind != "i1" else "zext"
        return self.emit(f"{how} {x.typed} to {to}", kind, x.lanes)

    def rounded_half(self, x: Val) -> Val:
        """The bfloat16 number next to a number of the type f32, of two that are as near the even one; again as f32."""
        return self.bitcast(self._rounded_bits(x) & 0xFFFF0000, "f32")

    def _rounded_bits(self, x: Val) -> Val:
        """The bits of a float32, whose upper half is the nearest bfloat16 number; NaN stays NaN."""
        bits = self.bitcast(x, "u32")
        nearest = bits + 0x7FFF + ((bits >> 16) & 1)
        return self.select(self.compare("ne", x, x), bits | 0x400000, nearest)

    def _float_to_integer(self, x: Val, kind: str) -> Val:
        """Through a wide signed integer, as the processor's conversion does: out of range gives the least integer."""
        wide = "i64" if BITS[kind] > 32 or kind == "u32" else "i32"
        name = f"llvm.fptosi.sat.{self.suffix(wide, x.lanes)}.{self.suffix(x.kind, x.lanes)}"
        found = self.call(name, wide, x.lanes, x)
        limit = 2.0 ** (BITS[wide] - 1)
        outside = (x >= limit) | self.compare("ne", x, x)
        found = self.select(outside, self.const(wide, -(1 << (BITS[wide] - 1)), x.lanes), found)
        return self.cast(found, kind)

    def bitcast(self, x: Val, kind: str) -> Val:
        """The same bits as another type of equal width."""
        to = LLVM_TYPES[kind] if x.lanes == 1 else f"<{x.lanes} x {LLVM_TYPES[kind]}>"
        return self.emit(f"bitcast {x.typed} to {to}", kind, x.lanes)

    # ---------------------------------------------------------------------------------- lanes
    def shuffle(self, a: Val, b: Val, order: Sequence[int]) -> Val:
        """Lanes of a and b (numbered on) in a new order."""
        items = ", ".join(f"i32 {i}" for i in order)
        return self.emit(f"shufflevector {a.typed}, {b.typed}, <{len(order)} x i32> <{items}>", a.kind, len(order))

    def extract(self, x: Val, lane: Any) -> Val:
        return self.emit(f"extractelement {x.typed}, {self.index(lane).typed}", x.kind)

    def insert(self, x: Val, value: Val, lane: Any) -> Val:
        return self.emit(f"insertelement {x.typed}, {value.typed}, {self.index(lane).typed}", x.kind, x.lanes)

    def total(self, x: Val) -> Val:
        """The sum of the lanes, in any order."""
        if x.lanes == 1:
            return x
        name = f"{'fadd' if x.is_float else 'add'}.{self.suffix(x.kind, x.lanes)}"
        if x.is_float:
            zero = self.const(x.kind, -0.0)
            return self.call(f"llvm.vector.reduce.{name}", x.kind, 1, zero, x, flags="reassoc")
        return self.call(f"llvm.vector.reduce.{name}", x.kind, 1, x)

    def fold(self, x: Val, combine: Any) -> Val:
        """The lanes combined by a function of two values, halving the width each time."""
        while x.lanes > 1:
            half = x.lanes // 2
            low = self.shuffle(x, x, range(half))
            high = self.shuffle(x, x, range(half, x.lanes))
            if half == 1:
                low, high = self.extract(x, 0), self.extract(x, 1)
            x = combine(low, high)
        return x
