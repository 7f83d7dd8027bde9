"""Where a classifier looks: saliency, class activation maps and their generalisation by gradients (N1 §3.4)."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

import weft

from .. import nn
from ..autograd import enable_grad, grad
from ..errors import OptionError, ShapeError
from ..nn.module import Module
from ..tensor import Tensor, wrap
from .drawing import Picture, array_of, blank
from .observe import evaluating, listening, named_module

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = ["ClassMaps", "cam", "grad_cam", "saliency"]


@dataclasses.dataclass(frozen=True)
class ClassMaps(Picture):
    """One map (N, h, w) for each image (N, C, H, W): how much each place speaks for the class `targets` (N,)."""

    method: str
    maps: NDArray
    images: NDArray
    targets: NDArray[np.int64]
    scores: NDArray  # (N, classes)

    def upsampled(self) -> NDArray:
        """The maps in the size of the images, bilinear: (N, H, W)."""
        F, size = nn.functional, tuple(self.images.shape[-2:])
        made = F.interpolate(wrap(self.maps[:, None].astype(np.float32)), size=size, mode="bilinear")
        return made.array[:, 0]

    def figure(self, count: int = 6) -> Figure:
        """Images above, below them the maps over darkened images: nothing where a map is 0 or less."""
        shown = min(count, len(self.maps))
        figure, axes = blank(2, max(shown, 1), 1.5, 1.6)
        maps = self.upsampled()
        for i in range(shown):
            image = self.images[i].transpose(1, 2, 0) if self.images.shape[1] == 3 else self.images[i].mean(0)
            above, below = axes[:, i]
            above.imshow(image, cmap="gray")
            below.imshow(image * 0.5, cmap="gray", vmin=image.min(), vmax=image.max())
            heat = np.clip(maps[i] / max(float(maps[i].max()), 1e-12), 0, 1)
            below.imshow(heat, cmap="autumn", alpha=heat * 0.9, vmin=0, vmax=1)
            above.set_title(f"class {self.targets[i]}", fontsize=9)
        for axis in axes.flat:
            axis.axis("off")
        figure.suptitle(self.method, fontsize=10)
        return figure


def saliency(model: Module, x: Tensor, target: Any = None) -> ClassMaps:
    """|∂ y_c / ∂ x|, the largest over channels (Simonyan et al. 2014); target: classes c (N,), the predicted by default.

    Shape: images (N, C, H, W) → maps (N, H, W)
    """
    with evaluating(model), enable_grad():
        given = x.detach().clone().requires_grad_()
        y = model(given)
        classes = _classes(y, target, "saliency")
        slope = grad(_chosen(y, classes), given)[0]
    return ClassMaps("saliency", np.abs(slope.array).max(1), array_of(x), classes, array_of(y))


def cam(model: Module, x: Tensor, layer: str | Module, head: str | Module, target: Any = None) -> ClassMaps:
    """M_c = Σ_k w_k^c A_k: the maps A of `layer`, weighted as `head` weights their means (Zhou et al. 2016).

    For models whose scores are head(mean over places of A), head being linear; others are refused: see `grad_cam`.
    Shape: images (N, C, H, W) → maps (N, h, w), whose means (plus the bias) are the scores
    """
    features, linear = named_module(model, layer, "cam"), named_module(model, head, "cam")
    if not isinstance(linear, nn.Linear):
        raise OptionError(f"cam: expected a linear head, got {type(linear).__name__}")
    with weft.no_grad():
        y, maps = _with_maps(model, x, features, "cam")
        scores = linear(maps.mean((2, 3))) if maps.shape[1] == linear.in_features else None
    if scores is None or scores.shape != y.shape or not np.allclose(scores.array, y.array, rtol=1e-3, atol=1e-4):
        raise OptionError("cam: the scores are not head(mean over places of the layer's maps); use grad_cam")
    classes = _classes(y, target, "cam")
    weights = array_of(linear.weight)[classes]  # (N, K)
    return ClassMaps("CAM", np.einsum("nk,nkhw->nhw", weights, maps.array), array_of(x), classes, y.array)


def grad_cam(model: Module, x: Tensor, layer: str | Module, target: Any = None, *, rectified: bool = True) -> ClassMaps:
    """ReLU(Σ_k α_k A_k), α_k the mean over places of ∂ y_c / ∂ A_k (Selvaraju et al. 2017), for any network.

    Where the scores are a linear head over means it is ReLU(CAM) / (h w). Without `rectified`, evidence against the
    class stays, as negative values. Shape: images (N, C, H, W) → maps (N, h, w)
    """
    with enable_grad():
        y, maps = _with_maps(model, x, named_module(model, layer, "grad_cam"), "grad_cam")
        classes = _classes(y, target, "grad_cam")
        slope = grad(_chosen(y, classes), maps)[0]
    found = np.einsum("nk,nkhw->nhw", slope.array.mean((2, 3)), array_of(maps))
    return ClassMaps("Grad-CAM", np.maximum(found, 0) if rectified else found, array_of(x), classes, array_of(y))


def _with_maps(model: Module, x: Tensor, layer: Module, name: str) -> tuple[Tensor, Tensor]:
    """Scores, and the maps of a layer on their way: a leaf of the graph, so that nothing below is computed."""
    heard: list[Tensor] = []

    def hear(call: Any) -> Tensor:
        heard.append(call.output.detach().requires_grad_())
        return heard[-1] * 1  # what follows may write into it

    with evaluating(model), listening(model, hear, lambda module: module is layer):
        y = model(x.detach())
    if not heard or heard[-1].ndim != 4:
        what = "was not called" if not heard else f"gave {tuple(heard[-1].shape)}"
        raise ShapeError(f"{name}: expected a layer with maps (N, K, h, w), but {type(layer).__name__} {what}")
    return y, heard[-1]


def _classes(y: Tensor, target: Any, name: str) -> NDArray[np.int64]:
    if y.ndim != 2:
        raise ShapeError(f"{name}: expected scores (N, classes), got {tuple(y.shape)}")
    if target is None:
        return array_of(y).argmax(1)
    classes = np.broadcast_to(array_of(target), (len(y),)).astype(np.int64)
    if classes.size and not (0 <= classes.min() and classes.max() < y.shape[1]):
        raise OptionError(f"{name}: expected classes 0 … {y.shape[1] - 1}, got {classes.min()} … {classes.max()}")
    return classes


def _chosen(y: Tensor, classes: NDArray[np.int64]) -> Tensor:
    """Σ_n y[n, c_n]: examples do not meet, so that its gradient holds that of each."""
    return y[weft.arange(len(y)), weft.as_tensor(np.array(classes))].sum()
