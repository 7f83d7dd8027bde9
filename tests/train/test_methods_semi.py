"""Semi-supervised methods against closed forms: what is said, what is masked, what is averaged, what a resume keeps."""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable

import numpy as np
import pytest
from scipy import stats

import weft
from weft import nn
from weft.data import DataLoader, TensorDataset
from weft.errors import OptionError, ShapeError
from weft.models.classical.mlp import MLP
from weft.models.fewlabels import LadderNetwork
from weft.train import Callback, Trainer
from weft.train.methods import semi
from weft.train.methods.semi.parts import beta_shares, mixed, statistics_kept
from weft.train.methods.semi.pseudo_label import confident, masked_mean

from .problems import assert_same, weights

CLASSES, ROWS = 3, 24


def points(seed: int = 0) -> tuple[weft.Tensor, weft.Tensor]:
    rng = np.random.default_rng(seed)
    return weft.tensor(rng.normal(size=(ROWS, 4)).astype(np.float32)), weft.tensor(np.arange(ROWS) % CLASSES)


def noisy(x: weft.Tensor) -> weft.Tensor:
    """A view that is a function of the point alone, so that eager and compiled runs see the same."""
    return x + 0.1 * (7 * x).sin()


def loader(labels: int = 6, draw: int = 0, **options: object) -> semi.SemiLoader:
    x, y = points()
    told = {"batch_size": 3, "uratio": 2, "weak": noisy, "seed": 5, **options}
    return semi.SemiLoader(x, y, semi.labelled_subset(y, labels, seed=draw), **told)


def network() -> nn.Module:
    """Without a bias before the normalisation: its slope is 0 but for rounding, which Adam would blow up."""
    return nn.Sequential(nn.Linear(4, 6, bias=False), nn.BatchNorm1d(6), nn.ReLU(), nn.Linear(6, CLASSES))


METHODS: dict[str, Callable[[], semi.SemiSupervised]] = {
    "pseudo-label": lambda: semi.PseudoLabel(network(), p_cutoff=0.4, ramp=semi.Ramp(3)),
    "pi-model": lambda: semi.PiModel(network(), ramp=semi.Ramp(3, "sigmoid")),
    "temporal": lambda: semi.TemporalEnsembling(network(), num_classes=CLASSES, ulb_dest_len=ROWS),
    "vat": lambda: semi.VAT(network(), vat_eps=0.3, ent_loss_ratio=0.5, num_iters=2),
    "mean-teacher": lambda: semi.MeanTeacher(network(), ema_m=0.9),
    "distillation": lambda: semi.Distillation(network(), tutor=network(), T=2.0),
    "mixmatch": lambda: semi.MixMatch(network(), num_classes=CLASSES, ema_m=0.9),
    "remixmatch": lambda: semi.ReMixMatch(network()[:3], nn.Linear(6, CLASSES), None, num_classes=CLASSES),
    "fixmatch": lambda: semi.FixMatch(network(), p_cutoff=0.4, ema_m=0.9),
    "fixmatch-apart": lambda: semi.FixMatch(network(), p_cutoff=0.4, use_cat=False),
    "fixmatch-soft": lambda: semi.FixMatch(network(), p_cutoff=0.4, hard_label=False),
    "uda": lambda: semi.UDA(network(), num_classes=CLASSES, p_cutoff=0.4, tsa_schedule="exp", num_train_iter=9),
    "flexmatch": lambda: semi.FlexMatch(network(), num_classes=CLASSES, ulb_dest_len=ROWS, p_cutoff=0.4),
    "freematch": lambda: semi.FreeMatch(network(), num_classes=CLASSES, ema_p=0.5),
    "ladder": lambda: semi.Ladder(LadderNetwork(4, (6,), CLASSES), denoising_costs=(10.0, 1.0)),
}


def trained(
    name: str, compiled: bool | str, data: semi.SemiLoader | None = None, **options: object
) -> semi.SemiSupervised:
    weft.manual_seed(1)
    task = METHODS[name]()
    told = {"max_epochs": 1, "run_folder": False, **options}
    Trainer(**told, progress=False, compile=compiled).fit(task, data or loader())
    return task


