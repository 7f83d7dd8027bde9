"""Anomalies in series, losses on the way, perceptrons with output codes."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from scipy.spatial.distance import mahalanobis

import weft
from weft import nn
from weft.errors import OptionError, ShapeError
from weft.metrics import auroc
from weft.models.supervised import (
    AnomalyDetector,
    CodedPerceptron,
    IntermediateClassifier,
    SequenceClassifier,
    binary_code,
    exhaustive_code,
    intermediate_loss,
    least_distance,
    one_hot_code,
)

# ------------------------------------------------------------------------------------------- anomalies


def waves(count: int, steps: int, seed: int) -> np.ndarray:
    """Two channels, sine and cosine with a random phase, and noise. (count, steps, 2)"""
    rng = np.random.default_rng(seed)
    angle = 2 * np.pi * np.arange(steps) / 25 + rng.uniform(0, 2 * np.pi, (count, 1))
    both = np.stack([np.sin(angle), np.cos(angle)], -1)
    return (both + 0.05 * rng.standard_normal(both.shape)).astype(np.float32)


@pytest.fixture(scope="module")
def detector() -> AnomalyDetector:
    weft.manual_seed(0)
    model = AnomalyDetector(2, 16, cell="gru")
    losses = model.fit(weft.tensor(waves(16, 50, 0)), epochs=90, lr=0.1)
    assert losses[-1] < 0.3 * losses[0]
    return model.calibrate(weft.tensor(waves(24, 60, 1)))


def test_scores_are_distances_of_mahalanobis(detector: AnomalyDetector) -> None:
    clean, fresh = waves(24, 60, 1), weft.tensor(waves(3, 40, 2))
    errors = (clean - detector(weft.tensor(clean)).detach().numpy())[:, 10:].reshape(-1, 2).astype(np.float64)
    inverse = np.linalg.inv(np.cov(errors.T))
    new = (fresh - detector(fresh)).detach().numpy()[:, 10:]
    expected = [[mahalanobis(e, errors.mean(0), inverse) for e in row] for row in new]
    found = detector.scores(fresh).numpy()
    np.testing.assert_allclose(found[:, 10:], expected, rtol=2e-3)
    assert (found[:, :10] == 0).all()
    assert detector.threshold.item() == pytest.approx(np.quantile(detector.scores(weft.tensor(clean))[:, 10:], 0.99))


def test_places_that_do_not_fit_are_found(detector: AnomalyDetector) -> None:
    """Wrong values within the usual range: their size says nothing, what came before does."""
    rng = np.random.default_rng(3)
    x, odd = waves(30, 60, 4), np.zeros((30, 60), bool)
    for row in range(30):
        place = rng.integers(15, 60)
        x[row, place] = waves(1, 60, 100 + row)[0, rng.integers(60)]  # a value of another time
        x[row, place] *= -1 if np.dot(x[row, place], waves(1, 60, 4)[0, place]) > 0.5 else 1
        odd[row, place] = np.abs(x[row, place] - waves(30, 60, 4)[row, place]).max() > 0.7
    scores, chosen = detector.scores(weft.tensor(x)).numpy(), slice(10, None)
    ordinary = odd | ~np.roll(odd, 1, 1)  # what follows an odd value is unexpected as well
    judge = lambda s: float(
        auroc(
            weft.tensor(s[:, chosen][ordinary[:, chosen]]), weft.tensor(odd[:, chosen][ordinary[:, chosen]].astype(int))
        )
    )
    assert odd.sum() > 15 and judge(scores) > 0.99
    assert judge(np.abs(x).max(-1)) < 0.75  # the size of values
    false = detector.detect(weft.tensor(waves(40, 60, 5)))[:, chosen].float().mean().item()
    assert 0.002 < false < 0.03  # a hundredth by calibration


def test_what_is_no_number_is_an_anomaly(detector: AnomalyDetector) -> None:
    x = weft.tensor(waves(1, 30, 6))
    x[0, 20, 1] = float("nan")
    assert detector.detect(x)[0, 20] and not detector.detect(x)[0, :10].any()


def test_wrong_detectors_and_series_are_named() -> None:
    with pytest.raises(OptionError, match="bidirectional"):
        AnomalyDetector(1, bidirectional=True)
    with pytest.raises(OptionError, match="warm_up"):
        AnomalyDetector(1, warm_up=0)
    model = AnomalyDetector(2, 4)
    with pytest.raises(OptionError, match="call calibrate"):
        model.detect(weft.zeros(1, 20, 2))
    with pytest.raises(OptionError, match="quantile"):
        model.calibrate(weft.zeros(1, 20, 2), quantile=1.0)
    with pytest.raises(OptionError, match="finite errors"):
        model.calibrate(weft.full((1, 20, 2), float("nan")))
    for shape in ((1, 10, 2), (1, 20, 3), (20, 2)):
        with pytest.raises(ShapeError, match=r"series \(B, T, 2\) with T > 10"):
            model(weft.zeros(*shape))


# ------------------------------------------------------------------------------------------- losses on the way


def test_the_loss_is_the_formula_of_the_notes() -> None:
    rng = np.random.default_rng(0)
    logits, y, lengths = rng.standard_normal((3, 5, 4)), np.array([1, 0, 3]), np.array([5, 3, 1])
    log_p = logits - np.log(np.exp(logits).sum(-1, keepdims=True))
    asked = np.array([True, False, True, True, False])
    for weight, places in itertools.product((0.0, 0.3, 1.0), (None, asked)):
        rows = []
        for b, n in enumerate(lengths):
            own = [-log_p[b, t, y[b]] for t in range(n)]
            between = [own[t] for t in range(n) if places is None or places[t]]
            rows.append((1 - weight) * own[-1] + weight * np.mean(between))
        given = weft.tensor(logits), weft.tensor(y), weft.tensor(lengths)
        found = intermediate_loss(*given, weight=weight, places=None if places is None else weft.tensor(places))
        assert found.item() == pytest.approx(np.mean(rows))
    each = weft.tensor(np.repeat(y[:, None], 5, 1))
    whole = intermediate_loss(weft.tensor(logits), each, weight=1.0).item()
    assert whole == pytest.approx(-np.mean([log_p[b, t, y[b]] for b in range(3) for t in range(5)]))


def test_without_weight_it_is_the_classifier_of_the_last_place() -> None:
    model, plain = IntermediateClassifier(3, 5, 4), SequenceClassifier(3, 5, 4)
    plain.load_state_dict(model.state_dict())
    x, lengths, y = weft.randn(4, 6, 3), weft.tensor([6, 2, 1, 4]), weft.tensor([0, 1, 2, 3])
    one = intermediate_loss(model(x, lengths), y, lengths, weight=0.0)
    other = nn.functional.cross_entropy(plain(x, lengths), y)
    np.testing.assert_allclose(one.item(), other.item(), rtol=1e-6)
    np.testing.assert_array_equal(model.predict(x, lengths), plain(x, lengths).argmax(-1))


def test_losses_on_the_way_teach_what_stands_at_the_beginning_sooner() -> None:
    """The label is the first of 20 tokens; the same start, the same steps, judged by the last place of other rows."""
    rng = np.random.default_rng(0)
    x = weft.tensor(rng.integers(0, 4, (64, 20)))
    shares = {}
    for weight in (0.0, 0.5):
        weft.manual_seed(0)
        model = IntermediateClassifier(8, 16, 4, vocabulary=4, cell="gru")
        optimizer = weft.optim.Adam(model.parameters(), lr=0.01)

        @weft.compile
        def step(model=model, optimizer=optimizer, weight=weight) -> weft.Tensor:
            loss = intermediate_loss(model(x), x[:, 0], weight=weight)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            return loss

        for _ in range(160):
            step()
        fresh = weft.tensor(np.random.default_rng(1).integers(0, 4, (200, 20)))
        shares[weight] = (model.predict(fresh) == fresh[:, 0]).float().mean().item()
    assert shares[0.5] > 0.95 and shares[0.0] < 0.6, shares


def test_wrong_weights_and_labels_are_named() -> None:
    logits = weft.zeros(2, 3, 4)
    with pytest.raises(OptionError, match="from 0 to 1"):
        intermediate_loss(logits, weft.tensor([0, 1]), weight=1.5)
    with pytest.raises(ShapeError, match=r"y \(2,\) or \(2, 3\)"):
        intermediate_loss(logits, weft.tensor([0, 1, 2]))
    with pytest.raises(OptionError, match="bidirectional"):
        IntermediateClassifier(2, 3, 4, bidirectional=True)


# ------------------------------------------------------------------------------------------- output codes

CORNERS = weft.tensor([[0.0, 0.0], [0.0, 1.0], [1.0, 0.0], [1.0, 1.0]])


def test_the_choice_of_words_matters() -> None:
    """N2 §2.4.3: with one assignment both bits are coordinates, with another the second one is XOR."""
    good, bad = CodedPerceptron(2, 4, binary_code(4)), CodedPerceptron(2, 4, binary_code(4)[weft.tensor([0, 1, 3, 2])])
    assert good.fit(CORNERS, weft.arange(4)).converged and good(CORNERS).tolist() == [0, 1, 2, 3]
    assert not bad.fit(CORNERS, weft.arange(4), max_epochs=200).converged
    assert bad(CORNERS).tolist() != [0, 1, 2, 3]


def test_one_output_for_each_class_may_say_none_or_several() -> None:
    rng = np.random.default_rng(0)
    centres = np.array([[0, 3], [3, -2], [-3, -2]])
    y = np.repeat([0, 1, 2], 20)
    x = weft.tensor((centres[y] + 0.3 * rng.standard_normal((60, 2))).astype(np.float32))
    model = CodedPerceptron(2, 3)
    assert model.fit(x, weft.tensor(y)).converged and model(x).tolist() == y.tolist()
    grid = weft.tensor(np.stack(np.meshgrid(*[np.linspace(-6, 6, 25)] * 2), -1).reshape(-1, 2).astype(np.float32))
    outputs = model.perceptron(grid).sum(-1).numpy()
    np.testing.assert_array_equal(model.undecided(grid), outputs != 1)
    assert (outputs == 0).any() or (outputs > 1).any()
    best = model.perceptron.score(grid).argmax(-1)
    several = weft.tensor(outputs == 0)
    np.testing.assert_array_equal(model(grid)[several], best[several])  # the scores decide between equals


@pytest.mark.parametrize("classes", range(3, 8))
def test_distances_and_forgiven_bits(classes: int) -> None:
    assert least_distance(one_hot_code(classes)) == 2
    bits = int(np.ceil(np.log2(classes)))
    assert binary_code(classes).shape == (classes, bits) and least_distance(binary_code(classes)) == 1
    code = exhaustive_code(classes)
    assert code.shape == (classes, 2 ** (classes - 1) - 1) and least_distance(code) == 2 ** (classes - 2)
    model, forgiven = CodedPerceptron(2, classes, code), (2 ** (classes - 2) - 1) // 2
    rng = np.random.default_rng(0)
    for _ in range(20):
        words = code.numpy().copy()
        for word in words:
            word[rng.choice(len(word), forgiven, replace=False)] ^= 1
        assert model.decode(weft.tensor(words)).tolist() == list(range(classes))


def test_wrong_codes_and_labels_are_named() -> None:
    for code, error in (
        (weft.tensor([[0, 1], [0, 1]]), OptionError),
        (weft.tensor([[0, 2], [1, 0]]), OptionError),
        (weft.tensor([[0, 1]]), ShapeError),
        (weft.zeros(2, 0, dtype=weft.int64), ShapeError),
    ):
        with pytest.raises(error, match="code: expected"):
            CodedPerceptron(2, 2, code)
    with pytest.raises(OptionError, match="2 classes or more"):
        CodedPerceptron(2, 1)
    with pytest.raises(OptionError, match="3 to 11"):
        exhaustive_code(12)
    with pytest.raises(OptionError, match="classes from 0 to 2"):
        CodedPerceptron(2, 3).fit(CORNERS, weft.arange(4))
    with pytest.raises(ShapeError, match="a class for each of 4 rows"):
        CodedPerceptron(2, 4).fit(CORNERS, weft.arange(3))
