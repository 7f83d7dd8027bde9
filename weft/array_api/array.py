"""The array of the standard: a thin final class around a tensor, with the standard's attributes and strictness.

It is not a Tensor, because PyTorch's names mean other things there (`size` is a method, 0-d tensors promote
weakly, assignment casts). `array.tensor` is the way out, `asarray(tensor)` the way in; both share memory and
graph, so gradients flow through. The arithmetic operators are added by `operators.py`.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Iterator
from typing import Any, NoReturn

import numpy as np

from ..device import device as device_type
from ..device import usable
from ..dtypes import BOOL, COMPLEX, INTEGER, dtype, int64
from ..errors import ArgumentError, IndexRangeError, InvalidValueError
from ..tensor import Tensor, wrap

__all__ = ["SCALARS", "Array", "axes_of", "axis_of", "check_device", "need_array", "scalar_tensor"]

VERSIONS = ("2021.12", "2022.12", "2023.12", "2024.12")
SCALARS = (bool, int, float, complex)


class Array:
    """An n-dimensional array of the Python Array-API standard; made by `asarray`, `zeros` and so on."""

    __slots__ = ("__weakref__", "tensor")
    __hash__ = None  # == compares elements
    __array_ufunc__ = None  # NumPy leaves operators with an Array to the Array

    def __init__(self, tensor: Tensor) -> None:
        if not isinstance(tensor, Tensor):
            raise ArgumentError(f"Array: expected a weft.Tensor, got {type(tensor).__name__}; use asarray(...)")
        self.tensor = tensor

    # ---------------------------------------------------------------------------------- attributes
    @property
    def dtype(self) -> dtype:
        """The element type."""
        return self.tensor.dtype

    @property
    def device(self) -> device_type:
        """Where the memory lies."""
        return self.tensor.device

    @property
    def ndim(self) -> int:
        """The number of axes."""
        return self.tensor.ndim

    @property
    def shape(self) -> tuple[int, ...]:
        """The sizes of the axes."""
        return tuple(self.tensor.shape)

    @property
    def size(self) -> int:
        """The number of elements."""
        return math.prod(self.shape)

    @property
    def T(self) -> Array:
        """The transpose of a matrix."""
        if self.ndim != 2:
            raise InvalidValueError(f"T: needs 2 dimensions, got shape {self.shape}; use mT or permute_dims")
        return Array(self.tensor.transpose(0, 1))

    @property
    def mT(self) -> Array:
        """The transposes of a stack of matrices (…, M, N) → (…, N, M)."""
        if self.ndim < 2:
            raise InvalidValueError(f"mT: needs at least 2 dimensions, got shape {self.shape}")
        return Array(self.tensor.transpose(-2, -1))

    def to_device(self, device: Any, /, *, stream: Any = None) -> Array:
        """The array on a device (this one, when it is there already)."""
        usable(device)
        if stream is not None:
            raise InvalidValueError("to_device: the CPU has no streams; leave stream=None")
        return self

    def __array_namespace__(self, /, *, api_version: str | None = None) -> Any:
        """The module `weft.array_api`."""
        if api_version is not None and api_version not in VERSIONS:
            raise InvalidValueError(
                f"__array_namespace__: unknown version {api_version!r}; there are {', '.join(VERSIONS)}"
            )
        return sys.modules[__package__]

    # -------------------------------------------------------------------------- to Python's numbers
    def _number(self, name: str) -> Any:
        if self.ndim:
            raise ArgumentError(f"{name}: only 0-d arrays can become Python numbers, this has shape {self.shape}")
        return self.tensor.item()

    def __bool__(self, /) -> bool:
        return bool(self._number("bool"))

    def __int__(self, /) -> int:
        self._need_real("int")
        return int(self._number("int"))

    def __float__(self, /) -> float:
        self._need_real("float")
        return float(self._number("float"))

    def __complex__(self, /) -> complex:
        return complex(self._number("complex"))

    def __index__(self, /) -> int:
        if self.dtype.category != INTEGER:
            raise ArgumentError(f"index: only integer arrays can be indices, this is {self.dtype}")
        return self._number("index")

    def _need_real(self, name: str) -> None:
        if self.dtype.category == COMPLEX:
            raise ArgumentError(f"{name}: a complex array has no {name} value; use real(x) or imag(x) first")

    # ------------------------------------------------------------------------------------- indexing
    def __getitem__(self, key: Any, /) -> Array:
        plain = _plain_key(key)
        if isinstance(plain, Tensor) and plain.dtype.category == BOOL:
            plain = self._fitted_mask(plain)
        return Array(self.tensor[plain])

    def __setitem__(self, key: Any, value: Any, /) -> None:
        if isinstance(value, Array):
            source = value.tensor
        elif isinstance(value, SCALARS):
            source = scalar_tensor(value, self.dtype)
        else:
            _reject(value, "setitem")
        if source.dtype.category > self.dtype.category:
            raise ArgumentError(f"setitem: {source.dtype} values do not fit into an array of {self.dtype}; use astype")
        plain = _plain_key(key)
        if isinstance(plain, Tensor) and plain.dtype.category == BOOL:
            plain = self._fitted_mask(plain)
        self.tensor[plain] = source

    def _fitted_mask(self, mask: Tensor) -> Tensor:
        """A mask; one without elements selects nothing even if its sizes are 0 where the array's are not."""
        wanted = self.shape[: mask.ndim]
        if mask.ndim > self.ndim or any(m not in (n, 0) for m, n in zip(mask.shape, wanted, strict=False)):
            raise IndexRangeError(
                f"index: a mask of shape {tuple(mask.shape)} does not fit an array of shape {self.shape}"
            )
        return mask if tuple(mask.shape) == wanted else wrap(np.zeros(wanted, np.bool_))

    def __len__(self) -> int:
        return len(self.tensor)

    def __iter__(self) -> Iterator[Array]:
        return (Array(part) for part in self.tensor)

    # --------------------------------------------------------------------------------- interchange
    def __dlpack__(
        self,
        /,
        *,
        stream: Any = None,
        max_version: tuple[int, int] | None = None,
        dl_device: tuple[Any, int] | None = None,
        copy: bool | None = None,
    ) -> Any:
        """A DLPack capsule of the memory."""
        if dl_device is not None:
            dl_device = (int(dl_device[0]), dl_device[1])
        return self.tensor.__dlpack__(stream=stream, max_version=max_version, dl_device=dl_device, copy=copy)

    def __dlpack_device__(self, /) -> tuple[int, int]:
        """DLPack's (device type, device number)."""
        kind, number = self.tensor.__dlpack_device__()
        return int(kind), number

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray:
        return self.tensor.__array__(dtype, copy)

    def __repr__(self) -> str:
        return f"Array({self.tensor!r})"