@pytest.mark.parametrize("name", METHODS)
def test_steps_compile_whole_and_equal_eager_ones(name) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")  # cuts and operations without native code are told
        compiled = weights(trained(name, "error"))
    for key, value in weights(trained(name, False)).items():
        np.testing.assert_allclose(compiled[key], value, rtol=1e-3, atol=2e-4, err_msg=key)


# ------------------------------------------------------------------------------------------- what a resume keeps


class StopAt(Callback):
    """Ctrl-C in the middle of the second epoch."""

    def on_train_batch_end(self, trainer, task, outputs, batch, batch_idx) -> None:
        if trainer.global_step == 6:
            raise KeyboardInterrupt


@pytest.mark.parametrize("name", ["mean-teacher", "flexmatch", "temporal"])
def test_a_resumed_run_keeps_its_labelled_examples(name, tmp_path) -> None:
    """Also where its loader was made with another draw and another seed: weights come out equal to the bit."""
    told = {"max_epochs": 3}
    whole = trained(name, False, run_folder=tmp_path / "whole", **told)
    with pytest.raises(KeyboardInterrupt):
        trained(name, False, run_folder=tmp_path / "cut", callbacks=[StopAt()], **told)
    other = loader(draw=77, seed=99)
    first = other.labelled
    weft.manual_seed(1)
    task = METHODS[name]()
    trainer = Trainer(max_epochs=3, run_folder=tmp_path / "cut", progress=False, compile=False)
    trainer.fit(task, other, resume=True)
    assert_same(weights(whole), weights(task))
    assert not np.array_equal(first, other.labelled) and np.array_equal(other.labelled, loader().labelled)


def test_a_labelled_subset_is_drawn_once_and_even() -> None:
    _, y = points()
    rows = semi.labelled_subset(y, 6, seed=3)
    assert np.array_equal(rows, semi.labelled_subset(y, 6, seed=3))
    assert not np.array_equal(rows, semi.labelled_subset(y, 6, seed=4))
    assert np.bincount(y.numpy()[rows]).tolist() == [2, 2, 2] and len(set(rows.tolist())) == 6
    y = weft.where(weft.arange(ROWS) < 12, y, -1)
    assert (semi.labelled_subset(y, 12, seed=0) < 12).all()  # unknown labels are never drawn


def test_batches_have_the_promised_examples() -> None:
    x, y = points()
    data = loader(labels=3, uratio=4, batch_size=4, weak=None)
    batch = next(iter(data))
    rows = [int((x == row).all(1).nonzero()[0]) for row in batch.x_lb]
    assert set(rows) == set(data.labelled.tolist()) and len(rows) == 4  # one of three comes twice
    assert batch.y_lb.equal(y[weft.tensor(rows)])
    assert batch.x_ulb_w.equal(x[batch.idx_ulb]) and batch.y_ulb.equal(y[batch.idx_ulb]) and len(batch.idx_ulb) == 16
    apart = loader(labels=6, include_lb_to_ulb=False)
    seen = weft.cat([batch.x_ulb_w for batch in apart])
    assert apart.ulb_dest_len == ROWS - 6
    assert not any(bool((noisy(x[int(row)]) == seen).all(1).any()) for row in apart.labelled)


def test_views_are_a_function_of_seed_epoch_and_batch() -> None:
    from weft.data.augment import GaussianNoise

    x, y = weft.rand(12, 1, 4, 4), weft.arange(12) % 2
    make = lambda: semi.SemiLoader(x, y, [0, 1], batch_size=2, uratio=2, weak=GaussianNoise(0.1), seed=3)
    first, again = list(make()), make()
    again.load_state_dict({**make().state_dict(), "batches_given": 2})
    (last,) = list(again)
    for one, two in zip(first[2], last, strict=True):
        assert one.equal(two)
    assert not first[0].x_ulb_w.equal(first[0].x_ulb_s)


# ------------------------------------------------------------------------------------------- averages


