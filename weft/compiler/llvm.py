"""Writing one native function as LLVM text: typed values with operators, loops, vector memory access.

`Function` is the builder that every kernel gets. A `Val` is a value in a register: its element type
('f32', 'f64', 'i1', 'i8' … 'i64', 'u8' … 'u64', 'ptr') and its number of lanes. Operators take values
and Python numbers; one lane meets many by being repeated. Floating-point code may contract a·b + c
into one instruction and does nothing else that changes results: NaN, infinities and the sign of zero
behave as in NumPy.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np

from .mathlib import Math

FLOAT_FLAGS = "contract"
LLVM_TYPES = {"f32": "float", "f64": "double", "ptr": "ptr", "i1": "i1"} | {
    f"{s}{n}": f"i{n}" for s in "iu" for n in (8, 16, 32, 64)
}
BITS = {"f32": 32, "f64": 64, "i1": 1, "ptr": 64} | {f"{s}{n}": n for s in "iu" for n in (8, 16, 32, 64)}
OF_NUMPY = {
    np.dtype(np.float32): "f32",
    np.dtype(np.float64): "f64",
    np.dtype(np.bool_): "i1",
    **{np.dtype(f"i{n // 8}"): f"i{n}" for n in (8, 16, 32, 64)},
    **{np.dtype(f"u{n // 8}"): f"u{n}" for n in (8, 16, 32, 64)},
}


def type_of(dtype: Any) -> str | None:
    """The element type of native code for a NumPy type; None where there is none (complex, half precision)."""
    return OF_NUMPY.get(np.dtype(dtype))


def is_float(kind: str) -> bool:
    return kind in ("f32", "f64")


def literal(kind: str, value: Any) -> str:
    """A Python number as LLVM writes constants of the type (floats by their bits)."""
    if kind == "f32":
        with np.errstate(over="ignore"):
            value = float(np.float32(value))
    if is_float(kind):
        return f"0x{struct.unpack('Q', struct.pack('d', float(value)))[0]:016X}"
    if kind == "i1":
        return "true" if value else "false"
    number = int(value) & ((1 << BITS[kind]) - 1)
    return str(number if number < 1 << (BITS[kind] - 1) else number - (1 << BITS[kind]))


class Val:
    """A value in a register."""

    __slots__ = ("f", "ir", "kind", "lanes")
    __hash__ = object.__hash__

    def __init__(self, f: Function, ir: str, kind: str, lanes: int = 1) -> None:
        self.f, self.ir, self.kind, self.lanes = f, ir, kind, lanes

    @property
    def type(self) -> str:
        """LLVM's name of the type."""
        return LLVM_TYPES[self.kind] if self.lanes == 1 else f"<{self.lanes} x {LLVM_TYPES[self.kind]}>"

    @property
    def typed(self) -> str:
        return f"{self.type} {self.ir}"

    @property
    def is_float(self) -> bool:
        return self.kind in ("f32", "f64")

    @property
    def is_signed(self) -> bool:
        return self.kind[0] == "i"

    def __repr__(self) -> str:
        return f"Val({self.typed})"

    def __add__(self, other: Any) -> Val:
        return self.f.binary("fadd" if self.is_float else "add", self, other)

    def __radd__(self, other: Any) -> Val:
        return self.f.binary("fadd" if self.is_float else "add", other, self)

    def __sub__(self, other: Any) -> Val:
        return self.f.binary("fsub" if self.is_float else "sub", self, other)

    def __rsub__(self, other: Any) -> Val:
        return self.f.binary("fsub" if self.is_float else "sub", other, self)

    def __mul__(self, other: Any) -> Val:
        return self.f.binary("fmul" if self.is_float else "mul", self, other)

    def __rmul__(self, other: Any) -> Val:
        return self.f.binary("fmul" if self.is_float else "mul", other, self)

    def __truediv__(self, other: Any) -> Val:
        return self.f.binary("fdiv", self, other)

    def __rtruediv__(self, other: Any) -> Val:
        return self.f.binary("fdiv", other, self)

    def __floordiv__(self, other: Any) -> Val:
        """Division of integers, rounding towards zero."""
        return self.f.binary("sdiv" if self.is_signed else "udiv", self, other)

    def __mod__(self, other: Any) -> Val:
        """Remainder of integers, with the sign of the first."""
        return self.f.binary("srem" if self.is_signed else "urem", self, other)

    def __and__(self, other: Any) -> Val:
        return self.f.binary("and", self, other)

    def __or__(self, other: Any) -> Val:
        return self.f.binary("or", self, other)

    def __xor__(self, other: Any) -> Val:
        return self.f.binary("xor", self, other)

    def __lshift__(self, other: Any) -> Val:
        return self.f.binary("shl", self, other)

    def __rshift__(self, other: Any) -> Val:
        return self.f.binary("ashr" if self.is_signed else "lshr", self, other)

    def __neg__(self) -> Val:
        if self.is_float:
            return self.f.emit(f"fneg {self.typed}", self.kind, self.lanes)
        return self.f.binary("sub", 0, self)

    def __invert__(self) -> Val:
        return self.f.binary("xor", self, 1 if self.kind == "i1" else -1)

    def __lt__(self, other: Any) -> Val:
        return self.f.compare("lt", self, other)

    def __le__(self, other: Any) -> Val:
        return self.f.compare("le", self, other)

    def __gt__(self, other: Any) -> Val:
        return self.f.compare("gt", self, other)

    def __ge__(self, other: Any) -> Val:
        return self.f.compare("ge", self, other)

    def eq(self, other: Any) -> Val:
        return self.f.compare("eq", self, other)

    def ne(self, other: Any) -> Val:
        """Unequal; true for NaN, as in NumPy."""
        return self.f.compare("ne", self, other)


