"""denoising-filters: an autoencoder with more units than it needs learns strokes when its input is damaged (N1 §7.1).

After Vincent et al. (2010): one layer, tied weights. Judged by what it makes of damaged test images, beside the best linear
filter for the same damage; trained without noise as well, for the picture of what its units look like then. Seen: 8.57,
linear filter 11.14, trained without noise 21.6 (seed 101, 80 s of one core); units are spots and short strokes.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

import weft

from ... import nn
from ...models.autoencoders.denoising import GaussianNoise, Masking, SaltAndPepper
from ...models.autoencoders.tied import TiedAutoencoder
from ...tensor import Tensor
from ..base import Goal, Recipe, Root, Run, Splits
from ..baselines import ridge
from ..inputs import as_images
from ..settings import TrainSettings, option
from .digits import PIXELS, digit_splits, filters, trained

__all__ = ["DenoisingFilters", "DenoisingSettings", "recipe"]

NOISES = {"masking": Masking, "gaussian": GaussianNoise, "salt_and_pepper": SaltAndPepper}


@dataclass(kw_only=True)
class DenoisingSettings(TrainSettings):
    """Settings of denoising-filters."""

    epochs: int = 15
    batch_size: int = 100
    lr: float = 2e-3
    hidden: int = option(256, "units of the only layer", at_least=1)
    noise: Literal["masking", "gaussian", "salt_and_pepper"] = option("masking", "how images are damaged")
    amount: float = option(0.4, "the share of pixels that is hit, or the noise's standard deviation", above=0)
    holdout: int = option(5000, "training images kept apart for validation", at_least=0)
    limit: int | None = option(None, "use only so many training and test images", at_least=1)


class DenoisingFilters(Recipe):
    """h = σ(W x̃ + b),  x̂ = σ(Wᵀ h + c), cross entropy with the undamaged x."""

    title = "A denoising autoencoder on MNIST, and what its units look for"
    Settings = DenoisingSettings
    goal = Goal(
        "test_squared_error",
        at_most=9.5,
        data="10,000 damaged images of MNIST: squared error of what is made of them",
        baseline="the best linear filter (ridge regression from damaged to whole images)",
        margin=2.0,
    )
    example = "an image of 28×28 pixels"

    def data(self, settings: DenoisingSettings, root: Root = None) -> Splits:
        return digit_splits(settings, root)

    def task(self, settings: DenoisingSettings, splits: Splits | None = None) -> nn.Module:
        return _made(settings, NOISES[settings.noise](settings.amount))

    def baseline(self, settings: DenoisingSettings, splits: Splits) -> float:
        noise = NOISES[settings.noise](settings.amount)
        train, test = (part.dataset.tensors[0] for part in (splits.train, splits.test))
        seen = noise(train, weft.Generator().manual_seed(settings.seed + 1))
        ((weights, offset),) = ridge(seen.numpy(), train.numpy().astype("float64"), (1e-3,))
        said = _damaged(noise, test).numpy() @ weights + offset
        return float(((said.clip(0, 1) - test.numpy()) ** 2).sum(1).mean())

    def fit(self, run: Run) -> tuple[dict[str, float], Any]:
        settings = run.settings
        splits = self.data(settings, run.root)
        run.check_folder()
        plain = trained(_made(settings, None), settings, splits)
        model = trained(self.task(settings), settings, splits, run.folder.append)
        run.keep(model)
        test = splits.test.dataset.tensors[0]
        run.draw(lambda: _repaired(model, test[:8]))
        run.draw(lambda: filters(model.encoder[0].weight), "filters")
        run.draw(lambda: filters(plain.encoder[0].weight), "filters_without_noise")
        figures = {
            "test_squared_error": _repair_error(model, model, test),
            "test_squared_error_without_noise": _repair_error(plain, model, test),
            "test_squared_error_of_whole_images": _mean_error(model, test, test),
        }
        return self.judged(figures, settings, splits), model

    def predict(self, task: TiedAutoencoder, input: Any) -> Any:
        images, _ = as_images(input, (1, 28, 28), ink=True)
        with weft.no_grad():
            made = task.reconstruct(images.flatten(1))
        return [{"pixels": [round(value, 3) for value in row]} for row in made.tolist()]


def _made(settings: DenoisingSettings, noise: Any) -> TiedAutoencoder:
    return TiedAutoencoder(PIXELS, [settings.hidden], "cross_entropy", "sigmoid", noise=noise)


def _damaged(noise: Any, x: Tensor) -> Tensor:
    """The same damage to the test images for everybody."""
    return noise(x, weft.Generator().manual_seed(12345))


def _repair_error(model: TiedAutoencoder, noisy: TiedAutoencoder, x: Tensor) -> float:
    return _mean_error(model, _damaged(noisy.noise, x), x)


@weft.no_grad()
def _mean_error(model: TiedAutoencoder, seen: Tensor, x: Tensor) -> float:
    """Mean Σ (x − r(seen))² over rows."""
    return ((x - model.reconstruct(seen)) ** 2).sum(1).mean().item()


def _repaired(model: TiedAutoencoder, x: Tensor) -> Any:
    """Whole images, damaged ones, and what is made of them."""
    from ...inspect.drawing import tiles

    seen = _damaged(model.noise, x)
    with weft.no_grad():
        rows = weft.cat([x, seen, model.reconstruct(seen)])
    return tiles(rows.clamp(0, 1).reshape(-1, 28, 28).numpy())


recipe = DenoisingFilters()
