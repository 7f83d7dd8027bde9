"""Recipes against strong simple methods: the goal asks for a margin, and each baseline agrees with an outside truth."""

from __future__ import annotations

import json
import os
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from scipy import stats
from sklearn.linear_model import LinearRegression, Ridge
from sklearn.naive_bayes import MultinomialNB
from typer.testing import CliRunner

import weft
from weft import recipes
from weft.app.cli import app
from weft.data import DataLoader, TensorDataset
from weft.errors import OptionError
from weft.recipes import Goal, baselines
from weft.recipes.base import Splits, standard_error
from weft.train import RunFolder

BESIDE = Path(__file__).resolve().parents[3] / "shared" / "data"
REAL = Path(os.environ.get("WEFT_DATA") or BESIDE)
real = pytest.mark.skipif(not REAL.is_dir(), reason="the real files are not there; set WEFT_DATA")

# ------------------------------------------------------------------------------------------- the goal

MORE = Goal("test_accuracy", at_least=0.9, baseline="a line", margin=0.05)
LESS = Goal("test_error", at_most=0.5, baseline="last year", margin=0.1)
BETTER = Goal("test_accuracy", at_least=0.5, baseline="a line")
SHARE = Goal("ratio", at_least=3, baseline="the first", margin=0.1, relative=True)


@pytest.mark.parametrize(
    ("goal", "own", "other", "reached"),
    [
        (MORE, 0.95, 0.85, True),
        (MORE, 0.95, 0.92, False),
        (MORE, 0.89, 0.5, False),  # far above the baseline, below the bound
        (MORE, 0.95, float("nan"), False),
        (MORE, 0.95, None, False),  # a baseline that was never measured is not beaten
        (LESS, 0.4, 0.55, True),
        (LESS, 0.4, 0.45, False),
        (LESS, 0.4, 0.2, False),
        (BETTER, 0.91, 0.9, True),
        (BETTER, 0.9, 0.9, False),  # as good is not better
        (SHARE, 11.0, 10.0, True),
        (SHARE, 10.9, 10.0, False),
    ],
)
def test_a_goal_is_missed_without_the_margin(goal, own, other, reached):
    figures = {goal.metric: own} | ({} if other is None else {goal.beside: other})
    assert goal.reached(figures) is reached


def test_what_a_goal_says():
    assert str(MORE) == "test_accuracy ≥ 0.9 on the test set, 0.05 better than a line"
    assert str(SHARE).endswith("10 % better than the first")
    assert (
        LESS.compared({"test_error": 0.4, "baseline_error": 0.55})
        == "last year reaches 0.55: beaten by 0.15 (asked 0.1)"
    )
    figures = {"test_accuracy": 0.75, "baseline_accuracy": 0.5}
    assert BETTER.compared(figures) == "a line reaches 0.5: beaten by 0.25"  # nothing more was asked
    assert "not beaten, the recipe is 0.2 worse" in LESS.compared({"test_error": 0.4, "baseline_error": 0.2})
    assert Goal("loss", at_most=1).compared({"loss": 0.5, "baseline_loss": 1}) == ""


@pytest.mark.parametrize("margin", [-0.1, float("nan"), float("inf")])
def test_margins_that_make_no_sense(margin):
    with pytest.raises(OptionError, match="margin"):
        Goal("loss", at_most=1, baseline="a line", margin=margin)
    with pytest.raises(OptionError, match="over a named baseline"):
        Goal("loss", at_most=1, margin=0.1)


@pytest.mark.parametrize("name", recipes.names())
def test_every_recipe_names_what_it_must_beat(name):
    recipe = recipes.get(name)
    assert recipe.goal.baseline and recipe.goal.baseline in str(recipe.goal)


@pytest.fixture
def beaten(monkeypatch):
    """digits-logistic with a baseline that knows all digits."""
    monkeypatch.setattr(type(recipes.get("digits-logistic")), "baseline", lambda self, settings, splits: 1.0)


def test_a_recipe_that_its_baseline_beats_ends_with_goal_missed(beaten, tmp_path):
    said = CliRunner().invoke(
        app, ["train", "digits-logistic", "--runs", str(tmp_path), "--no-compile", "--set", "epochs=2"]
    )
    assert said.exit_code == 3, said.output
    assert "ridge regression on the pixels reaches 1: not beaten" in " ".join(said.output.split())


