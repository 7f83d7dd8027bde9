"""Layers against their formulas, written out with dense matrices and loops in NumPy, in float64."""

from __future__ import annotations

import networkx as nx
import numpy as np
import pytest

import weft
from weft import nn
from weft.graphs import nn as gnn

from .layers_table import C, D, F, graph

numbers = lambda y: y.detach().numpy()
close = lambda a, b, tol=1e-9: np.testing.assert_allclose(numbers(a), b, rtol=tol, atol=tol)


@pytest.fixture(autouse=True)
def double():
    before = weft.get_default_dtype()
    weft.set_default_dtype(weft.float64)
    weft.manual_seed(0)
    yield
    weft.set_default_dtype(before)


def parts(seed=0, **sizes):
    return [part.double() if part.is_floating_point() else part for part in graph(seed, **sizes)]


def matrix(edges, weight, count):
    """A[i, j]: the sum of the weights of edges from j to i."""
    a = np.zeros((count, count))
    np.add.at(a, (edges.numpy()[1], edges.numpy()[0]), weight.numpy() if weight is not None else 1.0)
    return a


def with_loops(a, fill=1.0):
    return a + np.diag(np.where(np.diag(a) == 0, fill, 0))


def smoothing(a):
    d = a.sum(1)
    s = np.where(d > 0, 1 / np.sqrt(np.where(d > 0, d, 1)), 0)
    return s[:, None] * a * s


def w(layer):
    return numbers(layer.weight).T


@pytest.mark.parametrize("improved", [False, True])
@pytest.mark.parametrize("weighted", [False, True])
def test_gcn_is_the_normalised_matrix_times_x_w(weighted, improved):
    x, edges, _, weight = parts()
    weight = weight if weighted else None
    layer = gnn.GCNConv(F, C, improved=improved)
    layer.bias.data.copy_(weft.randn(C))
    s = smoothing(with_loops(matrix(edges, weight, 9), 2.0 if improved else 1.0))
    close(layer(x, edges, weight), s @ x.numpy() @ w(layer.lin) + numbers(layer.bias))
    np.testing.assert_allclose(gnn.gcn_matrix(edges, weight, 9, improved=improved).to_dense().numpy(), s, atol=1e-12)


def test_gcn_of_a_ring_by_hand():
    """Every vertex of a ring has d̃ = 3: the mean of itself and its two neighbours."""
    edges = weft.tensor([[0, 1, 2, 3, 1, 2, 3, 0], [1, 2, 3, 0, 0, 1, 2, 3]])
    layer = gnn.GCNConv(1, 1, bias=False)
    layer.lin.weight.data.fill_(1)
    close(layer(weft.tensor([[3.0], [0], [0], [0]]), edges), [[1], [1], [0], [1]])


def test_the_cached_graph_is_that_of_the_first_call():
    x, edges, _, weight = parts()
    layer = gnn.GCNConv(F, C, cached=True)
    first = numbers(layer(x, edges, weight))
    np.testing.assert_array_equal(numbers(layer(x, edges[:, :3])), first)


def test_powers_and_pagerank():
    x, edges, _, weight = parts()
    s = smoothing(with_loops(matrix(edges, weight, 9)))
    layer = gnn.SGConv(F, C, K=3)
    close(layer(x, edges, weight), np.linalg.matrix_power(s, 3) @ x.numpy() @ w(layer.lin) + numbers(layer.lin.bias))
    exact = 0.2 * np.linalg.solve(np.eye(9) - 0.8 * s, x.numpy())
    close(gnn.APPNP(K=200, alpha=0.2)(x, edges, weight), exact, 1e-8)


