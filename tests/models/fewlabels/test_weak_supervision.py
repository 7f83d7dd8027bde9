"""Labelling functions and the label model: planted tables are found again, and equal other ways to compute them."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

import weft
from weft.errors import OptionError, ShapeError, StateError
from weft.models.fewlabels import (
    ABSTAIN,
    LabelingFunction,
    LabelModel,
    LFAnalysis,
    LFApplier,
    MajorityLabelVoter,
    diagnose,
    independent_vote,
    labeling_function,
)
from weft.models.fewlabels.completion import solved


def planted(rng, n, accuracies, coverage, balance):
    """Votes that are right with the given chances, wrong ones spread evenly; the classes."""
    k = len(balance)
    y = rng.choice(k, n, p=balance)
    votes = np.full((n, len(accuracies)), ABSTAIN)
    for j, (a, c) in enumerate(zip(accuracies, coverage, strict=True)):
        wrong = (y + rng.integers(1, k, n)) % k
        votes[:, j] = np.where(rng.random(n) < c, np.where(rng.random(n) < a, y, wrong), ABSTAIN)
    return votes, y


ACCURACIES = (0.9, 0.8, 0.75, 0.7, 0.65, 0.6)
COVERAGE = (0.5, 0.9, 0.4, 0.8, 0.7, 0.6)


@pytest.mark.parametrize("balance", [(0.5, 0.5), (0.3, 0.7), (0.2, 0.5, 0.3)], ids=str)
@pytest.mark.parametrize(
    "how",
    [("em", "accuracy"), ("em", "confusion"), ("moments", "confusion"), ("completion", "confusion")],
    ids="-".join,
)
def test_planted_accuracies_are_recovered(how, balance):
    method, structure = how
    votes, y = planted(np.random.default_rng(0), 20_000, ACCURACIES, COVERAGE, balance)
    model = LabelModel(len(balance), structure).fit(votes, balance, method)
    np.testing.assert_allclose(model.get_weights().numpy(), ACCURACIES, atol=0.03)
    majority = MajorityLabelVoter(len(balance)).score(votes, y)
    assert model.score(votes, y) > majority + 0.005


def test_completion_of_exact_chances():
    """From the chances of pairs themselves, without a sample between, the tables come back to the last digits."""
    rng = np.random.default_rng(6)
    balance = np.array([0.3, 0.7])
    tables = rng.dirichlet(np.ones(3), (5, 2)).transpose(0, 2, 1) * 0.4
    tables[:, [1, 2], [0, 1]] += 0.6  # votes lean to their class, so that a rough start tells the classes apart
    table = np.einsum("iak,k,jbk->ijab", tables, balance, tables)
    marginals = tables @ balance
    table[np.arange(5), np.arange(5)] = np.stack([np.diag(row) for row in marginals])
    rough = 0.5 * tables + 0.5 * tables.mean(2, keepdims=True)
    found = solved(table, balance, rough, 500, 1e-13)
    np.testing.assert_allclose(found, tables, atol=1e-6)


def test_diagnosis_says_when_the_majority_is_better():
    """Four independent functions; then three copies of the worst of them, whose agreement the model takes for accuracy."""
    votes, y = planted(np.random.default_rng(5), 20_000, (0.8, 0.75, 0.7, 0.6), (0.9,) * 4, (0.5, 0.5))
    copied = np.concatenate([votes, *[votes[:, 3:]] * 3], 1)
    majority = MajorityLabelVoter(2)
    fair, fooled = (LabelModel(2).fit(part, (0.5, 0.5)) for part in (votes, copied))
    good, bad = diagnose(fair, votes), diagnose(fooled, copied)
    assert fair.score(votes, y) > majority.score(votes, y) + 0.02 and not good.prefers_majority and not good.copies
    assert abs(fair.score(votes, y) - majority.score(votes, y) - good.expected_gain) < 0.01
    assert fooled.score(copied, y) < majority.score(copied, y) and bad.prefers_majority
    assert {(3, 4), (3, 5), (3, 6), (4, 5), (4, 6), (5, 6)} <= set(bad.copies) and "not independent" in str(bad)
    alone = np.full((3000, 3), ABSTAIN)  # one vote an example: nothing to weigh
    alone[np.arange(3000), np.arange(3000) % 3] = np.arange(3000) // 3 % 2
    assert diagnose(LabelModel(2).fit(alone, (0.5, 0.5)), alone).expected_gain < 1e-3


def test_one_sided_functions_need_their_silence():
    """Keywords name one class or nothing: votes alone tell nothing of accuracy, votes and silences do."""
    rng = np.random.default_rng(1)
    y = rng.integers(0, 2, 20_000)
    named, rates = (1, 1, 0, 0, 1), ((0.6, 0.05), (0.4, 0.1), (0.5, 0.05), (0.3, 0.15), (0.3, 0.2))
    votes = np.stack(
        [np.where(rng.random(len(y)) < np.where(y == c, *r), c, ABSTAIN) for c, r in zip(named, rates, strict=True)], 1
    )
    model = LabelModel(2).fit(votes, (0.5, 0.5))
    found = model.get_conditional_probs().numpy()
    for j, (c, (hit, false)) in enumerate(zip(named, rates, strict=True)):
        np.testing.assert_allclose(found[j, c + 1, [c, 1 - c]], (hit, false), atol=0.03)
    assert model.score(votes, y) > MajorityLabelVoter(2).score(votes, y) + 0.01
    blind = LabelModel(2, abstains="missing").fit(votes, (0.5, 0.5), smoothing=0.0)
    assert np.allclose(blind.predict_proba(votes), 0.5, atol=0.02)


def dawid_skene(votes, k, turns):
    """Dawid and Skene's EM (1979), written out: sums over the observers who answered."""
    n, m = votes.shape
    q = np.array([[np.sum(row == c) for c in range(k)] for row in votes], float)
    q[q.sum(1) == 0] = 1
    q /= q.sum(1, keepdims=True)
    for _ in range(turns):
        p = q.mean(0)
        pi = np.zeros((m, k, k))
        for j, y, c in itertools.product(range(m), range(k), range(k)):
            pi[j, y, c] = q[votes[:, j] == c, y].sum()
        pi /= pi.sum(2, keepdims=True)
        q = np.tile(p, (n, 1))
        for i, j in itertools.product(range(n), range(m)):
            if votes[i, j] >= 0:
                q[i] *= pi[j, :, votes[i, j]]
        q /= q.sum(1, keepdims=True)
    return q


