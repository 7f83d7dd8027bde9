"""A Python number in a trace: it computes as the number would, and its ledger remembers how.

While a trace runs the functions of `math` take such numbers, too.
"""

from __future__ import annotations

import builtins
import math
import operator
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ...errors import TraceError
from ...tape.modes import mode
from ...tensor import Tensor
from .surroundings import Surroundings

__all__ = ["TENSOR_FORMS", "Number", "Overlaid", "plain_tree"]


class Number:
    """A number of a trace. For `isinstance` it is an int or a float."""

    __slots__ = ("_index", "_ledger")

    def __init__(self, ledger: Any, index: int) -> None:
        self._ledger, self._index = ledger, index

    @property
    def __class__(self) -> type:  # type: ignore[override]
        return self._ledger.entries[self._index].kind

    def __array_ufunc__(self, ufunc: np.ufunc, method: str, *inputs: Any, **kwargs: Any) -> Any:
        single = all(type(x) is Number or np.ndim(x) == 0 for x in inputs)
        if method == "__call__" and not kwargs and single and ufunc.nout == 1:
            return apply(ufunc, inputs)
        plain = [decided(x) if type(x) is Number else x for x in inputs]
        return getattr(ufunc, method)(*plain, **kwargs)

    def __array__(self, dtype: Any = None, copy: Any = None) -> np.ndarray:
        return np.asarray(decided(self), dtype)

    def is_integer(self) -> bool:
        return apply_and_decide(lambda x: float(x).is_integer(), self)

    def item(self) -> Number:
        return self

    def conjugate(self) -> Number:
        return self

    real = property(lambda self: self)
    imag = property(lambda self: 0)

    def __divmod__(self, other: Any) -> Any:
        return self // other, self % other

    def __round__(self, *digits: int) -> Any:
        return apply(round, (self, *digits))

    def __format__(self, spec: str) -> str:
        return apply_and_decide(lambda x: format(x, spec), self)

    def __reduce__(self) -> Any:
        return _as_it_is, (decided(self),)

    def __deepcopy__(self, memo: Any) -> Number:
        return self

    __copy__ = conjugate


def apply(function: Callable, arguments: Sequence[Any]) -> Any:
    """function(*arguments), some of which are numbers, as a number."""
    ledger = next(x._ledger for x in arguments if type(x) is Number)
    if not ledger.open:
        raise TraceError(
            "compile: a number made while a function was traced is used outside of it; return it from the compiled "
            "function instead of storing it elsewhere"
        )
    return ledger.apply(function, arguments)


def decided(number: Number) -> Any:
    """A plain number, by which Python decides."""
    if not number._ledger.open:
        apply(operator.pos, (number,))  # says what is wrong
    return number._ledger.decide(number)


def apply_and_decide(function: Callable, *arguments: Any) -> Any:
    result = apply(function, arguments)
    return decided(result) if type(result) is Number else result


def plain_tree(tree: Any) -> Any:
    """A number, or a tuple or list with numbers in it, as plain ones, by which Python decides."""
    if type(tree) is Number:
        return decided(tree)
    return type(tree)(map(plain_tree, tree)) if type(tree) in (tuple, list) else tree


def _as_it_is(value: Any) -> Any:
    return value


# ------------------------------------------------------------------------------ Python's operators


def _is_number(x: Any) -> bool:
    return type(x) is Number or (isinstance(x, (int, float, complex, np.generic)) and not isinstance(x, Tensor))


def _binary(name: str, function: Callable) -> None:
    def forward(self: Number, other: Any) -> Any:
        return apply(function, (self, other)) if _is_number(other) else NotImplemented

    def backward(self: Number, other: Any) -> Any:
        return apply(function, (other, self)) if _is_number(other) else NotImplemented

    setattr(Number, f"__{name}__", forward)
    setattr(Number, f"__r{name}__", backward)


def _comparison(name: str, function: Callable) -> None:
    def compare(self: Number, other: Any) -> Any:
        return apply_and_decide(function, self, other) if _is_number(other) else NotImplemented

    setattr(Number, f"__{name}__", compare)


