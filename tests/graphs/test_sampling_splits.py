"""Splits without leaks, negatives, folds, and detectors that find the usual faults."""

from __future__ import annotations

import json

import numpy as np
import pytest
import scipy.stats

import weft
from weft import graphs as G
from weft.errors import ConditionError, OptionError
from weft.io.errors import LayoutError


def seeded(seed: int = 0) -> weft.Generator:
    return weft.Generator().manual_seed(seed)


def pairs(edges, undirected: bool = True) -> set:
    rows = map(tuple, edges.T.tolist())
    return {tuple(sorted(row)) if undirected else row for row in rows}


def awkward(seed: int = 0) -> G.Graph:
    """Undirected, with loops, repeated and weighted edges, and nodes without any."""
    random = np.random.default_rng(seed)
    half = random.integers(0, 38, (2, 120))
    half = np.concatenate([half, half[:, :10]], 1)
    weight = random.uniform(1, 2, half.shape[1])
    proper = half[0] != half[1]
    edges = np.concatenate([half, half[::-1, proper]], 1)
    return G.Graph(
        edge_index=weft.from_numpy(np.ascontiguousarray(edges)),
        edge_weight=weft.from_numpy(np.concatenate([weight, weight[proper]])),
        num_nodes=40,
        x=weft.ones(40, 2),
    )


# ------------------------------------------------------------------------------------------ links
@pytest.mark.parametrize("disjoint", [0.0, 0.3])
@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("kind", ["undirected", "directed", "awkward"])
def test_link_splits_do_not_leak(kind, seed, disjoint):
    """Reverse edges, repeated edges and negatives of the three parts are apart; checked here without check_split."""
    graph = {
        "undirected": lambda: G.erdos_renyi(60, 0.1, seed=seed),
        "directed": lambda: G.erdos_renyi(60, 0.06, directed=True, seed=seed),
        "awkward": lambda: awkward(seed),
    }[kind]()
    both = kind != "directed"
    split = G.RandomLinkSplit(0.1, 0.2, disjoint_train_ratio=disjoint, generator=seeded(seed))
    train, val, test = split(graph)
    all_links = {p for p in pairs(graph.edge_index, both) if p[0] != p[1]}
    seen = [pairs(part.edge_index, both) for part in (train, val, test)]
    links, others = (
        [pairs(part.edge_label_index[:, part.edge_label == label], both) for part in (train, val, test)]
        for label in (1, 0)
    )
    assert len(links[1]) == int(0.1 * len(all_links)) and len(links[2]) == int(0.2 * len(all_links))
    assert not links[1] & links[2] and not (links[1] | links[2]) & links[0]
    for number in (1, 2):
        assert not links[number] & seen[number] and not links[number] & seen[0]
    assert not links[2] & seen[1]
    assert (not links[0] & seen[0]) if disjoint else links[0] <= seen[0]
    assert seen[1] <= seen[2] and seen[0] <= seen[1] and links[1] <= seen[2]
    assert links[0] | links[1] | links[2] | {p for p in seen[0] if p[0] != p[1]} == all_links
    for number in range(3):
        assert len(others[number]) == len(links[number]) == int((train, val, test)[number].edge_label.sum())
        assert not others[number] & all_links and all(a != b for a, b in others[number])
        assert all(not others[number] & others[k] for k in range(number))
    for part in (train, val, test):
        assert not both or part.is_undirected()
        assert part.num_nodes == graph.num_nodes and part.x is graph.x
    counted = G.check_split(train, val, test)
    assert counted["test links"] == len(links[2]) and counted["train others"] == len(others[0])
    again = G.RandomLinkSplit(0.1, 0.2, disjoint_train_ratio=disjoint, generator=seeded(seed))(graph)
    assert all(
        a.edge_label_index.tolist() == b.edge_label_index.tolist()
        for a, b in zip((train, val, test), again, strict=True)
    )


