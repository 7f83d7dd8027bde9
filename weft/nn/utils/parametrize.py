"""Parametrisations: a tensor of a module computed from other tensors by a chain of modules.

After `register_parametrization(module, "weight", p)` the attribute `module.weight` is p(original), computed at each
access, and `module.parametrizations.weight.original` is what is trained. Several registrations chain. Assigning to
`module.weight` goes back through the `right_inverse` methods.
"""

from __future__ import annotations

import contextlib
import copy
from collections.abc import Iterator, Sequence
from typing import Any, TypeVar

from ...errors import InvalidValueError, StateError
from ...tape.modes import no_grad
from ...tensor import Tensor
from ..container import ModuleDict, ModuleList
from ..module import Module
from ..parameter import Parameter

__all__ = [
    "ParametrizationList",
    "cached",
    "is_parametrized",
    "register_parametrization",
    "remove_parametrizations",
    "transfer_parametrizations_and_params",
    "type_before_parametrizations",
]

M = TypeVar("M", bound=Module)

_cache: dict[tuple[int, str], Tensor] = {}
_cache_users = 0


@contextlib.contextmanager
def cached() -> Iterator[None]:
    """Inside, a parametrised tensor is computed at its first access only."""
    global _cache_users
    _cache_users += 1
    try:
        yield
    finally:
        _cache_users -= 1
        if not _cache_users:
            _cache.clear()


# ------------------------------------------------------------------------------------------- the chain


def _register(module: Module, name: str, value: Tensor) -> None:
    if isinstance(value, Parameter):
        module.register_parameter(name, value)
    else:
        module.register_buffer(name, value)


def _hold(place: Tensor, value: Tensor) -> None:
    """Give a parameter or buffer another value (and shape) while it stays the same object."""
    place.data = value.detach()


class ParametrizationList(ModuleList):
    """The parametrisations of one tensor, and its `original` (or `original0`, `original1`, …)."""

    def __init__(self, modules: Sequence[Module], original: Tensor, unsafe: bool = False) -> None:
        super().__init__(modules)
        if not len(self):
            raise InvalidValueError("ParametrizationList requires one or more modules.")
        self.unsafe = unsafe
        new = self._back(original)
        self.is_tensor = isinstance(new, Tensor)
        if not unsafe:
            value = self._chain(*((new,) if self.is_tensor else new))
            _check_kept(original.dtype, tuple(original.shape), value)
        if self.is_tensor:
            if new is not original:
                _hold(original, new)
            _register(self, "original", original)
        else:
            self.ntensors = len(new)
            for number, part in enumerate(new):
                trained = isinstance(original, Parameter)
                _register(
                    self,
                    f"original{number}",
                    Parameter(part.detach(), original.requires_grad) if trained else part,
                )

    def _back(self, value: Tensor) -> Any:
        """`value` through the inverses that there are, from the last parametrisation to the first."""
        new: Any = value
        with no_grad():
            for module in reversed(list(self)):
                with contextlib.suppress(NotImplementedError):
                    new = module.right_inverse(new) if hasattr(module, "right_inverse") else new
        return new

    def originals(self) -> tuple[Tensor, ...]:
        if self.is_tensor:
            return (self.original,)
        return tuple(getattr(self, f"original{number}") for number in range(self.ntensors))

    def right_inverse(self, value: Tensor) -> None:
        """Set the originals so that the chain gives `value`."""
        with no_grad():
            new: Any = value
            for module in reversed(list(self)):
                if not hasattr(module, "right_inverse"):
                    raise StateError(f"parametrization {type(module).__name__} does not implement right_inverse.")
                new = module.right_inverse(new)
            parts = (new,) if self.is_tensor else tuple(new)
            if len(parts) != len(self.originals()):
                raise InvalidValueError(
                    f"'right_inverse' must return a sequence of {len(self.originals())} tensors, got {len(parts)}"
                )
            for place, part in zip(self.originals(), parts, strict=True):
                _hold(place, part.clone())

    def forward(self) -> Tensor:
        return self._chain(*self.originals())

    def _chain(self, *originals: Tensor) -> Tensor:
        first, *others = list(self)
        value = first(*originals)
        for module in others:
            value = module(value)
        return value


def _check_kept(dtype: Any, shape: tuple[int, ...], value: Tensor) -> None:
    """Without `unsafe` the tensor must keep its type and shape."""
    if not isinstance(value, Tensor):
        raise InvalidValueError(f"A parametrization must return a tensor. Got {type(value).__name__}.")
    for quality, before, after in (("dtype", dtype, value.dtype), ("shape", shape, tuple(value.shape))):
        if before != after:
            raise InvalidValueError(
                f"Registering a parametrization may not change the {quality} of the tensor, unless `unsafe` flag is enabled.\n"
                f"unparametrized {quality}: {before}\nparametrized {quality}: {after}"
            )


# ------------------------------------------------------------------------------------------- the class


def _refuse_pickle(self: Module) -> Any:
    raise StateError("Serialization of parametrized modules is only supported through state_dict().")


