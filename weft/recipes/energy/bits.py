"""What recipes on fixed-binarised MNIST share: its three parts, how machines learn, how their likelihood is enclosed."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

import weft

from ... import nn, optim
from ...data.sources import BinarizedMNIST
from ...models.energy.annealing import base_rates, dense_near_one
from ...models.energy.contrastive import LikelihoodGradient
from ...models.generative.baselines import ProductOfBernoullis
from ...models.generative.evaluation import evaluate
from ...models.generative.plans import planned
from ...models.generative.protocol import GenerativeModel
from ...tensor import Tensor
from .. import pictures
from ..base import Recipe, Root, Splits
from ..inputs import as_images
from ..settings import TrainSettings, option
from ..shared import loaders

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = ["BitsSettings", "OnBits", "chain_pictures", "energy_curve", "filters", "learn", "linear_decay", "sides"]

PIXELS = 784
MOMENTS = (0, 1, 10, 100, 1000)  # Gibbs steps after which chains are shown


@dataclass(kw_only=True)
class BitsSettings(TrainSettings):
    """Settings of models of fixed-binarised MNIST."""

    batch_size: int = 100
    limit: int | None = option(None, "use only so many images of each part, drawn at random", at_least=1)


class OnBits(Recipe):
    """Data and baseline of models of 784 bits."""

    example = "an image of 28×28 pixels"
    binarisation = "fixed"

    def data(self, settings: BitsSettings, root: Root = None) -> Splits:
        parts = [_part(root, name, settings.limit) for name in ("train", "valid", "test")]
        return loaders(settings, *((x, x) for x in parts))

    def baseline(self, settings: BitsSettings, splits: Splits) -> float:
        train, test = (part.dataset.tensors[0] for part in (splits.train, splits.test))
        return ProductOfBernoullis(PIXELS).fit(train).log_prob(test).mean().item()

    def predict(self, task: nn.Module, input: Any) -> Any:
        images, _ = as_images(input, (1, 28, 28), ink=True)
        bits = (images.flatten(1) > 0.5).float()  # (N, 1, 28, 28) → (N, 784)
        with weft.no_grad():
            if "log_prob" in task.promises:
                return [{"log_prob": round(value, 3)} for value in task.log_prob(bits).tolist()]
            return [{"free_energy": round(value, 3)} for value in task.energy(bits).tolist()]


def _part(root: Root, name: str, limit: int | None) -> Tensor:
    """(N, 784) of 0 and 1; a limit draws rows, as those of the test part are sorted by digit."""
    found = BinarizedMNIST(root=root, split=name, download=root is None)
    images = found.as_tensors().tensors[0] if limit is None else found.drawn(min(limit, len(found)))
    return images.flatten(1)


def linear_decay(lr: float) -> Callable[[float], float]:
    """From `lr` to 0 in a straight line, over the share of training that is done: chains settle as the machine does."""
    return lambda done: lr * (1 - done)


def learn(
    learning: LikelihoodGradient,
    batches: Any,
    epochs: int,
    rate: Callable[[float], float],
    *,
    generator: Any,
    prepare: Callable[[Tensor], Tensor] = lambda v: v,
    weight_decay: float = 0.0,
    after: Callable[[int], None] = lambda epoch: None,
) -> None:
    """Steps of plain gradient descent, each one plan: chains, statistics and update.

    rate: the learning rate for the share of training that is done; prepare: what the machine sees of a batch, part of the
    plan; weight_decay: of the weights, not of the biases; after: is called after each epoch
    """
    machine = learning.rbm
    groups = [
        {"params": [machine.weight], "weight_decay": weight_decay},
        {"params": [machine.visible_bias, machine.hidden_bias]},
    ]
    optimizer = optim.SGD(groups, lr=rate(0.0))

    @weft.compile
    def step(v: Tensor) -> None:
        optimizer.zero_grad()
        learning(prepare(v), generator).backward()
        optimizer.step()

    for epoch in range(epochs):
        for number, (v, _) in enumerate(batches):
            for group in optimizer.param_groups:
                group["lr"] = rate((epoch + number / len(batches)) / epochs)
            step(v)
        after(epoch)


def sides(
    model: GenerativeModel,
    train: Tensor,
    test: Tensor,
    *,
    chains: int,
    temperatures: int,
    seeds: int,
    start: Any = None,
) -> dict[str, float]:
    """The likelihood of the test images from each side that the model has, with standard errors and their distance."""
    options = {"chains": chains, "temperatures": dense_near_one(temperatures), "base": base_rates(train)}
    found = evaluate(model, test, binarisation="fixed", seeds=range(seeds), options=options)
    figures: dict[str, float] = {}
    for side in ("lower", "upper"):
        one = found.side(side)
        if one is not None:
            figures |= {
                f"test_{side}": one.nats,
                f"test_{side}_error": one.error,
                f"{side}_drawn_error": one.drawn_error,
            }
    if len(figures) == 6:
        figures["bracket"] = abs(figures["test_upper"] - figures["test_lower"])
    return figures


# ------------------------------------------------------------------------------------------ pictures


def filters(weight: Tensor) -> Figure:
    """What the first 64 hidden units look for: (784, H) → pictures."""
    from ...inspect.drawing import tiles

    return tiles(weight.detach().mT[:64].reshape(-1, 28, 28).numpy(), cmap="RdBu", symmetric=True)


def chain_pictures(machine: Any, start: Tensor, generator: Any, shown: Callable[[Tensor], Tensor]) -> Figure:
    """Eight chains over time, a row a moment: means of the pixels after 0, 1, 10, 100 and 1000 Gibbs steps."""
    from ...inspect.drawing import tiles

    walk, rows, v, done = planned(machine.gibbs), [], start, 0
    for moment in MOMENTS:
        v = walk(v, moment - done, generator=generator) if moment > done else v
        done = moment
        rows.append(shown(v).detach())
    names = [f"{moment} steps" if i == 0 else "" for moment in MOMENTS for i in range(len(start))]
    return tiles(weft.cat(rows).reshape(-1, 28, 28).numpy(), names)


def energy_curve(title: str, machine: Any, test: Tensor, generator: Any, steps: int = 400) -> Figure:
    """The free energy of chains that begin at noise, step by step, beside that of test images."""

    def walk(v: Tensor, generator: Any) -> Tensor:
        def step(v: Tensor, _: None) -> tuple[Tensor, Tensor]:
            v = machine.gibbs_step(v, generator)
            return v, machine.free_energy(v)

        return weft.scan(step, v, length=steps)[1]  # (steps, N)

    with weft.no_grad():
        start = weft.bernoulli(weft.full((32, test.shape[1]), 0.5), generator=generator)
        found = planned(walk)(start, generator=generator).numpy()
        data = machine.free_energy(test[:1000]).numpy()
    figure, axes = pictures.blank(title)
    axes.plot(np.arange(1, steps + 1), found, color=pictures.COLOURS[0], lw=0.5, alpha=0.4)
    axes.axhspan(*np.quantile(data, (0.05, 0.95)), color="grey", alpha=0.2, label="test images, 5 to 95 %")
    axes.set(xlabel="Gibbs steps from noise", ylabel="free energy", xscale="log")
    axes.legend(fontsize=8)
    return figure
