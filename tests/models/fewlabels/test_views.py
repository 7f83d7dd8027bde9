"""Losses of views against closed forms, naive loops and NumPy; queues, slow copies, gradients that must not flow."""

from __future__ import annotations

import copy

import numpy as np
import pytest
import torch

import weft
from weft import nn
from weft.data import DataLoader, TensorDataset, load_digits
from weft.data.augment import RandomCrop, on_views
from weft.errors import OptionError, ShapeError
from weft.models.fewlabels import (
    BYOL,
    BarlowTwins,
    BarlowTwinsLoss,
    MemoryBank,
    MoCo,
    NegativeCosineSimilarity,
    NTXentLoss,
    ProjectionHead,
    SimCLR,
    SimSiam,
    VICReg,
    VICRegLoss,
    ViewTraining,
    effective_rank,
    follower,
    linear_probe,
    std_of_l2_normalized,
    update_momentum,
)
from weft.train import Trainer

rng = np.random.default_rng(0)


def rows(*shape: int) -> np.ndarray:
    return rng.normal(size=shape)


# ------------------------------------------------------------------------------------------- NT-Xent


@pytest.mark.parametrize("tau", [0.1, 0.5, 2.0])
@pytest.mark.parametrize("n", [1, 2, 5])
def test_nt_xent_of_orthogonal_pairs(n, tau):
    """Partners equal, all others orthogonal: −log (e^{1/τ} / (e^{1/τ} + 2N − 2))."""
    z = weft.eye(n, dtype=weft.float64) * 3.0  # lengths do not count
    assert NTXentLoss(tau)(z, z).item() == pytest.approx(np.log1p((2 * n - 2) * np.exp(-1 / tau)), rel=1e-12)


def naive_nt_xent(a: np.ndarray, b: np.ndarray, tau: float) -> float:
    z, n, total = np.concatenate([a, b]), len(a), 0.0
    for i in range(2 * n):
        cos = lambda j, i=i: z[i] @ z[j] / np.linalg.norm(z[i]) / np.linalg.norm(z[j]) / tau
        others = sum(np.exp(cos(k)) for k in range(2 * n) if k != i)
        total -= np.log(np.exp(cos((i + n) % (2 * n))) / others)
    return total / (2 * n)


def test_nt_xent_is_the_naive_double_loop():
    a, b = rows(6, 4), rows(6, 4)
    x, y = (weft.tensor(v, requires_grad=True) for v in (a, b))
    loss = NTXentLoss(0.3)(x, y)
    assert loss.item() == pytest.approx(naive_nt_xent(a, b, 0.3), rel=1e-12)
    loss.backward()
    step = np.zeros_like(a)
    step[2, 1] = 1e-6
    slope = (naive_nt_xent(a + step, b, 0.3) - naive_nt_xent(a - step, b, 0.3)) / 2e-6
    assert x.grad[2, 1].item() == pytest.approx(slope, rel=1e-6)


def test_nt_xent_against_a_queue_is_moco():
    """Row i against its key and the keys that were there before; then its own key joins them."""
    bank = MemoryBank(5, 3).double()
    before, q, k = bank.bank.numpy().copy(), rows(2, 3), rows(2, 3)
    unit = lambda v: v / np.linalg.norm(v, axis=-1, keepdims=True)
    scores = np.concatenate([(unit(q) * unit(k)).sum(1, keepdims=True), unit(q) @ unit(before).T], 1) / 0.2
    expected = torch.nn.functional.cross_entropy(torch.tensor(scores), torch.zeros(2, dtype=torch.long))
    query, key = (weft.tensor(v, requires_grad=True) for v in (q, k))
    loss = NTXentLoss(0.2, bank)(query, key)
    loss.backward()
    assert loss.item() == pytest.approx(expected.item(), rel=1e-12)
    assert query.grad is not None and key.grad is None
    np.testing.assert_allclose(bank.ordered().numpy(), np.concatenate([before[2:], unit(k)]), rtol=1e-12)


