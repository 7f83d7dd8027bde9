"""The standard's functions on plain tensors: what `tensor.__array_namespace__()` gives to libraries that ask for it.

Tensors go in and come out; in between they are the standard's arrays, whose rules for types and axes hold.
"""

from __future__ import annotations

import functools
from typing import Any

from .. import array_api
from ..dtypes import dtype
from ..errors import InvalidValueError
from ..tensor import Tensor
from ..utils.pytree import tree_map
from .array import Array

__all__ = ["TensorNamespace", "namespace"]


class TensorNamespace:
    """`weft.array_api`, with tensors in the place of its arrays.

    >>> xp = weft.ones(2, 3).__array_namespace__()
    >>> type(xp.sum(weft.ones(2, 3), axis=0)) is weft.Tensor
    True
    """

    def __getattr__(self, name: str) -> Any:
        found = getattr(array_api, name)
        if not callable(found) or isinstance(found, (type, dtype)):
            return found

        @functools.wraps(found)
        def function(*args: Any, **kwargs: Any) -> Any:
            args, kwargs = tree_map(_wrapped, (args, kwargs))
            return tree_map(_unwrapped, found(*args, **kwargs))

        self.__dict__[name] = function
        return function

    def __dir__(self) -> list[str]:
        return dir(array_api)

    def __repr__(self) -> str:
        return "weft.array_api on tensors"


def _wrapped(x: Any) -> Any:
    return Array(x) if isinstance(x, Tensor) else x


def _unwrapped(x: Any) -> Any:
    return x.tensor if isinstance(x, Array) else x


@functools.cache
def _only() -> TensorNamespace:
    return TensorNamespace()


def namespace(api_version: str | None = None) -> TensorNamespace:
    """The namespace, for a version of the standard."""
    if api_version is not None and api_version > array_api.__array_api_version__:
        raise InvalidValueError(
            f"__array_namespace__: version {api_version} of the standard is not there, {array_api.__array_api_version__} is"
        )
    return _only()
