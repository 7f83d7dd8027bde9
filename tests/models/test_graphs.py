"""Models of graphs: each learns something real in a short run; closed forms of what they are made of."""

from __future__ import annotations

import os
from pathlib import Path

import networkx as nx
import numpy as np
import pytest
import torch
from sklearn.metrics import average_precision_score, roc_auc_score

import weft
from weft import nn, optim
from weft.data.graph import Graph
from weft.data.graph_batch import Batch
from weft.errors import ArgumentError, OptionError, ShapeError, StateError
from weft.graphs import erdos_renyi
from weft.graphs.nn import GCNConv, laplacian_positions, random_walk_positions
from weft.models import graphs as models
from weft.nn import functional as F

REAL = Path(os.environ.get("WEFT_DATA") or Path(__file__).resolve().parents[3] / "shared" / "data")
real = pytest.mark.skipif(not REAL.is_dir(), reason="the real files are not there; set WEFT_DATA")


def karate() -> Graph:
    g = nx.karate_club_graph()
    edges = np.array([*g.edges, *[(b, a) for a, b in g.edges]]).T
    y = np.array([g.nodes[v]["club"] != "Mr. Hi" for v in g]).astype(np.int64)
    return Graph(x=weft.eye(34), edge_index=weft.tensor(edges), y=weft.tensor(y))


def minimised(model, loss, steps, lr=0.02):
    optimizer = optim.Adam(model.parameters(), lr=lr)
    model.train()
    for _ in range(steps):
        optimizer.zero_grad()
        found = loss()
        found.backward()
        optimizer.step()
    model.eval()
    return found.item()


VERTICES = {
    "GCN": lambda: models.GCN(34, 8, 2, dropout=0.2),
    "GAT": lambda: models.GAT(34, 4, 2, heads=2, dropout=0.2),
    "GAT v2": lambda: models.GAT(34, 4, 2, heads=2, dropout=0.2, v2=True),
    "SGC": lambda: models.SGC(34, 2),
    "APPNPNet": lambda: models.APPNPNet(34, 8, 2, dropout=0.2, edge_dropout=0.1),
    "GraphSAGE": lambda: models.GraphSAGE(34, 8, 2, dropout=0.2),
}


@pytest.mark.parametrize("name", VERTICES)
def test_two_leaders_tell_who_followed_whom(name):
    """Labels of the two leaders alone; at most four of the 32 others are misplaced."""
    graph, leaders = karate(), weft.tensor([0, 33])
    weft.manual_seed(0)
    model = VERTICES[name]()
    minimised(model, lambda: F.cross_entropy(model(graph.x, graph.edge_index)[leaders], graph.y[leaders]), 60)
    wrong = (model(graph.x, graph.edge_index).argmax(1) != graph.y).sum().item()
    assert wrong <= 4


def rings_and_stars(count: int = 24) -> list[Graph]:
    """Rings (0) and stars (1) of equally many vertices, without features that would tell."""
    rng, found = np.random.default_rng(0), []
    for number in range(count):
        size = int(rng.integers(5, 9))
        g = nx.star_graph(size - 1) if number % 2 else nx.cycle_graph(size)
        edges = np.array([*g.edges, *[(b, a) for a, b in g.edges]]).T
        x, attr = weft.ones(size, 2), weft.ones(edges.shape[1], 1)
        edges = weft.tensor(edges)
        where = {"vectors": laplacian_positions(edges, 3, size), "walks": random_walk_positions(edges, 3, size)}
        found.append(Graph(x=x, edge_index=edges, edge_attr=attr, y=weft.tensor([number % 2]), **where))
    return found


WHOLES = {
    "GIN": (lambda: models.GIN(2, 8, 2, num_layers=2, dropout=0.0), lambda m, b: m(b.x, b.edge_index, b.batch)),
    "MPNN": (lambda: models.MPNN(2, 1, 8, 2, num_steps=2), lambda m, b: m(b.x, b.edge_index, b.edge_attr, b.batch)),
    "transformer, eigenvectors": (
        lambda: models.GraphTransformer(2, 8, 2, positions=3, heads=2, num_layers=1),
        lambda m, b: m(b.x, b.edge_index, b.vectors, b.batch),
    ),
    "transformer, walks alone": (
        lambda: models.GraphTransformer(2, 8, 2, positions=3, heads=2, num_layers=1, signs="none", local=False),
        lambda m, b: m(b.x, b.edge_index, b.walks, b.batch),
    ),
}


