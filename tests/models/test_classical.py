"""Classical models against scikit-learn, NumPy, closed forms and theorems."""

from __future__ import annotations

import itertools
import pickle
import re
import warnings

import numpy as np
import pytest
from sklearn import linear_model
from sklearn.preprocessing import PolynomialFeatures
from sklearn.svm import SVC

import weft
from weft import nn
from weft.errors import LinAlgError, OptionError, ShapeError
from weft.models import supervised
from weft.models.classical.linear_models import _logistic, _softmax
from weft.models.supervised import (
    MLP,
    BasisRegression,
    LinearRegression,
    LogisticRegression,
    Perceptron,
    PolynomialRegression,
    SoftmaxRegression,
    chebyshev,
    descend,
    gaussians,
    margin,
    minimum_norm,
    mistake_bound,
    monomials,
    normal_equations,
    qr_least_squares,
    random_relu,
    rectifier_network,
)

F = nn.functional
XOR = weft.tensor([[0.0, 0], [0, 1], [1, 0], [1, 1]])


def tensors(*arrays):
    return tuple(weft.tensor(np.ascontiguousarray(a)) for a in arrays)


def regression(n=60, d=5, m=2, seed=0):
    random = np.random.default_rng(seed)
    x = random.normal(size=(n, d)) * [1, 3, 0.2, 10, 1][:d] + 2
    return x, x @ random.normal(size=(d, m)) + 7 + random.normal(size=(n, m))


def classes(n=120, d=3, c=3, seed=0, spread=1.5):
    random = np.random.default_rng(seed)
    y = random.integers(0, c, n)
    return random.normal(size=(c, d))[y] + spread * random.normal(size=(n, d)), y


# ------------------------------------------------------------------------------------------- perceptron


def separable(seed, n=50, d=3, gap=0.3):
    random = np.random.default_rng(seed)
    w, b = random.normal(size=d), 0.2
    x = random.normal(size=(4 * n, d))
    side = (x @ w + b) / np.linalg.norm(w)
    keep = np.abs(side) > gap
    return x[keep][:n], (side[keep][:n] > 0).astype(int)


@pytest.mark.parametrize("seed", range(8))
def test_perceptron_separates_within_the_bound_of_the_widest_margin(seed):
    x, y = separable(seed)
    model = Perceptron(3)
    history = model.fit(*tensors(x, y))
    assert history.converged and history.mistakes[-1] == 0
    np.testing.assert_array_equal(model(weft.tensor(x).float())[:, 0].numpy(), y)
    # the widest margin through 0 of the points (x, 1), from scikit-learn's support vector machine on s·(x, 1)
    extended = np.column_stack([x, np.ones(len(x))]) * (2 * y - 1)[:, None]
    both = np.concatenate([extended, -extended])
    widest = SVC(kernel="linear", C=1e9, tol=1e-10).fit(both, np.repeat([1, 0], len(x))).coef_[0]
    w, b = tensors(widest[:-1], widest[-1:])
    best = margin(w, b, *tensors(x, y))
    np.testing.assert_allclose(best, 1 / np.linalg.norm(widest), rtol=1e-4)
    bound = mistake_bound(w, b, *tensors(x, y))
    np.testing.assert_allclose(bound, (extended**2).sum(1).max() / best**2, rtol=1e-12)
    assert 0 < history.total <= bound <= mistake_bound(model.weight, model.bias, *tensors(x, y))


