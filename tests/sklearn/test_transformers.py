"""`BernoulliRBM` and `Autoencoder` against scikit-learn's checks, its own machine, and what they must find."""

from __future__ import annotations

import copy
import pickle
import subprocess
import sys

import numpy as np
import pytest
import scipy.sparse
import sklearn.neural_network
from sklearn.base import clone
from sklearn.datasets import load_digits
from sklearn.decomposition import PCA
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.utils.estimator_checks import parametrize_with_checks

import weft
from weft.errors import OptionError
from weft.models.autoencoders import Contraction, Masking, TiedAutoencoder
from weft.models.energy import BernoulliRBM as Machine
from weft.sklearn import Autoencoder, BernoulliRBM, NotFittedError

SMALL = {"hidden": (8,), "max_epochs": 10, "lr": 0.01}


@pytest.mark.filterwarnings("ignore")
@parametrize_with_checks([BernoulliRBM(8, n_iter=3), Autoencoder(2, **SMALL)])
def test_scikit_learns_checks(estimator, check):
    check(estimator)


@pytest.fixture(scope="module")
def digits():
    images, labels = load_digits(return_X_y=True)
    return images / 16, labels


@pytest.fixture(scope="module")
def rbm(digits):
    return BernoulliRBM(16, learning_rate=0.06, n_iter=5, random_state=0).fit(digits[0])


# ------------------------------------------------------------------------------------------- the machine


def test_parameters_and_attributes_are_scikit_learns(rbm, digits):
    theirs = sklearn.neural_network.BernoulliRBM(16, learning_rate=0.06, n_iter=5, random_state=0).fit(digits[0])
    assert rbm.get_params() == theirs.get_params()
    for name in ("components_", "intercept_hidden_", "intercept_visible_", "h_samples_"):
        ours, other = getattr(rbm, name), getattr(theirs, name)
        assert ours.shape == other.shape and ours.dtype == other.dtype, name
    assert rbm.n_features_in_ == theirs.n_features_in_ == 64
    assert list(rbm.get_feature_names_out()) == list(theirs.get_feature_names_out())


def carried_over(theirs, **options):
    """Our machine with the arrays of a fitted one of theirs."""
    ours = BernoulliRBM(**options)
    for name in ("components_", "intercept_hidden_", "intercept_visible_", "h_samples_", "n_features_in_"):
        setattr(ours, name, copy.deepcopy(getattr(theirs, name)))
    return ours


def test_with_their_arrays_it_is_their_machine(digits):
    x = (digits[0][:50] > 0.5).astype(float)
    theirs = sklearn.neural_network.BernoulliRBM(8, n_iter=3, random_state=0).fit(digits[0])
    ours = carried_over(theirs, n_components=8, random_state=0)
    np.testing.assert_allclose(ours.transform(x), theirs.transform(x), atol=1e-12)
    many = np.stack([theirs.set_params(random_state=seed).score_samples(x) for seed in range(400)])  # one bit at random
    error = many.std(0) / np.sqrt(400) + 1e-12
    assert np.abs((many.mean(0) - ours.score_samples(x)) / error).max() < 5
    drawn = np.mean([ours.set_params(random_state=seed).gibbs(x) for seed in range(300)], 0)
    other = np.mean([theirs.set_params(random_state=seed).gibbs(x) for seed in range(300)], 0)
    np.testing.assert_allclose(drawn, other, atol=0.2)
    assert set(np.unique(ours.gibbs(x))) <= {0.0, 1.0}


def test_a_step_is_theirs_where_nothing_is_left_to_chance():
    """Biases of ±60 make every draw certain: then one step of learning is a formula, and the same."""
    rng = np.random.default_rng(0)
    x = rng.random((10, 6))
    theirs = sklearn.neural_network.BernoulliRBM(4, batch_size=10, learning_rate=0.3, random_state=0).fit(x)
    theirs.intercept_visible_ = 60 * np.sign(rng.standard_normal(6))
    theirs.intercept_hidden_ = 60 * np.sign(rng.standard_normal(4))
    theirs.components_ = 0.1 * rng.standard_normal((4, 6))
    ours = carried_over(theirs, n_components=4, batch_size=10, learning_rate=0.3, random_state=0)
    theirs._fit(x, np.random.RandomState(0))
    ours.partial_fit(x)
    for name in ("components_", "intercept_hidden_", "intercept_visible_", "h_samples_"):
        np.testing.assert_allclose(getattr(ours, name), getattr(theirs, name), atol=1e-12, err_msg=name)


