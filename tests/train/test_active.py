"""Active learning: scores in closed form, core sets against brute force, a loop that looks at no label it did not ask for."""

import itertools
import json

import numpy as np
import pytest
from scipy import special, stats

import weft
from weft import nn
from weft.errors import ArgumentError, OptionError, ShapeError, StateError
from weft.train.methods import Ensemble
from weft.train.methods import active as A


def seeded(seed=0):
    return weft.Generator().manual_seed(seed)


CHANCES = weft.tensor(np.random.default_rng(0).dirichlet(np.ones(4), (5, 7)))  # (S, N, K)

# ---- scores ------------------------------------------------------------------------------------------------


def test_scores_of_chances():
    p = CHANCES[0].numpy()
    ranked = np.sort(p, 1)[:, ::-1]
    np.testing.assert_allclose(A.least_confident(CHANCES[0]), 1 - ranked[:, 0], rtol=1e-12)
    np.testing.assert_allclose(A.margin(CHANCES[0]), 1 - ranked[:, 0] + ranked[:, 1], rtol=1e-12)
    np.testing.assert_allclose(A.entropy(CHANCES[0]), stats.entropy(p, axis=1), rtol=1e-12)
    for score in (A.least_confident, A.margin, A.entropy):  # members speak by their mean
        np.testing.assert_allclose(score(CHANCES), score(CHANCES.mean(0)), rtol=1e-12)
    sure, even = weft.tensor([[1.0, 0.0, 0.0]]), weft.full((1, 3), 1 / 3)
    assert A.entropy(sure) == A.least_confident(sure) == A.margin(sure) == 0
    np.testing.assert_allclose([A.entropy(even), A.least_confident(even), A.margin(even)], [[np.log(3)], [2 / 3], [1]])


def test_bald_of_a_known_posterior():
    """y ~ Bernoulli(θ), θ ~ Beta(a, b): I(y; θ) = H(a / (a + b)) − E H(θ), the mean by digammas; θ at 4,000 quantiles."""
    a, b = np.array([1.0, 0.5, 8.0]), np.array([1.0, 2.0, 8.0])
    theta = stats.beta(a, b).ppf((np.arange(4000)[:, None] + 0.5) / 4000)
    mean, psi = a / (a + b), special.digamma
    inner = -mean * (psi(a + 1) - psi(a + b + 1)) - (1 - mean) * (psi(b + 1) - psi(a + b + 1))
    found = A.bald(weft.tensor(np.stack([theta, 1 - theta], 2)))
    np.testing.assert_allclose(found, stats.entropy([mean, 1 - mean]) - inner, atol=2e-4)


def test_bald_tells_disagreement_from_doubt():
    doubt = weft.full((2, 1, 2), 0.5)
    apart = weft.tensor([[[1.0, 0.0]], [[0.0, 1.0]]])
    assert A.bald(doubt) == 0 and A.entropy(doubt) == A.entropy(apart)
    np.testing.assert_allclose([A.bald(apart), A.vote_entropy(apart)], np.log([[2], [2]]), rtol=1e-6)


def test_divergence_of_a_committee():
    mean = CHANCES.mean(0)
    expected = (CHANCES * (CHANCES / mean).log()).sum(-1).mean(0)  # mean KL(p ‖ p̄), written out
    np.testing.assert_allclose(A.consensus_divergence(CHANCES), expected, rtol=1e-10)
    votes = CHANCES.argmax(-1).numpy()
    shares = np.stack([(votes == k).mean(0) for k in range(4)], 1)
    np.testing.assert_allclose(A.vote_entropy(CHANCES), stats.entropy(shares, axis=1), atol=1e-12)


# ---- core sets ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", range(8))
@pytest.mark.parametrize("known", [[], [3]], ids=["none", "one"])
def test_core_set_is_within_twice_the_best(seed, known):
    x = np.random.default_rng(seed).standard_normal((11, 2))
    reach = lambda centers: np.sqrt(((x[:, None] - x[list(centers)]) ** 2).sum(2)).min(1).max()
    found = A.k_center_greedy(x, known, 3)
    rest = [i for i in range(11) if i not in known]
    best = min(reach([*known, *chosen]) for chosen in itertools.combinations(rest, 3))
    assert best <= reach([*known, *found]) <= 2 * best + 1e-12
    assert len({*known, *found}) == 3 + len(known)


def test_core_set_of_equal_rows_and_of_none():
    assert sorted(A.k_center_greedy(np.zeros((4, 2)), [1], 3).tolist()) == [0, 2, 3]
    assert A.k_center_greedy(weft.rand(4, 2), [], 0).tolist() == []


# ---- predictions -------------------------------------------------------------------------------------------


def test_dropout_draws_follow_the_masks():
    """A linear layer behind dropout of two inputs: four masks, whose mean prediction is known."""
    weft.manual_seed(0)
    model = nn.Sequential(nn.Dropout(0.5), nn.Linear(2, 2), nn.BatchNorm1d(2))
    x = weft.tensor([[1.0, -2.0]]).repeat(4, 1)
    before = {name: value.clone() for name, value in model.state_dict().items()}
    found = A.dropout_chances(600)(model.train(), x)
    assert found.shape == (600, 4, 2) and all(part.training for part in model.modules())
    assert all(weft.equal(value, before[name]) for name, value in model.state_dict().items())  # no statistics moved
    with weft.no_grad():
        outputs = [model[1](x[:1] * weft.tensor([[2.0 * a, 2.0 * b]])) for a in (0, 1) for b in (0, 1)]
        exact = weft.stack([(y / (1 + 1e-5) ** 0.5).softmax(1)[0] for y in outputs])
    np.testing.assert_allclose(found.mean((0, 1)), exact.mean(0), atol=0.04)
    assert all(abs(exact - row).sum(1).min() < 1e-5 for row in found[:50].reshape(-1, 2))


