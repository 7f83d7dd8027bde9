"""The estimators against scikit-learn's own checks, its meta-estimators, and what training must satisfy."""

from __future__ import annotations

import copy
import pickle
import subprocess
import sys

import numpy as np
import pytest
import scipy.sparse
from sklearn.base import clone, is_classifier, is_regressor
from sklearn.datasets import load_digits, make_classification, make_regression
from sklearn.exceptions import DataConversionWarning
from sklearn.exceptions import NotFittedError as TheirNotFittedError
from sklearn.metrics import accuracy_score, r2_score
from sklearn.model_selection import GridSearchCV, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils.estimator_checks import parametrize_with_checks
from sklearn.utils.validation import check_is_fitted

import weft
from weft import nn
from weft.errors import OptionError
from weft.sklearn import Classifier, NotFittedError, Regressor

SMALL = {"hidden": (8,), "lr": 0.05, "max_epochs": 40}
RICH = {"hidden": (8, 8), "activation": "tanh", "norm": "layer", "lr": 0.05, "max_epochs": 60, "early_stopping": False}


@pytest.fixture(scope="module")
def classes():
    x, y = make_classification(120, 6, n_informative=4, n_classes=3, class_sep=2, random_state=0)
    return x, np.array(["ash", "oak", "yew"])[y]


@pytest.fixture(scope="module")
def numbers():
    x, y = make_regression(120, 5, noise=1.0, random_state=0)
    return x, y / y.std()


# ------------------------------------------------------------------------------------------- scikit-learn's checks


@pytest.mark.filterwarnings("ignore")
@parametrize_with_checks([Classifier(**SMALL), Regressor(**SMALL)])
def test_scikit_learns_checks(estimator, check):
    check(estimator)


def deep(in_features, out_features):
    return nn.Sequential(nn.Linear(in_features, 8), nn.Tanh(), nn.Linear(8, out_features))


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
@parametrize_with_checks(
    [
        Classifier(**RICH),
        Regressor(**RICH),
        Classifier(deep, lr=0.05, max_epochs=60, dtype="float64", compile=False),
        Regressor(deep, lr=0.05, max_epochs=60, dtype="float64", compile=False),
    ]
)
def test_scikit_learns_checks_of_other_configurations(estimator, check):
    check(estimator)


def test_kinds_and_parameters():
    assert is_classifier(Classifier()) and is_regressor(Regressor())
    model = Classifier(hidden=(3,), lr=0.5)
    assert repr(model) == "Classifier(hidden=(3,), lr=0.5)" and clone(model).get_params() == model.get_params()
    with pytest.raises(ValueError, match="Invalid parameter 'depth'"):
        model.set_params(depth=3)


# ------------------------------------------------------------------------------------------- in company


def test_pipeline_grid_search_and_cross_validation(classes):
    x, y = classes
    pipeline = make_pipeline(StandardScaler(), Classifier(**SMALL, random_state=0))
    search = GridSearchCV(pipeline, {"classifier__hidden": [(4,), (16,)], "classifier__lr": [0.05, 1e-6]}, cv=3)
    search.fit(x, y)
    assert search.best_params_["classifier__lr"] == 0.05 and search.best_score_ > 0.85
    assert len(pipeline._repr_html_()) > 100
    assert cross_val_score(pipeline, x, y, cv=3).mean() > 0.85


def test_regression_in_a_pipeline(numbers):
    x, y = numbers
    scores = cross_val_score(make_pipeline(StandardScaler(), Regressor(**SMALL, random_state=0)), x, y, cv=3)
    assert scores.min() > 0.8


@pytest.mark.parametrize("way", [lambda m: pickle.loads(pickle.dumps(m)), copy.deepcopy], ids=["pickle", "deepcopy"])
def test_copies_predict_and_go_on_alike(classes, way):
    x, y = classes
    model = Classifier(**SMALL, random_state=0).fit(x, y)
    again = way(model)
    np.testing.assert_array_equal(model.predict_proba(x), again.predict_proba(x))
    model.partial_fit(x, y)
    again.partial_fit(x, y)  # with the optimiser's moments
    np.testing.assert_array_equal(model.predict_proba(x), again.predict_proba(x))
    assert not hasattr(clone(model), "module_")


