"""Samplers: lengths, members and errors as in torch.utils.data; orders are pure functions of seed and epoch."""

from __future__ import annotations

import collections
import itertools
import tracemalloc

import numpy as np
import pytest
import torch.utils.data as theirs

import weft
from weft.data import sampler as ours

RANDOM = {
    "permutation": lambda **k: ours.RandomSampler(range(20), **k),
    "replacement": lambda **k: ours.RandomSampler(range(20), replacement=True, **k),
    "more": lambda **k: ours.RandomSampler(range(20), num_samples=50, **k),
    "fewer": lambda **k: ours.RandomSampler(range(20), num_samples=7, **k),
    "subset": lambda **k: ours.SubsetRandomSampler(list(range(5, 30)), **k),
    "weighted": lambda **k: ours.WeightedRandomSampler(np.arange(1.0, 21), 15, **k),
    "weighted once": lambda **k: ours.WeightedRandomSampler(np.arange(1.0, 21), 15, replacement=False, **k),
}


@pytest.mark.parametrize("name", RANDOM)
def test_the_order_is_a_function_of_seed_and_epoch(name):
    a, b, other = RANDOM[name](seed=1), RANDOM[name](seed=1), RANDOM[name](seed=2)
    epochs = [list(a) for _ in range(3)]
    assert len({tuple(e) for e in epochs}) == 3 and all(len(e) == len(a) for e in epochs)
    b.set_epoch(2)
    assert list(b) == epochs[2] and list(other) != epochs[0]
    b.set_epoch(0)
    assert list(b) == epochs[0] == a.order(0).tolist()


@pytest.mark.parametrize("name", RANDOM)
def test_seeds_come_from_the_generator_or_the_default_one(name):
    from_generator = [list(RANDOM[name](generator=weft.Generator().manual_seed(7))) for _ in range(2)]
    assert from_generator[0] == from_generator[1]
    orders = []
    for _ in range(2):
        weft.manual_seed(11)
        orders.append([list(RANDOM[name]()), list(RANDOM[name]())])
    assert orders[0] == orders[1] and orders[0][0] != orders[0][1]


@pytest.mark.parametrize("name", ["permutation", "subset", "weighted once"])
def test_without_replacement_nothing_comes_twice(name):
    assert max(collections.Counter(RANDOM[name](seed=0)).values()) == 1


def test_members():
    assert sorted(ours.RandomSampler(range(9), seed=0)) == list(range(9))
    assert sorted(ours.SubsetRandomSampler([8, 3, 3, 5], seed=0)) == [3, 3, 5, 8]
    more = collections.Counter(ours.RandomSampler(range(4), num_samples=10, seed=0))
    assert set(more.values()) == {2, 3}  # two whole permutations and half a third, as in PyTorch
    assert list(ours.SequentialSampler(range(4))) == list(theirs.SequentialSampler(range(4))) == [0, 1, 2, 3]


def test_weights_are_frequencies():
    weights = weft.tensor([0.0, 1.0, 3.0])
    counts = np.bincount(list(ours.WeightedRandomSampler(weights, 4000, seed=0)), minlength=3)
    assert counts[0] == 0
    assert abs(counts[2] / 4000 - 0.75) < 4 * np.sqrt(0.75 * 0.25 / 4000)


@pytest.mark.parametrize("n", [0, 1, 7, 8])
@pytest.mark.parametrize("size", [1, 3, 8, 10])
@pytest.mark.parametrize("drop_last", [False, True])
def test_batches(n, size, drop_last):
    a, b = (m.BatchSampler(m.SequentialSampler(range(n)), size, drop_last) for m in (ours, theirs))
    assert list(a) == list(b) and len(a) == len(b)


