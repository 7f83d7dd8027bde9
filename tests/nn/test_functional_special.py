"""What the tables of samples cannot say: kinks, infinities, in-place writes, running statistics, randomness."""

from __future__ import annotations

import itertools
import math
from typing import Any

import numpy as np
import pytest
import torch
from scipy.special import logsumexp

import weft
import weft.nn.functional as ours

theirs = torch.nn.functional
INF, NAN = math.inf, math.nan


def both(array: Any, grad: bool = False) -> tuple[weft.Tensor, torch.Tensor]:
    array = np.asarray(array)
    mine, reference = weft.tensor(array), torch.tensor(array)
    return (mine.requires_grad_(), reference.requires_grad_()) if grad else (mine, reference)


def same(mine: weft.Tensor, reference: torch.Tensor, tolerance: float = 1e-12) -> None:
    np.testing.assert_allclose(mine.detach().numpy(), reference.detach().numpy(), tolerance, tolerance)


# -------------------------------------------------------------------------------------------- activations

KINKS = {
    "relu": (0.0,),
    "relu6": (0.0, 6.0),
    "hardtanh": (-1.0, 1.0),
    "hardsigmoid": (-3.0, 3.0),
    "hardswish": (-3.0, 3.0),
    "hardshrink": (-0.5, 0.5),
    "softshrink": (-0.5, 0.5),
    "leaky_relu": (0.0,),
    "elu": (0.0, 1000.0),
    "selu": (0.0, 1000.0),
    "celu": (0.0, 1000.0),
    "softplus": (0.0, 20.0, 1000.0, -1000.0),
    "logsigmoid": (0.0, 1000.0, -1000.0),
    "softsign": (0.0,),
    "mish": (0.0, 500.0, -500.0),
    "silu": (0.0, 500.0, -500.0),
    "gelu": (0.0, 40.0, -40.0),
}


@pytest.mark.parametrize("name", KINKS)
def test_slopes_at_kinks_and_far_out_are_those_of_pytorch(name: str) -> None:
    mine, reference = both(np.array(KINKS[name]), grad=True)
    a, b = getattr(ours, name)(mine), getattr(theirs, name)(reference)
    same(a, b)
    a.sum().backward()
    b.sum().backward()
    np.testing.assert_allclose(mine.grad.numpy(), reference.grad.numpy(), 1e-6, 1e-12)


@pytest.mark.parametrize("name", [*KINKS, "tanhshrink"])
def test_infinities_and_nan_have_the_values_of_pytorch(name: str) -> None:
    mine, reference = both(np.array([INF, -INF, NAN]))
    same(getattr(ours, name)(mine), getattr(theirs, name)(reference))


def test_second_derivative_of_softplus_at_zero_is_a_quarter() -> None:
    for function in (ours.softplus, lambda x: -ours.logsigmoid(-x)):
        x = weft.zeros(1, dtype=weft.float64).requires_grad_()
        (slope,) = weft.autograd.grad(function(x).sum(), x, create_graph=True)
        (bend,) = weft.autograd.grad(slope.sum(), x)
        assert (slope.item(), bend.item()) == (0.5, 0.25)


IN_PLACE = ("relu", "relu6", "elu", "selu", "celu", "leaky_relu", "rrelu", "hardtanh", "hardsigmoid", "hardswish")
IN_PLACE += ("mish", "silu")


@pytest.mark.parametrize("dtype", ["float64", "bfloat16"])
@pytest.mark.parametrize("name", IN_PLACE)
def test_inplace_writes_into_the_memory_and_keeps_gradients(name: str, dtype: str) -> None:
    leaf = weft.tensor(np.linspace(-2, 2, 6)).to(getattr(weft, dtype)).requires_grad_()
    function = getattr(ours, name)
    expected = function(leaf)
    (wanted,) = weft.autograd.grad(expected.sum(), leaf)
    written = leaf * 1
    view = written[1:3]
    assert function(written, inplace=True) is written
    assert weft.equal(written, expected)
    assert weft.equal(view, expected[1:3])
    (got,) = weft.autograd.grad(written.sum(), leaf)
    assert weft.equal(got, wanted)


@pytest.mark.parametrize("name", ["relu", "elu", "selu", "celu", "leaky_relu", "rrelu", "hardtanh"])
def test_underscore_forms_are_the_inplace_forms(name: str) -> None:
    x = weft.tensor([-1.5, -0.5, 0.5, 7.0])
    expected = getattr(ours, name)(x)
    assert getattr(ours, name + "_")(x) is x
    assert weft.equal(x, expected)


