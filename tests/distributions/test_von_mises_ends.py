"""Angles of von Mises' distribution where rejection from a wrapped Cauchy distribution would never accept."""

from __future__ import annotations

import math

import pytest

import weft
from weft.distributions import VonMises


@pytest.mark.parametrize(
    "kappa, variance", [(0.0, math.pi**2 / 3), (1e-9, math.pi**2 / 3), (1e12, 1e-12), (math.inf, 0.0)]
)
def test_angles_are_uniform_or_normal(kappa, variance):
    weft.manual_seed(0)
    drawn = VonMises(weft.tensor(0.5, dtype=weft.float64), weft.tensor(kappa, dtype=weft.float64), validate_args=False)
    angles = drawn.sample((4000,))
    if kappa >= 1:
        assert (angles - 0.5).square().mean().item() == pytest.approx(variance, rel=0.1)
    else:  # uniform on the circle, wherever loc is
        assert angles.square().mean().item() == pytest.approx(variance, rel=0.1)


def test_a_concentration_that_is_none_gives_nan():
    drawn = VonMises(weft.zeros(3), weft.tensor([math.nan, -1.0, 2.0]), validate_args=False).sample()
    assert drawn.isnan().tolist() == [True, True, False]