def test_the_baseline_is_kept_and_shown(tmp_path):
    result = recipes.run("digits-logistic", ["epochs=2"], folder=tmp_path / "run", progress=False, compile=False)
    assert 0.9 < result.figures["baseline_accuracy"] < 0.95
    kept = RunFolder(result.folder).result
    assert kept["figures"]["baseline_accuracy"] == result.figures["baseline_accuracy"]
    for words in (["show"], ["show", "--json"], ["eval", "--json", "--no-compile"]):
        said = CliRunner().invoke(app, [words[0], str(result.folder), *words[1:]])
        if words[1:]:
            assert json.loads(said.stdout)["baseline"] == kept["baseline"]
        else:
            assert kept["baseline"] in " ".join(said.output.split())


# ------------------------------------------------------------------------------------------- images


def parts(generator: np.random.Generator, classes: int = 3, validation: bool = True) -> Splits:
    """Images (N, 1, 3, 3) around one mean for each class."""
    means = generator.normal(size=(classes, 9))

    def part(rows: int) -> DataLoader:
        y = np.arange(rows) % classes
        x = (means[y] + generator.normal(size=(rows, 9))).reshape(rows, 1, 3, 3).astype(np.float32)
        return DataLoader(TensorDataset(weft.tensor(x), weft.tensor(y)))

    return Splits(part(300), part(90) if validation else None, part(120))


@pytest.mark.parametrize("columns", [6, 80])  # fewer and more than rows
def test_ridge_is_that_of_sklearn(columns):
    generator = np.random.default_rng(0)
    x, y = generator.normal(size=(50, columns)) + 3, generator.normal(size=(50, 2))
    spread = ((x - x.mean(0)) ** 2).sum() / columns
    for strength, (weights, offset) in zip((1e-3, 0.5), baselines.ridge(x, y, (1e-3, 0.5)), strict=True):
        right = Ridge(alpha=strength * spread).fit(x, y)
        np.testing.assert_allclose(weights, right.coef_.T, rtol=1e-9, atol=1e-12)
        np.testing.assert_allclose(offset, right.intercept_, rtol=1e-9)


@pytest.mark.parametrize("validation", [True, False])
def test_a_line_on_the_pixels_is_that_of_sklearn(validation, monkeypatch):
    monkeypatch.setattr(baselines, "STRENGTHS", (0.1,))
    splits = parts(np.random.default_rng(1), validation=validation)
    (x, y), (x_test, y_test) = (
        (p.dataset.tensors[0].numpy().reshape(-1, 9).astype(float), p.dataset.tensors[1].numpy())
        for p in (splits.train, splits.test)
    )
    if not validation:  # a fifth is kept to choose by
        x, y = x[60:], y[60:]
    right = Ridge(alpha=0.1 * ((x - x.mean(0)) ** 2).sum() / 9).fit(x, np.eye(3)[y])
    told = right.predict(x_test).argmax(1)
    assert baselines.pixels_accuracy(splits) == pytest.approx((told == y_test).mean(), abs=1e-12)


def test_the_strength_is_chosen_without_the_test_labels():
    """Other test labels, same fit: what is told about the images stays, and the accuracy is that of the same answers."""
    splits = parts(np.random.default_rng(2), classes=2)
    x, y = splits.test.dataset.tensors
    turned = Splits(splits.train, splits.validation, DataLoader(TensorDataset(x, 1 - y)))
    for accuracy in (baselines.pixels_accuracy, lambda s: baselines.features_accuracy(s, features=30)):
        assert accuracy(splits) + accuracy(turned) == pytest.approx(1, abs=1e-12)


def test_random_features_part_what_no_line_can():
    generator = np.random.default_rng(3)

    def part(rows: int) -> DataLoader:
        x = generator.uniform(-1, 1, size=(rows, 2)).astype(np.float32)
        return DataLoader(TensorDataset(weft.tensor(x), weft.tensor((x[:, 0] * x[:, 1] > 0).astype(np.int64))))

    splits = Splits(part(400), part(100), part(400))
    assert baselines.pixels_accuracy(splits) < 0.65 and baselines.features_accuracy(splits, features=200) > 0.9


def test_the_error_of_an_accuracy_is_that_of_a_binomial():
    assert standard_error(0.6, 2000) == pytest.approx(stats.binom(2000, 0.6).std() / 2000)
    assert standard_error(1.0, 10) == standard_error(0.5, 0) - 0.5 == 0


def test_accuracies_come_with_their_error(tmp_path):
    figures = recipes.run("moons-mlp", ["epochs=1"], folder=tmp_path, progress=False, compile=False).figures
    p = figures["test_accuracy"]
    assert figures["test_accuracy_error"] == pytest.approx(np.sqrt(p * (1 - p) / 1000))