@pytest.mark.parametrize("seed", range(4))
def test_perceptron_equals_scikit_learn(seed):
    x, y = separable(seed)
    theirs = linear_model.Perceptron(alpha=0, shuffle=False, tol=None, max_iter=7, eta0=0.5).fit(x, y)
    ours = Perceptron(3)
    ours.fit(*tensors(x, y), max_epochs=7, lr=0.5)
    np.testing.assert_allclose(ours.weight.detach().numpy(), theirs.coef_, rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(ours.bias.detach().numpy(), theirs.intercept_, rtol=1e-5)


@pytest.mark.parametrize("table", [t for t in itertools.product((0, 1), repeat=4)])
def test_perceptron_learns_every_boolean_function_but_two(table):
    model = Perceptron(2)
    history = model.fit(XOR, weft.tensor(table), max_epochs=100)
    linear = table not in ((0, 1, 1, 0), (1, 0, 0, 1))
    assert history.converged == linear == (model(XOR)[:, 0].tolist() == list(table))


def test_perceptron_with_several_outputs_learns_each_alone():
    targets = weft.tensor([[0, 0, 1], [0, 1, 1], [0, 1, 0], [1, 1, 0]])  # and, or, not
    together = Perceptron(2, 3)
    history = together.fit(XOR, targets)
    alone = [Perceptron(2) for _ in range(3)]
    totals = [model.fit(XOR, targets[:, i]).total for i, model in enumerate(alone)]
    assert history.converged and history.total == sum(totals)
    assert weft.equal(together.weight, weft.cat([model.weight for model in alone]))
    assert weft.equal(together(XOR), targets.float())


def test_perceptron_with_a_margin_ends_with_that_margin():
    x, y = tensors(*separable(3))
    model = Perceptron(3)
    assert model.fit(x, y, margin=2.0).converged
    scores = (2 * y - 1) * model.score(x.float())[:, 0]
    assert scores.min() > 2.0 - 1e-4


def test_perceptron_refuses():
    with pytest.raises(OptionError, match="0 and 1"):
        Perceptron(2).fit(XOR, weft.tensor([-1, 1, 1, 1]))
    with pytest.raises(ShapeError, match="N, D"):
        Perceptron(2).fit(XOR[0], weft.tensor([1]))
    with pytest.raises(OptionError, match="separates"):
        mistake_bound(weft.ones(2), weft.zeros(1), XOR, weft.tensor([0, 1, 1, 0]))


# ------------------------------------------------------------------------------------------- linear regression

SOLVERS = [normal_equations, qr_least_squares, minimum_norm]


@pytest.mark.parametrize("solver", SOLVERS)
@pytest.mark.parametrize("ridge", [0.0, 0.3, 50.0])
@pytest.mark.parametrize("outputs", [1, 2])
def test_solvers_equal_scikit_learn(solver, ridge, outputs):
    x, y = regression(m=outputs)
    theirs = (linear_model.Ridge(ridge) if ridge else linear_model.LinearRegression()).fit(x, y)
    weight, bias = solver(*tensors(x, y), ridge)
    np.testing.assert_allclose(weight.numpy(), theirs.coef_.reshape(outputs, -1), rtol=1e-9, atol=1e-11)
    np.testing.assert_allclose(bias.numpy(), np.ravel(theirs.intercept_), rtol=1e-9)


@pytest.mark.parametrize("solver", SOLVERS)
def test_residuals_are_orthogonal_to_the_columns(solver):
    x, y = regression()
    weight, bias = solver(*tensors(x, y))
    residual = y - x @ weight.numpy().T - bias.numpy()
    np.testing.assert_allclose(np.column_stack([x, np.ones(len(x))]).T @ residual, 0, atol=1e-9)


def test_minimum_norm_interpolates_with_the_shortest_weights():
    x, y = regression(n=4)
    weight, bias = minimum_norm(*tensors(x, y))
    np.testing.assert_allclose(x @ weight.numpy().T + bias.numpy(), y, atol=1e-10)
    expected = np.linalg.pinv(x - x.mean(0)) @ (y - y.mean(0))
    np.testing.assert_allclose(weight.numpy().T, expected, atol=1e-10)


@pytest.mark.parametrize("solver", SOLVERS[:2])
@pytest.mark.parametrize("rows", [3, 30])
def test_singular_systems_are_refused_with_a_way_out(solver, rows):
    x, y = regression(n=rows)
    x[:, 4] = 2 * x[:, 0] - 1
    with pytest.raises(LinAlgError, match="minimum_norm"):
        solver(*tensors(x, y))
    theirs = linear_model.Ridge(0.5).fit(x, y)
    np.testing.assert_allclose(solver(*tensors(x, y), 0.5).weight.numpy(), theirs.coef_, rtol=1e-8)


def test_qr_keeps_digits_that_the_normal_equations_lose():
    x = np.vander(np.linspace(0, 1, 30), 9)[:, :-1]
    w = np.arange(1.0, 9.0)
    off = [
        np.abs(solve(*tensors(x, x @ w)).weight.numpy()[0] - w).max() for solve in (qr_least_squares, normal_equations)
    ]
    assert off[0] < 1e-8 < off[1] / 10


@pytest.mark.parametrize(
    "x, y", [(np.ones((3, 2)), np.ones(2)), (np.ones(3), np.ones(3)), (np.ones((0, 2)), np.ones(0))]
)
def test_regression_refuses_shapes_that_do_not_fit(x, y):
    with pytest.raises(ShapeError, match="expected"):
        LinearRegression(2).solve(*tensors(x, y))


def test_one_step_of_sgd_is_the_formula_of_the_notes():
    x, y = (t.float() for t in tensors(*regression(m=1)))
    model = LinearRegression(5)
    w, b = model.linear.weight.detach().clone(), model.linear.bias.detach().clone()
    model.fit(x, y[:, 0], lr=0.01, epochs=1, weight_decay=0.1)
    error = x @ w.mT + b - y  # (N, 1)
    expected = (1 - 0.01 * 0.1) * w - 0.01 * (error * x).mean(0)
    np.testing.assert_allclose(model.linear.weight.detach().numpy(), expected.numpy(), rtol=1e-5, atol=1e-6)


def test_sgd_arrives_at_the_closed_form():
    x, y = regression(m=1)
    x = (x - x.mean(0)) / x.std(0)
    x, y = (t.float() for t in tensors(x, y))
    exact = LinearRegression(5).solve(x, y)
    trained = LinearRegression(5)
    curve = trained.fit(x, y, lr=0.1, epochs=300)
    assert curve[0] > curve[-1] > 0
    np.testing.assert_allclose(trained.linear.weight.detach(), exact.linear.weight.detach(), atol=2e-4)
    np.testing.assert_allclose(trained.linear.bias.detach(), exact.linear.bias.detach(), rtol=1e-5)


def test_batches_of_descent_are_a_function_of_the_seed():
    x, y = (t.float() for t in tensors(*regression(m=1)))
    start = LinearRegression(5).state_dict()

    def run(seed):
        model = LinearRegression(5)
        model.load_state_dict(start)
        model.fit(x, y, lr=1e-3, epochs=3, batch_size=7, seed=seed)
        return model.linear.weight.detach()

    assert weft.equal(run(1), run(1)) and not weft.equal(run(1), run(2))


@pytest.mark.parametrize("rows, targets, batch", [(3, 2, None), (0, 0, None), (3, 3, 0)])
def test_descent_refuses(rows, targets, batch):
    with pytest.raises((ShapeError, OptionError), match="descend: expected"):
        descend(nn.Linear(2, 1), F.mse_loss, weft.ones(rows, 2), weft.ones(targets, 1), batch_size=batch)


# ------------------------------------------------------------------------------------------- polynomials


@pytest.mark.parametrize("features, degree", [(1, 5), (2, 3), (3, 4), (4, 1), (2, 0)])
def test_monomials_equal_scikit_learn(features, degree):
    x = np.random.default_rng(0).normal(size=(6, features))
    expected = PolynomialFeatures(degree).fit_transform(x)
    np.testing.assert_allclose(monomials(weft.tensor(x), degree).numpy(), expected, rtol=1e-13)


@pytest.mark.parametrize("degree", [1, 3, 7])
def test_polynomial_regression_equals_polyfit(degree):
    random = np.random.default_rng(0)
    x = np.linspace(-1, 1, 40)
    y = np.sin(3 * x) + 0.1 * random.normal(size=40)
    model = PolynomialRegression(degree).double().solve(*tensors(x[:, None], y))
    rising = np.append(model.regression.linear.bias.detach(), model.regression.linear.weight.detach())
    np.testing.assert_allclose(rising[::-1], np.polyfit(x, y, degree), rtol=1e-9, atol=1e-11)


def test_degree_n_minus_1_passes_through_n_points():
    x, y = np.linspace(-1, 1, 8), np.random.default_rng(0).normal(size=8)
    model = PolynomialRegression(7).double().solve(*tensors(x[:, None], y))
    np.testing.assert_allclose(model(weft.tensor(x[:, None])).detach()[:, 0], y, atol=1e-9)


def test_polynomial_regression_can_be_trained():
    x = weft.linspace(-1, 1, 64)[:, None]
    y = 1 - 2 * x[:, 0] + 3 * x[:, 0] ** 2
    model = PolynomialRegression(2)
    model.fit(x, y, lr=0.5, epochs=600)
    np.testing.assert_allclose(model.regression.linear.weight.detach(), [[-2, 3]], atol=1e-3)


def test_bases():
    x = np.linspace(-1, 1, 9)
    column = weft.tensor(x[:, None])
    np.testing.assert_allclose(chebyshev(column, 6), np.polynomial.chebyshev.chebvander(x, 6)[:, 1:], atol=1e-13)
    bumps = gaussians(column, weft.tensor([[0.0], [0.5]]), 0.5).numpy()
    np.testing.assert_allclose(bumps, np.exp(-((x[:, None] - [0, 0.5]) ** 2) / 0.5), rtol=1e-12)
    few, more = random_relu(column, 4, seed=3) * 2, random_relu(column, 16, seed=3) * 4
    assert weft.equal(few, more[:, :4]) and (more >= 0).all() and not weft.equal(random_relu(column, 4) * 2, few)


def test_degree_40_in_chebyshev_polynomials():
    x = np.cos(np.linspace(0, np.pi, 101))
    y = 1 / (1 + 25 * x**2)  # Runge's function
    model = BasisRegression(lambda x: chebyshev(x, 40), 40).double().solve(*tensors(x[:, None], y))
    theirs = np.polynomial.Chebyshev.fit(x, y, 40, domain=[-1, 1])
    np.testing.assert_allclose(model(weft.tensor(x[:, None])).detach()[:, 0], theirs(x), atol=1e-10)


@pytest.mark.parametrize("call", [lambda: monomials(weft.ones(3), 2), lambda: chebyshev(weft.ones(3, 2), 2)])
def test_bases_refuse_other_shapes(call):
    with pytest.raises(ShapeError, match="expected x of shape"):
        call()


def test_negative_degree():
    with pytest.raises(OptionError, match="degree >= 0"):
        PolynomialRegression(-1)


# ------------------------------------------------------------------------------------------- logistic and softmax


@pytest.mark.parametrize("ridge", [0.0, 0.7, 20.0])
def test_logistic_newton_equals_scikit_learn(ridge):
    x, y = classes(c=2)
    theirs = linear_model.LogisticRegression(
        C=1 / ridge if ridge else np.inf, tol=1e-12, max_iter=1000, solver="newton-cholesky"
    )
    theirs.fit(x, y)
    model = LogisticRegression(3).double()
    curve = model.solve(*tensors(x, y), ridge=ridge)
    np.testing.assert_allclose(model.linear.weight.detach(), theirs.coef_, rtol=1e-7)
    np.testing.assert_allclose(model.linear.bias.detach(), theirs.intercept_, rtol=1e-7)
    np.testing.assert_allclose(model.predict_proba(weft.tensor(x)).detach(), theirs.predict_proba(x)[:, 1], rtol=1e-7)
    assert len(curve) < 12 and all(a >= b for a, b in itertools.pairwise(curve))


@pytest.mark.parametrize("ridge", [0.0, 0.7])
@pytest.mark.parametrize("c", [2, 3, 5])
def test_softmax_newton_equals_scikit_learn(ridge, c):
    x, y = classes(c=c)
    model = SoftmaxRegression(3, c).double()
    model.solve(*tensors(x, y), ridge=ridge)
    if c > 2:
        theirs = linear_model.LogisticRegression(C=1 / ridge if ridge else np.inf, tol=1e-10, max_iter=5000).fit(x, y)
        np.testing.assert_allclose(model.predict_proba(weft.tensor(x)).detach(), theirs.predict_proba(x), atol=2e-6)
    weight, bias = model.linear.weight.detach(), model.linear.bias.detach()
    np.testing.assert_allclose(weight.sum(0), 0, atol=1e-9)
    np.testing.assert_allclose(bias.sum(), 0, atol=1e-9)
    onehot = F.one_hot(weft.tensor(y), c)
    gradient = (model.predict_proba(weft.tensor(x)) - onehot).mT @ weft.tensor(x) + ridge * weight
    np.testing.assert_allclose(gradient.detach(), 0, atol=1e-6)


def test_softmax_of_two_classes_is_logistic():
    x, y = tensors(*classes(c=2))
    two, one = SoftmaxRegression(3, 2).double(), LogisticRegression(3).double()
    two.solve(x, y)
    one.solve(x, y)
    difference = two.linear.weight[1] - two.linear.weight[0]
    np.testing.assert_allclose(difference.detach(), one.linear.weight[0].detach(), rtol=1e-8)


@pytest.mark.parametrize("derivatives, outputs", [(_logistic, 1), (_softmax, 3)])
def test_gradient_and_hessian_equal_automatic_differentiation(derivatives, outputs):
    x, y = tensors(*classes())
    onehot = F.one_hot(y, 3).double()[:, :outputs]
    theta = weft.tensor(np.random.default_rng(1).normal(size=(outputs, 3)))
    _, gradient, hessian = derivatives(x, onehot, theta)
    loss = lambda theta: derivatives(x, onehot, theta)[0]
    np.testing.assert_allclose(gradient, weft.func.grad(loss)(theta), rtol=1e-9)
    expected = weft.func.hessian(loss)(theta).reshape(hessian.shape)
    np.testing.assert_allclose(hessian, expected, rtol=1e-8, atol=1e-10)


def test_newton_step_is_reweighted_least_squares():
    """From θ: regress z + (y − p) / (p (1 − p)) on X̃ with weights p (1 − p)."""
    x, y = classes(c=2)
    extended = np.column_stack([x, np.ones(len(x))])
    theta = np.array([0.3, -0.2, 0.1, 0.2])
    _, gradient, hessian = _logistic(*tensors(extended, y[:, None].astype(float), theta[None]))
    newton = theta - np.linalg.solve(hessian.numpy(), gradient.numpy()[0])
    z = extended @ theta
    p = 1 / (1 + np.exp(-z))
    root = np.sqrt(p * (1 - p))
    expected = np.linalg.lstsq(extended * root[:, None], (z + (y - p) / root**2) * root)[0]
    np.testing.assert_allclose(newton, expected, rtol=1e-9)


@pytest.mark.parametrize("model", [LogisticRegression(3), SoftmaxRegression(3, 2)])
def test_separable_classes_have_no_best_weights(model):
    x, y = tensors(*separable(0))
    with pytest.raises(OptionError, match=r"separable.*ridge"):
        model.solve(x, y)
    model.solve(x, y, ridge=1.0)
    assert model.linear.weight.isfinite().all()


@pytest.mark.parametrize("make, c", [(lambda: LogisticRegression(3), 2), (lambda: SoftmaxRegression(3, 3), 3)])
def test_training_arrives_at_newtons_solution(make, c):
    x, y = tensors(*classes(c=c))
    exact, trained = make(), make()
    exact.solve(x, y)
    trained.fit(x.float(), y, lr=0.5, epochs=800, momentum=0.9)
    np.testing.assert_allclose(
        trained.predict_proba(x.float()).detach(), exact.predict_proba(x.float()).detach(), atol=1e-4
    )


@pytest.mark.parametrize("make, c", [(lambda: LogisticRegression(3), 2), (lambda: SoftmaxRegression(3, 3), 3)])
def test_training_that_stops_far_from_the_optimum_says_so(make, c):
    """The usual 100 epochs reach half of the weights; the warning tells how far the loss is from its minimum."""
    x, y = tensors(*classes(c=c))
    exact, trained = make().double(), make().double()
    truth = exact.solve(x, y)[-1] / len(x)
    with pytest.warns(UserWarning, match=r"after 20 epochs the loss is .* can fall by about .* momentum=0\.9") as told:
        curve = trained.fit(x, y, epochs=20)
    said = float(re.search(r"about ([-+.e\d]+) more", str(told[0].message))[1])
    assert said == pytest.approx(curve[-1] - truth, rel=0.5)
    assert trained.linear.weight.norm().item() < 0.8 * exact.linear.weight.norm().item()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        trained.fit(x, y, lr=0.5, epochs=400, momentum=0.9)
    np.testing.assert_allclose(trained.predict_proba(x).detach(), exact.predict_proba(x).detach(), atol=1e-2)


def test_a_line_that_is_not_reached_is_named():
    x = weft.linspace(-1, 1, 20, dtype=weft.float64)[:, None]
    with pytest.warns(UserWarning, match="LinearRegression.fit: after 5 epochs"):
        LinearRegression(1).double().fit(x, 3 * x[:, 0] + 1, epochs=5)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        LinearRegression(1).double().fit(x, 3 * x[:, 0] + 1, epochs=200, lr=0.5)
        assert LinearRegression(1).fit(x.float(), x[:, 0].float(), epochs=0) == []


def test_separable_classes_are_named_by_training_too():
    x, y = tensors(*separable(0))
    with pytest.warns(UserWarning, match="ridge > 0 if the classes are separable"):
        LogisticRegression(3).double().fit(x, y, epochs=300)


def test_huge_scores_stay_finite():
    x, y = tensors(np.array([[1e4], [-1e4], [1e4], [2e4]]), np.array([1, 0, 0, 1]))
    model = LogisticRegression(1)
    assert np.isfinite(model.solve(x, y, ridge=1e-3)).all() and model.linear.weight.isfinite().all()


@pytest.mark.parametrize(
    "temperature, expected",
    [(1, [0.843795, 0.042010, 0.114195]), (10, [0.390632, 0.289389, 0.319828]), (0.1, [1, 0, 0])],
)
def test_softmax_of_the_notes(temperature, expected):
    """η = (3, 0, 1) at three temperatures (N2 §2.4.6)."""
    np.testing.assert_allclose((weft.tensor([3.0, 0, 1]) / temperature).softmax(0), expected, atol=2e-4)


# ------------------------------------------------------------------------------------------- networks


@pytest.mark.parametrize("depth, width", [(1, 4), (3, 8), (5, 2)])
def test_parameter_count_of_the_notes(depth, width):
    """3D + 1 + (K − 1) D (D + 1) for one input, one output, K hidden layers of D neurons (N0 §1.4)."""
    count = sum(p.numel() for p in MLP(1, [width] * depth, 1).parameters())
    assert count == 3 * width + 1 + (depth - 1) * width * (width + 1)


def test_forward_is_the_formula():
    model = MLP(3, [4, 5], 2, activation="tanh")
    x = weft.randn(7, 3)
    h = x
    for i in range(2):
        linear = model.hidden[i].linear
        h = (h @ linear.weight.mT + linear.bias).tanh()
    np.testing.assert_allclose(
        model(x).detach(), (h @ model.output.weight.mT + model.output.bias).detach(), rtol=1e-5, atol=1e-6
    )


def test_names_of_parameters():
    model = MLP(3, [4], 2, norm="batch", dropout=0.5)
    assert list(dict(model.named_parameters())) == [
        *("hidden.0.linear.weight", "hidden.0.linear.bias", "hidden.0.norm.weight", "hidden.0.norm.bias"),
        *("output.weight", "output.bias"),
    ]
    assert [name for name, _ in model.hidden[0].named_children()] == ["linear", "norm", "activation", "dropout"]


@pytest.mark.parametrize(
    "activation", ["relu", "leaky_relu", "elu", "selu", "gelu", "silu", "tanh", "sigmoid", "arctan"]
)
@pytest.mark.parametrize("norm", [None, "batch", "layer", "rms"])
def test_every_combination_runs_and_learns(activation, norm):
    weft.manual_seed(0)
    model = MLP(2, [16], 1, activation, norm=norm)
    targets = weft.tensor([[0.0], [1], [1], [0]])
    assert descend(model, F.mse_loss, XOR, targets, lr=0.1, epochs=300, momentum=0.9)[-1] < 0.1


@pytest.mark.parametrize(
    "init, variance", [("he", 2 / 400), ("xavier", 2 / 700), ("fan_in", 1 / 3 / 400), ("orthogonal", 1 / 400)]
)
def test_initialisation(init, variance):
    weft.manual_seed(0)
    layer = MLP(400, [300], 1, init=init).hidden[0].linear
    np.testing.assert_allclose(layer.weight.var().item(), variance, rtol=0.02)
    assert (layer.bias == 0).all()


def test_no_hidden_layer_is_a_linear_map():
    model = MLP(3, [], 2)
    x = weft.randn(4, 3)
    assert weft.equal(model(x), model.output(x)) and model(weft.randn(0, 3)).shape == (0, 2)


def test_lipschitz_bound_holds_and_is_met_by_linear_networks():
    weft.manual_seed(1)
    model = MLP(3, [8, 8], 2)
    a, b = weft.randn(500, 3), weft.randn(500, 3)
    slope = (model(a) - model(b)).norm(dim=1) / (a - b).norm(dim=1)
    assert slope.max() <= model.lipschitz_bound()
    linear = MLP(3, [], 2)
    np.testing.assert_allclose(linear.lipschitz_bound(), np.linalg.norm(linear.output.weight.detach(), 2), rtol=1e-6)


def test_rectifier_network_is_piecewise_linear_and_not_negative():
    weft.manual_seed(0)
    network = rectifier_network(1, [6], 1).double()
    x = weft.linspace(-4, 4, 4001, dtype=weft.float64)[:, None]
    y = network(x)[:, 0].detach().numpy()
    bends = np.flatnonzero(np.abs(np.diff(y, 2)) > 1e-10)
    regions = 1 + (np.diff(bends) > 1).sum() + 1
    assert (y >= 0).all() and 1 < regions <= 2**6
    assert len(bends) <= 2 * (6 + 7)  # 6 kinks inside, at most 7 where the output crosses 0; two samples see each


@pytest.mark.parametrize(
    "options, message",
    [
        ({"activation": "rely"}, "did you mean 'relu'"),
        ({"norm": "group"}, "norm must be one of"),
        ({"init": "Xavier"}, "did you mean 'xavier'"),
        ({"hidden": [4, 0]}, "widths >= 1"),
    ],
)
def test_wrong_options(options, message):
    with pytest.raises(OptionError, match=message):
        MLP(**{"in_features": 2, "hidden": [3], "out_features": 1, **options})


def test_functions_may_stand_for_names():
    model = MLP(2, [3], 1, activation=lambda: nn.Hardtanh(), norm=lambda n: nn.LayerNorm(n), init=nn.init.ones_)
    assert isinstance(model.hidden[0].activation, nn.Hardtanh) and (model.output.weight == 1).all()


@pytest.mark.parametrize("model", [Perceptron(2), LinearRegression(2), SoftmaxRegression(2, 3), MLP(2, [3], 1)])
def test_models_survive_pickle(model):
    again = pickle.loads(pickle.dumps(model))
    assert weft.equal(again(XOR), model(XOR))


def test_names_are_offered_lazily():
    assert set(supervised.__all__) <= set(dir(supervised))
    assert all(callable(getattr(supervised, name)) for name in supervised.__all__)
