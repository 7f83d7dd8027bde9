"""What native code computes with: element types, constants, and `Val`, a typed value with operators.

A `Val` is a value in a register: its element type ('f32', 'f64', 'i1', 'i8' … 'i64', 'u8' … 'u64', 'ptr') and its number
of lanes. Operators take values and Python numbers; one lane meets many by being repeated. Numbers of the type 'bf16' are
read, written and converted, and never computed with: they are the upper halves of those of 'f32'.
"""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING, Any

import ml_dtypes
import numpy as np

if TYPE_CHECKING:
    from .builder import Function

__all__ = ["BITS", "LLVM_TYPES", "Val", "is_float", "literal", "type_of"]

LLVM_TYPES = {"f32": "float", "f64": "double", "ptr": "ptr", "i1": "i1", "u128": "i128", "bf16": "i16"} | {
    f"{s}{n}": f"i{n}" for s in "iu" for n in (8, 16, 32, 64)
}
BITS = {"f32": 32, "f64": 64, "i1": 1, "ptr": 64, "u128": 128, "bf16": 16} | {
    f"{s}{n}": n for s in "iu" for n in (8, 16, 32, 64)
}
OF_NUMPY = {
    np.dtype(np.float32): "f32",
    np.dtype(np.float64): "f64",
    np.dtype(ml_dtypes.bfloat16): "bf16",
    np.dtype(np.bool_): "i1",
    **{np.dtype(f"i{n // 8}"): f"i{n}" for n in (8, 16, 32, 64)},
    **{np.dtype(f"u{n // 8}"): f"u{n}" for n in (8, 16, 32, 64)},
}


def type_of(dtype: Any) -> str | None:
    """The element type of native code for a NumPy type; None where there is none (complex, float16)."""
    found = OF_NUMPY.get(dtype)
    return OF_NUMPY.get(np.dtype(dtype)) if found is None else found


def is_float(kind: str) -> bool:
    return kind in ("f32", "f64")


def literal(kind: str, value: Any) -> str:
    """A Python number as LLVM writes constants of the type (floats by their bits)."""
    if kind == "f32":
        with np.errstate(over="ignore"):
            value = float(np.float32(value))
    if is_float(kind):
        return f"0x{struct.unpack('Q', struct.pack('d', float(value)))[0]:016X}"
    if kind == "bf16":
        value = np.array(value, ml_dtypes.bfloat16).view(np.int16)
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
