"""Normalisation modules against PyTorch, the invariance table of N2 §3.7.5, and ActNorm."""

from __future__ import annotations

import numpy as np
import pytest
import torch

import weft

from .modules_harness import case, check_cases, check_module, compare_state, load_weights

OPTIONS = [
    {},
    {"eps": 1e-2},
    {"affine": False},
    {"affine": True, "bias": False},
    {"track_running_stats": False},
    {"affine": True, "track_running_stats": True, "momentum": 0.7},
]


def normed(*shapes, options=OPTIONS):
    """Every option with every input shape, of 3 channels."""
    return [case(shape, args=(3,), **option) for option in options for shape in shapes]


RUNNING = {
    "BatchNorm1d": [*normed((4, 3), (2, 3, 5)), case((4, 3), args=(3,), momentum=None), case((0, 3, 2), args=(3,))],
    "BatchNorm2d": [*normed((2, 3, 4, 5)), case((0, 3, 2, 2), args=(3,)), case((2, 3, 1, 4), args=(3,), momentum=None)],
    "BatchNorm3d": [*normed((2, 3, 2, 3, 2)), case((0, 3, 2, 2, 2), args=(3,))],
    "InstanceNorm1d": normed((4, 3, 5), (3, 5)),
    "InstanceNorm2d": normed((2, 3, 4, 5), (3, 4, 5)),
    "InstanceNorm3d": normed((2, 3, 2, 3, 2), (3, 2, 3, 2)),
}
OTHERS = {
    "LayerNorm": [
        case((4, 5), args=(5,)),
        case((2, 4, 5), args=((4, 5),), eps=1e-2),
        case((2, 4, 5), args=(5,), elementwise_affine=False),
        case((2, 4, 5), args=([5],), bias=False),
        case((5,), args=(5,)),
        case((0, 5), args=(5,)),
        case((3, 700), args=(700,)),
        case((700, 130), args=(130,)),
        case((700, 130), args=(130,), elementwise_affine=False),
    ],
    "RMSNorm": [
        case((4, 5), args=(5,)),
        case((2, 4, 5), args=((4, 5),), eps=1e-2),
        case((2, 4, 5), args=(5,), elementwise_affine=False),
        case((5,), args=(5,), eps=1e-6),
        case((0, 5), args=(5,)),
        case((700, 130), args=(130,)),
    ],
    "GroupNorm": [
        case((4, 6, 5), args=(2, 6)),
        case((4, 6), args=(3, 6), eps=1e-2),
        case((2, 6, 3, 4), args=(6, 6)),
        case((2, 6, 3, 4), args=(1, 6), affine=False),
        case((2, 6, 3, 4), args=(2, 6), bias=False),
        case((0, 6, 3), args=(3, 6)),
        case((9, 6, 70, 30), args=(3, 6)),
    ],
    "LocalResponseNorm": [
        case((2, 6, 5), args=(2,)),
        case((2, 6, 5, 4), args=(3,), alpha=0.5),
        case((2, 6, 3, 2, 2), args=(5,), alpha=1.0, beta=0.5),
        case((2, 6, 5), args=(1,), k=2.0),
        case((6, 4, 4), args=(2,), alpha=0.3),
        case((0, 6, 5), args=(2,)),
    ],
}


@pytest.mark.parametrize("train", [True, False])
@pytest.mark.parametrize("name", RUNNING)
def test_running_norms_equal_torch(name, train, record_property):
    assert len(RUNNING[name]) >= 6
    check_cases(name, RUNNING[name], record_property, train=train)


@pytest.mark.parametrize("name", OTHERS)
def test_norms_equal_torch(name, record_property):
    assert len(OTHERS[name]) >= 6
    check_cases(name, OTHERS[name], record_property)


@pytest.mark.parametrize("momentum", [0.1, None])
def test_running_statistics_over_several_batches(momentum):
    theirs, ours = torch.nn.BatchNorm2d(3, momentum=momentum), weft.nn.BatchNorm2d(3, momentum=momentum)
    rng = np.random.default_rng(0)
    for _ in range(5):
        x = rng.normal(3, 2, (4, 3, 5, 5)).astype(np.float32)
        theirs(torch.tensor(x)), ours(weft.tensor(x))
    compare_state(theirs, ours, "after five batches", (1e-5, 1e-6))
    ours.reset_running_stats()
    assert ours.running_var.tolist() == [1, 1, 1] and int(ours.num_batches_tracked) == 0


