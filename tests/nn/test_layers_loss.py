"""Losses and distances as modules against PyTorch, and the notes' losses against their formulas."""

from __future__ import annotations

import math

import numpy as np
import pytest
import sklearn.metrics
import torch

import weft
from weft import nn

from .modules_harness import Case, case, check_cases, check_module, load_weights

REDUCTIONS = ("mean", "sum", "none")


def signs(*shape):
    return torch.tensor(np.random.default_rng(0).choice([-1.0, 1.0], shape))


def classes(count, *shape):
    return torch.tensor(np.random.default_rng(1).integers(0, count, shape))


def uniform(*shape):
    return torch.tensor(np.random.default_rng(2).uniform(0.05, 0.95, shape))


def log_probabilities(*shape):
    return torch.log_softmax(torch.tensor(np.random.default_rng(3).normal(size=shape)), 1)


def reduced(*inputs, **options):
    """The case with each reduction."""
    return [case(*inputs, reduction=reduction, **options) for reduction in REDUCTIONS]


POSITIVE = uniform(4)
PAIRS = [*reduced((4, 3), (4, 3)), case((5,), (5,)), case((), ()), case((0, 3), (0, 3), reduction="sum")]
CASES: dict[str, list[Case]] = {
    "L1Loss": PAIRS,
    "MSELoss": PAIRS,
    "SmoothL1Loss": [*PAIRS, *reduced((4, 3), (4, 3), beta=0.3)],
    "HuberLoss": [*PAIRS, *reduced((4, 3), (4, 3), delta=0.3)],
    "PoissonNLLLoss": [
        *reduced((4, 3), uniform(4, 3) * 9),
        *reduced(uniform(4, 3), uniform(4, 3) * 9, log_input=False),
        *reduced((4, 3), uniform(4, 3) * 9, full=True),
    ],
    "GaussianNLLLoss": [
        *reduced((4, 3), (4, 3), uniform(4, 3)),
        case((4, 3), (4, 3), uniform(4, 1), full=True),
        case((4, 3), (4, 3), uniform(4), eps=0.3),
        case((4, 3), (4, 3), uniform(1, 3)),
        case((4, 3), (4, 3), 0.7),
    ],
    "NLLLoss": [
        *reduced(log_probabilities(4, 3), classes(3, 4)),
        case(log_probabilities(4, 3), classes(3, 4), weight=torch.tensor([0.2, 1.0, 3.0])),
        case(log_probabilities(4, 3), classes(3, 4), ignore_index=1),
        case(log_probabilities(2, 3, 4, 5), classes(3, 2, 4, 5)),
        case(log_probabilities(1, 3)[0], classes(3)),
    ],
    "NLLLoss2d": reduced(log_probabilities(2, 3, 4, 5), classes(3, 2, 4, 5)) * 2,
    "CrossEntropyLoss": [
        *reduced((4, 3), classes(3, 4)),
        *reduced((4, 3), classes(3, 4), weight=torch.tensor([0.2, 1.0, 3.0])),
        *reduced((4, 3), classes(3, 4), ignore_index=1, label_smoothing=0.2),
        *reduced((4, 3), uniform(4, 3), weight=torch.tensor([0.2, 1.0, 3.0])),
        *reduced((2, 3, 4, 5), classes(3, 2, 4, 5)),
        case((3,), classes(3)),
        case((0, 3), classes(3, 0), reduction="sum"),
        case((300, 250), classes(250, 300)),
        case((4, 3), torch.full((4,), -100)),
    ],
    "BCELoss": [*reduced(uniform(4, 3), uniform(4, 3)), *reduced(uniform(4), uniform(4), weight=POSITIVE)],
    "BCEWithLogitsLoss": [
        *reduced((4, 3), uniform(4, 3)),
        *reduced((3, 4), uniform(3, 4), weight=POSITIVE),
        *reduced((3, 4), uniform(3, 4), pos_weight=POSITIVE),
    ],
    "KLDivLoss": [
        *reduced(log_probabilities(4, 3), uniform(4, 3)),
        *reduced(log_probabilities(4, 3), log_probabilities(4, 3), log_target=True),
        case(log_probabilities(4, 3), uniform(4, 3), reduction="batchmean"),
    ],
    "SoftMarginLoss": [*reduced((4, 3), signs(4, 3).long()), *reduced((5,), signs(5).long())],
    "HingeEmbeddingLoss": [*reduced((4, 3), signs(4, 3)), *reduced((5,), signs(5), margin=0.3)],
    "MultiLabelMarginLoss": [
        *reduced((3, 4), torch.tensor([[1, 3, -1, 0], [-1, 0, 1, 2], [0, 1, 2, 3]])),
        *reduced((4,), torch.tensor([2, 0, -1, 1])),
    ],
    "MultiLabelSoftMarginLoss": [*reduced((3, 4), uniform(3, 4)), *reduced((3, 4), uniform(3, 4), weight=POSITIVE)],
    "MultiMarginLoss": [
        *reduced((4, 3), classes(3, 4)),
        *reduced((4, 3), classes(3, 4), p=2, margin=0.4, weight=torch.tensor([0.2, 1.0, 3.0])),
        case((3,), classes(3)),
    ],
    "CosineEmbeddingLoss": [*reduced((4, 3), (4, 3), signs(4)), *reduced((4, 3), (4, 3), signs(4), margin=0.3)],
    "MarginRankingLoss": [*reduced((4, 3), (4, 3), signs(4, 3)), *reduced((5,), (5,), signs(5), margin=0.3)],
    "TripletMarginLoss": [
        *reduced((4, 3), (4, 3), (4, 3)),
        *reduced((4, 3), (4, 3), (4, 3), margin=0.3, p=1.5, swap=True, eps=1e-4),
        case((3,), (3,), (3,)),
    ],
    "TripletMarginWithDistanceLoss": [
        *reduced((4, 3), (4, 3), (4, 3)),
        *reduced((4, 3), (4, 3), (4, 3), margin=0.3, swap=True),
    ],
    "CosineSimilarity": [
        *(case((4, 3), (4, 3), dim=dim) for dim in (0, 1, -1)),
        case((4, 3, 2), (4, 3, 2)),
        case((4, 3), (1, 3)),
        case((4, 3), (4, 3), eps=1.5),
    ],
    "PairwiseDistance": [
        *(case((4, 3), (4, 3), p=p) for p in (1.0, 2.0, 3.5, math.inf)),
        case((4, 3), (1, 3), keepdim=True),
        case((3,), (3,)),
        case((4, 3), (4, 3), eps=0.1),
    ],
}


