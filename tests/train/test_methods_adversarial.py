"""Attacks against closed forms of linear models and PyTorch's gradients; adversarial training compiled."""

from __future__ import annotations

import functools
import math

import numpy as np
import pytest

import weft
from weft import nn
from weft.errors import OptionError
from weft.train import Classification, Trainer
from weft.train.methods import AdversarialTraining, fgsm, pgd, robustness

from .problems import digits, loader, mlp, torch_mlp, weights

LEAST = np.float32(1e-6)


def linear(inputs: int = 12) -> tuple[nn.Linear, weft.Tensor, weft.Tensor]:
    """Two classes whose scores differ by w·x + b, float64."""
    weft.manual_seed(0)
    model = nn.Linear(inputs, 2, dtype=weft.float64)
    x = weft.randn(9, inputs, dtype=weft.float64)
    return model, x, weft.randint(0, 2, (9,))


def margins(model: nn.Linear, x: weft.Tensor, y: weft.Tensor) -> np.ndarray:
    scores = model(x).detach().numpy()
    return (scores[np.arange(len(y)), y.numpy()] - scores[np.arange(len(y)), 1 - y.numpy()]).round(12)


@pytest.mark.parametrize("epsilon", [0.0, 0.1, 3.0])
@pytest.mark.parametrize(
    ("attack", "dual"),
    [
        (functools.partial(fgsm, bounds=None), 1),
        (functools.partial(pgd, bounds=None), 1),
        (functools.partial(pgd, bounds=None, random_start=False), 1),
        (functools.partial(pgd, bounds=None, norm=2, steps=40, step_size=2.0), 2),
        (functools.partial(pgd, bounds=None, norm=2, random_start=False), 2),
    ],
    ids=["fgsm", "pgd-inf", "pgd-inf-from-x", "pgd-2", "pgd-2-from-x"],
)
@pytest.mark.parametrize("compiled", [True, False])
def test_linear_models_lose_epsilon_times_the_dual_norm(attack, dual, epsilon, compiled) -> None:
    """The optimum over the ball is known: margin − ε‖w₁ − w₀‖ in the dual norm (1 for inf, 2 for 2)."""
    model, x, y = linear()
    run = (
        weft.compile(lambda x, y: attack(model, x, y, epsilon))
        if compiled
        else lambda x, y: attack(model, x, y, epsilon)
    )
    worst = run(x, y)
    length = np.linalg.norm(model.weight.detach().numpy()[1] - model.weight.detach().numpy()[0], dual)
    lost = margins(model, x, y) - margins(model, worst, y)
    np.testing.assert_allclose(lost, epsilon * length, rtol=1e-9 if dual == 1 else 1e-5, atol=1e-9)


@pytest.mark.parametrize("norm", [math.inf, 2])
@pytest.mark.parametrize("random_start", [True, False])
def test_pgd_stays_in_the_ball_and_in_bounds(norm, random_start) -> None:
    weft.manual_seed(3)
    x, y = digits(40)
    worst = weft.compile(
        lambda x, y: pgd(model, x, y, 0.3, norm=norm, steps=7, step_size=0.2, random_start=random_start)
    )
    model = mlp()
    found = worst(x, y)
    lengths = np.linalg.norm((found - x).numpy(), norm, axis=1)
    assert (lengths <= 0.3 + LEAST).all() and lengths.max() > 0.29
    assert found.min().item() >= 0 and found.max().item() <= 1
    assert not found.requires_grad and all(p.grad is None for p in model.parameters())


def test_random_starts_fill_the_ball() -> None:
    """‖δ‖₂/ε to the power D is uniform on (0, 1) for points drawn uniformly from a ball of D dimensions."""
    from scipy import stats

    x = weft.zeros(400, 3)
    frozen = functools.partial(pgd, steps=1, step_size=0.0, bounds=None, generator=weft.Generator().manual_seed(5))
    model = nn.Linear(3, 2)
    found = frozen(model, x, weft.zeros(400, dtype=weft.int64), 2.0, norm=2).numpy()
    assert stats.kstest((np.linalg.norm(found, axis=1) / 2) ** 3, "uniform").pvalue > 0.01
    box = frozen(model, x, weft.zeros(400, dtype=weft.int64), 2.0).numpy().reshape(-1)
    assert stats.kstest((box + 2) / 4, "uniform").pvalue > 0.01