def test_threshold_in_place() -> None:
    x = weft.tensor([0.5, 1.5])
    assert ours.threshold_(x, 1.0, 9.0) is x
    assert x.tolist() == [9.0, 1.5]
    assert ours.threshold(weft.tensor([1, 2, 3]), 1.5, 9.5).tolist() == [9, 2, 3]


def test_inplace_on_a_leaf_is_refused() -> None:
    with pytest.raises(RuntimeError, match="elu_: a leaf"):
        ours.elu(weft.ones(2, requires_grad=True), inplace=True)


def test_softmax_without_dim_warns_and_guesses() -> None:
    with pytest.warns(UserWarning, match="dim"):
        assert weft.equal(ours.softmax(weft.eye(3)), ours.softmax(weft.eye(3), 1))


def test_gumbel_softmax_draws_classes_with_their_probabilities() -> None:
    weft.manual_seed(0)
    logits = weft.tensor([1.0, 0.0, -1.0]).expand(20000, 3)
    hard = ours.gumbel_softmax(logits, hard=True)
    assert weft.equal(hard.sum(-1), weft.ones(20000))
    expected = np.exp([1, 0, -1]) / np.exp([1, 0, -1]).sum()
    np.testing.assert_allclose(hard.mean(0).numpy(), expected, atol=4 * 0.5 / math.sqrt(20000))


def test_gumbel_softmax_hard_has_the_gradient_of_the_soft_sample() -> None:
    logits = weft.tensor([[0.3, -0.2, 0.1]], dtype=weft.float64, requires_grad=True)
    slopes = []
    for hard in (False, True):
        weft.manual_seed(3)
        y = ours.gumbel_softmax(logits, tau=0.7, hard=hard)
        slopes.append(weft.autograd.grad((y * weft.tensor([[1.0, 2.0, 3.0]])).sum(), logits)[0])
    np.testing.assert_allclose(slopes[0].numpy(), slopes[1].numpy(), 1e-12)


def test_normalize_of_zero_is_zero_with_a_finite_gradient() -> None:
    mine, reference = both(np.zeros((1, 3)), grad=True)
    a, b = ours.normalize(mine), theirs.normalize(reference)
    same(a, b)
    a.sum().backward()
    b.sum().backward()
    same(mine.grad, reference.grad)


# --------------------------------------------------------------------------------------------- normalisation


@pytest.mark.parametrize("name", ["batch_norm", "instance_norm"])
@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_running_statistics_move_in_place(name: str, dtype: str) -> None:
    rng = np.random.default_rng(0)
    array = rng.standard_normal((4, 3, 5)).astype(np.float32)
    x, reference = weft.tensor(array).to(getattr(weft, dtype)), torch.tensor(array).to(getattr(torch, dtype))
    mean, variance = weft.zeros(3), weft.ones(3)
    wanted_mean, wanted_variance = torch.zeros(3), torch.ones(3)
    option = {"training": True} if name == "batch_norm" else {"use_input_stats": True}
    for _ in range(2):
        getattr(ours, name)(x.requires_grad_(), mean, variance, momentum=0.3, **option)
        getattr(theirs, name)(reference, wanted_mean, wanted_variance, momentum=0.3, **option)
    tolerance = 1e-5 if dtype == "float32" else 1e-2  # PyTorch rounds the statistics of bfloat16 to bfloat16
    same(mean, wanted_mean, tolerance)
    same(variance, wanted_variance, tolerance)
    assert not mean.requires_grad


def test_evaluation_leaves_the_running_statistics_alone() -> None:
    mean, variance = weft.tensor([1.0, 2.0]), weft.tensor([3.0, 4.0])
    y = ours.batch_norm(weft.tensor([[1.0, 2.0], [4.0, 6.0]]), mean, variance, eps=0.0)
    np.testing.assert_allclose(y.numpy(), [[0, 0], [3 / math.sqrt(3), 2]], 1e-6)
    assert (mean.tolist(), variance.tolist()) == ([1.0, 2.0], [3.0, 4.0])