@pytest.mark.parametrize("warm_up", [False, True])
def test_the_teacher_of_a_constant_has_a_closed_form_and_so_have_its_buffers(warm_up) -> None:
    """ā_n = D θ₀ + (1 − D) c with D the product of the decays, for weights and for running statistics alike."""
    model = nn.Sequential(nn.Linear(2, 3), nn.BatchNorm1d(3)).double()
    teacher = semi.ema_teacher(model, 0.9, warm_up=warm_up)
    start = weights(model)
    teacher.update_parameters(model)
    with weft.no_grad():
        for tensor in (*model.parameters(), *model.buffers()):
            tensor.fill_(7)
    for _ in range(5):
        teacher.update_parameters(model)
    kept = math.prod(min(0.9, (1 + n) / (10 + n)) if warm_up else 0.9 for n in range(1, 6))
    for name, value in weights(teacher.module).items():
        expected = 7 if name.endswith("num_batches_tracked") else kept * start[name] + (1 - kept) * 7
        np.testing.assert_allclose(value, expected, rtol=1e-12, err_msg=name)


def test_the_average_is_tested_and_the_model_is_trained() -> None:
    task = trained("mean-teacher", False)
    x, _ = points()
    task.eval()
    assert task(x).equal(task.teacher(x)) and not task(x).equal(task.model(x))
    task.train()
    assert all(not p.requires_grad and p.grad is None for p in task.teacher.parameters())


def test_statistics_are_kept() -> None:
    model = network()
    before = weights(model)
    with statistics_kept(model):
        normalised = model(points()[0])
    assert_same(before, weights(model))
    assert normalised.allclose(model(points()[0])) and not model.eval()(points()[0]).allclose(normalised)


def test_an_ensemble_of_equal_predictions_is_that_prediction() -> None:
    task = semi.TemporalEnsembling(nn.Linear(4, CLASSES), num_classes=CLASSES, ulb_dest_len=5, ensemble_m=0.6)
    rows, said = weft.tensor([1, 3]), weft.tensor([[0.2, 0.3, 0.5], [0.1, 0.8, 0.1]])
    for _ in range(4):
        task.remember(rows, said)
        target, known = task.recalled(rows)
        np.testing.assert_allclose(target.numpy(), said.numpy(), rtol=1e-5)
    assert known.tolist() == [1, 1] and task.recalled(weft.tensor([0]))[1].tolist() == [0]


# ------------------------------------------------------------------------------------------- directions


def test_the_virtual_adversary_is_the_top_eigenvector_of_the_hessian() -> None:
    """The Hessian of KL at r = 0 is Jᵀ (diag p − p pᵀ) J, J the Jacobian of the logits."""
    weft.manual_seed(0)
    net = MLP(5, (7,), 3, activation="tanh").double()
    x = weft.randn(4, 5, dtype=weft.float64)
    found = semi.virtual_adversary(net, x, net(x), xi=1e-5, num_iters=300).numpy()
    for row, d in zip(x, found, strict=True):
        p = net(row[None])[0].softmax(0).detach().numpy()
        jacobian = weft.autograd.functional.jacobian(lambda r: net(r[None])[0], row).numpy()
        values, vectors = np.linalg.eigh(jacobian.T @ (np.diag(p) - np.outer(p, p)) @ jacobian)
        assert values[-1] > 0
        assert abs(d @ vectors[:, -1]) > 1 - 1e-4
        np.testing.assert_allclose(np.linalg.norm(d), 1)


def test_the_virtual_adversary_survives_slopes_that_float32_cannot_square() -> None:
    net = nn.Linear(3, 2, bias=False)
    net.weight.data.copy_(weft.tensor([[1e-12, 0.0, 0.0], [-1e-12, 0.0, 0.0]]))
    d = semi.virtual_adversary(net, weft.zeros(1, 3), weft.zeros(1, 2), xi=1.0)
    assert d.abs().round(decimals=4).tolist() in ([[1, 0, 0]], [[0, 0, 0]])
    assert bool(d.isfinite().all())


# ------------------------------------------------------------------------------------------- masks


