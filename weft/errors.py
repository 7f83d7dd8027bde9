"""Weft's errors: each says what was expected, what came, and what to do about it.

Each is a `WeftError` and also the built-in class that PyTorch raises in the same place, so that code written to catch
PyTorch's errors catches ours. Packages add their own (files in `io/errors.py`, say); tests/test_raises.py holds the rule.
"""

__all__ = [
    "ArgumentError",
    "AttributeAccessError",
    "AutogradError",
    "ConditionError",
    "DeviceError",
    "DistributedError",
    "DistributedTimeoutError",
    "DivisionError",
    "DtypeError",
    "EntryError",
    "ExportError",
    "GeneratorError",
    "IndexRangeError",
    "InvalidValueError",
    "LinAlgError",
    "MissingFileError",
    "MissingImportError",
    "MissingNameError",
    "NumberRangeError",
    "OptionError",
    "OutOfMemoryError",
    "ShapeError",
    "StateError",
    "TraceError",
    "TransformError",
    "UnsupportedError",
    "WeftError",
]


class WeftError(Exception):
    """The root of every error that Weft raises on purpose."""


class ShapeError(WeftError, RuntimeError, ValueError):
    """Sizes that do not fit together."""


class DtypeError(WeftError, RuntimeError, TypeError):
    """An element type that an operation cannot take or produce."""


class DeviceError(WeftError, RuntimeError):
    """Tensors on different devices, or a device that is not there."""


class DistributedError(WeftError, RuntimeError):
    """Processes that do not do the same: another call, other sizes, or a call that one of them gave up."""


class DistributedTimeoutError(DistributedError, TimeoutError):
    """A process that did not come to a call of all within the time."""


class IndexRangeError(WeftError, IndexError, RuntimeError):
    """A dimension or an index outside its range."""


class AutogradError(WeftError, RuntimeError):
    """A gradient that cannot be computed: freed graph, changed saved tensor, non-scalar root."""


class TransformError(WeftError, RuntimeError):
    """An operation that a transform (vmap, compile) cannot carry through."""


class TraceError(TransformError):
    """A function that cannot be compiled as it is written: it looks at values, or changes what cannot be replayed."""


class LinAlgError(WeftError, RuntimeError, ValueError):
    """A matrix without the property that a factorisation needs (singular, not positive definite)."""


class OptionError(WeftError, RuntimeError, ValueError):
    """An argument with a value that an operation does not know (a mode, an order, a driver)."""


class ArgumentError(WeftError, TypeError):
    """An argument of a kind that an operation does not take."""


class InvalidValueError(WeftError, ValueError):
    """An argument of the right kind with a value that cannot be: out of its range, or at odds with another."""


class StateError(WeftError, RuntimeError):
    """Something asked of an object that cannot do it now, or as it was set up."""


class UnsupportedError(WeftError, NotImplementedError):
    """Something that is meaningful, but is not there: no formula, no such combination, a method left to subclasses."""


class EntryError(WeftError, KeyError):
    """A name that a collection does not have, or cannot take."""


class AttributeAccessError(WeftError, AttributeError):
    """An attribute that is not there, is of another kind, or cannot be set."""


class ConditionError(WeftError, AssertionError):
    """What must hold and does not, where PyTorch says so by an assertion."""


class MissingFileError(WeftError, FileNotFoundError):
    """A file or a folder that is not where it was looked for."""


class ExportError(WeftError, BufferError):
    """Memory that cannot be handed to another library, or taken over from it."""


class DivisionError(WeftError, RuntimeError, ZeroDivisionError):
    """A division by zero where numbers have no infinity."""


class NumberRangeError(WeftError, OverflowError):
    """A number that no element type can hold."""


class OutOfMemoryError(WeftError, RuntimeError, MemoryError):
    """More memory than there is: sizes too large, or too many at once."""


class GeneratorError(WeftError, RuntimeError):
    """A random generator of the wrong kind, or a state that is not one of ours."""


class MissingNameError(WeftError, AttributeError):
    """A name that a module does not have; what may be meant is looked for when the error is read."""

    def __init__(self, owner: str, *name: str) -> None:  # programs raise type(error)(text) anew
        super().__init__(owner, *name)
        self.name = name[0] if name else None  # also keeps Python from looking for a similar name of its own

    def __str__(self) -> str:
        from .runtime.missing import explained

        return explained(*self.args) if len(self.args) == 2 else " ".join(map(str, self.args))


class MissingImportError(WeftError, ImportError):
    """A name that `from weft import …` asked for in vain."""

    __str__ = MissingNameError.__str__