@pytest.mark.parametrize("normalization", ["sym", "rw", None])
def test_chebyshev_is_the_exact_filter_of_the_spectrum(normalization):
    """Σ θ_k T_k(λ̂) at the eigenvalues of L̂, by its eigenvectors, on an undirected graph."""
    g = nx.erdos_renyi_graph(9, 0.4, seed=3)
    a = nx.to_numpy_array(g)
    edges = weft.tensor(np.argwhere(a).T)
    d = a.sum(1)
    laplacian = {"sym": np.eye(9) - smoothing(a), "rw": np.eye(9) - a / d[:, None], None: np.diag(d) - a}[normalization]
    top = float(np.linalg.eigvals(laplacian).real.max())
    layer, x = gnn.ChebConv(1, 1, K=5, normalization=normalization, bias=False), weft.randn(9, 1)
    theta = [p.weight.item() for p in layer.lins]
    values, vectors = np.linalg.eig(2 * laplacian / top - np.eye(9))
    response = np.polynomial.chebyshev.chebval(values.real, theta)
    right = vectors.real @ (response[:, None] * np.linalg.solve(vectors.real, x.numpy()))
    close(layer(x, edges, lambda_max=top), right, 1e-7)


@pytest.mark.parametrize("aggr", ["sum", "mean", "max", "min"])
def test_sage_looks_at_neighbours_and_at_itself(aggr):
    x, edges, *_ = parts()
    layer = gnn.SAGEConv(F, C, aggr=aggr)
    gathered = np.zeros((9, F))
    for i in range(9):
        seen = x.numpy()[edges.numpy()[0][edges.numpy()[1] == i]]
        if len(seen):
            gathered[i] = getattr(seen, aggr)(0)
    close(layer(x, edges), gathered @ w(layer.lin_l) + numbers(layer.lin_l.bias) + x.numpy() @ w(layer.lin_r))


def leaky(v):
    return np.where(v > 0, v, 0.2 * v)


def attended(scores, values, targets, sources, count):
    """Softmax over the edges of each target, edge by edge."""
    y, alphas = np.zeros((count, *values.shape[1:])), np.zeros_like(scores)
    for i in range(count):
        at = np.flatnonzero(targets == i)
        if len(at):
            e = np.exp(scores[at] - scores[at].max(0))
            alphas[at] = e / e.sum(0)
            y[i] = (alphas[at][..., None] * values[sources[at]]).sum(0)
    return y, alphas


@pytest.mark.parametrize("kind", ["GATConv", "GATv2Conv"])
@pytest.mark.parametrize("edged", [False, True])
def test_attention_written_out_edge_by_edge(kind, edged):
    x, edges, attr, _ = parts()
    heads, n = 2, 9
    layer = getattr(gnn, kind)(F, C, heads=heads, edge_dim=D if edged else None)
    y, (_, alpha) = layer(x, edges, attr if edged else None, return_attention_weights=True)
    kept = np.flatnonzero(edges.numpy()[0] != edges.numpy()[1])
    s, t = (np.concatenate([row[kept], np.arange(n)]) for row in edges.numpy())
    e = attr.numpy()[kept]
    loops = np.stack([e[t[: len(kept)] == i].mean(0) if (t[: len(kept)] == i).any() else np.zeros(D) for i in range(n)])
    made = np.concatenate([e, loops]) @ w(layer.lin_edge) if edged else np.zeros((len(s), heads * C))
    made = made.reshape(-1, heads, C)
    if kind == "GATConv":
        h = (x.numpy() @ w(layer.lin)).reshape(n, heads, C)
        total = (h * numbers(layer.att_src)).sum(-1)[s] + (h * numbers(layer.att_dst)).sum(-1)[t]
        scores = leaky(total + ((made * numbers(layer.att_edge)).sum(-1) if edged else 0))
    else:
        h = (x.numpy() @ w(layer.lin_l) + numbers(layer.lin_l.bias)).reshape(n, heads, C)
        r = (x.numpy() @ w(layer.lin_r) + numbers(layer.lin_r.bias)).reshape(n, heads, C)
        scores = (leaky(h[s] + r[t] + made) * numbers(layer.att)).sum(-1)
    right, alphas = attended(scores, h, t, s, n)
    close(y, right.reshape(n, -1) + numbers(layer.bias))
    alive = numbers(alpha)[np.concatenate([kept, np.arange(edges.shape[1], edges.shape[1] + n)])]
    np.testing.assert_allclose(alive, alphas, atol=1e-12)
    loops = np.flatnonzero(edges.numpy()[0] == edges.numpy()[1])
    assert len(loops) and (numbers(alpha)[loops] == 0).all()  # old loops have no say, and none is NaN