@pytest.mark.parametrize(
    "size, sizes", [(4, (2, 2, 2)), (5, (2, 3, 1, 5)), (3, (1,) * 7), (4, (4, 4)), (7, (3, 3, 3, 3))]
)
def test_a_queue_holds_the_last_keys_in_their_order(size, sizes):
    bank, seen = MemoryBank(size, 2).double(), []
    seen += bank.bank.tolist()
    for count in sizes:
        keys = rows(count, 2)
        bank.update(weft.tensor(keys))
        seen += (keys / np.linalg.norm(keys, axis=1, keepdims=True)).tolist()
    np.testing.assert_allclose(bank.ordered().numpy(), seen[-size:], rtol=1e-12)


# ------------------------------------------------------------------------------------------- others, in NumPy


def test_barlow_twins_in_numpy():
    a, b, lam = rows(7, 4), rows(7, 4), 0.01
    z = [(v - v.mean(0)) / np.sqrt(v.var(0) + 1e-5) for v in (a, b)]
    c = z[0].T @ z[1] / 7
    expected = ((np.diag(c) - 1) ** 2).sum() + lam * (c**2).sum() - lam * (np.diag(c) ** 2).sum()
    assert BarlowTwinsLoss(lam)(weft.tensor(a), weft.tensor(b)).item() == pytest.approx(expected, rel=1e-10)


def test_barlow_twins_is_zero_for_views_that_agree_in_unrelated_features():
    z = weft.tensor([[1.0, 1.0], [1.0, -1.0], [-1.0, 1.0], [-1.0, -1.0]], dtype=weft.float64)
    assert BarlowTwinsLoss(eps=0.0)(z, z * 5 + 3).item() == pytest.approx(0.0, abs=1e-20)


def test_vicreg_in_numpy():
    a, b = rows(8, 5) * 0.5, rows(8, 5)
    lacking = [np.maximum(0, 1 - np.sqrt(v.var(0, ddof=1) + 1e-4)).mean() for v in (a, b)]
    off = [np.cov(v.T) * (1 - np.eye(5)) for v in (a, b)]
    expected = 3 * ((a - b) ** 2).mean() + 5 * np.mean(lacking) + 7 * sum((c**2).sum() / 5 for c in off)
    assert VICRegLoss(3, 5, 7)(weft.tensor(a), weft.tensor(b)).item() == pytest.approx(expected, rel=1e-10)


def test_negative_cosine_similarity_is_pytorchs():
    a, b = rows(6, 3), rows(6, 3)
    expected = -torch.nn.functional.cosine_similarity(torch.tensor(a), torch.tensor(b)).mean().item()
    assert NegativeCosineSimilarity()(weft.tensor(a), weft.tensor(b)).item() == pytest.approx(expected, rel=1e-12)


# ------------------------------------------------------------------------------------------- slow copies


def test_momentum_in_closed_form():
    """A model that stands still at θ: θ'_n = m^n θ'_0 + (1 − m^n) θ, running statistics included; counts are copied."""
    model = nn.Sequential(nn.Linear(2, 3), nn.BatchNorm1d(3)).double()
    target = follower(model)
    for value in (*model.parameters(), model[1].running_mean, model[1].running_var):
        value.data.fill_(5.0)
    model[1].num_batches_tracked.fill_(9)
    first = {name: x.numpy().copy() for name, x in target.state_dict().items()}
    for _ in range(4):
        update_momentum(model, target, 0.9)
    for name, value in target.state_dict().items():
        expected = 9 if "num_batches" in name else 0.9**4 * first[name] + (1 - 0.9**4) * 5.0
        np.testing.assert_allclose(value.numpy(), expected, rtol=1e-12)
    assert not any(p.requires_grad for p in target.parameters())


def test_a_follower_keeps_its_running_statistics_to_itself():
    layer = follower(nn.BatchNorm1d(2))
    layer.train()(weft.randn(8, 2) + 3)
    assert layer.running_mean.tolist() == [0, 0] and layer.running_var.tolist() == [1, 1]


def make(kind: type, **options) -> nn.Module:
    encoder = nn.Sequential(nn.Flatten(), nn.Linear(9, 6), nn.BatchNorm1d(6), nn.ReLU())
    return kind(encoder, 6, hidden=8, **options)


MODELS = {
    "simclr": lambda: make(SimCLR, projection=4),
    "moco": lambda: make(MoCo, projection=4, queue=12),
    "byol": lambda: make(BYOL, projection=4),
    "simsiam": lambda: make(SimSiam, bottleneck=4),
    "vicreg": lambda: make(VICReg),
    "barlow": lambda: make(BarlowTwins),
}