@pytest.mark.parametrize("name", ["pseudo-label", "fixmatch", "fixmatch-soft", "uda", "flexmatch"])
def test_unlabelled_examples_under_the_threshold_give_gradients_of_exactly_zero(name) -> None:
    weft.manual_seed(1)
    task = METHODS[name]()
    task.p_cutoff, task.thresh_warmup = 1.0, False
    if name == "flexmatch":
        task.selected.copy_(weft.arange(ROWS) % CLASSES)  # every class is learned alike: β = 1
    _, unlabelled = task.losses(next(iter(loader())))
    unlabelled.backward()
    assert unlabelled.item() == 0
    assert all(p.grad is None or bool((p.grad == 0).all()) for p in task.model.parameters())


def test_weak_views_by_themselves_say_the_same_of_a_network_without_normalisation() -> None:
    """And leave the same gradients: labels that are given take none."""
    found = []
    for use_cat in (True, False):
        weft.manual_seed(1)
        task = semi.FixMatch(nn.Linear(4, CLASSES), p_cutoff=0.4, use_cat=use_cat)
        labelled, unlabelled = task.losses(next(iter(loader())))
        (labelled + unlabelled).backward()
        assert unlabelled.item() > 0
        found.append([labelled.item(), unlabelled.item(), *(p.grad.numpy() for p in task.model.parameters())])
    for one, other in zip(*found, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-5, atol=1e-7)


def test_masked_losses_are_divided_by_all_examples() -> None:
    said, mask = confident(weft.tensor([[0.9, 0.1], [0.5, 0.5], [0.05, 0.95]]), 0.9)
    assert said.tolist() == [0, 0, 1] and mask.tolist() == [1, 0, 1]
    assert masked_mean(weft.tensor([3.0, 100.0, 6.0]), mask).item() == 3.0


def test_flexible_thresholds() -> None:
    """β_c / (2 − β_c) times the cutoff; while most examples have no label yet their number is the maximum."""
    task = semi.FlexMatch(nn.Linear(2, 3), num_classes=3, ulb_dest_len=10, p_cutoff=0.8)
    task.selected.copy_(weft.tensor([0, 0, 0, 0, 1, 1, -1, -1, -1, -1]))
    np.testing.assert_allclose(task.progress().numpy(), [1, 0.5, 0])
    task.selected.copy_(weft.tensor([0, 0, 1, -1, -1, -1, -1, -1, -1, -1]))
    np.testing.assert_allclose(task.progress().numpy(), [2 / 7, 1 / 7, 0])
    batch = semi.SemiBatch(*[weft.zeros(1)] * 4, weft.tensor([3, 4]), weft.zeros(2))
    task.selected.copy_(weft.tensor([0, 0, 0, 0, 1, 1, 1, 1, -1, -1]))
    said, mask = task.choose(weft.tensor([[0.1, 0.7, 0.2], [0.1, 0.0, 0.9]]), batch)
    assert said.tolist() == [1, 2] and mask.tolist() == [0, 1]  # thresholds 0.8, 0.8, 0
    assert task.selected.tolist() == [0, 0, 0, 0, 2, 1, 1, 1, -1, -1]  # only what passed 0.8 is noted


def test_free_thresholds_follow_confidence() -> None:
    task = semi.FreeMatch(nn.Linear(2, 2), num_classes=2, ema_p=0.5)
    task.choose(weft.tensor([[0.9, 0.1], [0.8, 0.2]]), None)
    np.testing.assert_allclose(task.time_p.item(), 0.5 * 0.5 + 0.5 * 0.85, rtol=1e-6)
    np.testing.assert_allclose(task.p_model.numpy(), [0.675, 0.325], rtol=1e-6)
    np.testing.assert_allclose(task.thresholds().numpy(), [0.675, 0.675 * 0.325 / 0.675], rtol=1e-6)
    np.testing.assert_allclose(task.label_hist.numpy(), [0.75, 0.25])