def test_normalisation_of_low_precision_keeps_float32_parameters() -> None:
    x = weft.randn(4, 6).bfloat16()
    for y in (
        ours.layer_norm(x, (6,), weft.ones(6), weft.zeros(6)),
        ours.rms_norm(x, (6,), weft.ones(6)),
        ours.group_norm(x, 2, weft.ones(6), weft.zeros(6)),
        ours.batch_norm(x, weft.zeros(6), weft.ones(6), weft.ones(6), weft.zeros(6), True),
    ):
        assert y.dtype is weft.bfloat16


# ----------------------------------------------------------------------------------------------------- losses


def test_old_flags_choose_the_reduction() -> None:
    x, t = weft.tensor([1.0, 3.0]), weft.zeros(2)
    with pytest.warns(UserWarning, match="reduction"):
        assert ours.mse_loss(x, t, size_average=False).item() == 10.0
        assert ours.mse_loss(x, t, size_average=True).item() == 5.0
        assert ours.mse_loss(x, t, reduce=False).tolist() == [1.0, 9.0]


def test_cross_entropy_ignores_and_divides_by_what_is_left() -> None:
    mine, reference = both(np.random.default_rng(0).standard_normal((4, 3)), grad=True)
    target = np.array([0, -100, 2, -100])
    for options in ({}, {"label_smoothing": 0.3}, {"reduction": "none"}, {"reduction": "sum"}):
        a = ours.cross_entropy(mine, weft.tensor(target), **options)
        b = theirs.cross_entropy(reference, torch.tensor(target), **options)
        same(a, b)
        same(weft.autograd.grad(a.sum(), mine)[0], torch.autograd.grad(b.sum(), reference)[0])
    assert math.isnan(ours.cross_entropy(mine, weft.full((4,), -100)).item())
    assert ours.cross_entropy(mine, weft.full((4,), -100), reduction="sum").item() == 0


def test_cross_entropy_of_huge_logits_is_finite() -> None:
    loss = ours.cross_entropy(weft.tensor([[1e4, 0.0, -1e4]]), weft.tensor([2]))
    assert loss.item() == 2e4
    assert ours.binary_cross_entropy_with_logits(weft.tensor([-1e4, 1e4]), weft.tensor([1.0, 1.0])).item() == 5e3


def test_binary_cross_entropy_bounds_logarithms_and_gradients() -> None:
    p, reference = both(np.array([0.0, 0.0, 1.0, 1.0]), grad=True)
    target = [1.0, 0.0, 1.0, 0.0]
    loss = ours.binary_cross_entropy(p, weft.tensor(target, dtype=weft.float64), reduction="none")
    assert loss.tolist() == [100.0, 0.0, 0.0, 100.0]
    loss.sum().backward()
    theirs.binary_cross_entropy(reference, torch.tensor(target, dtype=torch.float64), reduction="sum").backward()
    np.testing.assert_allclose(p.grad.numpy()[[0, 3]], reference.grad.numpy()[[0, 3]], 1e-6)  # the wrong answers


def test_variance_below_eps_keeps_its_gradient() -> None:
    mine, reference = both(np.zeros((2, 3)), grad=True)
    x, t = np.full((2, 3), 2.0), np.ones((2, 3))
    ours.gaussian_nll_loss(weft.tensor(x), weft.tensor(t), mine).backward()
    theirs.gaussian_nll_loss(torch.tensor(x), torch.tensor(t), reference).backward()
    same(mine.grad, reference.grad)


@pytest.mark.parametrize("p", [0, 0.5, 1, 1.5, 2, 3, INF])
def test_distances_of_equal_rows_have_gradient_zero(p: float) -> None:
    mine, reference = both(np.array([[1.0, 2.0], [1.0, 2.0], [0.0, 5.0]]), grad=True)
    a, b = ours.pdist(mine, p), theirs.pdist(reference, p)
    same(a, b)
    a.sum().backward()
    b.sum().backward()
    same(mine.grad, reference.grad)


# -------------------------------------------------------------------------------------------------------- CTC


def collapse(path: tuple[int, ...], blank: int) -> tuple[int, ...]:
    return tuple(s for s, _ in itertools.groupby(path) if s != blank)


