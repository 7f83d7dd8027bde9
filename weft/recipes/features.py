"""Features for figures of samples, from a classifier that a recipe of Weft's has trained."""

from __future__ import annotations

from ..errors import OptionError
from ..metrics.samples import FeatureExtractor
from ..nn.container import Sequential
from ..train.runs import latest_run
from .base import Folder, Given, Root, load
from .running import run

__all__ = ["classifier_features"]

SHAPES = {"mnist-cnn": (1, 28, 28), "fashion-cnn": (1, 28, 28), "cifar10-cnn": (3, 32, 32)}


def classifier_features(
    recipe: str = "mnist-cnn", folder: Folder = None, *, root: Root = None, settings: Given = None
) -> FeatureExtractor:
    """What comes before the last layer of the classifier that `recipe` trains: images in [0, 1] → (B, 128) for MNIST.

    folder: a run of the recipe; None takes the latest one below the runs folder, and trains one if there is none, which
    takes a minute or two. root, settings: for that training

    >>> features = classifier_features("mnist-cnn")  # doctest: +SKIP
    >>> print(weft.metrics.calculate_metrics(samples, test_images, features=features, fid=True, kid=True))  # doctest: +SKIP
    """
    if recipe not in SHAPES:
        raise OptionError(f"classifier_features: expected one of {', '.join(SHAPES)}, got {recipe!r}")
    if folder is None and settings is None:
        latest = latest_run(recipe=recipe)
        folder = latest.path if latest is not None and latest.checkpoint("last").exists() else None
    if folder is None:
        folder = run(recipe, settings, root=root, progress=False).folder
    loaded = load(folder)
    if loaded.recipe.name != recipe:
        raise OptionError(f"classifier_features: {loaded.folder} holds a run of {loaded.recipe.name}, not of {recipe}")
    network = loaded.task.model
    if not isinstance(network, Sequential):
        raise OptionError(f"classifier_features: the network of {recipe} is no row of layers")
    return FeatureExtractor(network, f"{recipe} (seed {loaded.settings.seed})", SHAPES[recipe])
