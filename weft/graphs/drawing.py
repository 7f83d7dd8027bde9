"""Pictures of graphs: where nodes lie, and what is known of nodes and edges in colours and widths."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

import weft

from ..data.graph import Graph
from ..data.synthetic.common import stream
from ..errors import OptionError, ShapeError
from ..inspect.drawing import COLOURS, Picture, blank
from ..runtime.extras import extra
from ..tensor import Tensor, wrap
from .matrices import scipy_adjacency
from .spectra import spectral_embedding

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

__all__ = ["GraphPicture", "circular_layout", "draw", "force_layout", "spectral_layout"]

PAIRS = 1 << 24  # distances that a layout holds at most


# ------------------------------------------------------------------------------------------ layouts
def circular_layout(graph: Graph) -> Tensor:
    """Nodes on a circle in their order: (N, 2) float64.

    >>> weft.graphs.circular_layout(weft.graphs.ring(4)).round(decimals=3).abs().tolist()
    [[1.0, 0.0], [0.0, 1.0], [1.0, 0.0], [0.0, 1.0]]
    """
    angle = 2 * np.pi * np.arange(graph.num_nodes) / max(graph.num_nodes, 1)
    return wrap(np.stack([np.cos(angle), np.sin(angle)], 1))


def spectral_layout(graph: Graph) -> Tensor:
    """Nodes at the entries of the second and third eigenvector of the Laplacian, between −1 and 1: (N, 2) float64.

    >>> weft.graphs.spectral_layout(weft.graphs.path(5)).shape
    weft.Size([5, 2])
    """
    if graph.num_nodes < 3:
        return circular_layout(graph)
    return wrap(_fitted(spectral_embedding(graph, 2, None).array))


def force_layout(
    graph: Graph, steps: int = 100, *, pos: Tensor | None = None, generator: weft.Generator | None = None
) -> Tensor:
    """Edges pull with d²/k, all pairs push with k²/d, in ever shorter steps: (N, 2) float64 between −1 and 1.

    k = 1/√N; edges pull in proportion to their weights, a weak force draws all to the middle. (Fruchterman and
    Reingold 1991). Memory is O(N²).
    pos: where to begin; `spectral_layout` with a little noise if not given

    >>> weft.graphs.force_layout(weft.graphs.ring(5), 10).shape
    weft.Size([5, 2])
    """
    count = graph.num_nodes
    if count**2 > PAIRS:
        raise OptionError(f"force_layout: expected at most {int(PAIRS**0.5)} nodes, got {count}; use spectral_layout")
    random = stream("force_layout", None, generator)
    if pos is None:
        matrix = scipy_adjacency(graph)
        pos = spectral_layout(graph) if (matrix != matrix.T).nnz == 0 else circular_layout(graph)
    place = pos.array.astype(np.float64) + random.normal((count, 2), np.float64, std=0.05)
    pull = scipy_adjacency(graph).toarray()
    pull = np.maximum(pull, pull.T) / max(pull.max(initial=0.0), 1e-12)
    k = 1 / np.sqrt(max(count, 1))
    for heat in np.linspace(0.2, 0.002, steps):
        gap = place[:, None] - place[None]  # (N, N, 2)
        distance = np.maximum(np.sqrt((gap**2).sum(-1)), 1e-3)
        force = np.einsum("ijd,ij->id", gap, k**2 / distance**2 - pull * distance / k) - 0.1 * place
        length = np.maximum(np.sqrt((force**2).sum(1, keepdims=True)), 1e-9)
        place = place + force / length * np.minimum(length, heat)
    return wrap(_fitted(place))


def _fitted(place: np.ndarray) -> np.ndarray:
    """Moved to the middle and scaled between −1 and 1, by one factor for both directions."""
    if not len(place):
        return place
    place = place - (place.max(0) + place.min(0)) / 2
    return place / max(np.abs(place).max(), 1e-12)


BAR: dict[str, Any] = {"shrink": 0.7, "pad": 0.02, "aspect": 30}
LAYOUTS = {"force": force_layout, "spectral": spectral_layout, "circular": circular_layout}


# ------------------------------------------------------------------------------------------ pictures
def draw(
    graph: Graph,
    pos: Tensor | str = "force",
    *,
    nodes: Tensor | None = None,
    edges: Tensor | None = None,
    labels: bool | list[str] = False,
    title: str = "",
) -> GraphPicture:
    """The graph as a picture: `.figure()` for matplotlib, `.save(path)` for a PNG file.

    pos: places (N, 2), or "force", "spectral", "circular"
    nodes: (N,) what nodes are coloured by: whole numbers are classes, others a scale with 0 in its middle where there are
        negative ones
    edges: (E,) what edges are coloured and widened by, such as attention or `graph.edge_weight`
    labels: numbers, or texts, at the nodes

    >>> weft.graphs.draw(weft.graphs.ring(5), "circular", labels=True).places.shape
    weft.Size([5, 2])
    """
    if isinstance(pos, str) and pos not in LAYOUTS:
        raise OptionError(f"draw: pos must be places (N, 2) or one of {', '.join(LAYOUTS)}, got {pos!r}")
    place = LAYOUTS[pos](graph) if isinstance(pos, str) else pos
    rows = (
        ("pos", place, (graph.num_nodes, 2)),
        ("nodes", nodes, (graph.num_nodes,)),
        ("edges", edges, (graph.num_edges,)),
    )
    for name, given, shape in rows:
        if given is not None and tuple(given.shape) != shape:
            raise ShapeError(f"draw: expected {name} {shape}, got {tuple(given.shape)}")
    texts = [str(i) for i in range(graph.num_nodes)] if labels is True else labels or None
    return GraphPicture(graph, place, nodes, edges, texts, title)


@dataclass
class GraphPicture(Picture):
    """A graph with places for its nodes, and what colours them and its edges."""

    graph: Graph
    places: Tensor
    nodes: Tensor | None = None
    edges: Tensor | None = None
    labels: list[str] | None = None
    title: str = ""

    def figure(self) -> Figure:
        """Nodes over edges; a bar explains a scale, a legend a few classes."""
        wide, high = np.ptp(self.places.detach().numpy(), 0) if len(self.places) else (1.0, 1.0)
        figure, axes = blank(width=5.6, height=float(np.clip(4.8 * high / max(wide, 1e-12), 2.6, 4.8)))
        axis = axes[0, 0]
        axis.set_aspect("equal")
        axis.axis("off")
        axis.set_title(self.title)
        self._draw_edges(axis, figure)
        self._draw_nodes(axis, figure)
        axis.margins(0.08)
        return figure

    def _draw_edges(self, axis: Axes, figure: Figure) -> None:
        place, (source, target) = self.places.detach().numpy(), self.graph.edge_index.array
        undirected = self.graph.replace(edge_weight=None).is_undirected()
        value = None if self.edges is None else self.edges.detach().numpy().astype(np.float64)
        shown = source < target if undirected and (value is None or self._both_ways(value)) else source != target
        width = 0.9 if self.graph.num_edges < 2000 else 0.3
        options: dict[str, Any] = {"colors": "#9a9a9a", "linewidths": width}
        if value is not None:
            scale = value[shown] / max(np.abs(value).max(initial=0.0), 1e-12)
            options = {"array": value[shown], "cmap": "copper_r", "linewidths": 0.4 + 2.6 * np.abs(scale)}
        lines = np.stack([place[source[shown]], place[target[shown]]], 1)  # (edges, 2 ends, 2)
        drawn = extra("matplotlib.collections", "figures need").LineCollection(lines, zorder=1, **options)
        axis.add_collection(drawn)
        if not undirected:
            self._draw_heads(axis, lines)
        if value is not None:
            figure.colorbar(drawn, ax=axis, **BAR, label="edges")

    def _both_ways(self, value: np.ndarray) -> bool:
        """Whether an edge has the same value in both directions, so that one line shows both."""
        return self.graph.replace(edge_weight=wrap(value)).is_undirected()

    def _draw_heads(self, axis: Axes, lines: np.ndarray) -> None:
        """The direction of an edge, as a head two thirds along it."""
        way = lines[:, 1] - lines[:, 0]
        middle, length = lines[:, 0] + 0.62 * way, np.maximum(np.linalg.norm(way, axis=1, keepdims=True), 1e-12)
        step = way / length
        axis.quiver(
            *middle.T, *step.T, angles="xy", scale=45, width=0.004, headwidth=7, headlength=7, color="#7a7a7a", zorder=2
        )

    def _draw_nodes(self, axis: Axes, figure: Figure) -> None:
        place = self.places.detach().numpy()
        size = float(np.clip(9000 / max(len(place), 1), 8, 220))
        if self.labels is not None:
            halo = extra("matplotlib.patheffects", "figures need").withStroke(linewidth=2, foreground="white")
            shape: dict[str, Any] = {
                "ha": "center",
                "va": "center",
                "fontsize": 8 if len(place) < 60 else 5,
                "zorder": 4,
            }
            for (x, y), text in zip(place, self.labels, strict=False):
                axis.text(x, y, text, path_effects=[halo], **shape)
        options: dict[str, Any] = {
            "s": size,
            "zorder": 3,
            "edgecolors": "white",
            "linewidths": 0.8 if size > 20 else 0.2,
        }
        value = None if self.nodes is None else self.nodes.detach().numpy()
        if value is None:
            axis.scatter(*place.T, color="#a9c8e8" if self.labels else COLOURS[0], **options)
        elif value.dtype.kind in "iub":
            self._draw_classes(axis, place, value, options)
        else:
            limit = np.abs(value).max(initial=1e-12)
            signed = bool((value < 0).any())
            span = {"vmin": -limit, "vmax": limit} if signed else {"vmin": 0.0, "vmax": limit}
            options["edgecolors"] = "#6a6a6a"  # the middle of a signed scale is white
            drawn = axis.scatter(*place.T, c=value, cmap="RdBu" if signed else "viridis", **span, **options)
            figure.colorbar(drawn, ax=axis, **BAR, label="nodes")

    def _draw_classes(self, axis: Axes, place: np.ndarray, value: np.ndarray, options: dict[str, Any]) -> None:
        kinds = np.unique(value)
        for number, kind in enumerate(kinds):
            own = place[value == kind]
            axis.scatter(*own.T, color=COLOURS[number % len(COLOURS)], label=f"class {int(kind)}", **options)
        if len(kinds) <= len(COLOURS):
            axis.legend(loc="best", frameon=False, handletextpad=0.2)
