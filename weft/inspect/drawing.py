"""What the tools of this package share when they draw: results are data first, pictures on request."""

from __future__ import annotations

import abc
import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ..errors import OptionError, ShapeError
from ..tensor import Tensor

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

COLOURS = ("#2f6fad", "#c4662d", "#3d8b37", "#8a5aa8", "#b0862c", "#2f8f8f", "#c44e77", "#777777")
TILES_AT_MOST = 64


class Picture(abc.ABC):
    """A result that can be drawn: `figure()` is a matplotlib figure, `save(path)` a PNG file."""

    @abc.abstractmethod
    def figure(self) -> Figure:
        """The result as a new figure that belongs to no window."""

    def save(self, path: str | os.PathLike[str], dpi: int = 100, **options: Any) -> Path:
        """Write the figure as a PNG file, whole or not at all; options are those of `figure`."""
        from ..io.atomic import replacing

        path = Path(path)
        with replacing(path) as file:
            self.figure(**options).savefig(file, format="png", dpi=dpi)
        return path


def blank(rows: int = 1, columns: int = 1, width: float = 4.6, height: float = 3.6, **options: Any) -> tuple[Any, Any]:
    """A figure and its axes: an array of shape (rows, columns); width and height are those of one panel."""
    try:
        from matplotlib.figure import Figure
    except ImportError as error:
        raise ImportError("figures need matplotlib: pip install 'weft[plots]'") from error
    figure = Figure(figsize=(width * columns, height * rows), layout="constrained")
    return figure, figure.subplots(rows, columns, squeeze=False, **options)


def tiles(images: NDArray, titles: list[str] | None = None, cmap: str = "gray", symmetric: bool = False) -> Figure:
    """Images side by side, at most 64: (N, H, W), or (N, H, W, 3) in colour.

    With `symmetric` all share one scale with 0 in its middle; otherwise each has its own.
    """
    shown = images[:TILES_AT_MOST]
    columns = min(8, max(1, len(shown)))
    figure, axes = blank(-(-len(shown) // columns) or 1, columns, 1.15, 1.15 + 0.2 * (titles is not None))
    limit = np.abs(shown).max(initial=1e-12) if symmetric else None
    for axis in axes.flat:
        axis.axis("off")
    for i, (axis, image) in enumerate(zip(axes.flat, shown, strict=False)):
        axis.imshow(image, cmap=cmap, vmin=None if limit is None else -limit, vmax=limit)
        if titles is not None:
            axis.set_title(titles[i], fontsize=8)
    return figure


def scatter(axis: Axes, points: NDArray, labels: ArrayLike | None = None) -> None:
    """Points of the plane, coloured by class if labels are given; each class is named at its median."""
    if labels is None:
        axis.scatter(*points[:, :2].T, s=6, color=COLOURS[0], linewidths=0)
        return
    from matplotlib import colormaps

    labels = array_of(labels)
    kinds = np.unique(labels)
    colours = colormaps["tab10" if len(kinds) <= 10 else "nipy_spectral"](np.linspace(0, 1, max(len(kinds), 2)))
    for kind, colour in zip(kinds, colours, strict=False):
        cloud = points[labels == kind, :2]
        axis.scatter(*cloud.T, s=7, color=colour, linewidths=0, alpha=0.8)
        axis.annotate(
            f"{kind:g}" if np.issubdtype(kinds.dtype, np.number) else str(kind),
            np.median(cloud, 0),
            ha="center",
            va="center",
            fontsize=10,
            fontweight="bold",
            bbox={"boxstyle": "round,pad=0.15", "fc": "white", "ec": colour, "alpha": 0.85},
        )


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