@pytest.mark.parametrize("target", [(), (1,), (1, 2), (1, 1), (2, 1, 2)])
@pytest.mark.parametrize("blank", [0, 3])
def test_ctc_is_the_sum_over_all_paths(target: tuple[int, ...], blank: int) -> None:
    log_probs = weft.tensor(np.random.default_rng(1).standard_normal((4, 4))).log_softmax(-1)
    scores = log_probs.numpy()
    paths = [p for p in itertools.product(range(4), repeat=4) if collapse(p, blank) == target]
    expected = -logsumexp([sum(scores[t, s] for t, s in enumerate(p)) for p in paths])
    labels = weft.tensor(target, dtype=weft.int64)
    got = ours.ctc_loss(log_probs, labels, weft.tensor(4), weft.tensor(len(target)), blank, "none")
    assert got.item() == pytest.approx(expected, rel=1e-12)


def ctc_arguments(library: Any, logits: Any, padded: bool) -> tuple[Any, ...]:
    targets = [[1, 2, 2, 99], [3, 99, 99, 99], [99, 99, 99, 99], [1, 1, 1, 1]]  # 99: never read
    lengths = [3, 1, 0, 4]
    if not padded:
        targets = [t for row, n in zip(targets, lengths, strict=True) for t in row[:n]]
    return logits.log_softmax(-1), library.tensor(targets), library.tensor([6, 4, 5, 5]), library.tensor(lengths)


@pytest.mark.parametrize("reduction", ["none", "mean", "sum"])
@pytest.mark.parametrize("padded", [True, False])
def test_ctc_of_every_target_form_with_empty_and_impossible_ones(reduction: str, padded: bool) -> None:
    mine, reference = both(np.random.default_rng(2).standard_normal((6, 4, 5)), grad=True)
    a = ours.ctc_loss(*ctc_arguments(weft, mine, padded), reduction=reduction, zero_infinity=True)
    b = theirs.ctc_loss(*ctc_arguments(torch, reference, padded), reduction=reduction, zero_infinity=True)
    same(a, b)
    a.sum().backward()
    b.sum().backward()
    np.testing.assert_allclose(mine.grad.numpy(), reference.grad.numpy(), 1e-6, 1e-7)
    infinite = ours.ctc_loss(*ctc_arguments(weft, mine.detach(), padded), reduction="none").tolist()
    assert infinite[3] == INF
    assert all(math.isfinite(v) for v in infinite[:3])


def test_ctc_second_derivatives() -> None:
    logits = weft.tensor(np.random.default_rng(3).standard_normal((4, 2, 3)), requires_grad=True)
    loss = lambda x: ours.ctc_loss(x.log_softmax(-1), weft.tensor([[1, 2], [1, 1]]), (4, 3), (2, 2))
    assert weft.autograd.check.gradcheck(loss, (logits,))
    assert weft.autograd.check.gradgradcheck(loss, (logits,))


# -------------------------------------------------------------------------------------------------- attention


@pytest.mark.parametrize("kind", ["bool", "float"])
def test_a_query_that_sees_no_key_gets_zero(kind: str) -> None:
    rng = np.random.default_rng(0)
    arrays = [rng.standard_normal(s) for s in ((2, 4, 3), (2, 5, 3), (2, 5, 6))]
    mask = np.ones((4, 5), bool)
    mask[1] = False
    if kind == "float":
        mask = np.where(mask, 0.0, -INF)
    mine, reference = zip(*(both(a, grad=True) for a in arrays), strict=True)
    a = ours.scaled_dot_product_attention(*mine, weft.tensor(mask))
    b = theirs.scaled_dot_product_attention(*reference, torch.tensor(mask))
    same(a, b)
    assert not a[:, 1].any()
    a.square().sum().backward()
    b.square().sum().backward()
    for x, y in zip(mine, reference, strict=True):
        same(x.grad, y.grad)


def test_attention_without_keys_is_zero() -> None:
    y = ours.scaled_dot_product_attention(weft.ones(2, 3), weft.ones(0, 3), weft.ones(0, 4))
    assert y.tolist() == [[0.0] * 4] * 2


def test_attention_dropout_keeps_the_mean() -> None:
    weft.manual_seed(0)
    q, k, v = weft.zeros(1, 4), weft.zeros(4000, 4), weft.ones(4000, 1)
    assert ours.scaled_dot_product_attention(q, k, v, dropout_p=0.5).item() == pytest.approx(1.0, abs=0.08)


