"""Element types: their names, their NumPy counterparts, and how they combine.

`promote_types` and `result_type` follow PyTorch: tensors with dimensions outrank 0-d tensors, which
outrank Python numbers; a lower rank changes the result only when its category (bool < integer <
float < complex) is higher.
"""

from __future__ import annotations

from typing import Any, ClassVar

import ml_dtypes
import numpy as np

from .errors import ArgumentError, DtypeError

__all__ = [
    "ALIASES",
    "ALL",
    "BOOL",
    "COMPLEX",
    "FLOAT",
    "INTEGER",
    "LOW_PRECISION",
    "DtypeLike",
    "as_dtype",
    "bfloat16",
    "bool_",
    "can_cast",
    "complex64",
    "complex128",
    "default_complex",
    "dtype",
    "finfo",
    "float16",
    "float32",
    "float64",
    "from_numpy_dtype",
    "get_default_dtype",
    "iinfo",
    "int8",
    "int16",
    "int32",
    "int64",
    "promote_types",
    "result_dtype",
    "scalar_dtype",
    "set_default_dtype",
    "uint8",
    "uint16",
    "uint32",
    "uint64",
]

BOOL, INTEGER, FLOAT, COMPLEX = range(4)


class dtype:  # PyTorch spells it in lower case
    """An element type such as `weft.float32`; compare with `is` or `==`."""

    by_numpy: ClassVar[dict[np.dtype, dtype]] = {}
    by_name: ClassVar[dict[str, dtype]] = {}

    def __init__(self, name: str, np_dtype: Any, category: int, signed: bool = True) -> None:
        self.name, self.np, self.category = name, np.dtype(np_dtype), category
        self.itemsize, self.is_signed = self.np.itemsize, signed
        self.is_floating_point, self.is_complex = category == FLOAT, category == COMPLEX
        dtype.by_numpy[self.np] = dtype.by_name[name] = self

    def __repr__(self) -> str:
        return f"weft.{self.name}"

    def __reduce__(self) -> str | tuple[Any, ...]:
        return (_named, (self.name,))

    def to_real(self) -> dtype:
        """The type of the real part: complex64 → float32."""
        return {complex64: float32, complex128: float64}.get(self, self)

    def to_complex(self) -> dtype:
        """The complex type with parts of this type: float64 → complex128."""
        if self.is_complex:
            return self
        return complex128 if self is float64 else complex64


DtypeLike = dtype | np.dtype | type | str  # what `as_dtype` takes


def _named(name: str) -> dtype:
    return dtype.by_name[name]


bool_ = dtype("bool", np.bool_, BOOL, signed=False)
uint8 = dtype("uint8", np.uint8, INTEGER, signed=False)
uint16 = dtype("uint16", np.uint16, INTEGER, signed=False)
uint32 = dtype("uint32", np.uint32, INTEGER, signed=False)
uint64 = dtype("uint64", np.uint64, INTEGER, signed=False)
int8 = dtype("int8", np.int8, INTEGER)
int16 = dtype("int16", np.int16, INTEGER)
int32 = dtype("int32", np.int32, INTEGER)
int64 = dtype("int64", np.int64, INTEGER)
float16 = dtype("float16", np.float16, FLOAT)
bfloat16 = dtype("bfloat16", ml_dtypes.bfloat16, FLOAT)
float32 = dtype("float32", np.float32, FLOAT)
float64 = dtype("float64", np.float64, FLOAT)
complex64 = dtype("complex64", np.complex64, COMPLEX)
complex128 = dtype("complex128", np.complex128, COMPLEX)

ALL = tuple(dtype.by_name.values())
ALIASES = {
    "uint8": "byte",
    "int8": "char",
    "int16": "short",
    "int32": "int",
    "int64": "long",
    "float16": "half",
    "float32": "float",
    "float64": "double",
    "complex64": "cfloat",
    "complex128": "cdouble",
}
LOW_PRECISION = frozenset({float16, bfloat16})  # accumulated in float32


class _Defaults:
    float = float32


def get_default_dtype() -> dtype:
    """The float type of new tensors made from Python floats."""
    return _Defaults.float


def set_default_dtype(d: dtype) -> None:
    """Set the float type of new tensors; only floating-point types are allowed."""
    d = as_dtype(d)
    if not d.is_floating_point:
        raise ArgumentError(f"set_default_dtype: only floating-point types are supported, got {d}")
    _Defaults.float = d


def default_complex() -> dtype:
    return _Defaults.float.to_complex()


_PYTHON = {bool: bool_, int: int64}


def as_dtype(value: Any) -> dtype:
    """A Weft dtype from a Weft dtype, a NumPy dtype, a Python type or a name."""
    if isinstance(value, dtype):
        return value
    if value is float:
        return float64
    if value is complex:
        return complex128
    if isinstance(value, type) and value in _PYTHON:
        return _PYTHON[value]
    if isinstance(value, str) and value in dtype.by_name:
        return dtype.by_name[value]
    try:
        return dtype.by_numpy[np.dtype(value)]
    except (KeyError, TypeError, ValueError):
        known = ", ".join(d.name for d in ALL)
        raise DtypeError(f"{value!r} is not an element type of Weft; choose one of {known}") from None


