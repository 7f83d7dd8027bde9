"""Element types, how they combine, and the data type functions of the standard.

Unlike PyTorch's rules, 0-d arrays promote like all others here; Python numbers take the type of the array.
Mixed kinds, which the standard leaves open, follow `weft.promote_types` (int64 with float32 is float32).
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import reduce
from typing import Any

import weft

from ..dtypes import COMPLEX, FLOAT, INTEGER, as_dtype, dtype, get_default_dtype, promote_types
from ..dtypes import bool_ as bool_type
from ..dtypes import finfo as float_limits
from ..dtypes import iinfo as integer_limits
from ..errors import ArgumentError, InvalidValueError
from ..tensor import Tensor
from .array import SCALARS, Array, check_device, need_array, scalar_tensor

__all__ = [
    "KINDS",
    "astype",
    "can_cast",
    "default_float",
    "default_for",
    "finfo",
    "floating",
    "iinfo",
    "isdtype",
    "promoted",
    "promoted_arrays",
    "result_type",
]

KINDS: dict[str, tuple[dtype, ...]] = {
    "bool": (bool_type,),
    "signed integer": (weft.int8, weft.int16, weft.int32, weft.int64),
    "unsigned integer": (weft.uint8, weft.uint16, weft.uint32, weft.uint64),
    "real floating": (weft.float32, weft.float64),
    "complex floating": (weft.complex64, weft.complex128),
}
KINDS["integral"] = KINDS["signed integer"] + KINDS["unsigned integer"]
KINDS["numeric"] = KINDS["integral"] + KINDS["real floating"] + KINDS["complex floating"]


def default_float() -> dtype:
    """Weft's default float type, or float32 when that is none of the standard's."""
    kind = get_default_dtype()
    return kind if kind in KINDS["real floating"] else weft.float32


def default_for(value: Any) -> dtype:
    """The element type of an array made from one Python number."""
    if isinstance(value, bool):
        return bool_type
    if isinstance(value, int):
        return weft.int64
    return default_float() if isinstance(value, float) else default_float().to_complex()


# ---------------------------------------------------------------------------------------- promotion


def result_type(*arrays_and_dtypes: Any) -> dtype:
    """The element type of an operation on arrays, element types and Python numbers."""
    kinds = [x.dtype if isinstance(x, Array) else x for x in arrays_and_dtypes if isinstance(x, (Array, dtype))]
    numbers = [x for x in arrays_and_dtypes if isinstance(x, SCALARS)]
    if len(kinds) + len(numbers) != len(arrays_and_dtypes):
        raise ArgumentError("result_type: takes Arrays, element types and Python numbers")
    if not kinds:
        raise ArgumentError("result_type: needs at least one Array or element type")
    return reduce(_with_number, numbers, reduce(promote_types, kinds))


def _with_number(kind: dtype, value: Any) -> dtype:
    """The element type of an array of type `kind` with a Python number."""
    weak = default_for(value)
    if weak.category <= kind.category:
        return kind
    return kind.to_complex() if kind.category == FLOAT else weak


def promoted(name: str, *operands: Any) -> list[Tensor]:
    """The operands of an elementwise function as tensors of their common type."""
    for x in operands:
        if not isinstance(x, (Array, *SCALARS)):
            raise ArgumentError(f"{name}: expected Arrays or Python numbers, got {type(x).__name__}; use asarray(...)")
    if not any(isinstance(x, Array) for x in operands):
        raise ArgumentError(f"{name}: at least one operand must be an Array; use asarray(...)")
    kind = result_type(*operands)
    return [x.tensor.to(kind) if isinstance(x, Array) else scalar_tensor(x, kind) for x in operands]


def promoted_arrays(name: str, *arrays: Any) -> list[Tensor]:
    """The tensors of Arrays (numbers are refused), converted to their common type."""
    tensors = [need_array(name, x) for x in arrays]
    kind = reduce(promote_types, [t.dtype for t in tensors])
    return [t.to(kind) for t in tensors]


def floating(x: Tensor) -> Tensor:
    """A tensor whose elements are floating-point or complex: integers become the default float type."""
    return x if x.dtype.category >= FLOAT else x.to(default_float())


# --------------------------------------------------------------------------------- data type functions


def astype(x: Array, dtype: dtype, /, *, copy: bool = True, device: Any = None) -> Array:
    """The array converted to a type; complex to real is refused, as there are two ways to do it."""
    tensor = need_array("astype", x)
    check_device(device)
    kind = as_dtype(dtype)
    if tensor.dtype is kind:
        return Array(tensor.clone()) if copy else x
    if tensor.dtype.category == COMPLEX and INTEGER <= kind.category < COMPLEX:
        raise ArgumentError(f"astype: {tensor.dtype} cannot become {kind}; take real(x) or imag(x) first")
    return Array(tensor != 0) if kind is bool_type else Array(tensor.to(kind))


def can_cast(from_: dtype | Array, to: dtype, /) -> bool:
    """Whether promotion may turn the one type into the other."""
    kind, to = from_.dtype if isinstance(from_, Array) else as_dtype(from_), as_dtype(to)
    same_kind = kind.category == to.category or (kind.category == FLOAT and to.category == COMPLEX)
    try:
        return same_kind and promote_types(kind, to) is to
    except TypeError:  # uint64 with a signed integer
        return False


def isdtype(dtype: dtype, kind: Any) -> bool:
    """Whether a type is (of) a kind: a type, a name such as 'integral', or a tuple of them."""
    if isinstance(kind, tuple):
        return any(isdtype(dtype, k) for k in kind)
    if isinstance(kind, str):
        if kind not in KINDS:
            raise InvalidValueError(f"isdtype: unknown kind {kind!r}; choose one of {', '.join(map(repr, KINDS))}")
        return dtype in KINDS[kind]
    return dtype is as_dtype(kind)


@dataclass(frozen=True)
class FloatLimits:
    """Limits of a floating-point type."""

    bits: int
    eps: float
    max: float
    min: float
    smallest_normal: float
    dtype: dtype


@dataclass(frozen=True)
class IntegerLimits:
    """Limits of an integer type."""

    bits: int
    max: int
    min: int
    dtype: dtype


def finfo(type: dtype | Array, /) -> FloatLimits:
    """Limits of a floating-point type, or of the parts of a complex one."""
    kind = type.dtype if isinstance(type, Array) else as_dtype(type)
    info = float_limits(kind)
    return FloatLimits(info.bits, info.eps, info.max, info.min, info.smallest_normal, kind.to_real())


def iinfo(type: dtype | Array, /) -> IntegerLimits:
    """Limits of an integer type."""
    kind = type.dtype if isinstance(type, Array) else as_dtype(type)
    info = integer_limits(kind)
    return IntegerLimits(info.bits, info.max, info.min, kind)