def two_views(n: int = 4) -> tuple[weft.Tensor, weft.Tensor]:
    x = weft.randn(n, 1, 3, 3)
    return x, x + 0.1 * weft.randn(n, 1, 3, 3)


@pytest.mark.parametrize("name", ["moco", "byol"])
def test_targets_take_no_gradient_and_follow_the_model(name):
    weft.manual_seed(0)
    model = MODELS[name]()
    model.loss(*two_views()).backward()
    target = [*model.target_encoder.parameters(), *model.target_head.parameters()]
    online = [*model.encoder.parameters(), *model.projection_head.parameters()]
    assert all(p.grad is None and not p.requires_grad for p in target)
    assert all(p.grad is not None for p in online)
    before = [p.numpy().copy() for p in target]
    for p in model.encoder.parameters():
        p.data.add_(1.0)
    model.follow()
    m = model.momentum
    for was, own, now in zip(before, online, target, strict=True):
        np.testing.assert_allclose(now.numpy(), m * was + (1 - m) * own.detach().numpy(), rtol=1e-5, atol=1e-6)


def test_simsiam_differentiates_the_predicting_side_alone():
    """The gradient is that of the loss with the other side written in as a constant, and not that of the loss without stops."""
    weft.manual_seed(0)
    model = MODELS["simsiam"]()
    a, b = two_views()
    parameters = list(model.parameters())
    own = weft.autograd.grad(model.loss(a, b), parameters)
    z = [model.projection_head(model.encoder(x)) for x in (a, b)]
    p = [model.prediction_head(x) for x in z]
    fixed = [weft.tensor(x.detach().numpy()) for x in z]
    cos = nn.CosineSimilarity(dim=-1)
    stopped = weft.autograd.grad(-(cos(p[0], fixed[1]) + cos(p[1], fixed[0])).mean() / 2, parameters, retain_graph=True)
    through = weft.autograd.grad(-(cos(p[0], z[1]) + cos(p[1], z[0])).mean() / 2, parameters)
    assert all(np.allclose(x.numpy(), y.numpy(), atol=1e-6) for x, y in zip(own, stopped, strict=True))
    assert not all(np.allclose(x.numpy(), y.numpy(), atol=1e-4) for x, y in zip(own, through, strict=True))


@pytest.mark.parametrize("name", MODELS)
def test_compiled_steps_are_whole_and_equal_eager_ones(name):
    weft.manual_seed(0)
    model = MODELS[name]()
    other, views = copy.deepcopy(model), [two_views() for _ in range(3)]

    def stepping(model):
        optimizer = weft.optim.SGD([p for p in model.parameters() if p.requires_grad], lr=0.1, momentum=0.9)

        def step(a, b):
            model.follow()
            loss = model.loss(a, b)
            loss.backward()
            optimizer.step()
            optimizer.zero_grad()
            return loss.detach()

        return step

    eager, compiled = stepping(model), weft.compile(stepping(other), fullgraph=True)
    for pair in views:
        assert compiled(*pair).item() == pytest.approx(eager(*pair).item(), rel=2e-4, abs=2e-5)
    for (key, x), y in zip(model.state_dict().items(), other.state_dict().values(), strict=True):
        np.testing.assert_allclose(y.numpy(), x.numpy(), rtol=2e-3, atol=2e-4, err_msg=key)


# ------------------------------------------------------------------------------------------- collapse


def test_collapse_is_seen():
    """Uniform directions have deviation 1/√D in every coordinate; one direction has none; a plane has rank 2."""
    spread = weft.tensor(rows(4000, 16))
    assert std_of_l2_normalized(spread).item() == pytest.approx(0.25, rel=0.02)
    assert effective_rank(spread).item() == pytest.approx(16, rel=0.01)
    line = weft.tensor(np.abs(rows(50, 1)) * rows(1, 16))
    assert std_of_l2_normalized(line).item() < 1e-7
    plane = weft.tensor(rows(500, 2) @ rows(2, 16))
    assert std_of_l2_normalized(plane).item() > 0.1 and effective_rank(plane).item() <= 2.0001


