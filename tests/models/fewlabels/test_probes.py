"""Probes equal scikit-learn's estimators, and do not move what they look at; whoever moves is found out."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression
from sklearn.neighbors import KNeighborsClassifier
from sklearn.preprocessing import StandardScaler

import weft
from weft import nn
from weft.errors import OptionError, ShapeError, StateError
from weft.models.fewlabels import features, frozen, knn_probe, linear_probe

rng = np.random.default_rng(0)
CENTRES = rng.normal(size=(3, 5)) * 1.5
Y = rng.integers(0, 3, 90)
X = (CENTRES[Y] + rng.normal(size=(90, 5))).astype(np.float32)
OTHERS = rng.normal(size=(40, 5)).astype(np.float32) * 2
x, y, others = weft.tensor(X), weft.tensor(Y), weft.tensor(OTHERS)


@pytest.mark.parametrize("ridge", [0.1, 1.0, 10.0])
def test_a_linear_probe_is_logistic_regression_on_standardised_features(ridge):
    scaler = StandardScaler().fit(X.astype(float))
    theirs = LogisticRegression(C=1 / ridge, tol=1e-10, max_iter=5000).fit(scaler.transform(X.astype(float)), Y)
    ours = linear_probe(nn.Identity(), x, y, ridge=ridge)
    np.testing.assert_allclose(
        ours.scores(others).softmax(1).numpy(), theirs.predict_proba(scaler.transform(OTHERS.astype(float))), atol=2e-5
    )
    assert ours.accuracy(x, y) == pytest.approx(theirs.score(scaler.transform(X), Y))


def test_a_nearest_neighbour_probe_is_scikit_learns():
    theirs = KNeighborsClassifier(1, metric="cosine").fit(X, Y).predict(OTHERS)
    assert knn_probe(nn.Identity(), x, y, k=1).predict(others).tolist() == theirs.tolist()
    unit = lambda v: v / np.linalg.norm(v, axis=1, keepdims=True)
    cosines = unit(OTHERS) @ unit(X).T
    near = np.argsort(-cosines, 1)[:, :7]
    votes = np.zeros((40, 3))
    for i, j in np.ndindex(near.shape):
        votes[i, Y[near[i, j]]] += np.exp(cosines[i, near[i, j]] / 0.5)
    found = knn_probe(nn.Identity(), x, y, k=7, temperature=0.5, batch_size=16)
    np.testing.assert_allclose(found.scores(others).numpy(), votes, rtol=1e-4)
    counted = knn_probe(nn.Identity(), x, y, k=7, temperature=None).scores(others)
    np.testing.assert_array_equal(counted.sum(1).numpy(), 7)


def network() -> nn.Sequential:
    return nn.Sequential(nn.Linear(5, 8), nn.BatchNorm1d(8), nn.Dropout(0.5), nn.ReLU())


def state(model: nn.Module) -> dict[str, bytes]:
    return {name: value.numpy().tobytes() for name, value in model.state_dict().items()}


@pytest.mark.parametrize("probe", [linear_probe, knn_probe])
def test_a_probe_moves_nothing(probe):
    """Neither parameters, nor running statistics, nor gradients, nor modes; and dropout is off."""
    model = network().train()
    model[1].eval()  # a part that stands still already stays so
    before = state(model)
    found = probe(model, x, y)
    assert found.scores(others).tolist() == found.scores(others).tolist()
    assert state(model) == before
    assert [part.training for part in model] == [True, False, True, True]
    assert all(p.grad is None for p in model.parameters())


class Counting(nn.Module):
    """An encoder that goes on learning where it should not."""

    def __init__(self, how: str) -> None:
        super().__init__()
        self.layer, self.norm, self.how = nn.Linear(5, 4), nn.BatchNorm1d(4), how
        self.register_buffer("seen", weft.zeros(1), persistent=False)

    def forward(self, x):
        if self.how == "thaws":
            self.norm.train()
        if self.how == "trains":
            with weft.enable_grad():
                self.layer(x).sum().backward()
            self.layer.weight.data.sub_(0.01 * self.layer.weight.grad)
        if self.how == "counts":
            self.seen.add_(1)
        return self.norm(self.layer(x))


@pytest.mark.parametrize(
    "how, what",
    [("thaws", "norm.num_batches_tracked, norm.running_mean"), ("trains", "layer.weight"), ("counts", "seen")],
)
@pytest.mark.parametrize("probe", [linear_probe, knn_probe])
def test_an_unfrozen_backbone_is_found_out(probe, how, what):
    with pytest.raises(StateError, match=what):
        probe(Counting(how), x, y)


def test_negative_zero_and_nan_are_compared_as_bits():
    layer = nn.Linear(1, 1)
    layer.weight.data.fill_(weft.nan)
    with frozen(layer):
        pass
    layer.weight.data.fill_(0.0)
    with pytest.raises(StateError, match="weight"), frozen(layer):
        layer.weight.data.fill_(-0.0)


def test_pieces_make_no_difference():
    """Compiled, in pieces, with a rest; and not at all contiguous."""
    model = network().eval()
    whole = features(model, x)
    np.testing.assert_allclose(features(model, x, batch_size=20).numpy(), whole.numpy(), atol=1e-5)
    np.testing.assert_allclose(features(model, x.mT.contiguous().mT, batch_size=7).numpy(), whole.numpy(), atol=1e-5)
    assert features(model, x[:1]).shape == (1, 8)


def test_constant_features_and_single_classes():
    flat = weft.cat([x, weft.full((90, 1), 7.0)], 1)
    same = linear_probe(nn.Identity(), flat, y)
    assert same.weight[:, 5].abs().max().item() == 0
    shifted = weft.cat([others, weft.full((40, 1), 100.0)], 1)
    assert same.predict(shifted).tolist() == linear_probe(nn.Identity(), x, y).predict(others).tolist()
    assert linear_probe(nn.Identity(), x, y, classes=5).scores(others).shape == (40, 5)
    assert linear_probe(nn.Identity(), x[:3], weft.zeros(3, dtype=weft.int64)).predict(others).tolist() == [0] * 40


@pytest.mark.parametrize(
    "wrong, error",
    [
        (lambda: linear_probe(nn.Identity(), x, y[:5]), ShapeError),
        (lambda: linear_probe(nn.Identity(), x, y.float()), ShapeError),
        (lambda: linear_probe(nn.Identity(), x, y, ridge=0.0), OptionError),
        (lambda: linear_probe(nn.Identity(), x, y, classes=2), OptionError),
        (lambda: linear_probe(lambda v: v, x, y), OptionError),
        (lambda: linear_probe(nn.Unflatten(1, (5, 1)), x, y), ShapeError),
        (lambda: knn_probe(nn.Identity(), x, y, k=91), OptionError),
        (lambda: knn_probe(nn.Identity(), x, y, temperature=0.0), OptionError),
        (lambda: knn_probe(nn.Identity(), x[:0], y[:0]), ShapeError),
        (lambda: features(nn.Identity(), x[:0]), ShapeError),
    ],
)
def test_what_cannot_be_is_refused(wrong, error):
    with pytest.raises(error, match="expected"):
        wrong()