def from_numpy_dtype(np_dtype: np.dtype) -> dtype:
    """The Weft dtype of a NumPy array, or an error that names what can be converted."""
    found = dtype.by_numpy.get(np_dtype)
    if found is None:
        found = dtype.by_numpy.get(np_dtype.newbyteorder("="))
    if found is None:
        raise DtypeError(
            f"a NumPy array of type {np_dtype} cannot become a tensor; convert it first, for example "
            f"with array.astype(np.float32) (supported: {', '.join(d.name for d in ALL)})"
        )
    return found


def scalar_dtype(value: Any) -> dtype:
    """The type that a Python or NumPy number counts as."""
    if isinstance(value, (bool, np.bool_)):
        return bool_
    if isinstance(value, np.generic) and value.dtype in dtype.by_numpy:
        return dtype.by_numpy[value.dtype]
    if isinstance(value, int):
        return int64
    if isinstance(value, float):
        return _Defaults.float
    if isinstance(value, complex):
        return default_complex()
    raise ArgumentError(f"expected a number or a tensor, got {type(value).__name__}")


_PROMOTED: dict[tuple[dtype, dtype], dtype] = {}


def _promote(a: dtype, b: dtype) -> dtype:
    if a is b:
        return a
    low, high = sorted((a, b), key=lambda d: d.category)
    if high.category != low.category:
        if high.is_complex and low is float64:
            return complex128
        return high
    if {a, b} == {float16, bfloat16}:
        return float32
    if uint64 in (a, b) and (a.is_signed or b.is_signed):
        raise DtypeError(f"promote_types: {a} and {b} have no common integer type; convert one of them with .to(...)")
    return dtype.by_numpy[np.promote_types(a.np, b.np)]


def promote_types(type1: dtype, type2: dtype) -> dtype:
    """The smallest type that both fit into, by PyTorch's table (int64 with float16 is float16)."""
    pair = as_dtype(type1), as_dtype(type2)
    if pair not in _PROMOTED:
        _PROMOTED[pair] = _promote(*pair)
    return _PROMOTED[pair]


def _combine(higher: dtype | None, lower: dtype | None) -> dtype | None:
    """The result of a higher rank (say, tensors with dimensions) with a lower one (0-d tensors)."""
    if higher is None or lower is None:
        return higher or lower
    if lower.category > higher.category:
        if higher.is_floating_point:
            return higher.to_complex()
        return promote_types(higher, lower) if higher is not bool_ else lower
    return higher


def result_dtype(operands: Any) -> dtype:
    """The common type of tensors and Python numbers, by rank and category."""
    dimensioned = zero_dim = number = None
    for x in operands:
        if isinstance(x, np.ndarray):
            raise ArgumentError(
                "expected a Tensor or a number, not a NumPy array; make a tensor with weft.from_numpy(...)"
            )
        if hasattr(x, "ndim") and not isinstance(x, np.generic):
            if x.ndim:
                dimensioned = promote_types(dimensioned, x.dtype) if dimensioned else x.dtype
            else:
                zero_dim = promote_types(zero_dim, x.dtype) if zero_dim else x.dtype
        else:
            kind = scalar_dtype(x)
            number = promote_types(number, kind) if number else kind
    found = _combine(dimensioned, _combine(zero_dim, number))
    if found is None:
        raise ArgumentError("result_type: needs at least one tensor or number")
    return found


def can_cast(from_: dtype, to: dtype) -> bool:
    """Whether a cast keeps the category or raises it (float → int is refused), as PyTorch decides."""
    from_, to = as_dtype(from_), as_dtype(to)
    if from_.is_complex and not to.is_complex:
        return False
    if from_.is_floating_point and to.category < FLOAT:
        return False
    return not (from_ is not bool_ and to is bool_)


class finfo:  # PyTorch spells it in lower case
    """Limits of a floating-point type: eps, min, max, tiny, bits, resolution."""

    def __init__(self, type: dtype | None = None) -> None:
        self._dtype = as_dtype(type) if type is not None else _Defaults.float
        if self._dtype.category < FLOAT:
            raise ArgumentError(f"finfo: needs a floating-point type, got {self._dtype}; use weft.iinfo")
        real = self._dtype.to_real()
        info = ml_dtypes.finfo(real.np)
        self.bits, self.dtype = real.itemsize * 8, real.name
        self.eps, self.max, self.min = float(info.eps), float(info.max), float(info.min)
        self.tiny = self.smallest_normal = float(info.smallest_normal)
        self.resolution = float(info.resolution)

    def __repr__(self) -> str:
        return (
            f"finfo(resolution={self.resolution:g}, min={self.min:g}, max={self.max:g}, eps={self.eps:g}, "
            f"smallest_normal={self.smallest_normal:g}, tiny={self.tiny:g}, dtype={self.dtype})"
        )


class iinfo:  # PyTorch spells it in lower case
    """Limits of an integer type: min, max, bits."""

    def __init__(self, type: dtype) -> None:
        kind = as_dtype(type)
        if kind.category != INTEGER:
            raise ArgumentError(f"iinfo: needs an integer type, got {kind}; use weft.finfo for floats")
        info = np.iinfo(kind.np)
        self.bits, self.min, self.max, self.dtype = info.bits, int(info.min), int(info.max), kind.name

    def __repr__(self) -> str:
        return f"iinfo(min={self.min}, max={self.max}, dtype={self.dtype})"
