"""Batches filled up to one size: what was there is computed as without the rest, and a step is traced once."""

from __future__ import annotations

import numpy as np
import pytest

import weft
from weft import graphs as G
from weft import nn
from weft.errors import OptionError, ShapeError
from weft.graphs.nn import BatchNorm
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
