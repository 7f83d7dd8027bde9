"""Deep embedded clustering: formulas against NumPy, the gradient of the paper, and a clustering that it mends."""

from __future__ import annotations

import numpy as np
import pytest
import sklearn.cluster
import torch

import weft
from weft.errors import OptionError, ShapeError
from weft.metrics import clustering_accuracy
from weft.models.autoencoders import (
    Autoencoder,
    DeepAutoencoder,
    EmbeddedClustering,
    soft_assignment,
    target_distribution,
)


@pytest.fixture
def codes():
    rng = np.random.default_rng(0)
    return rng.standard_normal((9, 3)), rng.standard_normal((4, 3))


@pytest.mark.parametrize("freedom", [1.0, 3.0])
def test_assignments_are_students(codes, freedom):
    z, centres = codes
    expected = np.empty((9, 4))
    for i in range(9):
        for j in range(4):
            expected[i, j] = (1 + np.sum((z[i] - centres[j]) ** 2) / freedom) ** (-(freedom + 1) / 2)
    expected /= expected.sum(1, keepdims=True)
    found = soft_assignment(weft.tensor(z), weft.tensor(centres), freedom)
    np.testing.assert_allclose(found, expected, rtol=1e-12)


def test_in_spreads_assignments_do_not_depend_on_the_scale_of_codes():
    """s is the root of the mean variance within clusters that k-means leaves: scikit-learn's inertia."""
    rng = np.random.default_rng(1)
    x = np.repeat(5 * np.eye(3), 40, 0) + rng.standard_normal((120, 3))
    inertia = sklearn.cluster.KMeans(3, n_init=5, random_state=0).fit(x).inertia_
    found = []
    for scale in (1.0, 100.0):
        model = EmbeddedClustering(Autoencoder(weft.nn.Identity(), weft.nn.Identity()), 3, 3, 2.0, in_spreads=True)
        model.double().start(weft.tensor(scale * x), generator=weft.Generator().manual_seed(0))
        assert abs(model.spread.item() / scale - (inertia / 360) ** 0.5) < 1e-6
        found.append(model.assignments(weft.tensor(scale * x)).numpy())
    np.testing.assert_allclose(*found, rtol=1e-6)
    with pytest.raises(OptionError, match="freedom must be above 0"):
        EmbeddedClustering(Autoencoder(weft.nn.Identity(), weft.nn.Identity()), 3, 3, 0.0)


def test_targets_sharpen_and_level(codes):
    q = soft_assignment(*(weft.tensor(part) for part in codes)).numpy()
    p = target_distribution(weft.tensor(q)).numpy()
    expected = np.empty_like(q)
    for i in range(9):
        weights = [q[i, j] ** 2 / q[:, j].sum() for j in range(4)]
        expected[i] = np.array(weights) / sum(weights)
    np.testing.assert_allclose(p, expected, rtol=1e-12)
    level = weft.tensor(np.stack([np.roll(q[0], k) for k in range(4)]))  # all clusters of one size
    assert target_distribution(level)[0].max().item() > q[0].max()


def test_the_gradient_is_the_papers(codes):
    """∂L/∂zᵢ = 2 Σⱼ (1 + ‖zᵢ − μⱼ‖²)⁻¹ (p_ij − q_ij)(zᵢ − μⱼ), ∂L/∂μⱼ its negative, for the sum over rows."""
    z, centres = (weft.tensor(part).requires_grad_() for part in codes)
    q = soft_assignment(z, centres)
    p = target_distribution(q.detach())
    model = EmbeddedClustering(Autoencoder(weft.nn.Identity(), weft.nn.Identity()), 4, 3).double()
    with weft.no_grad():
        model.centres.copy_(centres)
    (model.loss(z, p) * 9).backward()
    apart = z.detach().numpy()[:, None] - centres.detach().numpy()  # (9, 4, 3)
    pull = ((p - q.detach()).numpy() / (1 + (apart**2).sum(2)))[..., None] * apart
    np.testing.assert_allclose(z.grad, 2 * pull.sum(1), rtol=1e-8, atol=1e-12)
    np.testing.assert_allclose(model.centres.grad, -2 * pull.sum(0), rtol=1e-8, atol=1e-12)


def test_the_loss_is_a_divergence(codes):
    z, centres = (weft.tensor(part) for part in codes)
    model = EmbeddedClustering(Autoencoder(weft.nn.Identity(), weft.nn.Identity()), 4, 3).double()
    with weft.no_grad():
        model.centres.copy_(centres)
    q, p = model(z), model.targets(z)
    expected = (p.numpy() * np.log(p.numpy() / q.detach().numpy())).sum(1).mean()
    assert model.loss(z, p).item() == pytest.approx(expected, rel=1e-10)
    assert model.loss(z, q.detach()).item() == pytest.approx(0, abs=1e-12)
    with pytest.raises(ShapeError, match=r"\(9, 4\)"):
        model.loss(z, p[:3])


