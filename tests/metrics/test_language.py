"""Likelihoods against PyTorch and SciPy, BLEU against sacrebleu."""

import math

import numpy as np
import pytest
import sacrebleu
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

import weft
from weft import metrics
from weft.errors import OptionError, ShapeError

RNG = np.random.default_rng(2)


# ---- likelihoods -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_perplexity_is_exp_of_cross_entropy(dtype):
    logits, tokens = RNG.normal(size=(4, 7, 11)).astype(dtype) * 5, RNG.integers(0, 11, (4, 7))
    tokens[0, :3] = -100
    loss = torch.nn.functional.cross_entropy(
        torch.tensor(logits).flatten(0, 1).double(), torch.tensor(tokens).flatten()
    )
    rtol = 1e-12 if dtype == np.float64 else 1e-6
    np.testing.assert_allclose(metrics.perplexity(logits, tokens, ignore_index=-100), math.exp(loss), rtol=rtol)
    log_probabilities = torch.tensor(logits).log_softmax(-1).numpy()
    np.testing.assert_allclose(
        metrics.perplexity(log_probabilities, tokens, ignore_index=-100), math.exp(loss), rtol=rtol
    )


def test_perplexity_of_known_cases():
    assert metrics.perplexity(np.zeros((2, 3, 50)), np.zeros((2, 3), int)) == pytest.approx(50, rel=1e-13)
    assert metrics.perplexity([[0.0, -math.inf]], [0]) == 1.0
    assert metrics.perplexity([[0.0, -math.inf]], [1]) == math.inf
    assert metrics.perplexity([[1e30, 0.0]], [0]) == 1.0
    assert metrics.perplexity([[1e30, 0.0]], [1]) == math.inf
    assert math.isnan(metrics.perplexity([[math.nan, 0.0]], [1]))
    assert metrics.perplexity(weft.zeros(3, 4, dtype=weft.bfloat16), [0, 1, 2]) == pytest.approx(4, rel=1e-6)


def test_nll_of_logits():
    logits, target = RNG.normal(size=(5, 3, 4)), RNG.integers(0, 3, (5, 4))
    expected = torch.nn.functional.cross_entropy(torch.tensor(logits), torch.tensor(target))
    np.testing.assert_allclose(metrics.nll(logits, target), expected, rtol=1e-13)


def test_nll_of_gaussians_and_distributions():
    mean, std, target = RNG.normal(size=9), RNG.random(9) + 0.1, RNG.normal(size=9)
    expected = -stats.norm(mean, std).logpdf(target).mean()
    np.testing.assert_allclose(metrics.nll((mean, std), target), expected, rtol=1e-13)
    normal = weft.distributions.Normal(weft.tensor(mean), weft.tensor(std))
    np.testing.assert_allclose(metrics.nll(normal, weft.tensor(target)), expected, rtol=1e-12)


def test_bits_per_dim():
    # Uniform on [0, 1)⁷ has density 1: as bytes, exactly 8 bits a dimension.
    assert metrics.bits_per_dim(np.zeros(5), np.zeros((5, 7)), levels=256) == 8.0
    nats = RNG.random(4) * 100
    np.testing.assert_allclose(
        metrics.bits_per_dim(nats, np.zeros((4, 3, 2, 2))), nats.mean() / 12 / math.log(2), rtol=1e-14
    )
    assert metrics.bits_per_dim(nats, 12) == metrics.bits_per_dim(nats, np.zeros((4, 12)))
    metric = metrics.BitsPerDim()
    metric.update([math.log(2) * 6], np.zeros((1, 2)))
    metric.update([0.0], np.zeros((1, 4)))  # dimensions, not samples, are weighted alike
    assert metric.compute() == pytest.approx(1.0, rel=1e-15)


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (lambda: metrics.perplexity(np.zeros((2, 5, 3)), np.zeros((2, 3), int)), ShapeError, "tokens"),
        (lambda: metrics.perplexity(np.zeros((2, 3)), [0, 3]), OptionError, "got 3"),
        (lambda: metrics.perplexity(np.zeros((0, 3)), np.zeros(0, int)), metrics.NoDataError, "no samples"),
        (lambda: metrics.perplexity(np.zeros((1, 3)), [-1], ignore_index=-1), metrics.NoDataError, "no samples"),
        (lambda: metrics.nll(([0.0], [0.0]), [0.0]), OptionError, "above 0"),
        (lambda: metrics.bits_per_dim([1.0, 2.0], np.zeros((3, 2))), ShapeError, "3 samples, got 2"),
        (lambda: metrics.BitsPerDim(levels=0), OptionError, "levels"),
        (lambda: metrics.bleu("the cat", ["the cat"]), ShapeError, "list"),
        (lambda: metrics.bleu(["a"], []), ShapeError, "1, 0"),
        (lambda: metrics.bleu(["a"], [[]]), ShapeError, "reference"),
        (lambda: metrics.bleu([], []), metrics.NoDataError, "no samples"),
        (lambda: metrics.BLEU(smooth_method="laplace"), OptionError, "'exp'"),
        (lambda: metrics.BLEU(0), OptionError, "order"),
    ],
)
def test_errors(call, error, message):
    with pytest.raises(error, match=message):
        call()


