"""Splits and searches against scikit-learn; bias, variance and double descent against identities and closed forms."""

from __future__ import annotations

import itertools
import json
import math

import numpy as np
import pytest
from sklearn import model_selection
from sklearn.dummy import DummyClassifier
from sklearn.experimental import enable_halving_search_cv  # noqa: F401
from sklearn.linear_model import Ridge

import weft
from weft.errors import OptionError, ShapeError
from weft.models.supervised import random_relu
from weft.train.selection import (
    AsynchronousHalving,
    Choice,
    Finished,
    Grid,
    Integer,
    LogUniform,
    Random,
    Split,
    SuccessiveHalving,
    Uniform,
    bias_variance,
    cross_validate,
    decompose,
    double_descent,
    hold_out,
    k_fold,
    parse_space,
    ridge_bias_variance,
)

# ------------------------------------------------------------------------------------------- splits


@pytest.mark.parametrize("n, k", [(10, 5), (11, 4), (2, 2), (7, 7), (100, 3)])
@pytest.mark.parametrize("seed", [None, 0, 3])
def test_folds_are_a_partition(n, k, seed):
    splits = k_fold(n, k, seed=seed)
    held = np.concatenate([split.validation for split in splits])
    assert sorted(held) == list(range(n))
    sizes = [len(split.validation) for split in splits]
    assert len(splits) == k and max(sizes) - min(sizes) <= 1
    for split in splits:
        assert sorted([*split.train, *split.validation]) == list(range(n))


@pytest.mark.parametrize("n, k", [(10, 5), (11, 4), (7, 7)])
def test_folds_in_order_equal_scikit_learn(n, k):
    theirs = model_selection.KFold(k).split(np.zeros(n))
    for ours, (train, validation) in zip(k_fold(n, k, seed=None), theirs, strict=True):
        np.testing.assert_array_equal(ours.train, train)
        np.testing.assert_array_equal(ours.validation, validation)


@pytest.mark.parametrize("labels", [[0, 1] * 20, [0] * 30 + [1] * 7 + [2] * 3, list("aab" * 9)])
@pytest.mark.parametrize("k", [2, 3, 5])
def test_stratified_folds_spread_every_class(labels, k):
    labels = np.array(labels)
    splits = k_fold(len(labels), k, seed=1, stratify=labels)
    for label in np.unique(labels):
        counts = [(labels[split.validation] == label).sum() for split in splits]
        assert max(counts) - min(counts) <= 1
    sizes = [len(split.validation) for split in splits]
    assert max(sizes) - min(sizes) <= 1 and sum(sizes) == len(labels)


@pytest.mark.parametrize(
    "n, fraction, held", [(10, 0.2, 2), (3, 0.01, 1), (3, 0.99, 2), (2, 0.5, 1), (1000, 0.15, 150)]
)
def test_hold_out(n, fraction, held):
    split = hold_out(n, fraction, seed=2)
    assert len(split.validation) == held and sorted([*split.train, *split.validation]) == list(range(n))
    again, other = hold_out(n, fraction, seed=2), hold_out(n, fraction, seed=3)
    np.testing.assert_array_equal(split.validation, again.validation)
    assert n < 1000 or (split.validation != other.validation).any()


@pytest.mark.parametrize("fraction", [0.1, 0.25, 0.5])
def test_hold_out_keeps_the_share_of_every_class(fraction):
    labels = np.repeat([0, 1, 2], [80, 40, 12])
    held = labels[hold_out(132, fraction, stratify=labels).validation]
    assert (np.abs(np.bincount(held, minlength=3) - fraction * np.array([80, 40, 12])) <= 1).all()


@pytest.mark.parametrize(
    "call",
    [
        lambda: k_fold(3, 4),
        lambda: k_fold(3, 1),
        lambda: hold_out(1, 0.5),
        lambda: hold_out(10, 1.0),
        lambda: hold_out(10, 0.0),
        lambda: k_fold(4, 2, stratify=[0, 1]),
    ],
)
def test_impossible_splits(call):
    with pytest.raises(OptionError, match="expected"):
        call()


