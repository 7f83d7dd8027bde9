"""Experiments about optimisation against closed forms: gradients enumerated, descents solved, errors at their limits."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
import torch

import weft
from weft import recipes
from weft.errors import OptionError
from weft.recipes.classical import epoch_double_descent, gradient_noise, momentum_rates
from weft.train import RunFolder

# ------------------------------------------------------------------------------------------- gradients of batches


@pytest.fixture(scope="module")
def five():
    """Five digits, a small network."""
    weft.manual_seed(0)
    return gradient_noise.Problem(recipes.get("gradient-noise").settings(["examples=5", "hidden=3"]))


def test_gradients_of_single_examples_are_those_of_pytorch(five):
    network = torch.nn.Sequential(torch.nn.Linear(64, 3), torch.nn.Tanh(), torch.nn.Linear(3, 10)).double()
    with torch.no_grad():
        for theirs, ours in zip(network.parameters(), five.model.parameters(), strict=True):
            theirs.copy_(torch.from_numpy(ours.detach().numpy()))
    for k, row in enumerate(five.single()):
        logits = network(torch.from_numpy(five.x.numpy()[k : k + 1]))
        loss = torch.nn.functional.cross_entropy(logits, torch.from_numpy(five.y.numpy()[k : k + 1]))
        right = torch.cat([g.ravel() for g in torch.autograd.grad(loss, list(network.parameters()))])
        np.testing.assert_allclose(row, right.numpy(), rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("size", [1, 2, 3])
def test_the_law_is_exact_over_all_batches(five, size):
    """All batches there are, instead of a few that are drawn: var g = var ∇L / |B|, and that times (N − |B|) / (N − 1)."""
    spread = five.single().var(0).sum()
    for batches, law in (
        (itertools.product(range(5), repeat=size), spread / size),
        (itertools.combinations(range(5), size), spread / size * (5 - size) / 4),
    ):
        found = np.stack([five.gradient(np.array(batch), "mean") for batch in batches])
        np.testing.assert_allclose(found.mean(0), five.single().mean(0), atol=1e-12)
        assert found.var(0).sum() == pytest.approx(law, rel=1e-9)


def test_draws_with_and_without_replacement():
    generator = weft.Generator().manual_seed(0)
    drawn = [gradient_noise.without(6, 4)(generator) for _ in range(200)]
    assert all(len(set(batch)) == 4 for batch in drawn) and set(np.concatenate(drawn)) == set(range(6))
    repeated = [len(set(gradient_noise.replaced(6, 4)(generator))) < 4 for _ in range(400)]
    assert np.mean(repeated) == pytest.approx(1 - 6 * 5 * 4 * 3 / 6**4, abs=0.07)


def test_a_batch_of_everything_is_refused(tmp_path):
    with pytest.raises(OptionError, match="smaller than the 20 examples, got 20"):
        recipes.run("gradient-noise", ["examples=20", "draws=2", "batches=20"], folder=tmp_path / "run")


# ------------------------------------------------------------------------------------------- 1/t and 1/t²

CURVATURES = np.geomspace(1e-4, 1, 12)


def test_descent_is_the_closed_form():
    """Each direction shrinks by 1 − λ."""
    found = momentum_rates.descend(weft.tensor(CURVATURES), 50)
    t = np.arange(1, 51)[:, None]
    right = (CURVATURES * (1 - CURVATURES) ** (2 * t) / 12).sum(1) / 2
    np.testing.assert_allclose(found, right, rtol=1e-9)


def test_momentum_is_nesterovs_scheme():
    """As Nesterov wrote it in 1983: x ← y − ∇J(y), y ← x + (t − 1) / (t + 2) (x − x before)."""
    found = momentum_rates.accelerate(weft.tensor(CURVATURES), 50)
    x = y = np.full(12, 12**-0.5)
    right = []
    for t in range(1, 51):
        before, x = x, y - CURVATURES * y
        y = x + t / (t + 3) * (x - before)
        right.append((CURVATURES * x**2).sum() / 2)
    np.testing.assert_allclose(found, right, rtol=1e-9)


def test_slopes_and_bounds(tmp_path):
    t = np.arange(1, 2001)
    assert momentum_rates.slope(3.0 / t**2) == pytest.approx(-2, abs=1e-9)
    figures = recipes.run("momentum-rates", ["steps=300"], folder=tmp_path).figures
    assert figures["baseline_slope"] == pytest.approx(-1, abs=0.05) and figures["slope"] < -1.8
    assert figures["descent_within_bound"] == figures["momentum_within_bound"] == 1
    assert figures["noisy_momentum_over_descent"] > 10  # it does not help where gradients are noisy
    rows = RunFolder(tmp_path).rows("epoch")
    assert all(row["momentum"] <= 2 / (row["step"] + 1) ** 2 for row in rows)


# ------------------------------------------------------------------------------------------- errors over epochs


def descent(*words: str) -> epoch_double_descent.Problem:
    return epoch_double_descent.Problem(recipes.get("epoch-double-descent").settings(words))


def test_the_error_in_closed_form_at_its_ends():
    """At first nothing is known: the whole signal. At last it is least squares: σ²/n tr(Σ H⁻¹)."""
    problem = descent()
    assert problem.bias(0) + problem.variance(0) == pytest.approx(10)
    inverse = np.linalg.inv(problem.x.T @ problem.x / 100)
    right = np.trace(np.diag(problem.spread**2) @ inverse) / 100
    assert problem.bias(10**7) + problem.variance(10**7) == pytest.approx(right, rel=1e-6)


def test_descent_comes_to_least_squares():
    problem = descent("epochs=3000", "scale=1", "step=1", "repeats=2", "examples=200")
    errors, losses = problem.descend()
    weights, rest, *_ = np.linalg.lstsq(problem.x, problem.y, rcond=None)
    assert errors[-1] == pytest.approx(((weights - problem.weights[:, None]) ** 2).sum(0).mean(), rel=1e-6)
    assert losses[-1] == pytest.approx(rest.mean() / 200, rel=1e-6)


def test_the_mean_over_noise_is_as_foretold():
    """Without noise exactly; with it as nearly as the draws allow: the sum of 55 squares has 2 / (55 · repeats) at best."""
    quiet = descent("epochs=300", "noise=1e-9", "repeats=1")
    np.testing.assert_allclose(quiet.descend()[0], quiet.foretold(), rtol=1e-6)
    loud = descent("epochs=300", "repeats=400")
    np.testing.assert_allclose(loud.descend()[0], loud.foretold(), rtol=0.04)


def test_turns_of_a_curve():
    assert epoch_double_descent.turns(np.array([9.0, 4, 3, 5, 7, 6, 1])) == (3.0, 7.0)
    assert np.isnan(epoch_double_descent.turns(np.array([9.0, 4, 3, 2]))).all()  # it never rose


def test_the_error_rises_between_two_descents(tmp_path):
    figures = recipes.run("epoch-double-descent", ["repeats=10"], folder=tmp_path).figures
    assert figures["peak_error"] > 1.1 * figures["baseline_last_error"] > 3 * figures["last_error"]
