"""lora-shift: a network that knows digits learns to name clothes by changes of rank 4, beside full fine-tuning."""

from __future__ import annotations

import copy
from dataclasses import dataclass
from typing import Any

import weft

from .. import nn
from ..data.sources import MNIST, FashionMNIST
from ..train import Trainer
from ..train.methods.lora import add_lora
from ..train.methods.transfer import count_parameters, replace_head
from . import mnist_mlp
from .base import Goal, Recipe, Root, Run, Splits
from .settings import option
from .shared import classifier, classify_images, image_splits


@dataclass(kw_only=True)
class LoraSettings(mnist_mlp.MnistMLPSettings):
    """Settings of lora-shift."""

    epochs: int = 6
    lr: float = option(0.01, "learning rate of the changes, the largest of its schedule", above=0)
    full_lr: float = option(0.003, "learning rate of the first training and of full fine-tuning", above=0)
    hidden: tuple[int, ...] = (512, 512)
    dropout: float = 0.1
    first_epochs: int = option(3, "passes over the digits", at_least=0)
    rank: int = option(4, "rank of the changes", at_least=1)
    alpha: float = option(8.0, "the changes are multiplied by alpha / rank", above=0)


class LoraShift(Recipe):
    """Digits first; then clothes, with all weights or with low-rank changes, biases and a new head (Hu et al. 2022)."""

    title = "From MNIST to Fashion-MNIST by changes of low rank"
    Settings = LoraSettings
    goal = Goal("gap", at_most=0.01, data="Fashion-MNIST's test images: accuracy of full fine-tuning less that of LoRA")
    example = "a picture of a piece of clothing, light on dark, or an array (28, 28)"

    def data(self, settings: LoraSettings, root: Root = None) -> Splits:
        return image_splits(settings, FashionMNIST, root)

    def task(self, settings: LoraSettings, splits: Splits | None = None) -> nn.Module:
        """The network of mnist-mlp with low-rank changes; `fit` starts them from what was learned on digits."""
        return self._changed(mnist_mlp.recipe.task(settings).model, settings, splits)

    def fit(self, run: Run) -> tuple[dict[str, float], Any]:
        settings, splits = run.settings, self.data(run.settings, run.root)
        known, first = self._learn_digits(run)
        full = self._fine_tune_all(known, settings, splits)
        weft.manual_seed(settings.seed)
        task = self._changed(copy.deepcopy(known), settings, splits)
        trainer = run.trainer()
        trainer.fit(task, splits.train, splits.validation, resume=run.resume)
        figures = trainer.test(task, splits.test)
        trained, total = count_parameters(task)
        gap = full - figures["test_accuracy"]
        more = {"digits_accuracy": first, "full_accuracy": full, "gap": gap, "trained_share": trained / total}
        return {**figures, **more}, task

    def _learn_digits(self, run: Run) -> tuple[nn.Module, float]:
        """The network trained on digits, and its accuracy there."""
        settings = run.settings.replace(epochs=run.settings.first_epochs, lr=run.settings.full_lr)
        splits = image_splits(settings, MNIST, run.root)
        task = mnist_mlp.recipe.task(settings, splits)
        return task.model, _fitted(task, settings.epochs, splits)

    def _fine_tune_all(self, known: nn.Module, settings: LoraSettings, splits: Splits) -> float:
        """The accuracy that is reached if every weight may change."""
        model = copy.deepcopy(known)
        replace_head(model, "1.output", len(FashionMNIST.classes))
        return _fitted(classifier(model, settings.replace(lr=settings.full_lr), splits), settings.epochs, splits)

    def _changed(self, model: nn.Module, settings: LoraSettings, splits: Splits | None) -> nn.Module:
        replace_head(model, "1.output", len(FashionMNIST.classes))
        add_lora(model, "1.hidden.*.linear", settings.rank, settings.alpha, train_also=["1.output.*", "*.bias"])
        return classifier(model, settings, splits)

    def predict(self, task: nn.Module, input: Any) -> Any:
        return classify_images(task, input, (1, 28, 28), list(FashionMNIST.classes))


def _fitted(task: Any, epochs: int, splits: Splits) -> float:
    """Train a task that leaves no folder; its accuracy on the test set."""
    trainer = Trainer(max_epochs=epochs, run_folder=False, progress=False)
    trainer.fit(task, splits.train)
    return trainer.test(task, splits.test)["test_accuracy"]


recipe = LoraShift()