@pytest.mark.parametrize("k", [2, 3])
def test_equals_dawid_and_skene(k):
    votes, _ = planted(np.random.default_rng(2), 120, ACCURACIES[:4], (0.9, 0.8, 0.9, 0.7), (1 / k,) * k)
    model = LabelModel(k, abstains="missing").fit(votes, n_epochs=7, tol=-1.0, smoothing=0.0)
    np.testing.assert_allclose(model.predict_proba(votes).numpy(), dawid_skene(votes, k, 7), atol=1e-6)


def test_em_climbs():
    votes, _ = planted(np.random.default_rng(3), 2000, ACCURACIES, COVERAGE, (0.3, 0.7))
    said = LabelModel(2).fit(votes, smoothing=0.0).log_likelihoods
    assert len(said) > 5 and np.all(np.diff(said) > -1e-12)


def test_independent_functions_give_bayes_vote():
    """All votes of three functions with known tables, against the sum over classes written out."""
    rng = np.random.default_rng(4)
    theta = rng.dirichlet(np.ones(3), (3, 2)).transpose(0, 2, 1)  # (M, K + 1, K)
    balance = np.array([0.3, 0.7])
    votes = np.array(list(itertools.product((-1, 0, 1), repeat=3)))
    joint = np.array(
        [[balance[y] * np.prod([theta[j, v + 1, y] for j, v in enumerate(row)]) for y in (0, 1)] for row in votes]
    )
    found = independent_vote(votes, theta, balance).numpy()
    np.testing.assert_allclose(found, joint / joint.sum(1, keepdims=True), rtol=1e-12)


