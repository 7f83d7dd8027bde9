"""Tensors that belong to a module: parameters (trained), buffers (kept), and their lazy forms."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..dtypes import as_dtype, get_default_dtype
from ..tensor import Tensor, mark, new

__all__ = ["Buffer", "Parameter", "UninitializedBuffer", "UninitializedParameter", "is_lazy"]


def _over(cls: type, data: Tensor | None) -> Any:
    """A leaf of class `cls` that shares the memory of `data`."""
    out = new(cls)
    out.array = np.empty((0,), get_default_dtype().np) if data is None else data.detach().array
    mark(out)
    return out


class Parameter(Tensor):
    """A tensor that a module registers as trainable when it is assigned as an attribute.

    data: its values; the memory is shared
    requires_grad: whether it is trained

    >>> nn.Parameter(weft.zeros(2))
    Parameter containing:
    tensor([0., 0.], requires_grad=True)
    """

    _repr_prefix = "tensor("

    def __new__(cls, data: Tensor | None = None, requires_grad: bool = True) -> Parameter:
        out = _over(cls, data)
        return out.requires_grad_(requires_grad) if requires_grad else out

    def __init__(self, *args: Any, **kwargs: Any) -> None: ...

    def __repr__(self) -> str:
        return "Parameter containing:\n" + super().__repr__()


class Buffer(Tensor):
    """A tensor that a module registers as a buffer when it is assigned as an attribute: part of its state, not trained.

    data: its values
    persistent: whether it is saved with the state

    >>> module = nn.Module()
    >>> module.mean = nn.Buffer(weft.zeros(2))
    >>> list(module.state_dict())
    ['mean']
    """

    persistent: bool

    def __new__(cls, data: Tensor | None = None, *, persistent: bool = True) -> Buffer:
        out = _over(cls, data)
        out.persistent = persistent
        return out

    def __init__(self, *args: Any, **kwargs: Any) -> None: ...


class UninitializedParameter(Parameter):
    """A parameter whose shape is not known yet; `materialize(shape)` makes it a Parameter.

    >>> weight = nn.UninitializedParameter()
    >>> weight.materialize((2, 3))
    >>> weight.shape
    weft.Size([2, 3])
    """

    cls_to_become = Parameter

    def __new__(cls, requires_grad: bool = True, device: Any = None, dtype: Any = None) -> UninitializedParameter:
        out = _over(cls, None)
        out.array = np.empty((0,), (get_default_dtype() if dtype is None else as_dtype(dtype)).np)
        mark(out)
        return out.requires_grad_(requires_grad) if requires_grad else out

    def materialize(self, shape: Any, device: Any = None, dtype: Any = None) -> None:
        """Give it memory of this shape (not initialised) and its final class."""
        kind = self.array.dtype if dtype is None else as_dtype(dtype).np
        self.array = np.zeros(tuple(shape), kind)
        mark(self)
        self.__class__ = self.cls_to_become

    def __repr__(self) -> str:
        return f"<{type(self).__name__}>"

    def __deepcopy__(self, memo: dict[int, Any]) -> UninitializedParameter:
        if id(self) not in memo:
            memo[id(self)] = type(self)(self.requires_grad, dtype=self.dtype)
        return memo[id(self)]


class UninitializedBuffer(UninitializedParameter):
    """A buffer whose shape is not known yet; `materialize(shape)` makes it one.

    >>> mean = nn.UninitializedBuffer()
    >>> mean.materialize((2,))
    >>> mean.shape
    weft.Size([2])
    """

    cls_to_become = Tensor

    def __new__(cls, requires_grad: bool = False, device: Any = None, dtype: Any = None) -> UninitializedBuffer:
        return super().__new__(cls, False, device, dtype)


UninitializedTensorMixin = UninitializedParameter  # PyTorch's name for what both have in common


def is_lazy(value: Any) -> bool:
    """Whether a parameter or buffer still waits for its shape."""
    return isinstance(value, UninitializedParameter)
