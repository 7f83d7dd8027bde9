"""Data sets and splits: the same samples, lengths and errors as torch.utils.data and scikit-learn."""

from __future__ import annotations

import numpy as np
import pytest
import sklearn.model_selection
import torch
import torch.utils.data as theirs

import weft
from weft.data import dataset as ours
from weft.errors import OptionError, ShapeError

IMAGES = np.arange(48, dtype=np.float32).reshape(6, 2, 4)
LABELS = np.array([3, 1, 4, 1, 5, 9])


def both():
    return (
        ours.TensorDataset(weft.tensor(IMAGES), weft.tensor(LABELS)),
        theirs.TensorDataset(torch.from_numpy(IMAGES), torch.from_numpy(LABELS)),
    )


def same(a, b):
    if isinstance(b, dict):
        assert a.keys() == b.keys()
        a, b = list(a.values()), list(b.values())
    if isinstance(b, (tuple, list)):
        assert len(a) == len(b)
        for x, y in zip(a, b, strict=True):
            same(x, y)
    else:
        np.testing.assert_array_equal(np.asarray(a), np.asarray(b))


@pytest.mark.parametrize("index", [0, -1, slice(1, 4), [0, 2]])
def test_tensor_dataset_indexes_like_pytorch(index):
    a, b = both()
    assert len(a) == len(b) == 6
    same(a[index], b[index])


@pytest.mark.parametrize("tensors", [(np.zeros(3), np.zeros(4)), (np.zeros(()),), (np.zeros((0, 2)), np.zeros(1))])
def test_tensor_dataset_refuses_sizes_that_differ(tensors):
    with pytest.raises(ShapeError, match="size mismatch"):
        ours.TensorDataset(*(weft.tensor(x) for x in tensors))


def test_tensor_dataset_of_nothing():
    with pytest.raises(OptionError, match="at least one"):
        ours.TensorDataset()
    assert len(ours.TensorDataset(weft.zeros(0, 3))) == 0


def test_numpy_arrays_are_shared_not_copied():
    array = np.zeros((4, 2), np.float32)
    data = ours.TensorDataset(array)
    array[1] = 7
    assert data[1][0].tolist() == [7, 7]


@pytest.mark.parametrize("rows", [range(1, 4), np.array([5, 0, 0]), [2, 4], range(0, 6, 2), range(0)])
def test_gather_is_the_collated_batch(rows):
    a, _ = both()
    wanted = [x[np.asarray(rows, np.int64)] for x in (IMAGES, LABELS)]
    same(a.gather(rows), wanted)


def test_a_range_is_a_read_only_window():
    images = weft.tensor(IMAGES)
    (window,) = ours.TensorDataset(images).gather(range(2, 5))
    assert np.shares_memory(window.array, images.array)
    with pytest.raises(RuntimeError, match="read-only"):
        window.add_(1)
    images.add_(1)  # the data set itself can still be written to
    same(window, IMAGES[2:5] + 1)


def test_rows_of_a_tensor_that_needs_a_gradient():
    x = weft.ones(4, 2, requires_grad=True)
    (batch,) = ours.TensorDataset(x).gather(np.array([1, 1, 3]))
    batch.sum().backward()
    assert x.grad.tolist() == [[0, 0], [2, 2], [0, 0], [1, 1]]


@pytest.mark.parametrize("indices", [[4, 0, 2], range(1, 5), np.array([3, 3, 1])])
def test_subset(indices):
    a, b = both()
    a, b = ours.Subset(a, indices), theirs.Subset(b, indices)
    assert len(a) == len(b)
    for i in range(len(b)):
        same(a[i], b[i])
    same(a.gather(np.array([2, 0])), [x[np.asarray(indices)[[2, 0]]] for x in (IMAGES, LABELS)])
    same(a.gather(range(1, 3)), [x[np.asarray(indices)[1:3]] for x in (IMAGES, LABELS)])


class Doubled(ours.TensorDataset):
    def __getitem__(self, index):
        return tuple(2 * x for x in super().__getitem__(index))


class Plain(ours.Dataset):
    def __init__(self, n):
        self.n = n

    def __len__(self):
        return self.n

    def __getitem__(self, i):
        return i


def test_whole_batches_only_where_they_equal_the_samples():
    a, _ = both()
    assert ours.gathering(a) and ours.gathering(ours.Subset(ours.Subset(a, range(4)), [1, 2]))
    assert ours.gathering(Doubled(weft.zeros(3))) is None
    assert ours.gathering(ours.Subset(Doubled(weft.zeros(3)), [0])) is None
    assert ours.gathering(Plain(3)) is None and ours.gathering([1, 2, 3]) is None


@pytest.mark.parametrize("index", [0, 2, 3, 6, -1, -7])
def test_concatenation(index):
    parts = [list(range(3)), [], list(range(10, 14))]
    a, b = ours.ConcatDataset(parts), theirs.ConcatDataset(parts)
    assert a.cumulative_sizes == b.cumulative_sizes and len(a) == len(b) == 7
    assert a[index] == b[index]


@pytest.mark.parametrize("index", [7, -8])
def test_concatenation_ends(index):
    joined = Plain(3) + Plain(4)
    with pytest.raises(IndexError, match="outside of 7"):
        joined[index]
    assert list(joined) == [0, 1, 2, 0, 1, 2, 3]  # a plain loop ends by that error


class Count(ours.IterableDataset):
    def __init__(self, *numbers):
        self.numbers = numbers

    def __iter__(self):
        return iter(self.numbers)

    def __len__(self):
        return len(self.numbers)


def test_chains_of_streams():
    chain = Count(1, 2) + Count() + Count(3)
    assert list(chain) == [1, 2, 3] and len(chain) == 3
    with pytest.raises(OptionError, match="only supports IterableDataset"):
        list(ours.ChainDataset([Count(1), [2]]))


