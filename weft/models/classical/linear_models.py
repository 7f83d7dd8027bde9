"""Linear, logistic and softmax regression: closed forms and Newton's method beside training by gradients.

Solutions are computed in float64 and rounded once to the type of the parameters. Biases are never penalised.
(N4 §3–4, N2 §2.3.3, §2.4.5–2.4.7)
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any, NamedTuple

import weft

from ... import nn
from ...errors import LinAlgError, OptionError, ShapeError
from ...tensor import Tensor
from .descent import descend

__all__ = [
    "Affine",
    "LinearRegression",
    "LogisticRegression",
    "SoftmaxRegression",
    "minimum_norm",
    "normal_equations",
    "qr_least_squares",
]

F = nn.functional


class Affine(NamedTuple):
    """The map x ↦ x Wᵀ + b: weight (M, D), bias (M,)."""

    weight: Tensor
    bias: Tensor


# ------------------------------------------------------------------------------------------- least squares


class LinearRegression(nn.Module):
    """ŷ = x Wᵀ + b for squared loss, the maximum likelihood of y = x Wᵀ + b + ε with normal ε.

    `solve` minimises Σᵢ ‖yᵢ − ŷᵢ‖² + ridge · ‖W‖² exactly, `fit` by minibatch SGD on the mean of ½ ‖yᵢ − ŷᵢ‖².
    Shape: (N, in_features) → (N, out_features); targets (N,) or (N, out_features)

    >>> x = weft.tensor([[0.0], [1.0], [2.0]])
    >>> model = LinearRegression(1).solve(x, weft.tensor([1.0, 3.0, 5.0]))
    >>> round(model.linear.weight.item(), 5), round(model.linear.bias.item(), 5)
    (2.0, 1.0)
    """

    def __init__(self, in_features: int, out_features: int = 1) -> None:
        super().__init__()
        self.linear = nn.Linear(in_features, out_features)

    def forward(self, x: Tensor) -> Tensor:
        return self.linear(x)

    def solve(
        self, x: Tensor, y: Tensor, *, ridge: float = 0.0, solver: Callable[..., Affine] | None = None
    ) -> LinearRegression:
        """Set the parameters to the exact solution. solver: `qr_least_squares` unless another of this file is given."""
        _assign(self.linear, (solver or qr_least_squares)(x, y, ridge))
        return self

    def fit(self, x: Tensor, y: Tensor, **options: Any) -> list[float]:
        """Train by SGD with the options of `descend`; the mean loss of each epoch. The penalty is `weight_decay`.

        Where that ends far from the minimum a warning says so.
        """
        targets = _columns(y).to(self.linear.weight.dtype)
        return _descended(self, lambda p, t: 0.5 * F.mse_loss(p, t) * t.shape[1], x, targets, options)


def normal_equations(x: Tensor, y: Tensor, ridge: float = 0.0) -> Affine:
    """Wᵀ = (XᵀX + ridge I)⁻¹ XᵀY of centred X and Y, b = ȳ − W x̄, by Cholesky's factorisation.

    Fast for many rows; the condition number of X is squared. x (N, D), y (N,) or (N, M)
    """
    x, y, means = _centred(x, y)
    gram = x.mT @ x + ridge * weft.eye(x.shape[1], dtype=x.dtype)  # (D, D)
    factor, info = weft.linalg.cholesky_ex(gram)
    _check_rank("normal_equations", bool(info == 0), factor.diagonal(), x)
    half = weft.linalg.solve_triangular(factor, x.mT @ y, upper=False)
    return _with_bias(weft.linalg.solve_triangular(factor.mT, half, upper=True), means)


def qr_least_squares(x: Tensor, y: Tensor, ridge: float = 0.0) -> Affine:
    """R Wᵀ = QᵀY with QR = X (centred; rows √ridge · I are added for a penalty): keeps the condition number of X."""
    x, y, means = _centred(x, y)
    if ridge:
        x, y = _penalty_rows(x, y, ridge)
    if x.shape[0] < x.shape[1]:
        _check_rank("qr_least_squares", False, x, x)
    q, r = weft.linalg.qr(x)  # (N, D), (D, D)
    _check_rank("qr_least_squares", True, r.diagonal(), x)
    return _with_bias(weft.linalg.solve_triangular(r, q.mT @ y, upper=True), means)


def minimum_norm(x: Tensor, y: Tensor, ridge: float = 0.0) -> Affine:
    """Of all least-squares solutions the one with the least ‖W‖, by the singular values of X: Wᵀ = X⁺ Y.

    Takes any rank: with more features than rows it interpolates.
    """
    x, y, means = _centred(x, y)
    if ridge:
        x, y = _penalty_rows(x, y, ridge)
    return _with_bias(weft.linalg.lstsq(x, y, driver="gelsd").solution, means)


def _penalty_rows(x: Tensor, y: Tensor, ridge: float) -> tuple[Tensor, Tensor]:
    """‖XW − Y‖² + ridge ‖W‖² as one sum of squares: (N + D, D), (N + D, M)."""
    if ridge < 0:
        raise OptionError(f"ridge: expected a penalty >= 0, got {ridge}")
    below = ridge**0.5 * weft.eye(x.shape[1], dtype=x.dtype)
    return weft.cat([x, below]), weft.cat([y, weft.zeros(x.shape[1], y.shape[1], dtype=y.dtype)])


def _centred(x: Tensor, y: Tensor) -> tuple[Tensor, Tensor, tuple[Tensor, Tensor]]:
    """X and Y less their means, in float64, and the means: the bias drops out of the equations."""
    x, y = x.detach().double(), _columns(y).detach().double()
    if x.ndim != 2 or len(x) != len(y) or not len(x):
        raise ShapeError(f"regression: expected x (N, D) and N targets, N ≥ 1, got {tuple(x.shape)}, {tuple(y.shape)}")
    means = x.mean(0), y.mean(0)
    return x - means[0], y - means[1], means


def _with_bias(solution: Tensor, means: tuple[Tensor, Tensor]) -> Affine:
    weight = solution.mT  # (M, D)
    return Affine(weight, means[1] - weight @ means[0])


def _check_rank(name: str, factored: bool, diagonal: Tensor, x: Tensor) -> None:
    """Refuse a triangular factor that is singular to rounding."""
    tiny = max(x.shape) * weft.finfo(x.dtype).eps
    size = diagonal.abs()
    if not factored or (size.numel() and size.min() <= tiny * size.max()):
        raise LinAlgError(
            f"{name}: columns of x {tuple(x.shape)} depend on each other (or there are fewer rows than columns); "
            "give ridge > 0, or use minimum_norm"
        )


# ------------------------------------------------------------------------------------------- classification


class LogisticRegression(nn.Module):
    """P(y = 1 | x) = σ(⟨w, x⟩ + b): the score ⟨w, x⟩ + b is the log odds of class 1.

    Both ways minimise Σᵢ [log(1 + exp zᵢ) − yᵢ zᵢ] + ½ ridge ‖w‖²: `solve` by Newton's method, which for this loss is
    iteratively reweighted least squares, `fit` by SGD on the mean. Shape: (N, in_features) → (N,) scores
    """

    def __init__(self, in_features: int) -> None:
        super().__init__()
        self.linear = nn.Linear(in_features, 1)

    def forward(self, x: Tensor) -> Tensor:
        return self.linear(x)[..., 0]

    def predict_proba(self, x: Tensor) -> Tensor:
        """P(y = 1 | x), (N,)."""
        return self(x).sigmoid()

    def solve(self, x: Tensor, y: Tensor, *, ridge: float = 0.0, max_steps: int = 100) -> list[float]:
        """Newton's method from 0: the loss before each step. y: (N,) of 0 and 1.

        Gradient X̃ᵀ(p − y) + ridge w, Hessian X̃ᵀ diag(p (1 − p)) X̃ + ridge I, with X̃ = (X, 1).
        """
        onehot = F.one_hot(y.long(), 2).double()
        theta, curve = _newton(x, onehot[:, 1:], ridge, max_steps, _logistic)
        _assign(self.linear, Affine(theta[:, :-1], theta[:, -1]))
        return curve

    def fit(self, x: Tensor, y: Tensor, **options: Any) -> list[float]:
        """Train by SGD with the options of `descend`; the mean loss of each epoch.

        Where that ends far from the minimum, as 100 epochs with lr = 0.1 may, a warning says so; `solve` is exact.
        """
        return _descended(self, F.binary_cross_entropy_with_logits, x, y.to(self.linear.weight.dtype), options)


class SoftmaxRegression(nn.Module):
    """P(y = c | x) = softmax(x Wᵀ + b)_c, multinomial logistic regression.

    Both ways minimise Σᵢ −log P(yᵢ | xᵢ) + ½ ridge ‖W‖². Adding one vector to all rows of W changes nothing: `solve`
    finds the solution whose rows (and biases) sum to 0. Shape: (N, in_features) → (N, classes) scores
    """

    def __init__(self, in_features: int, classes: int) -> None:
        super().__init__()
        self.linear = nn.Linear(in_features, classes)

    def forward(self, x: Tensor) -> Tensor:
        return self.linear(x)

    def predict_proba(self, x: Tensor) -> Tensor:
        return self(x).softmax(-1)

    def solve(self, x: Tensor, y: Tensor, *, ridge: float = 0.0, max_steps: int = 100) -> list[float]:
        """Newton's method from 0: the loss before each step. y: (N,) of class numbers.

        Gradient row c: X̃ᵀ(p_c − y_c) + ridge w_c; Hessian block (c, c′): X̃ᵀ diag(p_c (δ_cc′ − p_c′)) X̃ + δ_cc′ ridge I.
        It has (classes · (D + 1))² entries.
        """
        onehot = F.one_hot(y.long(), self.linear.out_features).double()
        theta, curve = _newton(x, onehot, ridge, max_steps, _softmax)
        _assign(self.linear, Affine(theta[:, :-1], theta[:, -1]))
        return curve

    def fit(self, x: Tensor, y: Tensor, **options: Any) -> list[float]:
        """Train by SGD with the options of `descend`; the mean loss of each epoch.

        Where that ends far from the minimum a warning says so; `solve` is exact.
        """
        return _descended(self, F.cross_entropy, x, y.long(), options)


def _logistic(x: Tensor, y: Tensor, theta: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Loss, gradient and Hessian of one logistic output: (), (1, D), (D, D). Also y (N, 1), theta (1, D)."""
    z = x @ theta.mT  # (N, 1)
    p = z.sigmoid()
    loss = (F.softplus(z) - y * z).sum()
    return loss, (p - y).mT @ x, (x * (p * (1 - p))).mT @ x


