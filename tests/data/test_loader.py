"""The loader in one process: batches, lengths, collation and errors as in torch.utils.data; epochs, seeds, states."""

from __future__ import annotations

import collections
import subprocess
import sys

import numpy as np
import pytest
import torch
import torch.utils.data as theirs

import weft
import weft.utils.data as ours
from weft.errors import OptionError, ShapeError

from .loading import Pair, Squares, plain

# ------------------------------------------------------------------------------------------- collation

COLLATED = {
    "ints": [1, 2],
    "bools": [True, False],
    "floats": [0.5, 1.0],
    "strings": ["a", "b"],
    "bytes": [b"a", b"b"],
    "tuples": [(1, 2.0), (3, 4.0)],
    "lists": [[1, "x"], [2, "y"]],
    "dictionaries": [{"a": 1, "b": [1, 2]}, {"a": 2, "b": [3, 4]}],
    "named": [Pair(1, 2.0), Pair(3, 4.0)],
    "arrays": [np.arange(3), np.arange(3)],
    "narrow": [np.zeros(2, np.uint8), np.ones(2, np.uint8)],
    "non-contiguous": [np.arange(6.0).reshape(2, 3).T, np.ones((3, 2))],
    "scalars": [np.float32(1), np.float32(2)],
    "0-d": [np.array(1), np.array(2)],
    "ranges": [range(2), range(2)],
    "one": [(1, {"k": np.zeros(0)})],
}


@pytest.mark.parametrize("name", COLLATED)
def test_collation_is_that_of_pytorch(name):
    assert plain(ours.default_collate(COLLATED[name])) == plain(theirs.default_collate(COLLATED[name]))


def test_tensors_are_stacked_with_their_gradients():
    x = weft.ones(2, requires_grad=True)
    ours.default_collate([x, x * 2]).sum().backward()
    assert x.grad.tolist() == [3, 3]


def test_mappings_keep_their_type():
    sample = collections.OrderedDict(a=1)
    assert type(ours.default_collate([sample, sample])) is collections.OrderedDict
    counted = collections.defaultdict(list, a=1)
    assert ours.default_collate([counted, counted]).default_factory is list


@pytest.mark.parametrize(
    "batch, kind",
    [
        ([None, None], TypeError),
        ([object()], TypeError),
        ([np.array(["a"]), np.array(["b"])], TypeError),
        ([[1, 2], [1]], RuntimeError),
        ([np.zeros(2), np.zeros(3)], RuntimeError),
        ([], IndexError),
    ],
)
def test_samples_that_cannot_be_collated(batch, kind):
    for module in (theirs, ours):
        with pytest.raises(kind):
            module.default_collate(batch)


@pytest.mark.parametrize("data", [np.arange(3), {"a": np.zeros(2), "b": "s"}, (1, np.ones(1)), [1, [np.ones(1)]], None])
def test_conversion_is_that_of_pytorch(data):
    assert plain(ours.default_convert(data)) == plain(theirs.default_convert(data))


# ------------------------------------------------------------------------------------------- batches


@pytest.mark.parametrize("n", [0, 1, 3, 8, 9])
@pytest.mark.parametrize("size", [1, 4, 10])
@pytest.mark.parametrize("drop_last", [False, True])
def test_sequential_batches_are_those_of_pytorch(n, size, drop_last):
    a, b = (m.DataLoader(Squares(n), size, drop_last=drop_last) for m in (ours, theirs))
    assert plain(list(a)) == plain(list(b)) and len(a) == len(b)


@pytest.mark.parametrize(
    "options",
    [
        dict(batch_size=None),
        dict(batch_size=None, sampler=[3, 1]),
        dict(batch_sampler=[[0, 1], [4], []][:2]),
        dict(sampler=[5, 5, 2], batch_size=2),
        dict(collate_fn=lambda samples: len(samples), batch_size=4),
        dict(batch_size=4, pin_memory=False, generator=None),
    ],
)
def test_ways_to_choose_rows(options):
    a, b = (m.DataLoader(Squares(9), **options) for m in (ours, theirs))
    assert plain(list(a)) == plain(list(b)) and len(a) == len(b)


def test_the_fast_path_gives_the_samples():
    images, labels = np.random.default_rng(0).random((23, 2, 3)), np.arange(23)
    data = ours.TensorDataset(images, labels)
    for chosen in (data, ours.Subset(data, list(range(22, -1, -1)))):
        for x, y in ours.DataLoader(chosen, 4, shuffle=True, seed=1):
            np.testing.assert_array_equal(x.numpy(), images[y.numpy()])
    a, b = ours.DataLoader(data, 5), theirs.DataLoader(theirs.TensorDataset(*map(torch.tensor, (images, labels))), 5)
    assert [list(map(plain, batch)) for batch in a] == [list(map(plain, batch)) for batch in b]


def test_unshuffled_batches_are_windows():
    x = weft.arange(10.0)
    batches = [batch for (batch,) in ours.DataLoader(ours.TensorDataset(x), 4)]
    assert all(np.shares_memory(batch.array, x.array) for batch in batches)
    with pytest.raises(RuntimeError, match="read-only"):
        batches[0].mul_(2)


