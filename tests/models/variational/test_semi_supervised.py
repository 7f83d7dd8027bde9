"""M2: bounds on p(x, y) and p(x), with labels summed over; codes of one number, so that integrals are sums over a grid."""

import math

import numpy as np
import pytest
from scipy import stats

import weft
from weft import optim
from weft.errors import OptionError, ShapeError
from weft.models.variational import ConditionalVAE, DenseSemiSupervisedVAE, SemiSupervisedVAE

BALANCE = (0.5, 0.3, 0.2)


def made(seed=0, **options):
    weft.manual_seed(seed)
    model = DenseSemiSupervisedVAE(5, (6,), 1, classes=3, **options).double()
    return model, weft.bernoulli(weft.full((4, 5), 0.5, dtype=weft.float64))


def grid_log_prob(model, x):
    """log p(x | y) of every class by a sum over a fine grid of codes: (B, K)"""
    z = np.linspace(-8, 8, 4001)
    logs = []
    for y in range(3):
        with weft.no_grad():
            logits = model.model.said(weft.tensor(z)[:, None], model.model.conditions(y, len(z)).double()).numpy()
        chances = 1 / (1 + np.exp(-logits))  # (Z, 5)
        each = np.stack([np.where(row > 0, chances, 1 - chances).prod(1) for row in x.numpy()])  # (B, Z)
        logs.append(np.log((each * stats.norm.pdf(z)).sum(1) * (z[1] - z[0])))
    return np.stack(logs, 1)


def test_labels_are_summed_over():
    """U = Σ q(y | x) (L(x, y) − log q(y | x)), L called class by class on the same noise."""
    model, x = made(class_balance=BALANCE)
    generator = weft.Generator().manual_seed(1)
    found = model.unlabelled_bound(x, 3, generator)
    generator.manual_seed(1)
    each = model.class_bounds(x, 3, generator).detach().numpy()
    q = model(x).softmax(1).detach().numpy()
    np.testing.assert_allclose(found.detach(), (q * (each - np.log(q))).sum(1), rtol=1e-12)
    one = model.model.elbo(x, weft.tensor([2] * 4), 4000) + math.log(0.2)
    np.testing.assert_allclose(model.class_bounds(x, 4000)[:, 2].detach(), one.detach(), atol=0.03)


def test_bounds_are_below_and_q_in_proportion_closes_the_gap():
    model, x = made(class_balance=BALANCE)
    joint = grid_log_prob(model, x) + np.log(BALANCE)  # log p(x, y)
    exact = np.log(np.exp(joint).sum(1))
    with weft.no_grad():
        bounds = model.class_bounds(x, 4000).numpy()
        assert (bounds < joint + 0.02).all()
        loose = model.unlabelled_bound(x, 4000).numpy()
        assert (loose < exact + 0.02).all()
        best = np.log(np.exp(bounds).sum(1))
        assert (loose < best + 0.05).all() and (best < exact + 0.02).all()
        found = model.log_prob_bound(x, 4000)
    assert (np.abs(found.value.numpy() - exact) < 5 * found.error.numpy() + 1e-3).all() and found.side == "lower"
    tight = SemiSupervisedVAE(model.model, lambda_of(bounds), 3, BALANCE)  # q(y | x) ∝ exp L(x, y)
    np.testing.assert_allclose(tight.unlabelled_bound(x, 4000).detach(), best, atol=0.03)


def lambda_of(logits):
    class Fixed(weft.nn.Module):
        def forward(self, x):
            return weft.tensor(logits)

    return Fixed()


def test_unlabelled_examples_teach_the_classifier():
    """Two kinds of rows, one label of each: the bound alone moves the classifier to all others; compiled as eagerly."""
    generator = weft.Generator().manual_seed(2)
    rates = weft.tensor([[0.95] * 8 + [0.05] * 8, [0.05] * 8 + [0.95] * 8])
    kinds = weft.arange(200) % 2
    x = weft.bernoulli(rates[kinds], generator=generator)
    weft.manual_seed(3)
    model = DenseSemiSupervisedVAE(16, (16,), 2, classes=2)
    optimizer = optim.Adam(model.parameters(), lr=0.01)

    @weft.compile
    def step():
        optimizer.zero_grad()
        loss = model.loss(x[:2], kinds[:2], x, 1.0, generator)
        loss.backward()
        optimizer.step()
        return loss

    first = model.loss(x[:2], kinds[:2], x, 1.0, weft.Generator().manual_seed(5)).item()
    generator.manual_seed(5)
    assert abs(step().item() - first) < 1e-3
    for _ in range(100):
        step()
    assert ((model(x).argmax(1) == kinds).float().mean() > 0.97).item()
    alone = model.unlabelled_bound(x).mean().item()
    assert alone < -2 * math.log(2) and alone > -16 * math.log(2)


def test_errors():
    plain = weft.models.variational.DenseVAE(4, (3,), 2)
    with pytest.raises(OptionError, match="as its condition"):
        SemiSupervisedVAE(plain, weft.nn.Linear(4, 2), 2)
    model = ConditionalVAE(4, (3,), 2, conditions=2)
    with pytest.raises(OptionError, match="sum to 1"):
        SemiSupervisedVAE(model, weft.nn.Linear(4, 2), 2, (0.5, 0.6))
    with pytest.raises(ShapeError, match="classifier made"):
        SemiSupervisedVAE(model, weft.nn.Linear(4, 3), 2)(weft.zeros(1, 4))