@pytest.mark.parametrize("weights", [True, False])
def test_heads_without_a_batch(weights: bool) -> None:
    rng = np.random.default_rng(0)
    tables = [rng.standard_normal(s) for s in ((5, 4), (12, 4), (12,), (4, 4), (4,))]
    (x, tx), (w, tw), (b, tb), (o, to), (c, tc) = (both(t) for t in tables)
    padding = np.array([False, False, True, False, True])
    options = dict(training=False, need_weights=weights)
    got = ours.multi_head_attention_forward(
        x, x, x, 4, 2, w, b, None, None, False, 0.0, o, c, key_padding_mask=weft.tensor(padding), **options
    )
    expected = theirs.multi_head_attention_forward(
        tx, tx, tx, 4, 2, tw, tb, None, None, False, 0.0, to, tc, key_padding_mask=torch.tensor(padding), **options
    )
    same(got[0], expected[0])
    if weights:
        same(got[1], expected[1])
    else:
        assert got[1] is None


# -------------------------------------------------------------------------------------------------- embeddings


def test_padding_row_gets_no_gradient_and_frequent_rows_a_mean() -> None:
    index = np.array([[0, 1, 1], [2, 1, 0]])
    mine, reference = both(np.random.default_rng(0).standard_normal((4, 3)), grad=True)
    scale = np.random.default_rng(1).standard_normal((2, 3, 3))
    for options in ({"padding_idx": 1}, {"padding_idx": -4}, {"scale_grad_by_freq": True}):
        a = ours.embedding(weft.tensor(index), mine, **options)
        b = theirs.embedding(torch.tensor(index), reference, **options)
        same(a, b)
        got = weft.autograd.grad((a * weft.tensor(scale)).sum(), mine)[0]
        same(got, torch.autograd.grad((b * torch.tensor(scale)).sum(), reference)[0])


@pytest.mark.parametrize("norm_type", [2.0, 1.0, INF])
def test_max_norm_renormalises_the_rows_looked_up(norm_type: float) -> None:
    mine, reference = both(np.arange(12.0).reshape(4, 3) - 4, grad=True)
    index = np.array([1, 1, 3])
    a = ours.embedding(weft.tensor(index), mine, max_norm=1.0, norm_type=norm_type)
    b = theirs.embedding(torch.tensor(index), reference, max_norm=1.0, norm_type=norm_type)
    same(a, b)
    same(mine, reference)
    a.sum().backward()
    b.sum().backward()
    same(mine.grad, reference.grad)


@pytest.mark.parametrize("mode", ["sum", "mean", "max"])
@pytest.mark.parametrize("last", [False, True])
@pytest.mark.parametrize("padding", [None, 2])
def test_bags_by_offsets(mode: str, last: bool, padding: int | None) -> None:
    mine, reference = both(np.random.default_rng(0).standard_normal((5, 3)), grad=True)
    index, offsets = np.array([0, 2, 2, 4, 1, 0]), np.array([0, 2, 2, 3, 6])
    options = dict(mode=mode, include_last_offset=last, padding_idx=padding)
    a = ours.embedding_bag(weft.tensor(index), mine, weft.tensor(offsets), **options)
    b = theirs.embedding_bag(torch.tensor(index), reference, torch.tensor(offsets), **options)
    same(a, b)
    scale = np.random.default_rng(1).standard_normal(tuple(a.shape))
    (a * weft.tensor(scale)).sum().backward()
    (b * torch.tensor(scale)).sum().backward()
    same(mine.grad, reference.grad)


def test_bags_of_weighted_entries() -> None:
    mine, reference = both(np.random.default_rng(0).standard_normal((5, 3)), grad=True)
    weights, wanted = both(np.random.default_rng(1).standard_normal(4), grad=True)
    index, offsets = np.array([0, 2, 2, 4]), np.array([0, 0, 3])
    a = ours.embedding_bag(weft.tensor(index), mine, weft.tensor(offsets), mode="sum", per_sample_weights=weights)
    b = theirs.embedding_bag(
        torch.tensor(index), reference, torch.tensor(offsets), mode="sum", per_sample_weights=wanted
    )
    same(a, b)
    a.square().sum().backward()
    b.square().sum().backward()
    same(mine.grad, reference.grad)
    same(weights.grad, wanted.grad)


# ----------------------------------------------------------------------------------------------------- dropout


def test_dropout_drops_the_share_asked_for_and_scales_the_rest() -> None:
    weft.manual_seed(0)
    x = weft.ones(100, 200, requires_grad=True)
    y = ours.dropout(x, 0.3)
    assert y.mean().item() == pytest.approx(1.0, abs=5 * math.sqrt(0.3 / 0.7 / 20000))
    kept = y != 0
    np.testing.assert_allclose(y[kept].detach().numpy(), 1 / 0.7, 1e-6)
    y.sum().backward()
    assert weft.equal(x.grad, y.detach())


