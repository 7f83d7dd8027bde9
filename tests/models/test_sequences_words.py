"""Markov models against counting by hand, word2vec against autograd of its formulas, word vectors and their files."""

from __future__ import annotations

import itertools
import math
from collections import Counter

import numpy as np
import pytest
import torch

import weft
from weft.errors import OptionError, ShapeError
from weft.io.errors import FileFormatError
from weft.models.supervised import (
    MarkovModel,
    Word2Vec,
    WordVectors,
    cbow_windows,
    greedy_search,
    skipgram_pairs,
    subsample,
)
from weft.models.text.word2vec import keep_probabilities

TEXT = np.random.default_rng(0).choice(4, 300, p=[0.5, 0.3, 0.15, 0.05])


# ------------------------------------------------------------------------------------------- Markov


def counted(text, n):
    return Counter(tuple(text[i : i + n].tolist()) for i in range(len(text) - n + 1))


def additive(text, context, word, vocabulary, amount):
    grams = counted(text, len(context) + 1)
    total = sum(count for gram, count in grams.items() if gram[:-1] == context)
    return (grams[(*context, word)] + amount) / (total + amount * vocabulary)


def witten_bell(text, context, word, vocabulary, amount):
    shorter = 1 / vocabulary if not context else witten_bell(text, context[1:], word, vocabulary, amount)
    grams = counted(text, len(context) + 1)
    after = {gram[-1]: count for gram, count in grams.items() if gram[:-1] == context}
    if not after:
        return shorter
    return (after.get(word, 0) + len(after) * shorter) / (sum(after.values()) + len(after))


def kneser_ney(text, context, word, vocabulary, amount, highest=True):
    shorter = 1 / vocabulary if not context else kneser_ney(text, context[1:], word, vocabulary, amount, False)
    grams = counted(text, len(context) + 1)
    if not highest:
        grams = Counter(gram[1:] for gram in counted(text, len(context) + 2))
    after = {gram[-1]: count for gram, count in grams.items() if gram[:-1] == context}
    if not after:
        return shorter
    total = sum(after.values())
    return max(after.get(word, 0) - amount, 0) / total + amount * len(after) / total * shorter


BY_HAND = {"additive": (additive, 0.5), "witten-bell": (witten_bell, 0.0), "kneser-ney": (kneser_ney, 0.75)}


@pytest.mark.parametrize("order", [0, 1, 2])
@pytest.mark.parametrize("smoothing", BY_HAND)
def test_markov_is_counting_by_hand(smoothing, order):
    rule, amount = BY_HAND[smoothing]
    model = MarkovModel(order, 4, smoothing, amount).fit(TEXT)
    for context in itertools.product(range(4), repeat=order):
        found = model.probabilities(list(context))
        np.testing.assert_allclose(found, [rule(TEXT, context, w, 4, amount) for w in range(4)], rtol=1e-12)
        assert found.sum() == pytest.approx(1, abs=1e-12)


def test_markov_counts_likelihood_and_perplexity():
    model = MarkovModel(1, 3, "additive", 0.0).fit([0, 1, 0, 1, 0, 2])
    assert (model.count([0, 1]), model.count([0]), model.count([2, 2])) == (2, 3, 0)
    expected = 2 * math.log(2 / 3) + 2 * math.log(1) + math.log(1 / 3)
    assert model.log_likelihood([0, 1, 0, 1, 0, 2]) == pytest.approx(expected)
    assert model.perplexity([0, 1, 0, 1, 0, 2]) == pytest.approx(math.exp(-expected / 5))
    assert model.log_prob([1, 1])[0] == -np.inf  # never seen, and nothing is smoothed
    assert model.log_prob([1]).shape == (0,)


def test_the_maximum_likelihood_is_at_the_counts():
    """No other transition matrix gives the text a greater likelihood (a theorem about relative frequencies)."""
    best = MarkovModel(1, 4, "additive", 0.0).fit(TEXT).log_likelihood(TEXT)
    for amount in (1e-3, 0.1, 1.0, 10.0):
        assert MarkovModel(1, 4, "additive", amount).fit(TEXT).log_likelihood(TEXT) < best


def test_markov_samples_follow_the_probabilities():
    model = MarkovModel(1, 4, "additive", 0.5).fit(TEXT)
    drawn = model.sample(4000, [0], seed=3)
    np.testing.assert_array_equal(drawn, model.sample(4000, [0], seed=3))
    after = drawn[1:][drawn[:-1] == 0]
    chances = model.probabilities([0])
    spread = np.sqrt(chances * (1 - chances) / len(after))
    assert (np.abs(np.bincount(after, minlength=4) / len(after) - chances) < 4 * spread).all()


def test_markov_steps_for_decoding():
    model = MarkovModel(2, 4, "witten-bell").fit(TEXT)
    found = greedy_search(model.step, weft.tensor([[0, 1, 3], [2, 2, 2]]), max_new_tokens=3)
    for row in found.tolist():
        for t in range(3, 6):
            assert row[t] == model.probabilities(row[:t]).argmax()