def test_a_line_with_its_spread_is_that_of_sklearn_and_scipy():
    generator = np.random.default_rng(5)
    x = generator.normal(3, 2, size=(300, 4)).astype(np.float32)
    y = (x @ [1.0, -2, 0.5, 0] + generator.normal(size=300))[:, None].astype(np.float32)
    x[7, 2] = x[250, 1] = np.nan  # one row of either part
    loader = lambda rows: DataLoader(TensorDataset(weft.tensor(x[rows]), weft.tensor(y[rows])))
    found = baselines.line_nll(Splits(loader(slice(0, 200)), None, loader(slice(200, 300))))
    filled = np.where(np.isnan(x), np.nanmean(x[:200], 0), x)
    line = LinearRegression().fit(filled[:200], y[:200, 0])
    sigma = np.sqrt(((line.predict(filled[:200]) - y[:200, 0]) ** 2).mean())
    right = -stats.norm(line.predict(filled[200:]), sigma).logpdf(y[200:, 0]).mean()
    assert found == pytest.approx(right, rel=1e-4)


# ------------------------------------------------------------------------------------------- series


def test_last_year_times_growth():
    year = np.array([3.0, 1, 4, 1, 5, 9, 2, 6, 5, 3, 5, 8])
    past = weft.tensor(np.concatenate([year, 1.5 * year])[None])
    np.testing.assert_allclose(baselines.grown(past).numpy(), 2.25 * year[None], rtol=1e-6)  # exact geometric growth


