"""Batches filled up to one size: what was there is computed as without the rest, and a step is traced once."""

from __future__ import annotations

import numpy as np
import pytest

import weft
from weft import graphs as G
from weft import nn
from weft.errors import OptionError, ShapeError
from weft.graphs.nn import BatchNorm, GATConv, GINConv, SAGEConv
from weft.models.graphs import GIN
from weft.nn import functional as F


def drawn(count=5, width=3):
    rng = np.random.default_rng(0)
    made = []
    for number in range(count):
        graph = G.erdos_renyi(4 + number, 0.5, seed=number)
        x = weft.tensor(rng.standard_normal((graph.num_nodes, width)).astype(np.float32))
        made.append(graph.replace(x=x, y=weft.tensor([number % 2])))
    return made


def tracked(model):
    return {name: value.numpy().copy() for name, value in model.state_dict().items() if "running" in name}


def stepped(batch, mask):
    """Loss, gradients and running statistics of one training step."""
    weft.manual_seed(0)
    model = GIN(3, 8, 2, num_layers=2, dropout=0.0)

    def loss(batch, weight):
        said = model(batch.x, batch.edge_index, batch.batch, len(weight), batch.node_mask if mask else None)
        return (F.cross_entropy(said, batch.y, reduction="none") * weight).sum() / weight.sum()

    weight = batch.graph_mask.float() if mask else weft.ones(batch.num_graphs)
    found = loss(batch, weight)
    found.backward()
    return found.item(), [p.grad.numpy() for p in model.parameters()], tracked(model)


def test_padding_changes_nothing():
    """Loss, gradients and running statistics of an isomorphism network with batch normalisation, to rounding."""
    batch = G.Batch.from_data_list(drawn())
    plain = stepped(batch, False)
    full = stepped(G.padded(batch, 64, 200, 9), True)
    assert full[0] == pytest.approx(plain[0], rel=1e-5)
    for a, b in zip(plain[1], full[1], strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-4, atol=1e-6)
    for name, value in plain[2].items():
        np.testing.assert_allclose(full[2][name], value, rtol=1e-5, atol=1e-6)


def test_batches_of_one_size_are_traced_once():
    batches = list(G.PaddedBatches(drawn(), batch_size=2))
    assert len({(b.num_nodes, b.num_edges) for b in batches}) == 1 and len(batches) > 1
    model = GIN(3, 4, 2, num_layers=1).eval()

    @weft.compile
    def asked(batch):
        return model(batch.x, batch.edge_index, batch.batch, 3, batch.node_mask)

    for batch in batches:
        there = batch.graph_mask.numpy()
        loose = model(batch.x, batch.edge_index, batch.batch, 3).detach().numpy()
        np.testing.assert_allclose(asked(batch).detach().numpy()[there], loose[there], rtol=1e-4, atol=1e-5)
    assert sum(map(len, asked.plans.values())) == 1


def test_every_graph_has_room_once():
    graphs = drawn(9)
    loader = G.PaddedBatches(graphs, 4, room=1.0, shuffle=True, generator=np.random.default_rng(3))
    seen = [row for batch in loader for row in batch.x[batch.node_mask].tolist()]
    assert sorted(seen) == sorted(row for graph in graphs for row in graph.x.tolist())
    assert all(int(batch.graph_mask.sum()) <= 4 for batch in loader)


def test_sampled_neighbourhoods_have_few_sizes():
    ring = G.ring(64).replace(x=weft.arange(64).float().unsqueeze(1))
    loader = G.NeighborLoader(ring, [2, 1], batch_size=5, shuffle=True, seed=0)
    full = [G.padded(batch) for batch in loader]
    assert len({(b.num_nodes, b.num_edges) for b in full}) < len({(b.num_nodes, b.num_edges) for b in loader})
    assert sorted(int(v) for b in full for v in b.x[b.input_mask].flatten()) == list(range(64))


class Two(nn.Module):
    """Two layers, and one step of learning from a sampled batch."""

    def __init__(self, layer):
        super().__init__()
        weft.manual_seed(0)
        self.first, self.second = layer(3, 4), layer(4, 2)
        self.optimizer = weft.optim.Adam(self.parameters(), lr=0.05)

    def forward(self, graph):
        return self.second(self.first(graph.x, graph.edge_index).tanh(), graph.edge_index)

    def step(self, graph, count, weight):
        losses = F.cross_entropy(self(graph)[:count], graph.y[:count], reduction="none")
        loss = (losses * weight).sum() / weight.sum()
        self.optimizer.zero_grad()
        loss.backward()
        self.optimizer.step()
        return loss.detach()


