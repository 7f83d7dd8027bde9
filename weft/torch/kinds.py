"""Element types and classes of memory that programs of others name, often only in a table or a test of a type.

Types with 8 bits are those of ml_dtypes: tensors of them are made by `Tensor.to` and changed back by it; there is no arithmetic.
What NumPy has no type for can be named and compared; making a tensor of it is an error.
"""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np

import weft

from ..dtypes import COMPLEX, FLOAT, INTEGER, dtype
from ..errors import DtypeError
from ..storage import Storage

__all__ = ["TypedStorage", "UntypedStorage", "float8_e4m3fn", "float8_e4m3fnuz", "float8_e5m2", "float8_e5m2fnuz"]


class Named(dtype):
    """A type that can be named and compared only."""

    def __init__(self, name: str, category: int, itemsize: int) -> None:
        self.name, self.category, self.itemsize, self.is_signed = name, category, itemsize, True
        self.is_floating_point, self.is_complex = category == FLOAT, category == COMPLEX

    @property
    def np(self) -> Any:
        """None: an error."""
        raise DtypeError(f"{self.name}: NumPy has no such element type, so no tensor can have it")

    def __reduce__(self) -> tuple[Any, ...]:
        return _of_name, (self.name,)


def _of_name(name: str) -> Any:
    return globals()[name]


class Narrow(dtype):
    """A type of ml_dtypes'; the tables of Weft's own types do not list it."""

    def __init__(self, name: str) -> None:
        listed = dict(dtype.by_name)
        super().__init__(name, getattr(ml_dtypes, name), FLOAT)
        dtype.by_name.clear()
        dtype.by_name.update(listed)

    __reduce__ = Named.__reduce__


float8_e4m3fn, float8_e4m3fnuz = Narrow("float8_e4m3fn"), Narrow("float8_e4m3fnuz")
float8_e5m2, float8_e5m2fnuz, float8_e8m0fnu = (
    Narrow("float8_e5m2"),
    Narrow("float8_e5m2fnuz"),
    Narrow("float8_e8m0fnu"),
)
float4_e2m1fn_x2, complex32 = Named("float4_e2m1fn_x2", FLOAT, 1), Named("complex32", COMPLEX, 4)
chalf = complex32
qint8, quint8 = Named("qint8", INTEGER, 1), Named("quint8", INTEGER, 1)
qint32, quint4x2, quint2x4 = Named("qint32", INTEGER, 4), Named("quint4x2", INTEGER, 1), Named("quint2x4", INTEGER, 1)

# torch.storage: memory has no class for each element type here, so that one class answers for all of them.
UntypedStorage = StorageBase = Storage


class _OfKind(type):
    """A class of memory: every storage is an instance of it."""

    def __instancecheck__(cls, instance: Any) -> bool:
        return isinstance(instance, Storage)


class TypedStorage(metaclass=_OfKind):
    """The memory of a new tensor: `torch.FloatStorage([1, 2])`."""

    kind: Any = None

    def __new__(cls, values: Any = 0, **options: Any) -> Any:
        """The storage of a new tensor with these values, or of so many numbers."""
        kind = options.get("dtype") or cls.kind or weft.get_default_dtype()
        new = (
            weft.tensor(np.asarray(values).tolist(), dtype=kind) if np.ndim(values) else weft.zeros(values, dtype=kind)
        )
        return new.untyped_storage()


_KINDS = {
    **{
        "Float": "float32",
        "Double": "float64",
        "Half": "float16",
        "BFloat16": "bfloat16",
        "Long": "int64",
        "Int": "int32",
    },
    **{"Short": "int16", "Char": "int8", "Byte": "uint8", "Bool": "bool_", "ComplexFloat": "complex64"},
    "ComplexDouble": "complex128",
}
for _word, _name in _KINDS.items():
    globals()[f"{_word}Storage"] = _OfKind(
        f"{_word}Storage", (TypedStorage,), {"kind": getattr(weft, _name, weft.bool)}
    )
