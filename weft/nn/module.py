"""Module: a function with parameters, buffers and parts, in PyTorch's names.

Assigning a Parameter, a Buffer or a Module as an attribute registers it. `module_state.py` carries the values
out and in, `module_hooks.py` calls what is to be called around forward and on gradients.
"""

from __future__ import annotations

import copy
import functools
from collections.abc import Callable, Iterator
from typing import Any, TypeVar

from ..device import device, usable
from ..dtypes import as_dtype, dtype
from ..errors import ArgumentError, AttributeAccessError, EntryError, InvalidValueError, UnsupportedError
from ..refusal import guard_methods, reword
from ..sparse import SparseTensor
from ..tape.holders import TABLES, PartHolder, global_hooks
from ..tape.modes import mode as switched
from ..tape.modes import no_grad, switches
from ..tensor import Tensor
from .module_hooks import ModuleHooks, call_with_hooks, registered, registration_hooks
from .module_state import ModuleState
from .nesting import allow, make_room
from .parameter import Buffer, Parameter, is_lazy

__all__ = ["Module"]

M = TypeVar("M", bound="Module")


class _Summary:
    """`module.summary(*inputs)`: the table of its layers, see `weft.inspect.summary`.

    PyTorch has no such method, so a part of a ported program may bear this name: the part comes first.
    """

    def __get__(self, module: Any, owner: type) -> Any:
        from ..inspect import summary

        if module is None:
            return summary
        own = (module.__dict__[table]["summary"] for table in TABLES if "summary" in module.__dict__[table])
        return next(own, functools.partial(summary, module))