def test_gat_ranks_neighbours_alike_for_all_and_gatv2_need_not():
    """Brody et al.: a·[Wi, Wj] before the nonlinearity orders sources independently of the target."""
    full = weft.tensor(np.argwhere(np.ones((6, 6))).T)
    x = weft.randn(6, F)
    orders = []
    for kind in (gnn.GATConv, gnn.GATv2Conv):
        seen = set()
        for seed in range(8):
            weft.manual_seed(seed)
            layer = kind(F, 8, add_self_loops=False)
            _, (edges, alpha) = layer(x, full, return_attention_weights=True)
            rows = np.zeros((6, 6))
            rows[edges.numpy()[1], edges.numpy()[0]] = numbers(alpha)[:, 0]
            seen.add(len({int(row.argmax()) for row in rows}))
        orders.append(max(seen))
    assert orders[0] == 1 and orders[1] > 1


def test_isomorphism_layers():
    x, edges, attr, _ = parts()
    inner = nn.Linear(F, C)
    layer = gnn.GINConv(inner, eps=0.25)
    s = matrix(edges, None, 9)
    close(layer(x, edges), (1.25 * x.numpy() + s @ x.numpy()) @ w(inner) + numbers(inner.bias))
    edged = gnn.GINEConv(inner, eps=-1.0, edge_dim=D)
    sent = np.maximum(x.numpy()[edges.numpy()[0]] + attr.numpy() @ w(edged.lin) + numbers(edged.lin.bias), 0)
    total = np.zeros((9, F))
    np.add.at(total, edges.numpy()[1], sent)
    close(edged(x, edges, attr), total @ w(inner) + numbers(inner.bias))


def test_matrices_made_of_edges():
    x, edges, attr, _ = parts()
    network = nn.Linear(D, F * C)
    layer = gnn.NNConv(F, C, network)
    maps = (attr.numpy() @ w(network) + numbers(network.bias)).reshape(-1, F, C)
    total = np.zeros((9, C))
    for e, (j, i) in enumerate(edges.numpy().T):
        total[i] += x.numpy()[j] @ maps[e]
    close(layer(x, edges, attr), total + x.numpy() @ w(layer.lin) + numbers(layer.bias))


def test_gated_steps():
    x, edges, _, weight = parts()
    layer = gnn.GatedGraphConv(6, num_layers=2)
    h = weft.cat([x, weft.zeros(9, 1)], 1)
    a = weft.tensor(matrix(edges, weight, 9))
    for t in range(2):
        h = layer.rnn(a @ (h @ layer.weight[t]), h)
    close(layer(x, edges, weight), numbers(h))


# -------------------------------------------------------------------------------------------- fixed points


def fixed(unrolled=None):
    weft.manual_seed(7)
    return gnn.FixedPointConv(F, C, contraction=0.8, unrolled=unrolled)


def test_the_fixed_point_solves_its_equation():
    x, edges, *_ = parts()
    layer = fixed()
    h, a = numbers(layer(x, edges)), matrix(edges, None, 9)
    means = a @ h / np.maximum(a.sum(1), 1)[:, None]
    right = np.tanh(means @ numbers(layer.contracting()).T + x.numpy() @ w(layer.lin) + numbers(layer.lin.bias))
    np.testing.assert_allclose(h, right, atol=1e-13)


