"""Containers: modules and parameters in sequence, in lists, in dictionaries."""

from __future__ import annotations

import itertools
import operator
from collections import OrderedDict
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from ..errors import ArgumentError, ConditionError, IndexRangeError, InvalidValueError
from ..tensor import Tensor
from .module import Module
from .parameter import Parameter

__all__ = ["ModuleDict", "ModuleList", "ParameterDict", "ParameterList", "Sequential"]


def _position(index: Any, count: int, name: str) -> int:
    """An index in 0…count−1 from one that may be negative."""
    index = operator.index(index)
    if not -count <= index < count:
        raise IndexRangeError(f"{name}: index {index} is out of range for {count} entries")
    return index % count


class Sequential(Module):
    """y = fₙ(… f₂(f₁(x))).

    Takes modules one by one, or one ordered dictionary of them, whose keys become their names.

    >>> model = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 2))
    >>> model(weft.ones(3, 4)).shape
    weft.Size([3, 2])
    >>> model[0]
    Linear(in_features=4, out_features=8, bias=True)
    """

    def __init__(self, *args: Any) -> None:
        super().__init__()
        if len(args) == 1 and isinstance(args[0], (OrderedDict, dict)):
            for name, module in args[0].items():
                self.add_module(name, module)
        else:
            for number, module in enumerate(args):
                self.add_module(str(number), module)

    def forward(self, input: Any) -> Any:
        for module in self._modules.values():
            input = module(input)
        return input

    def __len__(self) -> int:
        return len(self._modules)

    def __iter__(self) -> Iterator[Module]:
        return iter(self._modules.values())

    def __getitem__(self, index: Any) -> Any:
        items = list(self._modules.items())
        if isinstance(index, slice):
            return type(self)(OrderedDict(items[index]))
        return items[_position(index, len(items), "Sequential")][1]

    def __setitem__(self, index: int, module: Module) -> None:
        self._modules[list(self._modules)[_position(index, len(self), "Sequential")]] = module

    def __delitem__(self, index: Any) -> None:
        names = list(self._modules)
        doomed = names[index] if isinstance(index, slice) else [names[_position(index, len(names), "Sequential")]]
        kept = [module for name, module in self._modules.items() if name not in doomed]
        self._modules.clear()
        self._modules.update((str(i), module) for i, module in enumerate(kept))

    def append(self, module: Module) -> Sequential:
        self.add_module(str(len(self)), module)
        return self

    def insert(self, index: int, module: Module) -> Sequential:
        if not isinstance(module, Module):
            raise ConditionError(f"module should be of type: {Module}")
        count = len(self)
        if not -count <= index <= count:
            raise IndexRangeError(f"Sequential: index {index} out of range for {count} entries")
        modules = list(self)
        modules.insert(index if index >= 0 else index + count, module)
        self._modules.clear()
        self._modules.update((str(i), m) for i, m in enumerate(modules))
        return self

    def extend(self, sequential: Iterable[Module]) -> Sequential:
        for module in sequential:
            self.append(module)
        return self

    def pop(self, key: Any) -> Module:
        module = self[key]
        del self[key]
        return module

    def __add__(self, other: Sequential) -> Sequential:
        if not isinstance(other, Sequential):
            raise InvalidValueError(
                f"add operator supports only objects of Sequential class, but {type(other)} is given."
            )
        return Sequential(*self, *other)


