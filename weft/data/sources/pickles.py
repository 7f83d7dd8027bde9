"""Old pickles of arrays, sparse matrices and plain containers (CIFAR, Planetoid), read without running anything.

The machine of `weft.io.unpickle` calls nothing outside of a table; here the table has NumPy arrays, CSR matrices and
`defaultdict(list)`. Python 2 wrote text for bytes; it is taken as Latin-1, which keeps every byte.
"""

from __future__ import annotations

import io
from collections.abc import Callable
from typing import Any

import numpy as np

from ...io.errors import HeaderError, LayoutError, UnsafePickleError
from ...io.unpickle import Global, Machine

__all__ = ["read_pickle"]

KINDS = "biuf"  # arrays of numbers; arrays of objects would need more than data


def read_pickle(data: bytes, name: str) -> Any:
    """The containers, arrays and sparse matrices that a pickle holds; `name` is for messages.

    Raises `UnsafePickleError` for a pickle that asks for anything else; nothing of it has been run then.
    """
    result = ArrayMachine(io.BytesIO(data), TABLE, _no_storage, name).run()
    if isinstance(result, Global | Unfinished):
        raise HeaderError(f"{name}: the pickle describes no data")
    return result


class Unfinished:
    """An object that the pickle has announced and not yet described."""

    def build(self, state: Any) -> Any:
        raise NotImplementedError


class ArrayMachine(Machine):
    """A pickle machine that can also finish arrays, element types and sparse matrices."""

    def step(self, opcode: str, argument: Any) -> None:
        own = INSTRUCTIONS.get(opcode)
        if own is None:
            super().step(opcode, argument)
        else:
            own(self, argument)

    def look_up_array(self, name: str) -> None:
        if name not in self.table:
            raise UnsafePickleError(
                f"{self.name}: the pickle asks for {name!r}, which is neither an array nor a plain container; nothing "
                "was loaded or run"
            )
        self.stack.append(Global(name, self.table[name]))

    def finish(self) -> None:
        """BUILD: the announced object is replaced by the finished one, also where it is remembered."""
        announced, state = self.take(2)
        if not isinstance(announced, Unfinished):
            raise UnsafePickleError(f"{self.name}: the pickle would change a {type(announced).__name__}; refused")
        finished = announced.build(state)
        for key, value in self.memo.items():
            if value is announced:
                self.memo[key] = finished
        self.stack.append(finished)


INSTRUCTIONS: dict[str, Callable[[ArrayMachine, Any], None]] = {
    "GLOBAL": lambda machine, argument: machine.look_up_array(argument.replace(" ", ".", 1)),
    "STACK_GLOBAL": lambda machine, _: machine.look_up_array(".".join(machine.take(2))),
    "NEWOBJ": lambda machine, _: machine.call(None),
    "BUILD": lambda machine, _: machine.finish(),
}


def _no_storage(key: Any) -> Any:
    raise UnsafePickleError(f"the pickle refers to {key!r} outside of itself")


# ------------------------------------------------------------------------------------------ what the names stand for
class ElementType(Unfinished):
    """numpy.dtype: announced as 'i4', described by its byte order."""

    def __init__(self, code: Any, align: Any = False, copy: Any = True) -> None:
        self.dtype = np.dtype(str(code))
        if self.dtype.kind not in KINDS or self.dtype.fields is not None:
            raise LayoutError(f"an array of {self.dtype}; arrays of numbers can be read")

    def build(self, state: Any) -> ElementType:
        self.dtype = self.dtype.newbyteorder("=" if state[1] == "|" else state[1])
        return self


class ArrayData(Unfinished):
    """numpy.ndarray: announced empty, described by (version, shape, dtype, column order, bytes)."""

    def __init__(self, *_: Any) -> None:
        """What the announcement says (class, shape (0,), code 'b') is the same for all."""

    def build(self, state: Any) -> np.ndarray:
        _, shape, kind, by_columns, raw = state
        return _array(raw, kind, shape, "F" if by_columns else "C")


def _array(raw: Any, kind: Any, shape: Any, order: str = "C") -> np.ndarray:
    if not isinstance(kind, ElementType) or order not in ("C", "F"):
        raise HeaderError("an array without an element type or order")
    raw = raw.encode("latin-1") if isinstance(raw, str) else raw
    count = int(np.prod(shape, dtype=object)) if shape else 1
    if not isinstance(raw, bytes | bytearray) or len(raw) != count * kind.dtype.itemsize:
        raise LayoutError(f"an array of shape {shape} and type {kind.dtype} described by {len(raw)} bytes")
    array = np.ndarray(shape, kind.dtype, bytearray(raw), order=order)
    return array.astype(array.dtype.newbyteorder("="), order="C", copy=False)


class RowMatrix(Unfinished):
    """scipy.sparse.csr_matrix: announced empty, described by its attributes."""

    def __init__(self, *_: Any) -> None:
        """Old SciPy announces it without arguments."""

    def build(self, state: Any) -> Any:
        import scipy.sparse as sp

        arrays = [state["data"], state["indices"], state["indptr"]]
        if not all(isinstance(array, np.ndarray) and array.ndim == 1 for array in arrays):
            raise LayoutError("a sparse matrix without its three arrays")
        try:
            matrix = sp.csr_matrix(tuple(arrays), shape=tuple(map(int, state["_shape"])))
            matrix.check_format(full_check=True)
        except ValueError as error:
            raise LayoutError(f"a sparse matrix whose arrays do not fit together: {error}") from None
        return matrix


def _scalar(kind: Any, raw: Any) -> Any:
    """numpy.int32(3) and the like."""
    return _array(raw, kind, ()).item()


def _default_dictionary(*_: Any) -> dict:
    return {}


def _no_bytes() -> bytes:
    """Python 3 writes empty bytes as a call without arguments."""
    return b""


def _encode(characters: Any, encoding: Any = "latin1") -> bytes:
    """Python 3 writes bytes this way in the old protocols."""
    if not isinstance(characters, str) or str(encoding).replace("-", "").lower() != "latin1":
        raise HeaderError(f"bytes written as {encoding!r}; latin1 can be read")
    return characters.encode("latin-1")


_NUMPY = ("numpy.core", "numpy._core")
TABLE: dict[str, Any] = {
    **{f"{home}.multiarray._reconstruct": ArrayData for home in _NUMPY},
    **{f"{home}.multiarray.scalar": _scalar for home in _NUMPY},
    **{f"{home}.numeric._frombuffer": _array for home in _NUMPY},
    "numpy.ndarray": None,  # a name to hand on, not a function to call
    "numpy.dtype": ElementType,
    **{f"scipy.sparse.{home}.csr_matrix": RowMatrix for home in ("csr", "_csr")},
    "collections.defaultdict": _default_dictionary,
    **{f"{home}.list": None for home in ("__builtin__", "builtins")},
    **{f"{home}.bytes": _no_bytes for home in ("__builtin__", "builtins")},
    "_codecs.encode": _encode,
}