@pytest.mark.parametrize("name", CASES)
@pytest.mark.filterwarnings("ignore")
def test_equals_torch(name, record_property):
    assert len(CASES[name]) >= 6
    check_cases(name, CASES[name], record_property)


@pytest.mark.parametrize("distance", [lambda a, b: (a - b).abs().sum(-1), lambda a, b: ((a - b) ** 2).mean(-1)])
def test_triplets_with_a_distance_of_ones_own(distance):
    options = {"distance_function": distance, "margin": 0.5}
    pair = [m.nn.TripletMarginWithDistanceLoss(**options) for m in (torch, weft)]
    check_module(*pair, [(4, 3), (4, 3), (4, 3)], compare_repr=False)


CTC = [
    {},
    {"reduction": "sum"},
    {"reduction": "none"},
    {"blank": 4},
    {"zero_infinity": True},
    {"reduction": "none", "blank": 2, "zero_infinity": True},
]


@pytest.mark.parametrize("options", CTC)
@pytest.mark.parametrize("batched", [True, False])
def test_ctc_equals_torch(options, batched):
    blank = options.get("blank", 0)
    labels = torch.tensor([c for c in range(5) if c != blank])[classes(4, 3, 4)]
    scores = torch.randn(9, 3, 5, generator=torch.Generator().manual_seed(0)).log_softmax(-1)
    if batched:
        inputs = [scores, labels, torch.tensor([9, 8, 7]), torch.tensor([4, 2, 3])]
    else:
        inputs = [scores[:, 0], labels[0], torch.tensor(9), torch.tensor(4)]
    theirs, ours = torch.nn.CTCLoss(**options), weft.nn.CTCLoss(**options)
    check_module(theirs, ours, inputs)


ADAPTIVE = [
    {},
    {"div_value": 2.0},
    {"head_bias": True},
    {"cutoffs": [3]},
    {"cutoffs": [2, 4, 7, 11]},
    {"div_value": 3.0, "head_bias": True, "cutoffs": [1, 12]},
]


