"""Layers of graph networks: symmetries, batches, degenerate graphs, compiled code and threads, for every one of them."""

from __future__ import annotations

import numpy as np
import pytest

import weft
from weft import nn
from weft.errors import ArgumentError, OptionError, ShapeError
from weft.graphs import nn as gnn

from .layers_table import LAYERS, READOUTS, C, D, F, called, graph, made, perceptron, readout

CLOSE = {"rtol": 1e-5, "atol": 1e-5}
numbers = lambda y: y.detach().numpy()


# ----------------------------------------------------------------------------------------------- symmetries


@pytest.mark.parametrize("name", LAYERS)
def test_vertices_in_another_order_give_results_in_that_order(name):
    x, edges, attr, weight = graph()
    layer, order = made(name), np.random.default_rng(1).permutation(len(x))
    where = np.argsort(order)  # vertex v is number where[v] now
    shuffled = np.random.default_rng(2).permutation(edges.shape[1])  # and edges in any order
    moved = weft.tensor(where[edges.numpy()][:, shuffled])
    parts = (part[weft.tensor(shuffled)] for part in (attr, weight))
    found = called(layer, name, x[weft.tensor(order)], moved, *parts)
    np.testing.assert_allclose(numbers(found), numbers(called(layer, name, x, edges, attr, weight))[order], **CLOSE)


@pytest.mark.parametrize("name", READOUTS)
def test_readouts_do_not_see_the_order_of_vertices(name):
    x, owner = graph(count=8)[0], np.array([0, 0, 0, 1, 1, 1, 1, 2])
    read, order = readout(name), np.random.default_rng(3).permutation(8)
    found = read(x[weft.tensor(order)], weft.tensor(owner[order]))
    np.testing.assert_allclose(numbers(found), numbers(read(x, weft.tensor(owner))), **CLOSE)


@pytest.mark.parametrize("pool", [gnn.TopKPooling, gnn.SAGPooling])
def test_pooling_keeps_the_same_vertices_in_any_order(pool):
    x, edges, *_ = graph(count=7)
    weft.manual_seed(0)
    layer, order = pool(F, ratio=0.5), np.random.default_rng(4).permutation(7)
    one, two = layer(x, edges), layer(x[weft.tensor(order)], weft.tensor(np.argsort(order)[edges.numpy()]))
    np.testing.assert_array_equal(order[two.perm.numpy()], one.perm.numpy())
    np.testing.assert_allclose(numbers(two.x), numbers(one.x), **CLOSE)
    assert sorted(map(tuple, one.edge_index.T.tolist())) == sorted(map(tuple, two.edge_index.T.tolist()))


def test_clusters_pooled_in_any_order():
    x, edges, *_ = graph(count=7)
    cluster, order = np.array([0, 0, 1, 1, 2, 2, 2]), np.random.default_rng(5).permutation(7)
    one = gnn.cluster_pool(x, edges, weft.tensor(cluster), reduce="mean")
    moved = weft.tensor(np.argsort(order)[edges.numpy()])
    two = gnn.cluster_pool(x[weft.tensor(order)], moved, weft.tensor(cluster[order]), reduce="mean")
    for a, b in zip(one, two, strict=True):
        np.testing.assert_allclose(numbers(a), numbers(b), **CLOSE)


def test_diff_pool_does_not_see_the_order_of_vertices():
    rng = np.random.default_rng(6)
    x, adj, s = (weft.tensor(rng.normal(size=size)) for size in ((2, 6, 3), (2, 6, 6), (2, 6, 4)))
    order = weft.tensor(rng.permutation(6))
    one = gnn.dense_diff_pool(x, adj, s)
    two = gnn.dense_diff_pool(x[:, order], adj[:, order][:, :, order], s[:, order])
    for a, b in zip(one, two, strict=True):
        np.testing.assert_allclose(numbers(a), numbers(b), rtol=1e-9, atol=1e-12)


# ------------------------------------------------------------------------------------------------- batches


def together(parts):
    xs, edges, attrs, weights = zip(*parts, strict=True)
    starts = np.cumsum([0, *[len(x) for x in xs]])
    owner = np.repeat(np.arange(len(xs)), [len(x) for x in xs])
    moved = np.concatenate([e.numpy() + start for e, start in zip(edges, starts[:-1], strict=True)], 1)
    return weft.cat(xs), weft.tensor(moved), weft.cat(attrs), weft.cat(weights), weft.tensor(owner)


@pytest.mark.parametrize("name", LAYERS)
def test_a_batch_is_its_graphs_one_by_one(name):
    parts = [graph(0), graph(1, count=4, edges=5), graph(2, count=3, edges=0), graph(3, count=1, edges=2)]
    layer, (x, edges, attr, weight, owner) = made(name), together(parts)
    if name.startswith("GPS"):
        found = layer(x, edges, owner)
    else:
        found = called(layer, name, x, edges, attr, weight)
    right = np.concatenate([numbers(called(layer, name, *part)) for part in parts])
    np.testing.assert_allclose(numbers(found), right, **CLOSE)


