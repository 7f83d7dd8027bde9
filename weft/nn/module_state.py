"""The state of modules: `state_dict` and `load_state_dict` carry every value out and in under PyTorch's keys."""

from __future__ import annotations

import functools
from collections import OrderedDict, namedtuple
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from ..errors import ArgumentError, StateError, UnsupportedError
from ..sparse import SparseTensor
from ..tape.modes import no_grad
from ..tape.node import Handle
from ..tensor import Tensor
from .parameter import Parameter, is_lazy

if TYPE_CHECKING:
    from .module import Module

__all__ = ["ModuleState"]


class LoadReport(namedtuple("LoadReport", ["missing_keys", "unexpected_keys"])):
    """What `load_state_dict` found: keys of the module that did not come, and keys that have no place."""

    __slots__ = ()

    def __repr__(self) -> str:
        if not self.missing_keys and not self.unexpected_keys:
            return "<All keys matched successfully>"
        return super().__repr__()

    __str__ = __repr__


class ModuleState:
    """The part of `Module` that saves and loads parameters and buffers, with the hooks on this way."""

    def state_dict(
        self, *, destination: Any = None, prefix: str = "", keep_vars: bool = False
    ) -> OrderedDict[str, Any]:
        """All parameters and persistent buffers by dotted name; they share memory with the module."""
        out = OrderedDict() if destination is None else destination
        if not hasattr(out, "_metadata"):
            out._metadata = OrderedDict()
        out._metadata[prefix[:-1]] = {"version": self._version}
        for hook in self.__dict__.get("_state_pre_hooks", {}).values():
            hook(self, prefix, keep_vars)
        self._save_to_state_dict(out, prefix, keep_vars)
        for name, module in self._modules.items():
            if module is not None:
                module.state_dict(destination=out, prefix=f"{prefix}{name}.", keep_vars=keep_vars)
        for hook in self.__dict__.get("_state_hooks", {}).values():
            changed = hook(self, out, prefix, {"version": self._version})
            out = out if changed is None else changed
        return out

    def _save_to_state_dict(self, destination: dict[str, Any], prefix: str, keep_vars: bool) -> None:
        for name, value in self._parameters.items():
            if value is not None:
                destination[prefix + name] = value if keep_vars or is_lazy(value) else value.detach()
        for name, value in self._buffers.items():
            if value is not None and name not in self._non_persistent_buffers_set:
                destination[prefix + name] = value if keep_vars or is_lazy(value) else value.detach()
        if type(self).get_extra_state is not ModuleState.get_extra_state:
            destination[prefix + "_extra_state"] = self.get_extra_state()

    def get_extra_state(self) -> Any:
        """Override to put something of your own into the state dict."""
        raise UnsupportedError("override get_extra_state and set_extra_state together")

    def set_extra_state(self, state: Any) -> None:
        raise UnsupportedError("override get_extra_state and set_extra_state together")

    def load_state_dict(self, state_dict: Mapping[str, Any], strict: bool = True, assign: bool = False) -> LoadReport:
        """Copy values from a state dict; with `strict` every key must match, and every shape always must.

        If anything does not fit, the error lists all of it and the module is as it was before.
        """
        if not isinstance(state_dict, Mapping):
            raise ArgumentError(f"Expected state_dict to be dict-like, got {type(state_dict)}.")
        before = _remembered(self)
        missing: list[str] = []
        errors: list[str] = []
        state = OrderedDict(state_dict)
        metadata = getattr(state_dict, "_metadata", None)
        expected: set[str] = set()
        pending = [("", self)]
        while pending:
            prefix, module = pending.pop(0)
            local = {**(metadata or {}).get(prefix[:-1], {}), "assign_to_params_buffers": assign}
            for hook in module.__dict__.get("_load_pre_hooks", {}).values():
                hook(module, state, prefix, local, strict, missing, [], errors)
            module._load_from_state_dict(state, prefix, local, strict, missing, [], errors)
            expected |= {prefix + name for name in module._state_names()}
            pending[:0] = [(f"{prefix}{name}.", m) for name, m in module._modules.items() if m is not None]
        unexpected = [key for key in state if key not in expected]
        report = LoadReport(missing, unexpected)
        for module in self.modules():
            for hook in module.__dict__.get("_load_post_hooks", {}).values():
                hook(module, report)
        if strict and unexpected:
            errors.insert(0, "Unexpected key(s) in state_dict: " + ", ".join(f'"{k}"' for k in unexpected) + ".")
        if strict and missing:
            errors.insert(0, "Missing key(s) in state_dict: " + ", ".join(f'"{k}"' for k in missing) + ".")
        if errors:
            _put_back(before)
            raise StateError(f"Error(s) in loading state_dict for {type(self).__name__}:\n\t" + "\n\t".join(errors))
        return report

    def _state_names(self) -> list[str]:
        names = [n for n, v in self._parameters.items() if v is not None]
        names += [n for n, v in self._buffers.items() if v is not None and n not in self._non_persistent_buffers_set]
        if type(self).set_extra_state is not ModuleState.set_extra_state:
            names.append("_extra_state")
        return names

    def _load_from_state_dict(
        self,
        state_dict: Mapping[str, Any],
        prefix: str,
        local_metadata: dict[str, Any],
        strict: bool,
        missing_keys: list[str],
        unexpected_keys: list[str],
        error_msgs: list[str],
    ) -> None:
        """Take this module's own values (not its parts') from the state dict."""
        assign = local_metadata.get("assign_to_params_buffers", False)
        for name in self._state_names():
            key = prefix + name
            if key not in state_dict:
                missing_keys.append(key)
            elif name == "_extra_state":
                self.set_extra_state(state_dict[key])
            else:
                self._load_value(name, state_dict[key], key, error_msgs, assign)

    def _load_value(self, name: str, value: Any, key: str, error_msgs: list[str], assign: bool) -> None:
        table = self._parameters if name in self._parameters else self._buffers
        target = table[name]
        if not isinstance(value, SparseTensor if isinstance(target, SparseTensor) else Tensor):
            error_msgs.append(
                f"While copying the parameter named {key!r}, expected a {_kind(target)} from the checkpoint but "
                f"received {type(value).__name__}; convert it with {_how(target)}."
            )
            return
        if is_lazy(target) and not is_lazy(value):
            target.materialize(value.shape)
        if tuple(target.shape) != tuple(value.shape):
            if target.ndim == 0 and tuple(value.shape) == (1,):
                value = value.reshape(())
            else:
                error_msgs.append(
                    f"size mismatch for {key}: copying a param with shape {value.shape} from checkpoint, the shape in "
                    f"current model is {target.shape}."
                )
                return
        if isinstance(target, SparseTensor):
            table[name] = value if assign else value.to(target.dtype).detach().clone()  # with its own places
            return
        if assign:
            keep = Parameter(value, target.requires_grad) if isinstance(target, Parameter) else value
            table[name] = keep
            return
        with no_grad():
            target.copy_(value)

    def _add_state_hook(self, kind: str, hook: Callable) -> Handle:
        return Handle(self.__dict__.setdefault(kind, OrderedDict()), hook)

    def register_state_dict_post_hook(self, hook: Callable) -> Handle:
        return self._add_state_hook("_state_hooks", hook)

    _register_state_dict_hook = register_state_dict_post_hook

    def register_state_dict_pre_hook(self, hook: Callable) -> Handle:
        return self._add_state_hook("_state_pre_hooks", hook)

    def _register_load_state_dict_pre_hook(self, hook: Callable, with_module: bool = False) -> Handle:
        """`register_load_state_dict_pre_hook`, without the module as the first argument unless `with_module`."""
        without = functools.wraps(hook)(lambda module, *given: hook(*given))
        return self.register_load_state_dict_pre_hook(hook if with_module else without)

    def register_load_state_dict_pre_hook(self, hook: Callable) -> Handle:
        """Call `hook(module, state_dict, prefix, metadata, strict, missing, unexpected, errors)` before loading."""
        return self._add_state_hook("_load_pre_hooks", hook)

    def register_load_state_dict_post_hook(self, hook: Callable) -> Handle:
        """Call `hook(module, report)` after loading."""
        return self._add_state_hook("_load_post_hooks", hook)


def _kind(target: Any) -> str:
    return "sparse matrix" if isinstance(target, SparseTensor) else "tensor"


def _how(target: Any) -> str:
    return ".to_sparse()" if isinstance(target, SparseTensor) else "weft.tensor(...)"


def _remembered(module: Module) -> list[tuple[Any, ...]]:
    """The values of all parameters and buffers, with what is needed to restore them."""
    tables = [table for part in module.modules() for table in (part._parameters, part._buffers)]
    held = [(t, name, v) for t in tables for name, v in t.items() if v is not None]
    return [
        (t, name, v, type(v), *((None, None) if isinstance(v, SparseTensor) else (v.array, v.array.copy())))
        for t, name, v in held
    ]


def _put_back(before: list[tuple[Any, ...]]) -> None:
    for table, name, value, cls, array, content in before:
        if array is None:  # a sparse matrix, which another one took the place of
            table[name] = value
            continue
        if array.flags.writeable:
            array[...] = content
        value.__class__, value.array, table[name] = cls, array, value