def test_it_learns_as_well_as_theirs(digits):
    """Exact log-likelihoods of binary digits with 10 hidden units, after as many steps."""
    x = (digits[0] > 0.5).astype(float)
    options = {"n_components": 10, "learning_rate": 0.05, "batch_size": 10, "n_iter": 10}
    found = []
    for kind in (BernoulliRBM, sklearn.neural_network.BernoulliRBM):
        fitted = [kind(**options, random_state=seed).fit(x[:1400]) for seed in range(1)]
        found.append(np.mean([likelihood(model, x[1400:]) for model in fitted]))
    assert found[0] > found[1] - 0.7, found
    rates = x[:1400].mean(0) * 0.999 + 5e-4
    independent = (x[1400:] * np.log(rates) + (1 - x[1400:]) * np.log(1 - rates)).sum(1).mean()
    assert found[0] > independent + 2


def likelihood(model, x):
    machine = Machine(64, model.n_components, dtype=weft.float64)
    with weft.no_grad():
        machine.weight.copy_(weft.tensor(np.ascontiguousarray(model.components_.T)))
        machine.visible_bias.copy_(weft.tensor(model.intercept_visible_))
        machine.hidden_bias.copy_(weft.tensor(model.intercept_hidden_))
        return machine.log_prob(weft.tensor(x)).mean().item()


def test_annealed_scores_enclose_the_likelihood(rbm, digits):
    x = (digits[0][:100] > 0.5).astype(float)
    exact = likelihood(rbm, x)
    sides = {side: rbm.ais_score_samples(x, side, chains=50, temperatures=300) for side in ("upper", "lower")}
    for values, error in sides.values():
        assert values.shape == (100,) and abs(values.mean() - exact) < 4 * error + 0.05
    with pytest.raises(OptionError, match="side"):
        rbm.ais_score_samples(x, "both")


def test_a_fit_is_repeatable_and_copies_go_on_alike(digits):
    x = digits[0][:300]
    one, two = (BernoulliRBM(4, n_iter=2, random_state=3).fit(x) for _ in range(2))
    np.testing.assert_array_equal(one.components_, two.components_)
    other = pickle.loads(pickle.dumps(one))
    for model in (one, other):
        model.partial_fit(x[:50]).partial_fit(x[50:100])
    np.testing.assert_array_equal(one.components_, other.components_)
    assert (one.components_ != two.components_).any()


def test_features_help_a_classifier(digits):
    """Their example: an RBM below logistic regression. Ours serves it as well as theirs does."""
    (x, y), found = digits, []
    for kind in (BernoulliRBM, sklearn.neural_network.BernoulliRBM):
        features = kind(100, learning_rate=0.06, n_iter=8, random_state=0)
        pipeline = make_pipeline(features, LogisticRegression(C=10, max_iter=500))
        found.append(pipeline.fit(x[:1200], y[:1200]).score(x[1200:], y[1200:]))
    assert found[0] > max(found[1] - 0.03, 0.8), found


def test_progress_and_sparse_rows(digits, capsys):
    x = digits[0][:100]
    dense = BernoulliRBM(4, n_iter=2, random_state=0, verbose=True).fit(x)
    sparse = BernoulliRBM(4, n_iter=2, random_state=0).fit(scipy.sparse.csr_matrix(x))
    np.testing.assert_allclose(dense.components_, sparse.components_, rtol=1e-12)
    assert "Iteration 2, pseudo-likelihood = -" in capsys.readouterr().out