def test_cross_validation_equals_scikit_learn():
    random = np.random.default_rng(0)
    x, w = random.normal(size=(50, 4)), random.normal(size=4)
    y = x @ w + random.normal(size=50)
    ours = cross_validate(
        lambda rows: Ridge(1.0).fit(x[rows], y[rows]),
        lambda m, rows: m.score(x[rows], y[rows]),
        k_fold(50, 5, seed=None),
    )
    theirs = model_selection.cross_validate(Ridge(1.0), x, y, cv=model_selection.KFold(5), return_train_score=True)
    np.testing.assert_allclose(ours.validation, theirs["test_score"], rtol=1e-12)
    np.testing.assert_allclose(ours.train, theirs["train_score"], rtol=1e-12)
    np.testing.assert_allclose([ours.mean, ours.std], [theirs["test_score"].mean(), theirs["test_score"].std()])


# ------------------------------------------------------------------------------------------- spaces and searches

SPACE = {"lr": LogUniform(1e-4, 1e-1), "momentum": Uniform(0, 0.9), "depth": Integer(1, 4), "kind": ["a", "b"], "n": 3}


def test_grid_equals_scikit_learn():
    grid = {"b": [1, 2], "a": ["x", "y", "z"], "c": [True]}
    ours = [trial.settings for trial in Grid(grid).pending([])]
    theirs = list(model_selection.ParameterGrid(grid))
    assert len(ours) == len(theirs) == 6 and all(settings in theirs for settings in ours)
    assert Grid({"k": Integer(2, 4)}).candidates() == [{"k": 2}, {"k": 3}, {"k": 4}]
    assert Grid({}).candidates() == [{}]


def test_draws_follow_their_distributions():
    drawn = Random(SPACE, 4000, seed=5).candidates()
    lr = np.log10([d["lr"] for d in drawn])
    assert lr.min() >= -4 and lr.max() < -1 and abs(lr.mean() + 2.5) < 4 * 3 / math.sqrt(12 * 4000)
    momentum = np.array([d["momentum"] for d in drawn])
    assert 0 <= momentum.min() and momentum.max() < 0.9 and abs(momentum.mean() - 0.45) < 4 * 0.9 / math.sqrt(12 * 4000)
    counts = np.bincount([d["depth"] for d in drawn])
    assert counts[0] == 0 and len(counts) == 5 and np.abs(counts[1:] - 1000).max() < 4 * math.sqrt(750)
    assert {d["kind"] for d in drawn} == {"a", "b"} and {d["n"] for d in drawn} == {3}


def test_draw_i_depends_on_seed_and_i_alone():
    few, many = Random(SPACE, 5, seed=1).candidates(), Random(SPACE, 50, seed=1).candidates()
    assert many[:5] == few and Random(SPACE, 5, seed=2).candidates() != few
    assert json.loads(json.dumps(many)) == many  # so they can be written to a run folder


