"""`weft.save` and `weft.load`: any tree of plain values and tensors in one file, without pickle.

The tensors lie in a safetensors file under their paths in the tree, so that any safetensors reader can look at them;
the tree itself is JSON in its metadata. Loading can make nothing but the types listed in `save`.
"""

from __future__ import annotations

import json
import math
from collections import OrderedDict
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from ..device import device
from ..dtypes import dtype
from ..errors import ArgumentError, OptionError
from ..nn.parameter import Buffer, Parameter
from ..sizes import Size
from ..sparse import SparseTensor
from ..storage import owner_of
from ..tensor import Tensor, new
from .atomic import Source, writing
from .errors import HeaderError, LayoutError
from .safetensors import CODES, read_arrays, write_arrays

__all__ = ["load", "save"]

FORMAT = "weft-tree-1"
WIDEST = 16  # bytes of the widest element
TENSORS: dict[str, type] = {"Tensor": Tensor, "Parameter": Parameter, "Buffer": Buffer}


def save(obj: Any, f: Source) -> None:
    """Write a tree of dict, OrderedDict, list, tuple, set, Size, numbers, strings, bytes, None, dtypes and tensors.

    Tensors that are one object, or that share memory, are so again after `load`; `requires_grad` and the class
    Parameter are kept. Anything else raises a TypeError that says where in the tree it is. The file appears complete
    or not at all.

    >>> weft.save({"model": model.state_dict(), "epoch": 3}, "run.weft")
    """
    writer = _Writer()
    tree = writer.encode(obj, ())
    arrays = writer.arrays()
    text = json.dumps({"tree": tree, "tensors": writer.tensors}, separators=(",", ":"), allow_nan=False)
    with writing(f) as file:
        write_arrays(file, arrays, {"format": FORMAT, "tree": text})


def load(f: Source, map_location: Any = None, *, weights_only: bool | None = True, mmap: bool | None = None) -> Any:
    """The tree that `save` wrote; a plain safetensors file gives its tensors by name.

    The arguments after `f` are PyTorch's: everything lies on the CPU, and nothing is ever unpickled (so
    `weights_only=False` is refused). mmap: tensors are windows on the file instead of copies, read when they are used;
    the file must then be left alone, see `weft.io.load_file`.
    """
    if weights_only is False:
        raise OptionError("load: Weft never unpickles, so weights_only=False cannot be had; PyTorch files: load_torch")
    if isinstance(map_location, str) and map_location != "cpu":
        raise OptionError(f"load: map_location can only be 'cpu', got {map_location!r}")
    arrays, metadata = read_arrays(f, bool(mmap))
    if metadata.get("format") != FORMAT:
        return {name: _over(Tensor, array) for name, array in arrays.items()}
    try:
        described = json.loads(metadata["tree"])
        reader = _Reader(arrays, described["tensors"])
        return reader.decode(described["tree"])
    except (KeyError, TypeError, ValueError, IndexError, AttributeError, RecursionError) as error:
        if isinstance(error, (HeaderError, LayoutError)):
            raise
        raise HeaderError(
            f"{f}: the tree in this file is not well formed: {type(error).__name__} {str(error)[:200]}"
        ) from None


def _over(cls: type, array: np.ndarray) -> Any:
    out = new(cls)
    out.array = array
    return out


# ------------------------------------------------------------------------------------------- writing


