"""Episodes, prototypes and pairs against scikit-learn, SciPy and the definition."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.spatial.distance import cdist
from scipy.special import softmax
from sklearn.neighbors import NearestCentroid

import weft
from weft import nn
from weft.data import DataLoader, TensorDataset
from weft.errors import OptionError, ShapeError
from weft.models.fewlabels import EpisodicSampler, PrototypicalNetwork, SiameseNetwork, draw_pairs, support_and_query

rng = np.random.default_rng(0)
LABELS = np.repeat(np.arange(6), 9)


def test_prototypes_are_class_means_and_chances_a_softmax_of_distances():
    encoder = nn.Linear(4, 3).double()
    model = PrototypicalNetwork(encoder)
    support, query = rng.normal(size=(5, 3, 4)), rng.normal(size=(7, 4))
    codes = lambda x: encoder(weft.tensor(x)).detach().numpy()
    shots = codes(support.reshape(15, 4))
    centroids = NearestCentroid().fit(shots, np.repeat(np.arange(5), 3))
    said = model(weft.tensor(support), weft.tensor(query)).detach().numpy()
    distances = cdist(codes(query), shots.reshape(5, 3, 3).mean(1), "sqeuclidean")
    np.testing.assert_allclose(said, -distances, rtol=1e-10)
    np.testing.assert_allclose(softmax(said, 1), softmax(-distances, 1), rtol=1e-9)
    assert said.argmax(1).tolist() == centroids.predict(codes(query)).tolist()
    np.testing.assert_allclose(
        model.prototypes(weft.tensor(support)).detach().numpy(), centroids.centroids_, rtol=1e-10
    )


def test_the_loss_of_an_episode_is_that_of_its_queries():
    model = PrototypicalNetwork(nn.Identity())
    support, query = rng.normal(size=(3, 2, 4)), rng.normal(size=(3, 5, 4))
    chances = softmax(-cdist(query.reshape(15, 4), support.mean(1), "sqeuclidean"), 1)
    truth = np.repeat(np.arange(3), 5)
    loss, right = model.outputs(weft.tensor(support), weft.tensor(query))
    assert loss.item() == pytest.approx(-np.log(chances[np.arange(15), truth]).mean(), rel=1e-10)
    assert right.item() == pytest.approx((chances.argmax(1) == truth).mean())


def test_episodes_have_distinct_classes_and_examples():
    sampler = EpisodicSampler(LABELS, ways=4, shots=2, queries=5, episodes=30, seed=3)
    episodes = [np.array(rows) for rows in sampler]
    assert len(episodes) == len(sampler) == 30
    for rows in episodes:
        classes = LABELS[rows].reshape(4, 7)
        assert (classes == classes[:, :1]).all() and len(set(classes[:, 0])) == 4 and len(set(rows.tolist())) == 28
    assert len({LABELS[rows[0]] for rows in episodes}) == 6


def test_an_epoch_is_a_function_of_seed_and_number():
    make = lambda: EpisodicSampler(LABELS, 3, 1, 2, 5, seed=7)
    first, other = make(), make()
    whole = [list(first) for _ in range(3)]
    other.set_epoch(2)
    assert list(other) == whole[2] != whole[1]


def test_a_loader_gives_episodes():
    x = weft.arange(len(LABELS)).reshape(-1, 1).float()
    sampler = EpisodicSampler(LABELS, 3, 2, 4, 6, seed=0)
    loader = DataLoader(TensorDataset(x, weft.tensor(LABELS)), batch_sampler=sampler)
    for rows, labels in loader:
        support, query = support_and_query(rows, 3, 2)
        assert support.shape == (3, 2, 1) and query.shape == (3, 4, 1)
        assert (LABELS[support[..., 0].long().numpy()] == labels.reshape(3, 6)[:, :1].numpy()).all()
        assert (LABELS[query[..., 0].long().numpy()] == labels.reshape(3, 6)[:, :1].numpy()).all()


def test_pairs_are_half_alike_and_never_with_themselves():
    i, j, same = (x.numpy() for x in draw_pairs(LABELS, 2000, np.random.default_rng(0)))
    assert (same == (LABELS[i] == LABELS[j])).all() and same.sum() == 1000 and (i != j).all()


def test_a_siamese_network_compares_by_weighted_differences():
    model = SiameseNetwork(nn.Linear(4, 3), 3).double()
    a, b = rng.normal(size=(2, 5, 4))
    codes = lambda x: model.encoder(weft.tensor(x)).detach().numpy()
    weight, bias = (p.detach().numpy() for p in model.head.parameters())
    expected = np.abs(codes(a) - codes(b)) @ weight[0] + bias
    np.testing.assert_allclose(model(weft.tensor(a), weft.tensor(b)).detach().numpy(), expected, rtol=1e-10)
    same = np.array([1, 0, 1, 1, 0])
    lost = np.where(same, np.log1p(np.exp(-expected)), np.log1p(np.exp(expected))).mean()
    assert model.loss(weft.tensor(a), weft.tensor(b), weft.tensor(same)).item() == pytest.approx(lost, rel=1e-10)
    table = model.one_shot(weft.tensor(a), weft.tensor(b)).detach().numpy()
    pairs = np.abs(codes(b)[:, None] - codes(a)) @ weight[0] + bias
    np.testing.assert_allclose(table, pairs, rtol=1e-10)


@pytest.mark.parametrize(
    "wrong, error",
    [
        (lambda: EpisodicSampler(LABELS, 7, 1, 1), OptionError),
        (lambda: EpisodicSampler(LABELS, 2, 5, 5), OptionError),
        (lambda: EpisodicSampler(LABELS, 2, 0, 5), OptionError),
        (lambda: EpisodicSampler(LABELS / 2, 2, 1, 1), ShapeError),
        (lambda: EpisodicSampler([], 1, 1, 1), ShapeError),
        (lambda: EpisodicSampler(np.zeros(0, int), 1, 1, 1), OptionError),
        (lambda: support_and_query(weft.zeros(5, 2), 2, 1), ShapeError),
        (lambda: support_and_query(weft.zeros(4, 2), 2, 2), ShapeError),
        (lambda: PrototypicalNetwork(nn.Identity())(weft.zeros(3, 2), weft.zeros(3, 2)), ShapeError),
        (lambda: SiameseNetwork(nn.Identity(), 2).one_shot(weft.zeros(0, 2), weft.zeros(3, 2)), ShapeError),
        (lambda: draw_pairs([0, 0, 1], 2, np.random.default_rng(0)), OptionError),
    ],
)
def test_what_cannot_be_is_refused(wrong, error):
    with pytest.raises(error, match=r"expected|do not give|are not"):
        wrong()
