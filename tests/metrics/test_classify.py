"""Metrics of labels against scikit-learn, and the accumulators' law: batches combine to the whole."""

import math
import warnings

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn import metrics as sk

import weft
from weft import metrics
from weft.errors import DtypeError, OptionError, ShapeError

RNG = np.random.default_rng(0)
TARGET = RNG.integers(0, 5, 200)
PRED = np.where(RNG.random(200) < 0.6, TARGET, RNG.integers(0, 5, 200))
GAPS = {"pred": np.array([0, 2, 2, 4, 0]), "target": np.array([0, 2, 6, 0, 2])}  # classes 1, 3, 5 occur nowhere
SKLEARN = {"precision": sk.precision_score, "recall": sk.recall_score, "f1": sk.f1_score}
CLASSES = {"precision": metrics.Precision, "recall": metrics.Recall, "f1": metrics.F1}


def close(ours, theirs):
    ours = ours.numpy() if isinstance(ours, weft.Tensor) else ours
    np.testing.assert_allclose(ours, theirs, rtol=1e-13, atol=1e-15)


def quietly(function, *args, **kwargs):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return function(*args, **kwargs)


@pytest.mark.parametrize("zero_division", [0.0, 1.0, math.nan])
@pytest.mark.parametrize("average", ["micro", "macro", "weighted"])
@pytest.mark.parametrize("name", SKLEARN)
def test_averages_over_the_classes_that_occur(name, average, zero_division):
    for pred, target in ((PRED, TARGET), (GAPS["pred"], GAPS["target"])):
        expected = quietly(SKLEARN[name], target, pred, average=average, zero_division=zero_division)
        close(getattr(metrics, name)(pred, target, average=average, zero_division=zero_division), expected)


@pytest.mark.parametrize("zero_division", [0.0, 1.0, math.nan])
@pytest.mark.parametrize("average", ["micro", "macro", "weighted", None])
@pytest.mark.parametrize("name", SKLEARN)
def test_averages_over_all_classes(name, average, zero_division):
    for pred, target in ((PRED, TARGET), (GAPS["pred"], GAPS["target"])):
        options = {"average": average, "zero_division": zero_division}
        expected = quietly(SKLEARN[name], target, pred, labels=range(8), **options)
        close(getattr(metrics, name)(pred, target, num_classes=8, **options), expected)


@pytest.mark.parametrize("average", ["micro", "macro", "weighted", None])
@pytest.mark.parametrize("name", SKLEARN)
def test_multilabel(name, average):
    target, scores = RNG.random((60, 4)) < [0.5, 0.2, 0.0, 0.9], RNG.random((60, 4))
    expected = quietly(SKLEARN[name], target, scores > 0.5, average=average, zero_division=0)
    close(getattr(metrics, name)(scores, target, average=average, multilabel=True), expected)
    close(getattr(metrics, name)(scores > 0.5, target, average=average, multilabel=True), expected)


@pytest.mark.parametrize("name", SKLEARN)
def test_binary(name):
    target, logits = RNG.integers(0, 2, 80), RNG.normal(size=80).astype(np.float32)
    expected = SKLEARN[name](target, logits > 0)
    close(getattr(metrics, name)(weft.tensor(logits), weft.tensor(target), average="binary", threshold=0), expected)
    assert getattr(metrics, name)([0, 0], [0, 0], average="binary") == 0  # no class 1 at all


@pytest.mark.parametrize("beta", [0.0, 0.5, 2.0])
def test_fbeta(beta):
    expected = sk.fbeta_score(TARGET, PRED, beta=beta, average="macro")
    close(metrics.fbeta(PRED, TARGET, beta), expected)
    with pytest.raises(OptionError, match="beta"):
        metrics.FBeta(beta=-1)


@pytest.mark.parametrize("dtype", [weft.float32, weft.float64, weft.bfloat16, weft.float16])
def test_accuracy_of_scores(dtype):
    logits = weft.randn(50, 7).to(dtype)
    target = weft.randint(0, 7, (50,))
    labels = logits.double().numpy().argmax(1)
    close(metrics.accuracy(logits, target), sk.accuracy_score(target.numpy(), labels))
    close(metrics.accuracy(labels, target), sk.accuracy_score(target.numpy(), labels))