SPATIAL = {"1d": (4, 3, 5), "2d": (4, 3, 5, 2), "3d": (4, 3, 2, 5, 2)}
LAZY = [{}, {"affine": False}, {"bias": False}, {"track_running_stats": False}, {"momentum": 0.3}, {"eps": 1e-2}]


@pytest.mark.parametrize("options", LAZY)
@pytest.mark.parametrize("rank", SPATIAL)
@pytest.mark.parametrize("kind", ["LazyBatchNorm", "LazyInstanceNorm"])
def test_lazy_norms_become_what_torch_makes_of_them(kind, rank, options):
    theirs, ours = getattr(torch.nn, kind + rank)(**options), getattr(weft.nn, kind + rank)(**options)
    assert repr(ours) == repr(theirs) and list(ours.state_dict()) == list(theirs.state_dict())
    x = torch.randn(SPATIAL[rank])
    theirs(x), ours(weft.tensor(x.numpy()))
    assert type(ours) is getattr(weft.nn, kind.removeprefix("Lazy") + rank)
    compare_state(theirs, ours, "after the first call", (1e-5, 1e-6))
    check_module(theirs, ours, [SPATIAL[rank]])


def test_old_state_dicts_without_a_batch_count():
    ours = weft.nn.BatchNorm1d(2)
    state = {k: v for k, v in ours.state_dict().items() if k != "num_batches_tracked"}
    assert not ours.load_state_dict(state).missing_keys


def test_sync_batch_norm_is_batch_norm_in_one_process():
    model = weft.nn.Sequential(weft.nn.Linear(3, 4), weft.nn.BatchNorm1d(4))
    x = weft.randn(5, 3)
    converted = weft.nn.SyncBatchNorm.convert_sync_batchnorm(model)
    assert isinstance(converted[1], weft.nn.SyncBatchNorm)
    theirs = torch.nn.Sequential(torch.nn.Linear(3, 4), torch.nn.BatchNorm1d(4))
    load_weights(theirs, converted)
    want = theirs(torch.tensor(x.numpy()))
    np.testing.assert_allclose(converted(x).detach().numpy(), want.detach().numpy(), 1e-4, 1e-5)


ERRORS = [
    ("BatchNorm1d", (3,), (2, 3, 4, 4), "expected 2D or 3D input"),
    ("BatchNorm2d", (3,), (2, 3, 4), "expected 4D input"),
    ("BatchNorm1d", (3,), (1, 3), "more than 1 value per channel"),
    ("BatchNorm1d", (3,), (4, 5), "should contain 5 elements not 3"),
    ("InstanceNorm2d", (3,), (2, 3), "expected 3D or 4D input"),
    ("LayerNorm", (3,), (2, 4), "normalized_shape"),
    ("GroupNorm", (2, 4), (2, 3, 2), "divisible|elements"),
    ("ActNorm", (3,), (2, 4), "expected \\(N, 3"),
]


@pytest.mark.parametrize("name,args,shape,message", ERRORS)
def test_errors(name, args, shape, message):
    with pytest.raises(ValueError, match=message):
        getattr(weft.nn, name)(*args)(weft.randn(shape))
    if hasattr(torch.nn, name):
        with pytest.raises((ValueError, RuntimeError)):
            getattr(torch.nn, name)(*args)(torch.randn(shape))


# ------------------------------------------------------------------------------------- gradients of gradients


@pytest.mark.parametrize(
    "name,args,shape",
    [
        ("LayerNorm", (4,), (3, 4)),
        ("RMSNorm", (4,), (3, 4)),
        ("BatchNorm1d", (3,), (4, 3)),
        ("GroupNorm", (2, 4), (2, 4, 3)),
        ("InstanceNorm1d", (2,), (2, 2, 4)),
    ],
)
def test_second_derivatives(name, args, shape):
    layer = getattr(weft.nn, name)(*args).double()
    x = weft.randn(shape, dtype=weft.float64, requires_grad=True)
    assert weft.autograd.gradgradcheck(lambda x, *p: layer(x).square(), (x, *layer.parameters()))


