"""DataParallel on a machine without cards: the module itself, under the name `module`."""

from __future__ import annotations

from typing import Any

from .module import Module

__all__ = ["DataParallel", "data_parallel"]


class DataParallel(Module):
    """y = module(x), which computes with all threads anyway; parameters are named 'module.…', as PyTorch names them.

    PyTorch splits a batch over several cards; where it finds none it does this.

    module: what is called
    device_ids, output_device: cards, of which there are none
    dim: the dimension along which batches would be split

    Shape: that of the module

    >>> net = nn.DataParallel(nn.Linear(2, 1))
    >>> [name for name, _ in net.named_parameters()]
    ['module.weight', 'module.bias']
    """

    def __init__(self, module: Module, device_ids: Any = None, output_device: Any = None, dim: int = 0) -> None:
        super().__init__()
        self.module, self.dim = module, dim
        self.device_ids: list[Any] = []

    def forward(self, *inputs: Any, **kwargs: Any) -> Any:
        return self.module(*inputs, **kwargs)


def data_parallel(
    module: Module,
    inputs: Any,
    device_ids: Any = None,
    output_device: Any = None,
    dim: int = 0,
    module_kwargs: Any = None,
) -> Any:
    """`module(*inputs, **module_kwargs)`."""
    inputs = inputs if isinstance(inputs, tuple) else (inputs,)
    return module(*inputs, **(module_kwargs or {}))