def test_link_splits_keep_loops_and_attributes_with_their_edges():
    graph = awkward()
    train, *_ = G.RandomLinkSplit(0.1, 0.2, generator=seeded())(graph)
    loops = lambda g: int((g.edge_index[0] == g.edge_index[1]).sum())
    assert loops(train) == loops(graph) > 0
    weights = {}
    for source, target, weight in G.to_edge_list(graph):
        weights.setdefault((source, target), []).append(weight)
    assert all(weight in weights[source, target] for source, target, weight in G.to_edge_list(train))


def test_training_without_negatives_and_other_ratios():
    graph = G.erdos_renyi(50, 0.1, seed=0)
    train, val, _ = G.RandomLinkSplit(10, 20, add_negative_train_samples=False, neg_sampling_ratio=3.0)(graph)
    assert train.edge_label.min().item() == 1 and val.edge_label.tolist() == [1.0] * 10 + [0.0] * 30


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: G.RandomLinkSplit(0.5, 0.5)(G.ring(10)), "left for training"),
        (lambda: G.RandomLinkSplit(0.1, 0.2)(G.complete(6)), "the graph has 0; lower"),
        (lambda: G.RandomLinkSplit(0.1, 0.2, is_undirected=True)(G.ring(9, directed=True)), "one direction only"),
        (lambda: G.RandomLinkSplit(1.5)(G.ring(9)), "a share below 1"),
        (lambda: G.RandomLinkSplit(disjoint_train_ratio=1.0), r"disjoint_train_ratio in \[0, 1\)"),
        (lambda: G.RandomNodeSplit("half"), "must be 'train_rest'"),
        (lambda: G.RandomNodeSplit(num_splits=0), "at least one split"),
        (lambda: G.RandomNodeSplit(num_val=5, num_test=6)(G.ring(10)), "are wanted of 10"),
        (lambda: G.RandomNodeSplit("random")(G.ring(10)), "needs a class"),
        (
            lambda: G.RandomNodeSplit("random", num_train_per_class=3)(G.ring(4).replace(y=weft.tensor([0, 0, 1, 1]))),
            "some have fewer",
        ),
        (lambda: G.negative_sampling(weft.tensor([[0], [1]]), num_neg_samples=-1), "at least 0"),
    ],
)
def test_splits_that_cannot_be(call, message):
    with pytest.raises(OptionError, match=message):
        call()


# ------------------------------------------------------------------------------------------ the detector
def leaks():
    """The faults of toy versions, each made out of a sound split."""
    train, val, test = G.RandomLinkSplit(0.1, 0.2, generator=seeded())(G.erdos_renyi(60, 0.1, seed=0))
    link, other = test.edge_label_index[:, :1], test.edge_label_index[:, -1:]
    with_edge = lambda part, edge: part.replace(edge_index=weft.cat([part.edge_index, edge, edge.flip(0)], 1))
    with_label = lambda part, pair, label: part.replace(
        edge_label_index=weft.cat([part.edge_label_index, pair], 1),
        edge_label=weft.cat([part.edge_label, weft.tensor([label])]),
    )
    return {
        "sound": ((train, val, test), None),
        "test edge in training messages": ((with_edge(train, link), val, test), "edge_index of train"),
        "the reverse edge too": ((with_edge(train, link.flip(0)), val, test), "edge_index of train"),
        "test edge in its own messages": ((train, val, with_edge(test, link)), "its own edge_index"),
        "test link trained with": ((with_label(train, link.flip(0), 1.0), val, test), "links of train"),
        "negatives overlap": ((train, with_label(val, other, 0.0), test), "other pairs of test"),
        "a negative is an edge": ((train, val, with_label(test, train.edge_index[:, :1], 0.0)), "with label 0"),
        "a negative is a link of another part": (
            (with_label(train, val.edge_label_index[:, :1], 0.0), val, test),
            "with label 0",
        ),
    }


@pytest.mark.parametrize("name", leaks())
def test_leaks_are_found(name):
    parts, message = leaks()[name]
    if message is None:
        assert G.check_split(*parts)["val links"] > 0
    else:
        with pytest.raises(ConditionError, match=message):
            G.check_split(*parts)


