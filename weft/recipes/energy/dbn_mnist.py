"""dbn-mnist: a deep belief network, learned layer by layer without labels, then tuned as a classifier (Hinton et al. 2006).

Half of these epochs had 1.77 % wrong; ten epochs of each RBM and forty of the classifier, chosen at seed 11 on validation images
(1.30 % of them wrong), have 1.25 % wrong at seed 101, after 105 seconds of one core.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import weft

from ... import nn
from ...data.sources import MNIST
from ...models.energy.contrastive import ContrastiveDivergence
from ...models.energy.deep_belief import DeepBelief
from ...train import Task
from ..base import Goal, Root, Splits, Trained
from ..baselines import FEATURES_BASELINE, features_accuracy
from ..settings import option
from ..shared import ImageSettings, classifier, classify_digits, image_splits
from .bits import filters, learn, linear_decay

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = ["DBNMnist", "DBNSettings", "recipe"]

PIXELS = 784


@dataclass(kw_only=True)
class DBNSettings(ImageSettings):
    """Settings of dbn-mnist."""

    epochs: int = 40
    lr: float = 0.001
    weight_decay: float = option(0.01, "decay of the weights (AdamW)", at_least=0)
    hidden: tuple[int, ...] = option((500, 500, 1000), "units of the hidden layers", at_least=1)
    pretraining: int = option(10, "epochs of each RBM before", at_least=0)
    pretraining_lr: float = option(0.1, "their learning rate", above=0)
    dropout: tuple[float, ...] = option((0.2, 0.3, 0.3, 0.3), "shares of inputs of linear layers left out", at_least=0)


class DBNMnist(Trained):
    """784 → 500 → 500 → 1000 → 10, the first three layers from RBMs that have seen no label."""

    title = "MNIST, a deep belief network tuned as a classifier"
    Settings = DBNSettings
    goal = Goal(
        "test_accuracy",
        at_least=0.986,
        data="MNIST's 10,000 test images",
        baseline=FEATURES_BASELINE,
        margin=0.02,
    )
    example = "a picture of one digit, or an array (28, 28), light ink on a dark ground"

    def data(self, settings: DBNSettings, root: Root = None) -> Splits:
        return image_splits(settings, MNIST, root)

    def task(self, settings: DBNSettings, splits: Splits | None = None) -> Task:
        net = DeepBelief((PIXELS, *settings.hidden))
        if splits is not None:
            pretrain(net, splits.train, settings)
        return classifier(nn.Sequential(nn.Flatten(), *net.classifier(10, settings.dropout)), settings, splits)

    def baseline(self, settings: DBNSettings, splits: Splits) -> float:
        return features_accuracy(splits)

    def picture(self, task: Task, splits: Splits) -> Figure:
        first = next(layer for layer in task.modules() if isinstance(layer, nn.Linear))
        return filters(first.weight.mT)

    def predict(self, task: nn.Module, input: Any) -> Any:
        return classify_digits(task, input, 28)


def pretrain(net: DeepBelief, batches: Any, settings: DBNSettings) -> None:
    """Greedily: each machine learns by CD-1 what the one below makes of the images, whose grey values are means."""
    generator = weft.Generator().manual_seed(settings.seed)
    for layer, machine in enumerate(net.machines):
        prepare = lambda v, layer=layer: net.upward(v.flatten(1), layer).detach()
        rate = linear_decay(settings.pretraining_lr)
        learning = ContrastiveDivergence(machine, centred=True)
        learn(learning, batches, settings.pretraining, rate, generator=generator, prepare=prepare, weight_decay=2e-4)
        net.tie(layer)


recipe = DBNMnist()
