"""What graph networks can and cannot tell apart: Weisfeiler and Leman's test, means, maxima (Xu et al. 2019)."""

from __future__ import annotations

import itertools

import networkx as nx
import numpy as np
import pytest

import weft
from weft import nn
from weft.data.graph import Graph
from weft.data.graph_batch import Batch
from weft.graphs import nn as gnn
from weft.models.graphs import GIN, GraphTransformer, wl_colours, wl_features, wl_kernel


def made(g, labels=None) -> Graph:
    g = nx.convert_node_labels_to_integers(g)
    pairs = np.array([*g.edges, *[(b, a) for a, b in g.edges]], np.int64).reshape(-1, 2).T
    x = np.ones((len(g), 1)) if labels is None else np.eye(3)[labels]
    return Graph(x=weft.tensor(x), edge_index=weft.tensor(pairs), num_nodes=len(g))


def readout(model, graph):
    with weft.no_grad():
        return np.concatenate([state.sum(0).numpy() for state in model.states(graph.x, graph.edge_index)])


def network(inputs=1):
    weft.manual_seed(0)
    model = GIN(inputs, 16, 2, num_layers=6, norm=False).double().eval()
    for part in model.modules():  # a smooth map that forgets nothing where relu might
        if isinstance(part, nn.Linear):
            part.weight.data.mul_(1.5)
    return model


def test_isomorphism_networks_part_exactly_what_weisfeiler_and_leman_part():
    """Over all pairs of the connected graphs with up to six vertices of NetworkX's atlas."""
    graphs = [made(g) for g in nx.graph_atlas_g() if 3 <= len(g) <= 6 and nx.is_connected(g)]
    bags = wl_features(graphs, 6).toarray()
    model = network()
    batch = Batch.from_data_list(graphs)
    with weft.no_grad():
        states = model.states(batch.x, batch.edge_index)
        said = np.concatenate([gnn.global_add_pool(state, batch.batch).numpy() for state in states], 1)
    scale = np.abs(said).max(0).clip(1e-9)
    pairs = list(itertools.combinations(range(len(graphs)), 2))
    chosen = np.random.default_rng(0).permutation(len(pairs))[:4000]
    same = [(i, j) for i, j in pairs if (bags[i] == bags[j]).all()]
    assert len(same) > 0  # some pairs are not isomorphic and yet alike to the test
    for i, j in [*same, *(pairs[k] for k in chosen)]:
        apart = np.abs((said[i] - said[j]) / scale).max()
        assert (apart > 1e-7) == (bags[i] != bags[j]).any(), (i, j, apart)


def test_weisfeiler_and_leman_beside_networkx():
    graphs = [nx.gnp_random_graph(7, 0.4, seed=seed) for seed in range(12)]
    bags = wl_features([made(g) for g in graphs], 3).toarray()
    hashes = [nx.weisfeiler_lehman_graph_hash(g, iterations=3) for g in graphs]
    for i, j in itertools.combinations(range(12), 2):
        assert (hashes[i] == hashes[j]) == bool((bags[i] == bags[j]).all())


def test_a_ring_of_six_and_two_of_three_look_alike():
    """Every vertex has two neighbours like itself, in both: no message passing parts them; walks do."""
    six, threes = made(nx.cycle_graph(6)), made(nx.disjoint_union(nx.cycle_graph(3), nx.cycle_graph(3)))
    assert (wl_features([six, threes], 6).toarray()[0] == wl_features([six, threes], 6).toarray()[1]).all()
    assert wl_kernel([six, threes], 4)[0, 1] == pytest.approx(1)
    np.testing.assert_allclose(readout(network(), six), readout(network(), threes), rtol=1e-12)
    for layer in (
        gnn.GCNConv(1, 4),
        gnn.GATConv(1, 4),
        gnn.SAGEConv(1, 4),
        gnn.GatedGraphConv(4, 3),
        gnn.FixedPointConv(1, 4),
    ):
        layer = layer.double()
        one, two = (layer(g.x, g.edge_index).sum(0).detach().numpy() for g in (six, threes))
        np.testing.assert_allclose(one, two, rtol=1e-12)
    walks = [gnn.random_walk_positions(g.edge_index, 4).numpy() for g in (six, threes)]
    assert np.abs(walks[0] - walks[1]).max() > 0.1  # a triangle brings a walk back in three steps
    weft.manual_seed(1)
    model = GraphTransformer(1, 8, 1, positions=4, heads=2, signs="none").eval()
    said = [model(g.x.float(), g.edge_index, weft.tensor(w)).item() for g, w in zip((six, threes), walks, strict=True)]
    assert abs(said[0] - said[1]) > 1e-4


def star(colours) -> Graph:
    """A vertex with neighbours of these colours."""
    g = nx.star_graph(len(colours))
    return made(g, [0, *colours])


TEXTBOOK = {  # pairs of neighbourhoods and which reduction cannot part them
    "two of one colour and four": ([1, 1], [1, 1, 1, 1], {"mean", "max"}),
    "one each and two each": ([1, 2], [1, 1, 2, 2], {"mean", "max"}),
    "one and one, two and one": ([1, 2], [1, 1, 2], {"max"}),
}


@pytest.mark.parametrize("aggr", ["sum", "mean", "max"])
@pytest.mark.parametrize("pair", TEXTBOOK)
def test_means_and_maxima_fail_their_textbook_pairs(pair, aggr):
    one, two, blind = TEXTBOOK[pair]
    layer = gnn.SAGEConv(3, 5, aggr=aggr).double()
    centres = [layer(g.x, g.edge_index)[0].detach().numpy() for g in (star(one), star(two))]
    assert np.allclose(*centres, rtol=1e-12) == (aggr in blind)


def test_colours_start_from_features():
    a, b = star([1, 1]), star([1, 2])
    levels = wl_colours([a, b], 1)
    assert sorted(levels[0][0].tolist()) != sorted(levels[0][1].tolist())
    assert levels[1][0][0] != levels[1][1][0]
    assert wl_kernel([a, a], 2)[0, 1] == pytest.approx(1) and wl_kernel([a, b], 2)[0, 1] < 1


@pytest.mark.parametrize("signs", ["invariant", "random", "none"])
def test_only_the_invariant_reading_ignores_signs_of_eigenvectors(signs):
    g = made(nx.path_graph(6))
    positions = gnn.laplacian_positions(g.edge_index, 3)
    weft.manual_seed(0)
    model = GraphTransformer(1, 8, 2, positions=3, heads=2, signs=signs).eval()
    one, two = (
        model(g.x.float(), g.edge_index, p).detach().numpy()
        for p in (positions, positions * weft.tensor([1.0, -1, -1]))
    )
    assert np.allclose(one, two, atol=1e-6) == (signs == "invariant")