def test_signals_are_annealed() -> None:
    """A labelled example that is known better than η(t) waits; the others' mean is the loss."""
    task = semi.UDA(nn.Linear(2, 2), num_classes=2, tsa_schedule="linear", num_train_iter=10)
    logits = weft.tensor([[0.9, 0.1], [0.3, 0.7]]).log()
    y = weft.tensor([0, 0])
    assert task.ceiling(weft.tensor(5)).item() == 0.75
    task.iterations.fill_(5)
    np.testing.assert_allclose(task.loss(logits, y).item(), -math.log(0.3), rtol=1e-6)
    task.iterations.fill_(10)
    np.testing.assert_allclose(task.loss(logits, y).item(), -(math.log(0.3) + math.log(0.9)) / 2, rtol=1e-6)
    assert task.eval().loss(logits, y).item() == pytest.approx(-(math.log(0.3) + math.log(0.9)) / 2)


def test_quality_of_pseudo_labels() -> None:
    quality = semi.PseudoLabelQuality()
    quality.update(weft.tensor([0, 1]), weft.tensor([0.0, 0.0]), weft.tensor([0, 1]))
    assert math.isnan(quality.compute()["accuracy"]) and quality.compute()["utilisation"] == 0
    quality.update(weft.tensor([2, 1]), weft.tensor([1.0, 1.0]), weft.tensor([2, -1]))
    assert quality.compute() == {"accuracy": 1.0, "utilisation": 0.5}


def test_pseudo_labels_are_watched_over_time() -> None:
    weft.manual_seed(1)
    task = METHODS["fixmatch"]()
    rows = Trainer(max_epochs=2, run_folder=False, progress=False, compile=False).fit(task, loader()).rows
    assert all({"pseudo_accuracy", "pseudo_utilisation", "sup_loss", "unsup_loss"} <= row.keys() for row in rows)


# ------------------------------------------------------------------------------------------- formulas


def test_sharpening() -> None:
    p = weft.tensor([[0.5, 0.3, 0.2], [0.1, 0.45, 0.45]])
    np.testing.assert_allclose(semi.sharpen(p, 1.0).numpy(), p.numpy(), rtol=1e-6)
    np.testing.assert_allclose(
        semi.sharpen(p, 0.5).numpy(), p.numpy() ** 2 / (p.numpy() ** 2).sum(1, keepdims=True), rtol=1e-5
    )
    assert semi.sharpen(p[:1], 1e-3).tolist() == [[1, 0, 0]]
    np.testing.assert_allclose(semi.sharpen(p[1:], 1e-3).numpy(), [[0, 0.5, 0.5]])  # a tie stays one


@pytest.mark.parametrize("alpha", [0.1, 0.5, 0.75, 1.0, 4.0])
def test_shares_of_mixtures_are_beta(alpha) -> None:
    """max(λ, 1 − λ) has the distribution function I(α, α, x) − I(α, α, 1 − x)."""
    weft.manual_seed(2)
    shares = beta_shares(alpha, 4000).numpy().astype(np.float64)
    law = stats.beta(alpha, alpha)
    assert (shares >= 0.5).all() and (shares <= 1).all()
    cut = shares[shares < 0.9999]  # where float32 still tells λ from 1
    whole = law.cdf(0.9999) - law.cdf(1 - 0.9999)
    assert stats.kstest(cut, lambda x: (law.cdf(x) - law.cdf(1 - x)) / whole).pvalue > 1e-3


def test_mixtures_of_known_numbers(monkeypatch) -> None:
    x, y = weft.tensor([[0.0, 4.0], [8.0, 0.0]]), weft.tensor([[1.0, 0.0], [0.0, 1.0]])
    share = weft.tensor([0.75, 1.0])
    assert mixed(x, x.flip(0), share).tolist() == [[2, 3], [8, 0]]
    task = semi.MixMatch(nn.Linear(2, 2), num_classes=2)
    monkeypatch.setattr("weft.train.methods.semi.mixmatch.beta_shares", lambda alpha, count: weft.full((count,), 0.75))
    monkeypatch.setattr(weft, "rand", lambda n: weft.arange(n, 0, -1).float())
    found, target = task.mixed_up(x, y)
    assert found.tolist() == [[2, 3], [6, 1]] and target.tolist() == [[0.75, 0.25], [0.25, 0.75]]