@pytest.mark.parametrize(
    "make, message",
    [
        (lambda m: m.ConcatDataset([]), "empty"),
        (lambda m: m.ConcatDataset([m.ChainDataset([])]), "IterableDataset"),
        (lambda m: m.StackDataset(), None),
        (lambda m: m.StackDataset([1], x=[1]), None),
        (lambda m: m.StackDataset([1], [1, 2]), "mismatch"),
    ],
)
def test_what_pytorch_refuses_is_refused(make, message):
    with pytest.raises((ValueError, AssertionError)):
        make(theirs)
    with pytest.raises(ValueError, match=message):
        make(ours)


def test_stacked_data_sets():
    for kind in (lambda m: m.StackDataset([1, 2], "ab"), lambda m: m.StackDataset(n=[1, 2], s="ab")):
        assert [kind(ours)[i] for i in range(2)] == [kind(theirs)[i] for i in range(2)]
        assert len(kind(ours)) == 2


def test_methods_that_are_missing():
    with pytest.raises(NotImplementedError, match="__getitem__"):
        ours.Dataset()[0]
    with pytest.raises(NotImplementedError, match="__iter__"):
        iter(ours.IterableDataset())


# ------------------------------------------------------------------------------------------- random_split


@pytest.mark.parametrize("lengths", [[0.5, 0.5], [0.3, 0.3, 0.4], [0.1] * 10, [7, 4], [11], [11, 0], [0.99, 0.01]])
@pytest.mark.filterwarnings("ignore:.*length of split.*", "ignore:Length of split.*")
def test_split_lengths_are_those_of_pytorch(lengths):
    parts = ours.random_split(range(11), lengths, weft.Generator().manual_seed(0))
    assert [len(p) for p in parts] == [len(p) for p in theirs.random_split(range(11), lengths)]
    assert sorted(i for part in parts for i in part) == list(range(11))


def test_splits_repeat_with_their_generator():
    split = lambda seed: [list(p) for p in ours.random_split(range(50), [0.6, 0.4], weft.Generator().manual_seed(seed))]
    assert split(1) == split(1) != split(2)
    weft.manual_seed(5)
    first = [list(p) for p in ours.random_split(range(50), [20, 30])]
    weft.manual_seed(5)
    assert first == [list(p) for p in ours.random_split(range(50), [20, 30])]


@pytest.mark.parametrize("lengths", [[5, 5], [0.5, 0.6], [1.5, -0.5], [12], []])
def test_splits_that_do_not_fit(lengths):
    with pytest.raises(ValueError):
        theirs.random_split(range(11), lengths)
    with pytest.raises(ValueError, match="random_split"):
        ours.random_split(range(11), lengths)


def test_an_empty_part_warns():
    with pytest.warns(UserWarning, match="index 1 is 0"):
        ours.random_split(range(3), [0.99, 0.01])


# ------------------------------------------------------------------------------------------- k_fold


@pytest.mark.parametrize("n, k", [(10, 5), (11, 3), (7, 7), (5, 2)])
def test_folds_are_those_of_scikit_learn(n, k):
    for (train, test), (their_train, their_test) in zip(
        ours.k_fold(n, k), sklearn.model_selection.KFold(k).split(np.zeros(n)), strict=True
    ):
        np.testing.assert_array_equal(train, their_train)
        np.testing.assert_array_equal(test, their_test)


@pytest.mark.parametrize("labels", [[0, 0, 1, 1, 0, 1, 0, 1, 1], list("babbabaab"), [2, 2, 2, 7, 7, 7, 5, 5, 5, 5]])
def test_stratified_folds_are_those_of_scikit_learn(labels):
    expected = sklearn.model_selection.StratifiedKFold(3).split(np.zeros(len(labels)), labels)
    for ours_, theirs_ in zip(ours.k_fold(len(labels), 3, stratify=labels), expected, strict=True):
        np.testing.assert_array_equal(ours_[1], theirs_[1])


@pytest.mark.parametrize("stratify", [None, weft.tensor([0, 1, 2, 1] * 10)])
def test_shuffled_folds(stratify):
    folds = ours.k_fold(40, 4, shuffle=True, seed=3, stratify=stratify)
    assert sorted(np.concatenate([test for _, test in folds])) == list(range(40))
    for train, test in folds:
        assert not set(train) & set(test) and len(train) == 30
        if stratify is not None:
            assert np.bincount(stratify.numpy()[test]).tolist() in ([2, 5, 3], [3, 5, 2])
    again, other = (ours.k_fold(40, 4, shuffle=True, seed=s, stratify=stratify) for s in (3, 4))
    assert all((a[1] == b[1]).all() for a, b in zip(folds, again, strict=True))
    assert any(not np.array_equal(a[1], b[1]) for a, b in zip(folds, other, strict=True))


def test_folds_of_a_data_set_are_subsets():
    a, _ = both()
    folds = ours.k_fold(a, 3)
    assert [[x[1].item() for x in test] for _, test in folds] == [[3, 1], [4, 1], [5, 9]]
    assert all(len(train) == 4 and ours.gathering(train) for train, _ in folds)


@pytest.mark.parametrize("k", [0, 1, 7])
def test_impossible_folds(k):
    with pytest.raises(OptionError, match="2 <= k <= 6"):
        ours.k_fold(6, k)


def test_rare_labels_warn_and_wrong_labels_raise():
    with pytest.warns(UserWarning, match="rarest label has 1"):
        ours.k_fold(5, 2, stratify=[0, 0, 0, 0, 1])
    with pytest.raises(ShapeError, match="one label for each of 5"):
        ours.k_fold(5, 2, stratify=[0, 1])