@pytest.mark.parametrize("name", WHOLES)
def test_rings_and_stars_are_told_apart(name):
    make, call = WHOLES[name]
    graphs = rings_and_stars()
    seen, unseen = (Batch.from_data_list(part) for part in (graphs[:16], graphs[16:]))
    weft.manual_seed(1)
    model = make()
    minimised(model, lambda: F.cross_entropy(call(model, seen), seen.y), 40)
    assert (call(model, unseen).argmax(1) == unseen.y).all()


def test_smoothed_signals_of_vertices_are_regressed():
    """Half of the vertices tell a convolution the mean of their neighbours' x, the others are asked."""
    rng, g = np.random.default_rng(0), nx.gnp_random_graph(80, 0.08, seed=1)
    edges = weft.tensor(np.array([*g.edges, *[(b, a) for a, b in g.edges]]).T)
    x = weft.tensor(rng.standard_normal((80, 2)).astype(np.float32))
    near = nx.to_numpy_array(g)
    y = weft.tensor(((near @ x.numpy())[:, 0] / np.maximum(near.sum(1), 1)).astype(np.float32))
    weft.manual_seed(0)
    model = models.GraphSAGE(2, 8, 1, num_layers=1, dropout=0.0)
    said = lambda: model(x, edges).squeeze(1)
    minimised(model, lambda: (said()[:40] - y[:40]).square().mean(), 150)
    assert (said()[40:] - y[40:]).square().mean() < 0.01 * y[40:].var()


def test_edges_are_classified_by_the_codes_of_their_ends():
    """Whether a friendship of the karate club crosses the two parties: a third of the edges is held out."""
    club = karate()
    ends = club.edge_index[:, club.edge_index[0] < club.edge_index[1]]
    y = (club.y[ends[0]] != club.y[ends[1]]).float()
    held = weft.arange(ends.shape[1]) % 3 == 0
    weft.manual_seed(0)
    model = models.GCN(34, 16, 4, dropout=0.0)
    bilinear = weft.nn.Parameter(0.1 * weft.randn(4, 4))

    def logits():
        z = model(club.x, club.edge_index)
        return ((z[ends[0]] @ bilinear) * z[ends[1]]).sum(1)

    model.register_parameter("bilinear", bilinear)
    minimised(model, lambda: F.binary_cross_entropy_with_logits(logits()[~held], y[~held]), 60)
    assert roc_auc_score(y[held], logits()[held].detach()) > 0.9


def test_numbers_of_whole_graphs_are_regressed():
    """The number of edges by sums over vertices, for sizes that were not seen."""
    graphs = [erdos_renyi(6 + number % 9, 0.5, seed=number) for number in range(40)]
    graphs = [g.replace(x=weft.ones(g.num_nodes, 1), y=weft.tensor([g.num_edges / 10])) for g in graphs]
    seen, unseen = Batch.from_data_list(graphs[:30]), Batch.from_data_list(graphs[30:])
    weft.manual_seed(0)
    model = models.GIN(1, 8, 1, num_layers=1, dropout=0.0, norm=False)
    said = lambda b: model(b.x, b.edge_index, b.batch, b.num_graphs).squeeze(1)
    minimised(model, lambda: (said(seen) - seen.y).square().mean(), 200)
    assert (said(unseen) - unseen.y).square().mean() < 0.05 * unseen.y.var()


def test_bags_of_vertices_cannot_tell_them_apart():
    graphs = rings_and_stars()
    batch = Batch.from_data_list([graphs[0], graphs[1]])
    model = models.DeepSets(2, 8, 2, readout="mean").eval()
    said = model(batch.x, batch.edge_index, batch.batch)
    np.testing.assert_allclose(said[0].detach().numpy(), said[1].detach().numpy(), atol=1e-6)


# ---------------------------------------------------------------------------------------------- autoencoders


