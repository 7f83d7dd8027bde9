"""What Python, NumPy and other libraries ask of a tensor: numbers, lists, arrays, text, copies, pickles, its memory."""

from __future__ import annotations

import operator
import warnings
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import numpy as np

from . import dtypes
from .dlpack import exported
from .errors import ArgumentError, AutogradError, DtypeError, ExportError, ShapeError
from .storage import owner_of
from .tape.interpreter import interpreter_of
from .tape.modes import mode, switches

if TYPE_CHECKING:
    from .tensor import Tensor

__all__ = ["Borders"]

ndarray = np.ndarray


class Borders:
    """The part of `Tensor` that answers to others; its memory and its history are those of `Tensor`."""

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        for name in ("array", "node"):  # without them no operation could reach the memory
            if name in cls.__dict__ and cls.__module__.partition(".")[0] != "weft":
                delattr(cls, name)
                warnings.warn(f"{cls.__name__}.{name} is left out: {name!r} is Weft's own there", stacklevel=2)

    # ------------------------------------------------------------------------------ NumPy
    def numpy(self, *, force: bool = False) -> ndarray:
        """The NumPy array that shares this tensor's memory."""
        if switches.interpreting and self._is_overseen():
            return mode.interpreter.examined(self, ".numpy()", lambda x: x.numpy())
        if self._needs_grad and not force and mode.grad:
            raise AutogradError(
                "numpy: can't call numpy() on a tensor that requires grad; use tensor.detach().numpy() instead"
            )
        return self.array.view()

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> ndarray:
        if switches.interpreting and self._is_overseen():
            what = "conversion to a NumPy array"
            return mode.interpreter.examined(self, what, lambda x: x.__array__(dtype, copy))
        return np.array(self.numpy(), dtype=dtype, copy=copy)

    def __array_wrap__(self, array: ndarray, context: Any = None, return_scalar: bool = False) -> Tensor:
        """What NumPy's functions make of tensors becomes a tensor again."""
        from .tensor import wrap

        return wrap(array)

    # ------------------------------------------------------------------------------ numbers
    def item(self) -> Any:
        """The only element as a Python number."""
        if switches.interpreting and self._is_overseen():
            return mode.interpreter.item(self)
        if self.array.size != 1:
            raise ShapeError(
                f"item: a tensor with {self.array.size} elements (shape {tuple(self.shape)}) cannot be converted to "
                "a Python number; use .tolist(), or reduce it first"
            )
        value = self.array.item()
        return float(value) if self.array.dtype.kind == "V" else value

    def tolist(self) -> Any:
        """Nested Python lists (a number for a 0-d tensor)."""
        if switches.interpreting and self._is_overseen():
            return mode.interpreter.examined(self, ".tolist()", lambda x: x.tolist())
        array = self.array
        return (array.astype(np.float32) if array.dtype.kind == "V" else array).tolist()

    def __bool__(self) -> bool:
        if switches.interpreting and self._is_overseen():
            return mode.interpreter.concrete(self, "bool(tensor)", bool)
        if self.array.size != 1:
            raise ShapeError(
                f"bool: the truth value of a tensor of shape {tuple(self.shape)} is ambiguous; use .any() or .all()"
            )
        return bool(self.item())

    def __int__(self) -> int:
        if switches.interpreting and self._is_overseen():
            return mode.interpreter.concrete(self, "int(tensor)", int)
        return int(self.item())

    def __float__(self) -> float:
        if switches.interpreting and self._is_overseen():
            return mode.interpreter.concrete(self, "float(tensor)", float)
        return float(self.item())

    def __complex__(self) -> complex:
        if switches.interpreting and self._is_overseen():
            return mode.interpreter.concrete(self, "complex(tensor)", complex)
        return complex(self.item())

    def __index__(self) -> int:
        if switches.interpreting and self._is_overseen():
            return mode.interpreter.concrete(self, "its use as an index or size", operator.index)
        if self.dtype.category > dtypes.INTEGER or self.array.size != 1:
            raise ArgumentError(
                f"index: only integer tensors with a single element can be converted to an index, this is {self.dtype} "
                f"of shape {tuple(self.shape)}"
            )
        return int(self.item())

    def _is_overseen(self) -> bool:
        """Whether what stands over this thread, rather than a transform or nobody, is in charge of this tensor."""
        return mode.interpreter is not None and self._interpreter is None

    # ------------------------------------------------------------------------------ a sequence
    def __len__(self) -> int:
        if self.ndim == 0:
            raise ArgumentError("len: a 0-d tensor has no length; use .numel()")
        return self.shape[0]

    def __iter__(self) -> Iterator[Tensor]:
        if self.ndim == 0:
            raise ArgumentError("iter: a 0-d tensor cannot be iterated; use .item()")
        return iter(self.unbind(0))

    def __reversed__(self) -> Iterator[Tensor]:
        return iter(self.unbind(0)[::-1])

    def __contains__(self, element: Any) -> bool:
        """Whether any element equals the number or tensor (broadcast)."""
        if not isinstance(element, (Borders, int, float, complex, np.generic)):
            raise DtypeError(
                f"__contains__: only supports a Tensor or a number, got {type(element).__name__}; compare explicitly"
            )
        return bool((self == element).any())

    # ------------------------------------------------------------------------------ text
    def __format__(self, spec: str) -> str:
        if switches.interpreting and self._is_overseen():
            return mode.interpreter.examined(self, "printing", lambda x: format(x, spec))
        if self.ndim == 0 and self._interpreter is None:
            return format(self.item(), spec)
        if spec:
            raise ArgumentError(
                f"format: {spec!r} formats one number, this tensor has shape {tuple(self.shape)}; "
                "use .item(), or weft.set_printoptions"
            )
        return repr(self)

    def _repr_html_(self) -> str:
        from .notebook import tensor_html

        return tensor_html(self)

    def __str__(self) -> str:
        if switches.interpreting and self._is_overseen():
            return mode.interpreter.examined(self, "printing", str)
        return repr(self)

    def __repr__(self) -> str:
        from .show import tensor_repr

        interpreter = interpreter_of(self)
        if interpreter is not None:
            return interpreter.shown(self)
        node = self.node
        return tensor_repr(
            self.array,
            dtype_name=self.dtype.name,
            default_dtype_name=dtypes.get_default_dtype().name,
            requires_grad=self._needs_grad,
            grad_fn_name=None if node is None else node.name(),
            prefix=self._repr_prefix,
        )

    _repr_prefix = "tensor("

    # ------------------------------------------------------------------------------ copies and pickles
    def __reduce_ex__(self, protocol: int) -> tuple[Any, ...]:
        return (_rebuild, (type(self), np.array(self.numpy(force=True)), self._needs_grad, self._user_attributes()))

    def __copy__(self) -> Tensor:
        """A new leaf over the same memory."""
        return _rebuild(type(self), self.array, self._needs_grad, self._user_attributes())

    def __deepcopy__(self, memo: dict[int, Any]) -> Tensor:
        if id(self) in memo:
            return memo[id(self)]
        if self.node is not None:
            raise AutogradError(
                "deepcopy: only leaf tensors (made by the user) can be deep-copied; use .detach().clone()"
            )
        import copy

        if interpreter_of(self) is None:
            array = _copied_memory(self.array, memo)
        else:  # in a trace: a copy that the plan makes
            array = self.detach().clone().__dict__["array"]
        out = _rebuild(type(self), array, self._needs_grad, {})
        memo[id(self)] = out
        out._grad = copy.deepcopy(self._grad, memo)
        out.__dict__.update(copy.deepcopy(self._user_attributes(), memo))
        return out

    def _user_attributes(self) -> dict[str, Any]:
        from .tensor import ENGINE_ATTRIBUTES

        return {k: v for k, v in self.__dict__.items() if k not in ENGINE_ATTRIBUTES}

    # ------------------------------------------------------------------------------ DLPack, buffers
    def __dlpack__(
        self, *, stream: Any = None, max_version: Any = None, dl_device: Any = None, copy: bool | None = None
    ) -> Any:
        """Hand the memory to another library without copying (unless `copy=True`)."""
        if self._needs_grad:
            raise ExportError("__dlpack__: can't export a tensor that requires gradient; use tensor.detach()")
        return exported(self.numpy(), stream=stream, max_version=max_version, dl_device=dl_device, copy=copy)

    def __array_namespace__(self, *, api_version: str | None = None) -> Any:
        """The functions of the Python Array-API standard, for tensors."""
        from .array_api.of_tensors import namespace

        return namespace(api_version)

    def __dlpack_device__(self) -> tuple[int, int]:
        return self._window().__dlpack_device__()

    def __buffer__(self, flags: int) -> memoryview:
        """The memory for `memoryview(tensor)`; Python asks for it from 3.12 on."""
        return memoryview(self.numpy())


def _rebuild(cls: type, array: ndarray, needs_grad: bool, attributes: dict[str, Any]) -> Tensor:
    out = object.__new__(cls)
    out.array = array
    if switches.interpreting and mode.interpreter is not None:
        mode.interpreter.made(out)
    if needs_grad:
        out._needs_grad = True
    out.__dict__.update(attributes)
    return out


def _copied_memory(array: ndarray, memo: dict[int, Any]) -> ndarray:
    """A copy of `array` for `deepcopy`: arrays that share memory before it share memory after it."""
    owner = owner_of(array)
    copied = memo.get(id(owner))
    if copied is None:
        copied = memo[id(owner)] = np.copy(owner, order="K")
        memo.setdefault(id(memo), []).append(owner)  # copy's own way to keep what an id stands for alive
    flat = copied.ravel(order="K")
    if copied.strides != owner.strides or not np.may_share_memory(flat, copied) or not owner.flags.owndata:
        return np.copy(array, order="K")
    offset = array.__array_interface__["data"][0] - owner.__array_interface__["data"][0]
    return ndarray(array.shape, array.dtype, flat.view(np.uint8), offset, array.strides)