def test_accuracy_of_pixels_and_sequences():
    scores, target = RNG.normal(size=(3, 4, 5, 6)), RNG.integers(0, 4, (3, 5, 6))
    close(metrics.accuracy(scores, target), (scores.argmax(1) == target).mean())
    with pytest.raises(ShapeError, match="movedim"):
        metrics.accuracy(RNG.normal(size=(2, 5, 9)), np.zeros((2, 5), int))


def test_accuracy_of_one_sample_without_a_batch():
    assert metrics.accuracy([0.1, 0.7, 0.2], 1) == 1.0


def test_balanced_accuracy_is_macro_recall():
    pred = np.where(RNG.random(200) < 0.3, 5, PRED)  # class 5 is predicted and never true
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        expected = sk.balanced_accuracy_score(TARGET, pred)
    close(metrics.recall(pred, TARGET, zero_division=math.nan), expected)


@pytest.mark.parametrize("k", [1, 2, 5])
def test_top_k(k):
    scores = RNG.normal(size=(100, 5))
    close(metrics.top_k_accuracy(scores, TARGET[:100], k), quietly(sk.top_k_accuracy_score, TARGET[:100], scores, k=k))


def test_top_k_with_ties_and_nan():
    ties = np.zeros((3, 3))
    assert metrics.top_k_accuracy(ties, [0, 1, 2], 1) == metrics.accuracy(ties, [0, 1, 2]) == 1 / 3
    assert metrics.top_k_accuracy(ties, [0, 1, 2], 2) == pytest.approx(2 / 3)
    assert metrics.top_k_accuracy([[math.nan, 0.0, 1.0]], [0], 2) == 0.0
    assert metrics.top_k_accuracy([[math.nan, 0.0, 1.0]], [2], 2) == 1.0


def test_exact_match_is_subset_accuracy():
    target, pred = RNG.integers(0, 2, (50, 3)), RNG.integers(0, 2, (50, 3))
    close(metrics.exact_match(pred, target), sk.accuracy_score(target, pred))


@pytest.mark.parametrize("normalize", [None, "true", "pred", "all"])
def test_confusion_matrix(normalize):
    expected = sk.confusion_matrix(TARGET, PRED, labels=range(6), normalize=normalize)
    ours = metrics.confusion_matrix(PRED, TARGET, 6, normalize=normalize)
    close(ours, expected)
    assert ours.dtype == (weft.int64 if normalize is None else weft.float64)


def test_ignore_index():
    target = np.where(RNG.random(200) < 0.3, -100, TARGET)
    kept = target != -100
    for function, options in (
        (metrics.accuracy, {}),
        (metrics.f1, {"average": None}),
        (metrics.confusion_matrix, {}),
    ):
        expected = function(PRED[kept], TARGET[kept], **options)
        expected = expected.numpy() if isinstance(expected, weft.Tensor) else expected
        close(function(PRED, target, ignore_index=-100, **options), expected)


METRICS = {
    "accuracy": metrics.Accuracy,
    "topk": lambda: metrics.TopKAccuracy(2),
    "precision": metrics.Precision,
    "f1-weighted": lambda: metrics.F1(average="weighted"),
    "recall-all": lambda: metrics.Recall(9, average=None),
    "confusion": metrics.ConfusionMatrix,
}


@pytest.mark.parametrize("name", METRICS)
@settings(max_examples=25, deadline=None)
@given(sizes=st.lists(st.integers(0, 9), min_size=1, max_size=6), seed=st.integers(0, 1000))
def test_batches_combine_to_the_whole(name, sizes, seed):
    rng = np.random.default_rng(seed)
    sizes = [*sizes, 3]
    scores = [rng.normal(size=(n, 9)) for n in sizes]
    target = [rng.integers(0, min(9, 2 + 2 * i), n) for i, n in enumerate(sizes)]  # later batches have more classes
    whole = METRICS[name]().once(np.concatenate(scores), np.concatenate(target))
    one, left, right = METRICS[name](), METRICS[name](), METRICS[name]()
    for i, batch in enumerate(zip(scores, target, strict=True)):
        one.update(*batch)
        (left if i % 2 else right).update(*batch)
    again = METRICS[name]()
    again.load_state_dict(one.state_dict())
    for result in (one.compute(), left.merge(right).compute(), again.compute()):
        np.testing.assert_array_equal(np.asarray(result), np.asarray(whole))