def test_shuffled_batches_are_copies():
    x = weft.arange(10.0)
    for (batch,) in ours.DataLoader(ours.TensorDataset(x), 4, shuffle=True):
        batch.zero_()
    assert x.tolist() == list(range(10))


def test_shuffling_visits_every_row_once():
    rows = [i for x, _ in ours.DataLoader(Squares(31), 4, shuffle=True, seed=0) for i in x.tolist()]
    assert sorted(rows) == list(range(31)) != rows


class WithItems(Squares):
    def __getitems__(self, rows):
        return [-i for i in rows]


def test_items_are_asked_for_together():
    a, b = (m.DataLoader(WithItems(5), 2) for m in (ours, theirs))
    assert plain(list(a)) == plain(list(b))


# ------------------------------------------------------------------------------------------- streams


class Stream(ours.IterableDataset):
    def __init__(self, n):
        self.n = n

    def __iter__(self):
        return iter(range(self.n))

    def __len__(self):
        return self.n


class TheirStream(Stream, theirs.IterableDataset):
    pass


@pytest.mark.parametrize("options", [{}, dict(batch_size=3), dict(batch_size=3, drop_last=True), dict(batch_size=None)])
@pytest.mark.parametrize("n", [0, 1, 7])
def test_streams_are_batched_as_in_pytorch(n, options):
    a, b = ours.DataLoader(Stream(n), **options), theirs.DataLoader(TheirStream(n), **options)
    assert plain(list(a)) == plain(list(b)) and len(a) == len(b)


# ------------------------------------------------------------------------------------------- wrong arguments

WRONG = [
    dict(num_workers=-1),
    dict(timeout=-1),
    dict(prefetch_factor=2),
    dict(num_workers=1, prefetch_factor=-1),
    dict(persistent_workers=True),
    dict(multiprocessing_context="fork"),
    dict(num_workers=1, multiprocessing_context="teleport"),
    dict(sampler=[0], shuffle=True),
    dict(batch_sampler=[[0]], batch_size=2),
    dict(batch_sampler=[[0]], shuffle=True),
    dict(batch_sampler=[[0]], drop_last=True),
    dict(batch_size=None, drop_last=True),
    dict(batch_size=0),
    dict(batch_size=2.5),
    dict(stream=True, shuffle=True),
    dict(stream=True, sampler=[0]),
    dict(stream=True, batch_sampler=[[0]]),
    dict(empty=True, shuffle=True),
]


@pytest.mark.parametrize("options", WRONG, ids=str)
def test_what_pytorch_refuses_is_refused(options):
    options = dict(options)
    stream, n = options.pop("stream", False), 0 if options.pop("empty", False) else 5
    with pytest.raises((ValueError, TypeError)):
        list(theirs.DataLoader(TheirStream(5) if stream else Squares(n), **options))
    with pytest.raises((ValueError, TypeError)):
        list(ours.DataLoader(Stream(5) if stream else Squares(n), **options))


def test_a_timeout_needs_workers():
    with pytest.raises(OptionError, match="needs workers"):
        ours.DataLoader(Squares(3), timeout=1)


# ------------------------------------------------------------------------------------------- epochs and seeds


def joined(lists):
    return [item for part in lists for item in part]


def rows(loader):
    return [batch[0].tolist() for batch in loader]


def loader(seed=3, n=20, **options):
    return ours.DataLoader(Squares(n), **{"batch_size": 4, "shuffle": True, "seed": seed, **options})


def test_the_order_is_a_function_of_seed_and_epoch():
    a, b = loader(), loader()
    epochs = [rows(a) for _ in range(3)]
    assert epochs[0] != epochs[1] != epochs[2] != epochs[0]
    b.set_epoch(2)
    assert rows(b) == epochs[2] and rows(b) != epochs[2]
    assert rows(loader(seed=4)) != epochs[0]


def test_seeds_come_from_the_generator_or_the_default_one():
    make = lambda: loader(None, generator=weft.Generator().manual_seed(1))
    assert rows(make()) == rows(make())
    found = []
    for _ in range(2):
        weft.manual_seed(9)
        found.append([rows(loader(None)), rows(loader(None))])
    assert found[0] == found[1] and found[0][0] != found[0][1]


def test_each_iteration_is_an_epoch_even_when_it_was_broken_off():
    a, b = loader(), loader()
    next(iter(a))
    list(b)
    assert rows(a) == rows(b)


def test_the_epoch_of_a_given_sampler_is_followed():
    sampler = ours.DistributedSampler(range(20), 2, 0, seed=1)
    given = ours.DataLoader(Squares(20), 4, sampler=sampler)
    first, second = rows(given), rows(given)
    assert first != second  # also without set_epoch, unlike PyTorch
    sampler.set_epoch(7)
    assert joined(rows(given)) == sampler.order(7).tolist()
    assert joined(rows(given)) == sampler.order(8).tolist()


class Own(ours.Sampler):
    def __iter__(self):
        return iter([self.epoch, 1, 2])