def test_joblib(classes, tmp_path):
    import joblib

    model = Classifier(**SMALL).fit(*classes)
    joblib.dump(model, tmp_path / "model")
    again = joblib.load(tmp_path / "model", mmap_mode="r")
    np.testing.assert_array_equal(model.predict(classes[0]), again.predict(classes[0]))


def test_scores_equal_scikit_learns(classes, numbers):
    x, y = classes
    weights = np.random.default_rng(0).random(len(y))
    model = Classifier(**SMALL).fit(x, y)
    assert model.score(x, y, weights) == pytest.approx(accuracy_score(y, model.predict(x), sample_weight=weights))
    x, y = numbers
    for targets in (y, np.column_stack([y, -y, np.ones(len(y))])):
        model = Regressor(**SMALL).fit(x, targets)
        expected = r2_score(targets, model.predict(x), sample_weight=weights)
        assert model.score(x, targets, weights) == pytest.approx(expected)
        assert model.predict(x).shape == targets.shape


def test_not_fitted_is_both_errors():
    for kind in (NotFittedError, TheirNotFittedError, ValueError, AttributeError, weft.errors.WeftError):
        with pytest.raises(kind, match="not fitted"):
            Classifier().predict([[1.0]])
    with pytest.raises(TheirNotFittedError):
        check_is_fitted(Regressor())
    try:
        Regressor().predict([[1.0]])
    except NotFittedError as error:
        assert isinstance(pickle.loads(pickle.dumps(error)), TheirNotFittedError)


def test_works_without_scikit_learn():
    program = """
import sys
from weft.sklearn import Classifier, Regressor, NotFittedError
try:
    Classifier().predict([[0.0]])
except NotFittedError as error:
    assert isinstance(error, (ValueError, AttributeError))
model = Classifier(hidden=(4,), max_epochs=2).fit([[0.0], [1.0]], ["a", "b"])
assert model.predict_proba([[0.5]]).shape == (1, 2) and model.__sklearn_tags__().estimator_type == "classifier"
assert Regressor(hidden=(4,), max_epochs=2).fit([[0.0], [1.0]], [0, 1]).__sklearn_tags__().input_tags.sparse
assert not [name for name in sys.modules if name == "sklearn" or name.startswith("sklearn.")]
"""
    subprocess.run([sys.executable, "-c", program], check=True)


# ------------------------------------------------------------------------------------------- training


def same(a, b, rtol=1e-9):
    for p, q in zip(a.module_.parameters(), b.module_.parameters(), strict=True):
        np.testing.assert_allclose(p.detach(), q.detach(), rtol=rtol, atol=1e-10)


def test_a_fit_is_repeatable_and_leaves_the_default_generator_alone(classes):
    weft.manual_seed(7)
    state = weft.get_rng_state()
    options = {**SMALL, "dropout": 0.3, "batch_size": 32}
    one, two, other = (Classifier(**options, random_state=seed).fit(*classes) for seed in (0, 0, 1))
    assert (weft.get_rng_state() == state).all()
    same(one, two, rtol=0)
    assert not np.allclose(one.loss_curve_[-1], other.loss_curve_[-1])
    free = [Classifier(**SMALL).fit(*classes).loss_curve_[0] for _ in range(2)]
    assert free[0] != free[1]


@pytest.mark.parametrize(
    "make",
    [lambda: np.random.RandomState(3), lambda: np.random.default_rng(3), lambda: weft.Generator().manual_seed(3)],
)
def test_random_state_may_be_a_generator(classes, make):
    a, b = (Classifier(**SMALL, random_state=make()).fit(*classes) for _ in range(2))
    same(a, b, rtol=0)


@pytest.mark.parametrize("batch_size", ["auto", 50])
def test_compiled_training_equals_eager(classes, batch_size):
    options = {**SMALL, "random_state": 0, "batch_size": batch_size}
    same(Classifier(**options).fit(*classes), Classifier(**options, compile=False).fit(*classes), rtol=1e-6)


