"""Clusterings against scikit-learn's scores and an exhaustive search of names."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
import sklearn.metrics

import weft
from weft.errors import ShapeError
from weft.metrics import (
    AdjustedRandIndex,
    ClusteringAccuracy,
    NoDataError,
    NormalizedMutualInfo,
    adjusted_rand_index,
    clustering_accuracy,
    normalized_mutual_info,
)


@pytest.fixture(params=range(4))
def labels(request):
    rng = np.random.default_rng(request.param)
    target = rng.integers(0, 4, 200)
    return np.where(rng.random(200) < 0.6, (target + 1) % 5, rng.integers(0, 5, 200)), target


def test_scores_are_scikit_learns(labels):
    pred, target = labels
    assert adjusted_rand_index(pred, target) == pytest.approx(sklearn.metrics.adjusted_rand_score(target, pred))
    assert normalized_mutual_info(pred, target) == pytest.approx(
        sklearn.metrics.normalized_mutual_info_score(target, pred)
    )


def test_accuracy_is_that_of_the_best_names(labels):
    pred, target = labels
    best = max(np.mean(np.array(names)[pred] == target) for names in itertools.permutations(range(5)))
    assert clustering_accuracy(pred, target) == pytest.approx(best)


def test_names_do_not_matter(labels):
    pred, target = labels
    renamed = np.array([7, 70, 3, 0, 12])[pred]
    for metric in (clustering_accuracy, adjusted_rand_index, normalized_mutual_info):
        assert metric(renamed, target) == pytest.approx(metric(pred, target)) and metric(target, target) == 1.0


@pytest.mark.parametrize("pred, target", [([0, 0, 0], [0, 0, 0]), ([0, 1, 2], [0, 1, 2]), ([0, 0, 0], [0, 1, 2])])
def test_edges_are_scikit_learns(pred, target):
    assert adjusted_rand_index(pred, target) == pytest.approx(sklearn.metrics.adjusted_rand_score(target, pred))
    theirs = sklearn.metrics.normalized_mutual_info_score(target, pred)
    assert normalized_mutual_info(pred, target) == pytest.approx(theirs)


@pytest.mark.parametrize("kind", [ClusteringAccuracy, AdjustedRandIndex, NormalizedMutualInfo])
def test_batches_are_the_whole(kind, labels):
    pred, target = (weft.tensor(part) for part in labels)
    metric, other = kind(), kind()
    for rows in (slice(0, 50), slice(50, 120)):
        metric.update(pred[rows], target[rows])
    other.update(pred[120:], target[120:])
    loaded = kind()
    loaded.load_state_dict(metric.state_dict())
    assert loaded.merge(other).compute() == pytest.approx(kind().once(pred, target))


def test_what_they_refuse():
    with pytest.raises(ShapeError):
        clustering_accuracy([0, 1], [0])
    with pytest.raises(NoDataError):
        ClusteringAccuracy().compute()