# ---- BLEU --------------------------------------------------------------------------------------------------

SMOOTHING = [("none", None), ("exp", None), ("floor", None), ("floor", 0.01), ("add-k", None), ("add-k", 0.5)]


def reference_bleu(translations, references, **options):
    """sacrebleu on tokens joined by spaces; it wants one stream per reference."""
    most = max(map(len, references))
    streams = [[" ".join(r[i]) if i < len(r) else None for r in references] for i in range(most)]
    scorer = sacrebleu.BLEU(tokenize="none", force=True, **options)
    return scorer.corpus_score([" ".join(t) for t in translations], streams).score


words = st.lists(st.sampled_from("abcde"), min_size=1, max_size=9)


@pytest.mark.parametrize(("method", "value"), SMOOTHING)
@pytest.mark.parametrize("effective_order", [False, True])
@settings(max_examples=60, deadline=None)
@given(pairs=st.lists(st.tuples(words, st.lists(words, min_size=1, max_size=3)), min_size=1, max_size=4))
def test_bleu_equals_sacrebleu(method, value, effective_order, pairs):
    translations, references = [list(x) for x in zip(*pairs, strict=True)]
    options = {"smooth_method": method, "smooth_value": value, "effective_order": effective_order}
    expected = reference_bleu(translations, references, **options)
    assert metrics.bleu(translations, references, **options) == pytest.approx(expected, rel=1e-10, abs=1e-10)


@pytest.mark.parametrize("order", [1, 2, 6])
def test_bleu_of_other_orders(order):
    text = [["a", "b", "c", "d", "e", "f", "g"], ["a", "b"]]
    refs = [[["a", "b", "c", "d", "e", "f", "h"]], [["b", "a", "b"]]]
    expected = reference_bleu(text, refs, max_ngram_order=order)
    assert metrics.bleu(text, refs, max_ngram_order=order) == pytest.approx(expected, rel=1e-12)


def test_bleu_takes_text_tokens_and_numbers():
    text = metrics.bleu(["the cat sat on the mat"], ["the cat sat on a mat"])
    several = metrics.bleu(["the cat sat on the mat"], [["the cat sat on a mat"]])
    tokens = metrics.bleu([list("abcdae")], [list("abcdfe")])
    numbers = metrics.bleu([weft.tensor([0, 1, 2, 3, 0, 4])], [weft.tensor([0, 1, 2, 3, 5, 4])])
    assert text == several == tokens == numbers == pytest.approx(53.7284965911771, rel=1e-12)
    assert metrics.bleu(["a b c d"], ["a b c d"]) == 100.0
    assert metrics.bleu(["", "a"], ["b", "c"]) == 0.0


def test_bleu_of_batches():
    text = [["a", "b", "c", "d"], ["c", "d", "a"], ["b"]]
    refs = [[["a", "b", "c", "e"]], [["c", "d", "a", "a"]], [["b", "c"]]]
    one, left, right = metrics.BLEU(), metrics.BLEU(), metrics.BLEU()
    for i in range(3):
        one.update(text[i : i + 1], refs[i : i + 1])
        (left if i else right).update(text[i : i + 1], refs[i : i + 1])
    again = metrics.BLEU()
    again.load_state_dict(one.state_dict())
    assert one.compute() == left.merge(right).compute() == again.compute() == metrics.bleu(text, refs)
