"""Fixed points by the implicit function theorem, straight-through, and gradient estimators."""

import math

import numpy as np
import pytest

import weft
from weft.autograd import (
    fixed_point,
    gradcheck,
    gradgradcheck,
    reparameterised_gradient,
    score_function_gradient,
    straight_through,
)

f64 = dict(dtype=weft.float64)


def heron(x, a):
    return (x + a / x) / 2


def test_square_root_to_third_order():
    a = weft.tensor(2.0, **f64, requires_grad=True)
    root = fixed_point(heron, weft.ones((), **f64), a)
    derivatives = [root]
    for _ in range(3):
        derivatives += weft.autograd.grad(derivatives[-1], a, create_graph=True)
    s = math.sqrt(2)
    expected = [s, 1 / (2 * s), -1 / (4 * s**3), 3 / (8 * s**5)]
    assert [d.item() for d in derivatives] == pytest.approx(expected, rel=1e-12)


def contraction():
    rng = np.random.default_rng(0)
    weight = weft.tensor(0.25 * rng.normal(size=(4, 4)), requires_grad=True)
    bias = weft.tensor(rng.normal(size=4), requires_grad=True)
    return (lambda x, w, b: (w @ x + b).tanh()), weight, bias


def test_like_differentiating_the_iteration():
    f, w, b = contraction()
    star = fixed_point(f, weft.zeros(4, **f64), w, b)
    x = weft.zeros(4, **f64)
    for _ in range(200):
        x = f(x, w, b)
    np.testing.assert_allclose(star.detach().numpy(), x.detach().numpy(), rtol=1e-12)
    ours = weft.autograd.grad((star**2).sum(), (w, b))
    unrolled = weft.autograd.grad((x**2).sum(), (w, b))
    for a, c in zip(ours, unrolled, strict=True):
        np.testing.assert_allclose(a.numpy(), c.numpy(), rtol=1e-10)


def test_closed_form_of_a_linear_map():
    """x = Wx + b has x* = (I − W)⁻¹ b and gradient (I − Wᵀ)⁻¹ g by b."""
    _, w, b = contraction()
    star = fixed_point(lambda x, w, b: w @ x + b, weft.zeros(4, **f64), w, b)
    g = np.arange(1.0, 5.0)
    (found,) = weft.autograd.grad(star, b, weft.tensor(g))
    eye, matrix = np.eye(4), w.detach().numpy()
    np.testing.assert_allclose(star.detach().numpy(), np.linalg.solve(eye - matrix, b.detach().numpy()), rtol=1e-10)
    np.testing.assert_allclose(found.numpy(), np.linalg.solve(eye - matrix.T, g), rtol=1e-10)


def test_passes_gradcheck_to_second_order():
    f, w, b = contraction()
    run = lambda w, b: fixed_point(f, weft.zeros(4, **f64), w, b)
    assert gradcheck(run, (w, b)) and gradgradcheck(run, (w, b))


def test_start_has_no_gradient_and_other_arguments_pass():
    x0 = weft.ones((), **f64, requires_grad=True)
    a = weft.tensor(3.0, **f64, requires_grad=True)
    root = fixed_point(lambda x, power, a: (x + a / x) / power, x0, 2, a)
    grads = weft.autograd.grad(root, (x0, a), allow_unused=True)
    assert grads[0] is None and grads[1].item() == pytest.approx(1 / (2 * math.sqrt(3)))


def test_memory_does_not_grow_with_steps():
    """One node, whatever the number of iterations."""
    a = weft.tensor(2.0, **f64, requires_grad=True)
    root = fixed_point(lambda x, a: 0.99 * x + 0.01 * heron(x, a), weft.ones((), **f64), a, tol=1e-10, max_iter=5000)
    assert len(weft.tape.tape.collect([root.grad_fn])) == 1
    assert root.item() == pytest.approx(math.sqrt(2), abs=1e-7)


def test_divergence_and_changed_shapes_are_errors():
    with pytest.raises(RuntimeError, match="contraction"):
        fixed_point(lambda x: 2 * x + 1, weft.ones(2), max_iter=50)
    with pytest.raises(ValueError, match="shape"):
        fixed_point(lambda x: x.sum(), weft.ones(2))


def test_under_vmap():
    values = weft.tensor([2.0, 3.0, 5.0], **f64)
    g = weft.vmap(weft.func.grad(lambda a: fixed_point(heron, weft.ones((), **f64), a)))(values)
    np.testing.assert_allclose(g.numpy(), 0.5 / np.sqrt([2.0, 3.0, 5.0]), rtol=1e-10)