def test_calling_gives_the_batch_and_accumulates():
    metric = metrics.Accuracy()
    assert metric([1, 1], [1, 0]) == 0.5 and metric([1, 1], [1, 1]) == 1.0
    assert metric.compute() == 0.75 and metric.once([0], [1]) == 0.0 and metric.compute() == 0.75
    assert "seen=4" in repr(metric)
    metric.reset()
    with pytest.raises(metrics.NoDataError, match="no samples"):
        metric.compute()


def test_state_goes_through_a_file(tmp_path):
    metric = metrics.F1()
    metric.update(PRED, TARGET)
    weft.save(metric.state_dict(), tmp_path / "metric.weft")
    again = metrics.F1()
    again.load_state_dict(weft.load(tmp_path / "metric.weft"))
    assert again.compute() == metric.compute()
    metric.update(PRED, TARGET[::-1])
    again.update(PRED, TARGET[::-1])  # a loaded state can be added to
    assert again.compute() == metric.compute()


def test_state_is_not_the_batch():
    scores, target = np.eye(3), np.arange(3)
    metric = metrics.Recall(average=None)
    metric.update(scores, target)
    state = metric.state_dict()
    scores[:] = 0
    metric.update(scores, target)
    assert state["right"].tolist() == [1, 1, 1]


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (lambda: metrics.accuracy([], []), metrics.NoDataError, "no samples"),
        (lambda: metrics.f1([1], [1], average="mean"), OptionError, "'macro'"),
        (lambda: metrics.f1([1], [1], zero_division=0.5), OptionError, "zero_division"),
        (lambda: metrics.accuracy([1, 2], [1]), ShapeError, r"\(2,\) and \(1,\)"),
        (lambda: metrics.accuracy([[0.3], [0.4]], [0, 1]), ShapeError, "squeeze"),
        (lambda: metrics.accuracy([1, 0], [0.5, 1.0]), DtypeError, "whole numbers"),
        (lambda: metrics.accuracy(["a"], ["a"]), DtypeError, "integer labels"),
        (lambda: metrics.confusion_matrix([0, 3], [0, 1], 3), OptionError, r"\[0, 3\), got 3"),
        (lambda: metrics.recall([0, 1], [0, -100]), OptionError, "ignore_index"),
        (lambda: metrics.top_k_accuracy([[0.1, 0.2]], [2], 1), OptionError, "got 2"),
        (lambda: metrics.TopKAccuracy(0), OptionError, "k ≥ 1"),
        (lambda: metrics.precision([0.1], [1], multilabel=True), ShapeError, r"\(N, L"),
        (lambda: metrics.Accuracy().merge(metrics.F1()), OptionError, "another Accuracy"),
        (lambda: metrics.Accuracy().load_state_dict({"x": 1}), OptionError, "count"),
        (lambda: metrics.accuracy([[1, 2], [3]], [1, 2]), ShapeError, "equal lengths"),
    ],
)
def test_errors(call, error, message):
    with pytest.raises(error, match=message):
        call()


def test_mean_with_weights():
    mean = metrics.Mean()
    mean.update(weft.tensor(2.0), 64)
    mean.update([1.0, 4.0], [32, 0])
    assert mean.compute() == pytest.approx((2 * 64 + 32) / 96, rel=1e-15)
    assert mean.once([[1.0, 2.0], [3.0, 4.0]], [1.0, 3.0]) == (1 + 6 + 3 + 12) / 8  # weights broadcast
    with pytest.raises(OptionError, match="weights"):
        mean.update(1.0, -1)


def test_every_name_is_there():
    assert all(hasattr(metrics, name) for name in metrics.__all__) and set(metrics.__all__) <= set(dir(metrics))