@pytest.mark.parametrize(("name", "shape"), [("dropout1d", (30, 20, 4)), ("dropout2d", (30, 20, 2, 3))])
def test_channels_are_dropped_whole(name: str, shape: tuple[int, ...]) -> None:
    weft.manual_seed(0)
    flat = getattr(ours, name)(weft.ones(*shape), 0.4).reshape(600, -1)
    assert weft.equal(flat.amin(1), flat.amax(1))
    assert (flat[:, 0] == 0).float().mean().item() == pytest.approx(0.4, abs=0.1)


def test_unbatched_channels_are_dropped_whole() -> None:
    weft.manual_seed(0)
    y = ours.dropout3d(weft.ones(200, 2, 3, 2), 0.5).reshape(200, -1)
    assert weft.equal(y.amin(1), y.amax(1))
    assert 0 < (y[:, 0] == 0).sum().item() < 200


@pytest.mark.parametrize("name", ["alpha_dropout", "feature_alpha_dropout"])
def test_alpha_dropout_keeps_mean_and_variance(name: str) -> None:
    weft.manual_seed(0)
    y = getattr(ours, name)(weft.randn(300, 300, 3), 0.2, training=True)
    assert y.mean().item() == pytest.approx(0.0, abs=0.02)
    assert y.var().item() == pytest.approx(1.0, abs=0.03)
    low, high = np.unique(getattr(ours, name)(weft.zeros(50, 50), 0.2, training=True).numpy().round(4))
    expected = torch.unique(theirs.alpha_dropout(torch.zeros(500), 0.2, True)).numpy()
    np.testing.assert_allclose([low, high], expected, atol=1e-4)


@pytest.mark.parametrize("name", ["dropout", "alpha_dropout", "feature_alpha_dropout", "dropout2d"])
def test_dropout_outside_training_and_at_the_ends(name: str) -> None:
    x = weft.randn(3, 4, 2)
    function = getattr(ours, name)
    assert function(x, 0.7, training=False) is x
    assert weft.equal(function(x, 0.0, training=True), x)
    assert not function(x, 1.0, training=True).any()
    kept = x.clone()
    assert function(kept, 0.5, training=True, inplace=True) is kept
    assert not weft.equal(kept, x)


# ------------------------------------------------------------------------------------------------------ errors

