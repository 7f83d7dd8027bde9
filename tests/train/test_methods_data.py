"""Curricula, ensembles and several tasks: orders, formulas and gradients against closed forms."""

from __future__ import annotations

import functools

import numpy as np
import pytest
from scipy import special, stats

import weft
from weft import nn
from weft.data import DataLoader, TensorDataset
from weft.errors import OptionError
from weft.nn import functional as F
from weft.train import Classification, Trainer
from weft.train.methods import curriculum, ensembles, multitask

from .problems import digits, loader, mlp

fit = functools.partial(Trainer, run_folder=False, progress=False)


# ------------------------------------------------------------------------------------------- curriculum


def test_only_the_easiest_are_drawn() -> None:
    """Position i of epoch e comes from the ⌈g n⌉ examples of least score, evenly: over seeds, p-values are uniform."""
    scores = np.random.default_rng(0).permutation(200)  # score = rank
    chances = []
    for seed in range(25):
        sampler = curriculum.CurriculumSampler(scores, 4, curriculum.linear_pacing(0.1), seed=seed)
        for epoch in range(4):
            done = (epoch * 200 + np.arange(200)) / 800
            limits = np.ceil((0.1 + 0.9 * done) * 200)
            ranks = scores[sampler.order(epoch)]
            assert (ranks < limits).all()
            chances.append(stats.kstest((ranks + 0.5) / limits, "uniform").pvalue)
    assert stats.kstest(chances, "uniform").pvalue > 0.01
    assert sorted(sampler.order(4)) == sorted(sampler.order(9)) == list(range(200))


@pytest.mark.parametrize(
    ("pacing", "expected"),
    [
        (curriculum.linear_pacing(0.2), [0.2, 0.4, 0.6, 1.0]),
        (curriculum.root_pacing(0.1, 2), [0.1, np.sqrt(0.01 + 0.99 / 4), np.sqrt(0.01 + 0.99 / 2), 1.0]),
        (curriculum.stair_pacing((0.3, 0.6, 1.0)), [0.3, 0.3, 0.6, 1.0]),
    ],
)
def test_pacing_formulas(pacing, expected) -> None:
    np.testing.assert_allclose(pacing(np.array([0.0, 0.25, 0.5, 1.0])), expected, rtol=1e-12)


def test_order_depends_on_seed_and_epoch_alone_and_a_loader_follows_it() -> None:
    scores = weft.arange(20.0)
    make = functools.partial(curriculum.CurriculumSampler, scores, 2)
    assert (make(seed=1).order(1) == make(seed=1).order(1)).all()
    assert (make(seed=1).order(0) != make(seed=2).order(0)).any()
    data = DataLoader(TensorDataset(scores), batch_size=5, sampler=make(seed=1))
    for epoch in range(3):
        assert np.concatenate([x.numpy() for (x,) in data]).tolist() == make(seed=1).order(epoch).tolist()
    assert len(list(make(seed=1))) == len(make(seed=1)) == 20
    assert curriculum.CurriculumSampler([0.5], 1, seed=0).order(0).tolist() == [0]


def test_difficulty_is_the_loss_of_each_example_in_evaluation_mode() -> None:
    weft.manual_seed(0)
    x, y = digits(70)
    model = mlp(dropout=0.5)
    found = curriculum.difficulty(model, loader(x, y))
    scores = model.eval()(x).detach().numpy().astype(np.float64)
    expected = special.logsumexp(scores, axis=1) - scores[np.arange(70), y.numpy()]
    np.testing.assert_allclose(found, expected, rtol=1e-5)
    model.train()
    curriculum.difficulty(model, loader(x, y))
    assert model.training and model[2].training


def test_a_curriculum_trains() -> None:
    weft.manual_seed(0)
    x, y = digits(256)
    sampler = curriculum.CurriculumSampler(-x.sum(1), 2, seed=0)
    data = DataLoader(TensorDataset(x, y), batch_size=32, sampler=sampler)
    rows = fit(max_epochs=4, compile="error").fit(Classification(mlp(), lr=1e-2), data).rows
    assert rows[-1]["train_loss"] < 0.7 * rows[0]["train_loss"]