@pytest.mark.parametrize(
    "n, low, high, eta", [(9, 1, 9, 3), (27, 1, 9, 3), (12, 2, 10, 2), (16, 1, 8, 2), (10, 1, 9, 3)]
)
def test_rungs_equal_scikit_learn(n, low, high, eta):
    theirs = model_selection.HalvingGridSearchCV(
        DummyClassifier(strategy="constant"),
        {"constant": [0, 1] * (n // 2) + [0] * (n % 2)},
        factor=eta,
        resource="random_state",
        min_resources=low,
        max_resources=high,
        cv=2,
    ).fit(np.zeros((20, 1)), [0, 1] * 10)
    plan = SuccessiveHalving({"x": Uniform(0, 1)}, n, low, high, eta).plan()
    rungs = len(theirs.n_candidates_)  # scikit-learn stops when one is left; ours goes on to max_budget
    assert [len(rung) for rung in plan][:rungs] == theirs.n_candidates_
    assert [rung[0] for rung in plan][:rungs] == theirs.n_resources_
    assert all(len(rung) == 1 for rung in plan[rungs:]) and plan[-1][0] <= high < plan[-1][0] * eta


def run_to_the_end(search, score, finished=()):
    finished = list(finished)
    while trials := search.pending(finished):
        finished.append(Finished(trials[0].number, score(trials[0]), trials[0].rung, trials[0].settings))
    return finished


@pytest.mark.parametrize("maximize", [True, False])
def test_halving_keeps_the_best_of_every_rung(maximize):
    search = SuccessiveHalving({"x": Uniform(0, 1)}, 13, 1, 27, 3, seed=4, maximize=maximize)
    finished = run_to_the_end(search, lambda trial: trial.settings["x"])
    x = np.array([settings["x"] for settings in search.candidates()])
    order = np.argsort(-x if maximize else x)
    for rung, size in enumerate((13, 5, 2, 1)):
        assert sorted(f.number for f in finished if f.rung == rung) == sorted(order[:size])
    best = search.best(finished)
    assert (best.number, best.rung, best.budget) == (order[0], 3, 27)


@pytest.mark.parametrize(
    "search",
    [
        Grid({"x": [3, 1, 2]}),
        Random({"x": Uniform(0, 1)}, 6),
        SuccessiveHalving({"x": Uniform(0, 1)}, 8, 1, 4, 2),
        AsynchronousHalving({"x": Uniform(0, 1)}, 8, 1, 4, 2, lanes=3),
    ],
)
def test_a_search_continues_from_every_prefix(search):
    score = lambda trial: -abs(trial.settings["x"] - 0.3)
    whole = run_to_the_end(search, score)
    for cut in range(len(whole) + 1):
        again = run_to_the_end(search, score, whole[:cut])
        assert sorted(again, key=lambda f: (f.rung, f.number)) == sorted(whole, key=lambda f: (f.rung, f.number))
    shuffled = [whole[i] for i in np.random.default_rng(0).permutation(len(whole))]
    assert search.pending(shuffled) == [] and search.best(shuffled) == search.best(whole)


def promotions(score, n, eta, rungs):
    """Algorithm 2 of Li et al. (2020), for one worker, written out: (number, rung) in the order of running."""
    seen, gone, drawn, order = [[] for _ in range(rungs)], set(), 0, []
    while True:
        for rung in range(rungs - 2, -1, -1):
            best = sorted(seen[rung], key=lambda k: -score(k))[: int(len(seen[rung]) / eta)]
            best = [k for k in best if (k, rung) not in gone]
            if best:
                gone.add((best[0], rung))
                seen[rung + 1].append(best[0])
                order.append((best[0], rung + 1))
                break
        else:
            if drawn == n:
                return order
            seen[0].append(drawn)
            order.append((drawn, 0))
            drawn += 1


def test_asynchronous_halving_with_one_lane_is_the_algorithm_of_the_paper():
    search = AsynchronousHalving({"x": Uniform(0, 1)}, 27, 1, 9, 3, seed=2, lanes=1)
    x = [settings["x"] for settings in search.candidates()]
    order = promotions(x.__getitem__, 27, 3, 3)
    finished = run_to_the_end(search, lambda trial: trial.settings["x"])
    found = [(f.number, f.rung) for f in finished]
    assert found[: len(order)] == order  # after that nothing else can come, and parts of η are rounded up


@pytest.mark.parametrize("lanes", [1, 4, 8])
@pytest.mark.parametrize("maximize", [True, False])
def test_asynchronous_halving_does_not_depend_on_who_is_quick(lanes, maximize):
    """Whatever order results come in, the same trials run, and the best gets the whole budget; nobody waits for a rung."""
    search = AsynchronousHalving({"x": Uniform(0, 1)}, 20, 1, 27, 3, seed=4, maximize=maximize, lanes=lanes)
    rng, tables = np.random.default_rng(0), []
    for _ in range(3):
        finished, waited = [], False
        while trials := search.pending(finished):
            assert len(trials) <= lanes
            waited = waited or {t.rung for t in trials} == {0, 1}
            trial = trials[rng.integers(len(trials))]
            finished.append(Finished(trial.number, trial.settings["x"], trial.rung, trial.settings))
        tables.append(sorted((f.number, f.rung) for f in finished))
        assert waited or lanes == 1
    assert tables[0] == tables[1] == tables[2]
    x = np.array([settings["x"] for settings in search.candidates()])
    best = search.best(finished)
    assert best.rung == 3 and best.number == (x.argmax() if maximize else x.argmin())


def test_failed_trials_rank_last_and_do_not_survive():
    search = SuccessiveHalving({"x": Uniform(0, 1)}, 4, 1, 4, 2)
    first = [Finished(0, None), Finished(1, math.nan), Finished(2, 0.1), Finished(3, None)]
    assert [trial.number for trial in search.pending(first)] == [2]
    assert search.best(first).number == 2
    everything = [Finished(i, None) for i in range(4)]
    assert search.pending(everything) == [] and search.best(everything) is None and search.best([]) is None


def test_the_last_report_of_a_trial_counts():
    search = Grid({"x": [1, 2]})
    assert search.best([Finished(0, 5.0), Finished(1, 1.0), Finished(0, 0.0)]).number == 1


def test_equal_scores_are_ranked_by_number():
    search = SuccessiveHalving({"x": Uniform(0, 1)}, 6, 1, 3, 3)
    assert [trial.number for trial in search.pending([Finished(i, 1.0) for i in range(6)])] == [0, 1]


@pytest.mark.parametrize("finished", [Finished(0, 1.0, settings={"x": 9}), Finished(7, 1.0)])
def test_a_changed_search_does_not_continue(finished):
    with pytest.raises(OptionError, match="begun with"):
        Grid({"x": [1, 2]}).pending([finished])


@pytest.mark.parametrize(
    "text, expected",
    [
        ("1,2,3", Choice((1, 2, 3))),
        ("relu, tanh", Choice(("relu", "tanh"))),
        ("0.1", Choice((0.1,))),
        ("true,None", Choice((True, None))),
        ("log(1e-4,1e-1)", LogUniform(1e-4, 1e-1)),
        ("uniform(0, 0.5)", Uniform(0, 0.5)),
        ("int(1,8)", Integer(1, 8)),
        ("f(x)", Choice(("f(x)",))),
    ],
)
def test_spaces_from_text(text, expected):
    assert parse_space(text) == expected


@pytest.mark.parametrize(
    "call",
    [
        lambda: parse_space("log(1)"),
        lambda: parse_space("int(1.5,2)"),
        lambda: parse_space("uniform(a,b)"),
        lambda: LogUniform(0, 1),
        lambda: Random({}, 0),
        lambda: SuccessiveHalving({}, 3, 5, 4),
        lambda: SuccessiveHalving({}, 3, 1, 4, 1),
        lambda: AsynchronousHalving({}, 3, lanes=0),
        lambda: Grid({"x": Uniform(0, 1)}).pending([]),
    ],
)
def test_impossible_searches(call):
    with pytest.raises(OptionError, match=r"expected|no list"):
        call()


# ------------------------------------------------------------------------------------------- bias and variance


@pytest.mark.parametrize("models, points, draws", [(1, 1, 1), (3, 5, 1), (1, 4, 6), (40, 20, 30)])
def test_error_is_noise_plus_bias_plus_variance_exactly(models, points, draws):
    random = np.random.default_rng(0)
    f, y = random.normal(size=(models, points)) * 3 + 1, random.normal(size=(points, draws)) - 2
    parts = decompose(f, y)
    expected = ((f[:, :, None] - y[None]) ** 2).mean((0, 2))  # every model with every draw
    np.testing.assert_allclose(parts.error, expected, rtol=1e-13)
    np.testing.assert_allclose(parts.noise + parts.bias_squared + parts.variance, expected, rtol=1e-12)
    summary = parts.summary()
    np.testing.assert_allclose(
        summary["error"], summary["noise"] + summary["bias_squared"] + summary["variance"], rtol=1e-12
    )


def linear_gaussian(ridge, repeats, n=20, d=4, sigma=0.5):
    random = np.random.default_rng(1)
    x, w, points = random.normal(size=(n, d)), random.normal(size=d), random.normal(size=(30, d))

    def draw(generator):
        return x, x @ w + sigma * generator.normal(n, np.float64)

    def fit(x, y):
        weight = np.linalg.solve(x.T @ x + ridge * np.eye(d), x.T @ y)
        return lambda points: points @ weight

    targets = (points @ w)[:, None] + sigma * random.normal(size=(30, 2000))
    return bias_variance(draw, fit, points, targets, repeats=repeats), ridge_bias_variance(x, w, sigma, points, ridge)


@pytest.mark.parametrize("ridge", [0.0, 3.0, 100.0])
def test_bias_and_variance_of_ridge_regression_have_a_closed_form(ridge):
    repeats = 4000
    sampled, exact = linear_gaussian(ridge, repeats)
    tolerance = 5 * np.sqrt(2 / repeats)  # five standard deviations of a sample variance of normal numbers
    np.testing.assert_allclose(sampled.variance, exact.variance, rtol=tolerance)
    np.testing.assert_allclose(sampled.noise, exact.noise, rtol=5 * np.sqrt(2 / 2000))
    spread = 5 * np.sqrt(exact.variance / repeats + exact.noise / 2000)  # of f̄ − ȳ
    assert (np.abs(np.sqrt(sampled.bias_squared) - np.sqrt(exact.bias_squared)) < spread).all()
    np.testing.assert_allclose(exact.error, exact.noise + exact.bias_squared + exact.variance)


def test_more_penalty_trades_variance_for_bias():
    parts = [linear_gaussian(ridge, 1)[1].summary() for ridge in (0.0, 1.0, 10.0, 100.0)]
    variance, bias = [p["variance"] for p in parts], [p["bias_squared"] for p in parts]
    assert bias[0] == 0 and bias == sorted(bias) and variance == sorted(variance, reverse=True)


def test_variance_at_the_training_points_is_sigma_squared_d_over_n():
    x = np.random.default_rng(0).normal(size=(25, 5))
    exact = ridge_bias_variance(x, np.ones(5), 2.0, x)
    np.testing.assert_allclose(exact.variance.mean(), 4 * 5 / 25, rtol=1e-12)


def test_repetitions_are_a_function_of_the_seed():
    draw = lambda g: (g.normal((5, 1), np.float64), g.normal(5, np.float64))
    fit = lambda x, y: lambda points: np.full(len(points), y.mean())
    run = lambda seed: bias_variance(draw, fit, np.zeros((3, 1)), np.zeros((3, 1)), repeats=4, seed=seed).variance
    np.testing.assert_array_equal(run(1), run(1))
    assert (run(1) != run(2)).any()


@pytest.mark.parametrize("f, y", [((2, 3), (4, 1)), ((3,), (3, 1)), ((2, 0), (0, 1)), ((2, 3), (3,))])
def test_decompose_refuses_other_shapes(f, y):
    with pytest.raises(ShapeError, match="expected predictions"):
        decompose(np.zeros(f), np.zeros(y))


def test_no_repetition():
    with pytest.raises(OptionError, match="repeats >= 1"):
        bias_variance(None, None, np.zeros((1, 1)), np.zeros((1, 1)), repeats=0)


# ------------------------------------------------------------------------------------------- double descent


def expected_risk(p, n, d, sigma):
    """Belkin, Hsu and Xu 2019, theorem 1: y = ⟨x, w⟩ + σ ε, normal x, ‖w‖² = 1 spread evenly over d, p of them used."""
    used, left = p / d, 1 - p / d
    if p <= n - 2:
        return (left + sigma**2) * (1 + p / (n - p - 1))
    return used * (1 - n / p) + (left + sigma**2) * (1 + n / (p - n - 1))


def test_risk_of_least_norm_regression_follows_the_theorem():
    n, d, sigma = 20, 60, 0.3
    w = np.full(d, 1 / math.sqrt(d))
    random = np.random.default_rng(0)

    def draw(generator):
        x = generator.normal((n, d), np.float64)
        return x, x @ w + sigma * generator.normal(n, np.float64)

    x_test = random.normal(size=(2000, d))
    test = x_test, x_test @ w + sigma * random.normal(size=2000)
    widths = [5, 10, 30, 40, 60]
    points = double_descent(draw, lambda x, p: x[:, :p], widths, test, repeats=200)
    for point in points:
        np.testing.assert_allclose(point.test_error, expected_risk(point.features, n, d, sigma), rtol=0.1)
        assert (point.train_error < 1e-20) == (point.features >= n)


def test_random_features_descend_twice_with_the_peak_at_the_number_of_rows():
    n = 40
    random = np.random.default_rng(0)
    target = lambda x: np.sin(x).sum(1)

    def draw(generator):
        x = generator.normal((n, 5), np.float64)
        return x, target(x) + 0.2 * generator.normal(n, np.float64)

    x_test = random.normal(size=(500, 5))
    features = lambda x, p: random_relu(weft.tensor(x), p, seed=1).numpy()
    widths = [4, 10, 20, 30, 40, 50, 80, 160, 640]
    sweep = {p.features: p for p in double_descent(draw, features, widths, (x_test, target(x_test)), repeats=15)}
    errors = [sweep[p].test_error for p in widths]
    peak = widths[int(np.argmax(errors))]
    assert peak == n
    after = [sweep[p] for p in widths if p >= n]
    assert all(a.test_error > b.test_error for a, b in itertools.pairwise(after))
    assert all(p.train_error < 1e-12 for p in after[1:])  # at n itself a feature may be 0 on all rows
    assert all(sweep[p].train_error > 1e-4 for p in widths if p < n)
    assert errors[widths.index(10)] < errors[widths.index(30)] < errors[widths.index(40)] > 10 * errors[-1]
    assert after[-1].norm < after[0].norm


def test_a_split_holds_row_numbers():
    split = Split(np.array([0, 2]), np.array([1]))
    assert split.train.tolist() == [0, 2] and split.validation.tolist() == [1]
