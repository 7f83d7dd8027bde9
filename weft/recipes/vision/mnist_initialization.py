"""mnist-initialization: one network started from constant, large, small and scaled weights (N1 §1.6.1).

Equal weights keep all units of a layer equal for ever; weights of size 1 make what comes out of a layer of n units √n times
as large, and steps must be tiny; weights of size √(2/n) keep it (He). Each start is trained at several rates, and tested
at the one that does best on validation data.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

import weft

from ... import nn, optim
from ...data.sources import MNIST
from ...models.classical.mlp import MLP
from ...tensor import Tensor
from ...train import Classification, Trainer
from ...train.callbacks import NotFiniteError, StopOnNaN
from .. import pictures
from ..base import Goal, Recipe, Root, Run, Splits, standard_error
from ..settings import Settings, option
from ..shared import classify_digits, image_splits, loaders

if TYPE_CHECKING:
    from matplotlib.figure import Figure


@dataclass(kw_only=True)
class InitializationSettings(Settings):
    """Settings of mnist-initialization."""

    epochs: int = option(5, "passes over the training images for each start and rate", at_least=1)
    batch_size: int = option(100, "images in one step", at_least=1)
    rates: tuple[float, ...] = option((0.01, 0.1, 0.5, 1.0), "learning rates that each start is tried with", above=0)
    hidden: tuple[int, ...] = option((128, 128), "widths of the hidden layers", at_least=1)
    holdout: int = option(2000, "training images kept apart for validation", at_least=1)
    limit: int | None = option(10_000, "use only so many training and test images", at_least=1)


def signs(size: float) -> Callable[[Tensor], Tensor]:
    """−size or size, each with probability ½."""

    @weft.no_grad()
    def fill(w: Tensor) -> Tensor:
        return w.copy_(size * (2 * weft.bernoulli(weft.full_like(w, 0.5)) - 1))

    return fill


def scaled(w: Tensor) -> Tensor:
    """U(−1/√n, 1/√n), n the units before (N1 def. 1.8)."""
    return nn.init.uniform_(w, -(w.shape[1] ** -0.5), w.shape[1] ** -0.5)


LARGE = {  # constant, or of size 1
    "zeros": nn.init.zeros_,
    "ones": nn.init.ones_,
    "signs_1": signs(1.0),
    "normal_1": nn.init.normal_,
    "uniform_1": lambda w: nn.init.uniform_(w, -1.0, 1.0),
}
STARTS = {
    **LARGE,
    "signs_0.1": signs(0.1),
    "normal_0.1": lambda w: nn.init.normal_(w, 0.0, 0.1),
    "uniform_0.1": lambda w: nn.init.uniform_(w, -0.1, 0.1),
    "scaled": scaled,
    "he": lambda w: nn.init.kaiming_normal_(w, nonlinearity="relu"),
}


@dataclass
class Trial:
    """A network trained from one start at one rate: accuracy on validation data after each epoch; none if it diverged."""

    rate: float
    task: Classification
    curve: list[float]

    @property
    def accuracy(self) -> float:
        """After the last epoch."""
        return self.curve[-1] if self.curve else 0.0


class MnistInitialization(Recipe):
    """784 → 128 → 128 → 10 with ReLU and plain SGD."""

    title = "MNIST, one network from constant, large, small and scaled weights"
    Settings = InitializationSettings
    goal = Goal(
        "test_accuracy",
        at_least=0.9,
        data="MNIST's 10,000 test images, from scaled weights",
        baseline="the best start from constant weights or weights of size 1",
        margin=0.05,
    )
    example = "a picture of one digit, or an array (28, 28), light ink on a dark ground"

    def data(self, settings: InitializationSettings, root: Root = None) -> Splits:
        return image_splits(settings, MNIST, root)

    def task(self, settings: InitializationSettings, splits: Splits | None = None) -> Classification:
        return Classification(network(settings, scaled))

    def fit(self, run: Run) -> tuple[dict[str, float], Any]:
        splits = self.data(run.settings, run.root)
        best = {name: self.best(run.settings, splits, start) for name, start in STARTS.items()}
        for epoch in range(run.settings.epochs):
            row = {name: trial.curve[epoch] for name, trial in best.items() if trial.curve}
            run.folder.append({"kind": "epoch", "epoch": epoch, "step": epoch, **row})
        accuracies = {name: tested(trial.task, splits) for name, trial in best.items()}
        sizes = {name: growth(network(run.settings, start), splits) for name, start in STARTS.items()}
        run.keep(best["scaled"].task)
        run.draw(lambda: _picture({name: trial.curve for name, trial in best.items()}, sizes))
        figures = {f"accuracy_{name}": value for name, value in accuracies.items()}
        figures |= {f"rate_{name}": trial.rate for name, trial in best.items()}
        figures["distinct_units_ones"] = distinct_units(best["ones"].task)
        own = accuracies["scaled"]
        figures |= {"test_accuracy": own, "test_accuracy_error": standard_error(own, len(splits.test.dataset))}
        return {**figures, self.goal.beside: max(accuracies[name] for name in LARGE)}, best["scaled"].task

    def best(self, settings: InitializationSettings, splits: Splits, start: Callable[[Tensor], Tensor]) -> Trial:
        """The trial with the rate that does best on validation data."""
        trials = (trained(settings, splits, start, rate) for rate in settings.rates)
        return max(trials, key=lambda trial: trial.accuracy)

    def predict(self, task: nn.Module, input: Any) -> Any:
        return classify_digits(task, input, 28)


def network(settings: InitializationSettings, start: Callable[[Tensor], Tensor]) -> nn.Sequential:
    """The network with weights from a start, biases 0: the same random numbers for every start and rate."""
    weft.manual_seed(settings.seed)
    return nn.Sequential(nn.Flatten(), MLP(784, settings.hidden, 10, init=start))


def trained(settings: InitializationSettings, splits: Splits, start: Callable, rate: float) -> Trial:
    """A trial; one that diverges has no curve."""
    task = Classification(network(settings, start), optimizer=lambda weights: optim.SGD(weights, lr=rate))
    options = {"run_folder": False, "progress": False, "callbacks": [StopOnNaN(diagnose=False)]}
    parts = (splits.train, splits.validation, splits.test)
    anew = loaders(settings, *(part.dataset.tensors for part in parts))  # the same batches in the same order for all
    try:
        history = Trainer(max_epochs=settings.epochs, **options).fit(task, anew.train, anew.validation)
    except NotFiniteError:
        return Trial(rate, task, [])
    return Trial(rate, task, history["val_accuracy"])


def tested(task: Classification, splits: Splits) -> float:
    """Accuracy on the test data."""
    return Trainer(run_folder=False, progress=False).test(task, splits.test)["test_accuracy"]


def growth(model: nn.Sequential, splits: Splits) -> list[float]:
    """Root mean squares of the inputs and of what comes out of each linear layer, for some test images."""
    signal = model[0](splits.test.dataset.tensors[0][:500])
    found = [_size(signal)]
    for layer in model[1].modules():
        if isinstance(layer, nn.Linear):
            before = signal.relu() if len(found) > 1 else signal
            signal = layer(before)
            found.append(_size(signal))
    return found


def _size(x: Tensor) -> float:
    return float((x.detach().double() ** 2).mean().sqrt().item())


def distinct_units(task: Classification) -> int:
    """How many units of the first hidden layer differ from the others."""
    first = next(layer for layer in task.modules() if isinstance(layer, nn.Linear)).weight.detach().numpy()
    return len(np.unique(np.round(first / max(np.abs(first).max(), 1e-12), 4), axis=0))


def _picture(curves: dict[str, list[float]], sizes: dict[str, list[float]]) -> Figure:
    title = "mnist-initialization: validation accuracy, and the size of signals before training"
    figure, (left, right) = pictures.blank(title, columns=2, width=5)
    for number, name in enumerate(curves):
        look = {"color": pictures.COLOURS[_kind(name)], "ls": ("-", "--", ":")[number % 3], "marker": "o", "ms": 3}
        left.plot(np.arange(1, len(curves[name]) + 1), curves[name], **look, label=name.replace("_", " "))
        right.plot(np.maximum(sizes[name], 1e-3), **look)
    left.set(xlabel="epoch", ylabel="accuracy", ylim=(0, 1))
    left.set_xticks(range(1, 1 + max(map(len, curves.values()))))
    left.legend(fontsize=8, ncols=2)
    right.set(xlabel="linear layer (0: the images)", ylabel="root mean square", yscale="log")
    right.set_xticks(range(len(sizes["scaled"])))
    return figure


def _kind(name: str) -> int:
    """Constant, large, small, scaled: one colour each."""
    return 0 if name in ("zeros", "ones") else 1 if name in LARGE else 3 if name in ("scaled", "he") else 2


recipe = MnistInitialization()