def test_fit_equals_as_many_partial_fits(classes):
    x, y = classes
    options = {**SMALL, "max_epochs": 5, "dropout": 0.2, "batch_size": 50, "random_state": 0}
    whole, steps = Classifier(**options).fit(x, y), Classifier(**options)
    for _ in range(5):
        steps.partial_fit(x, y, classes=np.unique(y))
    same(whole, steps, rtol=0)
    assert whole.loss_curve_ == steps.loss_curve_ and steps.n_iter_ == 5


def test_a_full_batch_of_one_layer_is_logistic_regression(classes):
    """The loss reached is the minimum that scikit-learn's solver finds."""
    from sklearn.linear_model import LogisticRegression
    from sklearn.metrics import log_loss

    x, y = classes
    theirs = LogisticRegression(C=np.inf, max_iter=2000, tol=1e-9).fit(x, y)
    ours = Classifier(hidden=(), lr=0.05, max_epochs=3000, n_iter_no_change=3000, random_state=0).fit(x, y)
    assert ours.loss_curve_[-1] == pytest.approx(log_loss(y, theirs.predict_proba(x)), abs=2e-4)
    assert (ours.predict(x) == theirs.predict(x)).mean() > 0.98


def test_a_linear_network_finds_the_least_squares(numbers):
    x, y = numbers
    model = Regressor(hidden=(), optimizer="sgd", lr=0.05, max_epochs=300, n_iter_no_change=300).fit(x, y)
    expected = np.linalg.lstsq(np.column_stack([x, np.ones(len(x))]), y)[0]
    np.testing.assert_allclose(model.module_.output.weight.detach()[0], expected[:-1], rtol=1e-6)


@pytest.mark.parametrize("batch_size", [1, 7, 50, 119, 120, 1000])
def test_rows_of_the_last_batch_count_once(numbers, batch_size):
    """With lr 0 the loss of an epoch is the mean over all rows, whatever the batches."""
    x, y = numbers
    model = Regressor(hidden=(4,), optimizer=lambda p: weft.optim.SGD(p, lr=0.0), batch_size=batch_size, max_epochs=1)
    model.set_params(random_state=0).fit(x, y)
    assert model.loss_curve_[0] == pytest.approx(((model.predict(x) - y) ** 2).mean(), rel=1e-9)


def test_weights_count_like_repetitions(classes):
    x, y = classes
    times = np.random.default_rng(0).integers(0, 4, len(y))
    options = {**SMALL, "random_state": 0, "batch_size": 10_000}
    weighted = Classifier(**options).fit(x, y, sample_weight=times)
    repeated = Classifier(**options).fit(np.repeat(x, times, 0), np.repeat(y, times))
    same(weighted, repeated, rtol=1e-6)


def test_warm_start_goes_on(classes):
    x, y = classes
    model = Classifier(**{**SMALL, "max_epochs": 3}, warm_start=True, random_state=0).fit(x, y)
    first = model.module_
    model.set_params(lr=0.0).fit(x, y)
    assert model.module_ is first and model.n_iter_ == 6 and len(model.loss_curve_) == 6
    assert model.loss_curve_[3] == pytest.approx(model.loss_curve_[5], rel=1e-12)  # the new lr is obeyed
    assert model.set_params(warm_start=False, lr=0.05).fit(x, y).n_iter_ == 3


def test_training_ends_when_the_loss_stalls(classes):
    model = Classifier(hidden=(4,), lr=1e-9, max_epochs=50, n_iter_no_change=3).fit(*classes)
    assert model.n_iter_ == 4


@pytest.mark.parametrize("kind", [Classifier, Regressor])
def test_early_stopping_returns_to_the_best_weights(kind, classes, numbers):
    x, y = classes if kind is Classifier else numbers
    model = kind(hidden=(32,), lr=0.1, early_stopping=True, validation_fraction=0.3, n_iter_no_change=5, random_state=0)
    model.fit(x, y)
    scores = model.validation_scores_
    best = int(np.argmax(scores))
    assert len(scores) == model.n_iter_ < 200 and len(scores) - 1 - best >= 5
    shorter = clone(model).set_params(max_epochs=best + 1).fit(x, y)  # ends at the best epoch
    same(model, shorter, rtol=1e-9)