def test_losses_of_autoencoders_are_their_formulas():
    weft.manual_seed(0)
    z, there, absent = weft.randn(6, 3), weft.tensor([[0, 1], [2, 3]]), weft.tensor([[4, 0], [5, 5]])
    model = models.VGAE(nn.Identity())
    p = lambda pairs: 1 / (1 + np.exp(-(z.numpy()[pairs[0]] * z.numpy()[pairs[1]]).sum(1)))
    right = -np.log(p(there.numpy())).mean() - np.log(1 - p(absent.numpy())).mean()
    assert model.recon_loss(z, there, absent).item() == pytest.approx(right, rel=1e-5)
    mu, logstd = weft.randn(6, 3), weft.randn(6, 3)
    normal = torch.distributions.Normal(torch.tensor(mu.numpy()), torch.tensor(logstd.numpy()).exp())
    kl = torch.distributions.kl_divergence(normal, torch.distributions.Normal(0.0, 1.0)).sum(1).mean().item()
    assert model.kl_loss(mu, logstd).item() == pytest.approx(kl, rel=1e-5)
    said = np.concatenate([p(there.numpy()), p(absent.numpy())])
    auc, precision = model.test(z, there, absent)
    assert auc == pytest.approx(roc_auc_score([1, 1, 0, 0], said))
    assert precision == pytest.approx(average_precision_score([1, 1, 0, 0], said))
    with pytest.raises(StateError, match="encode first"):
        models.VGAE(nn.Identity()).kl_loss()


def test_an_autoencoder_of_the_karate_club_finds_its_friendships():
    graph = karate()
    weft.manual_seed(0)
    model = models.VGAE(models.VariationalGCNEncoder(34, 16, 8))
    a = nx.to_numpy_array(nx.karate_club_graph(), weight=None)
    absent = weft.tensor(np.argwhere(np.triu(1 - a, 1)).T)
    there = graph.edge_index[:, :78]

    def loss():
        z = model.encode(graph.x, graph.edge_index)
        return model.recon_loss(z, there, absent) + model.kl_loss() / 34

    minimised(model, loss, 120)
    z = model.encode(graph.x, graph.edge_index)
    assert model.test(z, there, absent)[0] > 0.85
    drawn = models.sampled_graph(model, z.detach(), weft.Generator().manual_seed(0))
    pairs = set(map(tuple, drawn.T.tolist()))
    assert pairs == {(b, a) for a, b in pairs} and all(a != b for a, b in pairs)
    assert np.mean([a[i, j] for i, j in pairs]) > 1.5 * 156 / 34**2  # far more friends than by chance
    unseen = models.sampled_graph(model, weft.randn(10, 8), weft.Generator().manual_seed(1))
    assert unseen.numel() == 0 or unseen.max() < 10


# ------------------------------------------------------------------------------------------ without labels


def test_infomax_exchanges_features_as_its_formula_says():
    graph, order = karate(), weft.tensor(np.random.default_rng(0).permutation(34))
    weft.manual_seed(0)
    model = models.DGI(34, 6)
    true, false = model(graph.x, graph.edge_index), model(graph.x[order], graph.edge_index)
    summary = model.weight @ true.mean(0).sigmoid()
    right = F.binary_cross_entropy_with_logits(true @ summary, weft.ones(34))
    right = right + F.binary_cross_entropy_with_logits(false @ summary, weft.zeros(34))
    assert model.loss(graph.x, graph.edge_index, order).item() == pytest.approx(right.item(), rel=1e-5)
    found = model.loss(graph.x.to_sparse(), graph.edge_index, order)
    assert found.item() == pytest.approx(right.item(), rel=1e-5)


def test_infomax_learns_codes_that_part_the_club():
    graph = karate()
    weft.manual_seed(0)
    model, rng = models.DGI(34, 16), np.random.default_rng(0)
    first = model.loss(graph.x, graph.edge_index, weft.tensor(rng.permutation(34))).item()
    last = minimised(model, lambda: model.loss(graph.x, graph.edge_index, weft.tensor(rng.permutation(34))), 60, 0.01)
    assert last < 0.9 * first


def test_hidden_features_reach_the_loss_only_as_targets():
    """What is said of hidden vertices must not depend on their features: else the autoencoder could copy."""
    graph = karate()
    weft.manual_seed(0)
    model = models.GraphMAE(34, 8, heads=2).eval()
    hidden, x = weft.tensor([3, 5]), weft.randn(34, 34).requires_grad_()
    (slope,) = weft.autograd.grad(model.heard(x, graph.edge_index, hidden).square().sum(), [x])
    assert (slope.numpy()[[3, 5]] == 0).all() and np.abs(slope.numpy()).max() > 0