def _plain_key(key: Any) -> Any:
    """An index without Arrays: integer arrays become int64 tensors (PyTorch would take uint8 as a mask)."""
    if isinstance(key, tuple):
        return tuple(_plain_key(part) for part in key)
    if not isinstance(key, Array):
        return key
    if key.dtype.category == BOOL:
        return key.tensor
    if key.dtype.category != INTEGER:
        raise IndexRangeError(f"index: arrays used as indices must be integer or bool, got {key.dtype}")
    return int(key) if key.ndim == 0 else key.tensor.to(int64)


def _reject(value: Any, name: str) -> NoReturn:
    raise ArgumentError(f"{name}: expected an Array or a Python number, got {type(value).__name__}; use asarray(...)")


def scalar_tensor(value: Any, kind: dtype) -> Tensor:
    """A Python number as a 0-d tensor; OverflowError if an integer does not fit."""
    with np.errstate(all="ignore"):
        return wrap(np.asarray(value, kind.np))


def need_array(name: str, x: Any) -> Tensor:
    """The tensor of an Array argument."""
    if isinstance(x, Array):
        return x.tensor
    raise ArgumentError(f"{name}: expected an Array, got {type(x).__name__}; use asarray(...)")


def axis_of(axis: int, ndim: int, name: str) -> int:
    """An axis number in 0…ndim−1; unlike in PyTorch, 0-d arrays have no axis."""
    if not isinstance(axis, int) or isinstance(axis, bool):
        raise ArgumentError(f"{name}: an axis must be an integer, got {axis!r}")
    if not -ndim <= axis < ndim:
        raise IndexRangeError(f"{name}: axis {axis} is out of range for an array of {ndim} dimensions")
    return axis % ndim


def axes_of(axis: int | tuple[int, ...] | None, ndim: int, name: str) -> tuple[int, ...]:
    """Several different axis numbers, all of them for None."""
    if axis is None:
        return tuple(range(ndim))
    found = tuple(axis_of(a, ndim, name) for a in (axis if isinstance(axis, (tuple, list)) else (axis,)))
    if len(set(found)) != len(found):
        raise InvalidValueError(f"{name}: an axis appears twice in {axis}")
    return found


def check_device(device: Any) -> None:
    """Refuse a device that is not there."""
    if device is not None:
        usable(device)
