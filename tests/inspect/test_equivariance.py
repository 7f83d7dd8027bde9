"""Symmetries of layers against what is known of them; costs and paths against the table of the notes."""

import math

import numpy as np
import pytest

import weft
from weft import inspect, nn
from weft.errors import OptionError, ShapeError

weft.manual_seed(0)
ATTENTION = nn.MultiheadAttention(8, 2, batch_first=True)
POSITION = nn.SinusoidalPosition(8)
SET = weft.randn(3, 6, 8)
IMAGE = weft.randn(2, 3, 8, 8)
GRU = nn.GRU(8, 8, batch_first=True)

PERMUTATIONS = {
    "attention": (lambda x: ATTENTION(x, x, x), True),
    "encoder layer, dropout off": (nn.TransformerEncoderLayer(8, 2, 16, dropout=0.5, batch_first=True), True),
    "layer for each row": (nn.Linear(8, 8), True),
    "attention with positions": (lambda x: ATTENTION(*(POSITION(x),) * 3), False),
    "recurrent": (GRU, False),
    "convolution": (lambda x: nn.functional.conv1d(x.mT, weft.ones(8, 8, 3), padding=1).mT, False),
}


@pytest.mark.parametrize("name", PERMUTATIONS)
def test_permutation_equivariance(name):
    """N2 §5.7: attention takes sets; positions, recurrence and convolution tell places apart."""
    layer, expected = PERMUTATIONS[name]
    found = inspect.permutation_equivariance(layer, SET)
    assert found.holds == bool(found) == expected
    assert found.error < 1e-5 if expected else found.error > 1e-2


def test_permutation_invariance():
    assert inspect.permutation_invariance(lambda x: ATTENTION(x, x, x)[0].mean(-2), SET)
    assert inspect.permutation_invariance(lambda x: x.amax(-2), SET).error == 0
    assert not inspect.permutation_invariance(lambda x: GRU(x)[1], SET)
    assert not inspect.permutation_invariance(ATTENTION.out_proj, SET)


TRANSLATIONS = {
    "circular": (nn.Conv2d(3, 4, 3, padding=1, padding_mode="circular"), dict(), True),
    "zeros": (nn.Conv2d(3, 4, 3, padding=1), dict(), False),
    "zeros, inside": (nn.Conv2d(3, 4, 3, padding=1), dict(border=2), True),
    "stride": (nn.Conv2d(3, 4, 2, 2), dict(shift=2, stride=2), True),
    "average of windows": (nn.AvgPool2d(2), dict(shift=(2, 4), stride=2), True),
    "two layers, inside": (
        nn.Sequential(nn.Conv2d(3, 4, 3, padding=1), nn.ReLU(), nn.Conv2d(4, 2, 3, padding=1)),
        dict(border=3),
        True,
    ),
    "own weights at each place": (nn.LocallyConnected2d(3, 2, 8, 3, padding=1), dict(border=2), False),
    "dense": (lambda x: (x.flatten(1) @ weft.ones(192, 192).triu()).reshape(x.shape), dict(), False),
    "batch norm, evaluated": (nn.BatchNorm2d(3), dict(), True),
}


@pytest.mark.parametrize("name", TRANSLATIONS)
def test_translation_equivariance(name):
    layer, options, expected = TRANSLATIONS[name]
    assert inspect.translation_equivariance(layer, IMAGE, dims=(-2, -1), **options).holds == expected


def test_translation_invariance():
    conv = nn.Conv2d(3, 4, 3, padding=1, padding_mode="circular")
    assert inspect.translation_invariance(lambda x: conv(x).amax((-2, -1)), IMAGE, (3, 5), (-2, -1))
    assert not inspect.translation_invariance(conv, IMAGE)


def test_modes_and_gradients_are_left_alone():
    layer = nn.Sequential(nn.BatchNorm2d(3), nn.Dropout())
    before = layer[0].running_mean.clone()
    inspect.translation_equivariance(layer, IMAGE)
    inspect.permutation_equivariance(layer, IMAGE)
    assert layer.training and layer[1].training and (layer[0].running_mean == before).all()