def test_guessed_labels_are_sharpened_means() -> None:
    weft.manual_seed(0)
    task = semi.MixMatch(nn.Linear(4, CLASSES), num_classes=CLASSES, T=0.5)
    batch = next(iter(loader()))
    p = (task.model(batch.x_ulb_w).softmax(1) + task.model(batch.x_ulb_s).softmax(1)).detach().numpy() / 2
    np.testing.assert_allclose(task.guessed(batch).numpy(), p**2 / (p**2).sum(1, keepdims=True), rtol=1e-5)


def test_distribution_alignment() -> None:
    """p · p_target / p_model, normalised; a model whose mean is the target is left alone."""
    align = semi.DistributionAlignment(3, momentum=0.9, p_target=weft.tensor([2.0, 1.0, 1.0]))
    p = weft.tensor([[0.7, 0.2, 0.1], [0.1, 0.8, 0.1]])
    model = 0.9 / 3 + 0.1 * p.numpy().mean(0)
    expected = p.numpy() * np.array([0.5, 0.25, 0.25]) / model
    np.testing.assert_allclose(align(p).numpy(), expected / expected.sum(1, keepdims=True), rtol=1e-5)
    still = semi.DistributionAlignment(2, momentum=0.0)
    even = weft.tensor([[0.8, 0.2], [0.2, 0.8]])
    np.testing.assert_allclose(still(even).numpy(), even.numpy(), rtol=1e-6)


def test_remixmatch_anchors_and_turns() -> None:
    x = weft.arange(8).reshape(2, 1, 2, 2)
    assert semi.remixmatch.turned(x, weft.tensor([0, 1])).tolist() == [
        x[0].tolist(),
        weft.rot90(x[1], 1, (1, 2)).tolist(),
    ]
    weft.manual_seed(0)
    images, y = weft.rand(8, 1, 4, 4), weft.arange(8) % 2
    body = nn.Sequential(nn.Flatten(), nn.Linear(16, 5))
    task = semi.ReMixMatch(body, nn.Linear(5, 2), nn.Linear(5, 4), num_classes=2)
    data = semi.SemiLoader(images, y, [0, 1], batch_size=2, uratio=2, seed=0)
    supervised, unlabelled = task.losses(next(iter(data)))
    (supervised + unlabelled).backward()
    assert all(p.grad is not None and bool(p.grad.isfinite().all()) for p in task.parameters() if p.requires_grad)


def test_distillation_as_in_torch_and_its_limit() -> None:
    import torch

    student, tutor = np.random.default_rng(0).normal(size=(2, 5, 3))
    ours = semi.distillation_loss(weft.tensor(student), weft.tensor(tutor), 3.0).item()
    theirs = torch.nn.functional.kl_div(
        torch.log_softmax(torch.tensor(student) / 3, 1),
        torch.softmax(torch.tensor(tutor) / 3, 1),
        reduction="batchmean",
    )
    np.testing.assert_allclose(ours, 9 * theirs.item(), rtol=1e-12)
    z = weft.tensor(student - student.mean(1, keepdims=True), requires_grad=True)
    v = tutor - tutor.mean(1, keepdims=True)
    semi.distillation_loss(z, weft.tensor(v), 1e4).backward()
    np.testing.assert_allclose(z.grad.numpy(), (z.detach().numpy() - v) / 3 / 5, atol=1e-4)


@pytest.mark.parametrize("kind", ["linear", "sigmoid"])
def test_ramps(kind) -> None:
    ramp = semi.Ramp(10, kind, start=5)
    curve = (lambda t: t) if kind == "linear" else (lambda t: math.exp(-5 * (1 - t) ** 2))
    values = [ramp(weft.tensor(step)).item() for step in (0, 4, 5, 10, 15, 99)]
    np.testing.assert_allclose(values, [0, 0, curve(0), curve(0.5), 1, 1], rtol=1e-6)
    assert semi.Ramp(0, kind)(weft.tensor(0)).item() == 1


