"""Fashion-MNIST without labels, then with a hundred: what the recipes for SimCLR, BYOL and masked autoencoders share.

The encoder learns from all training images and no label. It is then frozen (`models.fewlabels.probes`), and logistic
regression learns from 100 labels, ten of each class, drawn `draws` times; the figure is the mean test accuracy. Beside it:
the same regression on the same network with its first weights ("random features"; batch normalisation takes its statistics
of the images), on pixels, and the network trained on the hundred labels alone with the same augmentation ("supervised"). Settings were chosen on the validation images at seeds below 100.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from numpy.typing import NDArray

import weft

from ... import nn, optim
from ...data.augment import (
    ColorJitter,
    Compose,
    RandomApply,
    RandomHorizontalFlip,
    RandomResizedCrop,
    on_views,
)
from ...data.sources import FashionMNIST
from ...inspect.drawing import blank, scatter
from ...inspect.neighbours import tsne
from ...models.fewlabels.base import SelfSupervised
from ...models.fewlabels.collapse import effective_rank
from ...models.fewlabels.probes import features, knn_probe, linear_probe
from ...models.fewlabels.training import ViewTraining
from ...optim.swa_utils import update_bn
from ...tensor import Tensor
from ..base import Recipe, Root, Run, Splits
from ..inputs import as_images
from ..settings import option
from ..shared import ImageSettings, Pair, conv_block, cycle, image_splits, in_order, one_cycle

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = ["BETTER", "RANDOM", "Unlabelled", "UnlabelledSettings", "convolutions", "moved"]

F = nn.functional
CLASSES = 10
RANDOM = "the same network with its first weights"
BETTER = f"the better of {RANDOM} and of that network taught by the hundred labels alone"


@dataclass(kw_only=True)
class UnlabelledSettings(ImageSettings):
    """Settings of encoders that learn without labels, and of what judges them."""

    epochs: int = 10
    batch_size: int = 256
    lr: float = 2e-3
    labels: int = option(100, "labels of a draw, as many of each class", at_least=CLASSES)
    draws: int = option(5, "draws of labels", at_least=1)
    ridge: float = option(10.0, "penalty of the logistic regression on features", above=0)
    supervised_steps: int = option(300, "steps of the network that sees the labels alone; 0 leaves it out", at_least=0)


def convolutions(width: int) -> nn.Sequential:
    """(B, 1, 28, 28) → (B, 4 width): three blocks with pooling between them, and a mean over places."""
    return nn.Sequential(
        conv_block(1, width),
        nn.MaxPool2d(2),
        conv_block(width, 2 * width),
        nn.MaxPool2d(2),
        conv_block(2 * width, 4 * width),
        nn.AdaptiveAvgPool2d(1),
        nn.Flatten(),
    )


def moved(scale: float, jitter: float) -> Compose:
    """A window of at least this share of the area, mirrored or not, with another brightness and contrast."""
    return Compose(
        [
            RandomResizedCrop(28, scale=(scale, 1.0)),
            RandomHorizontalFlip(),
            RandomApply([ColorJitter(jitter, jitter)], 0.8),
        ]
    )


class Unlabelled(Recipe):
    """An encoder of clothes, judged by logistic regression; a recipe states the model and its views."""

    example = "a picture of a piece of clothing, light on dark, or an array (28, 28)"
    rivals: ClassVar[tuple[str, ...]] = ("random_accuracy",)  # figures of which the best is the baseline's

    @abstractmethod
    def model(self, settings: Any) -> tuple[SelfSupervised, int]:
        """A fresh model, and how many features its encoder makes."""

    @abstractmethod
    def views(self, settings: Any) -> on_views | None:
        """What makes views of a batch; None: the images as they are."""

    def data(self, settings: Any, root: Root = None) -> Splits:
        return image_splits(settings, FashionMNIST, root, self.views(settings))

    def task(self, settings: Any, splits: Splits | None = None) -> ViewTraining:
        model, _ = self.model(settings)
        adam = lambda parameters: optim.AdamW(parameters, lr=settings.lr, weight_decay=settings.weight_decay)
        return ViewTraining(model, adam, one_cycle(settings, splits, 0.1))

    def fit(self, run: Run) -> tuple[dict[str, float], Any]:
        settings = run.settings
        splits = self.data(settings, run.root)
        task = self.task(settings, splits)
        labelled = _Labelled.of(settings, splits)
        beside = self.beside(settings, splits, labelled)
        trainer = run.trainer()
        trainer.fit(task, splits.train, None, resume=run.resume)
        codes = labelled.encoded(task.model.embed)
        found = labelled.probed(codes, settings.ridge)
        found |= {"knn_accuracy": labelled.neighbours(codes)}
        found |= {"effective_rank": effective_rank(codes[1]).item()} | beside
        found[self.goal.beside] = max(beside.get(name, 0.0) for name in self.rivals)
        run.draw(lambda: _map(codes[1], labelled.test[1]))
        run.draw(lambda: _neighbours(codes[1], labelled.test[0]), "neighbours")
        self.draw(run, task, labelled.test[0])
        return found, task

    def draw(self, run: Run, task: ViewTraining, images: Tensor) -> None:
        """Further pictures."""

    def beside(self, settings: Any, splits: Splits, labelled: _Labelled) -> dict[str, float]:
        """The figures of methods that do not learn from unlabelled images; all with the same draws of labels."""
        weft.manual_seed(settings.seed)  # the weights that the encoder starts from
        model, dim = self.model(settings)
        update_bn(in_order((labelled.pool[0][:5000], labelled.pool[1][:5000])), model.encoder)
        found = {"random_accuracy": labelled.probed(labelled.encoded(model.embed), settings.ridge)["test_accuracy"]}
        flat = [x.flatten(1) for x in (labelled.pool[0], labelled.test[0])]
        found["pixels_accuracy"] = labelled.probed(flat, settings.ridge)["test_accuracy"]
        if settings.supervised_steps:
            learner = _Supervised(model, dim, self.views(settings), settings)
            rows = [learner.learned(labelled, draw) for draw in range(settings.draws)]
            found["supervised_accuracy"] = float(np.mean(rows))
        return found

    def predict(self, task: ViewTraining, input: Any) -> Any:
        images, _ = as_images(input, (1, 28, 28), ink=True)
        return [{"features": [round(v, 4) for v in row]} for row in features(task.model.embed, images).tolist()]


# ------------------------------------------------------------------------------------------- labels


@dataclass(frozen=True)
class _Labelled:
    """Training images, of which some have labels, and those that tell how good features are."""

    pool: Pair
    test: Pair
    draws: list[NDArray]  # rows of the pool

    @classmethod
    def of(cls, settings: Any, splits: Splits) -> _Labelled:
        """Draw k comes from the seed and k alone; it does not depend on what was drawn or trained before."""
        images, labels = rows_of(splits.train)
        own = lambda k: np.random.default_rng([settings.seed, k])
        draws = [drawn(labels.numpy(), settings.labels, own(k)) for k in range(settings.draws)]
        return cls((images, labels), rows_of(splits.test), draws)

    def encoded(self, encoder: Any) -> list[Tensor]:
        """Features of the images that any draw labels, in the places of the pool, and of the test images."""
        rows = np.unique(np.concatenate(self.draws))
        codes = features(encoder, self.pool[0][weft.as_tensor(rows)])
        whole = weft.zeros(len(self.pool[1]), codes.shape[1])
        whole[weft.as_tensor(rows)] = codes
        return [whole, features(encoder, self.test[0])]

    def probed(self, codes: list[Tensor], ridge: float) -> dict[str, float]:
        """Mean and deviation over draws of the test accuracy of logistic regression."""
        rows = []
        for drawn in map(weft.as_tensor, self.draws):
            probe = linear_probe(nn.Identity(), codes[0][drawn], self.pool[1][drawn], ridge=ridge, classes=CLASSES)
            rows.append(probe.accuracy(codes[1], self.test[1]))
        return {
            "test_accuracy": float(np.mean(rows)),
            "test_accuracy_deviation": float(np.std(rows, ddof=len(rows) > 1)),
        }

    def neighbours(self, codes: list[Tensor]) -> float:
        """The same of the nearest labelled image."""
        probe = lambda drawn: knn_probe(nn.Identity(), codes[0][drawn], self.pool[1][drawn], k=1, classes=CLASSES)
        return float(np.mean([probe(weft.as_tensor(d)).accuracy(codes[1], self.test[1]) for d in self.draws]))

    def batches(self, draw: int, steps: int) -> Iterator[Pair]:
        """All labelled images of a draw, again and again."""
        rows = weft.as_tensor(self.draws[draw])
        for _ in range(steps):
            yield self.pool[0][rows], self.pool[1][rows]


def rows_of(loader: Any) -> Pair:
    """The images and labels that a loader goes through."""
    return loader.dataset.tensors


def drawn(labels: NDArray, count: int, generator: np.random.Generator) -> NDArray[np.int64]:
    """Rows of `count` examples, as many of each class."""
    each = count // (int(labels.max()) + 1)
    rows = [np.flatnonzero(labels == k) for k in range(int(labels.max()) + 1)]
    return np.concatenate([generator.choice(own, min(each, len(own)), replace=False) for own in rows])


class _Supervised:
    """The network with a linear layer on top, from its first weights, on labelled images alone; one step for all draws."""

    def __init__(self, model: SelfSupervised, dim: int, views: on_views | None, settings: Any) -> None:
        self.network, self.settings = nn.Sequential(model.encoder, nn.Linear(dim, CLASSES)), settings
        self.first = {name: x.clone() for name, x in self.network.state_dict().items()}
        self.transform = views.transforms[0] if views else moved(0.6, 0.2)
        self.optimizer = optim.AdamW(self.network.parameters(), lr=settings.lr, weight_decay=0.05)
        self.step = weft.compile(self._step)

    def _step(self, x: Tensor, y: Tensor) -> Tensor:
        self.optimizer.zero_grad()
        loss = F.cross_entropy(self.network(x), y)
        loss.backward()
        self.optimizer.step()
        return loss.detach()

    def learned(self, labelled: _Labelled, draw: int) -> float:
        """Test accuracy after all steps, along one cycle."""
        self.network.load_state_dict(self.first)
        for state in self.optimizer.state.values():
            for value in state.values():
                if isinstance(value, Tensor):
                    value.zero_()
        self.network.train()
        steps, generator = self.settings.supervised_steps, weft.Generator().manual_seed(self.settings.seed + draw)
        for number, (x, y) in enumerate(labelled.batches(draw, steps)):
            self.optimizer.param_groups[0]["lr"] = self.settings.lr * cycle(number / steps, 0.1)
            self.step(self.transform(x, generator), y)
        said = features(self.network, labelled.test[0]).argmax(1)
        return (said == labelled.test[1]).double().mean().item()


# ------------------------------------------------------------------------------------------- pictures


def _map(codes: Tensor, labels: Tensor, count: int = 1000) -> Figure:
    """The features of some test images in the plane, coloured by classes that the encoder never saw."""
    figure, axes = blank(1, 1, 6.4, 5.6)
    names = np.array(FashionMNIST.classes)[labels[:count].numpy()]
    scatter(axes[0][0], tsne(codes[:count], iterations=500, generator=weft.Generator().manual_seed(0)).points, names)
    axes[0][0].set(xticks=[], yticks=[], title="features of test images (t-SNE); classes were not seen")
    return figure


def _neighbours(codes: Tensor, images: Tensor, queries: int = 8, near: int = 7) -> Figure:
    """Test images, first column, and those with the nearest features."""
    z = F.normalize(codes, dim=-1)
    found = (z[:queries] @ z.mT).topk(near + 1, dim=1).indices.numpy()  # the first is the image itself
    figure, axes = blank(queries, near + 1, 0.9, 0.9)
    for row, places in zip(axes, found, strict=True):
        for axis, place in zip(row, places, strict=True):
            axis.imshow(images[int(place), 0].numpy(), cmap="gray")
            axis.axis("off")
    return figure