def test_other_changes_and_errors():
    assert inspect.equivariance(nn.Linear(3, 2, bias=False), weft.randn(4, 3), lambda x: -x)
    assert not inspect.equivariance(nn.Linear(3, 2), weft.randn(4, 3), lambda x: -x)
    assert inspect.equivariance(nn.ReLU(), weft.zeros(0, 3), lambda x: -x).error == 0
    with pytest.raises(ShapeError, match="change_output"):
        inspect.equivariance(lambda x: x.sum(0), weft.randn(4, 3), lambda x: x[:2], lambda y: y[:1])
    with pytest.raises(OptionError, match="stride"):
        inspect.translation_equivariance(nn.AvgPool1d(2), IMAGE[0], stride=2)
    with pytest.raises(OptionError, match="border"):
        inspect.translation_equivariance(nn.ReLU(), IMAGE, border=4)
    with pytest.raises(OptionError, match="dim"):
        inspect.permutation_equivariance(nn.ReLU(), IMAGE, dim=4)
    with pytest.raises(OptionError, match="one for each"):
        inspect.translation_invariance(nn.ReLU(), IMAGE, (1, 2))


# ----------------------------------------------------------------------------------- costs and paths


def costs(**changes):
    options = {"length": 24, "features": 8, "kernel": 2, "neighbourhood": 4} | changes
    return {cost.name: cost for cost in inspect.layer_costs(**options)}


GROWTH = {  # exponents of n, d, k, r in the multiplications: N2 §5.6.3
    "self-attention": (2, 1, 0, 0),
    "recurrent": (1, 2, 0, 0),
    "convolutional": (1, 2, 1, 0),
    "self-attention (restricted)": (1, 1, 0, 1),
}


@pytest.mark.parametrize("name", GROWTH)
def test_complexities_of_the_table(name):
    base = costs()[name].multiplications
    for exponent, (option, size) in zip(
        GROWTH[name], {"length": 24, "features": 8, "kernel": 2, "neighbourhood": 4}.items(), strict=True
    ):
        grown = costs(**{option: 2 * size})[name].multiplications
        slack = 0.2 if option == "neighbourhood" else 1e-9  # windows have r + 1 places
        assert math.log2(grown / base) == pytest.approx(exponent, abs=slack)


def test_what_must_wait():
    """Only recurrence has chains that grow with the sequence: by the same for each further place."""
    short, middle, long = costs(length=8), costs(length=16), costs(length=24)
    for name in GROWTH:
        steps = (middle[name].sequential - short[name].sequential, long[name].sequential - middle[name].sequential)
        assert steps[0] == steps[1] and (steps[0] >= 8 if name == "recurrent" else steps[0] == 0)


@pytest.mark.parametrize("length", [8, 9, 27])
def test_path_lengths(length):
    found = costs(length=length, kernel=3)
    assert found["self-attention"].path == 1
    assert found["recurrent"].path == length - 1
    assert found["convolutional"].path == math.ceil(math.log(length, 3) - 1e-9)
    assert found["self-attention (restricted)"].path == math.ceil((length - 1) / 2)


def test_dependence_and_paths_by_hand():
    x = weft.randn(5, 3, dtype=weft.float64)
    np.testing.assert_array_equal(inspect.dependence(lambda x: x.cumsum(0), x), np.tri(5, dtype=bool))
    np.testing.assert_array_equal(inspect.dependence(lambda x: x.flip(0), x), np.eye(5, dtype=bool)[::-1])
    assert inspect.path_length([np.eye(3, dtype=bool)] * 4) is None
    assert inspect.path_length([np.tri(3, dtype=bool)]) == 1
    with pytest.raises(OptionError):
        inspect.layer_costs(1, 4)


def test_scores_have_variance_d():
    """Var(q·k) = Σ Var(q_i k_i) = d; scaled it is 1, and the slope of softmax stays what it was."""
    found = inspect.score_scales((4, 64, 256))
    for scale in found:
        assert scale.variance[0] == pytest.approx(scale.features, rel=0.06)
        assert scale.variance[1] == pytest.approx(1, rel=0.06)
    assert found[-1].largest[0] > 0.85 > 0.3 > found[-1].largest[1]
    assert found[-1].slope[0] < found[1].slope[0] < found[0].slope[0] and found[-1].slope[0] < found[-1].slope[1] / 2
    assert found[-1].slope[1] == pytest.approx(found[1].slope[1], rel=0.05)


def test_the_slope_is_that_of_softmax():
    """Its Frobenius norm by the Jacobian."""
    generator = weft.Generator().manual_seed(3)
    [found] = inspect.score_scales([4], keys=5, samples=1, generator=generator)
    again = weft.Generator().manual_seed(3)
    q, k = again.normal((1, 4), np.float64), again.normal((1, 5, 4), np.float64)
    jacobian = weft.func.jacrev(lambda s: s.softmax(-1))(weft.tensor(np.einsum("nd,nkd->nk", q, k)[0]))
    assert found.slope[0] == pytest.approx(np.linalg.norm(jacobian.numpy()))