@pytest.mark.parametrize("name", READOUTS)
def test_readouts_of_a_batch_are_those_of_its_graphs(name):
    x, read = graph(count=6)[0], readout(name)
    found = numbers(read(x, weft.tensor([0, 0, 0, 1, 1, 2])))
    parts = [numbers(read(x[a:b], weft.zeros(b - a, dtype=weft.int64))) for a, b in ((0, 3), (3, 5), (5, 6))]
    np.testing.assert_allclose(found, np.concatenate(parts), **CLOSE)


@pytest.mark.parametrize("pool", [gnn.TopKPooling, gnn.SAGPooling])
def test_pooling_a_batch_is_pooling_its_graphs(pool):
    parts = [graph(0, count=7), graph(1, count=4, edges=5)]
    x, edges, _, _, owner = together(parts)
    weft.manual_seed(1)
    layer = pool(F, ratio=0.6)
    whole, each = layer(x, edges, batch=owner), [layer(part[0], part[1]) for part in parts]
    np.testing.assert_allclose(numbers(whole.x), np.concatenate([numbers(one.x) for one in each]), **CLOSE)
    assert whole.batch.tolist() == [0] * 5 + [1] * 3  # ⌈0.6 · 7⌉ and ⌈0.6 · 4⌉
    assert whole.edge_index.shape[1] == sum(one.edge_index.shape[1] for one in each)


# --------------------------------------------------------------------------------------- degenerate graphs


@pytest.mark.parametrize("name", LAYERS)
@pytest.mark.parametrize(("count", "edges"), [(0, 0), (1, 0), (1, 1), (4, 0)])
def test_graphs_without_vertices_edges_or_neighbours(name, count, edges):
    x, ends, attr, weight = graph(count=count, edges=edges)
    x.requires_grad_()
    y = called(made(name), name, x, ends, attr, weight)
    assert y.shape[0] == count and np.isfinite(numbers(y)).all()
    if count:
        y.sum().backward()


@pytest.mark.parametrize("name", LAYERS)
def test_gradients_are_finite_with_loops_repeated_edges_and_isolated_vertices(name):
    x, edges, attr, weight = graph()
    layer, x = made(name), x.requires_grad_()
    called(layer, name, x, edges, attr, weight).square().sum().backward()
    assert np.isfinite(x.grad.numpy()).all() and all(np.isfinite(p.grad.numpy()).all() for p in layer.parameters())


@pytest.mark.parametrize("name", [name for name in LAYERS if not name.startswith("GPS")])
def test_no_vertex_hears_from_beyond_its_edges(name):
    """Numbers at a vertex depend only on those that reach it in as many steps as the layer takes."""
    x, attr, weight = weft.randn(4, F), weft.randn(2, D), weft.ones(2)
    edges = weft.tensor([[0, 1], [1, 0]])  # 2 and 3 are on their own
    x.requires_grad_()
    called(made(name), name, x, edges, attr, weight)[2:].sum().backward()
    assert (x.grad.numpy()[:2] == 0).all()


# ------------------------------------------------------------------------------------ compiled, and threads