def _unary(name: str, function: Callable) -> None:
    setattr(Number, f"__{name}__", lambda self: apply(function, (self,)))


def _asked(name: str, function: Callable) -> None:
    """What has to be a plain value: Python decides by it."""
    setattr(Number, f"__{name}__", lambda self: apply_and_decide(function, self))


def _converted(name: str, function: Callable) -> None:
    setattr(Number, f"__{name}__", lambda self: function(decided(self)))


for _name in ("add", "sub", "mul", "truediv", "floordiv", "mod", "pow", "lshift", "rshift", "and_", "or_", "xor"):
    _binary(_name.strip("_"), getattr(operator, _name))
for _name in ("lt", "le", "gt", "ge", "eq", "ne"):
    _comparison(_name, getattr(operator, _name))
for _name in ("neg", "pos", "invert", "abs"):
    _unary(_name, getattr(operator, _name))
for _name in ("floor", "ceil", "trunc"):
    _unary(_name, getattr(math, _name))
for _name, _function in (("bool", bool), ("hash", hash), ("str", str), ("repr", repr)):
    _asked(_name, _function)
for _name, _function in (("int", int), ("index", operator.index), ("float", float), ("complex", complex)):
    _converted(_name, _function)


# ------------------------------------------------------------------------- functions that meet them

_LIKE_METHODS = "sqrt exp log log2 log10 log1p expm1 sin cos tan sinh cosh tanh asin acos atan erf erfc lgamma".split()
_OTHERS = "pow fabs isnan isinf isfinite fmod hypot atan2 copysign gamma degrees radians".split()
_MATH = {name: getattr(math, name) for name in (*_LIKE_METHODS, *_OTHERS)}

# The same for tensors, for numbers that are known only when a plan runs.
TENSOR_FORMS: dict[Any, Callable] = {_MATH[name]: operator.methodcaller(name) for name in _LIKE_METHODS}
TENSOR_FORMS |= {getattr(operator, name): getattr(operator, name) for name in "add sub mul truediv pow neg".split()}
TENSOR_FORMS |= {operator.floordiv: operator.floordiv, operator.mod: operator.mod, operator.pos: _as_it_is}
TENSOR_FORMS |= {operator.abs: abs, abs: abs, math.pow: operator.pow, math.fabs: abs}


def _wrapped(function: Callable) -> Callable:
    """A function of `math` that takes numbers of a trace, too."""

    def call(*arguments: Any) -> Any:
        if any(type(x) is Number for x in arguments):
            return apply(function, arguments)
        form = TENSOR_FORMS.get(function)
        if mode.interpreter is not None and form is not None and any(map(_is_live, arguments)):
            return mode.interpreter.marked(form(*arguments))
        return function(*arguments)

    call.__name__ = function.__name__
    return call


def _is_live(x: Any) -> bool:
    return isinstance(x, Tensor) and "_fetch" in x.__dict__


_WRAPPED = {function: _wrapped(function) for function in _MATH.values()}
_print = builtins.print


def _print_at_every_call(*values: Any, **options: Any) -> None:
    if mode.interpreter is None:
        _print(*values, **options)
    else:
        mode.interpreter.effects.append((_print, values, options))


class Overlaid:
    """While a trace runs: the functions of `math` know numbers, `print` is done again at every call."""

    count = 0

    def __init__(self, surroundings: Surroundings) -> None:
        self.places = [(p, p.get()) for p in surroundings.mathematics if p.get() in _WRAPPED]

    def __enter__(self) -> None:
        Overlaid.count += 1
        if Overlaid.count == 1:
            vars(math).update({name: _WRAPPED[function] for name, function in _MATH.items()})
            builtins.print = _print_at_every_call
        for place, function in self.places:
            place.put(_WRAPPED[function])

    def __exit__(self, *_: Any) -> None:
        for place, function in self.places:
            place.put(function)
        Overlaid.count -= 1
        if Overlaid.count == 0:
            vars(math).update(_MATH)
            builtins.print = _print