def _deepcopy(self: M, memo: dict[int, Any]) -> M:
    """A copy with a class of its own, because the computed attributes belong to the class."""
    out = object.__new__(_parametrized_class(type_before_parametrizations(self)))
    memo[id(self)] = out
    for name, value in self.__dict__.items():
        out.__dict__[name] = copy.deepcopy(value, memo)
    for name in self.parametrizations:
        _compute_attribute(out, name)
    return out


def _parametrized_class(base: type[Module]) -> type[Module]:
    body = {"__deepcopy__": _deepcopy, "__getstate__": _refuse_pickle, "__module__": __name__}
    return type(f"Parametrized{base.__name__}", (base,), body)


def _compute_attribute(module: Module, name: str) -> None:
    """Make `module.name` the result of its parametrisations."""

    def get(self: Module) -> Tensor:
        if not _cache_users:
            return self.parametrizations[name]()
        key = (id(self), name)
        if key not in _cache:
            _cache[key] = self.parametrizations[name]()
        return _cache[key]

    def assign(self: Module, value: Tensor) -> None:
        self.parametrizations[name].right_inverse(value)

    setattr(type(module), name, property(get, assign))


def is_parametrized(module: Module, tensor_name: str | None = None) -> bool:
    """Whether the module (or this tensor of it) has a parametrisation."""
    parametrizations = getattr(module, "parametrizations", None)
    if not isinstance(parametrizations, ModuleDict):
        return False
    return len(parametrizations) > 0 if tensor_name is None else tensor_name in parametrizations


def type_before_parametrizations(module: Module) -> type[Module]:
    """The class that the module had before its first parametrisation."""
    return type(module).__bases__[0] if is_parametrized(module) else type(module)


# ------------------------------------------------------------------------------------------- registering


def register_parametrization(module: M, tensor_name: str, parametrization: Module, *, unsafe: bool = False) -> M:
    """Compute `module.tensor_name` by `parametrization` from now on; it must keep type and shape, unless `unsafe`.

    If the parametrisation has a `right_inverse`, the original starts as right_inverse(present value), which may be a
    tuple of tensors for the first parametrisation of a tensor.
    """
    parametrization.train(module.training)
    if is_parametrized(module, tensor_name):
        chain = module.parametrizations[tensor_name]
        if not unsafe:
            value = getattr(module, tensor_name)
            _check_kept(value.dtype, tuple(value.shape), parametrization(value))
        chain.append(parametrization)
        chain.unsafe |= unsafe
    elif tensor_name in module._parameters or tensor_name in module._buffers:
        original = getattr(module, tensor_name)
        chain = ParametrizationList([parametrization], original, unsafe)
        delattr(module, tensor_name)
        if not is_parametrized(module):
            module.__class__ = _parametrized_class(type(module))
            module.parametrizations = ModuleDict()
        _compute_attribute(module, tensor_name)
        module.parametrizations[tensor_name] = chain
    else:
        raise InvalidValueError(
            f"Module '{module}' does not have a parameter, a buffer, or a parametrized element with name "
            f"'{tensor_name}'"
        )
    return module


def remove_parametrizations(module: M, tensor_name: str, leave_parametrized: bool = True) -> M:
    """Make the tensor ordinary again: with its computed value, or (leave_parametrized=False) with its original."""
    if not is_parametrized(module, tensor_name):
        raise InvalidValueError(f"Module {module} does not have a parametrization on {tensor_name}")
    chain = module.parametrizations[tensor_name]
    if not chain.is_tensor and not leave_parametrized:
        raise InvalidValueError(
            "You can not leave the tensor unparametrized (leave_parametrized=False) if it is parametrized in terms of a "
            "sequence of tensors."
        )
    value = chain.originals()[0]
    if leave_parametrized:
        with no_grad():
            computed = getattr(module, tensor_name).detach()
        if chain.is_tensor:
            _hold(value, computed)
        else:
            trained = any(part.requires_grad for part in chain.originals())
            value = Parameter(computed, trained) if isinstance(value, Parameter) else computed
    delattr(type(module), tensor_name)
    del module.parametrizations[tensor_name]
    if not len(module.parametrizations):
        base = type(module).__bases__[0]
        delattr(module, "parametrizations")
        module.__class__ = base
    _register(module, tensor_name, value)
    return module


def transfer_parametrizations_and_params(
    from_module: Module, to_module: Module, tensor_name: str | None = None
) -> Module:
    """Give `to_module` copies of the parametrisations of `from_module` (of one tensor, or all), and their originals."""
    names = [tensor_name] if tensor_name is not None else list(getattr(from_module, "parametrizations", ()))
    for name in names:
        assert is_parametrized(from_module, name), f"{name} is not parametrized in {from_module}"
        if not hasattr(to_module, name):
            _register(to_module, name, copy.deepcopy(from_module.parametrizations[name].originals()[0]))
        source = from_module.parametrizations[name]
        for parametrization in source:
            register_parametrization(to_module, name, copy.deepcopy(parametrization), unsafe=True)
        for place, value in zip(to_module.parametrizations[name].originals(), source.originals(), strict=True):
            _hold(place, value.detach().clone())
    return to_module
