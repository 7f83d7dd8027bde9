"""The start-up routine: sound set-ups pass, broken ones are named; its numbers are those of closed forms."""

from __future__ import annotations

import math

import numpy as np
import pytest

import weft
from weft import nn
from weft.data import load_digits
from weft.errors import OptionError
from weft.train import startup
from weft.train.startup_rig import Course, Part, Rig, against_chance, neighbours

SGD, AdamW = weft.optim.SGD, weft.optim.AdamW


class Task(nn.Module):
    """Cross entropy (or another loss) of a model, with an optimiser."""

    def __init__(self, model, lr=3e-3, optimizer=AdamW, loss=nn.functional.cross_entropy, **options):
        super().__init__()
        self.model, self.loss = model, loss
        self.make = lambda parameters: optimizer(parameters, lr=lr, **options)

    def forward(self, x):
        return self.model(x)

    def training_step(self, batch):
        return self.loss(self.model(batch[0]), batch[1])

    def configure_optimizers(self):
        return self.make(self.parameters())


@pytest.fixture(autouse=True)
def seeded():
    weft.manual_seed(0)


@pytest.fixture(scope="module")
def digits():
    images, labels = load_digits()
    return weft.tensor(images).float().flatten(1) / 16, weft.tensor(labels).long()


def batches(x, y, size=64):
    return [(x[i : i + size], y[i : i + size]) for i in range(0, len(x) - size + 1, size)]


def network(activation=nn.ReLU):
    return nn.Sequential(nn.Linear(64, 64), activation(), nn.Linear(64, 10))


def verdicts(report):
    return {finding.step: finding.verdict for finding in report.findings}


STEPS = ["data", "initial loss", "gradient flow", "few examples", "regularisation", "labels"]
STEPS += ["learning rate", "weight decay", "update ratio"]

SOUND = {
    "adamw": lambda: Task(network()),
    "adam": lambda: Task(network(), 1e-3, weft.optim.Adam),
    "momentum": lambda: Task(network(), 0.05, SGD, momentum=0.9),
    "linear": lambda: Task(nn.Linear(64, 10), 0.1, SGD),
    "tanh": lambda: Task(network(nn.Tanh)),
    "normalised": lambda: Task(
        nn.Sequential(nn.Linear(64, 32), nn.BatchNorm1d(32), nn.ReLU(), nn.Dropout(0.5), nn.Linear(32, 10))
    ),
}


@pytest.mark.parametrize("name", SOUND)
def test_sound_set_ups_pass(name, digits):
    report = startup.check(SOUND[name](), batches(*digits), steps=30)
    assert report.faults == []
    assert [finding.step for finding in report.findings] == STEPS
    assert "fault" not in verdicts(report).values()


@pytest.mark.parametrize(("lr", "optimizer"), [(10.0, SGD), (1e4, SGD), (1.0, AdamW), (100.0, AdamW)])
def test_a_rate_too_high_is_named(lr, optimizer, digits):
    report = startup.check(Task(network(), lr, optimizer), batches(*digits), steps=30)
    assert report.faults == ["learning rate too high"]
    assert "lower it" in next(f for f in report.findings if f.step == "learning rate").advice


@pytest.mark.parametrize("lr", [1e-5, 1e-7])
def test_a_rate_too_low_is_named(lr, digits):
    report = startup.check(Task(network(), lr, SGD), batches(*digits), steps=30)
    assert report.faults == ["learning rate too low"]


@pytest.mark.parametrize("seed", range(3))
def test_shuffled_labels_are_named(seed, digits):
    x, y = digits
    order = weft.tensor(np.random.default_rng(seed).permutation(len(y)))
    report = startup.check(Task(network()), batches(x, y[order]), steps=30)
    assert report.faults == ["labels shuffled"]
    assert verdicts(report)["learning rate"] == "skipped"


def spoil(kind, model):
    with weft.no_grad():
        for name, parameter in model.named_parameters():
            if kind == "zero":
                parameter.zero_()
            elif kind == "equal":
                parameter.fill_(0.01)
            elif name == "0.bias":
                parameter.fill_(-100.0)
    return model


@pytest.mark.parametrize("activation", [nn.ReLU, nn.Tanh, nn.Sigmoid])
@pytest.mark.parametrize(
    ("kind", "fault"),
    [("zero", "dead initialisation"), ("biases", "dead initialisation"), ("equal", "symmetric initialisation")],
)
def test_bad_initial_weights_are_named(kind, fault, activation, digits):
    report = startup.check(Task(spoil(kind, network(activation))), batches(*digits), steps=20)
    assert report.faults == [fault]
    assert verdicts(report)["few examples"] == "skipped"


def test_zero_weights_of_one_layer_are_sound(digits):
    """Softmax regression is convex: starting at zero is right."""
    assert startup.check(Task(spoil("zero", nn.Linear(64, 10)), 0.1, SGD), batches(*digits), steps=30).sound