def test_it_separates_what_touches():
    """Three clouds in ten dimensions that touch: refined codes must lie closer to their centres, and name them as well."""
    rng = np.random.default_rng(0)
    labels = np.repeat([0, 1, 2], 200)
    x = weft.tensor((rng.standard_normal((600, 10)) + 2.2 * np.eye(10)[labels]).astype(np.float32))
    weft.manual_seed(0)
    generator = weft.Generator().manual_seed(0)
    autoencoder = DeepAutoencoder(10, (32,), 3)
    trained(autoencoder.parameters(), lambda: autoencoder.loss(x), 200, 1e-2)
    model = EmbeddedClustering(autoencoder, 3, 3)
    before = clustering_accuracy(model.start(x, generator=generator).labels, labels)
    sure = model.assignments(x).max(1).values.mean().item()
    for _ in range(5):
        target = model.targets(x)
        trained(
            [*autoencoder.encoder.parameters(), model.centres], lambda target=target: model.loss(x, target), 30, 1e-3
        )
    assert model.assignments(x).max(1).values.mean().item() > sure + 0.1
    assert clustering_accuracy(model.predict(x), labels) > max(before - 0.01, 0.85)


@pytest.mark.parametrize(("both", "low", "high"), [(False, -1.0, -0.1), (True, 0.0, 1.0)])
def test_moved_rows_alone_let_clusters_melt(both, low, high):
    """Targets are read from rows as they are: where these do not learn as well, one cluster swallows the others."""
    labels = np.repeat(np.arange(6), 150)
    clouds = np.random.default_rng(2).standard_normal((900, 12)) + 2.8 * np.eye(12)[labels]
    x = weft.tensor(clouds.astype(np.float32))
    weft.manual_seed(2)
    generator = weft.Generator().manual_seed(2)
    moved = lambda: x + 2 * weft.randn(900, 12, generator=generator)
    net = DeepAutoencoder(12, (48,), 4)
    trained(net.parameters(), lambda: ((net.decoder(net.encode(moved())) - x) ** 2).sum(1).mean(), 400, 5e-3)
    model = EmbeddedClustering(net, 6, 4, 3, in_spreads=True)
    before = clustering_accuracy(model.start(x, 5, generator).labels, labels)
    for _ in range(8):
        target = model.targets(x)
        loss = lambda t=target: model.loss(moved(), t) + (model.loss(x, t) if both else 0)
        trained([*net.encoder.parameters(), model.centres], loss, 60, 1e-3)
    assert low <= clustering_accuracy(model.predict(x), labels) - before <= high


def test_a_refinement_is_pytorchs():
    """Twenty compiled steps with targets made anew every five, against the same in PyTorch."""
    x = np.random.default_rng(3).standard_normal((60, 2)).astype(np.float32)
    model = EmbeddedClustering(Autoencoder(weft.nn.Linear(2, 2), weft.nn.Identity()), 3, 2)
    model.start(weft.tensor(x), 2, weft.Generator().manual_seed(0))
    encoder = torch.nn.Linear(2, 2)
    encoder.load_state_dict({n: torch.tensor(v.numpy()) for n, v in model.autoencoder.encoder.state_dict().items()})
    centres = torch.tensor(model.centres.detach().numpy().copy(), requires_grad=True)
    theirs = torch.optim.Adam([*encoder.parameters(), centres], lr=0.02)
    ours = weft.optim.Adam([*model.autoencoder.encoder.parameters(), model.centres], lr=0.02)

    @weft.compile
    def step(x, target):
        ours.zero_grad()
        model.loss(x, target).backward()
        ours.step()

    def shares(z):
        q = 1 / (1 + torch.cdist(z, centres) ** 2)
        return q / q.sum(1, keepdim=True)

    rows = torch.tensor(x)
    for _ in range(4):
        target = model.targets(weft.tensor(x))
        q = shares(encoder(rows)).detach()
        p = q**2 / q.sum(0)
        p = p / p.sum(1, keepdim=True)
        np.testing.assert_allclose(target, p, rtol=2e-4)
        for _ in range(5):
            step(weft.tensor(x), target)
            theirs.zero_grad()
            torch.nn.functional.kl_div(shares(encoder(rows)).log(), p, reduction="batchmean").backward()
            theirs.step()
    np.testing.assert_allclose(model.centres.detach(), centres.detach(), rtol=1e-4, atol=1e-5)


def test_unsure_rows_teach_nothing(codes):
    z, centres = (weft.tensor(part) for part in codes)
    model = EmbeddedClustering(Autoencoder(weft.nn.Identity(), weft.nn.Identity()), 4, 3).double()
    with weft.no_grad():
        model.centres.copy_(centres)
    p = model.targets(z)
    level = float(np.median(p.numpy().max(1)))
    kept = p.numpy().max(1) >= level
    expected = (p.numpy() * np.log(p.numpy() / model(z).detach().numpy())).sum(1)[kept].sum() / 9
    assert 0 < kept.sum() < 9
    assert model.loss(z, p, sure=level).item() == pytest.approx(expected, rel=1e-10)


def trained(parameters, loss, steps, lr):
    optimizer = weft.optim.Adam(parameters, lr=lr)

    @weft.compile
    def step():
        optimizer.zero_grad()
        loss().backward()
        optimizer.step()

    for _ in range(steps):
        step()