def test_a_masked_autoencoder_fills_in_neighbours():
    graph = karate()
    weft.manual_seed(0)
    x = F.one_hot(graph.y, 2).float() + 0.1 * weft.randn(34, 2)  # features that neighbours share
    model, rng = models.GraphMAE(2, 8, heads=2, feat_dropout=0.0, attn_dropout=0.0, gamma=2.0), np.random.default_rng(0)
    draw = lambda: weft.tensor(rng.permutation(34)[:17])
    loss = lambda: model.loss(x, graph.edge_index, draw())
    first = np.mean([loss().item() for _ in range(5)])
    minimised(model, loss, 80, 0.01)
    assert np.mean([loss().item() for _ in range(5)]) < 0.5 * first
    assert model.embed(x, graph.edge_index).shape == (34, 8)


def test_the_decoder_is_a_layer_of_attention_after_hidden_codes_are_hidden_again():
    """Written out as in the paper, x dense; and the short way for sparse x, to float64's precision."""
    graph = karate()
    weft.manual_seed(0)
    model = models.GraphMAE(34, 8, heads=2).double().eval()
    model.token.data.normal_(), model.bias.data.normal_()
    x = (weft.rand(34, 34) < 0.2).double() * weft.rand(34, 34).double() + weft.eye(34).double()
    hidden, others = weft.tensor([3, 5, 9, 30]), weft.tensor([7])
    shown, edges = x.clone(), graph.edge_index
    shown[hidden] = model.token.detach()
    shown[3] = x[7]
    h = model.acts[1](model.layers[1](model.acts[0](model.layers[0](shown, edges)), edges))
    z = model.between(h)
    z = z.index_fill(0, hidden, 0.0)
    said = model.decode(z, edges)[hidden] + model.bias
    expected = models.scaled_cosine_error(said, x[hidden], 3.0).item()
    for features in (x, x.to_sparse(layout="csr")):
        assert model.loss(features, edges, hidden, others).item() == pytest.approx(expected, rel=1e-9)


def test_layers_of_attention_begin_with_gain_times_glorots_weights():
    weft.manual_seed(0)
    model = models.GraphMAE(300, 64, heads=2, gain=3.0)
    for weight in (model.layers[0].lin.weight, model.layers[1].lin.weight, model.decode.lin.weight):
        expected = 3 * (2 / sum(weight.shape)) ** 0.5
        assert weight.std().item() == pytest.approx(expected, rel=0.05)
    assert model.between.weight.std().item() == pytest.approx((2 / 128) ** 0.5, rel=0.05)


def test_the_scaled_cosine_error():
    rng = np.random.default_rng(0)
    a, b = rng.normal(size=(4, 3)), rng.normal(size=(4, 3))
    cosine = (a * b).sum(1) / np.linalg.norm(a, axis=1) / np.linalg.norm(b, axis=1)
    found = models.scaled_cosine_error(weft.tensor(a), weft.tensor(b), 3.0).item()
    assert found == pytest.approx(((1 - cosine) ** 3).mean())


# ----------------------------------------------------------------------------------------------- generation


def test_rows_of_all_graphs_sum_to_one():
    """Σ p over all graphs on four vertices: 2 · 4 · 8 of them, rows without edges among them."""
    weft.manual_seed(0)
    model = models.GraphRows(width=3, hidden_channels=6).double()
    model.weight.data.copy_(weft.randn(3, 3))
    rows = []
    for code in range(2**6):
        bits = [(code >> k) & 1 for k in range(6)]
        rows.append([[0, 0, 0], [bits[0], 0, 0], [bits[1], bits[2], 0], bits[3:]])
    total = model.log_prob(weft.tensor(np.array(rows, float))).exp().sum().item()
    assert total == pytest.approx(1, abs=1e-12)