LAYERS = {"sage": SAGEConv, "gat": GATConv, "gin": lambda i, o: GINConv(nn.Linear(i, o))}


@pytest.mark.parametrize("name", LAYERS)
@pytest.mark.parametrize("stored", [False, True])
def test_training_by_neighbour_sampling_is_traced_once(name, stored, tmp_path):
    """An epoch with a smaller last batch: the losses are those of batches as they are, in eager mode."""
    rng = np.random.default_rng(0)
    graph = G.erdos_renyi(43, 0.2, directed=True, seed=1)
    graph = graph.replace(
        x=weft.tensor(rng.standard_normal((43, 3)).astype(np.float32)), y=weft.tensor(rng.integers(0, 2, 43))
    )
    graph = G.write_graph(tmp_path, graph) if stored else graph
    options = {"num_neighbors": [3, 2], "batch_size": 8, "shuffle": True, "seed": 4}
    loader = G.NeighborLoader(graph, **options, padded=True)
    eager, model = Two(LAYERS[name]), Two(LAYERS[name])
    step = weft.compile(lambda batch: model.step(batch, 8, batch.input_mask[:8].float()))
    for batch, plain in zip(loader, G.NeighborLoader(graph, **options), strict=True):
        assert (batch.num_nodes, batch.num_edges) == loader.sizes and plain.num_nodes < loader.sizes[0]
        assert batch.input_id[batch.input_mask[:8]].tolist() == plain.input_id.tolist()
        expected = eager.step(plain, plain.batch_size, weft.ones(plain.batch_size))
        assert step(batch).item() == pytest.approx(expected.item(), rel=1e-4)
    assert sum(map(len, step.plans.values())) == 1


@pytest.mark.parametrize("fanouts", [[2], [-1], [2, -1], [5, 5, 5], [0, 3], [-1, -1, -1]])
@pytest.mark.parametrize("replace", [False, True])
def test_no_sampled_batch_exceeds_the_size_that_is_foreseen(fanouts, replace):
    for graph in (
        G.erdos_renyi(30, 0.3, directed=True, seed=2),
        G.ring(30),
        G.from_edge_list([(i, 0) for i in range(9)]),
    ):
        for size in (1, 4, 40):
            loader = G.NeighborLoader(graph, fanouts, None, size, replace=replace, padded=True, seed=0)
            assert {(b.num_nodes, b.num_edges) for b in loader} == {loader.sizes}
            assert loader.sizes[0] <= graph.num_nodes + 1


def test_sizes_of_sampled_batches_may_be_given():
    loader = G.NeighborLoader(G.ring(20), [2], batch_size=2, padded=(9, 6))
    assert loader.sizes == (9, 6) and {(b.num_nodes, b.num_edges) for b in loader} == {(9, 6)}
    with pytest.raises(OptionError, match="num_nodes"):
        next(iter(G.NeighborLoader(G.ring(20), [2, 2], batch_size=2, padded=(5, 20))))


@pytest.mark.parametrize(
    ("sizes", "word"), [((5, 30, 4), "num_nodes"), ((20, 3, 4), "num_edges"), ((20, 90, 2), "num_graphs")]
)
def test_too_little_room_is_refused(sizes, word):
    with pytest.raises(OptionError, match=word):
        G.padded(G.Batch.from_data_list(drawn(2)), *sizes)


def test_options_of_padded_batches_are_checked():
    for graphs, size, room in (([], 1, 1.0), (drawn(1), 0, 1.0), (drawn(1), 1, 0.5)):
        with pytest.raises(OptionError, match="PaddedBatches"):
            G.PaddedBatches(graphs, size, room)


def test_masked_batch_normalisation_is_that_of_the_chosen_rows():
    x, mask = weft.randn(7, 3), weft.tensor([True, False, True, True, False, True, True])
    ours, plain = BatchNorm(3), nn.BatchNorm1d(3)
    np.testing.assert_allclose(ours(x, mask)[mask].detach(), plain(x[mask]).detach(), rtol=1e-5, atol=1e-6)
    for name in ("running_mean", "running_var", "num_batches_tracked"):
        np.testing.assert_allclose(getattr(ours.module, name), getattr(plain, name), rtol=1e-6)
    with pytest.raises(ShapeError, match="mask"):
        ours(x, mask[:3])
    ours.eval(), plain.eval()
    np.testing.assert_array_equal(ours(x, mask).detach(), plain(x).detach())
