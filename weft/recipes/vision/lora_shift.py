"""lora-shift: a network that knows upright digits learns turned ones by changes of rank 4, beside full fine-tuning."""

from __future__ import annotations

import copy
from dataclasses import dataclass
from typing import Any

import numpy as np

import weft

from ... import nn
from ...train import Trainer
from ...train.methods.lora import add_lora
from ...train.methods.transfer import count_parameters, freeze, unfreeze
from ..base import Goal, Root, Run, Splits, Trained
from ..settings import option
from ..shared import Pair, classifier, loaders
from . import mnist_cnn

LAYERS, HEAD = ("0", "3", "8"), "11.*"  # of mnist-cnn: two convolutions and the wide linear layer; the last one


@dataclass(kw_only=True)
class LoraSettings(mnist_cnn.MnistCNNSettings):
    """Settings of lora-shift."""

    epochs: int = 3
    lr: float = option(0.02, "learning rate of the changes, the largest of its schedule", above=0)
    dropout: float = 0.1
    full_lr: float = option(0.003, "learning rate of the first training and of full fine-tuning", above=0)
    first_epochs: int = option(2, "passes over upright digits", at_least=0)
    angle: float = option(45.0, "degrees by which digits are turned")
    rank: int = option(4, "rank of the changes", at_least=1)
    alpha: float = option(16.0, "the changes are multiplied by alpha / rank", above=0)


class LoraShift(Trained):
    """Upright digits first; then turned ones, with all weights or with low-rank changes, biases and head (Hu 2022)."""

    title = "From upright to turned digits by changes of low rank"
    Settings = LoraSettings
    goal = Goal(
        "gap",
        at_most=0.01,
        data="MNIST's test images, turned: accuracy of full fine-tuning less that of LoRA",
        baseline="training the head and the biases alone",
        margin=0.005,
    )
    example = "a picture of one digit, turned by 45°, light on dark, or an array (28, 28)"

    def data(self, settings: LoraSettings, root: Root = None) -> Splits:
        """MNIST with every image turned."""
        upright = mnist_cnn.recipe.data(settings, root)
        parts = (upright.train, upright.validation, upright.test)
        return loaders(settings, *(p and _turned(p.dataset.tensors, settings.angle) for p in parts))

    def task(self, settings: LoraSettings, splits: Splits | None = None) -> nn.Module:
        """The network of mnist-cnn with low-rank changes; `fit` starts them from what was learned before."""
        return _changed(mnist_cnn.network(settings.width, settings.dropout), settings, splits)

    def fit(self, run: Run) -> tuple[dict[str, float], Any]:
        """Upright digits, then turned ones twice; the run folder is that of the low-rank changes."""
        settings, splits = run.settings, self.data(run.settings, run.root)
        known = _learn_upright(run)
        everything = classifier(copy.deepcopy(known), settings.replace(lr=settings.full_lr), splits)
        before, full = (_fitted(everything, epochs, splits) for epochs in (0, settings.epochs))
        partly = classifier(copy.deepcopy(known), settings.replace(lr=settings.full_lr), splits)
        freeze(partly)
        unfreeze(partly, [f"*.{HEAD}", "*.bias"])
        part = _fitted(partly, settings.epochs, splits)
        weft.manual_seed(settings.seed)
        task = _changed(known, settings, splits)
        trainer = run.trainer()
        trainer.fit(task, splits.train, splits.validation, resume=run.resume)
        figures = trainer.test(task, splits.test)
        trained, total = count_parameters(task)
        gap = full - figures["test_accuracy"]
        more = {"before_accuracy": before, "full_accuracy": full, "gap": gap, "trained_share": trained / total}
        more[self.goal.beside] = full - part
        return {**figures, **more}, task

    def predict(self, task: nn.Module, input: Any) -> Any:
        return mnist_cnn.recipe.predict(task, input)


def _learn_upright(run: Run) -> nn.Module:
    """The network trained on digits as they are."""
    settings = run.settings.replace(epochs=run.settings.first_epochs, lr=run.settings.full_lr)
    splits = mnist_cnn.recipe.data(settings, run.root)
    task = mnist_cnn.recipe.task(settings, splits)
    _fitted(task, settings.epochs, splits)
    return task.model


def _changed(model: nn.Module, settings: LoraSettings, splits: Splits | None) -> nn.Module:
    add_lora(model, LAYERS, settings.rank, settings.alpha, train_also=[HEAD, "*.bias"])
    return classifier(model, settings, splits)


def _fitted(task: Any, epochs: int, splits: Splits) -> float:
    """Train a task that leaves no folder; its accuracy on the test set."""
    trainer = Trainer(max_epochs=epochs, run_folder=False, progress=False)
    trainer.fit(task, splits.train)
    return trainer.test(task, splits.test)["test_accuracy"]


def _turned(pair: Pair, angle: float) -> Pair:
    """Images (N, 1, H, W) turned about their middle, with bilinear interpolation; labels stay."""
    from scipy.ndimage import rotate

    images = rotate(pair[0].numpy(), angle, axes=(2, 3), reshape=False, order=1)
    return weft.tensor(np.ascontiguousarray(images, np.float32)), pair[1]


recipe = LoraShift()