@pytest.mark.parametrize("name", [name for name in LAYERS if name != "FixedPointConv"])
def test_compiled_layers_are_the_eager_ones(name):
    x, edges, attr, weight = graph()
    layer = made(name)

    def run(x, edges, attr, weight):
        y = called(layer, name, x, edges, attr, weight)
        return y.detach(), *weft.autograd.grad(y.square().sum(), [x, *layer.parameters()])

    x.requires_grad_()
    pairs = zip(run(x, edges, attr, weight), weft.compile(run)(x, edges, attr, weight), strict=True)
    for one, two in pairs:
        np.testing.assert_allclose(two.numpy(), one.numpy(), rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("name", ["GCNConv weighted", "GATConv", "GATv2Conv", "GINConv", "SAGEConv max", "NNConv"])
def test_bits_do_not_depend_on_the_number_of_threads(name):
    x, edges, attr, weight = graph(count=400, edges=3000)
    layer = made(name)
    step = lambda: (
        called(layer, name, x, edges, attr, weight),
        *weft.autograd.grad(called(layer, name, x, edges, attr, weight).square().sum(), list(layer.parameters())),
    )
    compiled = weft.compile(lambda x: called(layer, name, x, edges, attr, weight))
    before, seen = weft.get_num_threads(), []
    try:
        for threads in (1, 2, 3):
            weft.set_num_threads(threads)
            seen.append([part.detach().numpy().tobytes() for part in (*step(), compiled(x))])
    finally:
        weft.set_num_threads(before)
    assert seen[0] == seen[1] == seen[2]


def test_a_sparse_matrix_is_the_list_of_its_edges():
    x, edges, _, weight = graph()
    matrix = weft.sparse_coo_tensor(edges.flip(0), weight, (len(x), len(x)))  # rows are targets
    single = edges.numpy()[:, np.unique(edges.numpy(), axis=1, return_index=True)[1]]
    for layer in (gnn.GCNConv(F, C), gnn.SGConv(F, C, 2), gnn.APPNP(3, 0.1), gnn.ChebConv(F, C, 3)):
        np.testing.assert_allclose(numbers(layer(x, matrix)), numbers(layer(x, edges, weight)), **CLOSE)
    ones = weft.sparse_coo_tensor(single[::-1].copy(), weft.ones(single.shape[1]), (len(x), len(x)))
    for layer in (gnn.GATConv(F, C), gnn.GINConv(perceptron()), gnn.SAGEConv(F, C), gnn.FixedPointConv(F, C)):
        np.testing.assert_allclose(numbers(layer(x, ones)), numbers(layer(x, weft.tensor(single))), **CLOSE)


@pytest.mark.parametrize(
    "layer", [gnn.GCNConv(F, C), gnn.GATConv(F, C, heads=2), gnn.SAGEConv(F, C), gnn.SGConv(F, C, 2)]
)
def test_sparse_features_are_dense_ones(layer):
    x, edges, *_ = graph()
    x = x * (x > 0.5)
    np.testing.assert_allclose(numbers(layer(x.to_sparse(), edges)), numbers(layer(x, edges)), **CLOSE)


# -------------------------------------------------------------------------------------------- bad input


@pytest.mark.parametrize(
    ("call", "error", "words"),
    [
        (lambda: gnn.GCNConv(F, C)(weft.ones(3, F), weft.ones(3, 2, dtype=weft.int64)), ShapeError, "edge_index must be"),
        (lambda: gnn.GINConv(perceptron())(weft.ones(3, F), weft.ones(2, 2)), ShapeError, "integers"),
        (lambda: gnn.GATConv(F, C)(weft.ones(3, F), weft.zeros(2, 1, dtype=weft.int64), weft.ones(1, 2)), ArgumentError, "edge_dim"),
        (lambda: gnn.GATConv(F, C, edge_dim=D)(weft.ones(3, F), weft.zeros(2, 1, dtype=weft.int64), weft.ones(1, 2)), ShapeError, "edge_attr must be"),
        (lambda: gnn.ChebConv(F, C, K=0), OptionError, "K must be at least 1"),
        (lambda: gnn.ChebConv(F, C, K=2, normalization=None)(weft.ones(3, F), weft.zeros(2, 1, dtype=weft.int64)), OptionError, "lambda_max"),
        (lambda: gnn.GINEConv(perceptron())(weft.ones(3, F), weft.zeros(2, 1, dtype=weft.int64), weft.ones(1, D)), ShapeError, "give edge_dim=3"),
        (lambda: gnn.NNConv(F, C, nn.Linear(D, 7))(weft.ones(3, F), weft.zeros(2, 1, dtype=weft.int64), weft.ones(1, D)), ShapeError, "it makes 7"),
        (lambda: gnn.GatedGraphConv(2, 1)(weft.ones(3, F), weft.zeros(2, 1, dtype=weft.int64)), ShapeError, "raise out_channels"),
        (lambda: gnn.FixedPointConv(F, C, contraction=1.0), OptionError, "contraction"),
        (lambda: gnn.MessagePassing("median"), OptionError, "reduce must be one of"),
        (lambda: gnn.MessagePassing(flow="up"), OptionError, "flow must be"),
        (lambda: gnn.MessagePassing(None).propagate(weft.zeros(2, 1, dtype=weft.int64), x=weft.ones(1, 1)), ArgumentError, "aggregate"),
        (lambda: gnn.MessagePassing().propagate(weft.zeros(2, 1, dtype=weft.int64), y=weft.ones(1, 1)), ArgumentError, "asks for x_j"),
        (lambda: gnn.MessagePassing().propagate(weft.zeros(2, 1, dtype=weft.int64), size=(2, 2), x=weft.ones(1, 1)), ShapeError, "1 rows for 2"),
        (lambda: gnn.global_add_pool(weft.ones(3, 1), weft.zeros(2, dtype=weft.int64)), ShapeError, "batch must have"),
        (lambda: gnn.to_dense_batch(weft.ones(3, 1), weft.zeros(3, dtype=weft.int64), 2), ShapeError, "3 vertices"),
        (lambda: gnn.topk(weft.ones(3), 1.5, weft.zeros(3, dtype=weft.int64)), OptionError, "ratio"),
        (lambda: gnn.cluster_pool(weft.ones(2, 1), weft.zeros(2, 0, dtype=weft.int64), weft.tensor([0])), ShapeError, "cluster must have"),
        (lambda: gnn.dense_diff_pool(weft.ones(1, 3, 2), weft.ones(1, 2, 2), weft.ones(1, 3, 2)), ShapeError, "expected x"),
        (lambda: gnn.laplacian_positions(weft.zeros(2, 0, dtype=weft.int64), 0), OptionError, "k must be"),
    ],
)  # fmt: skip
def test_what_makes_no_sense_is_explained(call, error, words):
    with pytest.raises(error, match=words):
        call()
