"""Positions: sinusoids and table 1 of the notes, learned vectors, T5 and ALiBi biases, rotations."""

from __future__ import annotations

import math

import numpy as np
import pytest

import weft
from weft import nn

RANDOM = np.random.default_rng(0)


@pytest.fixture(autouse=True)
def _same_numbers_for_every_test() -> None:
    RANDOM.bit_generator.state = np.random.default_rng(0).bit_generator.state
    weft.manual_seed(0)


# -------------------------------------------------------------------------------------- vectors to be added


@pytest.mark.parametrize("features", [1, 2, 5, 8])
def test_sinusoids_follow_the_formula(features: int) -> None:
    found = nn.sinusoidal_positions(12, features).numpy()
    assert found.shape == (12, features)
    for i, j in np.ndindex(12, features):
        angle = i / 10000 ** (2 * (j // 2) / features)
        assert found[i, j] == pytest.approx(math.cos(angle) if j % 2 else math.sin(angle), abs=1e-6)


def test_a_shift_of_sinusoids_is_a_linear_map() -> None:
    """p(i + d) = R(d) p(i) with the same rotation for all i."""
    p = nn.sinusoidal_positions(weft.arange(50, dtype=weft.float64), 6).numpy()
    turn = np.linalg.lstsq(p[:20], p[7:27], rcond=None)[0]
    np.testing.assert_allclose(p[:40] @ turn, p[7:47], atol=1e-8)
    np.testing.assert_allclose(turn @ turn.T, np.eye(6), atol=1e-8)


@pytest.mark.parametrize("shape", [(7, 6), (3, 7, 6), (2, 3, 7, 6)])
@pytest.mark.parametrize("offset", [0, 5])
def test_positions_are_added(shape: tuple[int, ...], offset: int) -> None:
    x = RANDOM.standard_normal(shape).astype(np.float32)
    learned = nn.LearnedPosition(12, 6)
    tables = {nn.SinusoidalPosition(6): nn.sinusoidal_positions(12, 6), learned: learned.weight.detach()}
    for module, table in tables.items():
        expected = x + table.numpy()[offset : offset + 7]
        np.testing.assert_allclose(module(weft.tensor(x), offset).detach().numpy(), expected, rtol=1e-6)


def test_learned_positions_end() -> None:
    with pytest.raises(RuntimeError, match="max_length is 4"):
        nn.LearnedPosition(4, 6)(weft.zeros(5, 6))


def test_reconstruction_of_positions() -> None:
    """N2 table 1: linear regression recovers the position from sinusoids with mean absolute error 0.0.

    Vectors that know nothing of the position do no better than a guess at the mean (T/4 = 128); the learned ones of
    the table lie between (BERT 34.14), like sinusoids under noise.
    """
    sinusoids = nn.sinusoidal_positions(512, 768).to(weft.float64)
    noise = weft.tensor(RANDOM.standard_normal((512, 768)))
    assert round(nn.position_reconstruction_error(sinusoids), 2) == 0.0
    assert nn.position_reconstruction_error(noise) > 128
    assert 1 < nn.position_reconstruction_error(sinusoids + 0.3 * noise) < 34.14


# ----------------------------------------------------------------------------------------------- biases


def bucket_by_definition(relative: int, bidirectional: bool, buckets: int, furthest: int) -> int:
    """T5's rule for one distance."""
    bucket = 0
    if bidirectional:
        buckets //= 2
        bucket = buckets if relative > 0 else 0
        distance = abs(relative)
    else:
        distance = max(-relative, 0)
    exact = buckets // 2
    if distance < exact:
        return bucket + distance
    far = exact + int(math.log(distance / exact) / math.log(furthest / exact) * (buckets - exact))
    return bucket + min(far, buckets - 1)


@pytest.mark.parametrize("bidirectional", [True, False])
@pytest.mark.parametrize(("buckets", "furthest"), [(32, 128), (16, 64), (8, 20), (32, 512)])
def test_buckets_against_the_definition(bidirectional: bool, buckets: int, furthest: int) -> None:
    relative = range(-600, 601)
    found = nn.relative_position_bucket(weft.tensor(list(relative)), bidirectional, buckets, furthest)
    assert found.tolist() == [bucket_by_definition(r, bidirectional, buckets, furthest) for r in relative]
    assert set(found.tolist()) <= set(range(buckets))


def test_known_buckets_of_t5() -> None:
    """Both directions, 32 buckets up to 128: 0…7 exact, 8 from 8 on, 15 from 91 on, keys ahead 16 higher."""
    ahead = nn.relative_position_bucket(weft.tensor([1, 7, 8, 11, 12, 16, 90, 91, 127, 1000])).tolist()
    behind = nn.relative_position_bucket(weft.tensor([0, -1, -7, -8, -91, -1000])).tolist()
    assert ahead == [17, 23, 24, 24, 25, 26, 30, 31, 31, 31]
    assert behind == [0, 1, 7, 8, 15, 15]


@pytest.mark.parametrize("offset", [0, 4])
def test_relative_bias_depends_on_the_distance(offset: int) -> None:
    bias = nn.RelativePositionBias(3, num_buckets=8, max_distance=16)
    table = bias(5, 9, offset)
    assert table.shape == (3, 5, 9)
    for h, i, j in np.ndindex(3, 5, 9):
        bucket = bucket_by_definition(j - i - offset, True, 8, 16)
        assert table[h, i, j].item() == bias.weight[bucket, h].item()
    table.sum().backward()
    counts = np.zeros((8, 3))
    for i, j in np.ndindex(5, 9):
        counts[bucket_by_definition(j - i - offset, True, 8, 16)] += 1
    np.testing.assert_array_equal(bias.weight.grad.numpy(), counts)


def test_alibi_slopes() -> None:
    """The values its authors give: 1/2 … 1/256 for 8 heads, 2^(−1/2) … 2^(−8) for 16, both mixed between."""
    assert nn.alibi_slopes(8) == [2.0**-h for h in range(1, 9)]
    assert nn.alibi_slopes(16) == [2.0 ** (-h / 2) for h in range(1, 17)]
    assert nn.alibi_slopes(12) == [2.0**-h for h in range(1, 9)] + [2.0**-e for e in (0.5, 1.5, 2.5, 3.5)]
    assert [len(nn.alibi_slopes(h)) for h in range(1, 40)] == list(range(1, 40))


def test_alibi_bias() -> None:
    bias = nn.ALiBi(4)
    found, slopes = bias(3, 6, offset=2).numpy(), nn.alibi_slopes(4)
    for h, i, j in np.ndindex(4, 3, 6):
        assert found[h, i, j] == pytest.approx(-slopes[h] * abs(i + 2 - j))
    assert not list(bias.parameters()) and not bias.state_dict()


# --------------------------------------------------------------------------------------------- rotations


def test_rotation_against_complex_numbers() -> None:
    x = RANDOM.standard_normal((2, 9, 6))
    found = nn.rotate_by_position(weft.tensor(x)).numpy()
    turned = (x[..., 0::2] + 1j * x[..., 1::2]) * np.exp(
        1j * np.arange(9)[:, None] * 10000.0 ** (-2 * np.arange(3) / 6)
    )
    np.testing.assert_allclose(found[..., 0::2] + 1j * found[..., 1::2], turned, atol=1e-12)
    np.testing.assert_allclose(np.linalg.norm(found, axis=-1), np.linalg.norm(x, axis=-1))


def test_inner_products_of_rotations_depend_on_the_distance() -> None:
    q, k = RANDOM.standard_normal((2, 8))
    everywhere = [weft.tensor(np.tile(x, (20, 1))) for x in (q, k)]
    rotated_q, rotated_k = nn.RotaryPosition()(*everywhere)
    products = (rotated_q @ rotated_k.mT).numpy()
    for distance in range(-19, 20):
        along = np.diagonal(products, distance)
        np.testing.assert_allclose(along, along[0], atol=1e-12)
    assert np.std([np.diagonal(products, d)[0] for d in range(20)]) > 0.1


def test_rotary_offset_continues_a_sequence() -> None:
    q, k = (weft.tensor(RANDOM.standard_normal((10, 4))) for _ in range(2))
    whole, keys = nn.RotaryPosition()(q, k)
    rest, same = nn.RotaryPosition()(q[6:], k, offset=6)
    np.testing.assert_array_equal(rest.numpy(), whole[6:].numpy())
    np.testing.assert_array_equal(same.numpy(), keys.numpy())
    with pytest.raises(RuntimeError, match="even"):
        nn.rotate_by_position(weft.zeros(3, 5))


def test_rotation_has_a_true_gradient() -> None:
    x = weft.tensor(RANDOM.standard_normal((3, 4))).requires_grad_()
    assert weft.autograd.gradcheck(nn.rotate_by_position, (x,))