@pytest.mark.filterwarnings("ignore:Initializing zero-element")
@pytest.mark.parametrize("options", ADAPTIVE)
def test_adaptive_softmax_equals_torch(options):
    torch.manual_seed(0)
    options = {"cutoffs": [5, 9], **options}
    theirs, ours = (m.nn.AdaptiveLogSoftmaxWithLoss(16, 13, **options) for m in (torch, weft))
    check_module(theirs, ours, [(20, 16), classes(13, 20)])
    check_module(theirs, ours, [(16,), classes(13)])
    load_weights(theirs, ours)
    x = torch.randn(6, 16, dtype=torch.float64)
    with torch.no_grad():
        want, best = theirs.log_prob(x).numpy(), theirs.predict(x).numpy()
    got = ours.log_prob(weft.tensor(x.numpy())).detach().numpy()
    np.testing.assert_allclose(got, want, 1e-8)
    np.testing.assert_allclose(np.exp(got).sum(1), 1)
    np.testing.assert_array_equal(ours.predict(weft.tensor(x.numpy())).numpy(), best)


ERRORS = [
    (lambda nn, t: nn.AdaptiveLogSoftmaxWithLoss(8, 10, [5, 3]), "increasing"),
    (lambda nn, t: nn.AdaptiveLogSoftmaxWithLoss(8, 10, [10]), "cutoffs"),
    (
        lambda nn, t: nn.AdaptiveLogSoftmaxWithLoss(8, 10, [5])(t.randn(2, 8), t.tensor([1, 10])),
        "Target values|in range",
    ),
    (lambda nn, t: nn.MultiMarginLoss(p=3), "only p == 1 and p == 2"),
    (lambda nn, t: nn.TripletMarginLoss(margin=0.0), "margin"),
    (lambda nn, t: nn.L1Loss(reduction="x")(t.randn(2), t.randn(2)), "not a valid value"),
]


@pytest.mark.parametrize("call,message", ERRORS)
def test_errors(call, message):
    with pytest.raises((ValueError, RuntimeError, IndexError), match=message):
        call(weft.nn, weft)
    with pytest.raises((ValueError, RuntimeError, IndexError)):
        call(torch.nn, torch)


@pytest.mark.parametrize("flags,reduction", [((True, True), "mean"), ((False, True), "sum"), ((True, False), "none")])
def test_the_old_flags(flags, reduction):
    with pytest.warns(UserWarning, match="reduction"):
        assert weft.nn.MSELoss(*flags).reduction == reduction


def test_cross_entropy_can_be_differentiated_twice():
    target, loss = weft.tensor([0, 2, 1]), weft.nn.CrossEntropyLoss()
    x = weft.randn(3, 4, dtype=weft.float64, requires_grad=True)
    assert weft.autograd.gradgradcheck(lambda x: loss(x, target).square(), (x,))


# ------------------------------------------------------------------------------------------ of the notes


@pytest.mark.parametrize("reduction,want", [("mean", 0.5), ("sum", 2.0), ("none", [0, 1, 0, 1])])
def test_zero_one_loss_counts_mistakes(reduction, want):
    """Σ |y − round(ŷ)| of N2 §2.4.5, and the wrong largest classes."""
    loss = weft.nn.ZeroOneLoss(reduction=reduction)
    binary = loss(weft.tensor([0.2, 0.7, 0.5, 0.4]), weft.tensor([0, 0, 1, 1]))
    scores = weft.tensor([[3.0, 1.0, 0.0], [0.0, 2.0, 9.0], [1.0, 5.0, 2.0], [0.1, 0.0, 0.0]])
    many = loss(scores, weft.tensor([0, 1, 1, 2]))
    np.testing.assert_allclose(binary.numpy(), want)
    np.testing.assert_allclose(many.numpy(), want)


def test_contrastive_loss_formula_and_gradient():
    rng = np.random.default_rng(0)
    a, b, similar = rng.normal(size=(6, 3)), rng.normal(size=(6, 3)), np.array([1, 0, 1, 0, 0, 1])
    distance = np.linalg.norm(a - b, axis=1)
    for margin in (1.0, 4.0):
        want = np.where(similar == 1, distance**2, np.maximum(0, margin - distance) ** 2)
        x, y, t = weft.tensor(a, requires_grad=True), weft.tensor(b), weft.tensor(similar)
        np.testing.assert_allclose(weft.nn.ContrastiveLoss(margin, "none")(x, y, t).detach().numpy(), want)
        weft.nn.ContrastiveLoss(margin, "sum")(x, y, t).backward()
        push = np.where(similar == 1, 2.0, -2 * np.maximum(0, margin - distance) / distance)
        np.testing.assert_allclose(x.grad.numpy(), push[:, None] * (a - b), 1e-8)