# ------------------------------------------------------------------------------------------- ensembles


def test_bootstrap_samples() -> None:
    sampler = ensembles.BootstrapSampler(1000, seed=1, member=2)
    assert sorted(sampler.order(0)) == sorted(sampler.order(5)) == sorted(sampler.sample)
    assert (sampler.order(0) != sampler.order(1)).any()
    assert set(sampler.out_of_bag) | set(sampler.sample) == set(range(1000))
    assert not set(sampler.out_of_bag) & set(sampler.sample)
    assert (sampler.sample != ensembles.BootstrapSampler(1000, seed=1, member=3).sample).any()
    shares = [len(ensembles.BootstrapSampler(1000, seed=0, member=m).out_of_bag) / 1000 for m in range(50)]
    assert abs(np.mean(shares) - (1 - 1 / 1000) ** 1000) < 4 * 0.0098 / np.sqrt(50)
    assert ensembles.BootstrapSampler(1, seed=0).order(0).tolist() == [0]
    assert len(list(sampler)) == len(sampler) == 1000 and sampler.epoch == 1


@pytest.mark.parametrize("correlation", [0.0, 0.4, 1.0])
@pytest.mark.parametrize("members", [1, 5, 40])
def test_variance_of_a_mean_of_correlated_members(correlation, members) -> None:
    """1ᵀ Σ 1 / M² for a covariance with equal variances and correlations."""
    covariance = 1.7 * ((1 - correlation) * np.eye(members) + correlation)
    ones = np.full(members, 1 / members)
    np.testing.assert_allclose(
        ensembles.variance_of_mean(1.7, correlation, members), ones @ covariance @ ones, rtol=1e-12
    )


def test_bagging_reaches_the_variance_of_its_formula() -> None:
    """Bagged means of n values: variance over the data (ρσ²) plus that of resampling, s²/n, divided by M.

    A bootstrap mean given the data has variance s²/n with s² = Σ (x − x̄)² / n; so Var over resamplings of the mean
    of M members is s² / (n M).
    """
    x = np.random.default_rng(0).normal(size=40)
    expected = x.var() / 40
    for members in (1, 8):
        means = [
            np.mean([x[ensembles.BootstrapSampler(40, seed=s, member=m).sample].mean() for m in range(members)])
            for s in range(600)
        ]
        np.testing.assert_allclose(np.var(means), expected / members, rtol=4 * np.sqrt(2 / 600))


def test_mean_variance_and_ambiguity() -> None:
    weft.manual_seed(0)
    ensemble = ensembles.Ensemble([nn.Linear(3, 2) for _ in range(4)])
    x = weft.randn(5, 3)
    single = np.stack([member(x).detach().numpy() for member in ensemble.members])
    found = ensemble.predict(x)
    np.testing.assert_allclose(ensemble(x).detach().numpy(), single.mean(0), rtol=1e-6, atol=1e-7)
    np.testing.assert_allclose(found.variance.numpy(), single.var(0), rtol=1e-5)
    target = weft.randn(5, 2)
    of_mean, of_members, spread = ensembles.ambiguity(found.members, target)
    np.testing.assert_allclose(of_mean.numpy(), (of_members - spread).numpy(), rtol=1e-4, atol=1e-6)


def test_entropies_of_probabilities() -> None:
    weft.manual_seed(0)
    ensemble = ensembles.Ensemble([nn.Linear(3, 4) for _ in range(3)], transform=lambda scores: scores.softmax(1))
    found = ensemble.predict(weft.randn(6, 3))
    p = found.members.numpy()
    total = stats.entropy(p.mean(0), axis=1)
    np.testing.assert_allclose(found.entropy.numpy(), total, rtol=1e-5)
    np.testing.assert_allclose(found.disagreement.numpy(), total - stats.entropy(p, axis=2).mean(0), atol=1e-6)
    sure = ensembles.EnsemblePrediction(weft.tensor([[[1.0, 0.0]]]), weft.tensor([[1.0, 0.0]]), weft.zeros(1, 2))
    assert sure.entropy.item() == 0.0


