"""What the names in a PyTorch checkpoint stand for: storages, tensors, parameters, sizes, plain containers."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable
from typing import Any

import numpy as np

from ..dtypes import ALL, dtype
from ..errors import DtypeError
from ..nn.parameter import Parameter
from ..sizes import Size
from ..tensor import Tensor, new, wrap
from .bounded import brief
from .errors import HeaderError, LayoutError, UnsafePickleError
from .unpickle import Global, keys, paired

__all__ = ["TABLE", "StorageBytes", "StorageClass", "check_result"]


class StorageClass:
    """A class of storages, such as torch.FloatStorage; `kind` is None for raw bytes."""

    def __init__(self, kind: dtype | None) -> None:
        self.kind, self.itemsize = kind, 1 if kind is None else kind.itemsize


class StorageBytes:
    """The bytes of one storage; all tensors made from it share them."""

    def __init__(self, memory: Any) -> None:
        self.memory, self.kind = memoryview(memory), None
        address = np.frombuffer(self.memory, np.uint8).ctypes.data if len(self.memory) else 0
        if address % 16:  # PyTorch aligns its storages; a file that does not is copied
            self.memory = memoryview(bytearray(self.memory))

    def typed(self, storage_class: StorageClass, count: int, name: str) -> StorageBytes:
        """This storage as one of `count` elements of a class, which its size must fit."""
        if count * storage_class.itemsize != len(self.memory):
            raise LayoutError(
                f"{name} should have {brief(count)} elements of {storage_class.itemsize} bytes, it has {len(self.memory)} bytes"
            )
        self.kind = storage_class.kind
        return self


def _tensor(
    storage: Any,
    offset: Any,
    size: Any,
    stride: Any,
    requires_grad: Any = False,
    hooks: Any = None,
    metadata: Any = None,
) -> Tensor:
    """A window of `size` and `stride` on a storage."""
    if not isinstance(storage, StorageBytes) or storage.kind is None:
        raise HeaderError(f"a tensor over {type(storage).__name__} instead of a storage with a type")
    return _window(storage, storage.kind, offset, size, stride, requires_grad, metadata)


def _tensor_of_bytes(
    storage: Any,
    offset: Any,
    size: Any,
    stride: Any,
    requires_grad: Any,
    hooks: Any,
    kind: Any,
    metadata: Any = None,
) -> Tensor:
    """The same over raw bytes, with the element type given beside."""
    if not isinstance(storage, StorageBytes) or not isinstance(kind, dtype):
        raise HeaderError(f"a tensor over {type(storage).__name__} with element type {brief(kind)}")
    return _window(storage, kind, offset, size, stride, requires_grad, metadata)


def _window(
    storage: StorageBytes, kind: dtype, offset: Any, size: Any, stride: Any, requires_grad: Any, metadata: Any
) -> Tensor:
    numbers = (offset, *size, *stride)
    if len(size) != len(stride) or not all(type(n) is int and n >= 0 for n in numbers):
        raise LayoutError(
            f"a tensor of size {brief(size)}, stride {brief(stride)} and offset {brief(offset)} cannot be"
        )
    last = offset + sum((n - 1) * step for n, step in zip(size, stride, strict=True))
    if 0 in size:
        return _finished(np.empty(size, kind.np), requires_grad, metadata)
    if (last + 1) * kind.itemsize > len(storage.memory):
        raise LayoutError(
            f"a tensor of shape {brief(size)}, stride {brief(stride)} and offset {brief(offset)} reaches element "
            f"{brief(last)}; its "
            f"storage has {len(storage.memory) // kind.itemsize}"
        )
    strides = tuple(step * kind.itemsize for step in stride)
    array = np.ndarray(tuple(size), kind.np, storage.memory, offset * kind.itemsize, strides)
    return _finished(array, requires_grad, metadata)


def _finished(array: np.ndarray, requires_grad: Any, metadata: Any) -> Tensor:
    """PyTorch marks tensors that are conjugated or negated lazily; that is done here."""
    marks = metadata if isinstance(metadata, dict) else {}
    if marks.get("conj"):
        array = np.conj(array)
    if marks.get("neg"):
        array = np.negative(array)
    out = wrap(array)
    return out.requires_grad_() if requires_grad is True else out


def _parameter(data: Any, requires_grad: Any = True, hooks: Any = None, state: Any = None) -> Parameter:
    """An nn.Parameter over a tensor; attributes that users hung on it are left out."""
    if not isinstance(data, Tensor):
        raise HeaderError(f"a Parameter over {type(data).__name__} instead of a tensor")
    out = new(Parameter)
    out.array = data.array
    return out.requires_grad_() if requires_grad is True else out


def _of_type(function: Any, cls: Any, arguments: Any, state: Any) -> Tensor:
    """A tensor with attributes that users hung on it; they are left out."""
    if not isinstance(function, Global) or function.make not in (_tensor, _tensor_of_bytes):
        raise HeaderError("a tensor that is rebuilt by something else than a tensor function")
    if not isinstance(cls, Global) or cls.name != "torch.Tensor" or not isinstance(arguments, tuple):
        raise UnsafePickleError("a tensor of a class of its own; only torch.Tensor and Parameter can be read")
    return function.make(*arguments)


def _ordered(pairs: Any = ()) -> OrderedDict:
    return OrderedDict(paired([part for pair in pairs for part in (pair[0], pair[1])]))


def _size(sizes: Any) -> Size:
    if not all(type(n) is int for n in sizes):
        raise HeaderError(f"a torch.Size of {brief(sizes)}")
    return Size(sizes)


def _bytes(text: Any, encoding: Any = "latin1") -> bytes:
    if encoding != "latin1" or not isinstance(text, str):
        raise HeaderError(f"bytes in the encoding {brief(encoding)}")
    return text.encode("latin1")


def _bytearray(content: Any = b"") -> bytearray:
    if not isinstance(content, bytes):
        raise HeaderError(f"a bytearray of {type(content).__name__}")
    return bytearray(content)


def _complex(real: Any, imaginary: Any) -> complex:
    return complex(float(real), float(imaginary))


def _place(kind: Any, index: Any = None) -> str:
    """torch.device, as its name: everything Weft loads lies on the CPU."""
    if not isinstance(kind, str) or not (index is None or type(index) is int):
        raise HeaderError(f"a device of {brief(kind)} and {brief(index)}")
    return kind if index is None else f"{kind}:{brief(index)}"


def _layout(name: Any) -> str:
    """A torch.layout, as its name."""
    if not isinstance(name, str):
        raise HeaderError(f"a layout called {brief(name)}")
    return name


def _set_of(make: Callable[[Any], Any]) -> Callable[..., Any]:
    return lambda values=(): make(keys(values))


def _unsupported(what: str) -> Callable[..., Any]:
    def refuse(*_: Any) -> None:
        raise DtypeError(f"the file holds a {what} tensor, which Weft does not have; save it dense and unquantised")

    return refuse


_STORAGES = {
    "Float": "float32",
    "Double": "float64",
    "Half": "float16",
    "BFloat16": "bfloat16",
    "Long": "int64",
    "Int": "int32",
    "Short": "int16",
    "Char": "int8",
    "Byte": "uint8",
    "Bool": "bool",
    "ComplexFloat": "complex64",
    "ComplexDouble": "complex128",
}

# Everything that a checkpoint may name; any other name is refused.
TABLE: dict[str, Any] = {
    **{f"torch.{kind.name}": kind for kind in ALL},
    **{f"torch.{name}Storage": StorageClass(dtype.by_name[kind]) for name, kind in _STORAGES.items()},
    "torch.storage.UntypedStorage": StorageClass(None),
    "torch.UntypedStorage": StorageClass(None),
    "torch._utils._rebuild_tensor": _tensor,
    "torch._utils._rebuild_tensor_v2": _tensor,
    "torch._utils._rebuild_tensor_v3": _tensor_of_bytes,
    "torch._utils._rebuild_parameter": _parameter,
    "torch._utils._rebuild_parameter_with_state": _parameter,
    "torch._tensor._rebuild_from_type_v2": _of_type,
    "torch._utils._rebuild_sparse_tensor": _unsupported("sparse"),
    "torch._utils._rebuild_qtensor": _unsupported("quantised"),
    "torch.serialization._get_layout": _layout,
    "torch.Tensor": None,  # a name to compare with, not a function to call
    "torch.Size": _size,
    "torch.device": _place,
    "collections.OrderedDict": _ordered,
    "torch_geometric.data.data.Data": "torch_geometric.data.data.Data",  # a name beside the tensors of a set of graphs
    "_codecs.encode": _bytes,
    **{f"{module}.complex": _complex for module in ("builtins", "__builtin__")},
    **{f"{module}.set": _set_of(set) for module in ("builtins", "__builtin__")},
    **{f"{module}.frozenset": _set_of(frozenset) for module in ("builtins", "__builtin__")},
    **{f"{module}.bytearray": _bytearray for module in ("builtins", "__builtin__")},
}

_LEAVES = (type(None), bool, int, float, complex, str, bytes, bytearray, dtype, Tensor, Parameter)
_SEQUENCES = (list, tuple, set, frozenset, Size)


def check_result(tree: Any, name: str) -> Any:
    """The tree, if it holds tensors and plain values only (no bare class, function or storage)."""
    pending, seen = [tree], set()
    while pending:
        value = pending.pop()
        kind = type(value)
        if kind in _LEAVES or id(value) in seen:
            continue
        seen.add(id(value))
        if kind in (dict, OrderedDict):
            pending.extend(value.values())
            pending.extend(vars(value).values() if kind is OrderedDict else ())
        elif kind in _SEQUENCES:
            pending.extend(value)
        else:
            what = value.name if isinstance(value, Global) else kind.__name__
            raise UnsafePickleError(
                f"{name}: the file holds {what!r} itself, which is no tensor or plain value; refused"
            )
    return tree