def test_analysis_counts():
    votes = np.array([[0, 0, -1], [1, 0, -1], [-1, 1, 1], [-1, -1, -1], [0, 1, 1]])
    found = LFAnalysis(weft.tensor(votes))
    assert found.lf_coverages().tolist() == [0.6, 0.8, 0.4]
    assert found.lf_overlaps().tolist() == [0.6, 0.8, 0.4]
    assert found.lf_conflicts().tolist() == [0.4, 0.4, 0.2]
    assert found.lf_polarities() == [[0, 1], [0, 1], [1]]
    assert (found.label_coverage(), found.label_overlap(), found.label_conflict()) == (0.8, 0.8, 0.4)
    rows = found.lf_summary(weft.tensor([0, 1, 1, 0, 1]))
    assert [row["accuracy"] for row in rows] == [pytest.approx(2 / 3), 0.75, 1.0]


def test_functions_are_applied_and_named():
    @labeling_function(resources={"words": {"good"}})
    def praises(text, words):
        return 1 if words & set(text.split()) else ABSTAIN

    blames = LabelingFunction("blames", lambda text: 0 if "bad" in text else ABSTAIN)
    votes = LFApplier([praises, blames]).apply(["good", "bad and good", "plain"])
    assert votes.tolist() == [[1, -1], [1, 0], [-1, -1]] and votes.dtype is weft.int64
    assert [row["name"] for row in LFAnalysis(votes, [praises, blames]).lf_summary()] == ["praises", "blames"]
    assert LFApplier([blames]).apply([]).shape == (0, 1)


def test_ties():
    votes = [[0, 1], [-1, -1], [1, 1]]
    voter = MajorityLabelVoter(2)
    assert voter.predict(votes).tolist() == [-1, -1, 1]
    assert voter.predict(votes, "random").tolist() == voter.predict(votes, "random").tolist()
    drawn = voter.predict([[0, 1]] * 400, "true-random", weft.Generator().manual_seed(0)).numpy()
    assert 140 < drawn.sum() < 260


@pytest.mark.parametrize(
    ("call", "kind", "words"),
    [
        (lambda: LabelModel(2).predict_proba([[0, 1]]), StateError, "fit"),
        (lambda: LabelModel(2).fit(np.zeros((0, 3), int)), ShapeError, "nothing to learn"),
        (lambda: LabelModel(2).fit([[0, 2]]), OptionError, "largest vote is 2"),
        (lambda: LabelModel(2).fit([[0, -2]]), OptionError, "abstention"),
        (lambda: LabelModel(2).fit([0, 1]), ShapeError, "matrix"),
        (lambda: LabelModel(2).fit([[0.5, 1.0]]), OptionError, "whole numbers"),
        (lambda: LabelModel(2).fit([[0, 1]], (0.4, 0.4)), OptionError, "sum to 1"),
        (lambda: LabelModel(2).fit([[0, 1]], method="moments"), OptionError, "three functions"),
        (lambda: LabelModel(2).fit([[0, 1]], method="completion"), OptionError, "three functions"),
        (lambda: diagnose(LabelModel(2), [[0, 1]]), StateError, "fit"),
        (lambda: LabelModel(2).fit([[0, 1, 0]]).predict_proba([[0, 1]]), ShapeError, "fitted to 3"),
        (lambda: LabelModel(1), OptionError, "two classes"),
        (lambda: LabelModel(2, "other"), OptionError, "structure"),
        (lambda: MajorityLabelVoter(2).score([[0, 1]], [0, 1]), ShapeError, "labels"),
        (lambda: LFApplier([]), OptionError, "no functions"),
        (lambda: LabelingFunction("odd", lambda x: "yes")("text"), OptionError, "odd: a vote is"),
    ],
)
def test_errors(call, kind, words):
    with pytest.raises(kind, match=words):
        call()