def seasonal(rows: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """s_t + an AR(1) process with φ = 0.6, σ = 2."""
    generator = np.random.default_rng(seed)
    angle = 2 * np.pi * np.arange(rows) / 365
    x = np.stack([np.sin(angle), np.cos(angle)], 1)
    rest = np.zeros(rows)
    for t in range(1, rows):
        rest[t] = 0.6 * rest[t - 1] + 2 * generator.normal()
    return 11 + x @ [3.0, -1.0] + rest, x


def test_season_and_lag_find_the_process_that_made_the_series():
    found = baselines.SeasonAndLag(*seasonal(40_000, 0))
    assert found.phi == pytest.approx(0.6, abs=0.015) and found.sigma == pytest.approx(2, abs=0.03)
    np.testing.assert_allclose(found.weights, [11, 3, -1], atol=0.1)
    z, x = seasonal(20_000, 1)
    entropy = 0.5 * np.log(2 * np.pi * np.e * 4)  # of the noise, which nothing can undercut
    assert found.nll(z[None], x[None], 30) == pytest.approx(entropy, abs=0.02)


def test_season_and_lag_agree_with_sklearn_and_scipy():
    z, x = seasonal(500, 2)
    found = baselines.SeasonAndLag(z, x)
    season = LinearRegression().fit(x, z)
    rest = z - season.predict(x)
    phi = LinearRegression(fit_intercept=False).fit(rest[:-1, None], rest[1:]).coef_[0]
    sigma = np.sqrt(((rest[1:] - phi * rest[:-1]) ** 2).mean())
    assert (found.phi, found.sigma) == pytest.approx((phi, sigma))
    told = season.predict(x)[100:] + phi * rest[99:-1]
    assert found.nll(z[None], x[None], 100) == pytest.approx(-stats.norm(told, sigma).logpdf(z[100:]).mean())


def test_days_ahead_are_those_of_sampled_futures():
    z, x = seasonal(400, 3)
    found = baselines.SeasonAndLag(z, x)
    mean, spread = found.ahead(z[None, :60], x[None, :60], 50)
    generator = np.random.default_rng(4)
    season, rest = found.season(x[:60]), np.full(200_000, (z - found.season(x))[49])
    for h in range(10):
        rest = found.phi * rest + found.sigma * generator.normal(size=rest.shape)
        assert mean[0, h] == pytest.approx(season[50 + h] + rest.mean(), abs=0.03)
        assert spread[h] == pytest.approx(rest.std(), rel=0.01)


@real
@pytest.mark.filterwarnings("ignore:.*is not the canonical")
@pytest.mark.parametrize(("name", "figure"), [("airline-forecast", 0.5588), ("deepar-temperatures", 0.5314)])
def test_baselines_of_the_real_series(name, figure):
    """Airline: once computed with NumPy alone. Temperatures: pinned as found here; an independent fit came to 0.530."""
    recipe = recipes.get(name)
    splits = recipe.data(recipe.settings(), REAL)
    assert recipe.baseline(recipe.settings(), splits) == pytest.approx(figure, abs=2e-4)


def test_the_first_minimum_is_left_of_the_rows():
    from weft.recipes.classical.double_descent import first_minimum

    points = [SimpleNamespace(features=f, test_error=e) for f, e in ((5, 3.0), (20, 2.0), (40, 90.0), (80, 1.0))]
    assert first_minimum(points, 40) == 2.0


# ------------------------------------------------------------------------------------------- words


def test_ppmi_by_hand():
    """a b a c, one word on each side: the counts are ab 2, ac 1, both ways; 6 pairs."""
    found = baselines.ppmi(np.array([0, 1, 0, 2]), 3, 1, power=1.0)
    right = np.zeros((3, 3))
    right[0, 1] = right[1, 0] = np.log((2 / 6) / (3 / 6 * 2 / 6))
    right[0, 2] = right[2, 0] = np.log((1 / 6) / (3 / 6 * 1 / 6))
    np.testing.assert_allclose(found, right)


def test_near_words_count_more_and_contexts_are_smoothed():
    tokens = np.random.default_rng(0).integers(0, 5, 200)
    counts = np.zeros((5, 5))
    for i, a in enumerate(tokens):
        for j in range(max(0, i - 3), min(200, i + 4)):
            if i != j:
                counts[a, tokens[j]] += (4 - abs(i - j)) / 3
    context = counts.sum(0) ** 0.75 / (counts.sum(0) ** 0.75).sum()
    right = np.log(counts / counts.sum() / (counts.sum(1) / counts.sum())[:, None] / context).clip(0)
    np.testing.assert_allclose(baselines.ppmi(tokens, 5, 3), right, rtol=1e-9, atol=1e-12)


def test_ranks_count_the_words_in_between():
    """Five words on a quarter circle, 'king' at 0°, 'queen' at 40°: two lie between them."""
    from weft.data.text import Vocabulary
    from weft.recipes.text.word2vec_shakespeare import ranks

    known = Vocabulary(["king", "a", "b", "queen", "c"])
    angle = np.radians([0, 10, 20, 40, 80])
    vectors = np.stack([np.cos(angle), np.sin(angle)], 1) * np.array([1, 9, 2, 5, 0.1])[:, None]  # lengths do not count
    assert ranks(weft.tensor(vectors), known, (("king", "queen"), ("king", "unheard"))).tolist() == [2.0]


def test_smoothed_counts_are_distributions_chosen_by_other_text():
    """Word by word in plain Python: what is taken from pairs that occurred, and the prior, go to all words by frequency."""
    from weft.recipes.text.word2vec_shakespeare import near_counts, smoothed_counts_nats

    texts = [np.random.default_rng(seed).integers(0, 6, 60) ** 2 // 5 for seed in range(3)]
    pairs = [[(t[i], t[j]) for i in range(60) for j in range(max(i - 2, 0), min(i + 3, 60)) if i != j] for t in texts]
    counts = [near_counts(text, 6, 2) for text in texts]
    assert all(counts[0][c, o] == pairs[0].count((c, o)) for c in range(6) for o in range(6))
    often = [sum(o == word for _, o in pairs[0]) + 0.5 for word in range(6)]

    def probability(o, c, discount, weight):
        n = [pairs[0].count((c, word)) for word in range(6)]
        left = sum(n) - sum(max(k - discount, 0) for k in n) + weight
        return (max(n[o] - discount, 0) + left * often[o] / sum(often)) / (sum(n) + weight)

    found = []
    for discount in (0.0, 0.25, 0.5, 0.75):
        for weight in (100, 200, 400, 800, 1600, 3200, 6400):
            table = np.array([[probability(o, c, discount, weight) for o in range(6)] for c in range(6)])
            np.testing.assert_allclose(table.sum(1), 1)
            found.append([-np.mean([np.log(table[c, o]) for c, o in part]) for part in pairs[1:]])
    assert smoothed_counts_nats(*counts) == pytest.approx(min(found)[1])


def test_a_baseline_that_is_known_is_not_computed_again():
    judged = recipes.get("word2vec-shakespeare").judged({"test_nats": 5.9}, None, None, known=5.95)
    assert judged == {"test_nats": 5.9, "baseline_nats": 5.95}


def test_no_pair_of_the_test_was_chosen_with():
    from weft.recipes.text.word2vec_shakespeare import CHOSEN_BY, PAIRS

    assert not {frozenset(pair) for pair in PAIRS} & {frozenset(pair) for pair in CHOSEN_BY}
    assert len(set(PAIRS)) == 36


def test_naive_bayes_is_that_of_sklearn():
    generator = np.random.default_rng(6)

    def rows(count: int) -> list[tuple[list[int], int]]:
        labels = generator.integers(0, 2, count)
        return [(generator.integers(0, 12 + 8 * label, 6).tolist(), int(label)) for label in labels]

    parts = [rows(count) for count in (80, 60, 100)]
    dense = [np.stack([np.bincount(words, minlength=20) > 0 for words, _ in part]).astype(int) for part in parts]
    labels = [[label for _, label in part] for part in parts]
    models = [MultinomialNB(alpha=amount).fit(dense[0], labels[0]) for amount in (0.1, 0.5, 1.0, 2.0)]
    best = max(models, key=lambda model: model.score(dense[1], labels[1]))
    assert baselines.naive_bayes_accuracy(*parts, 20) == pytest.approx(best.score(dense[2], labels[2]))


@pytest.mark.parametrize("length", [8, 9])
def test_counts_and_network_are_asked_for_the_same_characters(length):
    """Every character after the first half window is told once, in order; the baseline is the plain text's."""
    from weft.models.text.markov import MarkovModel
    from weft.recipes.text import shakespeare_char as recipe

    text = np.random.default_rng(8).integers(0, 5, 400)
    x, y = (part.numpy() for part in recipe.overlapping(text, length))
    half = length // 2
    told = y[:, half:].reshape(-1)
    assert np.array_equal(told, text[half + 1 : half + 1 + len(told)]) and len(text) - len(told) < 2 * length
    assert (y[:, :half] == recipe.IGNORED).all() and np.array_equal(x[:, half + 1 :], y[:, half:-1])
    model = MarkovModel(4, len(recipe.ALPHABET), "kneser-ney", 0.75).fit(text)
    right = -model.log_prob(text[: half + 1 + len(told)])[-len(told) :].mean()
    part = weft.tensor(x), weft.tensor(y)
    assert recipe._told(model, part) == pytest.approx(right)
    assert recipe.markov_loss(text, part, part) <= right + 1e-12  # the best of several, this one among them


def test_a_dictionary_is_found_from_sentences():
    """The textbook's example: 'das' is 'the' because it comes with both nouns; each noun is then what is left."""
    source = [["das", "haus"], ["das", "buch"], ["ein", "buch"]]
    target = [["the", "house"], ["the", "book"], ["a", "book"]]
    known = baselines.dictionary(source, target)
    assert {f: known[f] for f in ("das", "haus", "buch", "ein")} == {
        "das": "the",
        "haus": "house",
        "buch": "book",
        "ein": "a",
    }


def test_model_1_is_expectation_maximisation():
    """The same table by plain loops over words; with random sentences."""
    generator = np.random.default_rng(7)
    source = [[f"f{w}" for w in generator.integers(0, 6, 4)] for _ in range(40)]
    target = [[f"e{w[1:]}" if generator.random() < 0.7 else "e9" for w in row] for row in source]
    table = {(f, e): 1.0 for fs, es in zip(source, target, strict=True) for f in ["", *fs] for e in es}
    for _ in range(5):
        counts = dict.fromkeys(table, 0.0)
        for fs, es in zip(source, target, strict=True):
            for e in es:
                total = sum(table[f, e] for f in ["", *fs])
                for f in ["", *fs]:
                    counts[f, e] += table[f, e] / total
        sums = {f: sum(c for (g, _), c in counts.items() if g == f) for f, _ in table}
        table = {(f, e): c / sums[f] for (f, e), c in counts.items()}
    right = {f: max((c, e) for (g, e), c in table.items() if g == f)[1] for f in {f for f, _ in table}}
    assert baselines.dictionary(source, target) == right


def test_leading_singular_vectors():
    matrix = np.random.default_rng(1).normal(size=(30, 30))
    matrix = matrix + matrix.T
    u, s, _ = np.linalg.svd(matrix)
    right = u[:, :5] * np.sqrt(s[:5])
    found = baselines.svd_vectors(matrix, 5)
    np.testing.assert_allclose(found @ found.T, right @ right.T, atol=1e-8)
    assert baselines.svd_vectors(np.zeros((4, 4)), 8).shape == (4, 4)  # fewer words than numbers for each
