"""What a graph is: attributes, sizes, kinds, subgraphs; several as one and taken apart again."""

from __future__ import annotations

import copy
import pickle

import networkx as nx
import numpy as np
import pytest

import weft
from weft.errors import ArgumentError, EntryError, IndexRangeError, OptionError, ShapeError
from weft.graphs import Batch, Data, DataLoader, Graph


def drawn(seed: int, nodes: int, directed: bool = True) -> Graph:
    """A random graph with loops, repeated and weighted edges, nodes without any, and all kinds of attributes."""
    random = np.random.default_rng(seed)
    edges = random.integers(0, max(nodes - 1, 1), (2, 3 * nodes if nodes > 1 else 0))  # the last node has none
    if not directed:
        edges = np.concatenate([edges, edges[::-1]], 1)
    rows = edges.shape[1]
    return Data(
        x=weft.from_numpy(random.standard_normal((nodes, 3))),
        edge_index=weft.from_numpy(edges),
        edge_attr=weft.from_numpy(random.standard_normal((rows, 2))),
        edge_weight=weft.from_numpy(random.uniform(0.5, 2, rows)),
        y=weft.tensor([seed]),
        pos=weft.from_numpy(random.standard_normal((nodes, 2))),
        train_mask=weft.from_numpy(random.random(nodes) < 0.5),
        name=f"graph {seed}",
        size=seed + 0.5,
        anchor_index=weft.tensor([0, nodes - 1]),
    )


# ------------------------------------------------------------------------------------------ one graph
def test_data_and_graph_are_one_class():
    assert Data is Graph is weft.data.Graph is weft.data.sources.Graph
    assert issubclass(Batch, Graph)


def test_arguments_in_the_order_of_pytorch_geometric():
    x, edges, attr, y, pos = (
        weft.ones(2, 1),
        weft.tensor([[0], [1]]),
        weft.ones(1, 4),
        weft.tensor([1]),
        weft.ones(2, 3),
    )
    graph = Data(x, edges, attr, y, pos)
    assert [graph.x is x, graph.edge_index is edges, graph.edge_attr is attr, graph.y is y, graph.pos is pos] == [
        True
    ] * 5
    assert (graph.num_nodes, graph.num_edges, graph.num_features, graph.num_edge_features) == (2, 1, 1, 4)


def test_attributes_are_found_by_name():
    graph = drawn(0, 5)
    assert graph.name == "graph 0" == graph["name"] and "name" in graph and "val_mask" not in graph
    graph.colour = weft.arange(5)
    graph["label"] = 3
    assert graph.is_node_attr("colour") and graph.attr_kind("label") == "graphs" and graph.to_dict()["label"] == 3
    assert graph.is_edge_attr("edge_weight") and graph.attr_kind("anchor_index") == "graphs"
    with pytest.raises(EntryError, match="no attribute 'weight'; it has x"):
        graph["weight"]
    with pytest.raises(AttributeError):
        graph.nothing  # noqa: B018
    for name in ("keys", "subgraph", "num_edges"):
        with pytest.raises(ArgumentError, match=f"cannot be called '{name}'"):
            Data(**{name: 1})


@pytest.mark.parametrize(
    ("parts", "count"),
    [
        ({}, 0),
        ({"edge_index": weft.tensor([[0, 3], [1, 1]])}, 4),
        ({"edge_index": weft.tensor([[0], [1]]), "num_nodes": 7}, 7),
        ({"x": weft.ones(3, 1)}, 3),
        ({"pos": weft.ones(4, 2)}, 4),
        ({"train_mask": weft.zeros(6, dtype=weft.bool)}, 6),
    ],
)
def test_how_many_nodes_there_are(parts, count):
    assert Data(**parts).num_nodes == count


def test_a_ring_has_as_many_edges_as_nodes_and_names_tell_whose_attributes_are():
    ring = Data(edge_index=weft.tensor([[0, 1, 2], [1, 2, 0]]), edge_kind=weft.arange(3), colour=weft.arange(3))
    assert ring.is_edge_attr("edge_kind") and ring.is_node_attr("colour")


@pytest.mark.parametrize(
    ("parts", "message"),
    [
        ({"edge_index": weft.zeros(3, 2, dtype=weft.int64)}, r"must be a tensor \(2, E\), got \(3, 2\)|Size"),
        ({"edge_index": weft.zeros(2, 2)}, "whole numbers, got weft.float32"),
        ({"edge_index": weft.tensor([[0], [-1]])}, r"join nodes -1\.\.0 of"),
        ({"edge_index": weft.tensor([[0], [5]]), "num_nodes": 3}, r"nodes 0\.\.5 of 3"),
        ({"x": weft.ones(3, 1), "pos": weft.ones(2, 1)}, "pos must have 3 rows, got"),
        ({"edge_index": weft.tensor([[0], [1]]), "edge_weight": weft.ones(2)}, "edge_weight must have 1 rows"),
        ({"edge_index": [[0], [1]]}, "must be a tensor"),
    ],
)
def test_graphs_that_cannot_be(parts, message):
    with pytest.raises(ShapeError, match=message):
        Data(**parts)