def test_samplers_of_ones_own_are_told_the_epoch():
    given = ours.DataLoader(Squares(20), 2, sampler=Own())
    assert [rows(given) for _ in range(2)] == [[[0, 1], [2]], [[1, 1], [2]]]


# ------------------------------------------------------------------------------------------- states


@pytest.mark.parametrize("given", range(7))
@pytest.mark.parametrize(
    "options",
    [
        {},
        dict(shuffle=False),
        dict(drop_last=True),
        dict(shuffle=None, sampler=ours.WeightedRandomSampler([1.0] * 21, 30, seed=2)),
        dict(shuffle=None, batch_size=1, batch_sampler=[[i, i + 1] for i in range(0, 12, 2)]),
    ],
    ids=["shuffled", "sequential", "drop_last", "weighted", "batch_sampler"],
)
def test_a_state_continues_at_the_exact_batch(given, options):
    """Also at the end of an epoch, when the end has not been noticed yet."""
    a = loader(n=21, **options)
    list(a)
    iterator = iter(a)
    before = [next(iterator)[0].tolist() for _ in range(min(given, len(a)))]
    state = a.state_dict()
    rest = rows(iterator)
    b = loader(seed=100, n=21, **options)
    b.load_state_dict(state)
    assert b.state_dict() == state
    assert rows(b) == rest and len(before) + len(rest) == len(a)
    assert rows(b) == rows(a)  # and so do the epochs after it


def test_the_state_after_an_epoch_is_the_beginning_of_the_next():
    a = loader()
    assert a.state_dict() == {"seed": 3, "epoch": 0, "batches_given": 0}
    list(a)
    assert a.state_dict() == {"seed": 3, "epoch": 1, "batches_given": 0}


@pytest.mark.parametrize("size", [None, 3])
def test_a_stream_continues(size):
    a, b = (ours.DataLoader(Stream(11), size, seed=0) for _ in range(2))
    iterator = iter(a)
    [next(iterator) for _ in range(2)]
    b.load_state_dict(a.state_dict())
    assert plain(list(b)) == plain(list(iterator))


def test_states_that_are_none():
    with pytest.raises(OptionError, match=r"lacks \['batches_given', 'seed'\]"):
        loader().load_state_dict({"epoch": 1})


def test_a_batch_that_raises_is_passed_over():
    def sample(i):
        if i == 5:
            raise KeyboardInterrupt if sample.interrupt else ValueError("five")
        return (i,)

    for sample.interrupt, following in ((False, 8), (True, 4)):
        a = ours.DataLoader(Squares(12, sample), 4)
        iterator = iter(a)
        next(iterator)
        with pytest.raises((ValueError, KeyboardInterrupt)):
            next(iterator)
        assert a.state_dict()["batches_given"] * 4 == following  # Ctrl-C loses no batch
    assert next(iterator)[0].tolist() == [8, 9, 10, 11]


def test_stop_iteration_in_a_data_set_does_not_end_the_epoch():
    def sample(i):
        return next(iter(()))

    with pytest.raises(RuntimeError, match="StopIteration"):
        list(ours.DataLoader(Squares(3, sample)))


# ------------------------------------------------------------------------------------------- randomness


def test_batch_transform_draws_from_seed_epoch_and_number():
    def noisy(batch, generator):
        return batch[0], generator.uniform(2).tolist()

    a, b = (loader(batch_transform=noisy) for _ in range(2))
    drawn = [[noise for _, noise in a] for _ in range(2)]
    assert len({tuple(n) for epoch in drawn for n in epoch}) == 10
    b.load_state_dict({"seed": 3, "epoch": 1, "batches_given": 3})
    assert [noise for _, noise in b] == drawn[1][3:]
    tensors = ours.DataLoader(ours.TensorDataset(weft.arange(20)), 4, shuffle=True, seed=3, batch_transform=noisy)
    assert [noise for _, noise in tensors] == drawn[0]  # the fast path too


def test_what_a_data_set_draws_does_not_depend_on_what_came_before():
    make = lambda: loader(collate_fn=lambda samples: weft.rand(1).item())
    a, b = make(), make()
    drawn = list(a)
    iterator = iter(b)
    weft.rand(100)
    state = weft.get_rng_state()
    assert list(iterator) == drawn and len(set(drawn)) == 5
    assert (weft.get_rng_state() == state).all()  # and takes nothing from the default stream


# ------------------------------------------------------------------------------------------- places and costs


def test_the_same_objects_in_both_places():
    assert all(getattr(weft.data, name) is getattr(weft.utils.data, name) for name in weft.utils.data.__all__)
    assert set(dir(weft.data)) >= set(weft.data.__all__)


def test_importing_weft_imports_no_loader():
    code = "import sys, weft; print([m for m in sys.modules if m.startswith(('weft.data', 'multiprocessing'))])"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True).stdout == "[]\n"


def test_shapes_that_differ_say_what_to_do():
    with pytest.raises(ShapeError, match="collate_fn"):
        list(ours.DataLoader(Squares(2, lambda i: np.zeros(i)), 2))