class Module(ModuleState, ModuleHooks, PartHolder):
    """The base of all layers and models: override `__init__` (make parts) and `forward` (use them).

    Tensors of class `Parameter` and modules that are assigned as attributes are registered: `parameters()` finds them,
    `state_dict()` saves them, `train()`, `eval()` and `to()` reach them.

    >>> class Affine(nn.Module):
    ...     def __init__(self, size):
    ...         super().__init__()
    ...         self.scale, self.linear = nn.Parameter(weft.ones(size)), nn.Linear(size, size)
    ...
    ...     def forward(self, x):
    ...         return self.linear(self.scale * x)
    >>> [name for name, _ in Affine(3).named_parameters()]
    ['scale', 'linear.weight', 'linear.bias']
    """

    training: bool
    call_super_init = False
    _roots: tuple[type, ...]
    _version = 1
    summary = _Summary()

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        for table in TABLES:
            self.__dict__[table] = {}
        self.__dict__["training"] = True
        self.__dict__["_non_persistent_buffers_set"] = set()

    # ------------------------------------------------------------------------------ calling
    def forward(self, *args: Any, **kwargs: Any) -> Any:
        """What the module computes; every subclass defines it."""
        raise UnsupportedError(f'Module [{type(self).__name__}] is missing the required "forward" function')

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        guard_methods(cls, "__init__")

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        if switches.interpreting and switched.interpreter is not None:
            switched.interpreter.module_called(self, self._hook_tables())
        hooks = self.__dict__.get("_hooks")
        try:
            if not hooks and not global_hooks:
                return self.forward(*args, **kwargs)
            return call_with_hooks(self, args, kwargs)
        except Exception as error:
            reword(error, type(self).__name__, args, kwargs)
            raise

    def _hook_tables(self) -> list[dict[Any, Any]]:
        """Where the hooks of this module, and those of all modules, are kept."""
        return [global_hooks, *global_hooks.values(), *self.__dict__.get("_hooks", {}).values()]

    # ------------------------------------------------------------------------------ attributes
    def __setattr__(self, name: str, value: Any) -> None:
        tables = self.__dict__
        if switches.interpreting and switched.interpreter is not None:
            switched.interpreter.module_changing(self, [tables, *(tables[t] for t in TABLES if t in tables)])
        if "_parameters" not in tables:
            if isinstance(value, (Parameter, Module, Buffer)):
                raise AttributeAccessError(
                    f"cannot assign {type(value).__name__.lower()} {name!r} before Module.__init__() call; "
                    "start __init__ with super().__init__()"
                )
            object.__setattr__(self, name, value)
            return
        if isinstance(value, Parameter):
            self._forget(name, "_parameters")
            self.register_parameter(name, value)
        elif isinstance(value, Module):
            self._forget(name, "_modules")
            value = registered(self, "module", name, value) if registration_hooks else value
            tables["_modules"][name] = value
            make_room(tables, value.__dict__)
        elif isinstance(value, Buffer):
            self._forget(name, "_buffers")
            self.register_buffer(name, value, value.persistent)
        elif name in tables["_parameters"]:
            if value is not None:
                raise ArgumentError(
                    f"cannot assign '{type(value).__name__}' as parameter {name!r} (weft.nn.Parameter or None expected)"
                )
            tables["_parameters"][name] = None
        elif name in tables["_modules"] and value is None:
            tables["_modules"][name] = None
        elif name in tables["_modules"]:
            raise ArgumentError(
                f"cannot assign '{type(value).__name__}' as child module {name!r} (Module or None expected)"
            )
        elif name in tables["_buffers"]:
            if value is not None and not isinstance(value, (Tensor, SparseTensor)):
                raise ArgumentError(
                    f"cannot assign '{type(value).__name__}' object to buffer {name!r} (weft.Tensor or None expected)"
                )
            tables["_buffers"][name] = value
        else:
            object.__setattr__(self, name, value)

    def _forget(self, name: str, home: str) -> None:
        """Take `name` out of every table but the one it comes to: what is reassigned there keeps its place."""
        self.__dict__.pop(name, None)
        for table in TABLES:
            if table != home:
                self.__dict__[table].pop(name, None)
        self._non_persistent_buffers_set.discard(name)

    def __getattr__(self, name: str) -> Any:
        for table in TABLES:
            found = self.__dict__.get(table)
            if found is not None and name in found:
                if switches.interpreting and switched.interpreter is not None:
                    switched.interpreter.module_read(self, found, name)
                return found[name]
        raise AttributeError(f"'{type(self).__name__}' object has no attribute '{name}'")

    def __delattr__(self, name: str) -> None:
        for table in TABLES:
            if name in self.__dict__.get(table, ()):
                del self.__dict__[table][name]
                self._non_persistent_buffers_set.discard(name)
                return
        object.__delattr__(self, name)

    def __dir__(self) -> list[str]:
        names = [*super().__dir__(), *self._parameters, *self._buffers, *self._modules]
        return sorted(name for name in set(names) if not name[0].isdigit())

    def register_parameter(self, name: str, param: Parameter | None) -> None:
        """Add a trainable tensor (or a place for one: None)."""
        self._check_name(name, "parameter", self._parameters)
        if param is not None:
            if not isinstance(param, Parameter):
                raise ArgumentError(
                    f"cannot assign '{type(param).__name__}' object to parameter {name!r} (weft.nn.Parameter or None "
                    "required)"
                )
            if param.node is not None:
                raise InvalidValueError(
                    f"cannot assign non-leaf Tensor to parameter {name!r}; model parameters must be created explicitly: "
                    "use .detach() first"
                )
        if registration_hooks and param is not None:
            param = registered(self, "parameter", name, param)
        self._parameters[name] = param

    def register_buffer(self, name: str, tensor: Tensor | None, persistent: bool = True) -> None:
        """Add a tensor that is saved with the module but not trained."""
        self._check_name(name, "buffer", self._buffers)
        if tensor is not None and not isinstance(tensor, (Tensor, SparseTensor)):
            raise ArgumentError(
                f"cannot assign '{type(tensor).__name__}' object to buffer {name!r} (weft Tensor or None required)"
            )
        self._buffers[name] = registered(self, "buffer", name, tensor) if registration_hooks else tensor
        (self._non_persistent_buffers_set.discard if persistent else self._non_persistent_buffers_set.add)(name)

    def add_module(self, name: str, module: Module | None) -> None:
        """Add a part under a name."""
        if module is not None and not isinstance(module, Module):
            if not hasattr(module, "as_module"):  # transforms of images have it
                raise ArgumentError(f"{type(module).__name__} is not a Module subclass")
            module = module.as_module()
        self._check_name(name, "module", self._modules)
        self._modules[name] = registered(self, "module", name, module) if registration_hooks else module
        if module is not None:
            make_room(self.__dict__, module.__dict__)

    register_module = add_module

    def _check_name(self, name: Any, kind: str, table: dict[str, Any]) -> None:
        if "_parameters" not in self.__dict__:
            raise AttributeAccessError(
                f"cannot assign {kind} before Module.__init__() call; call super().__init__() first"
            )
        if not isinstance(name, str):
            raise ArgumentError(f"{kind} name should be a string, got {type(name).__name__}")
        if "." in name:
            raise EntryError(f'{kind} name can\'t contain ".", got {name!r}')
        if name == "":
            raise EntryError(f'{kind} name can\'t be empty string ""')
        if hasattr(self, name) and name not in table and name != "summary":
            raise EntryError(f"attribute {name!r} already exists")

    def get_submodule(self, target: str) -> Module:
        """The part at a dotted path."""
        module: Any = self
        for part in target.split(".") if target else ():
            if not hasattr(module, part):
                raise AttributeAccessError(f"{type(module).__name__} has no attribute `{part}`")
            module = getattr(module, part)
            if not isinstance(module, Module):
                raise AttributeAccessError(f"`{part}` is not an nn.Module")
        return module

    def set_submodule(self, target: str, module: Module, strict: bool = False) -> None:
        """Put a module in the place of the part at a dotted path; `strict`: there must be one already."""
        path, _, name = target.rpartition(".")
        owner = self.get_submodule(path)
        if strict and name not in owner._modules:
            raise AttributeAccessError(f"{type(owner).__name__} has no attribute `{name}`")
        setattr(owner, name, module)

    def get_parameter(self, target: str) -> Parameter:
        path, _, name = target.rpartition(".")
        found = getattr(self.get_submodule(path), name)
        if not isinstance(found, Parameter):
            raise AttributeAccessError(f"`{name}` is not an nn.Parameter")
        return found

    def get_buffer(self, target: str) -> Tensor:
        path, _, name = target.rpartition(".")
        module = self.get_submodule(path)
        if name not in module._buffers:
            raise AttributeAccessError(f"`{name}` is not a buffer")
        return module._buffers[name]

    # ------------------------------------------------------------------------------ walking
    def named_modules(
        self, memo: set[Module] | None = None, prefix: str = "", remove_duplicate: bool = True
    ) -> Iterator[tuple[str, Module]]:
        """This module and all parts, each once, with dotted names."""
        memo = set() if memo is None else memo
        pending = [iter([(prefix, self)])]  # of each level what is left of its parts
        while pending:
            path, module = next(pending[-1], (None, None))
            if path is None:
                pending.pop()
                continue
            if module is None or module in memo:
                continue
            if remove_duplicate:
                memo.add(module)
            yield path, module
            allow(len(pending))
            parts = module._parts().items()
            pending.append(iter([(f"{path}.{name}" if path else name, part) for name, part in parts]))

    def _parts(self) -> dict[str, Module | None]:
        if switches.interpreting and switched.interpreter is not None:
            switched.interpreter.module_read(self, self.__dict__, "_modules")
        return self._modules

    def modules(self) -> Iterator[Module]:
        return (module for _, module in self.named_modules())

    def named_children(self) -> Iterator[tuple[str, Module]]:
        seen = set()
        for name, module in self._parts().items():
            if module is not None and module not in seen:
                seen.add(module)
                yield name, module

    def children(self) -> Iterator[Module]:
        return (module for _, module in self.named_children())

    def _named(self, table: str, prefix: str, recurse: bool, remove_duplicate: bool) -> Iterator[tuple[str, Any]]:
        seen = set()
        modules = self.named_modules(prefix=prefix, remove_duplicate=remove_duplicate) if recurse else [(prefix, self)]
        for path, module in modules:
            for name, value in module.__dict__[table].items():
                if value is None or (remove_duplicate and id(value) in seen):
                    continue
                seen.add(id(value))
                yield (f"{path}.{name}" if path else name), value

    def named_parameters(
        self, prefix: str = "", recurse: bool = True, remove_duplicate: bool = True
    ) -> Iterator[tuple[str, Parameter]]:
        return self._named("_parameters", prefix, recurse, remove_duplicate)

    def parameters(self, recurse: bool = True) -> Iterator[Parameter]:
        return (value for _, value in self.named_parameters(recurse=recurse))

    def named_buffers(
        self, prefix: str = "", recurse: bool = True, remove_duplicate: bool = True
    ) -> Iterator[tuple[str, Tensor]]:
        return self._named("_buffers", prefix, recurse, remove_duplicate)

    def buffers(self, recurse: bool = True) -> Iterator[Tensor]:
        return (value for _, value in self.named_buffers(recurse=recurse))

    # ------------------------------------------------------------------------------ modes
    def train(self: M, mode: bool = True) -> M:
        """Switch this module and its parts to training (dropout drops, batch norm counts) or not."""
        if not isinstance(mode, bool):
            raise InvalidValueError("training mode is expected to be boolean")
        self.training = mode
        for module in self.children():
            module.train(mode)
        return self

    def eval(self: M) -> M:
        return self.train(False)

    def requires_grad_(self: M, requires_grad: bool = True) -> M:
        for parameter in self.parameters():
            parameter.requires_grad_(requires_grad)
        return self

    def zero_grad(self, set_to_none: bool = True) -> None:
        for parameter in self.parameters():
            if set_to_none or parameter.grad is None:
                parameter.grad = None
            else:
                parameter.grad = parameter.grad.detach() * 0

    def apply(self: M, fn: Callable[[Module], None]) -> M:
        """Call `fn` on every part, then on this module."""
        for module in self.children():
            module.apply(fn)
        fn(self)
        return self

    # ------------------------------------------------------------------------------ types and places
    def _apply(self: M, fn: Callable[[Tensor], Tensor], recurse: bool = True) -> M:
        """Replace the values of parameters, their gradients and buffers by `fn` of them."""
        if recurse:
            for module in self.children():
                module._apply(fn)
        for name, parameter in self._parameters.items():
            if parameter is not None:
                _replace(parameter, fn)
                self._parameters[name] = parameter
        for name, buffer in self._buffers.items():
            if buffer is not None:
                self._buffers[name] = fn(buffer)
        return self

    def to(self: M, *args: Any, **kwargs: Any) -> M:
        """Convert floating-point parameters and buffers to another type (in place)."""
        given = [a for a in (*args, kwargs.get("dtype")) if isinstance(a, dtype) or a.__class__.__name__ == "dtype"]
        given += [a.dtype for a in args if isinstance(a, Tensor)]
        for place in (*args, kwargs.get("device")):
            if isinstance(place, (str, int, device)) and not isinstance(place, bool):
                usable(place)
        if not given:
            return self
        kind = as_dtype(given[0])
        if kind.category < 2:
            raise ArgumentError(
                f"nn.Module.to only accepts floating point or complex dtypes, but got desired dtype={kind}"
            )
        return self._apply(lambda t: t.to(kind) if t.dtype.category >= 2 else t)

    def _to_kind(self: M, name: str) -> M:
        return self.to(as_dtype(name))

    def float(self: M) -> M:
        return self._to_kind("float32")

    def double(self: M) -> M:
        return self._to_kind("float64")

    def half(self: M) -> M:
        return self._to_kind("float16")

    def bfloat16(self: M) -> M:
        return self._to_kind("bfloat16")

    def type(self: M, dst_type: Any) -> M:
        return self._apply(lambda t: t.to(as_dtype(dst_type)))

    def to_empty(self: M, *, device: Any = None, recurse: bool = True) -> M:
        """Parameters and buffers with new, uninitialised memory."""
        usable(device)
        return self._apply(lambda t: t.new_empty(t.shape), recurse)

    def compile(self, *args: Any, **options: Any) -> None:
        """Compile what the module computes, in place; options as for `weft.compile`, with Python where it cannot."""
        from ..compiler.compiled import compile

        self.forward = compile(self.forward, *args, **{"fallback": "eager", **options})

    def cpu(self: M) -> M:
        return self

    def cuda(self: M, device: Any = None) -> M:
        return self.to("cuda")

    def share_memory(self: M) -> M:
        """Move parameters and buffers into memory that forked processes see as well (`Tensor.share_memory_`)."""
        for tensor in (*self.parameters(), *self.buffers()):
            tensor.share_memory_()
        return self

    # ------------------------------------------------------------------------------ copies and pictures
    def __deepcopy__(self: M, memo: dict[int, Any]) -> M:
        out = object.__new__(type(self))
        memo[id(self)] = out
        for name, value in self.__dict__.items():
            out.__dict__[name] = copy.deepcopy(value, memo)
        return out

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)

    def extra_repr(self) -> str:
        """What stands between the brackets of the module's own line."""
        return ""

    def _get_name(self) -> str:
        return type(self).__name__

    def _repr_html_(self) -> str:
        from ..notebook import module_html

        return module_html(self)

    def __repr__(self) -> str:
        return "\n".join("  " * depth + line for depth, line in self._lines("", 0))

    def _lines(self, label: str, depth: int) -> list[tuple[int, str]]:
        """The lines of the picture, each with how far it is indented."""
        extra = self.extra_repr()
        own = extra.split("\n") if extra else []
        if len(own) <= 1 and not self._modules:
            return [(depth, f"{label}{self._get_name()}({extra})")]
        lines = [(depth, f"{label}{self._get_name()}("), *((depth + 1, line) for line in own)]
        for name, part in self._modules.items():
            if type(part).__repr__ is Module.__repr__:
                lines += part._lines(f"({name}): ", depth + 1)
            else:
                lines += [(depth + 1, line) for line in f"({name}): {part!r}".split("\n")]
        return [*lines, (depth, ")")]


Module._roots = Module.__mro__  # of all modules: what their methods read of a module, an interpreter is told


def _replace(parameter: Parameter, fn: Callable[[Tensor], Tensor]) -> None:
    """Give a parameter (and its gradient) new values without making it another object."""
    with no_grad():
        parameter.array = fn(parameter.detach())._window()
        if not is_lazy(parameter) and parameter.grad is not None:
            parameter._grad = fn(parameter.grad.detach())