class _Writer:
    """Turns a tree into JSON values and collects the tensors on the way."""

    def __init__(self) -> None:
        self.tensors: list[dict[str, Any]] = []  # one description for each tensor object, as it goes into the file
        self.held: list[Tensor] = []
        self.names: list[str] = []
        self.numbers: dict[int, int] = {}
        self.open: set[int] = set()

    def encode(self, value: Any, path: tuple[Any, ...]) -> Any:
        kind = type(value)
        if value is None or kind in (bool, int, str):
            return value
        if kind in PLAIN:
            return {kind.__name__: PLAIN[kind][0](value)}
        if kind in TENSORS.values():
            return {"tensor": self.number(value, path)}
        if kind is SparseTensor:
            return {"SparseTensor": self.encode(value.parts(), path)}
        if kind not in CONTAINERS:
            raise ArgumentError(
                f"save: {shown(path)} is a {kind.__module__}.{kind.__qualname__}; only dict, OrderedDict, list, tuple, "
                f"set, Size, numbers, strings, bytes, None, dtypes, devices and tensors can be saved{_advice(value)}"
            )
        if id(value) in self.open:
            raise ArgumentError(f"save: {shown(path)} contains itself; a tree cannot")
        self.open.add(id(value))
        parts = [self.encode(part, (*path, step)) for step, part in CONTAINERS[kind](value)]
        self.open.discard(id(value))
        return parts if kind is list else self.container(kind, value, parts, path)

    def container(self, kind: type, value: Any, parts: list[Any], path: tuple[Any, ...]) -> dict[str, Any]:
        out: dict[str, Any] = {kind.__name__: parts}
        if kind in (dict, OrderedDict):
            out["keys"] = [self.encode(key, (*path, f"key {key!r}")) for key in value]
        if kind is OrderedDict and hasattr(value, "_metadata"):  # versions of the modules, as `state_dict` gives them
            out["metadata"] = self.encode(value._metadata, (*path, "_metadata"))
        return out

    def number(self, tensor: Tensor, path: tuple[Any, ...]) -> int:
        """The place of a tensor in the list; the same object has the same place."""
        if id(tensor) not in self.numbers:
            self.numbers[id(tensor)] = len(self.held)
            self.held.append(tensor)
            self.names.append(".".join(str(step) for step in path) or "tensor")
            description = {"class": type(tensor).__name__, "dtype": tensor.dtype.name, "grad": tensor.requires_grad}
            if isinstance(tensor, Buffer):
                description["persistent"] = tensor.persistent
            self.tensors.append(description)
        return self.numbers[id(tensor)]

    def arrays(self) -> dict[str, np.ndarray]:
        """What goes into the file, by name; every description is told where its elements are."""
        groups: dict[int, list[int]] = {}
        for i, tensor in enumerate(self.held):
            groups.setdefault(id(owner_of(tensor.array)) if tensor.array.size else -1 - i, []).append(i)
        out: dict[str, np.ndarray] = {}
        for members in groups.values():
            name = self.names[members[0]]
            while name in out or name == "__metadata__":
                name += "'"
            out[name] = self.stored(members, name)
        return out

    def stored(self, members: list[int], name: str) -> np.ndarray:
        """One array for tensors over one memory: the tensor itself if it is alone, else the bytes they span."""
        windows = [self.held[i].array for i in members]
        if len(members) == 1:
            self.tensors[members[0]] |= {"name": name, "shape": list(windows[0].shape)}
            return _storable(windows[0])
        bounds = [np.lib.array_utils.byte_bounds(window) for window in windows]
        begin, end = min(b for b, _ in bounds), max(e for _, e in bounds)
        for i, window in zip(members, windows, strict=True):
            offset = window.__array_interface__["data"][0] - begin
            self.tensors[i] |= {"name": name, "shape": list(window.shape), "strides": list(window.strides)}
            self.tensors[i]["offset"] = offset
        first = next(w for w, bound in zip(windows, bounds, strict=True) if bound[0] == begin)
        memory = np.lib.stride_tricks.as_strided(_lowest(first), (end - begin,), (1,))
        kinds = {window.dtype for window in windows}
        return memory.view(kinds.pop()) if len(kinds) == 1 and kinds <= _STORED else memory


def _lowest(array: np.ndarray) -> np.ndarray:
    """The first byte in memory that the array touches, as a one-byte array."""
    corner = tuple(slice(None, None, -1) if stride < 0 else slice(None) for stride in array.strides)
    return array[corner][(slice(0, 1),) * array.ndim].reshape(1).view(np.uint8)[:1]


def _storable(array: np.ndarray) -> np.ndarray:
    """The array in a type that safetensors has; complex128 becomes pairs of float64."""
    if dtype.by_numpy[array.dtype] in CODES:
        return array
    return array.reshape(-1).view(np.float64).reshape(*array.shape, 2)  # (…) → (…, 2)


def _items(value: dict[Any, Any]) -> Iterator[tuple[Any, Any]]:
    return iter(value.items())


