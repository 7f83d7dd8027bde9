"""Arrays larger than memory: files seen as arrays, of which a bounded part is ever resident.

Pages of a mapped file count as memory of the process for as long as they stay mapped, and the system is in no hurry to
take them back. So rows are copied out of the map, and the map is told to let its pages go (`madvise`) before more than
`RESIDENT` bytes of them can have gathered; the system's cache of the file still has them. Positioned reads would be as
frugal, but a call for each row was measured to be several times slower.
"""

from __future__ import annotations

import contextlib
import math
import mmap
import os
from collections.abc import Sequence
from types import TracebackType
from typing import IO, Any

import numpy as np

from ..dtypes import as_dtype
from ..dtypes import dtype as Dtype
from ..errors import DtypeError, IndexRangeError, OptionError, ShapeError
from ..io.atomic import Path, replacing
from ..io.errors import HeaderError, MagicError, TruncatedError
from ..tensor import Tensor, wrap
from .dataset import Dataset, Rows, taken

__all__ = ["ArrayWriter", "MappedArray", "MappedDataset"]

RESIDENT = 128 << 20  # bytes of a map that may be resident
NEIGHBOURS = 2 << 20  # bytes that the system may map around each place that is touched


class MappedArray:
    """The rows of an array in a file: `.npy`, or raw numbers of a given `dtype` and `shape` from byte `offset` on.

    One size of a raw shape may be −1: as many as the file holds. Indexing gives NumPy arrays of their own, copied from
    the file at that moment. Pickling keeps the path, so every worker opens the file itself.

    >>> images = MappedArray("train.bin", dtype="uint8", shape=(-1, 28, 28), offset=16)
    >>> images[5].shape
    (28, 28)
    """

    def __init__(self, path: Path, dtype: Any = None, shape: Sequence[int] | None = None, offset: int = 0) -> None:
        self.path, self._arguments = os.fspath(path), (dtype, shape, offset)
        size = os.stat(self.path).st_size
        if shape is None:
            self.dtype, self.shape, self.offset = _npy_header(self.path)
            if dtype is not None:
                self.dtype = _retyped(self.dtype, dtype, self.path)
        else:
            self.dtype, self.offset = as_dtype(dtype or "float32").np, offset
            self.shape = _raw_shape(shape, self.dtype, size - offset, self.path)
        self._row_bytes = math.prod(self.shape[1:]) * self.dtype.itemsize
        self._check_size(size)
        self._map: mmap.mmap | None = None
        self._rows = self._mapped()
        self._touched = 0  # bytes of the map that may be resident

    def _mapped(self) -> np.ndarray:
        if self.nbytes == 0:
            return np.empty(self.shape, self.dtype)
        with open(self.path, "rb") as file:
            self._map = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
        return np.ndarray(self.shape, self.dtype, self._map, self.offset)

    def _check_size(self, size: int) -> None:
        if size < self.offset + self.nbytes:
            raise TruncatedError(
                f"{self.path}: an array of shape {self.shape} and type {self.dtype} needs {self.offset + self.nbytes} "
                f"bytes, the file has {size}; it was cut short, write or copy it again"
            )

    def __len__(self) -> int:
        return self.shape[0]

    @property
    def nbytes(self) -> int:
        return self.shape[0] * self._row_bytes

    def __getitem__(self, index: Any) -> np.ndarray:
        if isinstance(index, slice):
            return self.read(range(len(self))[index])
        if isinstance(index, (int, np.integer)):
            return self.read([index])[0]
        return self.read(index)

    def read(self, rows: Rows) -> np.ndarray:
        """These rows in a new array, (len(rows), …)."""
        wanted = np.asarray(rows, np.int64).reshape(-1)
        wanted = np.where(wanted < 0, wanted + len(self), wanted)
        if len(wanted) and (wanted.min() < 0 or wanted.max() >= len(self)):
            raise IndexRangeError(
                f"{self.path}: rows should lie in 0..{len(self) - 1}, got {wanted.min()}..{wanted.max()}"
            )
        out = np.empty((len(wanted), *self.shape[1:]), self.dtype)
        if out.size:
            self._check_size(os.stat(self.path).st_size)  # behind the end of a file, a map kills the process
            neighbours = (wanted[1:] - wanted[:-1] == 1).all()
            cost = self._row_bytes + (0 if neighbours else NEIGHBOURS)
            for part in _parts(len(wanted), max(1, RESIDENT // cost)):
                np.take(self._rows, wanted[part], 0, out[part], "clip")  # checked above; "raise" would copy twice
                self._let_go(NEIGHBOURS + cost * (part.stop - part.start))
        return out

    def _let_go(self, touched: int) -> None:
        """Drop the pages of the map when enough of them may be resident."""
        self._touched += touched
        if self._touched > RESIDENT and self.nbytes > RESIDENT and hasattr(self._map, "madvise"):
            self._map.madvise(mmap.MADV_DONTNEED)
            self._touched = 0

    def __reduce__(self) -> tuple[Any, ...]:
        return MappedArray, (self.path, *self._arguments)

    def __repr__(self) -> str:
        return f"MappedArray({self.path!r}, shape={self.shape}, dtype={self.dtype})"


def _parts(count: int, size: int) -> list[slice]:
    return [slice(start, min(start + size, count)) for start in range(0, count, size)]


def _npy_header(path: str) -> tuple[np.dtype, tuple[int, ...], int]:
    """Element type, shape and first byte of an .npy file."""
    form = np.lib.format
    with open(path, "rb") as file:
        try:
            version = form.read_magic(file)
            read = {(1, 0): form.read_array_header_1_0, (2, 0): form.read_array_header_2_0}[version]
            shape, fortran, dtype = read(file)
        except (ValueError, KeyError) as error:
            raise MagicError(f"{path}: not an .npy file ({error}); give dtype and shape to read raw numbers") from None
        start = file.tell()
    if fortran and len(shape) > 1:
        raise HeaderError(f"{path}: the array is stored column by column; save np.ascontiguousarray of it")
    if not shape:
        raise ShapeError(f"{path}: the array has no dimension, so it has no rows")
    if dtype.hasobject:
        raise DtypeError(f"{path}: Python objects cannot be read from a file; the type is {dtype}")
    return dtype, shape, start


def _retyped(found: np.dtype, wanted: Any, path: str) -> np.dtype:
    """The type asked for, of the same size: .npy files do not know bfloat16."""
    kind = as_dtype(wanted).np
    if kind.itemsize != found.itemsize:
        raise DtypeError(f"{path}: holds {found} of {found.itemsize} bytes, which cannot be read as {kind}")
    return kind


def _raw_shape(shape: Sequence[int], dtype: np.dtype, size: int, path: str) -> tuple[int, ...]:
    sizes = [int(n) for n in shape]
    if not sizes or sizes.count(-1) > 1 or min(sizes) < -1:
        raise ShapeError(f"{path}: the shape should have one -1 at most and no other negative size, got {tuple(shape)}")
    if -1 in sizes:
        rest = math.prod(n for n in sizes if n != -1) * dtype.itemsize
        if rest == 0 or size < 0 or size % rest:
            raise TruncatedError(
                f"{path}: {size} bytes are no whole number of pieces of {rest} for shape {tuple(shape)}"
            )
        sizes[sizes.index(-1)] = size // rest
    return tuple(sizes)


class MappedDataset(Dataset[tuple[Tensor, ...]]):
    """As `TensorDataset`, over arrays that stay on disk: paths of .npy files, `MappedArray`s; small ones as tensors.

    >>> loader = DataLoader(MappedDataset("images.npy", labels), batch_size=64, shuffle=True)
    """

    def __init__(self, *arrays: Path | MappedArray | Tensor | np.ndarray) -> None:
        self.arrays = tuple(_opened(array) for array in arrays)
        if not self.arrays:
            raise OptionError("MappedDataset: expected at least one array")
        lengths = [len(array) for array in self.arrays]
        if len(set(lengths)) > 1:
            raise ShapeError(f"MappedDataset: size mismatch between arrays, their lengths are {lengths}")

    def __getitem__(self, index: int) -> tuple[Tensor, ...]:
        return tuple(wrap(array[index]) if isinstance(array, MappedArray) else array[index] for array in self.arrays)

    def __len__(self) -> int:
        return len(self.arrays[0])

    def gather(self, rows: Rows) -> tuple[Tensor, ...]:
        """The batch of these rows, read from the files."""
        return tuple(
            wrap(array.read(rows)) if isinstance(array, MappedArray) else taken(array, rows) for array in self.arrays
        )


def _opened(array: Any) -> MappedArray | Tensor:
    if isinstance(array, (str, os.PathLike)):
        array = MappedArray(array)
    if isinstance(array, MappedArray):
        if array.dtype not in Dtype.by_numpy:
            raise DtypeError(f"MappedDataset: {array.path} holds {array.dtype}, which is no type of a tensor")
        return array
    return array if isinstance(array, Tensor) else wrap(np.asarray(array))


class ArrayWriter:
    """Write an .npy file piece by piece; it appears under its name, complete, when the block ends without an error.

    row_shape: the shape of one row; each `append` takes rows (n, *row_shape).

    >>> with ArrayWriter("images.npy", (28, 28), "uint8") as out:
    ...     for piece in pieces:
    ...         out.append(piece)
    """

    def __init__(self, path: Path, row_shape: Sequence[int] = (), dtype: Any = "float32") -> None:
        self.path, self.row_shape, self.dtype = os.fspath(path), tuple(row_shape), as_dtype(dtype).np
        self.rows = 0
        self._file: IO[bytes] | None = None
        self._stack = contextlib.ExitStack()

    def __enter__(self) -> ArrayWriter:
        self._file = self._stack.enter_context(replacing(self.path))
        self._write_header()
        return self

    def append(self, rows: Any) -> None:
        """Add rows; their values must fit the type of the file without loss of kind (no floats into integers)."""
        if self._file is None:
            raise OptionError("ArrayWriter: append inside a `with` block")
        array = np.asarray(rows.array if isinstance(rows, Tensor) else rows)
        if array.shape[1:] != self.row_shape or array.ndim == 0:
            raise ShapeError(f"ArrayWriter: expected rows (n, {self.row_shape}), got shape {array.shape}")
        if not np.can_cast(array.dtype, self.dtype, "same_kind"):
            raise DtypeError(f"ArrayWriter: {array.dtype} cannot be stored as {self.dtype}; convert it first")
        self._file.write(np.ascontiguousarray(array, self.dtype).reshape(-1).view(np.uint8).data)
        self.rows += len(array)

    def _write_header(self) -> None:
        """The header; NumPy leaves room in it for a longer first size, so it can be written again at the end."""
        described = {"descr": np.lib.format.dtype_to_descr(self.dtype), "fortran_order": False}
        np.lib.format.write_array_header_1_0(self._file, {**described, "shape": (self.rows, *self.row_shape)})

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if kind is None:
            try:
                self._file.seek(0)
                self._write_header()
            except BaseException as late:
                self._stack.__exit__(type(late), late, late.__traceback__)
                raise
        self._file = None
        self._stack.__exit__(kind, error, trace)
