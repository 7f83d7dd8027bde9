"""Old pickles of arrays, sparse matrices and plain containers (CIFAR, Planetoid), read without running anything.

The machine of `weft.io.unpickle` calls nothing outside of a table; here the table has NumPy arrays, CSR matrices and
`defaultdict(list)`. Python 2 wrote text for bytes; it is taken as Latin-1, which keeps every byte.
"""

from __future__ import annotations

import io
from collections.abc import Callable
from typing import Any

import numpy as np

from ...io.bounded import brief
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

    def __init__(self, *given: Any) -> None:
        super().__init__(*given)
        self.places: dict[int, list[int]] = {}  # identity of an unfinished object → its keys in the memo

    def step(self, opcode: str, argument: Any) -> None:
        own = INSTRUCTIONS.get(opcode)
        if own is None:
            super().step(opcode, argument)
        else:
            own(self, argument)

    def look_up_array(self, name: str) -> None:
        if name not in self.table:
            raise UnsafePickleError(
                f"{self.name}: the pickle asks for {brief(name)}, which is neither an array nor a plain container; nothing "
                "was loaded or run"
            )
        self.stack.append(Global(name, self.table[name]))

    def finish(self) -> None:
        """BUILD: the announced object is replaced by the finished one, also where it is remembered."""
        announced, state = self.take(2)
        if not isinstance(announced, Unfinished):
            raise UnsafePickleError(f"{self.name}: the pickle would change a {type(announced).__name__}; refused")
        finished = announced.build(state)
        for key in self.places.pop(id(announced), ()) if finished is not announced else ():
            if self.memo.get(key) is announced:
                self.memo[key] = finished
        self.stack.append(finished)

    def remember_place(self, argument: int | None) -> None:
        """PUT: note where an unfinished object is remembered, so that nobody has to search for it."""
        key = len(self.memo) if argument is None else argument
        self.remember(key)
        if isinstance(self.stack[-1], Unfinished):
            self.places.setdefault(id(self.stack[-1]), []).append(key)


INSTRUCTIONS: dict[str, Callable[[ArrayMachine, Any], None]] = {
    "GLOBAL": lambda machine, argument: machine.look_up_array(argument.replace(" ", ".", 1)),
    "STACK_GLOBAL": lambda machine, _: machine.look_up_array(".".join(machine.take(2))),
    **dict.fromkeys(("PUT", "BINPUT", "LONG_BINPUT", "MEMOIZE"), lambda machine, key: machine.remember_place(key)),
    "NEWOBJ": lambda machine, _: machine.call(None),
    "BUILD": lambda machine, _: machine.finish(),
}


def _no_storage(key: Any) -> Any:
    raise UnsafePickleError(f"the pickle refers to {brief(key)} outside of itself")


# ------------------------------------------------------------------------------------------ what the names stand for
class ElementType(Unfinished):
    """numpy.dtype: announced as 'i4', described by its byte order."""

    def __init__(self, code: Any, align: Any = False, copy: Any = True) -> None:
        if not isinstance(code, str):
            raise LayoutError(f"an element type called {brief(code)}")
        self.dtype = np.dtype(code)
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
    if not isinstance(shape, tuple) or len(shape) > 64 or not all(type(n) is int and 0 <= n < 2**63 for n in shape):
        raise LayoutError(f"an array of shape {brief(shape)}")
    count = int(np.prod(shape, dtype=object)) if shape else 1
    if not isinstance(raw, bytes | bytearray) or len(raw) != count * kind.dtype.itemsize:
        raise LayoutError(f"an array of shape {brief(shape)} and type {kind.dtype} described by {_size_of(raw)}")
    array = np.ndarray(shape, kind.dtype, bytearray(raw), order=order)
    return array.astype(array.dtype.newbyteorder("="), order="C", copy=False)


def _size_of(raw: Any) -> str:
    return f"{len(raw)} bytes" if isinstance(raw, bytes | bytearray) else brief(raw)


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
    if (
        not isinstance(characters, str)
        or not isinstance(encoding, str)
        or encoding.replace("-", "").lower() != "latin1"
    ):
        raise HeaderError(f"bytes written as {brief(encoding)}; latin1 can be read")
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