def test_steps_count_on_in_ramps() -> None:
    task = trained("pi-model", "error")
    assert task.iterations.item() == 4  # 24 unlabelled points, six a step


def test_validation_and_prediction_are_those_of_a_classifier() -> None:
    x, y = points()
    task = trained("fixmatch", False)
    data = DataLoader(TensorDataset(x, y), batch_size=8)
    figures = Trainer(run_folder=False, progress=False, compile=False).test(task, data)
    assert figures["test_accuracy"] == pytest.approx((task.eval()(x).argmax(1) == y).double().mean().item())


@pytest.mark.parametrize(
    ("act", "words"),
    [
        (lambda: semi.labelled_subset(weft.arange(6) % 3, 4, seed=0), "evenly to 3"),
        (lambda: semi.labelled_subset(weft.tensor([0, 1]), 4, seed=0), "has 1 examples, 2"),
        (lambda: semi.labelled_subset(weft.tensor([-1, -1]), 2, seed=0), "0 classes"),
        (lambda: loader(uratio=0), "uratio"),
        (lambda: loader(batch_size=30), "make no batch"),
        (lambda: semi.SemiLoader(*points(), [99]), "lie in"),
        (lambda: semi.SemiLoader(points()[0], weft.full((ROWS,), -1), [0]), "label −1"),
        (lambda: loader().load_state_dict({"seed": 0, "epoch": 0, "batches_given": 0}), "no labelled rows"),
        (lambda: semi.Ramp(3, "cubic"), "cubic"),
        (lambda: semi.sharpen(weft.ones(2), 0.0), "temperature"),
        (lambda: beta_shares(0.0, 3), "alpha"),
        (lambda: semi.ema_teacher(network(), 1.5), "decay"),
        (lambda: semi.PiModel(network(), ulb_loss_ratio=-1.0), "ulb_loss_ratio"),
        (lambda: semi.PiModel(network()).taught(weft.zeros(1, 4)), "no teacher"),
        (lambda: semi.PseudoLabel(network(), p_cutoff=2.0), "p_cutoff"),
        (lambda: semi.FixMatch(network(), T=0.0), "temperature"),
        (lambda: semi.VAT(network(), vat_eps=0.0), "vat_eps"),
        (lambda: semi.virtual_adversary(network(), weft.zeros(1, 4), weft.zeros(1, 3), num_iters=0), "num_iters"),
        (lambda: semi.UDA(network(), num_classes=3, tsa_schedule="square"), "square"),
        (lambda: semi.UDA(network(), num_classes=3, tsa_schedule="log"), "num_train_iter"),
        (lambda: semi.FlexMatch(network(), num_classes=3, ulb_dest_len=0), "ulb_dest_len"),
        (lambda: semi.TemporalEnsembling(network(), num_classes=3, ulb_dest_len=5, ensemble_m=1.0), "ensemble_m"),
        (lambda: semi.Distillation(network(), tutor=network(), T=0.0), "temperature"),
        (lambda: semi.MixMatch(network(), num_classes=3, mixup_alpha=0.0), "mixup_alpha"),
        (lambda: semi.DistributionAlignment(3, momentum=2.0), "momentum"),
        (lambda: semi.Ladder(LadderNetwork(4, (6,), 3), denoising_costs=()), "at least one"),
    ],
)
def test_errors_say_what_is_wrong(act, words) -> None:
    with pytest.raises(OptionError, match=words):
        act()


@pytest.mark.parametrize(
    ("act", "words"),
    [
        (lambda: semi.SemiLoader(weft.zeros(3, 2), weft.zeros(2, dtype=weft.int64), [0]), "x \\(N"),
        (lambda: semi.SemiLoader(*points(), [0, 0]), "that differ"),
        (lambda: semi.DistributionAlignment(3, p_target=weft.ones(2)), "p_target"),
        (lambda: semi.remixmatch.turned(weft.zeros(1, 1, 2, 3), weft.zeros(1, dtype=weft.int64)), "square"),
    ],
)
def test_shapes_are_checked(act, words) -> None:
    with pytest.raises(ShapeError, match=words):
        act()
