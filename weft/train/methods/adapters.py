"""Bottleneck adapters: small networks after frozen layers (Houlsby et al. 2019)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ...errors import OptionError
from ...nn import init
from ...nn.module import Module
from ...nn.modules.activation import GELU
from ...nn.modules.linear import Linear
from ...tensor import Tensor
from .parts import Patterns, listed, matching
from .transfer import freeze, unfreeze

__all__ = ["Adapter", "add_adapters"]

WIDTHS: tuple[Callable[[Module], Any], ...] = (
    lambda module: module.out_features,
    lambda module: module.normalized_shape[-1],
    lambda module: module.embed_dim,
    lambda module: module.d_model,
)


class Adapter(Module):
    """y = x + W₂ σ(W₁ x + b₁) + b₂ with W₁ (bottleneck, width); W₂ and b₂ are zero at first, so that y = x.

    Shape: (*, width) → (*, width). Parameters: 2 · width · bottleneck + width + bottleneck
    """

    def __init__(self, width: int, bottleneck: int, activation: Callable[[], Module] = GELU) -> None:
        super().__init__()
        self.down, self.activation, self.up = Linear(width, bottleneck), activation(), Linear(bottleneck, width)
        init.zeros_(self.up.weight)
        init.zeros_(self.up.bias)

    def forward(self, x: Tensor) -> Tensor:
        return x + self.up(self.activation(self.down(x)))


def add_adapters(
    model: Module, patterns: Patterns, bottleneck: int = 16, *, width: int | None = None, train_also: Patterns = ()
) -> list[str]:
    """Put an adapter behind every module whose name matches; their names. All else is frozen, but `train_also`.

    The adapter is a part `adapter` of its module, which keeps its own name and parameters; a module that returns a
    tuple has its first result adapted. width: size of the last dimension, read from Linear, LayerNorm and attention.

    >>> add_adapters(encoder, "layers.*.linear2", bottleneck=8, train_also="head.*")
    """
    modules = dict(model.named_modules())
    names = matching(modules, patterns, "add_adapters")
    widths = {name: _width(modules[name], name) if width is None else width for name in names}
    freeze(model)
    if listed(train_also):
        unfreeze(model, train_also)
    for name in names:
        if "adapter" in modules[name]._modules:
            raise OptionError(f"add_adapters: {name!r} has an adapter already")
        modules[name].adapter = Adapter(widths[name], bottleneck)
        modules[name].register_forward_hook(_adapt)
    return [f"{name}.adapter" if name else "adapter" for name in names]


def _adapt(module: Module, inputs: Any, output: Any) -> Any:
    """The hook: the output through the adapter of its module."""
    if isinstance(output, tuple):
        return (module.adapter(output[0]), *output[1:])
    return module.adapter(output)


def _width(module: Module, name: str) -> int:
    for look in WIDTHS:
        try:
            return int(look(module))
        except (AttributeError, IndexError, TypeError):
            continue
    raise OptionError(f"add_adapters: the width of {name!r} ({type(module).__name__}) is not known; pass width=…")