@pytest.mark.parametrize("n", [1, 2, 7, 8, 9])
@pytest.mark.parametrize("replicas", [1, 2, 4])
@pytest.mark.parametrize("drop_last", [False, True])
def test_distributed_parts_are_those_of_pytorch(n, replicas, drop_last):
    for rank in range(replicas):
        a, b = (
            m.DistributedSampler(range(n), replicas, rank, shuffle=False, drop_last=drop_last) for m in (ours, theirs)
        )
        assert list(a) == list(b) and len(a) == len(b) and a.total_size == b.total_size


def test_distributed_shuffling_is_common_to_all_ranks():
    parts = [ours.DistributedSampler(range(12), 3, rank, seed=5) for rank in range(3)]
    first = [list(p) for p in parts]
    assert sorted(itertools.chain(*first)) == list(range(12))
    assert first == [list(p) for p in parts]  # until somebody calls set_epoch
    for part in parts:
        part.set_epoch(1)
    second = [list(p) for p in parts]
    assert sorted(itertools.chain(*second)) == list(range(12)) and first != second


def test_rank_and_world_come_from_the_environment(monkeypatch):
    monkeypatch.setenv("WORLD_SIZE", "4")
    monkeypatch.setenv("RANK", "3")
    assert list(ours.DistributedSampler(range(8), shuffle=False)) == [3, 7]


WRONG = [
    lambda m: m.RandomSampler(range(3), num_samples=0),
    lambda m: m.RandomSampler(range(3), num_samples=-1),
    lambda m: m.RandomSampler([]),
    lambda m: m.RandomSampler(range(3), replacement=1),
    lambda m: m.WeightedRandomSampler([1.0], 0),
    lambda m: m.WeightedRandomSampler([[1.0]], 1),
    lambda m: m.WeightedRandomSampler([1.0], 1, replacement=1),
    lambda m: m.BatchSampler(range(3), 0, False),
    lambda m: m.BatchSampler(range(3), 2.5, False),
    lambda m: m.BatchSampler(range(3), True, False),
    lambda m: m.BatchSampler(range(3), 2, 1),
    lambda m: m.DistributedSampler(range(3), 2, 2),
    lambda m: m.DistributedSampler(range(3), 2, -1),
]


@pytest.mark.parametrize("make", WRONG)
def test_what_pytorch_refuses_is_refused(make):
    with pytest.raises((TypeError, ValueError)):
        make(theirs)
    with pytest.raises((TypeError, ValueError)):
        make(ours)


def test_a_sampler_needs_an_iterator():
    with pytest.raises(NotImplementedError, match="__iter__"):
        iter(ours.Sampler())


@pytest.mark.parametrize("replacement", [False, True])
@pytest.mark.parametrize(("n", "wanted"), [(997, 200_000), (100_000, 150_001), (500, 65_537)])
def test_long_orders_are_drawn_in_pieces_with_the_same_numbers(n, wanted, replacement):
    sampler = ours.RandomSampler(range(n), replacement, wanted, seed=3)
    stream = ours.stream_of(3, 0)
    if replacement:
        whole = stream.integers(0, n, wanted)
    else:
        whole = np.concatenate([stream.permutation(n) for _ in range(-(-wanted // n))])[:wanted]
    order = sampler.order(0)
    np.testing.assert_array_equal(order[wanted - 65_000 : wanted], whole[wanted - 65_000 :])
    assert order[-1] == whole[-1] and list(itertools.islice(sampler, 9)) == whole[:9].tolist()


@pytest.mark.parametrize("replacement", [False, True])
def test_ten_thousand_million_draws_take_little_memory(replacement):
    sampler = ours.RandomSampler(range(100), replacement, int(1e10), seed=0)
    tracemalloc.start()
    try:
        loader = weft.data.DataLoader(weft.data.TensorDataset(weft.arange(100)), batch_size=4, sampler=sampler)
        first, plain = next(iter(loader))[0].tolist(), list(itertools.islice(sampler, 4))
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert first == plain and len(loader) == 2_500_000_000
    assert peak < 16 * 2**20