def test_predictions_of_ensembles_and_single_networks():
    nets = [nn.Sequential(nn.Linear(3, 4), nn.Dropout(0.9)) for _ in range(3)]
    x = weft.rand(1203, 3)
    found = A.committee_chances(Ensemble(nets), x)
    np.testing.assert_allclose(found[1], nets[1][0](x).softmax(1).detach(), atol=1e-6)
    np.testing.assert_allclose(A.chances(nets[1], x), found[1], atol=1e-6)


# ---- the loop ----------------------------------------------------------------------------------------------


def line(n=200):
    """Numbers on a line, whose class changes at 0.3; the oracle refuses to be asked twice."""
    x = weft.rand(n, 1, generator=seeded(1))
    return x, (x[:, 0] > 0.3).long()


class Threshold(nn.Module):
    """p(1 | x) = σ(40 (x − t)), t half way between the classes seen so far."""

    def __init__(self, x, labels):
        super().__init__()
        ones, zeros = x[labels == 1, 0], x[labels == 0, 0]
        low = zeros.max().item() if len(zeros) else 0.0
        self.t = (low + (ones.min().item() if len(ones) else 1.0)) / 2

    def forward(self, x):
        logit = 40 * (x - self.t)
        return weft.cat([0 * logit, logit], 1)


def learning(query, oracle=None, **options):
    x, labels = line()
    fit = lambda x, labels, number: Threshold(x, labels)
    return A.ActiveLearning(x, labels if oracle is None else oracle, fit, query, start=2, batch=1, seed=3, **options)


def far_off(model):
    return -abs(model.t - 0.3)


QUERIES = {
    "entropy": A.ScoreQuery(A.entropy),
    "margin": A.ScoreQuery(A.margin, candidates=120),
    "core set": A.CoreSetQuery(lambda model, x: x),
    "random": A.RandomQuery(),
}


@pytest.mark.parametrize("name", QUERIES)
def test_every_query_asks_each_example_once(name):
    rounds = list(learning(QUERIES[name]).rounds(12, far_off))
    asked = [number for found in rounds for number in found.asked]
    assert [found.labelled for found in rounds] == list(range(2, 13))
    assert len(set(asked)) == len(asked) == 10 and rounds[-1].asked == []


def test_doubt_is_bisection():
    """On a line uncertainty sampling halves the interval at every label; random examples do so only in the mean."""
    clever, random = (list(learning(QUERIES[name]).rounds(12, far_off))[-1].figure for name in ("entropy", "random"))
    assert clever > -0.01 and clever > random


def test_no_other_label_is_read():
    labels, seen = line()[1], []

    def oracle(numbers):
        seen.extend(numbers.tolist())
        return labels[numbers]

    loop = learning(QUERIES["entropy"], oracle)
    list(loop.rounds(9, far_off))
    assert seen == loop.pool.labelled.tolist() and len(seen) == 9
    assert weft.equal(loop.labels, labels[loop.pool.labelled])


@pytest.mark.parametrize("name", QUERIES)
def test_a_resumed_loop_goes_on_as_it_would_have(name):
    whole = learning(QUERIES[name])
    expected = list(whole.rounds(10, far_off))
    first = learning(QUERIES[name])
    part = list(itertools.islice(first.rounds(10, far_off), 4))
    second = learning(QUERIES[name])
    second.load_state_dict(json.loads(json.dumps(first.state_dict())))
    assert part + list(second.rounds(10, far_off)) == expected
    assert weft.equal(second.pool.labelled, whole.pool.labelled)


def test_enough_is_enough():
    rounds = list(learning(QUERIES["entropy"]).rounds(100, far_off, enough=-0.05))
    assert rounds[-1].figure >= -0.05 > rounds[-2].figure and len(rounds) < 10


@pytest.mark.parametrize(
    ("call", "kind", "words"),
    [
        (lambda: A.Pool(3, [3]), OptionError, "below 3"),
        (lambda: A.Pool(3, [1]).label([1]), OptionError, "each once"),
        (lambda: A.Pool(0), OptionError, "at least one example"),
        (lambda: A.bald(CHANCES[0]), ShapeError, "several members"),
        (lambda: A.entropy(weft.rand(3)), ShapeError, "chances"),
        (lambda: A.k_center_greedy(np.zeros((3, 1)), [0], 3), OptionError, "3 rows of 3"),
        (lambda: A.k_center_greedy(np.full((3, 1), np.nan), [0], 1), ShapeError, "finite"),
        (lambda: A.dropout_chances(5)(nn.Linear(1, 2), weft.rand(2, 1)), ArgumentError, "no dropout layers"),
        (lambda: A.dropout_chances(1), OptionError, "two samples"),
        (lambda: A.committee_chances(nn.Linear(1, 2), weft.rand(2, 1)), ArgumentError, "Ensemble"),
        (lambda: A.ScoreQuery(A.entropy, candidates=0), OptionError, "candidate"),
        (lambda: A.ActiveLearning(weft.rand(3, 1), weft.zeros(3), None, None, start=0), OptionError, "start with"),
        (lambda: A.ActiveLearning(weft.rand(3, 1), weft.zeros(3), None, None, batch=0), OptionError, "one question"),
        (lambda: A.ActiveLearning(weft.rand(3, 1), lambda n: n[:1], None, None, start=2), OptionError, "oracle"),
        (lambda: learning(None).load_state_dict({"seed": 4}), StateError, "seed 4"),
    ],
)
def test_errors(call, kind, words):
    with pytest.raises(kind, match=words):
        call()
