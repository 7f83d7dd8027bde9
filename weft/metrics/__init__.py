"""Metrics: functions of one set of predictions, and accumulators for many batches.

>>> accuracy(logits, labels)                              # a float
>>> metric = Accuracy()
>>> for x, y in loader:
...     metric.update(model(x), y)
>>> metric.compute()

The order is always (prediction, target). Tensors, NumPy arrays and lists are accepted; numbers come back as Python
floats, everything larger as tensors. A function is its accumulator used once, so both give the same figures.
"""

from ..runtime.lazy import later as _later

_NAMES: dict[str, tuple[str, ...]] = {
    "base": ("Mean", "Metric", "NoDataError"),
    "classify": (
        *("Accuracy", "ConfusionMatrix", "ExactMatch", "F1", "FBeta", "Precision", "Recall", "TopKAccuracy"),
        *("accuracy", "confusion_matrix", "exact_match", "f1", "fbeta", "precision", "recall", "top_k_accuracy"),
    ),
    "clustering": (
        *("AdjustedRandIndex", "ClusteringAccuracy", "NormalizedMutualInfo"),
        *("adjusted_rand_index", "clustering_accuracy", "normalized_mutual_info"),
    ),
    "ranking": ("AUROC", "AveragePrecision", "auroc", "average_precision"),
    "curves": ("PrecisionRecallCurve", "RocCurve", "precision_recall_curve", "roc_curve"),
    "likelihood": ("NLL", "BitsPerDim", "Perplexity", "bits_per_dim", "nll", "perplexity"),
    "translation": ("BLEU", "bleu"),
    "frechet": ("FrechetDistance", "frechet_distance", "gaussian_frechet_distance"),
    "kernel": ("KernelDistance", "kernel_distance", "squared_mmd"),
    "manifold": (
        *("DensityCoverage", "PrecisionRecall", "density_coverage", "neighbour_radii", "precision_recall_of_samples"),
    ),
    "modes": ("CodeUsage", "ModeCounts", "label_counts", "mode_counts"),
    "samples": ("FeatureExtractor", "SampleMetrics", "calculate_metrics"),
    "forecast": (
        *("CRPS", "Coverage", "IntervalScore", "PinballLoss"),
        *("coverage", "crps", "crps_ensemble", "crps_gaussian", "crps_quantile", "gaussian_interval"),
        *("interval_nll", "interval_score", "pinball_loss"),
    ),
    "regression": (
        *("ExplainedVariance", "MeanAbsoluteError", "MeanAbsolutePercentageError", "MeanSquaredError", "R2"),
        *("RootMeanSquaredError", "explained_variance", "mean_absolute_error", "mean_absolute_percentage_error"),
        *("mean_squared_error", "r2", "root_mean_squared_error"),
    ),
}

__all__ = [name for names in _NAMES.values() for name in names]

__getattr__, __dir__ = _later(__name__, names=_NAMES)
