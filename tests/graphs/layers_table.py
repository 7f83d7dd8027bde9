"""Every layer, pooling and readout once, as a function of a graph: what tests of symmetry, batches, compiled code and threads run over."""

from __future__ import annotations

import numpy as np

import weft
from weft import nn
from weft.graphs import nn as gnn

F, D, C = 5, 3, 4  # features of vertices and of edges; channels of results


def graph(seed: int = 0, count: int = 9, edges: int = 20):
    """A directed graph with loops, repeated edges and isolated vertices: x, edge_index, edge_attr, positive edge_weight."""
    rng = np.random.default_rng(seed)
    ends = rng.integers(0, max(count - 2, 1), (2, edges))  # the last two are isolated
    if edges > 2:
        ends[:, 1] = ends[:, 0]
        ends[1, 2] = ends[0, 2]
    x, attr = rng.normal(size=(count, F)).astype(np.float32), rng.normal(size=(edges, D)).astype(np.float32)
    weight = rng.uniform(0.5, 2, edges).astype(np.float32)
    return weft.tensor(x), weft.tensor(ends), weft.tensor(attr), weft.tensor(weight)


def perceptron(inputs: int = F, outputs: int = C) -> nn.Module:
    return nn.Sequential(nn.Linear(inputs, 8), nn.ReLU(), nn.Linear(8, outputs))


# name → (how it is made, what it is given beside x and edge_index)
LAYERS = {
    "GCNConv": (lambda: gnn.GCNConv(F, C), ()),
    "GCNConv weighted": (lambda: gnn.GCNConv(F, C), ("weight",)),
    "GCNConv improved": (lambda: gnn.GCNConv(F, C, improved=True, bias=False), ("weight",)),
    "GCNConv against the arrows": (lambda: gnn.GCNConv(F, C, flow="target_to_source"), ("weight",)),
    "SGConv": (lambda: gnn.SGConv(F, C, K=3), ("weight",)),
    "APPNP": (lambda: gnn.APPNP(K=4, alpha=0.2), ("weight",)),
    "ChebConv": (lambda: gnn.ChebConv(F, C, K=4), ("weight",)),
    "SAGEConv": (lambda: gnn.SAGEConv(F, C), ()),
    "SAGEConv max": (lambda: gnn.SAGEConv(F, C, aggr="max", normalize=True, project=True), ()),
    "SAGEConv min": (lambda: gnn.SAGEConv(F, C, aggr="min", root_weight=False), ()),
    "SAGEConv softmax": (lambda: gnn.SAGEConv(F, C, aggr="softmax"), ()),
    "SAGEConv attention": (lambda: gnn.SAGEConv(F, C, aggr=gnn.AttentionalAggregation(nn.Linear(F, 1))), ()),
    "GATConv": (lambda: gnn.GATConv(F, C, heads=2), ()),
    "GATConv edges": (lambda: gnn.GATConv(F, C, heads=2, concat=False, edge_dim=D, residual=True), ("attr",)),
    "GATConv without loops": (lambda: gnn.GATConv(F, C, heads=3, add_self_loops=False), ()),
    "GATv2Conv": (lambda: gnn.GATv2Conv(F, C, heads=2), ()),
    "GATv2Conv edges": (lambda: gnn.GATv2Conv(F, C, edge_dim=D, share_weights=True), ("attr",)),
    "GINConv": (lambda: gnn.GINConv(perceptron(), eps=0.3), ()),
    "GINEConv": (lambda: gnn.GINEConv(perceptron(), train_eps=True, edge_dim=D), ("attr",)),
    "NNConv": (lambda: gnn.NNConv(F, C, perceptron(D, F * C), aggr="mean"), ("attr",)),
    "GatedGraphConv": (lambda: gnn.GatedGraphConv(6, num_layers=2), ("weight",)),
    "FixedPointConv": (lambda: gnn.FixedPointConv(F, C), ()),
    "FixedPointConv unrolled": (lambda: gnn.FixedPointConv(F, C, unrolled=3), ()),
    "GPSConv": (lambda: gnn.GPSConv(F, gnn.GINConv(perceptron(F, F)), heads=1), ()),
}


def made(name: str, seed: int = 3) -> nn.Module:
    weft.manual_seed(seed)
    return LAYERS[name][0]().eval()


def beside(name: str, attr: weft.Tensor, weight: weft.Tensor) -> tuple[weft.Tensor, ...]:
    parts = {"attr": attr, "weight": weight}
    return tuple(parts[word] for word in LAYERS[name][1])


def called(layer: nn.Module, name: str, x, edges, attr, weight) -> weft.Tensor:
    return layer(x, edges, *beside(name, attr, weight))


READOUTS = {
    "global_add_pool": lambda: gnn.global_add_pool,
    "global_mean_pool": lambda: gnn.global_mean_pool,
    "global_max_pool": lambda: gnn.global_max_pool,
    "attention": lambda: gnn.AttentionalAggregation(nn.Linear(F, 1), nn.Linear(F, C)),
    "softmax": lambda: gnn.SoftmaxAggregation(t=2.0, learn=True),
    "Set2Set": lambda: gnn.Set2Set(F, processing_steps=3),
    "GlobalVertex": lambda: _global_vertex(),
}


def _global_vertex():
    vertex = gnn.GlobalVertex(F)
    return lambda x, batch: vertex(x, None, batch)[1]


def readout(name: str):
    weft.manual_seed(5)
    return READOUTS[name]()
