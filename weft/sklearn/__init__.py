"""Estimators with scikit-learn's interface: `Classifier` and `Regressor` train any module, compiled; `Autoencoder` and
`BernoulliRBM` are transformers.

They work in pipelines, grid searches and cross validation, and without scikit-learn, which is never imported here.

>>> from weft.data import load_digits
>>> images, labels = load_digits()
>>> model = Classifier(hidden=(64,), lr=1e-2, max_epochs=20, random_state=0).fit(images.reshape(-1, 64) / 16, labels)
>>> model.score(images.reshape(-1, 64) / 16, labels) > 0.98
True
"""

from ..runtime.lazy import later as _later

_NAMES: dict[str, tuple[str, ...]] = {
    "autoencoder": ("Autoencoder",),
    "compatible": ("NotFittedError",),
    "estimators": ("Classifier", "Regressor"),
    "rbm": ("BernoulliRBM",),
}

__all__ = [name for names in _NAMES.values() for name in names]

__getattr__, __dir__ = _later(__name__, (), _NAMES)