def test_mixture_of_normals() -> None:
    means, variances = weft.tensor([[0.0], [4.0]]), weft.tensor([[1.0], [3.0]])
    mean, variance = ensembles.gaussian_mixture(means, variances)
    assert mean.item() == 2.0 and variance.item() == 2.0 + 4.0


def test_ensembles_train_and_beat_their_members() -> None:
    x, y = digits(500)
    test_x, test_y = (part[400:] for part in (x, y))

    def make(seed: int) -> Classification:
        weft.manual_seed(seed)
        return Classification(mlp(), lr=1e-2)

    def train(task, sampler) -> None:
        data = DataLoader(TensorDataset(x[:400], y[:400]), batch_size=40, sampler=sampler)
        fit(max_epochs=6).fit(task, data)

    ensemble, samplers = ensembles.bagging(make, train, 400, members=4, transform=lambda scores: scores.softmax(1))
    found = ensemble.predict(test_x)
    losses = [F.nll_loss(p.log(), test_y).item() for p in found.members]
    assert F.nll_loss(found.mean.log(), test_y).item() < np.mean(losses)  # Jensen
    unseen = ensembles.out_of_bag_mean(ensemble.predict(x[:400]).members.numpy(), samplers)
    by_hand = np.mean(
        [p[0] for p, s in zip(ensemble.predict(x[:400]).members.numpy(), samplers, strict=True) if 0 in s.out_of_bag], 0
    )
    np.testing.assert_allclose(unseen[0], by_hand, rtol=1e-6)
    plain = ensembles.deep_ensemble(make, lambda task, seed: None, members=2)
    assert not plain.members[0](x[:1]).equal(plain.members[1](x[:1]))


# ------------------------------------------------------------------------------------------- several tasks


def two_heads() -> multitask.MultiHead:
    weft.manual_seed(0)
    trunk = nn.Sequential(nn.Linear(64, 16), nn.ReLU())
    return multitask.MultiHead(trunk, {"digit": nn.Linear(16, 10), "ink": nn.Linear(16, 1)})


LOSSES = {"digit": F.cross_entropy, "ink": F.mse_loss}


def batches() -> list:
    x, y = digits(128)
    return [
        (x[i : i + 32], {"digit": y[i : i + 32], "ink": x[i : i + 32].mean(1, keepdim=True)}) for i in (0, 32, 64, 96)
    ]


def test_uncertainty_weighting_has_its_closed_form_gradient() -> None:
    weighting = multitask.UncertaintyWeighting({"a": 0.5, "b": 1.0})
    weighting.log_variances.data = weft.tensor([0.3, -1.2])
    losses = {"b": weft.tensor(0.7, requires_grad=True), "a": weft.tensor(2.0, requires_grad=True)}
    total = weighting(losses)
    total.backward()
    s, c, values = np.array([0.3, -1.2]), np.array([0.5, 1.0]), np.array([2.0, 0.7])
    np.testing.assert_allclose(total.item(), (c * np.exp(-s) * values + s / 2).sum(), rtol=1e-6)
    np.testing.assert_allclose(weighting.log_variances.grad.numpy(), 0.5 - c * np.exp(-s) * values, rtol=1e-6)
    np.testing.assert_allclose([losses["a"].grad.item(), losses["b"].grad.item()], c * np.exp(-s), rtol=1e-6)
    np.testing.assert_allclose(list(weighting.weights().values()), c * np.exp(-s), rtol=1e-6)