def test_almeida_and_pinedas_gradient_is_that_of_the_unrolled_network():
    x, edges, *_ = parts()
    x.requires_grad_()
    found = []
    for layer in (fixed(), fixed(unrolled=200)):
        y = (layer(x, edges) * weft.arange(C).double()).square().sum()
        found.append(weft.autograd.grad(y, [x, *layer.parameters()]))
    for implicit, unrolled in zip(*found, strict=True):
        np.testing.assert_allclose(implicit.numpy(), unrolled.numpy(), rtol=1e-9, atol=1e-11)


def test_the_map_contracts_whatever_the_weights():
    layer = fixed()
    layer.weight.data.mul_(100)
    assert numbers(layer.contracting()).__abs__().sum(1).max() == pytest.approx(0.8)
    x, edges, *_ = parts()
    assert np.isfinite(numbers(layer(x, edges))).all()


# --------------------------------------------------------------------------------- the base class's conventions


class Difference(gnn.MessagePassing):
    def forward(self, x, edge_index, scale, **options):
        return self.propagate(edge_index, x=x, scale=scale, **options)

    def message(self, x_i, x_j, scale, index, size_i):
        assert size_i == 3 and len(index) == len(scale)
        return (x_i - x_j) * scale.unsqueeze(-1)

    def update(self, inputs, x):
        return inputs + (x if not isinstance(x, tuple) else x[1])


@pytest.mark.parametrize("flow", ["source_to_target", "target_to_source"])
def test_names_are_looked_up_at_both_ends(flow):
    x, edges, scale = (
        weft.tensor([[1.0], [2.0], [4.0]]),
        weft.tensor([[0, 0, 2], [1, 2, 1]]),
        weft.tensor([1.0, 10, 100]),
    )
    right = x.numpy().copy()
    for (a, b), k in zip(edges.numpy().T, scale.numpy(), strict=True):
        j, i = (a, b) if flow == "source_to_target" else (b, a)
        right[i] += k * (x.numpy()[i] - x.numpy()[j])
    close(Difference(flow=flow)(x, edges, scale), right)


def test_sources_and_targets_may_be_different_vertices():
    left, right = weft.randn(4, 1), weft.randn(3, 1)
    edges = weft.tensor([[0, 3, 3], [2, 0, 2]])
    found = Difference()((left, right), edges, weft.ones(3))
    expected = right.numpy().copy()
    for j, i in edges.numpy().T:
        expected[i] += right.numpy()[i] - left.numpy()[j]
    close(found, expected)
    assert gnn.SAGEConv((1, 1), 2)((left, right), edges).shape == (3, 2)
    assert gnn.GATConv((1, 1), 2, add_self_loops=False)((left, right), edges).shape == (3, 2)


# -------------------------------------------------------------------------------------- readouts and pooling


def test_top_k_pooling_is_its_formula():
    x, edges, attr, _ = parts()
    layer = gnn.TopKPooling(F, ratio=4)
    p = numbers(layer.weight)[0]
    score = np.tanh(x.numpy() @ p / np.linalg.norm(p))
    best = np.argsort(-score, kind="stable")[:4]
    found = layer(x, edges, attr)
    np.testing.assert_array_equal(found.perm.numpy(), best)
    close(found.x, x.numpy()[best] * score[best][:, None])
    inside = [e for e, (a, b) in enumerate(edges.numpy().T) if a in best and b in best]
    np.testing.assert_array_equal(best[found.edge_index.numpy()], edges.numpy()[:, inside])
    np.testing.assert_array_equal(found.edge_attr.numpy(), attr.numpy()[inside])


