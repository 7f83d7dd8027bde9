"""What the functions of `mathlib` are made of: formats of numbers, polynomials, powers of two, exact sums and products."""

from __future__ import annotations

import re
import struct
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

__all__ = ["FORMATS", "Tools", "float_bits", "literal_value"]


@dataclass(frozen=True)
class Format:
    """A floating-point type: the integer type of its width, the bits of its fraction, the bias of its exponent."""

    whole: str
    fraction: int
    bias: int

    @property
    def width(self) -> int:
        return int(self.whole[1:])

    @property
    def shifter(self) -> float:
        """1.5 · 2^fraction: a small number added to it is rounded to an integer, which the lowest bits then hold."""
        return 1.5 * 2.0**self.fraction

    @property
    def one_bits(self) -> int:
        return self.bias << self.fraction

    @property
    def tiny(self) -> float:
        """The smallest normal number."""
        return 2.0 ** (1 - self.bias)


FORMATS = {"f32": Format("i32", 23, 127), "f64": Format("i64", 52, 1023)}


def float_bits(kind: str, value: float) -> int:
    """The bits of a number as an integer."""
    pair = ("f", "I") if kind == "f32" else ("d", "Q")
    return struct.unpack(pair[1], struct.pack(pair[0], value))[0]


def literal_value(x: Any) -> float | int | None:
    """The number that a constant value holds in every lane; None for values known only when running."""
    found = re.fullmatch(r"(?:splat \(\w+ )?(0x[0-9A-F]+|-?\d+)\)?", x.ir)
    if found is None:
        return None
    text = found[1]
    return struct.unpack("d", struct.pack("Q", int(text, 16)))[0] if text.startswith("0x") else int(text)


class Tools:
    """Building blocks; the builder `Function` supplies the instructions."""

    def polynomial(self, x: Any, coefficients: Sequence[float]) -> Any:
        """Σ cₖ xᵏ by Horner's rule."""
        y = self.const(x.kind, coefficients[-1], x.lanes)
        for c in coefficients[-2::-1]:
            y = y * x + c
        return y

    def least(self, x: Any, bound: float) -> Any:
        """min(x, bound); NaN stays."""
        return self.select(x > bound, bound, x)

    def clamp(self, x: Any, low: float, high: float) -> Any:
        """x moved into [low, high]; NaN stays."""
        return self.select(x < low, low, self.least(x, high))

    def flip_sign(self, x: Any, sign: Any) -> Any:
        """x with its sign changed where the other is negative (or −0.0)."""
        form = FORMATS[x.kind]
        bit = self.bitcast(sign, form.whole) & (1 << form.width - 1)
        return self.bitcast(self.bitcast(x, form.whole) ^ bit, x.kind)

    # ------------------------------------------------------------------------------ powers of two
    def _power(self, n: Any) -> Any:
        """2ⁿ as a float of the width of n, where it is normal; only the lowest bits of n count."""
        kind = "f32" if n.kind == "i32" else "f64"
        form = FORMATS[kind]
        return self.bitcast((n << form.fraction) + form.one_bits, kind)

    def _two_to(self, shifted: Any, extra: int = 0) -> Any:
        """2^(n + extra), where it is normal, for the integer n in a float to which the shifter was added."""
        n = self.bitcast(shifted, FORMATS[shifted.kind].whole)
        return self._power(n + extra if extra else n)

    def scaled(self, x: Any, n: Any) -> Any:
        """x · 2ⁿ for a float n without fraction, rounded once; also where the result is denormal or infinite."""
        form = FORMATS[x.kind]
        if self.target.vector_bytes * 8 == x.lanes * form.width == 512:  # AVX-512 has it as an instruction
            name = "llvm.x86.avx512.mask.scalef." + ("ps.512" if x.kind == "f32" else "pd.512")
            mask, rounding = self.const("i16" if x.kind == "f32" else "i8", -1), self.const("i32", 4)
            return self.call(name, x.kind, x.lanes, x, n, x, mask, rounding)
        whole = self.bitcast(n + form.shifter, form.whole) - float_bits(x.kind, form.shifter)
        half = whole >> 1
        return x * self._power(half) * self._power(whole - half)

    # --------------------------------------------------------------------------- exact operations
    def exactly(self, name: str, a: Any, b: Any) -> Any:
        """One rounding, never contracted with another operation."""
        return self.emit(f"{name} {a.type} {a.ir}, {b.ir}", a.kind, a.lanes)

    def two_sum(self, a: Any, b: Any) -> tuple[Any, Any]:
        """(s, e) with s = a + b rounded and s + e = a + b."""
        s = self.exactly("fadd", a, b)
        other = self.exactly("fsub", s, a)
        first = self.exactly("fsub", a, self.exactly("fsub", s, other))
        return s, self.exactly("fadd", first, self.exactly("fsub", b, other))

    def two_product(self, a: Any, b: Any) -> tuple[Any, Any]:
        """(p, e) with p = a · b rounded and p + e = a · b."""
        p = self.exactly("fmul", a, b)
        return p, self.fma(a, b, -p)

    # --------------------------------------------------------------------------------- control
    def routine(self, name: str, write: Callable, *operands: Any) -> Any:
        """`write(f, *operands)` as a function of its own, written once in a kernel and called: the place for loops.

        The name with the types of the operands, all of one number of lanes, tells all about it.
        """
        symbol = ".".join([name, *(x.kind for x in operands), str(operands[0].lanes)])
        inner = type(self)(symbol, self.target)
        inputs = [type(x)(inner, f"%x{i}", x.kind, x.lanes) for i, x in enumerate(operands)]
        y = write(inner, *inputs)
        head = f"define internal {y.type} @{symbol}({', '.join(x.typed for x in inputs)}) #0 {{\nentry:"
        lines = [head, *inner.prologue, *inner.lines, f"  ret {y.typed}\n}}"]
        self.declarations |= inner.declarations | {"\n".join(lines): None}
        return self.emit(f"call {y.type} @{symbol}({', '.join(x.typed for x in operands)})", y.kind, y.lanes)

    def table(self, name: str, numbers: Sequence[float], kind: str = "f64") -> Any:
        """A pointer to numbers that are part of the code."""
        items = [self.const(kind, x) for x in numbers]
        text = ", ".join(x.typed for x in items)
        self.declarations[f"@{name} = internal constant [{len(items)} x {items[0].type}] [{text}]"] = None
        return type(self.tid)(self, f"@{name}", "ptr")

    def largest(self, x: Any) -> Any:
        """The largest lane of integers."""
        if x.lanes == 1:
            return x
        name = f"llvm.vector.reduce.{'smax' if x.is_signed else 'umax'}.{self.suffix(x.kind, x.lanes)}"
        return self.call(name, x.kind, 1, x)