# ------------------------------------------------------------------------------------------- heads, views, refusals


def test_heads_end_as_they_are_told():
    x = weft.randn(64, 5)
    plain = ProjectionHead((5, 7, 3), last="plain")
    assert sum(p.numel() for p in plain[-1].parameters()) == 0
    z = plain(x)
    np.testing.assert_allclose(z.mean(0).detach().numpy(), 0, atol=1e-5)
    assert [type(part).__name__ for part in ProjectionHead((5, 7, 3), norm=False)] == ["Linear", "ReLU", "Linear"]
    assert len(ProjectionHead((5, 3))) == 1


def test_views_are_of_the_same_images_and_differ():
    images = weft.arange(4).reshape(4, 1, 1, 1) * 100 + weft.arange(36).reshape(1, 1, 6, 6)
    (a, b), labels = on_views(RandomCrop(3))((images, weft.arange(4)), weft.Generator().manual_seed(0))
    assert (a // 100).tolist() == (b // 100).tolist() and (a[:, 0, 0, 0] // 100).tolist() == labels.tolist()
    assert (a != b).any()
    (again, _), _ = on_views(RandomCrop(3))((images, labels), weft.Generator().manual_seed(0))
    assert (again == a).all()
    assert [len(v) for v in on_views([RandomCrop(3), RandomCrop(2), RandomCrop(1)])(images)[0]] == [4, 4, 4]


@pytest.mark.parametrize(
    "wrong, error",
    [
        (lambda: NTXentLoss(0.0), OptionError),
        (lambda: NTXentLoss()(weft.zeros(2, 3), weft.zeros(3, 3)), ShapeError),
        (lambda: VICRegLoss()(weft.zeros(1, 3), weft.zeros(1, 3)), ShapeError),
        (lambda: BarlowTwinsLoss()(weft.zeros(0, 3), weft.zeros(0, 3)), ShapeError),
        (lambda: MemoryBank(0, 3), OptionError),
        (lambda: MemoryBank(2, 3).update(weft.zeros(3, 3)), ShapeError),
        (lambda: MemoryBank(2, 3).update(weft.zeros(2, 4)), ShapeError),
        (lambda: ProjectionHead((3,)), OptionError),
        (lambda: ProjectionHead((3, 2), last="batch"), OptionError),
        (lambda: update_momentum(nn.Linear(1, 1), nn.Linear(1, 1), 1.1), OptionError),
        (lambda: update_momentum(nn.Linear(1, 1, bias=False), nn.Linear(1, 1), 0.5), OptionError),
        (lambda: std_of_l2_normalized(weft.zeros(1, 3)), ShapeError),
        (lambda: on_views([]), OptionError),
    ],
)
def test_what_cannot_be_is_refused(wrong, error):
    with pytest.raises(error, match=r"expected|lies in|must be|last is|has no"):
        wrong()


# ------------------------------------------------------------------------------------------- a short training


def test_simclr_learns_digits_without_labels():
    """Ten labels of each digit: features after two seconds of SimCLR against the same network untrained."""
    images, labels = load_digits()
    x = weft.tensor(images[:, None] / 16, dtype=weft.float32)
    y = weft.tensor(labels.astype(np.int64))
    train, test = slice(0, 1300), slice(1300, None)
    weft.manual_seed(0)
    encoder = nn.Sequential(
        nn.Conv2d(1, 16, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2), nn.Flatten(), nn.Linear(256, 32)
    )
    model = SimCLR(encoder, 32, hidden=64, projection=32, temperature=0.2)
    few = np.concatenate([np.flatnonzero(labels[train] == k)[:3] for k in range(10)])

    def judged() -> float:
        return linear_probe(model.embed, x[few], y[few], ridge=3.0).accuracy(x[test], y[test])

    before = judged()
    views = on_views(RandomCrop(8, padding=1))
    loader = DataLoader(
        TensorDataset(x[train], y[train]), 100, shuffle=True, drop_last=True, seed=0, batch_transform=views
    )
    trainer = Trainer(max_epochs=6, progress=False, run_folder=None, compile="error")
    trainer.fit(ViewTraining(model), loader)
    assert judged() > before + 0.05
    assert effective_rank(model.embed(x[test])).item() > 8