def test_masks_that_overlap_are_found():
    mask = weft.tensor([True, False, True])
    with pytest.raises(ConditionError, match="1 nodes are both in train_mask and test_mask, 2 for one"):
        G.check_split(G.Graph(train_mask=mask, test_mask=weft.tensor([False, False, True])))
    assert G.check_split(G.Graph(train_mask=mask, val_mask=~mask)) == {"train_mask": 2, "val_mask": 1}
    with pytest.raises(ConditionError, match="three graphs"):
        G.check_split(G.ring(3))


@pytest.mark.parametrize("name", ["cora", "citeseer"])
def test_public_splits_are_apart_and_have_no_papers_that_are_missing(real, name):
    """Citeseer lacks 15 test papers: rows of zeros that belong to no part."""
    graph = weft.data.Planetoid(real, name)[0]
    counted = G.check_split(graph)
    assert counted["test_mask"] == 1000 and counted["val_mask"] == 500
    lowest = int(np.flatnonzero(graph.test_mask.numpy()).min())
    missing = np.setdiff1d(np.arange(lowest, graph.num_nodes), np.flatnonzero(graph.test_mask.numpy()))
    assert len(missing) == {"cora": 0, "citeseer": 15}[name]
    assert not graph.x.numpy()[missing].any()
    assert not any(mask.numpy()[missing].any() for mask in (graph.train_mask, graph.val_mask, graph.test_mask))


# ------------------------------------------------------------------------------------------ nodes
@pytest.mark.parametrize("seed", range(2))
def test_node_splits(seed):
    graph = G.stochastic_block_model([30, 50, 20], np.full((3, 3), 0.1), seed=0)
    rest = G.RandomNodeSplit("train_rest", num_val=0.1, num_test=20, generator=seeded(seed))(graph)
    few = G.RandomNodeSplit("test_rest", num_train_per_class=5, num_val=10, generator=seeded(seed))(graph)
    some = G.RandomNodeSplit("random", 4, 5, 10, 20, generator=seeded(seed))(graph)
    sizes = lambda g: [int(m.sum()) for m in (g.train_mask, g.val_mask, g.test_mask)]
    assert sizes(rest) == [70, 10, 20] and sizes(few) == [15, 10, 75]
    assert np.bincount(graph.y.numpy()[few.train_mask.numpy()]).tolist() == [5, 5, 5]
    assert some.train_mask.shape == (100, 4) and some.test_mask.numpy().sum(0).tolist() == [20] * 4
    for split in (rest, few, some):
        G.check_split(split)
    assert (some.train_mask[:, 0] != some.train_mask[:, 1]).any()


# ------------------------------------------------------------------------------------------ negatives
@pytest.mark.parametrize("undirected", [False, True])
@pytest.mark.parametrize(
    ("n", "p", "wanted"),
    [(30, 0.1, 50), (30, 0.1, 600), (30, 0.9, 40), (30, 0.5, 10**6), (3000, 0.002, 5000), (1, 0.0, 5)],
)
def test_negatives_are_no_edges(n, p, wanted, undirected):
    graph = G.erdos_renyi(n, p, directed=not undirected, seed=1)
    found = G.negative_sampling(graph.edge_index, n, wanted, undirected, generator=seeded())
    rows = pairs(found, False)
    free = n * (n - 1) - graph.num_edges
    assert len(rows) == found.shape[1] == min(wanted, free) and not rows & pairs(graph.edge_index, False)
    assert all(a != b and 0 <= a < n and 0 <= b < n for a, b in rows)
    if undirected:
        assert rows == {(b, a) for a, b in rows}


@pytest.mark.parametrize("enumerated", [0, 1 << 22])
def test_negatives_are_uniform(monkeypatch, enumerated):
    monkeypatch.setattr("weft.graphs.negatives.ENUMERATED", enumerated)
    edges = G.path(6).edge_index
    counts: dict = {}
    for seed in range(600):
        for row in G.negative_sampling(edges, 6, 4, generator=seeded(seed)).T.tolist():
            counts[tuple(row)] = counts.get(tuple(row), 0) + 1
    assert len(counts) == 20 and scipy.stats.chisquare(list(counts.values())).pvalue > 1e-3