@pytest.mark.parametrize("seed", range(4))
def test_properties_as_networkx(seed):
    graph = drawn(seed, 8, directed=seed % 2 == 0)
    edges = graph.edge_index.T.tolist()
    witness = nx.MultiDiGraph(edges)
    witness.add_nodes_from(range(8))
    assert graph.is_undirected() is False and graph.is_directed()  # weights differ from one direction to the other
    plain = graph.replace(edge_weight=None)
    assert plain.is_undirected() == (sorted(edges) == sorted(pair[::-1] for pair in edges))
    assert graph.has_self_loops() == (nx.number_of_selfloops(witness) > 0)
    alone = [n for n in witness if set(witness.successors(n)) | set(witness.predecessors(n)) <= {n}]
    assert graph.has_isolated_nodes() == bool(alone) and 7 in alone
    assert not graph.is_coalesced() and weft.graphs.coalesce(graph).is_coalesced()


@pytest.mark.parametrize("nodes", [[], [2], [0, 3, 1], [5, 4, 3, 2, 1, 0]])
def test_subgraph_as_networkx(nodes):
    graph = drawn(3, 6)
    found = graph.subgraph(weft.tensor(nodes, dtype=weft.int64))
    witness = nx.MultiDiGraph()
    witness.add_nodes_from(range(6))
    for number, (a, b) in enumerate(graph.edge_index.T.tolist()):
        witness.add_edge(a, b, number=number)
    expected = nx.relabel_nodes(witness.subgraph(nodes), {old: new for new, old in enumerate(nodes)})
    rows = sorted((number, a, b) for a, b, number in expected.edges(data="number"))
    assert found.num_nodes == len(nodes) and found.edge_index.T.tolist() == [[a, b] for _, a, b in rows]
    kept = [number for number, _, _ in rows]
    np.testing.assert_array_equal(found.edge_weight, graph.edge_weight.numpy()[kept])
    np.testing.assert_array_equal(found.x, graph.x.numpy()[nodes])
    assert found.y.tolist() == [3] and found.name == graph.name
    if nodes == sorted(nodes):
        mask = weft.zeros(6, dtype=weft.bool)
        mask[weft.tensor(nodes, dtype=weft.int64)] = True
        np.testing.assert_array_equal(graph.subgraph(mask).edge_index, found.edge_index)


@pytest.mark.parametrize(
    ("nodes", "message"),
    [
        (weft.tensor([True]), "a bool for each of 6"),
        (weft.tensor([0.5]), "or the numbers of nodes"),
        (weft.tensor([6]), r"of 0\.\.5, got 6"),
        (weft.tensor([1, 1]), "each node once"),
    ],
)
def test_subgraphs_that_cannot_be(nodes, message):
    with pytest.raises(ShapeError, match=message):
        drawn(0, 6).subgraph(nodes)


def test_gradients_reach_features_and_weights_through_subgraphs_and_batches():
    graph = drawn(1, 5)
    graph.x.requires_grad_()
    graph.edge_weight.requires_grad_()
    joined = Batch.from_data_list([graph, graph])
    (joined[1].subgraph(weft.tensor([0, 1])).x.sum() + joined.edge_weight.sum()).backward()
    assert graph.x.grad[:, 0].tolist() == [1, 1, 0, 0, 0] and graph.edge_weight.grad.tolist() == [2.0] * 15


def test_a_clone_has_memory_of_its_own():
    graph = drawn(0, 4)
    copy = graph.clone()
    copy.x.fill_(0)
    copy.y = None
    assert graph.x.numpy().all() and graph.y.tolist() == [0]


def test_graphs_are_copied_pickled_moved_and_gone_through():
    graph = drawn(0, 4)
    for other in (
        copy.copy(graph),
        copy.deepcopy(graph),
        pickle.loads(pickle.dumps(graph)),
        graph.to("cpu"),
        graph.cpu(),
    ):
        same(graph, other)
    assert dict(graph) == graph.to_dict() and graph.apply(lambda t: t * 0, "pos").pos.abs().sum().item() == 0
    joined = Batch.from_data_list(GRAPHS)
    for before, after in zip(GRAPHS, pickle.loads(pickle.dumps(joined)), strict=True):
        same(before, after)