@pytest.mark.parametrize("kind", ["batch", "symmetric", "shared negatives", "own negatives"])
def test_info_nce_formula(kind):
    rng = np.random.default_rng(0)
    unit = lambda v: v / np.linalg.norm(v, axis=-1, keepdims=True)
    q, p, shared, own = (rng.normal(size=s) for s in ((5, 4), (5, 4), (7, 4), (5, 7, 4)))
    tau, softmax = 0.2, lambda s: np.exp(s / 0.2) / np.exp(s / 0.2).sum(1, keepdims=True)
    scores = unit(q) @ unit(p).T
    loss = weft.nn.InfoNCE(tau, symmetric=kind == "symmetric", reduction="none")
    if "negatives" in kind:
        negatives = shared if kind == "shared negatives" else own
        others = unit(q) @ unit(shared).T if kind == "shared negatives" else np.einsum("nd,nmd->nm", unit(q), unit(own))
        want = -np.log(softmax(np.c_[scores.diagonal(), others])[:, 0])
        got = loss(weft.tensor(q), weft.tensor(p), weft.tensor(negatives))
    else:
        want = -np.log(softmax(scores).diagonal())
        if kind == "symmetric":
            want = (want - np.log(softmax(scores.T).diagonal())) / 2
        got = loss(weft.tensor(q), weft.tensor(p))
    np.testing.assert_allclose(got.numpy(), want, 1e-10)


def test_info_nce_of_unrelated_pairs_is_log_n():
    """With nothing to tell positives from negatives the loss is log N: mutual information 0."""
    ones = weft.ones(8, 4, dtype=weft.float64)
    assert math.isclose(float(weft.nn.InfoNCE()(ones, ones)), math.log(8))


@pytest.mark.parametrize("margin", [1.0, 0.25])
def test_hinge_loss_is_scikit_learns(margin):
    rng = np.random.default_rng(0)
    scores, signs = rng.normal(size=40), rng.choice([-1, 1], size=40)
    wanted = sklearn.metrics.hinge_loss(signs, scores / margin) * margin  # scikit-learn's margin is 1
    for target in (weft.tensor(signs), weft.tensor(signs, dtype=weft.float64)):
        assert float(nn.HingeLoss(margin)(weft.tensor(scores), target)) == pytest.approx(wanted, rel=1e-12)
    each = nn.functional.hinge_loss(weft.tensor(scores), weft.tensor(signs), margin, reduction="none")
    np.testing.assert_allclose(each.numpy(), np.maximum(0, margin - signs * scores), rtol=1e-12)
    total = nn.functional.hinge_loss(weft.tensor(scores), weft.tensor(signs), margin, reduction="sum")
    assert float(total) == pytest.approx(float(each.sum()))


def test_hinge_loss_has_the_slopes_of_a_hinge():
    x = weft.tensor([0.5, 2.0, 1.0, -3.0], requires_grad=True)
    nn.functional.hinge_loss(x, weft.tensor([1, 1, 1, -1]), reduction="sum").backward()
    assert x.grad.tolist() == [-1.0, 0.0, 0.0, 0.0]
    assert weft.compile(nn.functional.hinge_loss)(x, weft.ones(4)).item() == pytest.approx((0.5 + 4.0) / 4)


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda f: f(weft.ones(3), weft.tensor([1, 0, 1])), "2 \\* target - 1"),
        (lambda f: f(weft.ones(3), weft.ones(2)), r"\(3,\).*\(2,\)"),
        (lambda f: f(weft.ones(3).long(), weft.ones(3)), "float"),
        (lambda f: f(weft.ones(3), weft.ones(3), reduction="max"), "reduction"),
    ],
)
def test_hinge_loss_refuses(call, words):
    with pytest.raises((RuntimeError, ValueError), match=words):
        call(nn.functional.hinge_loss)