def test_any_module_and_loss(numbers):
    x, y = numbers
    huber = lambda p, t: nn.functional.huber_loss(p, t, reduction="none")
    model = Regressor(
        deep, loss=huber, optimizer=lambda p: weft.optim.RMSprop(p, lr=0.01), max_epochs=60, random_state=0
    )
    assert model.fit(x, y).score(x, y) > 0.9 and isinstance(model.module_[1], nn.Tanh)


def test_images_of_more_dimensions():
    digits = load_digits()
    images, labels = digits.images[:400, None] / 16, digits.target[:400]  # (400, 1, 8, 8)

    def cnn(in_features, out_features):
        return nn.Sequential(nn.Conv2d(in_features, 8, 3), nn.ReLU(), nn.Flatten(), nn.Linear(8 * 36, out_features))

    model = Classifier(cnn, lr=0.01, max_epochs=20, dtype="float32", random_state=0).fit(images, labels)
    assert model.score(images, labels) > 0.97 and model.n_features_in_ == 1
    with pytest.raises(ValueError, match="Expected 2D array, got 4D"):
        Classifier(**SMALL).fit(images, labels)


# ------------------------------------------------------------------------------------------- data


@pytest.mark.parametrize("form", [scipy.sparse.csr_matrix, scipy.sparse.csc_array, scipy.sparse.coo_array])
def test_sparse_rows_train_like_dense_ones(classes, form):
    x, y = classes
    x = np.where(x > 0.5, x, 0)
    options = {**SMALL, "batch_size": 32, "random_state": 0}
    dense, sparse = Classifier(**options).fit(x, y), Classifier(**options).fit(form(x), y)
    same(dense, sparse, rtol=1e-12)
    np.testing.assert_allclose(dense.predict_proba(x), sparse.predict_proba(form(x)), rtol=1e-12)
    broken = form(x)
    broken.data[0] = np.nan
    with pytest.raises(ValueError, match="NaN"):
        sparse.predict(broken)


@pytest.mark.parametrize(
    "give",
    [
        lambda x: x.tolist(),
        np.asfortranarray,
        lambda x: np.repeat(x, 2, 0)[::2],
        lambda x: x[::-1][::-1],
        lambda x: weft.tensor(x),
    ],
    ids=["list", "fortran", "strided", "reversed", "tensor"],
)
def test_forms_of_rows(classes, give):
    x, y = classes
    options = {**SMALL, "max_epochs": 3, "random_state": 0}
    same(Classifier(**options).fit(x, y), Classifier(**options).fit(give(x), y), rtol=1e-12)


@pytest.mark.parametrize(
    "given, asked, used",
    [
        ("float64", None, "float64"),
        ("float32", None, "float32"),
        ("int64", None, "float64"),
        ("float64", "float32", "float32"),
    ],
)
def test_types(classes, given, asked, used):
    x, y = classes
    model = Classifier(**SMALL, dtype=asked).fit(x.astype(given), y)
    assert model.predict_proba(x.astype(given)).dtype == used == str(model.module_.output.weight.dtype)[5:]


class Frame:
    """Like a data frame in what matters: columns with names, and an array inside."""

    def __init__(self, values, columns):
        self.values, self.columns, self.shape = values, columns, values.shape

    def __array__(self, dtype=None, copy=None):
        return np.asarray(self.values, dtype)


def test_names_of_features(classes):
    x, y = classes
    names = list("abcdef")
    model = Classifier(**SMALL).fit(Frame(x, names), y)
    assert list(model.feature_names_in_) == names and model.n_features_in_ == 6
    model.predict(Frame(x, names))
    with pytest.warns(UserWarning, match="does not have valid feature names"):
        model.predict(x)
    for other, message in ((names[::-1], "same order"), (list("abcdeg"), r"unseen at fit time:\n- g\n"), (names, None)):
        if message:
            with pytest.raises(ValueError, match=message):
                model.predict(Frame(x, other))
    assert not hasattr(model.fit(x, y), "feature_names_in_")
    with pytest.warns(UserWarning, match="fitted without feature names"):
        model.predict(Frame(x, names))


