"""Wrong arguments that only Python or NumPy notice, deep inside, are refused as all others: by an error of Weft's.

`guarded` costs a call; where a function has a frame of its own anyway, `except Exception as error: reword(…)` is free.
"""

from __future__ import annotations

import functools
import opcode
import sys
from collections.abc import Callable, Sequence
from types import TracebackType
from typing import Any

import numpy as np

from .errors import ArgumentError, IndexRangeError, LinAlgError, OptionError, OutOfMemoryError, WeftError

__all__ = ["described", "factors_last", "guard_methods", "guarded", "need_bounded", "need_flag", "reword", "rewritten"]

MANY = 1 << 24
RAISE = opcode.opmap["RAISE_VARARGS"]
LIBRARIES = frozenset({*sys.stdlib_module_names, "numpy", "scipy", "ml_dtypes", "llvmlite"})
CLASSES: tuple[tuple[type[Exception], type[WeftError]], ...] = (
    (MemoryError, OutOfMemoryError),
    (np.linalg.LinAlgError, LinAlgError),
    (IndexError, IndexRangeError),
    (TypeError, ArgumentError),
    (AttributeError, ArgumentError),
    (Exception, OptionError),
)


# Names of NumPy's that PyTorch takes in place of its own. They cost nothing to whoever writes PyTorch's.
NUMPY_NAMES = {"axis": "dim", "keepdims": "keepdim", "x": "input", "a": "input", "x1": "input", "x2": "other"}
NUMBERS = (bool, int, float, complex, np.generic)
# Numbers that programs before PyTorch 1.5 wrote before the tensors, `x.add_(-lr, g)`, under the names that they have now.
FACTORS = {
    **dict.fromkeys(("add", "sub", "subtract"), ("alpha",)),
    **dict.fromkeys(("addcmul", "addcdiv"), ("value",)),
    **dict.fromkeys(("addmm", "addmv", "addr", "addbmm", "baddbmm"), ("beta", "alpha")),
}


def rewritten(
    error: Exception, name: str, args: Sequence[Any], kwargs: dict[str, Any]
) -> tuple[Sequence[Any], dict[str, Any]] | None:
    """The arguments as they are written now, if a call failed because they were in NumPy's or in an older form; else None."""
    if not isinstance(error, TypeError):
        return None
    if not kwargs.keys().isdisjoint(NUMPY_NAMES) and "keyword" in str(error):
        return args, {NUMPY_NAMES.get(name, name): value for name, value in kwargs.items()}
    if "positional argument" in str(error):
        return factors_last(name.rstrip("_"), args, kwargs)
    return None


def factors_last(name: str, args: Sequence[Any], kwargs: dict[str, Any]) -> tuple[Sequence[Any], dict[str, Any]] | None:
    """(x, −lr, g) as (x, g) with alpha = −lr; None where that is not what was meant."""
    names = FACTORS.get(name, ())
    numbers = [arg for arg in args if isinstance(arg, NUMBERS)]
    tensors = [arg for arg in args if not isinstance(arg, NUMBERS)]
    needed = 2 if names == ("alpha",) else 3
    if (
        not 0 < len(numbers) <= len(names)
        or len(tensors) != needed
        or any(isinstance(x, NUMBERS) for x in args[1 - needed :])
    ):
        return None
    return tensors, {**kwargs, **dict(zip(names, numbers, strict=False))}


def guarded(function: Callable, name: str) -> Callable:
    """`function`, whose errors are Weft's whatever it is given."""

    @functools.wraps(function)
    def public(*args: Any, **kwargs: Any) -> Any:
        try:
            return function(*args, **kwargs)
        except Exception as error:
            again = rewritten(error, name, args, kwargs)
            if again is not None:
                return public(*again[0], **again[1])
            reword(error, name, args, kwargs)
            raise

    return public


def guard_methods(cls: type, *names: str) -> None:
    """Guard those methods that a class of Weft's own defines; classes of users keep their errors."""
    if cls.__module__.partition(".")[0] == "weft":
        for name in names:
            if name in cls.__dict__:
                setattr(cls, name, _guarded_method(cls.__dict__[name], "" if name == "__init__" else f".{name}"))


def _guarded_method(function: Callable, name: str) -> Callable:
    @functools.wraps(function)
    def method(self: Any, *args: Any, **kwargs: Any) -> Any:
        try:
            return function(self, *args, **kwargs)
        except Exception as error:
            reword(error, type(self).__name__ + name, args, kwargs)
            raise

    return method


def reword(error: Exception, name: str, args: Sequence[Any], kwargs: dict[str, Any]) -> None:
    """Raise in its place what Weft would have said, unless somebody wrote the error for this case."""
    if not is_internal(error):
        return
    kind = next(ours for theirs, ours in CLASSES if isinstance(error, theirs))
    given = ", ".join([*map(described, args), *(f"{k}={described(v)}" for k, v in kwargs.items())])
    if kind is OutOfMemoryError:
        text = f"{name}: there is not enough memory for ({given}): {error}; ask for less at a time"
    else:
        text = (
            f"{name}: these arguments do not fit: ({given}); inside, {type(error).__name__}: {error}. Compare them with "
            "its documentation (help); if they are right, this is a fault of Weft's"
        )
    raise kind(text) from error


def is_internal(error: Exception) -> bool:
    """Whether it was raised neither by a `raise` of ours, nor in code that is not ours and was called back."""
    if isinstance(error, (WeftError, Warning, StopIteration)):
        return False
    ours: TracebackType | None = None
    at = error.__traceback__
    while at is not None:
        module = at.tb_frame.f_globals.get("__name__", "")
        package = module.partition(".")[0]
        if package == "weft":
            ours = at
        elif package not in LIBRARIES:
            ours = None
        at = at.tb_next
    return ours is not None and not _raises(ours)


def _raises(at: TracebackType) -> bool:
    """Whether the innermost line is a `raise` with an error of its own."""
    code = at.tb_frame.f_code.co_code
    return at.tb_next is None and code[at.tb_lasti] == RAISE and code[at.tb_lasti + 1] > 0


def need_bounded(count: int, name: str, what: str, limit: int = MANY) -> int:
    """Refuse a number of steps, parts or places that nobody can mean: each is an object, or a turn of a loop."""
    if count > limit:
        raise OptionError(f"{name}: {what} = {described(count)} is absurd; at most {limit} are taken")
    return count


def need_flag(value: Any, name: str, what: str) -> bool:
    """Whether something is true; refused where nobody can say, as of an array of several elements."""
    if value is True or value is False:
        return value
    try:
        return bool(value)
    except ValueError:
        raise ArgumentError(f"{name}: {what} is True or False, got {described(value)}") from None


def described(value: Any) -> str:
    """An argument in a few words: a tensor by type and sizes, small things as they are, others by their class."""
    shape, kind = getattr(value, "shape", None), getattr(value, "dtype", None)
    if isinstance(shape, tuple) and kind is not None:
        return f"{type(value).__name__} of {kind} {tuple(shape)}"
    if isinstance(value, (list, tuple)):
        few = ", ".join(map(described, value[:4])) + (", …" if len(value) > 4 else "")
        return f"[{few}]" if isinstance(value, list) else f"({few})"
    if value is None or isinstance(value, (bool, int, float, complex, str, bytes)):
        text = repr(value) if not isinstance(value, int) or abs(value) < 10**30 else f"{float(value):.3g}"
        return text if len(text) <= 40 else text[:37] + "…"
    return f"a {type(value).__name__}"
