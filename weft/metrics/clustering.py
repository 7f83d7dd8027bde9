"""Clusterings against classes: names of clusters mean nothing, so only what goes together counts.

With n_ij the number of samples in cluster i and class j, a_i and b_j its sums.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from .base import Metric, State, array_of, same_shape
from .labels import whole

__all__ = [
    *("AdjustedRandIndex", "ClusteringAccuracy", "NormalizedMutualInfo"),
    *("adjusted_rand_index", "clustering_accuracy", "normalized_mutual_info"),
]


class Contingency(Metric):
    """What the metrics of this file share: the labels of all batches. Shape: (N,) of clusters, (N,) of classes"""

    fields = ("count", "clusters", "classes")

    def measure(self, pred: Any, target: Any) -> State:
        clusters, classes = array_of(pred), array_of(target)
        same_shape(clusters, classes, type(self).__name__)
        return {
            "count": clusters.size,
            "clusters": [whole(clusters).reshape(-1)],
            "classes": [whole(classes).reshape(-1)],
        }

    def restored(self, parts: dict[str, NDArray]) -> State:
        return {"count": int(parts["count"]), "clusters": [parts["clusters"]], "classes": [parts["classes"]]}

    def table(self, state: State) -> NDArray[np.int64]:
        """n: (clusters that occur, classes that occur)"""
        numbers = [np.unique(np.concatenate(state[name]), return_inverse=True)[1] for name in ("clusters", "classes")]
        rows, columns = (int(part.max()) + 1 for part in numbers)
        return np.bincount(numbers[0] * columns + numbers[1], minlength=rows * columns).reshape(rows, columns)


class ClusteringAccuracy(Contingency):
    """max over one-to-one matches m of Σᵢ n_{i, m(i)} / N: the accuracy under the best naming of clusters by classes.

    The match is found exactly (Hungarian algorithm). Clusters beyond the number of classes are all wrong.

    >>> clustering_accuracy([1, 1, 0, 0], [0, 0, 1, 2])
    0.75
    """

    def summarise(self, state: State) -> float:
        from scipy.optimize import linear_sum_assignment

        n = self.table(state)
        return float(n[linear_sum_assignment(n, maximize=True)].sum() / n.sum())


class NormalizedMutualInfo(Contingency):
    """I(cluster; class) / ½ (H(cluster) + H(class)): 1 for the same partition, near 0 for independent ones."""

    def summarise(self, state: State) -> float:
        p = self.table(state) / state["count"]
        joint, clusters, classes = (_entropy(part) for part in (p, p.sum(1), p.sum(0)))
        mean = (clusters + classes) / 2
        return float(max(clusters + classes - joint, 0.0) / mean) if mean > 0 else 1.0


class AdjustedRandIndex(Contingency):
    """(R − E R) / (max R − E R), R = Σ C(n_ij, 2) the pairs together in both: 1 for the same, 0 in the mean by chance."""

    def summarise(self, state: State) -> float:
        n = self.table(state).astype(np.float64)
        both, clusters, classes, all_pairs = (_pairs(part) for part in (n, n.sum(1), n.sum(0), n.sum()))
        expected = clusters * classes / max(all_pairs, 1.0)
        most = (clusters + classes) / 2
        return float((both - expected) / (most - expected)) if most != expected else 1.0


def clustering_accuracy(pred: Any, target: Any) -> float:
    """`ClusteringAccuracy` of clusters and classes, (N,) each."""
    return ClusteringAccuracy().once(pred, target)


def normalized_mutual_info(pred: Any, target: Any) -> float:
    """`NormalizedMutualInfo` of clusters and classes, (N,) each."""
    return NormalizedMutualInfo().once(pred, target)


def adjusted_rand_index(pred: Any, target: Any) -> float:
    """`AdjustedRandIndex` of clusters and classes, (N,) each."""
    return AdjustedRandIndex().once(pred, target)


def _entropy(p: NDArray) -> float:
    """−Σ p ln p, where p > 0."""
    p = p[p > 0]
    return float(-(p * np.log(p)).sum())


def _pairs(n: NDArray) -> float:
    """Σ n (n − 1) / 2"""
    return float((n * (n - 1)).sum() / 2)
