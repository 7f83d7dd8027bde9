"""Layouts and pictures of graphs: what is drawn is what the graph has."""

from __future__ import annotations

import numpy as np
import pytest

import weft
from weft import graphs as G
from weft.errors import OptionError, ShapeError

BLOCKS = G.stochastic_block_model([15, 15], [[0.5, 0.02], [0.02, 0.5]], seed=0)


def collections(picture: G.GraphPicture) -> dict:
    axis = picture.figure().axes[0]
    return {type(part).__name__: part for part in axis.collections} | {"all": list(axis.collections)}


@pytest.mark.parametrize("layout", [G.force_layout, G.spectral_layout, G.circular_layout], ids=lambda f: f.__name__)
@pytest.mark.parametrize(
    "graph",
    [BLOCKS, G.path(1), G.path(2), G.Graph(), G.Graph(num_nodes=4), G.ring(5, directed=True)],
    ids=["blocks", "one", "two", "none", "no edges", "directed"],
)
def test_layouts_give_every_node_a_place(layout, graph):
    if layout is G.spectral_layout and graph.num_edges and not graph.is_undirected():
        with pytest.raises(OptionError, match="to_undirected"):
            layout(graph)
        return
    place = layout(graph).numpy()
    assert place.shape == (graph.num_nodes, 2) and np.isfinite(place).all() and (np.abs(place) <= 1 + 1e-9).all()


@pytest.mark.parametrize("layout", [G.force_layout, G.spectral_layout], ids=lambda f: f.__name__)
def test_communities_lie_apart(layout):
    """Nodes of one community are nearer to each other than to the others: the mean distance by at least a third."""
    place, y = layout(BLOCKS).numpy(), BLOCKS.y.numpy()
    distance = np.linalg.norm(place[:, None] - place[None], axis=-1)
    same = y[:, None] == y[None]
    assert distance[same & ~np.eye(30, dtype=bool)].mean() < 0.67 * distance[~same].mean()


def test_a_ring_becomes_a_circle():
    for layout in (G.spectral_layout, lambda g: G.force_layout(g, 300, generator=weft.Generator().manual_seed(0))):
        place = layout(G.ring(12)).numpy()
        radius = np.linalg.norm(place - place.mean(0), axis=1)
        assert radius.std() / radius.mean() < 0.12


def test_force_layouts_repeat_with_their_generator():
    made = [G.force_layout(BLOCKS, 20, generator=weft.Generator().manual_seed(s)).tolist() for s in (0, 0, 1)]
    assert made[0] == made[1] != made[2]


def test_every_edge_is_drawn_once():
    lines = collections(G.draw(BLOCKS, "circular"))["LineCollection"].get_segments()
    place = G.circular_layout(BLOCKS).numpy()
    expected = {(a, b) for a, b in BLOCKS.edge_index.T.tolist() if a < b}
    nearest = lambda point: int(np.linalg.norm(place - point, axis=1).argmin())
    assert {(nearest(line[0]), nearest(line[1])) for line in lines} == expected and len(lines) == len(expected)
    directed = G.draw(G.ring(5, directed=True), "circular")
    assert len(collections(directed)["LineCollection"].get_segments()) == 5 and "Quiver" in collections(directed)


def test_values_of_edges_and_nodes_are_colours_and_widths():
    graph = G.from_edge_list([(0, 1, 1.0), (1, 2, 3.0)], undirected=True)
    drawn = collections(G.draw(graph, "circular", edges=graph.edge_weight, nodes=weft.tensor([-1.0, 0.0, 2.0])))
    assert drawn["LineCollection"].get_array().tolist() == [1.0, 3.0]
    thin, thick = drawn["LineCollection"].get_linewidths()
    assert thin < thick
    assert drawn["PathCollection"].get_array().tolist() == [-1, 0, 2] and drawn["PathCollection"].get_clim() == (-2, 2)
    attention = weft.tensor([0.1, 0.9, 0.5, 0.2])  # differs from one direction to the other: both lines are drawn
    assert len(collections(G.draw(graph, "circular", edges=attention))["LineCollection"].get_segments()) == 4


def test_classes_have_colours_and_a_legend(tmp_path):
    figure = G.draw(BLOCKS, "spectral", nodes=BLOCKS.y, labels=True, title="blocks").figure()
    axis = figure.axes[0]
    assert [text.get_text() for text in axis.get_legend().get_texts()] == ["class 0", "class 1"]
    assert [text.get_text() for text in axis.texts] == [str(i) for i in range(30)] and axis.get_title() == "blocks"
    path = G.draw(BLOCKS, nodes=BLOCKS.y).save(tmp_path / "blocks.png")
    assert path.read_bytes()[:4] == b"\x89PNG"


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        ({"pos": "tree"}, OptionError, "one of force, spectral"),
        ({"pos": weft.ones(3, 2)}, ShapeError, r"pos \(30, 2\)"),
        ({"nodes": weft.ones(3)}, ShapeError, r"nodes \(30,\)"),
        ({"edges": weft.ones(3)}, ShapeError, "edges"),
    ],
)
def test_pictures_that_cannot_be(options, error, message):
    with pytest.raises(error, match=message):
        G.draw(BLOCKS, **options)
    with pytest.raises(OptionError, match="use spectral_layout"):
        G.force_layout(G.Graph(num_nodes=5000))