class ModuleList(Module):
    """A list whose modules are registered, so that their parameters are found.

    modules: what it holds to begin with

    >>> layers = nn.ModuleList([nn.Linear(2, 2) for _ in range(3)])
    >>> len(layers), len(list(layers.parameters()))
    (3, 6)
    """

    def __init__(self, modules: Iterable[Module] | None = None) -> None:
        super().__init__()
        if modules is not None:
            self.extend(modules)

    def __len__(self) -> int:
        return len(self._modules)

    def __iter__(self) -> Iterator[Module]:
        return iter(self._modules.values())

    def __contains__(self, module: object) -> bool:
        return any(m is module for m in self)

    def __getitem__(self, index: Any) -> Any:
        if isinstance(index, slice):
            return type(self)(list(self)[index])
        return self._modules[str(_position(index, len(self), "ModuleList"))]

    def __setitem__(self, index: int, module: Module) -> None:
        self._modules[str(_position(index, len(self), "ModuleList"))] = module

    def __delitem__(self, index: Any) -> None:
        modules = list(self)
        del modules[index]
        self._refill(modules)

    def _refill(self, modules: list[Module]) -> None:
        self._modules.clear()
        self._modules.update((str(i), m) for i, m in enumerate(modules))

    def append(self, module: Module) -> ModuleList:
        self.add_module(str(len(self)), module)
        return self

    def __repr__(self) -> str:
        """One line for each run of modules that look the same."""
        runs = [(list(group), text) for text, group in itertools.groupby(range(len(self)), lambda i: repr(self[i]))]
        lines = [
            f"({places[0]}): {text}" if len(places) == 1 else f"({places[0]}-{places[-1]}): {len(places)} x {text}"
            for places, text in runs
        ]
        body = "".join("\n  " + line for entry in lines for line in entry.split("\n"))
        return f"{self._get_name()}({body}\n)" if lines else f"{self._get_name()}()"

    def extend(self, modules: Iterable[Module]) -> ModuleList:
        if not isinstance(modules, Iterable):
            raise ArgumentError(
                f"ModuleList.extend should be called with an iterable, but got {type(modules).__name__}"
            )
        for module in modules:
            self.append(module)
        return self

    def insert(self, index: int, module: Module) -> None:
        modules = list(self)
        modules.insert(index, module)
        self._refill(modules)

    def pop(self, key: int) -> Module:
        module = self[key]
        del self[key]
        return module

    def __add__(self, other: Iterable[Module]) -> ModuleList:
        return ModuleList([*self, *other])

    def __iadd__(self, modules: Iterable[Module]) -> ModuleList:
        return self.extend(modules)


class ModuleDict(Module):
    """A dictionary whose modules are registered, so that their parameters are found.

    modules: what it holds to begin with, a mapping or pairs

    >>> heads = nn.ModuleDict({"age": nn.Linear(4, 1), "name": nn.Linear(4, 26)})
    >>> heads["name"](weft.ones(4)).shape
    weft.Size([26])
    """

    def __init__(self, modules: Mapping[str, Module] | ModuleDict | Iterable[tuple[str, Module]] | None = None) -> None:
        super().__init__()
        if modules is not None:  # subclasses have an `update` of their own
            self.update(modules)

    def __getitem__(self, key: str) -> Module:
        return self._modules[key]

    def __setitem__(self, key: str, module: Module) -> None:
        self.add_module(key, module)

    def __delitem__(self, key: str) -> None:
        del self._modules[key]

    def __len__(self) -> int:
        return len(self._modules)

    def __iter__(self) -> Iterator[str]:
        return iter(self._modules)

    def __contains__(self, key: object) -> bool:
        return key in self._modules

    def clear(self) -> None:
        self._modules.clear()

    def pop(self, key: str) -> Module:
        module = self[key]
        del self[key]
        return module

    def keys(self) -> Iterable[str]:
        return self._modules.keys()

    def values(self) -> Iterable[Module]:
        return self._modules.values()

    def items(self) -> Iterable[tuple[str, Module]]:
        return self._modules.items()

    def update(self, modules: Mapping[str, Module] | ModuleDict | Iterable[tuple[str, Module]]) -> None:
        if not isinstance(modules, Iterable):
            raise ArgumentError(
                f"ModuleDict.update should be called with an iterable of pairs, got {type(modules).__name__}"
            )
        for key, module in modules.items() if isinstance(modules, (Mapping, ModuleDict)) else modules:
            self[key] = module


def _as_entry(value: Any) -> Any:
    """Tensors become parameters; anything else stays what it is."""
    return Parameter(value) if isinstance(value, Tensor) and not isinstance(value, Parameter) else value


def _entry_line(key: Any, value: Any) -> str:
    if isinstance(value, Tensor):
        kind = "Parameter" if isinstance(value, Parameter) else "Tensor"
        size = "x".join(str(s) for s in value.shape)
        return f"({key}): {kind} containing: [weft.{value.dtype.name} of size {size}]"
    return f"({key}): Object of type: {type(value).__name__}"


