"""Recipes: reproducible results, one short file each, run from Python or by `weft train`.

    >>> from weft import recipes
    >>> result = recipes.run("digits-mlp", {"epochs": 5})  # doctest: +SKIP
    >>> result.figures["accuracy"], result.reached  # doctest: +SKIP

A recipe is a module that holds a `recipe`, in the folder of its family; its file name, with dashes, is the recipe's name.
"""

from ..runtime.lazy import later as _later

_NAMES: dict[str, tuple[str, ...]] = {
    "base": ("Loaded", "Recipe", "Result", "Run", "Splits", "Trained", "load"),
    "features": ("classifier_features",),
    "finding": ("get", "names"),
    "goal": ("Goal",),
    "running": ("run",),
    "settings": ("Field", "Settings", "TrainSettings", "option"),
}

__all__ = [name for names in _NAMES.values() for name in names]

__getattr__, __dir__ = _later(__name__, (), _NAMES)
