"""One law for all bijectors: the inverse is one, the log-determinant is that of autograd's Jacobian, the density sums to 1."""

from __future__ import annotations

import pytest

import weft
from weft.models.generative import check_invertible

from .common import BIJECTORS, CONTEXT, seeded

CASES = [(name, context) for name, case in BIJECTORS.items() for context in ([0, CONTEXT] if case.contextual else [0])]


@pytest.fixture(params=CASES, ids=lambda case: f"{case[0]}{'-context' if case[1] else ''}")
def law(request):
    name, context = request.param
    case = BIJECTORS[name]
    given = weft.randn(1, CONTEXT, dtype=weft.float64, generator=seeded(2)) if context else None
    return case, case.bijector(context), given


def rows(context, n, dtype=weft.float64):
    return None if context is None else context.expand(n, -1).to(dtype)


def test_log_determinant_is_that_of_the_jacobian_and_the_inverse_is_one(law):
    case, f, given = law
    x = case.draw(3)
    forward = lambda x: f(x, rows(given, len(x)))
    inverse = lambda y: f.inverse(y, rows(given, len(y)))
    assert check_invertible(forward, inverse, x, tolerance=case.tolerance) <= case.tolerance


def test_float32_comes_back_within_1e5(law):
    case, f, given = law
    f32, x = f.float(), case.draw(50, weft.float32)
    y, volume = f32(x, rows(given, 50, weft.float32))
    back, shrunk = f32.inverse(y, rows(given, 50, weft.float32))
    assert y.dtype is back.dtype is volume.dtype is weft.float32
    assert (back - x).abs().max() <= 1e-5 * x.abs().max().clamp(min=1)
    assert (volume + shrunk).abs().max() <= 1e-4 * volume.abs().max().clamp(min=1)


def test_empty_batches_one_row_and_views_that_are_not_contiguous(law):
    case, f, given = law
    y, volume = f(case.draw(0), rows(given, 0))
    back, shrunk = f.inverse(y, rows(given, 0))
    assert volume.shape == shrunk.shape == (0,) and len(y) == 0 and back.shape == (0, *case.event_shape)
    x = case.draw(4)
    turned = x.movedim(0, -1).contiguous().movedim(-1, 0)
    whole, volume = f(x, rows(given, 4))
    weft.testing.assert_close(f(turned, rows(given, 4)), (whole, volume))
    alone, volume_alone = f(x[:1], rows(given, 1))
    weft.testing.assert_close((alone, volume_alone), (whole[:1], volume[:1]))
