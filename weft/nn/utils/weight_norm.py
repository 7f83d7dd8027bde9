"""Weight normalisation: w = g · v / ‖v‖, length and direction trained apart (N2 §3.7)."""

from __future__ import annotations

import warnings
from typing import TypeVar

from ...tensor import Tensor
from ..module import Module
from ..parameter import Parameter
from .recompute import RecomputedWeight, detach, refuse_second

__all__ = ["norm_except_dim", "remove_weight_norm", "weight_norm"]

M = TypeVar("M", bound=Module)


def norm_except_dim(v: Tensor, dim: int | None) -> Tensor:
    """‖v‖₂ over all dimensions but `dim`, which stays (the others have size 1); over all of them if dim is None."""
    if dim is None:
        return v.norm()
    others = tuple(d for d in range(v.ndim) if d != dim % v.ndim)
    return v.square().sum(others, keepdim=True).sqrt() if others else v.abs()


class WeightNorm(RecomputedWeight):
    """Computes `name` from `name`_g and `name`_v."""

    title = "weight_norm"

    def __init__(self, name: str, dim: int | None) -> None:
        super().__init__(name)
        self.dim = dim

    def compute_weight(self, module: Module) -> Tensor:
        g, v = getattr(module, self.name + "_g"), getattr(module, self.name + "_v")
        return v * (g / norm_except_dim(v, self.dim))

    def remove(self, module: Module) -> None:
        weight = self.compute_weight(module)
        for name in (self.name, self.name + "_g", self.name + "_v"):
            delattr(module, name)
        setattr(module, self.name, Parameter(weight.detach()))


def weight_norm(module: M, name: str = "weight", dim: int | None = 0) -> M:
    """Replace parameter `name` by `name`_g (lengths along `dim`) and `name`_v (directions): w = g · v / ‖v‖.

    The older form; `parametrizations.weight_norm` does the same as a parametrisation.
    """
    warnings.warn(
        "`weft.nn.utils.weight_norm` is deprecated in favor of `weft.nn.utils.parametrizations.weight_norm`.",
        FutureWarning,
        stacklevel=2,
    )
    refuse_second(WeightNorm, module, name)
    hook, weight = WeightNorm(name, dim), getattr(module, name)
    delattr(module, name)
    module.register_parameter(name + "_g", Parameter(norm_except_dim(weight, dim).detach()))
    module.register_parameter(name + "_v", Parameter(weight.detach()))
    hook(module, ())
    hook.attach(module)
    return module


def remove_weight_norm(module: M, name: str = "weight") -> M:
    """Make the product an ordinary parameter again."""
    detach(WeightNorm, module, name)
    return module