@pytest.mark.parametrize("options", [{"n_components": 0}, {"learning_rate": 0}, {"batch_size": 0}, {"n_iter": -1}])
def test_wrong_options_of_the_machine(options):
    with pytest.raises(OptionError, match=next(iter(options))):
        BernoulliRBM(**options).fit([[0.0, 1.0]])


# ------------------------------------------------------------------------------------------- the autoencoder


def test_without_hidden_layers_it_is_pca(digits):
    x = digits[0]
    options = {"lr": 0.03, "batch_size": 2000, "max_epochs": 600, "n_iter_no_change": 600, "random_state": 0}
    model = Autoencoder(3, hidden=(), **options).fit(x)
    pca = PCA(3).fit(x)
    kept = 1 - ((x - pca.inverse_transform(pca.transform(x))) ** 2).sum() / ((x - x.mean(0)) ** 2).sum()
    assert model.score(x) == pytest.approx(kept, abs=0.002) and model.score(x) <= kept + 1e-9
    np.testing.assert_allclose(
        model.score(x),
        1 - ((x - model.inverse_transform(model.transform(x))) ** 2).sum() / ((x - x.mean(0)) ** 2).sum(),
    )


def test_any_model_of_the_family(digits):
    x = digits[0][:400].astype(np.float32)
    tied = lambda features, code: TiedAutoencoder(features, [32, code], "cross_entropy")
    model = Autoencoder(6, module=tied, lr=0.01, max_epochs=30, random_state=0).fit(x)
    assert model.transform(x).dtype == np.float32 and model.loss_curve_[-1] < model.loss_curve_[0]
    noisy = Autoencoder(6, noise=Masking(0.2), penalties=[Contraction(0.01)], hidden=(16,), max_epochs=3).fit(x)
    assert noisy.n_iter_ == 3 and noisy.get_feature_names_out()[0] == "autoencoder0"
    assert isinstance(model.module_, TiedAutoencoder)


def test_compiled_training_equals_eager(digits):
    options = {**SMALL, "noise": Masking(0.2), "random_state": 0}
    one, two = (Autoencoder(3, **options, compile=c).fit(digits[0][:300]) for c in (True, False))
    np.testing.assert_allclose(one.loss_curve_, two.loss_curve_, rtol=1e-6)
    other = pickle.loads(pickle.dumps(one))
    np.testing.assert_array_equal(one.transform(digits[0]), other.transform(digits[0]))


def test_a_search_over_codes(digits):
    x = digits[0][:500]
    search = GridSearchCV(Autoencoder(**SMALL, random_state=0), {"n_components": [1, 8]}, cv=2).fit(x)
    assert search.best_params_ == {"n_components": 8} and not hasattr(clone(search.best_estimator_), "module_")


def test_what_is_refused(digits):
    with pytest.raises(NotFittedError, match="not fitted"):
        Autoencoder().transform([[0.0]])
    model = Autoencoder(2, **SMALL).fit(digits[0][:50])
    with pytest.raises(ValueError, match="codes of 2 numbers"):
        model.inverse_transform([[1.0, 2.0, 3.0]])
    with pytest.raises(ValueError, match="64 features"):
        model.score(digits[0][:, :5])
    with pytest.raises(OptionError, match="n_components"):
        Autoencoder(0).fit([[1.0]])
    with pytest.raises(ValueError, match=r"diverged.*lr"):
        Autoencoder(1, hidden=(), lr=1e200, max_epochs=50).fit([[1.0], [-1.0]])


def test_works_without_scikit_learn():
    program = """
import sys
from weft.sklearn import Autoencoder, BernoulliRBM
x = [[0.0, 1.0], [1.0, 0.0]]
assert BernoulliRBM(3, n_iter=1).fit_transform(x).shape == (2, 3)
assert Autoencoder(1, hidden=(4,), max_epochs=2).fit_transform(x).shape == (2, 1)
assert Autoencoder().__sklearn_tags__().transformer_tags.preserves_dtype == ["float64", "float32"]
assert not [name for name in sys.modules if name == "sklearn" or name.startswith("sklearn.")]
"""
    subprocess.run([sys.executable, "-c", program], check=True)
