"""The RBM for ratings: exact conditionals, missing ratings that count for nothing, planted tastes."""

from __future__ import annotations

import numpy as np
import pytest

import weft
from weft.errors import InvalidValueError, ShapeError
from weft.models.energy import RatingsDivergence, RatingsRBM, SoftmaxRBM

from .test_rbm import filled, seeded


def model() -> RatingsRBM:
    made = RatingsRBM(4, 3, 2, dtype=weft.float64)
    filled(made.machine)
    return made


def test_predictions_are_ratios_of_the_machine_of_the_rated_items():
    """p(v_q | V) by summing nothing but the person's own machine: a SoftmaxRBM over rated items and q."""
    made, ratings = model(), weft.tensor([[2, 0, 3, 0]])
    found = made.probabilities(ratings)[0]
    for q in range(4):
        kept = [i for i in (0, 2) if i != q] + [q]
        own = SoftmaxRBM(len(kept), 3, 2, dtype=weft.float64)
        with weft.no_grad():
            own.weight.copy_(made.machine.weight.reshape(4, 3, 2)[kept].reshape(-1, 2))
            own.visible_bias.copy_(made.machine.visible_bias.reshape(4, 3)[kept].flatten())
            own.hidden_bias.copy_(made.machine.hidden_bias)
        rows = ratings.repeat(3, 1)
        rows[:, q] = weft.arange(1, 4)
        p = own.log_prob(made.one_hot(rows)[:, kept]).softmax(0)
        np.testing.assert_allclose(found[q].detach(), p.detach(), atol=1e-10)


def test_missing_ratings_teach_nothing():
    made = model()
    known = made.one_hot(weft.tensor([[2, 0, 3, 0], [1, 0, 0, 0]]))
    learning = RatingsDivergence(made, steps=3)
    drawn = learning.negatives(known, seeded(1))
    assert weft.equal(drawn.sum(-1), known.sum(-1))
    learning(known, seeded(2)).backward()
    slopes = made.machine.weight.grad.reshape(4, 3, 2)
    assert not slopes[[1, 3]].any() and slopes[[0, 2]].any()
    assert not made.machine.visible_bias.grad.reshape(4, 3)[[1, 3]].any()


def test_tastes_that_were_planted_are_found():
    """Ratings from two hidden tastes, three quarters missing: better than the means of persons and items."""
    random = np.random.default_rng(0)
    people, items = 600, 40
    tastes, kinds = random.integers(0, 2, (people, 2)), random.normal(size=(2, items))
    score = (2 * tastes - 1) @ kinds + 0.3 * random.normal(size=(people, items))
    true = np.clip(np.round(3 + score), 1, 5).astype(np.int64)
    seen = random.random((people, items)) < 0.25
    ratings, hidden = weft.tensor(np.where(seen, true, 0)), ~seen
    weft.manual_seed(0)
    made = RatingsRBM(items, 5, 8)
    made.start_at(ratings)
    learning, generator = RatingsDivergence(made, steps=1, centred=True), seeded(3)
    known = made.one_hot(ratings)
    learning.centre(known)
    optimizer = weft.optim.Adam(made.parameters(), lr=0.02)

    @weft.compile
    def step(v):
        optimizer.zero_grad()
        learning(v, generator).backward()
        optimizer.step()

    for _ in range(40):
        for v in known[weft.randperm(people, generator=generator)].split(100):
            step(v)
    with weft.no_grad():
        error = np.sqrt(((made(ratings).numpy() - true)[hidden] ** 2).mean())
    mean = true[seen].mean()
    of_item = np.array([(true[seen[:, i], i].sum() + 5 * mean) / (seen[:, i].sum() + 5) for i in range(items)])
    of_person = np.array([((true[p] - of_item)[seen[p]].sum()) / (seen[p].sum() + 5) for p in range(people)])
    means = np.sqrt((((of_item + of_person[:, None]) - true)[hidden] ** 2).mean())
    assert error < 0.75 * means, (error, means)


def test_wrong_ratings_are_refused():
    with pytest.raises(ShapeError, match=r"expected ratings \(B, 4\)"):
        model()(weft.zeros(2, 5, dtype=weft.int64))
    with pytest.raises(InvalidValueError, match=r"0 \(missing\) to 3"):
        model().start_at(weft.full((2, 4), 4))
