"""Maximum-inner-product search: exact against sorting, the reduction to cosines, the index and its curve."""

from __future__ import annotations

import numpy as np
import pytest
import torch

import weft
from weft import nn

RANDOM = np.random.default_rng(0)


@pytest.fixture(autouse=True)
def _same_numbers_for_every_test() -> None:
    RANDOM.bit_generator.state = np.random.default_rng(0).bit_generator.state


def clustered(count: int, queries: int, width: int = 16) -> tuple[weft.Tensor, weft.Tensor]:
    """Vectors around 50 centres, of very different lengths, and queries around the same centres."""
    centres = RANDOM.standard_normal((50, width))
    around = lambda n: centres[RANDOM.integers(0, 50, n)] + 0.4 * RANDOM.standard_normal((n, width))
    vectors = around(count) * RANDOM.uniform(0.3, 2.0, (count, 1))
    return weft.tensor(vectors.astype(np.float32)), weft.tensor(around(queries).astype(np.float32))


@pytest.mark.parametrize("k", [1, 5, 300])
@pytest.mark.parametrize("block", [7, 100, 65536])
def test_exact_search_is_a_full_sort(k: int, block: int) -> None:
    vectors, queries = clustered(300, 20)
    found = nn.top_inner_products(vectors, queries, k, block)
    products = torch.tensor(queries.numpy() @ vectors.numpy().T)
    expected = products.topk(k)
    np.testing.assert_allclose(found.values.numpy(), expected.values.numpy(), rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(products.numpy()[np.arange(20)[:, None], found.indices.numpy()], found.values, atol=1e-5)
    assert all(len(set(row)) == k for row in found.indices.tolist())


def test_reduction_to_cosines_keeps_the_order() -> None:
    vectors, queries = clustered(300, 20)
    unit = nn.as_cosine_problem(vectors.to(weft.float64)).numpy()
    np.testing.assert_allclose(np.linalg.norm(unit, axis=1), 1)
    extended = np.concatenate([queries.numpy(), np.zeros((20, 1))], 1)
    products = queries.numpy().astype(np.float64) @ vectors.numpy().T.astype(np.float64)
    cosines = extended @ unit.T / np.linalg.norm(extended, axis=1, keepdims=True)
    np.testing.assert_array_equal(np.argsort(cosines, 1), np.argsort(products, 1))


def test_nearest_by_angle_alone_would_fail() -> None:
    """Why the reduction: the largest inner product need not be the largest cosine."""
    vectors, query = weft.tensor([[1.0, 0.0], [3.0, 3.0]]), weft.tensor([[1.0, 0.0]])
    assert nn.top_inner_products(vectors, query, 1).indices.item() == 1
    assert nn.InnerProductIndex(vectors, lists=2).search(query, 1, probes=1).indices.item() == 1


@pytest.mark.parametrize("lists", [1, 10, 40])
def test_visiting_all_lists_is_exact(lists: int) -> None:
    vectors, queries = clustered(400, 15)
    found = nn.InnerProductIndex(vectors, lists).search(queries, 10, probes=lists)
    expected = nn.top_inner_products(vectors, queries, 10)
    np.testing.assert_allclose(found.values.numpy(), expected.values.numpy(), rtol=1e-4)
    assert found.indices.tolist() == expected.indices.tolist()


def test_scores_of_the_index_are_true_inner_products() -> None:
    vectors, queries = clustered(400, 15)
    values, indices = nn.InnerProductIndex(vectors).search(queries, 10, probes=2)
    products = queries.numpy() @ vectors.numpy().T
    np.testing.assert_allclose(values.numpy(), products[np.arange(15)[:, None], indices.numpy()], rtol=1e-4, atol=1e-5)
    assert (np.diff(values.numpy()) <= 0).all()


def test_fewer_members_than_asked_for() -> None:
    vectors, queries = clustered(20, 3)
    values, indices = nn.InnerProductIndex(vectors, lists=10).search(queries, 15, probes=1)
    missing = indices.numpy() == -1
    assert missing.any() and not missing.all()
    assert (np.isneginf(values.numpy()) == missing).all()


def test_recall_rises_with_the_share_of_vectors_seen() -> None:
    """On clustered vectors a small share of the products finds nearly all of the best; all lists find all."""
    vectors, queries = clustered(5000, 100)
    index = nn.InnerProductIndex(vectors)
    points = nn.recall_curve(vectors, queries, 10, (1, 4, 16, index.lists), repeats=1, index=index)
    recalls, scanned = [p.recall for p in points], [p.fraction_scanned for p in points]
    assert recalls == sorted(recalls) and scanned == sorted(scanned)
    assert points[1].recall > 0.9 and points[1].fraction_scanned < 0.2
    assert points[-1].recall == 1.0
    assert scanned[-1] == pytest.approx(1 + index.lists / 5000)
    assert all(p.seconds > 0 and p.speedup > 0 for p in points)


def test_the_same_seed_builds_the_same_index() -> None:
    vectors, queries = clustered(500, 5)
    one, two = (nn.InnerProductIndex(vectors, seed=4).search(queries, 5, 2).indices.tolist() for _ in range(2))
    assert one == two


def test_identical_vectors_and_wrong_arguments() -> None:
    same = weft.ones(30, 3)
    assert nn.InnerProductIndex(same).search(weft.ones(1, 3), 2, 1).values.tolist() == [[3, 3]]
    zero = weft.zeros(4, 3)
    assert nn.InnerProductIndex(zero, 2).search(weft.ones(1, 3), 2, 2).values.tolist() == [[0, 0]]
    index = nn.InnerProductIndex(same, 5)
    with pytest.raises(ValueError, match="1…5"):
        index.search(weft.ones(1, 3), 1, 6)
    with pytest.raises(ValueError, match=r"\(B, 3\)"):
        index.search(weft.ones(1, 4), 1, 1)
    with pytest.raises(ValueError, match="1…30"):
        nn.top_inner_products(same, weft.ones(1, 3), 31)
    with pytest.raises(ValueError, match="got \\(30, 3\\) and \\(1, 4\\)"):
        nn.top_inner_products(same, weft.ones(1, 4), 1)