@pytest.mark.parametrize(
    "x, y, message",
    [
        (np.zeros((0, 2)), [], "0 sample"),
        (np.zeros((2, 0)), [0, 1], "0 feature"),
        (np.zeros(3), [0, 1, 0], "Reshape your data"),
        ([[np.nan], [1]], [0, 1], "contains NaN"),
        ([[np.inf], [1]], [0, 1], "infinity"),
        ([[1j], [1]], [0, 1], "Complex data"),
        ([[0.0], [1]], None, "y is None"),
        ([[0.0], [1]], [0], "inconsistent numbers of samples"),
        ([[0.0], [1]], [[0, 1], [1, 0]], "1d array"),
        ([[0.0], [1]], [0.5, 1], "continuous"),
        ([[0.0], [1]], [np.nan, 1], "NaN"),
    ],
)
def test_data_that_cannot_be_learned(x, y, message):
    with pytest.raises(ValueError, match=message):
        Classifier(**SMALL).fit(x, y)


def test_numbers_too_large_for_the_type():
    with pytest.raises(ValueError, match="too large for"):
        Classifier(**SMALL, dtype="float32").fit([[1e300], [1.0]], [0, 1])


@pytest.mark.parametrize(
    "weights, message", [([1.0], "expected shape"), ([0, 0], "zero"), ([-1, 1], "negative"), ([np.nan, 1], "NaN")]
)
def test_weights_that_cannot_be_used(weights, message):
    with pytest.raises(ValueError, match=message):
        Classifier(**SMALL).fit([[0.0], [1.0]], [0, 1], sample_weight=weights)


def test_column_vectors_are_flattened_with_a_warning():
    with pytest.warns(DataConversionWarning, match="column-vector"):
        Classifier(**SMALL).fit([[0.0], [1.0]], [[0], [1]])


def test_partial_fit_knows_its_classes():
    model = Classifier(**SMALL).partial_fit([[0.0], [1.0]], [0, 1], classes=[0, 1, 5])
    assert model.predict_proba([[0.0]]).shape == (1, 3) and model.classes_.tolist() == [0, 1, 5]
    with pytest.raises(ValueError, match="not in"):
        model.partial_fit([[0.0]], [3])
    with pytest.raises(ValueError, match="first call"):
        model.partial_fit([[0.0]], [1], classes=[0, 1])


@pytest.mark.parametrize(
    "options",
    [
        {"batch_size": 0},
        {"max_epochs": 0},
        {"validation_fraction": 1.0},
        {"optimizer": "adma"},
        {"dtype": "float16"},
        {"activation": "rely"},
    ],
)
def test_wrong_options_are_named_by_fit(options):
    model = Classifier(**{**SMALL, **options})
    with pytest.raises(OptionError, match=next(iter(options))):
        model.fit([[0.0], [1.0]], [0, 1])
    with pytest.raises(NotFittedError):
        model.predict([[0.0]])


def test_divergence_is_named():
    x = np.array([[1.0], [-1.0]])
    with pytest.raises(ValueError, match=r"diverged.*lr"):
        Regressor(hidden=(), optimizer="sgd", lr=1e60, max_epochs=100).fit(x, [1.0, -1.0])


def test_one_row_and_one_class():
    assert Classifier(**SMALL).fit([[1.0, 2.0]], ["a"]).predict([[0.0, 0.0]]).tolist() == ["a"]
    model = Regressor(**SMALL).fit([[1.0]], [3.0])
    assert model.predict([[1.0]]).shape == (1,) and np.isnan(model.score([[1.0]], [3.0]))


def test_progress_is_printed_on_request(capsys):
    Regressor(hidden=(2,), max_epochs=2, verbose=True).fit([[1.0], [2.0]], [1, 2])
    assert capsys.readouterr().out.splitlines()[1].startswith("epoch 2: loss ")
