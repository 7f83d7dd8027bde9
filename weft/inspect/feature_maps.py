"""Seeing what convolutions see: maps of activations, and filters as images (N1 §3.3)."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

import weft

from ..errors import OptionError, ShapeError
from ..nn.module import Module
from .drawing import Picture, array_of, tiles
from .observe import Call, evaluating, is_layer, listening, named_module

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = ["ActivationMaps", "Filters", "activation_maps", "filters"]


@dataclasses.dataclass(frozen=True)
class ActivationMaps(Picture):
    """Outputs (N, C, H, W) of layers by name; of a layer that is called again, its last."""

    maps: dict[str, NDArray]

    def figure(self, layer: str | None = None, sample: int = 0) -> Figure:
        """The channels of one layer (the first unless named) for one input."""
        name = next(iter(self.maps)) if layer is None else layer
        if name not in self.maps:
            raise OptionError(f"figure: {name!r} was not recorded; recorded: {', '.join(self.maps)}")
        shown = tiles(self.maps[name][sample], cmap="viridis")
        shown.suptitle(f"{name}: {self.maps[name].shape[1]} channels", fontsize=10)
        return shown


def activation_maps(model: Module, *inputs: Any, layers: Sequence[str] | None = None) -> ActivationMaps:
    """What layers give for these inputs, in evaluation mode: all whose outputs are images, or those named.

    >>> activation_maps(model, images, layers=["features.0"]).maps["features.0"].shape
    (16, 6, 28, 28)
    """
    chosen = None if layers is None else {id(named_module(model, name, "activation_maps")) for name in layers}
    wanted = is_layer if chosen is None else lambda module: id(module) in chosen
    found: dict[str, NDArray] = {}

    def hear(call: Call) -> None:
        if chosen is not None or call.output.ndim == 4:
            found[call.name] = array_of(call.output).copy()

    with evaluating(model), weft.no_grad(), listening(model, hear, wanted):
        model(*inputs)
    if not found:
        raise OptionError("activation_maps: no layer gave images (N, C, H, W); name layers to see others")
    return ActivationMaps(found)


@dataclasses.dataclass(frozen=True)
class Filters(Picture):
    """The weights that each unit of a layer lays over its input, (units, channels, H, W)."""

    weights: NDArray

    def figure(self) -> Figure:
        """One image a unit: in colour where there are three channels, otherwise every channel on its own."""
        w = self.weights
        if w.shape[1] == 3:
            low, high = w.min((1, 2, 3), keepdims=True), w.max((1, 2, 3), keepdims=True)
            return tiles(
                ((w - low) / np.maximum(high - low, 1e-12)).transpose(0, 2, 3, 1)
            )  # (N, C, H, W) → (N, H, W, C)
        return tiles(w.reshape(-1, *w.shape[2:]), cmap="RdBu_r", symmetric=True)  # (N, C, H, W) → (N · C, H, W)


def filters(layer: Module, shape: tuple[int, ...] | None = None) -> Filters:
    """The weights of a convolution, or of a linear layer whose inputs are images of a shape (H, W) or (C, H, W).

    >>> filters(model.features[0]).weights.shape
    (6, 1, 5, 5)
    >>> filters(nn.Linear(64, 10), (8, 8)).weights.shape
    (10, 1, 8, 8)
    """
    weight = getattr(layer, "weight", None)
    if weight is None:
        raise OptionError(f"filters: expected a layer with weights, got {type(layer).__name__}")
    w = array_of(weight).copy()
    if w.ndim == 3:
        w = w[:, :, None]  # (O, I, K) → (O, I, 1, K)
    if w.ndim == 2 and shape is not None and int(np.prod(shape)) == w.shape[1]:
        w = w.reshape(len(w), *(1,) * (3 - len(shape)), *shape)  # (O, C·H·W) → (O, C, H, W)
    if w.ndim != 4:
        raise ShapeError(
            f"filters: weights {w.shape} are no images; for a linear layer give the shape (H, W) of its inputs"
        )
    return Filters(w)