class ParameterList(Module):
    """A list whose tensors are registered as parameters.

    values: what it holds to begin with

    >>> terms = nn.ParameterList([weft.zeros(2) for _ in range(3)])
    >>> [p.requires_grad for p in terms]
    [True, True, True]
    """

    def __init__(self, values: Iterable[Any] | None = None) -> None:
        super().__init__()
        self._count = 0
        self.extend(values or [])

    def __len__(self) -> int:
        return self._count

    def __iter__(self) -> Iterator[Any]:
        return iter([self[i] for i in range(len(self))])

    def __getitem__(self, index: Any) -> Any:
        if isinstance(index, slice):
            return type(self)([self[i] for i in range(*index.indices(len(self)))])
        return getattr(self, str(_position(index, len(self), "ParameterList")))

    def __setitem__(self, index: int, value: Any) -> None:
        setattr(self, str(_position(index, len(self), "ParameterList")), _as_entry(value))

    def append(self, value: Any) -> ParameterList:
        position = self._count
        self._count = position + 1
        self[position] = value
        return self

    def extend(self, values: Iterable[Any]) -> ParameterList:
        if not isinstance(values, Iterable) or isinstance(values, Tensor):
            raise ArgumentError(
                f"ParameterList.extend should be called with an iterable, but got {type(values).__name__}"
            )
        for value in values:
            self.append(value)
        return self

    __iadd__ = extend

    def extra_repr(self) -> str:
        return "\n".join(_entry_line(i, value) for i, value in enumerate(self))


class ParameterDict(Module):
    """A dictionary whose tensors are registered as parameters.

    parameters: what it holds to begin with, a mapping, pairs, or names alone

    >>> terms = nn.ParameterDict({"left": weft.zeros(2), "right": weft.ones(3)})
    >>> sorted(terms), terms["left"].requires_grad
    (['left', 'right'], True)
    """

    def __init__(self, parameters: Any = None) -> None:
        super().__init__()
        self._keys: dict[str, None] = {}
        self.update(parameters or {})

    def __getitem__(self, key: str) -> Any:
        return getattr(self, self._checked(key))

    def __setitem__(self, key: str, value: Any) -> None:
        self._keys[key] = None
        setattr(self, self._checked(key), _as_entry(value))

    def __delitem__(self, key: str) -> None:
        del self._keys[key]
        delattr(self, self._checked(key))

    def _checked(self, key: Any) -> str:
        if not isinstance(key, str):
            raise ArgumentError(f"Index given to ParameterDict cannot be used as a key as it is not a string: {key!r}")
        return key

    def __len__(self) -> int:
        return len(self._keys)

    def __iter__(self) -> Iterator[str]:
        return iter(self._keys)

    def __contains__(self, key: object) -> bool:
        return key in self._keys

    def __reversed__(self) -> Iterator[str]:
        return reversed(list(self._keys))

    def keys(self) -> Iterable[str]:
        return self._keys.keys()

    def values(self) -> Iterable[Any]:
        return [self[k] for k in self._keys]

    def items(self) -> Iterable[tuple[str, Any]]:
        return [(k, self[k]) for k in self._keys]

    def get(self, key: str, default: Any = None) -> Any:
        return self[key] if key in self else default

    def setdefault(self, key: str, default: Any = None) -> Any:
        if key not in self:
            self[key] = default
        return self[key]

    def pop(self, key: str) -> Any:
        value = self[key]
        del self[key]
        return value

    def popitem(self) -> tuple[str, Any]:
        key = next(reversed(self))
        return key, self.pop(key)

    def clear(self) -> None:
        for key in list(self):
            del self[key]

    def copy(self) -> ParameterDict:
        return ParameterDict(dict(self.items()))

    def update(self, parameters: Any) -> None:
        if not isinstance(parameters, Iterable):
            raise ArgumentError(
                f"ParametersDict.update should be called with an iterable, got {type(parameters).__name__}"
            )
        for key, value in parameters.items() if hasattr(parameters, "items") else parameters:
            self[key] = value

    def extra_repr(self) -> str:
        return "\n".join(_entry_line(key, value) for key, value in self.items())
