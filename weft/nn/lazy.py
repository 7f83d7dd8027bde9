"""Lazy modules: parameters without a shape until the first call shows what comes in."""

from __future__ import annotations

from typing import Any

from ..errors import StateError, TraceError, UnsupportedError
from ..refusal import guard_methods, reword
from ..tape.modes import mode
from .module import Module
from .parameter import is_lazy

__all__ = ["LazyModuleMixin"]


class LazyModuleMixin:
    """Stands before a module class and gives its parameters their shapes at the first call.

    A lazy class registers `UninitializedParameter`s (and buffers) and defines `initialize_parameters`, which gets
    the arguments of the first call, calls `materialize(shape)` on them and fills them. If `cls_to_become` is set the
    module is then of that class. Until then `state_dict()` holds the uninitialised parameters, and
    `load_state_dict` of a materialised module gives them their shapes and values.
    """

    cls_to_become: type[Module] | None = None

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        guard_methods(cls, "__init__")

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        if self.cls_to_become is not None or self.has_uninitialized_params():
            if mode.interpreter is not None:
                raise TraceError(
                    f"compile: {type(self).__name__} gets the shapes of its parameters at the first call; call it once "
                    "before it is compiled"
                )
            self._infer_parameters(args, kwargs)
        return Module.__call__(self, *args, **kwargs)

    def _infer_parameters(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        try:
            self.initialize_parameters(*args, **kwargs)
            if self.has_uninitialized_params():
                raise StateError(
                    f"module {self._get_name()} has not been fully initialized: initialize_parameters must materialize "
                    f"{', '.join(self._uninitialized_names())}"
                )
            if self.cls_to_become is not None:
                self.__class__ = self.cls_to_become
        except Exception as error:
            reword(error, type(self).__name__, args, kwargs)
            raise

    def initialize_parameters(self, *args: Any, **kwargs: Any) -> None:
        """Give all uninitialised parameters their shapes and values; the arguments are those of the call."""
        raise UnsupportedError(f"initialize_parameters is not implemented for {type(self).__name__}")

    def has_uninitialized_params(self) -> bool:
        """Whether a parameter or buffer of this module itself still waits for its shape."""
        return bool(self._uninitialized_names())

    def _uninitialized_names(self) -> list[str]:
        return [name for table in (self._parameters, self._buffers) for name, value in table.items() if is_lazy(value)]