def test_fgsm_and_pgd_as_in_torch() -> None:
    import torch

    weft.manual_seed(1)
    model = mlp()
    theirs = torch_mlp(model)
    x, y = digits(32)
    a = start = torch.tensor(x.numpy())
    for _ in range(4):
        a = a.detach().requires_grad_()
        torch.nn.functional.cross_entropy(theirs(a), torch.tensor(y.numpy())).backward()
        a = torch.clamp(a + 0.05 * a.grad.sign(), start - 0.1, start + 0.1).clamp(0, 1)
    np.testing.assert_allclose(
        pgd(model, x, y, 0.1, steps=4, step_size=0.05, random_start=False).numpy(), a.detach().numpy(), atol=1e-6
    )
    one = start.clone().requires_grad_()
    torch.nn.functional.cross_entropy(theirs(one), torch.tensor(y.numpy())).backward()
    np.testing.assert_allclose(
        fgsm(model, x, y, 0.1).numpy(), (start + 0.1 * one.grad.sign()).clamp(0, 1).numpy(), atol=1e-6
    )


def test_attacks_leave_modes_and_statistics_alone() -> None:
    model = nn.Sequential(nn.Linear(4, 4), nn.BatchNorm1d(4), nn.Dropout(0.5), nn.Linear(4, 2))
    model[1].eval()
    before = weights(model)
    x, y = weft.rand(6, 4), weft.zeros(6, dtype=weft.int64)
    first = pgd(model, x, y, 0.1, random_start=False)
    assert first.equal(pgd(model, x, y, 0.1, random_start=False))  # no dropout inside
    assert model.training and not model[1].training and model[2].training
    assert all((before[name] == value).all() for name, value in weights(model).items())


@pytest.mark.parametrize("epsilon", [0.01, 0.3, 0.9])
def test_robustness_of_a_linear_model_is_the_share_of_large_margins(epsilon) -> None:
    model, x, y = linear()
    length = np.abs(model.weight.detach().numpy()[1] - model.weight.detach().numpy()[0]).sum()
    found = robustness(model, [(x, y)], functools.partial(fgsm, epsilon=epsilon, bounds=None), compile="error")
    margin = margins(model, x, y)
    assert found.clean == (margin > 0).mean() and found.robust == (margin > epsilon * length).mean()
    assert found.examples == 9 and (found.robust < found.clean or epsilon < 0.9)


def test_adversarial_training_compiled_equals_eager_and_is_robust() -> None:
    x, y = digits(256)
    attack = functools.partial(pgd, epsilon=0.1, steps=3)
    found = []
    for compiled in (False, "error"):
        weft.manual_seed(2)
        task = AdversarialTraining(mlp(dropout=0.2), attack, clean_share=0.25, lr=1e-2)
        trainer = Trainer(max_epochs=2, run_folder=False, progress=False, compile=compiled)
        rows = trainer.fit(task, loader(x, y), loader(x, y)).rows
        found.append(weights(task))
    for name, value in found[0].items():
        np.testing.assert_allclose(found[1][name], value, rtol=2e-4, atol=2e-5)
    assert rows[-1]["val_robust_acc"] <= rows[-1]["val_accuracy"]


def test_adversarial_training_beats_plain_training_under_attack() -> None:
    x, y = digits(512)
    attack = functools.partial(pgd, epsilon=0.2, steps=5)
    scores = []
    for make in (lambda m: Classification(m, lr=1e-2), lambda m: AdversarialTraining(m, attack, lr=1e-2)):
        weft.manual_seed(0)
        model = mlp(hidden=64)
        Trainer(max_epochs=8, run_folder=False, progress=False).fit(make(model), loader(x, y))
        scores.append(robustness(model, loader(x, y, 128), attack).robust)
    assert scores[1] > scores[0] + 0.2


@pytest.mark.parametrize(
    ("act", "words"),
    [
        (lambda m, x, y: fgsm(m, x, y, -0.1), "epsilon"),
        (lambda m, x, y: fgsm(m, x, y, float("nan")), "epsilon"),
        (lambda m, x, y: pgd(m, x, y, 0.1, norm=1), "norm 1"),
        (lambda m, x, y: pgd(m, x, y, 0.1, steps=0), "0 steps"),
        (lambda m, x, y: robustness(m, [], fgsm), "no batches"),
        (lambda m, x, y: AdversarialTraining(m, fgsm, clean_share=2), "clean_share"),
    ],
)
def test_errors_say_what_is_wrong(act, words) -> None:
    with pytest.raises(OptionError, match=words):
        act(*linear())