_STORED = {kind.np for kind in CODES}
CONTAINERS: dict[type, Callable[[Any], Iterator[tuple[Any, Any]]]] = {
    dict: _items,
    OrderedDict: _items,
    list: enumerate,
    tuple: enumerate,
    Size: enumerate,
    set: enumerate,
}
# How a plain value is written as JSON, and how it is made from that.
PLAIN: dict[type, tuple[Callable[[Any], Any], Callable[[Any], Any]]] = {
    float: (lambda x: x if math.isfinite(x) else str(x), float),
    complex: (lambda x: str(x), complex),
    bytes: (lambda x: x.decode("latin1"), lambda text: text.encode("latin1")),
    dtype: (lambda x: x.name, lambda name: dtype.by_name[name]),
    device: (str, device),
}


def shown(path: tuple[Any, ...]) -> str:
    """A place in the tree as one would write it: obj['model'][0]."""
    return "obj" + "".join(f"[{step!r}]" for step in path)


def _advice(value: Any) -> str:
    if isinstance(value, (np.ndarray, np.generic)):
        return "; make a tensor of it with weft.as_tensor, or a number with .item()"
    if hasattr(value, "state_dict"):
        return "; save its state_dict() instead"
    if isinstance(value, tuple):
        return "; save tuple(value) or value._asdict() instead"
    return ""


# ------------------------------------------------------------------------------------------- reading


class _Reader:
    """Turns the JSON values back into the tree."""

    def __init__(self, arrays: dict[str, np.ndarray], described: list[dict[str, Any]]) -> None:
        for name in {description["name"] for description in described if "strides" in description}:
            if arrays[name].ctypes.data % WIDEST:  # windows of any type must lie aligned
                arrays[name] = arrays[name].copy()
        self.tensors = [_tensor(arrays, description) for description in described]

    def decode(self, node: Any) -> Any:
        if isinstance(node, list):
            return [self.decode(part) for part in node]
        if not isinstance(node, dict):
            return node
        if "tensor" in node:
            return self.tensors[node["tensor"]]
        if "SparseTensor" in node:
            return SparseTensor.from_parts(*self.decode(node["SparseTensor"]))
        kind = next(iter(node))
        for plain, (_, make) in PLAIN.items():
            if kind == plain.__name__:
                return make(node[kind])
        return self.container(kind, node)

    def container(self, kind: str, node: dict[str, Any]) -> Any:
        parts = [self.decode(part) for part in node[kind]]
        made = {cls.__name__: cls for cls in CONTAINERS}[kind]
        if "keys" not in node:
            return made(parts)
        out = made(zip([self.decode(key) for key in node["keys"]], parts, strict=True))
        if "metadata" in node:
            out._metadata = self.decode(node["metadata"])
        return out


def _tensor(arrays: dict[str, np.ndarray], description: dict[str, Any]) -> Tensor:
    """One tensor from its description."""
    out = _over(TENSORS[description["class"]], _array(arrays[description["name"]], description))
    if description["grad"]:
        out.requires_grad_()
    if "persistent" in description:
        out.persistent = bool(description["persistent"])
    return out


def _array(stored: np.ndarray, description: dict[str, Any]) -> np.ndarray:
    kind, shape = dtype.by_name[description["dtype"]].np, tuple(description["shape"])
    if "strides" not in description:
        if stored.dtype != kind:
            stored = stored.view(kind).reshape(stored.shape[:-1])  # (…, 2) → (…)
        if stored.shape != shape:
            raise LayoutError(f"tensor {description['name']!r} has shape {stored.shape}, the tree says {shape}")
        return stored
    strides, offset = tuple(description["strides"]), description["offset"]
    reach = [(size - 1) * stride for size, stride in zip(shape, strides, strict=True)]
    low, high = offset + sum(r for r in reach if r < 0), offset + sum(r for r in reach if r > 0) + kind.itemsize
    if low < 0 or high > stored.nbytes or not all(isinstance(n, int) for n in (*shape, *strides, offset)):
        raise LayoutError(f"a window on {description['name']!r} reaches over bytes {low} to {high} of {stored.nbytes}")
    return np.ndarray(shape, kind, stored, offset, strides)