def test_diff_pool_and_its_losses():
    rng = np.random.default_rng(0)
    x, adj, s = rng.normal(size=(2, 4, 3)), rng.uniform(size=(2, 4, 4)), rng.normal(size=(2, 4, 2))
    mask = np.array([[True] * 4, [True, True, False, False]])
    p = np.exp(s) / np.exp(s).sum(-1, keepdims=True) * mask[..., None]
    found = gnn.dense_diff_pool(*(weft.tensor(part) for part in (x, adj, s)), weft.tensor(mask), normalize=False)
    close(found[0], np.einsum("bnc,bnf->bcf", p, x * mask[..., None]))
    close(found[1], np.einsum("bnc,bnm,bmd->bcd", p, adj, p))
    assert found[2].item() == pytest.approx(np.sqrt(((adj - p @ p.transpose(0, 2, 1)) ** 2).sum()))
    logs = np.log(np.where(p > 0, p, 1))
    assert found[3].item() == pytest.approx(-(p * logs).sum(-1).mean())


def test_clusters_as_vertices_weigh_the_cut():
    """Weights between pooled clusters are the numbers of edges between them: those of the cut of NetworkX."""
    g = nx.karate_club_graph()
    edges = weft.tensor(np.array([*g.edges, *[(b, a) for a, b in g.edges]]).T)
    side = np.array([g.nodes[v]["club"] != "Mr. Hi" for v in g]).astype(int)
    x, _, weights, _ = gnn.cluster_pool(weft.ones(34, 1), edges, weft.tensor(side), reduce="sum")
    assert weights.tolist() == [nx.cut_size(g, np.flatnonzero(side))] * 2
    assert x[:, 0].tolist() == [17, 17]


def test_set2set_reads_by_attention():
    x = weft.randn(5, 3)
    layer = gnn.Set2Set(3, processing_steps=1)
    q, _ = layer.lstm(weft.zeros(1, 1, 6))
    e = np.exp(x.numpy() @ numbers(q)[0, 0])
    close(layer(x), np.concatenate([numbers(q)[0, 0], e / e.sum() @ x.numpy()])[None])


# ---------------------------------------------------------------------------------------------- positions


def test_returns_of_walks_are_diagonals_of_powers():
    _, edges, *_ = parts()
    a = matrix(edges, None, 9).T
    p = a / np.maximum(a.sum(1), 1)[:, None]
    right = np.stack([np.diag(np.linalg.matrix_power(p, k)) for k in range(1, 5)], 1)
    np.testing.assert_allclose(gnn.random_walk_positions(edges, 4, 9).numpy(), right, atol=1e-6)


@pytest.mark.parametrize("count", [20, 600])  # all eigenvectors, or a few by Lanczos
def test_eigenvectors_span_the_lowest_frequencies(count):
    g = nx.random_geometric_graph(count, 0.35 if count == 20 else 0.09, seed=2)
    a = nx.to_numpy_array(g)
    found = gnn.laplacian_positions(weft.tensor(np.argwhere(a).T.reshape(2, -1)), 4, count).double().numpy()
    laplacian = np.diag((a.sum(1) > 0).astype(float)) - smoothing(a)
    values = np.linalg.eigvalsh(laplacian)[1:5]
    np.testing.assert_allclose(found.T @ found, np.eye(4), atol=1e-4)
    np.testing.assert_allclose(np.sort(np.diag(found.T @ laplacian @ found)), values, atol=1e-5)
    largest = found[np.abs(found).argmax(0), np.arange(4)]
    assert (largest > 0).all()  # the rule for signs


def test_positions_of_a_batch_are_those_of_its_graphs():
    two = weft.tensor([[0, 1, 1, 2, 3, 4], [1, 0, 2, 1, 4, 3]])
    owner = weft.tensor([0, 0, 0, 1, 1])
    for kind in (gnn.laplacian_positions, gnn.random_walk_positions):
        whole = kind(two, 3, batch=owner).numpy()
        np.testing.assert_allclose(whole[:3], kind(two[:, :4], 3, 3).numpy(), atol=1e-6)
        np.testing.assert_allclose(whole[3:], kind(two[:, 4:] - 3, 3, 2).numpy(), atol=1e-6)
