"""The ladder network: what its combinator can say, what its costs are where they are known, both encoders."""

from __future__ import annotations

import numpy as np
import pytest

import weft
from weft.errors import OptionError
from weft.models.fewlabels import Combinator, LadderNetwork


def set_to(combinator: Combinator, mean: float, share: float) -> None:
    """μ(u) = mean and υ(u) = share, whatever u is."""
    with weft.no_grad():
        for curve, value in ((combinator.mean, mean), (combinator.share, share)):
            curve.zero_()
            curve[4] = value


def test_the_combinator_hands_on_either_side_and_guesses_gaussians_best() -> None:
    """With υ = s² / (s² + n²) it is E[z | z̃] of z ~ N(μ, s²) under noise of variance n²: least squares finds it, too."""
    weft.manual_seed(0)
    g = Combinator(1)
    z, u = weft.randn(5, 1), weft.randn(5, 1)
    set_to(g, 0.3, 1.0)
    assert g(z, u).allclose(z)
    set_to(g, 0.3, 0.0)
    assert g(z, u).allclose(weft.full((5, 1), 0.3))
    set_to(g, 2.0, 0.8)
    true = 2 + np.random.default_rng(0).normal(size=200_000)  # s = 1, n = ½
    seen = true + 0.5 * np.random.default_rng(1).normal(size=200_000)
    slope, offset = np.polyfit(seen, true, 1)
    guess = g(weft.tensor([[0.0], [1.0]]), weft.zeros(2, 1)).detach().numpy().ravel()
    np.testing.assert_allclose(guess, [offset, offset + slope], atol=0.01)


def test_without_noise_a_combinator_that_hands_on_what_it_sees_denoises_the_input() -> None:
    weft.manual_seed(0)
    net = LadderNetwork(5, (4,), 3, noise=0.0)
    x = weft.randn(8, 5)
    set_to(net.combinators[0], 0.0, 1.0)
    costs = net.denoising_costs(x)
    assert len(costs) == 3 and costs[0].item() == 0
    assert net.noisy(x)[0].allclose(net(x), atol=1e-6)
    set_to(net.combinators[2], 0.0, 0.0)  # the guess is 0 everywhere: the cost is known
    _, layers = net.clean(x)
    z, mean, deviation = layers[2]
    np.testing.assert_allclose(net.denoising_costs(x)[2].item(), ((mean / deviation + z) ** 2).mean().item(), rtol=1e-5)


def test_evaluation_uses_the_statistics_of_clean_batches() -> None:
    weft.manual_seed(0)
    net = LadderNetwork(5, (4,), 3, noise=0.5, momentum=1.0)
    x = weft.randn(16, 5)
    first = net(x)
    net.noisy(weft.randn(16, 5))  # leaves the statistics alone
    assert net.eval()(x).allclose(first, atol=1e-5)
    assert not net.train().noisy(x)[0].allclose(first, atol=1e-2)


@pytest.mark.parametrize("given", [(0, (4,), 3), (5, (0,), 3), (5, (4,), 3, -1.0), (5, (4,), 3, 0.3, 0.0)])
def test_errors_say_what_is_wrong(given) -> None:
    with pytest.raises(OptionError, match="LadderNetwork"):
        LadderNetwork(*given)