def _softmax(x: Tensor, y: Tensor, theta: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Loss, gradient and Hessian of C outputs: (), (C, D), (C D, C D). Also y (N, C), theta (C, D)."""
    z = x @ theta.mT  # (N, C)
    p = z.softmax(-1)
    loss = (z.logsumexp(-1) - (y * z).sum(-1)).sum()
    curvature = weft.diag_embed(p) - p[:, :, None] * p[:, None, :]  # (N, C, C)
    hessian = weft.einsum("nab,ni,nj->aibj", curvature, x, x)
    return loss, (p - y).mT @ x, hessian.reshape(theta.numel(), theta.numel())  # (C, D, C, D) → (C D, C D)


def _newton(x: Tensor, y: Tensor, ridge: float, max_steps: int, derivatives: Callable) -> tuple[Tensor, list[float]]:
    """θ ← θ − t H⁻¹ g with t halved until the loss falls; (M, D + 1) and the losses.

    A singular H (softmax) is solved for the shortest step, so θ stays in the span of the gradients.
    """
    x = weft.cat([x.detach().double(), weft.ones(len(x), 1, dtype=weft.float64)], 1)  # (N, D + 1)
    theta, curve = weft.zeros(y.shape[1], x.shape[1], dtype=x.dtype), []
    decay = weft.full(theta.shape, ridge, dtype=x.dtype)
    decay[:, -1] = 0

    def evaluate(theta: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        loss, gradient, hessian = derivatives(x, y, theta)
        penalty = 0.5 * (decay * theta**2).sum()
        return loss + penalty, gradient + decay * theta, hessian + decay.reshape(-1).diag()

    with weft.no_grad():
        loss, gradient, hessian = evaluate(theta)
        for _ in range(max_steps):
            curve.append(loss.item())
            step = weft.linalg.lstsq(hessian, gradient.reshape(-1, 1), driver="gelsd").solution.reshape(theta.shape)
            if (decrement := (gradient * step).sum().item()) <= 1e-14 * (1 + abs(curve[-1])):
                return theta - step, curve
            theta, (loss, gradient, hessian) = _line_search(evaluate, theta, step, curve[-1], decrement)
            if not ridge:
                _refuse_separable(x @ theta.mT, y)
    raise OptionError(f"Newton's method: no convergence in {max_steps} steps; scale the features, or give ridge > 0")


def _line_search(evaluate: Callable, theta: Tensor, step: Tensor, loss: float, decrement: float) -> tuple:
    """The first of the steps 1, ½, ¼ … that lowers the loss by a quarter of what its slope promises (Armijo)."""
    size = 1.0
    while True:
        values = evaluate(theta - size * step)
        if values[0].item() <= loss - 0.25 * size * decrement + 1e-12 * (1 + abs(loss)) or size < 1e-10:
            return theta - size * step, values
        size /= 2


def _refuse_separable(scores: Tensor, y: Tensor) -> None:
    """A hyperplane that separates the classes can be scaled for ever: the likelihood then has no maximum."""
    if y.shape[1] == 1:
        separated = ((2 * y - 1) * scores > 0).all()
    else:
        own = (y * scores).sum(-1)
        others = scores.masked_fill(y.bool(), -weft.inf).max(-1).values
        separated = (own > others).all()
    if separated:
        raise OptionError("Newton's method: the classes are separable, so no finite weights are best; give ridge > 0")


# ------------------------------------------------------------------------------------------- training


def _descended(model: nn.Module, loss: Callable, x: Tensor, y: Tensor, options: dict[str, Any]) -> list[float]:
    """`descend`, and a warning if more than a hundredth of the way to the minimum of the convex loss is left."""
    curve = descend(model, loss, x, y, **options)
    if not curve:
        return curve
    left = _left_to_fall(model, loss, x, y, options.get("weight_decay", 0.0))
    if left > 0.01 * max(curve[0] - curve[-1], 1e-3 * abs(curve[-1])):
        warnings.warn(
            f"{type(model).__name__}.fit: after {len(curve)} epochs the loss is {curve[-1]:.4g} and can fall by about "
            f"{left:.2g} more; give more epochs, a larger lr or momentum=0.9, or call solve (with ridge > 0 if the classes "
            "are separable)",
            stacklevel=3,
        )
    return curve


def _left_to_fall(model: nn.Module, loss: Callable, x: Tensor, y: Tensor, decay: float, rounds: int = 30) -> float:
    """½ gᵀH⁻¹g, Newton's estimate of the distance to the minimum, by conjugate gradients in float64."""
    parameters = [p.detach().double().requires_grad_() for p in model.linear.parameters()]
    x, y = x.detach().double(), y.double() if y.is_floating_point() else y
    scores = F.linear(x, *parameters)
    value = loss(scores[..., 0] if isinstance(model, LogisticRegression) else scores, y)
    value = value + decay / 2 * sum((p**2).sum() for p in parameters)
    slopes = weft.autograd.grad(value, parameters, create_graph=True)
    gradient = weft.cat([g.reshape(-1) for g in slopes])

    def curvature(direction: Tensor) -> Tensor:
        found = weft.autograd.grad(gradient @ direction, parameters, retain_graph=True)
        return weft.cat([h.reshape(-1) for h in found])

    residual = gradient.detach()
    step, direction, size = weft.zeros_like(residual), residual, residual @ residual
    first = size
    for _ in range(rounds):
        if size <= 1e-20 * first or size == 0:
            break
        bent = curvature(direction)
        if (along := direction @ bent) <= 0:
            break
        step = step + size / along * direction
        residual = residual - size / along * bent
        size, before = residual @ residual, size
        direction = residual + size / before * direction
    return float(gradient.detach() @ step) / 2


def _columns(y: Tensor) -> Tensor:
    """(N,) → (N, 1)"""
    return y[:, None] if y.ndim == 1 else y


def _assign(linear: nn.Linear, solution: Affine) -> None:
    if tuple(solution.weight.shape) != tuple(linear.weight.shape):
        raise ShapeError(f"expected data for weights {tuple(linear.weight.shape)}, got {tuple(solution.weight.shape)}")
    with weft.no_grad():
        linear.weight.copy_(solution.weight)
        linear.bias.copy_(solution.bias)
