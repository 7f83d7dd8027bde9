"""Views as copies: `NAME_copy` is `NAME` in fresh memory, for those who must not alias."""

from __future__ import annotations

from typing import Any

from ...tensor import Tensor
from ..core.primitive import operation
from . import pieces, shape, strided, view  # noqa: F401  they make the methods called here


def _fresh(name: str) -> None:
    """Publish `NAME_copy(input, …)`: the method NAME, and then copies of what it returned."""
    method = getattr(Tensor, name)

    def copied(input: Tensor, *args: Any, **kwargs: Any) -> Any:
        result = method(input, *args, **kwargs)
        return tuple(_copy(part) for part in result) if isinstance(result, tuple) else _copy(result)

    copied.__name__ = copied.__qualname__ = f"{name}_copy"
    copied.__doc__ = f"`{name}` as a copy: the result has memory of its own."
    operation(method=False, out=True)(copied)


for _name in """
    as_strided detach diagonal expand permute select split split_with_sizes squeeze t transpose unbind unfold
    unsqueeze view_as_complex view_as_real
""".split():
    _fresh(_name)


@operation(method=False, out=True)
def alias_copy(input: Tensor) -> Tensor:
    """The same elements in memory of their own."""
    return _copy(input)


@operation(method=False, out=True)
def view_copy(input: Tensor, *size: Any, dtype: Any = None) -> Tensor:
    """`view` as a copy; sizes that the memory does not allow as a view are fine, too."""
    return _copy(input.contiguous().view(*size, dtype=dtype))


def _copy(x: Tensor) -> Tensor:
    return x.clone(memory_format="contiguous_format")