# ------------------------------------------------------------------------------- the invariance table, N2 §3.7.5

TRANSFORMS = {
    "weight matrix re-scaling": lambda w, x: (3 * w, x),
    "weight matrix re-centering": lambda w, x: (w + OFFSET, x),
    "weight vector re-scaling": lambda w, x: (w * np.array([[1.0], [5.0], [1.0], [1.0]]), x),
    "dataset re-scaling": lambda w, x: (w, 3 * x),
    "dataset re-centering": lambda w, x: (w, x + OFFSET),
    "single training case re-scaling": lambda w, x: (w, x * np.array([[1.0], [4.0], [1.0], [1.0], [1.0]])),
}
OFFSET = np.array([[0.3, -1.2, 0.7]])  # one vector added to every weight vector, or to every example
TABLE = {
    "batch norm": "101110",
    "weight norm": "101000",
    "layer norm": "110101",
}


def normalized_output(kind: str, weight: np.ndarray, x: np.ndarray) -> np.ndarray:
    """What reaches the non-linearity behind a linear layer without bias, with the given normalisation."""
    linear = weft.nn.Linear(3, 4, bias=False).double()
    linear.load_state_dict({"weight": weft.tensor(weight)})
    if kind == "weight norm":
        normal = weft.nn.utils.parametrizations.weight_norm(linear)
        normal.parametrizations.weight.original0.data.fill_(1.0)  # the learned length g is none of the table's changes
        return normal(weft.tensor(x)).detach().numpy()
    norm = weft.nn.BatchNorm1d(4, eps=1e-14) if kind == "batch norm" else weft.nn.LayerNorm(4, eps=1e-14)
    return norm.double()(linear(weft.tensor(x))).detach().numpy()


@pytest.mark.parametrize("kind", TABLE)
@pytest.mark.parametrize("column", range(6))
def test_invariance_table(kind, column):
    rng = np.random.default_rng(0)
    weight, x = rng.normal(size=(4, 3)), rng.normal(size=(5, 3))
    change = list(TRANSFORMS.values())[column]
    before, after = normalized_output(kind, weight, x), normalized_output(kind, *change(weight, x))
    invariant = np.allclose(before, after, 1e-7, 1e-9)
    assert invariant == (TABLE[kind][column] == "1"), f"{kind}, {list(TRANSFORMS)[column]}"


# -------------------------------------------------------------------------------------------------- ActNorm


@pytest.mark.parametrize("shape", [(50, 3), (20, 3, 7), (8, 3, 5, 5)])
def test_act_norm_starts_from_its_first_batch(shape):
    weft.manual_seed(0)
    layer, x = weft.nn.ActNorm(3).double(), weft.randn(shape, dtype=weft.float64) * 4 + 7
    dims = (0, *range(2, len(shape)))
    y = layer(x)
    np.testing.assert_allclose(y.detach().mean(dims).numpy(), 0, atol=1e-10)
    np.testing.assert_allclose(y.detach().var(dims, correction=0).numpy(), 1, 1e-5)
    second = layer(x * 2)
    assert not np.allclose(second.detach().mean(dims).numpy(), 0, atol=0.1)  # later batches change nothing
    np.testing.assert_allclose(layer.eval()(x).detach().numpy(), y.detach().numpy())
    np.testing.assert_allclose(layer.inverse(y).detach().numpy(), x.numpy(), 1e-10)
    one = x[:1].reshape(-1)
    jacobian = weft.autograd.functional.jacobian(lambda v: layer(v.reshape(1, *shape[1:])).reshape(-1), one)
    np.testing.assert_allclose(float(layer.log_abs_det(x)[0]), np.linalg.slogdet(jacobian.detach().numpy())[1], 1e-8)


def test_act_norm_restored_from_a_file_does_not_start_again():
    trained, fresh = weft.nn.ActNorm(2), weft.nn.ActNorm(2)
    trained(weft.randn(10, 2) + 3)
    fresh.load_state_dict(trained.state_dict())
    x = weft.randn(10, 2) * 9
    np.testing.assert_array_equal(fresh(x).detach().numpy(), trained(x).detach().numpy())