class Loop:
    """A counting loop being written: `i` is its counter, `carry` the values that go round.

    Call `next(values)` in the body with what the next round starts from; after the loop `results` are the last ones.
    """

    def __init__(self, i: Val, carry: list[Val]) -> None:
        self.i, self.carry, self.results = i, carry, carry
        self.following: list[Val] | None = None

    def next(self, values: Sequence[Val]) -> None:
        self.following = list(values)


class Function(Math):
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

    def poison(self, kind: str, lanes: int) -> Val:
        return Val(self, "poison", kind, lanes)

    # ------------------------------------------------------------------------------ arithmetic
    def splat(self, x: Val, lanes: int) -> Val:
        if x.lanes == lanes:
            return x
        if x.lanes != 1:
            raise ValueError(f"splat: {x.lanes} lanes cannot become {lanes}")
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
            raise TypeError(f"{name}: operands {a!r} and {b!r} differ in type")
        flags = FLOAT_FLAGS + " " if name[0] == "f" else ""
        return self.emit(f"{name} {flags}{a.type} {a.ir}, {b.ir}", a.kind, a.lanes)

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

    # --------------------------------------------------------------------------------- memory
    def arg(self, number: int) -> Val:
        """The pointer in argument word `number`; loaded once, at the start of the function."""
        found = self._arguments.get(number)
        if found is None:
            name = f"%arg{number}"
            place = f"{name}.p = getelementptr i64, ptr %args, i64 {number}"
            self.prologue += ["  " + place, f"  {name} = load ptr, ptr {name}.p, align 8"]
            found = self._arguments[number] = Val(self, name, "ptr")
        return found

    def offset(self, pointer: Val, index: Any, kind: str) -> Val:
        """The address of element `index` of an array."""
        if isinstance(index, int) and index == 0:
            return pointer
        element = "i8" if kind == "i1" else LLVM_TYPES[kind]
        index = self.index(index)
        return self.emit(f"getelementptr {element}, {pointer.typed}, {index.typed}", "ptr", index.lanes)

    def load(
        self, pointer: Val, index: Any, kind: str, lanes: int = 1, mask: Val | None = None, stride: int = 1
    ) -> Val:
        """Element `index`, or the `lanes` elements from there on, `stride` apart. Masked lanes are zero."""
        memory = "i8" if kind == "i1" else LLVM_TYPES[kind]
        align = max(1, BITS[kind] // 8)
        if lanes > 1 and stride == 0:
            return self.splat(self.load(pointer, index, kind), lanes)
        raw = "u8" if kind == "i1" else kind
        if lanes == 1:
            found = self.emit(f"load {memory}, {self.offset(pointer, index, kind).typed}, align {align}", raw)
        elif stride != 1:
            found = self._gather(pointer, index, raw, lanes, mask, stride, align)
        elif mask is None:
            place = self.offset(pointer, index, kind)
            found = self.emit(f"load <{lanes} x {memory}>, {place.typed}, align {align}", raw, lanes)
        else:
            vector, place = f"<{lanes} x {memory}>", self.offset(pointer, index, kind)
            name = f"llvm.masked.load.{self.suffix(raw, lanes)}.p0"
            self.declarations[f"declare {vector} @{name}(ptr, i32, <{lanes} x i1>, {vector})"] = None
            rest = f"{place.typed}, i32 {align}, {mask.typed}, {vector} zeroinitializer"
            found = self.emit(f"call {vector} @{name}({rest})", raw, lanes)
        return self.compare("ne", found, 0) if kind == "i1" else found

    def _lane_places(self, pointer: Val, index: Any, kind: str, lanes: int, stride: int) -> Val:
        start = self.offset(pointer, index, kind)
        steps = ", ".join(f"i64 {i * stride}" for i in range(lanes))
        return self.offset(start, Val(self, f"<{steps}>", "i64", lanes), kind)

    def _gather(
        self, pointer: Val, index: Any, kind: str, lanes: int, mask: Val | None, stride: int, align: int
    ) -> Val:
        return self.gather(self._lane_places(pointer, index, kind, lanes, stride), kind, mask)

    def gather(self, places: Val, kind: str, mask: Val | None = None) -> Val:
        """The elements at a vector of addresses; masked lanes are zero. Booleans are loaded as u8."""
        lanes, memory = places.lanes, LLVM_TYPES[kind]
        mask = mask or self.const("i1", True, lanes)
        vector = f"<{lanes} x {memory}>"
        name = f"llvm.masked.gather.{self.suffix(kind, lanes)}.v{lanes}p0"
        self.declarations[f"declare {vector} @{name}(<{lanes} x ptr>, i32, <{lanes} x i1>, {vector})"] = None
        rest = f"{places.typed}, i32 {max(1, BITS[kind] // 8)}, {mask.typed}, {vector} zeroinitializer"
        return self.emit(f"call {vector} @{name}({rest})", kind, lanes)

    def store(
        self, value: Val, pointer: Val, index: Any, mask: Val | None = None, stride: int = 1, past: bool = False
    ) -> None:
        """Write one element, or one for each lane, `stride` apart; `past`: whole aligned vectors, past the caches."""
        kind = value.kind
        if kind == "i1":
            value, kind = self.cast(value, "u8"), "u8"
        align = BITS[kind] // 8
        if mask is not None and value.lanes > 1 and mask.ir == self.tail_mask(value.lanes, 1).ir:
            value = self.extract(value, 0)  # LLVM would store a whole wide lane where a narrowed one is meant
        if value.lanes > 1 and stride != 1:
            places = self._lane_places(pointer, index, kind, value.lanes, stride)
            mask = mask or self.const("i1", True, value.lanes)
            name = f"llvm.masked.scatter.{self.suffix(kind, value.lanes)}.v{value.lanes}p0"
            self.declarations[
                f"declare void @{name}({value.type}, <{value.lanes} x ptr>, i32, <{value.lanes} x i1>)"
            ] = None
            self.do(f"call void @{name}({value.typed}, {places.typed}, i32 {align}, {mask.typed})")
            return
        place = self.offset(pointer, index, kind)
        if mask is None or value.lanes == 1:
            hint = f"{align * value.lanes}, !nontemporal !{{i32 1}}" if past else f"{align}"
            self.do(f"store {value.typed}, {place.typed}, align {hint}")
            return
        name = f"llvm.masked.store.{self.suffix(kind, value.lanes)}.p0"
        self.declarations[f"declare void @{name}({value.type}, ptr, i32, <{value.lanes} x i1>)"] = None
        self.do(f"call void @{name}({value.typed}, {place.typed}, i32 {align}, {mask.typed})")

    def stack(self, kind: str, count: int, align: int = 64) -> Val:
        """Private memory of the function, `count` elements."""
        name = f"%{self.fresh('stack')}"
        self.prologue.append(f"  {name} = alloca [{count} x {LLVM_TYPES[kind]}], align {align}")
        return Val(self, name, "ptr")

    # -------------------------------------------------------------------------------- control
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

    def barrier(self) -> None:
        """Wait until every thread is here."""
        self.do("call void @barrier(ptr %ctx, i64 %tid, i64 %nt)")