def test_rows_in_breadth_first_order_hold_the_graph():
    g = nx.grid_2d_graph(4, 3)
    g = nx.convert_node_labels_to_integers(g)
    edges = weft.tensor(np.array([*g.edges, *[(b, a) for a, b in g.edges]]).T)
    order = models.breadth_first(edges, 12)
    assert sorted(order.tolist()) == list(range(12))
    rows = models.rows_of(edges, order, 4).numpy()
    assert rows.sum() == g.number_of_edges() and (rows[1:].sum(1) > 0).all()
    with pytest.raises(ShapeError, match="reaches"):
        models.rows_of(edges, order, 1)
    assert models.breadth_first(weft.zeros(2, 0, dtype=weft.int64), 0).tolist() == []
    assert sorted(models.breadth_first(weft.tensor([[0], [1]]), 4, 2).tolist()) == [0, 1, 2, 3]
    with pytest.raises(OptionError, match="width"):
        models.GraphRows(0)


def test_what_has_seen_only_paths_draws_paths():
    weft.manual_seed(0)
    model = models.GraphRows(width=2, hidden_channels=16)
    paths = weft.zeros(8, 7, 2)
    for number in range(8):
        paths[number, 1:5, 0] = 1  # five vertices, then an empty row
    mask = (weft.arange(7) < 6).expand(8, 7)
    minimised(model, lambda: -model.log_prob(paths, mask).mean(), 80, 0.03)
    drawn = model.sample(12, weft.Generator().manual_seed(0)).T.tolist()
    assert sorted(drawn) == sorted([[a, b] for a in range(5) for b in range(5) if abs(a - b) == 1])


# ---------------------------------------------------------------------------------------------- explanations


def test_an_explanation_finds_the_edge_that_decides():
    """A vertex is of class 1 just if its left neighbour has the mark; the mask finds that edge and that feature."""
    edges = weft.tensor([[0, 1, 2, 3], [4, 4, 4, 4]])
    x = weft.zeros(5, 3)
    x[0, 1] = 5.0  # the mark
    weft.manual_seed(0)
    layer = GCNConv(3, 2, normalize=False)
    layer.lin.weight.data.copy_(weft.tensor([[0.0, -1, 0], [0, 1, 0]]))
    before = layer.lin.weight.detach().numpy().copy()
    found = models.GNNExplainer(epochs=150, lr=0.1, edge_size=0.1)(
        layer, x, edges, index=4, generator=weft.Generator().manual_seed(0)
    )
    assert (
        found.edge_mask.argmax().item() == 0
        and found.edge_mask[0].item() > 0.7 > 0.5 > found.edge_mask[1:].max().item()
    )
    assert found.node_mask.argmax().item() == 1
    assert found.prediction.argmax(1).tolist() == [1]
    np.testing.assert_array_equal(layer.lin.weight.detach().numpy(), before)


def test_weights_of_attention_are_those_of_the_layers():
    graph = karate()
    weft.manual_seed(0)
    model = models.GAT(34, 4, 2, heads=3)
    (edges, alpha), (_, last) = models.attention_on_edges(model, graph.x, graph.edge_index)
    _, (right, weights) = model.convs[0](graph.x, graph.edge_index, return_attention_weights=True)
    np.testing.assert_array_equal(edges.numpy(), right.numpy())
    np.testing.assert_allclose(alpha.numpy(), weights.detach().numpy(), atol=1e-7)
    total = np.zeros((34, 3))
    np.add.at(total, edges.numpy()[1], alpha.numpy())
    np.testing.assert_allclose(total, 1, atol=1e-5)
    assert last.shape == (edges.shape[1], 1)
    with pytest.raises(ArgumentError, match="no layer of attention"):
        models.attention_on_edges(models.GCN(34, 4, 2), graph.x, graph.edge_index)


# -------------------------------------------------------------------------------------------------- real data


@real
def test_thirty_epochs_on_cora_are_far_above_chance():
    from weft.recipes.graphs.citations import Learner, Paper, spread_labels
    from weft.recipes.graphs.gcn_cora import recipe

    paper = Paper.read("cora", REAL)
    learner = Learner(recipe, recipe.settings(["epochs=30"]), paper)
    first, second = learner.learned(5), learner.learned(5)
    assert first == second and first["test_accuracy"] > 0.6  # the same plan, started anew, gives the same figures
    assert 0.6 < spread_labels(paper) < 0.75
