"""What the tools of this package share when they draw: results are data first, pictures on request."""

from __future__ import annotations

import abc
import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ..errors import OptionError, ShapeError
from ..io.atomic import replacing
from ..runtime.extras import extra
from ..tensor import Tensor

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

__all__ = ["COLOURS", "Picture", "array_of", "blank", "scatter", "table_of", "tiles"]

COLOURS = ("#2f6fad", "#c4662d", "#3d8b37", "#8a5aa8", "#b0862c", "#2f8f8f", "#c44e77", "#777777")
TILES_AT_MOST = 64
FEW = 4  # classes that a legend names; more are named beside their points


class Picture(abc.ABC):
    """A result that can be drawn: `figure()` is a matplotlib figure, `save(path)` a PNG file."""

    @abc.abstractmethod
    def figure(self) -> Figure:
        """The result as a new figure that belongs to no window."""

    def save(self, path: str | os.PathLike[str], dpi: int = 100, **options: Any) -> Path:
        """Write the figure as a PNG file, whole or not at all; options are those of `figure`."""
        path = Path(path)
        with replacing(path) as file:
            self.figure(**options).savefig(file, format="png", dpi=dpi)
        return path


def blank(rows: int = 1, columns: int = 1, width: float = 4.6, height: float = 3.6, **options: Any) -> tuple[Any, Any]:
    """A figure and its axes: an array of shape (rows, columns); width and height are those of one panel."""
    figure = extra("matplotlib.figure", "figures need").Figure(
        figsize=(width * columns, height * rows), layout="constrained"
    )
    return figure, figure.subplots(rows, columns, squeeze=False, **options)


def tiles(images: NDArray, titles: list[str] | None = None, cmap: str = "gray", symmetric: bool = False) -> Figure:
    """Images side by side, at most 64: (N, H, W), or (N, H, W, 3) in colour.

    Each has a scale of its own, with `symmetric` one that has 0 in its middle.
    """
    shown = images[:TILES_AT_MOST]
    columns = min(8, max(1, len(shown)))
    figure, axes = blank(-(-len(shown) // columns) or 1, columns, 1.15, 1.15 + 0.2 * (titles is not None))
    for axis in axes.flat:
        axis.axis("off")
    for i, (axis, image) in enumerate(zip(axes.flat, shown, strict=False)):
        limit = np.abs(image).max(initial=1e-12) if symmetric else None
        axis.imshow(image, cmap=cmap, vmin=None if limit is None else -limit, vmax=limit)
        if titles is not None:
            axis.set_title(titles[i], fontsize=8)
    return figure


def scatter(axis: Axes, points: NDArray, labels: ArrayLike | None = None) -> None:
    """Points of the plane, coloured by class if labels are given; many classes are named at their medians."""
    if labels is None:
        axis.scatter(*points[:, :2].T, s=6, color=COLOURS[0], linewidths=0)
        return
    labels = array_of(labels)
    kinds = np.unique(labels)
    names = [f"{kind:g}" if np.issubdtype(kinds.dtype, np.number) else str(kind) for kind in kinds]
    for kind, name, colour in zip(kinds, names, _colours(len(kinds)), strict=True):
        cloud = points[labels == kind, :2]
        axis.scatter(*cloud.T, s=12, color=colour, linewidths=0.3, edgecolors="white", label=f"class {name}")
        if len(kinds) > FEW:
            box = {"boxstyle": "round,pad=0.15", "fc": "white", "ec": colour, "alpha": 0.85}
            axis.annotate(name, np.median(cloud, 0), ha="center", va="center", fontweight="bold", bbox=box)
    if len(kinds) <= FEW:
        axis.legend(fontsize=8, loc="upper right", framealpha=0.9)


def _colours(count: int) -> list[Any]:
    if count <= FEW:
        return list(COLOURS[:count])
    from matplotlib import colormaps

    return list(colormaps["tab10" if count <= 10 else "nipy_spectral"](np.linspace(0, 1, count)))


def array_of(x: Any) -> NDArray:
    """The values of a tensor, an array or a list."""
    return x.detach().array if isinstance(x, Tensor) else np.asarray(x)


def table_of(x: Any, name: str, least: int = 2) -> NDArray[np.float64]:
    """Finite numbers in rows, (N, D), at least `least` of them; further axes are flattened."""
    found = array_of(x).astype(np.float64)
    if found.ndim < 2 or len(found) < least or found[0].size == 0:
        raise ShapeError(f"{name}: expected a table (N, D) of at least {least} rows, got shape {found.shape}")
    if not np.isfinite(found).all():
        bad = int((~np.isfinite(found)).sum())
        raise OptionError(f"{name}: expected finite numbers, got {bad} that are not; remove or fill them first")
    return found.reshape(len(found), -1)  # (N, …) → (N, D)
