"""`torch._check` and its kin: conditions that programs state, with the error that Python has for each."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import weft

from ..errors import ArgumentError, IndexRangeError, InvalidValueError, StateError, UnsupportedError


def _checks(kind: type[Exception]) -> Callable:
    def check(cond: Any, message: Callable[[], str] | str | None = None) -> None:
        if not bool(cond):
            told = message() if callable(message) else message
            raise kind(str(told) if told is not None else "Expected cond to be True, but got False")

    check.__doc__ = f"{kind.__name__} unless the condition holds."
    return check


_check, _check_index, _check_value = _checks(StateError), _checks(IndexRangeError), _checks(InvalidValueError)
_check_type, _check_not_implemented = _checks(ArgumentError), _checks(UnsupportedError)


def _check_tensor_all(cond: weft.Tensor, message: Callable[[], str] | str | None = None) -> None:
    """`_check` of every element."""
    _check(cond.all(), message)


_assert_async = _check


def _check_with(error_type: type[Exception], cond: Any, message: Callable[[], str] | str | None = None) -> None:
    """`_check` with an error of the caller's choice."""
    _checks(error_type)(cond, message)


def _check_is_size(i: Any, message: Callable[[], str] | str | None = None, **options: Any) -> None:
    """`_check` that a number is not negative."""
    _check(i >= 0, message)