# ------------------------------------------------------------------------------------------ batches
def same(a: Graph, b: Graph) -> None:
    assert a.num_nodes == b.num_nodes and sorted(a.keys()) == sorted(b.keys())
    for name, value in a.items():
        if isinstance(value, weft.Tensor):
            assert value.dtype == b[name].dtype and value.shape == b[name].shape, name
            np.testing.assert_array_equal(value, b[name], err_msg=name)
        else:
            assert value == b[name]


GRAPHS = [drawn(seed, nodes) for seed, nodes in enumerate((5, 1, 3, 9))]
for _graph in GRAPHS:
    _graph.size = weft.tensor([_graph.size])


def test_batch_is_block_diagonal():
    joined = Batch.from_data_list(GRAPHS)
    dense = np.zeros((18, 18))
    np.add.at(dense, tuple(joined.edge_index.numpy()), joined.edge_weight.numpy())
    start = 0
    for graph in GRAPHS:
        block = np.zeros((graph.num_nodes,) * 2)
        np.add.at(block, tuple(graph.edge_index.numpy()), graph.edge_weight.numpy())
        end = start + graph.num_nodes
        np.testing.assert_array_equal(dense[start:end, start:end], block)
        dense[start:end, start:end] = 0
        start = end
    assert not dense.any()
    assert joined.ptr.tolist() == [0, 5, 6, 9, 18] and joined.num_graphs == len(joined) == joined.batch_size == 4
    assert joined.batch.tolist() == [0] * 5 + [1] + [2] * 3 + [3] * 9
    assert joined.anchor_index.tolist() == [0, 4, 5, 5, 6, 8, 9, 17]
    assert joined.name == ["graph 0", "graph 1", "graph 2", "graph 3"] and joined.size.tolist() == [0.5, 1.5, 2.5, 3.5]


def test_batches_are_taken_apart_again():
    joined = Batch.from_data_list(GRAPHS)
    for before, after in zip(GRAPHS, joined.to_data_list(), strict=True):
        same(before, after)
    same(GRAPHS[3], joined[-1])
    with pytest.raises(IndexRangeError, match="below 4, got 4"):
        joined[4]


def test_graphs_without_nodes_keep_their_place():
    empty = Data(x=weft.ones(0, 2), y=weft.tensor([7]))
    full = Data(x=weft.ones(2, 2), edge_index=weft.tensor([[0], [1]]), y=weft.tensor([8]))
    joined = Batch.from_data_list([empty, full, empty])
    assert joined.ptr.tolist() == [0, 0, 2, 2] and joined.y.tolist() == [7, 8, 7]
    assert [g.num_nodes for g in joined.to_data_list()] == [0, 2, 0] and joined[2].edge_index.shape == (2, 0)


def test_a_label_of_a_graph_with_one_node_stays_one_of_the_graph():
    joined = Batch.from_data_list(GRAPHS)
    assert joined.attr_kind("y") == "graphs"
    part = joined.subgraph(joined.batch != 1)
    assert part.y.tolist() == [0, 1, 2, 3] and part.num_graphs == 4 and part[1].num_nodes == 0
    same(part[3], GRAPHS[3].replace(anchor_index=part[3].anchor_index))


def test_attributes_that_some_graph_lacks_are_left_out():
    joined = Batch.from_data_list([Data(x=weft.ones(1, 1), y=weft.tensor([1])), Data(x=weft.ones(2, 1))])
    assert joined.y is None and joined.num_nodes == 3
    with pytest.raises(OptionError, match="at least one graph"):
        Batch.from_data_list([])


def test_loader_gives_batches():
    seen = [batch.y.tolist() for batch in DataLoader(GRAPHS, batch_size=3)]
    assert seen == [[0, 1, 2], [3]]
    weft.manual_seed(0)
    orders = [[y for batch in loader for y in batch.y.tolist()] for loader in [DataLoader(GRAPHS, 2, True)] * 2]
    assert all(sorted(order) == [0, 1, 2, 3] for order in orders)


def test_compiled_functions_take_graphs():
    """And change them, add loops and count degrees: nothing of it asks for values."""

    def step(graph):
        changed = graph.replace(x=graph.x * 2)
        edges, weight = weft.graphs.add_self_loops(changed.edge_index, changed.edge_weight, 1.0, changed.num_nodes)
        return changed.x.sum(), weft.graphs.degree(edges[0], changed.num_nodes, weight=weight)

    for graph in (GRAPHS[0], Batch.from_data_list(GRAPHS)):
        for found, expected in zip(weft.compile(step)(graph), step(graph), strict=True):
            np.testing.assert_allclose(found, expected)
    joined = Batch.from_data_list(GRAPHS)
    assert weft.compile(lambda batch: batch.ptr * 2)(joined).tolist() == [0, 10, 12, 18, 36]