def test_uncertainty_weighting_finds_its_optimum() -> None:
    """exp(s) = 2 c L for losses that stay: the variance of the noise, for squared errors."""
    weighting = multitask.UncertaintyWeighting({"a": 0.5, "b": 1.0})
    optimizer = weft.optim.Adam(weighting.parameters(), lr=0.05)

    @weft.compile
    def step() -> None:
        optimizer.zero_grad()
        weighting({"a": weft.tensor(3.0), "b": weft.tensor(0.2)}).backward()
        optimizer.step()

    for _ in range(400):
        step()
    np.testing.assert_allclose(weighting.log_variances.detach().numpy(), np.log([3.0, 0.4]), atol=1e-3)


@pytest.mark.parametrize(
    "weighting",
    [None, multitask.FixedWeighting({"ink": 5.0}), multitask.UncertaintyWeighting({"ink": 0.5, "digit": 1.0})],
    ids=["sum", "fixed", "uncertainty"],
)
def test_multitask_training_compiled_equals_eager(weighting) -> None:
    import copy

    found = []
    for compiled in ("error", False):
        task = multitask.MultiTask(
            two_heads(),
            LOSSES,
            copy.deepcopy(weighting),
            optimizer=lambda p: weft.optim.Adam(p, lr=1e-2),
            metrics={"digit": {"acc": lambda p, y: (p.argmax(1) == y).double().mean()}},
        )
        rows = fit(max_epochs=3, compile=compiled).fit(task, batches(), batches()).rows
        found.append(task.state_dict())
        assert {"train_loss", "train_loss_ink", "val_digit_acc"} <= set(rows[-1])
        assert rows[-1]["train_loss_digit"] < rows[0]["train_loss_digit"]
    for key, value in found[0].items():
        np.testing.assert_allclose(value.numpy(), found[1][key].numpy(), rtol=1e-3, atol=1e-5)
    if isinstance(weighting, multitask.UncertaintyWeighting):
        assert (task.weighting.log_variances != 0).all()


def test_fixed_weights_are_a_weighed_sum() -> None:
    weighting = multitask.FixedWeighting({"a": 2.0})
    assert weighting({"a": weft.tensor(3.0), "b": weft.tensor(0.5)}).item() == 6.5


@pytest.mark.parametrize(
    ("act", "words"),
    [
        (lambda: curriculum.CurriculumSampler([], 1), "without NaN"),
        (lambda: curriculum.CurriculumSampler([1.0, float("nan")], 1), "without NaN"),
        (lambda: curriculum.CurriculumSampler([1.0], 0), "epochs"),
        (lambda: curriculum.CurriculumSampler([1.0], 1, lambda t: 0 * t).order(0), "pacing"),
        (lambda: curriculum.linear_pacing(0.0), "start"),
        (lambda: curriculum.stair_pacing([]), "shares"),
        (lambda: curriculum.difficulty(nn.Linear(1, 1), []), "no batches"),
        (lambda: ensembles.Ensemble([]), "member"),
        (lambda: ensembles.BootstrapSampler(0), "rows"),
        (lambda: multitask.MultiHead(nn.Identity(), {}), "head"),
        (lambda: multitask.MultiTask(nn.Identity(), {}), "loss"),
        (lambda: multitask.MultiTask(nn.Identity(), LOSSES, metrics={"x": {}}), r"no task \['x'\]"),
        (lambda: multitask.UncertaintyWeighting({"a": 0.0}), "scale"),
        (lambda: multitask.UncertaintyWeighting({"a": 1.0})({"b": weft.tensor(1.0)}), "expected losses of"),
        (lambda: multitask.FixedWeighting({"c": 1.0})({"b": weft.tensor(1.0)}), "no task"),
        (lambda: multitask.MultiTask(two_heads(), LOSSES).training_step((digits(2)[0], {})), "targets of"),
    ],
)
def test_errors_say_what_is_wrong(act, words) -> None:
    with pytest.raises(OptionError, match=words):
        act()