@pytest.mark.parametrize(
    ("act", "error", "message"),
    [
        (lambda: MarkovModel(1, 3).fit([0]), ShapeError, "more than 1"),
        (lambda: MarkovModel(1, 3).fit([0, 3]), OptionError, "0 … 2"),
        (lambda: MarkovModel(1, 3).fit([0.5, 1.5]), ShapeError, "whole numbers"),
        (lambda: MarkovModel(5, 50_000), OptionError, "order up to 3"),
        (lambda: MarkovModel(1, 3, "laplace"), OptionError, "additive"),
        (lambda: MarkovModel(1, 3).probabilities([0]), OptionError, "fit"),
        (lambda: MarkovModel(2, 3).fit([0, 1, 2]).probabilities([0]), ShapeError, "at least 2"),
        (lambda: MarkovModel(1, 3).fit([0, 1]).count([0, 1, 2]), ShapeError, r"1 … 2"),
    ],
)
def test_markov_says_what_is_wrong(act, error, message):
    with pytest.raises(error, match=message):
        act()


# ------------------------------------------------------------------------------------------- word2vec


@pytest.mark.parametrize("given", [[0, 3, 2], [[1, 2, -1], [0, -1, -1], [3, 3, 1]]], ids=["skip-gram", "cbow"])
def test_negative_sampling_gradients_are_those_of_the_formula(given):
    weft.manual_seed(0)
    model = Word2Vec([5, 4, 3, 2], 6)
    weft.nn.init.normal_(model.outputs.weight)
    given, target, drawn = np.array(given), np.array([1, 0, 3]), np.array([[0, 2], [3, 3], [3, 1]])
    loss = model.negative_loss(model.hidden(weft.tensor(given)), weft.tensor(target), weft.tensor(drawn))
    loss.backward()
    v, u = (
        torch.tensor(np.array(w.detach()), requires_grad=True) for w in (model.vectors.weight, model.outputs.weight)
    )
    total = 0.0
    for row in range(3):
        words = np.atleast_1d(given[row])
        h = v[words[words >= 0]].mean(0)
        total = total - torch.log(torch.sigmoid(u[target[row]] @ h))
        for k in drawn[row]:
            if k != target[row]:
                total = total - torch.log(torch.sigmoid(-u[k] @ h))
    (total / 3).backward()
    assert float(loss) == pytest.approx(float(total.detach()) / 3, rel=1e-5)
    np.testing.assert_allclose(model.vectors.weight.grad, v.grad, atol=1e-6)
    np.testing.assert_allclose(model.outputs.weight.grad, u.grad, atol=1e-6)


def test_negatives_are_drawn_with_power_three_quarters():
    weft.manual_seed(0)
    counts = np.array([800.0, 100, 50, 10])
    proposal = Word2Vec(counts, 2).proposal
    expected = counts**0.75 / (counts**0.75).sum()
    np.testing.assert_allclose(proposal.probability, expected, rtol=1e-6)
    share = np.bincount(proposal.draw(20_000).numpy(), minlength=4) / 20_000
    assert (np.abs(share - expected) < 4 * np.sqrt(expected / 20_000)).all()


@pytest.mark.parametrize("words", [2, 5, 33])
def test_hierarchical_softmax_is_a_distribution(words):
    model = Word2Vec(np.arange(1, words + 1), 4, loss="hierarchical")
    weft.nn.init.normal_(model.tree.weight)
    given = weft.tensor([0, words - 1, 1])
    logs = model.log_prob(given)
    np.testing.assert_allclose(logs.exp().sum(-1).detach(), 1, rtol=1e-5)
    losses = [-float(logs[i, t]) for i, t in enumerate([1, 0, words - 1])]
    assert float(model(given, weft.tensor([1, 0, words - 1]))) == pytest.approx(np.mean(losses), rel=1e-5)


def test_pairs_and_windows():
    text, window = np.array([4, 5, 6, 7]), 2
    centers, near = skipgram_pairs(text, window)
    expected = [(text[i], text[j]) for i in range(4) for j in range(4) if i != j and abs(i - j) <= window]
    assert sorted(zip(centers.tolist(), near.tolist(), strict=True)) == sorted(expected)
    around, middle = cbow_windows(text, window)
    assert around.tolist() == [[-1, -1, 5, 6], [-1, 4, 6, 7], [4, 5, 7, -1], [5, 6, -1, -1]]
    assert middle.tolist() == text.tolist()
    assert skipgram_pairs(text[:1], window)[0].shape == (0,)
    assert skipgram_pairs(text[:0], window)[0].shape == (0,)
    with pytest.raises(ShapeError, match="window"):
        cbow_windows(text, 0)