# ------------------------------------------------------------------------------------ straight through


def test_straight_through():
    logits = weft.tensor([[0.1, 2.0, -1.0], [3.0, 0.0, 0.5]], requires_grad=True)
    soft = logits.softmax(1)
    hard = weft.zeros(2, 3).scatter(1, soft.argmax(1, keepdim=True), 1.0)
    y = straight_through(hard, soft)
    assert y.tolist() == [[0.0, 1.0, 0.0], [1.0, 0.0, 0.0]]
    seed = weft.tensor([[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]])
    (found,) = weft.autograd.grad(y, logits, seed, retain_graph=True)
    (expected,) = weft.autograd.grad(soft, logits, seed)
    assert weft.equal(found, expected)
    with pytest.raises(ValueError, match="straight_through"):
        straight_through(hard[0], soft)


def test_straight_through_composes():
    g = weft.vmap(weft.func.grad(lambda a: (straight_through(a.round(), a) ** 2).sum()))(
        weft.tensor([[0.2, 1.7], [2.6, 0.1]])
    )
    assert g.tolist() == [[0.0, 4.0], [6.0, 0.0]]


# --------------------------------------------------------------------------------- gradient estimators


@pytest.mark.parametrize("phi", [0.5, 2.0])
def test_both_estimators_against_the_closed_form(phi):
    """x ~ N(φ, 1), f(x) = x²: ∇ = 2φ; one term has variance φ⁴ + 14φ² + 15 by the score function, 4 by the path."""
    count = 40_000
    weft.manual_seed(0)
    noise = weft.randn(count, **f64)
    p = weft.tensor(phi, **f64)
    square = lambda x: x * x
    log_prob = lambda x, p: -((x - p) ** 2) / 2
    score = score_function_gradient(square, p, noise + phi, log_prob)
    path = reparameterised_gradient(square, p, noise, lambda e, p: p + e)
    for estimate, variance in ((score, phi**4 + 14 * phi**2 + 15), (path, 4.0)):
        assert estimate.gradient.item() == pytest.approx(2 * phi, abs=5 * math.sqrt(variance / count))
        assert estimate.variance.item() == pytest.approx(variance, rel=0.1)
        assert estimate.standard_error.item() == pytest.approx(math.sqrt(variance / count), rel=0.1)
        assert estimate.terms.shape == (count,)
    assert score.variance.item() > 4 * path.variance.item()


def test_variance_falls_with_the_number_of_samples():
    """The comparison of the notes: at every sample size the path estimator is far steadier."""
    weft.manual_seed(1)
    phi = weft.tensor(1.0, **f64)
    for count in (10, 100, 1000):
        spread = []
        for estimator in ("score", "path"):
            means = []
            for _ in range(40):
                noise = weft.randn(count, **f64)
                if estimator == "score":
                    log_prob = lambda x, p: -((x - p) ** 2) / 2
                    means.append(score_function_gradient(lambda x: x * x, phi, noise + 1, log_prob).gradient.item())
                else:
                    means.append(
                        reparameterised_gradient(lambda x: x * x, phi, noise, lambda e, p: p + e).gradient.item()
                    )
            spread.append(np.var(means))
        assert spread[0] > 3 * spread[1]  # in theory 30 / 4


def test_baseline_keeps_the_mean_and_lowers_the_variance():
    weft.manual_seed(2)
    x = weft.randn(20_000, **f64) + 3
    phi = weft.tensor(3.0, **f64)
    log_prob = lambda x, p: -((x - p) ** 2) / 2
    plain = score_function_gradient(lambda x: x * x, phi, x, log_prob)
    better = score_function_gradient(lambda x: x * x, phi, x, log_prob, baseline=10.0)  # E[x²] = 10
    assert better.gradient.item() == pytest.approx(6.0, abs=0.3) and plain.gradient.item() == pytest.approx(
        6.0, abs=0.5
    )
    assert better.variance.item() < 0.6 * plain.variance.item()


def test_several_parameters_and_dimensions():
    weft.manual_seed(3)
    noise = weft.randn(5000, 2, **f64)
    params = {"mean": weft.tensor([1.0, -1.0], **f64), "scale": weft.tensor([0.5, 2.0], **f64)}
    path = reparameterised_gradient(lambda x: (x * x).sum(), params, noise, lambda e, p: p["mean"] + p["scale"] * e)
    np.testing.assert_allclose(path.gradient["mean"].numpy(), [2.0, -2.0], atol=0.3)  # 2μ
    np.testing.assert_allclose(path.gradient["scale"].numpy(), [1.0, 4.0], atol=0.4)  # 2σ
