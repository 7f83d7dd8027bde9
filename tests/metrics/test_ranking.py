"""Curves and the areas under them against scikit-learn, with ties, absent classes and all averages."""

import math
import subprocess
import sys
import warnings

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn import metrics as sk

import weft
from weft import metrics
from weft.errors import OptionError, ShapeError

RNG = np.random.default_rng(1)
AVERAGES = ["macro", "weighted", "micro", None]


def close(ours, theirs):
    ours = ours.numpy() if isinstance(ours, weft.Tensor) else ours
    np.testing.assert_allclose(ours, theirs, rtol=1e-12, atol=1e-14)


binary = st.integers(0, 1000).map(np.random.default_rng)


@settings(max_examples=60, deadline=None)
@given(rng=binary, n=st.integers(2, 60), levels=st.integers(1, 8))
def test_binary_with_ties(rng, n, levels):
    scores, target = rng.integers(0, levels, n) / levels, rng.integers(0, 2, n)
    target[:2] = 0, 1
    close(metrics.auroc(scores, target), sk.roc_auc_score(target, scores))
    close(metrics.average_precision(scores, target), sk.average_precision_score(target, scores))
    fpr, tpr, thresholds = sk.roc_curve(target, scores, drop_intermediate=False)
    ours = metrics.roc_curve(scores, target)
    close(ours.fpr, fpr), close(ours.tpr, tpr), close(ours.thresholds, thresholds)
    precision, recall, thresholds = sk.precision_recall_curve(target, scores)
    ours = metrics.precision_recall_curve(scores, target)
    close(ours.precision, precision), close(ours.recall, recall), close(ours.thresholds, thresholds)


@pytest.mark.parametrize("average", AVERAGES)
def test_multiclass(average):
    target, scores = RNG.integers(0, 4, 90), RNG.random((90, 4)).round(1)
    scores /= scores.sum(1, keepdims=True)
    close(
        metrics.auroc(scores, target, average=average),
        sk.roc_auc_score(target, scores, multi_class="ovr", average=average),
    )
    close(
        metrics.average_precision(weft.tensor(scores), weft.tensor(target), average=average),
        sk.average_precision_score(target, scores, average=average),
    )


@pytest.mark.parametrize("average", AVERAGES)
def test_multilabel(average):
    target, scores = RNG.random((70, 3)) < [0.5, 0.1, 0.8], RNG.normal(size=(70, 3)).round(1)
    close(metrics.auroc(scores, target, average=average), sk.roc_auc_score(target, scores, average=average))
    close(
        metrics.average_precision(scores, target, average=average),
        sk.average_precision_score(target, scores, average=average),
    )


def test_one_class_only():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for target in ([0, 0, 0], [1, 1, 1]):
            assert math.isnan(metrics.auroc([0.1, 0.2, 0.3], target))
            close(
                metrics.average_precision([0.1, 0.2, 0.3], target), sk.average_precision_score(target, [0.1, 0.2, 0.3])
            )
        precision, recall, _ = sk.precision_recall_curve([0, 0], [0.1, 0.2])
    ours = metrics.precision_recall_curve([0.1, 0.2], [0, 0])
    close(ours.precision, precision), close(ours.recall, recall)
    assert metrics.average_precision(np.zeros((2, 2)), np.zeros((2, 2)), average="weighted") == 0


def test_infinite_and_huge_scores():
    scores, target = [-math.inf, -1e308, 1e308, math.inf], [0, 1, 0, 1]
    assert metrics.auroc(scores, target) == 0.75


@settings(max_examples=30, deadline=None)
@given(rng=binary, sizes=st.lists(st.integers(0, 12), min_size=1, max_size=5), thresholds=st.sampled_from([None, 11]))
def test_batches_combine_to_the_whole(rng, sizes, thresholds):
    for make in (metrics.AUROC, metrics.AveragePrecision):
        sizes = [*sizes, 8]
        batches = [(rng.random((n, 3)), rng.integers(0, 2, (n, 3))) for n in sizes]
        scores, target = (np.concatenate(parts) for parts in zip(*batches, strict=True))
        one, left, right = (make(thresholds=thresholds, average=None) for _ in range(3))
        for i, (s, t) in enumerate(batches):
            one.update(s, t)
            (left if i % 2 else right).update(s, t)
            s[:] = 0  # the accumulator keeps its own copy
        again = make(thresholds=thresholds, average=None)
        again.load_state_dict(one.state_dict())
        whole = make(thresholds=thresholds, average=None).once(scores, target).numpy()
        for result in (one.compute(), left.merge(right).compute(), again.compute()):
            np.testing.assert_array_equal(result.numpy(), whole)


@pytest.mark.parametrize("average", AVERAGES)
def test_thresholds_round_scores_down(average):
    target, scores = RNG.integers(0, 2, (200, 3)), RNG.random((200, 3))
    rounded = np.floor(scores * 10) / 10
    close(
        metrics.auroc(scores, target, average=average, thresholds=11), metrics.auroc(rounded, target, average=average)
    )
    fine = metrics.average_precision(scores, target, average="micro", thresholds=100_001)
    assert fine == pytest.approx(metrics.average_precision(scores, target, average="micro"), abs=1e-4)


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (lambda: metrics.auroc([], []), metrics.NoDataError, "no samples"),
        (lambda: metrics.roc_curve([], []), metrics.NoDataError, "no samples"),
        (lambda: metrics.auroc([0.1, math.nan], [0, 1]), OptionError, "1 of 2 scores are NaN"),
        (lambda: metrics.auroc([0.1, 2.0], [0, 1], thresholds=5), OptionError, r"\[0, 1\]"),
        (lambda: metrics.auroc([0.1, math.nan], [0, 1], thresholds=5), OptionError, r"\[0, 1\]"),
        (lambda: metrics.auroc([0.1, 0.2], [0, 2]), OptionError, "0 and 1"),
        (lambda: metrics.auroc([[0.1, 0.2]], [2]), OptionError, "got 2"),
        (lambda: metrics.auroc([[[0.1]]], [[[1]]]), ShapeError, r"\(N, C\)"),
        (lambda: metrics.AUROC(average="samples"), OptionError, "'macro'"),
        (lambda: metrics.AUROC(thresholds=1), OptionError, "≥ 2"),
        (lambda: metrics.roc_curve([0.1], [1, 0]), ShapeError, "one shape"),
    ],
)
def test_errors(call, error, message):
    with pytest.raises(error, match=message):
        call()


def test_plots():
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    _, ax = pyplot.subplots()
    curve = metrics.roc_curve([0.1, 0.4, 0.35, 0.8], [0, 0, 1, 1])
    assert curve.plot(ax, color="k") is ax
    np.testing.assert_array_equal(ax.lines[0].get_xydata(), np.stack([curve.fpr.numpy(), curve.tpr.numpy()], 1))
    assert ax.get_legend().get_texts()[0].get_text() == "area = 0.750"
    other = metrics.precision_recall_curve([0.1, 0.4, 0.35, 0.8], [0, 0, 1, 1]).plot()
    assert (other.get_xlabel(), other.get_ylabel()) == ("recall", "precision")
    pyplot.close("all")


def test_plot_without_matplotlib_names_the_extra(monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    with pytest.raises(ImportError, match="pip install matplotlib"):
        metrics.roc_curve([0.1, 0.4], [0, 1]).plot()


def test_import_is_light():
    code = "import sys, weft.metrics; weft.metrics.auroc([0, 1], [0, 1]); print('scipy' in sys.modules, 'matplotlib' in sys.modules)"
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    assert out.split() == ["False", "False"]
