"""Labels as a second hidden variable: the semi-supervised VAE, M2 of Kingma, Rezende, Mohamed and Welling (2014).

p(x, y, z) = p(y) p(z) p(x | y, z), q(y, z | x) = q(y | x) q(z | x, y). Where y is known it is a condition; where it is not it
is summed over, so that unlabelled examples train the classifier q(y | x), too. M1+M2: x is what another VAE's encoder says.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import weft

from ... import nn
from ...errors import OptionError, ShapeError
from ...tensor import Tensor
from ..classical.mlp import MLP
from ..generative.protocol import Bound
from .base import VAE
from .conditional import ConditionalVAE

__all__ = ["DenseSemiSupervisedVAE", "SemiSupervisedVAE"]

F = nn.functional


class SemiSupervisedVAE(nn.Module):
    """A conditional VAE and a classifier that learn from labelled and unlabelled examples together.

    L(x, y) = E_q(z | x, y)[log p(x | y, z)] − KL(q(z | x, y) ‖ p(z)) + log p(y)          ≤ log p(x, y)
    U(x) = Σ_y q(y | x) L(x, y) + H(q(y | x))                                             ≤ log p(x)

    model: p(x | y, z) and q(z | x, y), a VAE with a class as its condition
    classifier: q(y | x) as logits, (B, *event) → (B, K)
    class_balance: p(y), (K,); even chances by default
    Shape: x (B, *event), y (B,) of whole numbers

    >>> model = DenseSemiSupervisedVAE(6, (8,), 2, classes=3)
    >>> model.unlabelled_bound(weft.zeros(4, 6)).shape, model(weft.zeros(4, 6)).shape
    (weft.Size([4]), weft.Size([4, 3]))
    """

    log_balance: Tensor

    def __init__(self, model: VAE, classifier: nn.Module, classes: int, class_balance: Any = None) -> None:
        super().__init__()
        if classes < 2 or model.conditions is None:
            raise OptionError(
                f"SemiSupervisedVAE: expected two classes or more and a VAE with a class as its condition, got {classes} "
                f"and conditions={model.conditions}"
            )
        self.model, self.classifier, self.classes = model, classifier, classes
        balance = weft.full((classes,), 1 / classes) if class_balance is None else weft.as_tensor(class_balance)
        if tuple(balance.shape) != (classes,) or abs(balance.sum().item() - 1) > 1e-4 or (balance <= 0).any():
            raise OptionError(f"class_balance: expected {classes} chances above 0 that sum to 1, got {class_balance}")
        self.register_buffer("log_balance", balance.log())

    def forward(self, x: Tensor) -> Tensor:
        """The logits of q(y | x): (B, *event) → (B, K)"""
        said = self.classifier(x)
        if tuple(said.shape) != (len(x), self.classes):
            raise ShapeError(
                f"SemiSupervisedVAE: the classifier made {tuple(said.shape)}, not ({len(x)}, {self.classes})"
            )
        return said

    def labelled_bound(self, x: Tensor, y: Tensor, samples: int = 1, generator: Any = None) -> Tensor:
        """L(x, y): (B, *event), (B,) → (B,)"""
        return self.model.elbo(x, y, samples, generator) + self.log_balance[y].to(x.dtype)

    def class_bounds(self, x: Tensor, samples: int = 1, generator: Any = None) -> Tensor:
        """L(x, y) for every class: (B, *event) → (B, K)"""
        labels = weft.arange(self.classes).repeat_interleave(len(x))
        repeated = x.repeat(self.classes, *[1] * (x.ndim - 1))  # (K · B, *event)
        return self.labelled_bound(repeated, labels, samples, generator).reshape(self.classes, len(x)).T

    def unlabelled_bound(self, x: Tensor, samples: int = 1, generator: Any = None) -> Tensor:
        """U(x), the labels summed over: (B, *event) → (B,)

        It is greatest, log Σ_y exp L(x, y), where q(y | x) is in proportion to exp L(x, y).
        """
        log_chances = self(x).log_softmax(-1)
        return (log_chances.exp() * (self.class_bounds(x, samples, generator) - log_chances)).sum(-1)

    def loss(self, x: Tensor, y: Tensor, unlabelled: Tensor, alpha: float = 1.0, generator: Any = None) -> Tensor:
        """−(Σ L(x, y) + Σ U(u)) / (B + U) + α · the cross entropy of q(y | x): a scalar

        alpha: α, by which labels speak to the classifier; in the bound alone they do not
        """
        bounds = self.labelled_bound(x, y, 1, generator).sum() + self.unlabelled_bound(unlabelled, 1, generator).sum()
        return alpha * F.cross_entropy(self(x), y) - bounds / (len(x) + len(unlabelled))

    def log_prob_bound(self, x: Tensor, samples: int = 500, generator: Any = None) -> Bound:
        """log Σ_y p(y) p̂(x | y) with importance samples for each class, in the mean not above log p(x): (B,)"""
        found = [self.model.log_prob_bound(x, weft.full((len(x),), k), samples, generator) for k in range(self.classes)]
        values = weft.stack([part.value for part in found], 1) + self.log_balance.to(x.dtype)
        shares = values.softmax(1)
        errors = weft.stack([part.error for part in found], 1)
        return Bound(values.logsumexp(1), "lower", ((shares * errors) ** 2).sum(1).sqrt())


class DenseSemiSupervisedVAE(SemiSupervisedVAE):
    """M2 of multilayer perceptrons, for rows of numbers such as the codes of M1.

    features, hidden, code, likelihood: as in `ConditionalVAE`; classes: K; further options: those of `SemiSupervisedVAE`
    """

    def __init__(
        self,
        features: int,
        hidden: Sequence[int],
        code: int,
        likelihood: Any = "bernoulli",
        *,
        classes: int,
        activation: str = "silu",
        class_balance: Any = None,
    ) -> None:
        model = ConditionalVAE(features, hidden, code, likelihood, conditions=classes, activation=activation)
        super().__init__(model, MLP(features, hidden, classes, activation), classes, class_balance)
