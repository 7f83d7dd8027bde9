"""Deep embedded clustering: formulas against NumPy, the gradient of the paper, and a clustering that it mends."""

from __future__ import annotations

import numpy as np
import pytest
import sklearn.cluster

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


def trained(parameters, loss, steps, lr):
    optimizer = weft.optim.Adam(parameters, lr=lr)

    @weft.compile
    def step():
        optimizer.zero_grad()
        loss().backward()
        optimizer.step()

    for _ in range(steps):
        step()