ONE = weft.ones
INDEX = weft.tensor([0, 1])
ERRORS: list[tuple[type, str, tuple, dict]] = [
    (TypeError, "relu", ([1.0],), {}),
    (RuntimeError, "gelu", (weft.tensor([1]),), {}),
    (ValueError, "gelu", (ONE(2),), {"approximate": "erf"}),
    (ValueError, "hardtanh", (ONE(2), 2.0, 1.0), {}),
    (RuntimeError, "hardtanh", (weft.tensor([1], dtype=weft.uint8),), {}),
    (RuntimeError, "prelu", (ONE(3, 2), ONE(3)), {}),
    (RuntimeError, "prelu", (ONE(3, 2), ONE(2, dtype=weft.float64)), {}),
    (RuntimeError, "glu", (ONE(3),), {}),
    (ValueError, "softshrink", (ONE(3), -1.0), {}),
    (RuntimeError, "one_hot", (ONE(3),), {}),
    (RuntimeError, "one_hot", (weft.tensor([3]), 3), {}),
    (RuntimeError, "one_hot", (weft.tensor([-1]),), {}),
    (ValueError, "batch_norm", (ONE(1, 3), None, None), {"training": True}),
    (RuntimeError, "batch_norm", (ONE(4, 3), None, None), {}),
    (RuntimeError, "batch_norm", (ONE(4, 3), ONE(2), ONE(2)), {}),
    (TypeError, "batch_norm", (ONE(4, 3), ONE(3), ONE(3)), {"training": True, "momentum": None}),
    (ValueError, "instance_norm", (ONE(2, 3, 1),), {}),
    (RuntimeError, "layer_norm", (ONE(2, 3), (2,)), {}),
    (RuntimeError, "layer_norm", (ONE(2, 3), (3,), ONE(2)), {}),
    (TypeError, "layer_norm", (ONE(2, 3), 3), {}),
    (RuntimeError, "group_norm", (ONE(2, 3), 2), {}),
    (ValueError, "mse_loss", (ONE(2), ONE(2)), {"reduction": "average"}),
    (ValueError, "mse_loss", (ONE(2), ONE(2)), {"weight": ONE(3)}),
    (ValueError, "huber_loss", (ONE(2), ONE(2)), {"delta": 0.0}),
    (ValueError, "binary_cross_entropy", (ONE(2), ONE(3)), {}),
    (ValueError, "binary_cross_entropy", (ONE(2) * 2, ONE(2)), {}),
    (ValueError, "binary_cross_entropy_with_logits", (ONE(2), ONE(3)), {}),
    (IndexError, "cross_entropy", (ONE(2, 3), weft.tensor([0, 3])), {}),
    (IndexError, "nll_loss", (ONE(2, 3), weft.tensor([0, -1])), {}),
    (ValueError, "cross_entropy", (ONE(3, 3), INDEX), {}),
    (RuntimeError, "cross_entropy", (ONE(2, 3), INDEX, ONE(2)), {}),
    (RuntimeError, "cross_entropy", (ONE(2, 3, 4), weft.zeros(2, 5, dtype=weft.int64)), {}),
    (RuntimeError, "cross_entropy", (ONE(2, 3), INDEX.int()), {}),
    (ValueError, "cross_entropy", (ONE(2, 3), INDEX), {"label_smoothing": 1.5}),
    (ValueError, "gaussian_nll_loss", (ONE(2, 3), ONE(2, 3), -ONE(2, 3)), {}),
    (ValueError, "gaussian_nll_loss", (ONE(2, 3), ONE(2, 3), ONE(3)), {}),
    (ValueError, "multi_margin_loss", (ONE(2, 3), INDEX), {"p": 3}),
    (RuntimeError, "multilabel_margin_loss", (ONE(2, 3), weft.full((2, 3), 3)), {}),
    (RuntimeError, "cosine_embedding_loss", (ONE(2, 3), ONE(2, 3), weft.tensor(1)), {}),
    (ValueError, "triplet_margin_loss", (ONE(2, 3), ONE(2, 3), ONE(2, 3)), {"margin": 0}),
    (RuntimeError, "pdist", (ONE(3),), {}),
    (ValueError, "ctc_loss", (ONE(4, 1, 3), weft.tensor([[1]]), (4,), (1,)), {"blank": 3}),
    (RuntimeError, "ctc_loss", (ONE(4, 1, 3), weft.tensor([[1]]), (5,), (1,)), {}),
    (RuntimeError, "ctc_loss", (ONE(4, 1, 3), weft.tensor([1, 2]), (4,), (1,)), {}),
    (RuntimeError, "linear", (ONE(2, 3), ONE(4, 2)), {}),
    (RuntimeError, "linear", (ONE(2, 3), ONE(4, 3), ONE(3)), {}),
    (RuntimeError, "bilinear", (ONE(2, 3), ONE(3, 4), ONE(5, 3, 4)), {}),
    (RuntimeError, "scaled_dot_product_attention", (ONE(2, 3), ONE(2, 4), ONE(2, 3)), {}),
    (ValueError, "scaled_dot_product_attention", (ONE(2, 3),) * 3 + (ONE(2, 2).bool(),), {"is_causal": True}),
    (RuntimeError, "embedding", (ONE(2), ONE(4, 3)), {}),
    (IndexError, "embedding", (weft.tensor([4]), ONE(4, 3)), {}),
    (ValueError, "embedding_bag", (INDEX, ONE(4, 3)), {}),
    (ValueError, "embedding_bag", (INDEX, ONE(4, 3), weft.tensor([0])), {"mode": "median"}),
    (RuntimeError, "embedding_bag", (INDEX, ONE(4, 3), weft.tensor([1])), {}),
    (ValueError, "dropout", (ONE(2),), {"p": 1.5}),
    (RuntimeError, "dropout1d", (ONE(2),), {}),
]


@pytest.mark.parametrize(("kind", "name", "args", "kwargs"), ERRORS, ids=[f"{e[1]}-{i}" for i, e in enumerate(ERRORS)])
def test_bad_calls_are_refused_by_name(kind: type, name: str, args: tuple, kwargs: dict) -> None:
    with pytest.raises(kind, match=rf"^{name}: "):
        getattr(ours, name)(*args, **kwargs)
