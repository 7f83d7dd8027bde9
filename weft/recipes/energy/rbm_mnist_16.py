"""rbm-mnist-16: an RBM with 16 hidden units on binary MNIST, its likelihood exact, and the same on white paper.

Protocol of Melchior, Fischer and Wiskott (2016): pixels above one half are ink, persistent chains, batches of 100, 50
epochs; Z summed over all 2¹⁶ hidden states. A machine trained on 1 − x must come out as well: that is what centring buys.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import weft

from ... import nn, optim
from ...data.sources import MNIST
from ...distributions import Bernoulli
from ...models.energy.annealing import base_rates
from ...models.energy.contrastive import PersistentContrastiveDivergence
from ...models.energy.rbm import BernoulliRBM
from ...tensor import Tensor
from ..base import Goal, Recipe, Root, Run, Splits
from ..inputs import as_images
from ..settings import TrainSettings, option
from ..shared import loaders

__all__ = ["RBMMnist16", "RBMSettings", "recipe"]

PIXELS = 784
WATCHED = 1000  # images whose likelihood is logged on the way


@dataclass(kw_only=True)
class RBMSettings(TrainSettings):
    """Settings of rbm-mnist-16."""

    epochs: int = 50
    batch_size: int = 100
    lr: float = 0.05
    hidden: int = option(16, "hidden units; their 2^hidden states are summed", at_least=1, at_most=20)
    steps: int = option(1, "Gibbs steps of the chains between two updates", at_least=1)
    centred: bool = option(True, "centred gradient; without it the machine on 1 − x falls behind")
    holdout: int = option(10000, "training images kept apart for validation", at_least=0)
    limit: int | None = option(None, "use only so many training and test images", at_least=1)


class RBMMnist16(Recipe):
    """p(v) ∝ exp(bᵀv) Πⱼ (1 + exp(cⱼ + W_:ⱼᵀv)): a product of 16 experts."""

    title = "An RBM with 16 hidden units on binary MNIST, its likelihood exact"
    Settings = RBMSettings
    goal = Goal(
        "test_log_likelihood",
        at_least=-143.5,
        data="10,000 images of MNIST, pixels above one half set: nats an image",
        baseline="independent pixels (a product of Bernoullis)",
        margin=30.0,
    )
    example = "an image of 28×28 pixels"
    binarisation = "threshold"

    def data(self, settings: RBMSettings, root: Root = None) -> Splits:
        train, test = (_binary(root, part, settings.limit) for part in (True, False))
        held = min(settings.holdout, len(train[0]) // 5)
        kept, apart = tuple(part[held:] for part in train), tuple(part[:held] for part in train)
        return loaders(settings, kept, apart if held else None, test)

    def task(self, settings: RBMSettings, splits: Splits | None = None) -> nn.Module:
        return BernoulliRBM(PIXELS, settings.hidden)

    def baseline(self, settings: RBMSettings, splits: Splits) -> float:
        independent = Bernoulli(logits=_rates(splits))
        return independent.log_prob(splits.test.dataset.tensors[0]).sum(1).mean().item()

    def fit(self, run: Run) -> tuple[dict[str, float], Any]:
        settings = run.settings
        splits = self.data(settings, run.root)
        run.check_folder()
        test = splits.test.dataset.tensors[0]
        inverted = self._trained(settings, splits, lambda v: 1 - v)
        rbm = self._trained(settings, splits, lambda v: v, run.folder.append)
        run.keep(rbm)
        run.draw(lambda: _filters(rbm))
        run.draw(lambda: _samples(rbm, settings.seed), "samples")
        with weft.no_grad():
            each = rbm.log_prob(test)
            mirrored = inverted.log_prob(1 - test).mean().item()
        figures = {
            "test_log_likelihood": each.mean().item(),
            "test_log_likelihood_error": each.std().item() / len(each) ** 0.5,
            "test_log_likelihood_inverted": mirrored,
            "flip_gap": abs(each.mean().item() - mirrored),
        }
        return self.judged(figures, settings, splits), rbm

    def _trained(
        self, settings: RBMSettings, splits: Splits, seen: Callable[[Tensor], Tensor], log: Callable | None = None
    ) -> BernoulliRBM:
        """A machine trained on `seen` of the images; the exact likelihood of some of them is logged ten times."""
        generator = weft.Generator().manual_seed(settings.seed)
        rbm = self.task(settings)
        train = seen(splits.train.dataset.tensors[0])
        with weft.no_grad():
            rbm.visible_bias.copy_(base_rates(train, 1e-3))
        options = {"centred": settings.centred, "generator": generator}
        learning = PersistentContrastiveDivergence(rbm, settings.batch_size, settings.steps, **options)
        if settings.centred:
            learning.centre(train)
        optimizer = optim.SGD(rbm.parameters(), lr=settings.lr)

        @weft.compile
        def step(v: Tensor) -> None:
            optimizer.zero_grad()
            learning(v, generator).backward()
            optimizer.step()

        for epoch in range(settings.epochs):
            for group in optimizer.param_groups:  # down to a tenth in the last third, when the chains should settle
                group["lr"] = settings.lr * min(1.0, 0.1 ** ((epoch + 1) / settings.epochs * 3 - 2))
            for v, _ in splits.train:
                step(seen(v))
            if log and (epoch % max(settings.epochs // 10, 1) == 0 or epoch == settings.epochs - 1):
                with weft.no_grad():
                    loss = -rbm.log_prob(train[:WATCHED]).mean().item()
                log({"kind": "epoch", "epoch": epoch, "step": (epoch + 1) * len(splits.train), "train_loss": loss})
        return rbm

    def predict(self, task: nn.Module, input: Any) -> Any:
        images, _ = as_images(input, (1, 28, 28), ink=True)
        with weft.no_grad():
            return [{"log_prob": round(value, 3)} for value in task.log_prob(_bits(images)).tolist()]


def _binary(root: Root, train: bool, limit: int | None) -> tuple[Tensor, Tensor]:
    """Images as rows of bits, and their labels: (N, 784), (N,)."""
    images, labels = MNIST(root=root, train=train, download=root is None).as_tensors(normalize=False).tensors
    return _bits(images[:limit]), labels[:limit]


def _bits(images: Tensor) -> Tensor:
    """(N, 1, 28, 28) of brightness in [0, 1] → (N, 784) of 0 and 1."""
    return (images.flatten(1) > 0.5).float()


def _rates(splits: Splits) -> Tensor:
    """Logits of the share of ink of each pixel, one image of either kind added: (784,)."""
    train = splits.train.dataset.tensors[0]
    return base_rates(train, 1 / len(train))


def _filters(rbm: BernoulliRBM) -> Any:
    from ...inspect.drawing import tiles

    return tiles(rbm.weight.detach().mT.reshape(-1, 28, 28).numpy(), cmap="RdBu", symmetric=True)


def _samples(rbm: BernoulliRBM, seed: int) -> Any:
    """Means of pixels given hidden units drawn from the model, exactly."""
    from ...inspect.drawing import tiles

    drawn = rbm.exact_sample(32, weft.Generator().manual_seed(seed + 1))
    return tiles(rbm.reconstruct(drawn).detach().reshape(-1, 28, 28).numpy())


recipe = RBMMnist16()
