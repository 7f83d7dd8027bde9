"""Attention scores, weightings and kernel regression against their formulas, PyTorch, and the numbers of the notes."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch

import weft
from weft import nn

RANDOM = np.random.default_rng(0)
B, L, S, Q, K, V = 2, 3, 5, 4, 6, 7


@pytest.fixture(autouse=True)
def _same_numbers_for_every_test() -> None:
    RANDOM.bit_generator.state = np.random.default_rng(0).bit_generator.state
    weft.manual_seed(0)


def array(*shape: int) -> np.ndarray:
    return RANDOM.standard_normal(shape)


def leaf(x: np.ndarray) -> weft.Tensor:
    return weft.tensor(x).requires_grad_()


def doubled(module: nn.Module) -> nn.Module:
    return module.to(weft.float64)


# ------------------------------------------------------------------------------------------------- scores

FORMULAS: dict[str, tuple[Callable[[], nn.Module], int, Callable[..., float]]] = {
    "dot": (nn.DotScore, Q, lambda q, k, m: q @ k),
    "scaled": (nn.ScaledDotScore, Q, lambda q, k, m: q @ k / math.sqrt(len(q))),
    "cosine": (nn.CosineScore, Q, lambda q, k, m: q @ k / np.linalg.norm(q) / np.linalg.norm(k)),
    "general": (lambda: nn.GeneralScore(Q, K), K, lambda q, k, m: q @ m["weight"] @ k),
    "reduced rank": (
        lambda: nn.ReducedRankScore(Q, K, 2),
        K,
        lambda q, k, m: q @ (m["query_weight"].T @ m["key_weight"]) @ k,
    ),
    "additive": (
        lambda: nn.AdditiveScore(Q, K, 8),
        K,
        lambda q, k, m: m["vector"] @ np.tanh(m["key_weight"] @ k + m["query_weight"] @ q),
    ),
}


@pytest.mark.parametrize("name", FORMULAS)
@pytest.mark.parametrize("leading", [(), (B,), (B, 2)])
def test_scores_follow_their_formula(name: str, leading: tuple[int, ...]) -> None:
    make, width, formula = FORMULAS[name]
    score = doubled(make())
    q, k = array(*leading, L, Q), array(*leading, S, width)
    found = score(weft.tensor(q), weft.tensor(k)).detach().numpy()
    state = {key: value.detach().numpy() for key, value in score.state_dict().items()}
    assert found.shape == (*leading, L, S)
    for at in np.ndindex(*leading, L, S):
        expected = formula(q[at[:-1]], k[(*at[:-2], at[-1])], state)
        np.testing.assert_allclose(found[at], expected, rtol=1e-12, atol=1e-13)


@pytest.mark.parametrize("name", FORMULAS)
def test_scores_have_true_gradients(name: str) -> None:
    make, width, _ = FORMULAS[name]
    score = doubled(make())
    inputs = (leaf(array(L, Q)), leaf(array(S, width)))
    assert weft.autograd.gradcheck(lambda q, k, *_: score(q, k), (*inputs, *score.parameters()))


@pytest.mark.parametrize("name", FORMULAS)
def test_keys_may_be_prepared_once(name: str) -> None:
    make, width, _ = FORMULAS[name]
    attention = doubled(nn.Attention(make()))
    q, k, v = (weft.tensor(array(B, n, size)) for n, size in ((L, Q), (S, width), (S, 3)))
    prepared, mask = attention.score.prepare(k), weft.arange(S) > 0
    found, expected = attention(q, k, v, mask, prepared=prepared), attention(q, k, v, mask)
    for one, other in zip(found, expected, strict=True):
        np.testing.assert_array_equal(one.detach().numpy(), other.detach().numpy())


def test_sizes_of_the_parameters() -> None:
    """N1 example 12.1: sh weights for the general score, ks + kh for the reduced rank, r(h + s + 1) for the additive."""
    count = lambda m: sum(p.numel() for p in m.parameters())
    assert count(nn.GeneralScore(10, 20)) == 10 * 20
    assert count(nn.ReducedRankScore(10, 20, 3)) == 3 * 10 + 3 * 20
    assert count(nn.AdditiveScore(10, 20, 7)) == 7 * (10 + 20 + 1)


def test_scaled_dot_products_keep_unit_variance() -> None:
    """N4 §11: the dot product of independent unit-variance vectors has variance D, the scaled one variance 1."""
    q, k = weft.tensor(array(400, 64)), weft.tensor(array(400, 64))
    assert abs(float(nn.DotScore()(q, k).var()) / 64 - 1) < 0.05
    assert abs(float(nn.ScaledDotScore()(q, k).var()) - 1) < 0.05


@pytest.mark.parametrize("score", [nn.DotScore(), nn.ScaledDotScore(), nn.CosineScore()])
def test_different_widths_are_refused(score: nn.Module) -> None:
    with pytest.raises(RuntimeError, match=r"same width.*GeneralScore"):
        score(weft.zeros(3, 4), weft.zeros(3, 5))


# --------------------------------------------------------------------------------- numbers of the notes

KEYS = [[0.1, 0, 2], [5, 4, 3], [-4, 0, -3], [-0.2, 0, 1], [5, -3, -4]]
QUERIES = [
    ((5, 0, 0), (0.5, 25, -20, -1, 25), (0, 0.5, 0, 0, 0.5)),
    ((-5, 0, 0), (-0.5, -25, 20, 1, -25), (0, 0, 1, 0, 0)),
    ((5, 4, 0), (0.5, 41, -20, -1, 13), (0, 1, 0, 0, 0)),
    ((0, 0, 0), (0, 0, 0, 0, 0), (0.2, 0.2, 0.2, 0.2, 0.2)),
]


@pytest.mark.parametrize(("query", "scores", "weights"), QUERIES)
def test_example_of_the_notes(query: tuple, scores: tuple, weights: tuple) -> None:
    """N2 §5.5.2: nouns, verbs, subjects and a bag of words in 'the dog ate the cake'."""
    q, k = weft.tensor([query], dtype=weft.float64), weft.tensor(KEYS, dtype=weft.float64)
    values = weft.eye(5, dtype=weft.float64)
    context, found = nn.Attention(nn.DotScore())(q, k, values)
    np.testing.assert_allclose(nn.DotScore()(q, k).numpy(), [scores], atol=1e-12)
    np.testing.assert_allclose(found.numpy(), [weights], atol=1e-6)
    np.testing.assert_allclose(context.numpy(), [weights], atol=1e-6)


def test_masked_example_of_the_notes() -> None:
    """N2 §5.9.1: element 3 of 5 attends over elements 1 to 3."""
    scores = weft.tensor([[3.0, 5.0, -1.0, 4.0, 3.0]])
    found = nn.masked_softmax(scores, weft.tensor([3]))
    np.testing.assert_allclose(found.numpy(), [[0.119, 0.879, 0.002, 0, 0]], atol=5e-4)
    assert found[0, 3:].tolist() == [0, 0]


# ----------------------------------------------------------------------------------------- weightings


def test_soft_attention_is_pytorchs() -> None:
    q, k, v = array(B, L, Q), array(B, S, Q), array(B, S, V)
    mask = RANDOM.random((B, L, S)) < 0.6
    mask[0, 0] = False  # a query that sees nothing gets 0
    ours = [leaf(x) for x in (q, k, v)]
    theirs = [torch.tensor(x, requires_grad=True) for x in (q, k, v)]
    y, _ = nn.Attention()(*ours, mask=weft.tensor(mask))
    expected = torch.nn.functional.scaled_dot_product_attention(*theirs, attn_mask=torch.tensor(mask))
    np.testing.assert_allclose(y.detach().numpy(), expected.detach().numpy(), atol=1e-12)
    g = array(*y.shape)
    y.backward(weft.tensor(g))
    expected.backward(torch.tensor(g))
    for mine, reference in zip(ours, theirs, strict=True):
        np.testing.assert_allclose(mine.grad.numpy(), reference.grad.numpy(), atol=1e-12)


def test_hard_weights_are_one_hot_with_the_gradient_of_softmax() -> None:
    e, mask, g = array(4, S), RANDOM.random((4, S)) < 0.7, array(4, S)
    mask[0], mask[1] = False, True
    hard, soft = leaf(e), leaf(e)
    weights = nn.hard_weights(hard, weft.tensor(mask))
    ranked = np.where(mask, e, -np.inf)
    expected = (ranked == ranked.max(1, keepdims=True)) & mask
    np.testing.assert_array_equal(weights.detach().numpy(), expected)
    weights.backward(weft.tensor(g))
    nn.soft_weights(soft, weft.tensor(mask)).backward(weft.tensor(g))
    np.testing.assert_allclose(hard.grad.numpy(), soft.grad.numpy())


def test_sampled_weights_have_the_mean_of_softmax() -> None:
    weft.manual_seed(0)
    e = array(1, S)
    mask = np.array([[True, True, False, True, True]])
    drawn = nn.sampled_weights(weft.tensor(e).expand(20000, S), weft.tensor(mask)).numpy()
    assert set(np.unique(drawn)) == {0.0, 1.0} and (drawn.sum(1) == 1).all()
    p = np.where(mask, np.exp(e), 0)[0]
    p /= p.sum()
    assert (np.abs(drawn.mean(0) - p) <= 4 * np.sqrt(p * (1 - p) / 20000)).all()


def test_linear_weights_are_the_scores() -> None:
    """N2 §5.5.2: α = e, so the context of a dot product is (V K) q: linear in every argument."""
    q, k, v = array(L, Q), array(S, Q), array(S, V)
    context, weights = nn.Attention(nn.DotScore(), nn.linear_weights)(*map(weft.tensor, (q, k, v)))
    np.testing.assert_allclose(weights.numpy(), q @ k.T)
    np.testing.assert_allclose(context.numpy(), q @ (k.T @ v), atol=1e-12)


@pytest.mark.parametrize("weighting", [nn.soft_weights, nn.hard_weights, nn.sampled_weights, nn.linear_weights])
def test_masked_keys_do_not_matter(weighting: Callable[..., weft.Tensor]) -> None:
    mask = weft.tensor([True, True, False, True, False])
    q, k, v = array(L, Q), array(S, Q), array(S, V)
    outputs = []
    for noise in (0.0, 100.0):
        weft.manual_seed(1)
        moved = [x + noise * ~mask.numpy()[:, None] for x in (k, v)]
        outputs.append(nn.Attention(None, weighting)(*map(weft.tensor, (q, *moved)), mask=mask)[0].numpy())
    np.testing.assert_array_equal(*outputs)


LENGTHS: list[tuple[tuple[int, ...], Any]] = [
    ((B, S), [2, 5]),
    ((B, L, S), [0, 4]),
    ((B, L, S), [[1, 2, 3], [0, 4, 5]]),
    ((B, 4, L, S), [3, 1]),
    ((B, 4, L, S), [[1, 2, 3], [0, 4, 5]]),
]


@pytest.mark.parametrize(("shape", "lengths"), LENGTHS)
def test_masked_softmax_is_a_softmax_of_the_first_keys(shape: tuple[int, ...], lengths: Any) -> None:
    scores, lengths = array(*shape), np.array(lengths)
    found = nn.masked_softmax(weft.tensor(scores), weft.tensor(lengths)).numpy()
    for at in np.ndindex(*shape[:-1]):
        used = lengths[at[0]] if lengths.ndim == 1 else lengths[at[0], at[-1]]
        expected = np.zeros(shape[-1])
        expected[:used] = np.exp(scores[at][:used]) / np.exp(scores[at][:used]).sum()
        np.testing.assert_allclose(found[at], expected, atol=1e-14)


def test_bad_masks_and_lengths_are_refused() -> None:
    with pytest.raises(RuntimeError, match="lengths of shape"):
        nn.masked_softmax(weft.zeros(2, 3, 5), weft.tensor([1, 2, 3]))
    with pytest.raises(RuntimeError, match="boolean"):
        nn.soft_weights(weft.zeros(2, 3), weft.zeros(2, 3))


def test_dropout_of_the_weights_only_in_training() -> None:
    attention = nn.Attention(dropout=0.5)
    x = weft.ones(1, 200, 4)
    assert float(attention(x, x, x)[0].std()) > 0
    np.testing.assert_allclose(attention.eval()(x, x, x)[0].numpy(), 1, rtol=1e-5)


# ----------------------------------------------------------------------------------- kernel regression

KERNELS: dict[str, Callable[[float], float]] = {
    "gaussian": lambda u: math.exp(-u * u / 2),
    "boxcar": lambda u: float(u <= 1),
    "epanechnikov": lambda u: max(0.0, 1 - u),
}


@pytest.mark.parametrize("kernel", KERNELS)
@pytest.mark.parametrize("width", [1.5, np.array([0.9, 2.0])])
def test_nadaraya_watson_against_a_direct_sum(kernel: str, width: Any) -> None:
    x, keys, values = 0.3 * array(6, 2), array(40, 2), array(40, 3)
    scale = weft.tensor(width) if isinstance(width, np.ndarray) else width
    found = nn.nadaraya_watson(*map(weft.tensor, (x, keys, values)), kernel, scale).numpy()
    for q, y in zip(x, found, strict=True):
        weights = [KERNELS[kernel](float(np.linalg.norm((q - k) / width))) for k in keys]
        assert sum(weights) > 0
        expected = sum(w * v for w, v in zip(weights, values, strict=True)) / sum(weights)
        np.testing.assert_allclose(y, expected, rtol=1e-9)


def test_gaussian_regression_is_attention() -> None:
    """N4 §11: −‖q − k‖²/2 = qᵀk − ‖k‖²/2 − ‖q‖²/2, so keys of equal length give dot-product attention."""
    q, k, v = array(L, Q), array(S, Q), array(S, V)
    k /= np.linalg.norm(k, axis=1, keepdims=True)
    by_kernel = nn.nadaraya_watson(*map(weft.tensor, (q, k, v)))
    by_dot, _ = nn.Attention(nn.DotScore())(*map(weft.tensor, (q, k, v)))
    np.testing.assert_allclose(by_kernel.numpy(), by_dot.numpy(), atol=1e-12)


def test_far_queries() -> None:
    """Far from all keys the Gaussian estimate is the value of the nearest one; a bounded kernel has none."""
    keys, values, far = weft.tensor([[0.0], [1.0]]), weft.tensor([[5.0], [7.0]]), weft.tensor([[1000.0]])
    assert nn.nadaraya_watson(far, keys, values).item() == 7.0
    assert math.isnan(nn.nadaraya_watson(far, keys, values, "boxcar").item())
    with pytest.raises(RuntimeError, match="gaussian, boxcar, epanechnikov"):
        nn.nadaraya_watson(far, keys, values, "triangle")


@pytest.mark.parametrize("kernel", ["gaussian", "epanechnikov"])
def test_learned_width_has_a_true_gradient(kernel: str) -> None:
    layer = doubled(nn.NadarayaWatson(kernel, 4.0, features=2, learnable=True))
    inputs = (leaf(array(3, 2)), leaf(array(5, 2)), leaf(array(5, 1)))
    assert weft.autograd.gradcheck(lambda q, k, v, _: layer(q, k, v), (*inputs, layer.log_width))