def test_a_branch_that_opens_from_zero_is_sound(digits):
    """Residual branches whose last layer begins at zero get gradients after the first step."""

    class Residual(nn.Module):
        def __init__(self):
            super().__init__()
            self.inner, self.last, self.out = nn.Linear(64, 64), nn.Linear(64, 64), nn.Linear(64, 10)
            nn.init.zeros_(self.last.weight)
            nn.init.zeros_(self.last.bias)

        def forward(self, x):
            return self.out(x + self.last(self.inner(x).relu()))

    assert startup.check(Task(Residual()), batches(*digits), steps=30).faults == []


def test_an_initial_loss_that_is_off_is_named(digits):
    model = network()
    with weft.no_grad():
        model[2].weight *= 100
    assert startup.check(Task(model), batches(*digits), steps=20).faults == ["initial loss off"]


def test_a_summed_loss_is_noted(digits):
    task = Task(network(), 3e-4, loss=lambda out, y: nn.functional.cross_entropy(out, y, reduction="sum"))
    found = next(f for f in startup.check(task, batches(*digits), steps=20).findings if f.step == "initial loss")
    assert found.verdict == "note"
    assert "summed over 64 examples" in found.advice


def test_values_that_are_not_finite_are_named(digits):
    x, y = digits
    broken = x.clone()
    broken[3, 3] = math.nan
    report = startup.check(Task(network()), batches(broken, y))
    assert report.faults == ["data not finite"]
    assert list(verdicts(report).values()) == ["fault"] + ["skipped"] * 8


def test_missing_values_that_the_model_fills_are_noted(digits):
    class Filling(nn.Module):
        def __init__(self):
            super().__init__()
            self.inner = network()

        def forward(self, x):
            return self.inner(x.nan_to_num())

    x, y = digits
    missing = x.clone()
    missing[::7, 3] = math.nan
    report = startup.check(Task(Filling()), batches(missing, y), steps=20)
    assert report.faults == []
    assert verdicts(report)["data"] == "note"


def test_a_loss_without_a_way_to_the_weights_cannot_fit(digits):
    task = Task(network(), loss=lambda out, y: nn.functional.cross_entropy(out, (y * 0 + weft.randint(0, 10, y.shape))))
    assert startup.check(task, batches(*digits), steps=20, compile=False).faults == ["cannot fit"]


def test_regression(digits):
    x = weft.randn(512, 3)
    y = (x @ weft.tensor([[1.0], [-2.0], [0.5]])) + 0.1 * weft.randn(512, 1)
    model = nn.Sequential(nn.Linear(3, 64), nn.ReLU(), nn.Linear(64, 1))
    assert startup.check(Task(model, 1e-2, loss=nn.functional.mse_loss), batches(x, y, 32), steps=40).faults == []


def test_weights_are_as_before(digits):
    task = Task(network())
    before = [p.detach().clone() for p in task.parameters()]
    startup.check(task, batches(*digits), steps=10)
    assert all(weft.equal(p.detach(), b) for p, b in zip(task.parameters(), before, strict=True))


def test_decay_that_does_not_reach_the_weights_is_named(digits):
    class Forgetful(SGD):
        """Has a weight decay in its groups and never uses it."""

        def step(self, closure=None):
            kept = [(group, group["weight_decay"]) for group in self.param_groups]
            for group, _ in kept:
                group["weight_decay"] = 0.0
            super().step(closure)
            for group, decay in kept:
                group["weight_decay"] = decay

    report = startup.check(Task(network(), 0.1, Forgetful), batches(*digits), steps=20, compile=False)
    assert report.faults == ["decay without effect"]


def test_initial_loss_is_log_of_the_classes(digits):
    part = Part.of(batches(*digits), 32, 20)
    rig = Rig(Task(spoil("zero", network())), part, compile=False)
    assert rig.first == pytest.approx(math.log(10), rel=1e-6)


@pytest.mark.parametrize(
    ("losses", "exploded"),
    [([1.0] * 10, False), ([1, 1, 20, 1, 1], True), ([1, 2, 2.9, 2.9, 2.9], False), ([1, math.nan], True)],
)
def test_exploded_is_three_times_the_first_loss(losses, exploded):
    assert Course(0.1, 0.0, 1.0, losses).exploded is exploded


def test_neighbours_and_chance_tell_true_from_shuffled_labels(digits):
    x, y = digits
    order = weft.tensor(np.random.default_rng(1).permutation(len(y)))
    true, wrong = (Part.of(batches(x, labels), 32, 20) for labels in (y, y[order]))
    assert neighbours(true) > 50 > 5 > abs(neighbours(wrong))
    untrained = Rig(Task(spoil("zero", network())), true, compile=False)
    assert against_chance(untrained) == 0.0  # equal outputs: permuting labels changes nothing


@pytest.mark.parametrize("given", [[], iter(())])
def test_no_data_is_refused(given):
    with pytest.raises(OptionError, match="at least one batch"):
        startup.check(Task(network()), given)


def test_several_optimisers_are_refused(digits):
    task = Task(network())
    task.make = lambda parameters: [SGD(list(parameters), lr=0.1), SGD(list(task.parameters()), lr=0.1)]
    with pytest.raises(OptionError, match="one optimiser, this one has 2"):
        startup.check(task, batches(*digits))


def test_one_batch_is_cut_in_two(digits):
    part = Part.of([digits], 32, 20)
    assert [len(batch[1]) for batch in (*part.train, *part.held, part.few)] == [1348, 449, 20]