def test_drawn_reaches_make_near_words_come_more_often():
    generator = weft.Generator().manual_seed(0)
    around, _ = cbow_windows(np.arange(3000), 3, generator)
    share = (np.asarray(around)[10:-10] != -1).mean(0)
    np.testing.assert_allclose(share, [1 / 3, 2 / 3, 1, 1, 2 / 3, 1 / 3], atol=0.04)


def test_subsampling_keeps_words_with_the_probability_of_the_paper():
    counts = np.array([9000, 900, 100])
    chances = keep_probabilities(counts, 0.01)
    np.testing.assert_allclose(chances, np.minimum(1, np.sqrt(0.01 / (counts / 10_000))))
    text = np.repeat(np.arange(3), counts)
    kept = np.bincount(subsample(text, counts, 0.01, weft.Generator().manual_seed(1)), minlength=3)
    assert (np.abs(kept - counts * chances) <= 4 * np.sqrt(counts * chances * (1 - chances)) + 1e-9).all()


@pytest.mark.parametrize("loss", ["negative", "hierarchical"])
@pytest.mark.parametrize("cbow", [False, True])
def test_words_in_the_same_places_become_similar(cbow, loss):
    """a and b stand between the same neighbours, c and d between others."""
    weft.manual_seed(0)
    random = np.random.default_rng(0)
    text = np.concatenate([[4, random.integers(0, 2), 5, 6, random.integers(2, 4), 7] for _ in range(200)])
    given, target = cbow_windows(text, 1) if cbow else skipgram_pairs(text, 1)
    model = Word2Vec(np.bincount(text), 8, loss=loss)
    optimizer = weft.optim.Adam(model.parameters(), lr=0.05)
    for _ in range(60):
        optimizer.zero_grad()
        model(given, target).backward()
        optimizer.step()
    vectors = WordVectors(list("abcdefgh"), model.vectors.weight)
    if not cbow:
        assert vectors.most_similar("a", topn=1)[0][0] == "b"
        assert vectors.most_similar("c", topn=1)[0][0] == "d"
    chances = model.log_prob(weft.tensor([[4, 5]]) if cbow else weft.tensor([4])).exp()[0]
    assert float(chances[:2].sum()) > 5 * float(chances[2:4].sum())


# ------------------------------------------------------------------------------------------- word vectors


def vectors() -> WordVectors:
    random = np.random.default_rng(0)
    return WordVectors(["one", "two", "three", "four", "fünf"], random.normal(size=(5, 3)))


def test_similarity_and_neighbours_are_cosines():
    words = vectors()
    unit = words.vectors / np.linalg.norm(words.vectors, axis=1, keepdims=True)
    assert words.similarity("one", "four") == pytest.approx(float(unit[0] @ unit[3]), rel=1e-5)
    assert words.similarity("two", "two") == pytest.approx(1, rel=1e-5)
    order = [words.words[i] for i in np.argsort(-(unit @ unit[2])) if i != 2]
    assert [word for word, _ in words.most_similar("three")] == order
    assert words.most_similar("three", topn=0) == []
    wanted = unit[1] - unit[0] + unit[2]
    scores = unit @ wanted / np.linalg.norm(wanted)
    best = max((3, 4), key=lambda i: scores[i])
    assert words.analogy("one", "two", "three", topn=1) == [(words.words[best], pytest.approx(scores[best], rel=1e-5))]


def test_vec_files_come_back_to_the_last_bit(tmp_path):
    words = vectors()
    words.vectors[0] = [1e-38, 3.4e38, -0.1]
    words.save(tmp_path / "words.vec")
    back = WordVectors.load(tmp_path / "words.vec")
    assert back.words == words.words
    np.testing.assert_array_equal(back.vectors, words.vectors)
    assert (tmp_path / "words.vec").read_text().splitlines()[0] == "5 3"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "line 1"),
        ("two 3\n", "line 1"),
        ("2 2\na 1 2\n", "cut short"),
        ("1 2\na 1\n", "line 2: expected 2 numbers, got 1"),
        ("1 2\na 1 x\n", "line 2"),
        ("1 1\na 1\nb 2\n", "more"),
    ],
)
def test_broken_vec_files_are_told(text, message, tmp_path):
    (tmp_path / "words.vec").write_text(text)
    with pytest.raises(FileFormatError, match=message):
        WordVectors.load(tmp_path / "words.vec")


def test_words_that_are_not_there(tmp_path):
    with pytest.raises(OptionError, match="did you mean 'three'"):
        vectors().similarity("one", "thre")
    with pytest.raises(OptionError, match="white space"):
        WordVectors(["a b"], [[1.0]]).save(tmp_path / "x.vec")
    assert not (tmp_path / "x.vec").exists()
    with pytest.raises(ShapeError, match=r"2 vectors"):
        WordVectors(["a", "b"], [[1.0]])
    with pytest.raises(OptionError, match="distinct"):
        WordVectors(["a", "a"], [[1.0], [2.0]])
