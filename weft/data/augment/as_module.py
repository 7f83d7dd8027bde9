"""A transform of images as a module, so that `nn.Sequential(Resize(32), Normalize(…), model)` works."""

from __future__ import annotations

from typing import Any

from ...nn.module import Module

__all__ = ["AsModule"]


class AsModule(Module):
    """y = transform(x), without parameters.

    transform: a function of an image or a batch of them
    """

    def __init__(self, transform: Any) -> None:
        super().__init__()
        self.transform = transform

    def forward(self, *inputs: Any) -> Any:
        return self.transform(*inputs)

    def __repr__(self) -> str:
        return repr(self.transform)