# ------------------------------------------------------------------------------------------ equivariance
def test_layers_that_look_at_numbers_are_found():
    graph = G.erdos_renyi(12, 0.3, seed=0).replace(x=weft.randn(12, 3))
    sums = lambda g: G.adjacency(g) @ g.x
    assert G.check_equivariant(sums, graph) < 1e-5
    assert G.check_equivariant(lambda g: sums(g).sum(0), graph, invariant=True) < 1e-5
    with pytest.raises(ConditionError, match="depends on how nodes are numbered"):
        G.check_equivariant(lambda g: sums(g) + weft.arange(12.0)[:, None], graph)
    with pytest.raises(ConditionError, match="depends on how nodes are numbered"):
        G.check_equivariant(lambda g: sums(g)[0], graph, invariant=True)
    with pytest.raises(ConditionError, match="in another order"):
        G.check_equivariant(lambda g: g.x[: int(g.edge_index[0, 0])], graph, invariant=True, trials=50)
    other = G.permuted(graph, weft.arange(12).flip(0))
    np.testing.assert_allclose(sums(other), sums(graph).flip(0), rtol=1e-5, atol=1e-6)


# ------------------------------------------------------------------------------------------ folds
@pytest.mark.parametrize(("name", "file", "count"), [("ENZYMES", "ENZYMES", 600), ("PROTEINS", "PROTEINS_full", 1113)])
def test_folds_of_the_fair_comparison(real, name, file, count):
    folds = G.read_folds(real / "tu-splits" / f"{file}_splits.json", count)
    assert len(folds) == 10 and sum(len(fold.test) for fold in folds) == count
    for fold in folds:
        assert sorted(np.concatenate(fold)) == list(range(count))
        assert len(fold.val) == pytest.approx(0.1 * (count - len(fold.test)), abs=1)


def test_own_folds_are_balanced_and_apart():
    labels = np.repeat([0, 1], [125, 63])
    folds = G.nested_folds(weft.from_numpy(labels), 10, seed=1)
    assert sorted(np.concatenate([fold.test for fold in folds])) == list(range(188))
    for fold in folds:
        assert sorted(np.concatenate(fold)) == list(range(188))
        for part in fold:
            assert labels[part].mean() == pytest.approx(63 / 188, abs=0.06)
    assert not np.array_equal(folds[0].test, G.nested_folds(labels, 10, seed=2)[0].test)
    with pytest.raises(OptionError, match=r"val in \(0, 1\)"):
        G.nested_folds(labels, val=0.0)


def test_no_test_fold_chooses():
    """A candidate that is best on test folds but not on validation is not chosen; what is tested was not fitted on."""
    folds = G.nested_folds([0, 1] * 30, 5)
    asked = []

    def fit(candidate, train, val):
        assert not set(train) & set(val)
        return {"good on validation": 0.9, "good on test": 0.5}[candidate], (candidate, set(train) | set(val))

    def test(model, rows):
        asked.append(model[0])
        assert not model[1] & set(rows)
        return {"good on validation": 0.6, "good on test": 1.0}[model[0]]

    found = G.nested_evaluation(folds, ["good on test", "good on validation"], fit, test, repeats=3)
    assert (
        found.mean == pytest.approx(0.6)
        and found.deviation == pytest.approx(0)
        and set(asked) == {"good on validation"}
    )
    assert found.chosen == ["good on validation"] * 5 and len(asked) == 15
    with pytest.raises(OptionError, match="at least one fold"):
        G.nested_evaluation([], [1], fit, test)


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        ([{"test": [0]}], "no folds"),
        ([{"test": [0], "model_selection": [{"train": [0], "validation": [1]}]}], "in two of"),
        ([{"test": [0], "model_selection": [{"train": [1], "validation": [2]}]}], "exactly one fold"),
        ([{"test": [0], "model_selection": [{"train": [1], "validation": [7]}]}], r"of 0\.\.2, got 7"),
        ("{", "no folds"),
    ],
)
def test_folds_that_are_none(tmp_path, rows, message):
    path = tmp_path / "folds.json"
    path.write_text(rows if isinstance(rows, str) else json.dumps(rows))
    with pytest.raises(LayoutError, match=message):
        G.read_folds(path, 3)
