"""`Classifier` and `Regressor`: modules of Weft behind scikit-learn's interface."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

import weft

from .. import nn
from ..errors import InvalidValueError, OptionError
from ..models.classical.mlp import MLP
from ..random import fork_rng, manual_seed
from ..tensor import Tensor
from ..train.selection import hold_out
from . import compatible as tags
from .compatible import Estimator, not_fitted, seed_of
from .learner import Learner, Patience, Sample, cross_entropy, squared_error
from .validation import check_labels, check_names, check_rows, check_targets, check_weights, feature_names

__all__ = ["Classifier", "Regressor"]

OPTIMIZERS = ("adam", "adamw", "sgd", "rmsprop")
ONE_BATCH = 200  # rows of a batch by default, as in scikit-learn's networks


class Network(Estimator):
    """What `Classifier` and `Regressor` share: making the module, training it, its parameters.

    module      None for an `MLP` of `hidden`, `activation`, `dropout`, `norm`, `init`; or a function
                module(in_features, out_features) that makes one, for rows of any shape with in_features = X.shape[1]
    loss        None for the usual one, or loss(prediction, target) that gives a loss for each row
    optimizer   "adam", "adamw", "sgd", "rmsprop", or a function of the parameters
    batch_size  "auto" for 200 rows, or all if there are fewer; or a number
    tol, n_iter_no_change   training ends when the figure watched has not improved by tol for so many epochs
    early_stopping          watch the score on a `validation_fraction` of the rows, not the training loss, and return to
                            the weights with the best one
    warm_start  `fit` goes on from the present weights
    random_state            None, a number, or a generator of NumPy or Weft; a number makes `fit` repeatable
    dtype       "float32", "float64", or None: float32 for float32 data, else float64
    compile     train by compiled steps (where the module can be compiled)

    After `fit`: `module_`, `n_features_in_`, `feature_names_in_` (of frames), `n_iter_` (epochs), `loss_curve_`,
    `validation_scores_` (with early_stopping). Sparse matrices are taken; rows are made dense a batch at a time.
    """

    def __init__(
        self,
        module: Callable[[int, int], nn.Module] | None = None,
        *,
        hidden: Sequence[int] = (100,),
        activation: str = "relu",
        dropout: float = 0.0,
        norm: str | None = None,
        init: str | None = None,
        loss: Callable[[Tensor, Tensor], Tensor] | None = None,
        optimizer: str | Callable[[Any], Any] = "adam",
        lr: float = 1e-3,
        weight_decay: float = 0.0,
        batch_size: int | str = "auto",
        max_epochs: int = 200,
        tol: float = 1e-4,
        n_iter_no_change: int = 10,
        early_stopping: bool = False,
        validation_fraction: float = 0.1,
        warm_start: bool = False,
        random_state: Any = None,
        dtype: str | None = None,
        compile: bool = True,
        verbose: bool = False,
    ) -> None:
        self.module, self.hidden, self.activation, self.dropout = module, hidden, activation, dropout
        self.norm, self.init, self.loss, self.optimizer = norm, init, loss, optimizer
        self.lr, self.weight_decay, self.batch_size, self.max_epochs = lr, weight_decay, batch_size, max_epochs
        self.tol, self.n_iter_no_change, self.early_stopping = tol, n_iter_no_change, early_stopping
        self.validation_fraction, self.warm_start, self.random_state = validation_fraction, warm_start, random_state
        self.dtype, self.compile, self.verbose = dtype, compile, verbose

    # ---- what the two differ in --------------------------------------------------------------------------------

    _default_loss: Callable[[Tensor, Tensor], Tensor]

    def _encode(self, y: Any, count: int, dtype: Any, fresh: bool) -> NDArray:
        """Targets as the loss takes them; sets what is known of them (classes, outputs) if fresh."""
        raise NotImplementedError

    def _outputs(self) -> int:
        raise NotImplementedError

    def _figure(self, sample: Sample) -> float:
        """The score of a sample with encoded targets."""
        raise NotImplementedError

    # ---- fitting -----------------------------------------------------------------------------------------------

    def fit(self, X: Any, y: Any, sample_weight: ArrayLike | None = None) -> Self:
        """Train on rows X (N, D), array, frame or sparse, and targets y, each row counting `sample_weight` times."""
        fresh, seed = not (self.warm_start and self.__sklearn_is_fitted__()), seed_of(self.random_state)
        with fork_rng():
            self._train(self._begin(X, y, sample_weight, fresh, seed), seed)
        return self

    def _partial_fit(self, X: Any, y: Any, sample_weight: ArrayLike | None) -> Self:
        fresh, seed = not self.__sklearn_is_fitted__(), seed_of(self.random_state)
        with fork_rng():
            self._epoch(self._begin(X, y, sample_weight, fresh, seed), seed)
        return self

    def _begin(self, X: Any, y: Any, sample_weight: Any, fresh: bool, seed: int) -> Sample:
        """Checked data without the rows of weight 0; if fresh, a new module for them is made."""
        self._check_options()
        dtype = np.dtype(self.dtype) if self.dtype else None
        rows = check_rows(X, dtype, self.module is not None) if fresh else self._check_rows(X)
        weights = check_weights(sample_weight, rows.shape[0], rows.dtype)
        sample = Sample(rows, self._encode(y, rows.shape[0], rows.dtype, fresh), weights)
        if fresh:
            manual_seed(seed)  # weights and dropout draw from the default generator
            self._take_names(X, rows.shape[1])
            self._prepare(sample)
        elif not callable(self.optimizer):
            for group in self._learner.optimizer.param_groups:
                group["lr"], group["weight_decay"] = self.lr, self.weight_decay
        return sample if weights.all() else sample.take(np.flatnonzero(weights))

    def _take_names(self, X: Any, features: int) -> None:
        self.n_features_in_ = features
        names = feature_names(X)
        if names is not None:
            self.feature_names_in_ = names
        elif hasattr(self, "feature_names_in_"):
            del self.feature_names_in_

    def _prepare(self, sample: Sample) -> None:
        """A new module and optimiser for the present parameters."""
        self.__dict__.pop("_learner", None)  # not fitted, should this fail
        inputs, outputs = self.n_features_in_, self._outputs()
        if self.module is None:
            module = MLP(inputs, self.hidden, outputs, self.activation, self.dropout, self.norm, self.init)
        else:
            module = self.module(inputs, outputs)
        self.module_ = module.to(weft.from_numpy(np.empty(0, sample.rows.dtype)).dtype)
        self._learner = Learner(self.module_, self._make_optimizer(), self.loss or self._default_loss, self.compile)
        self.n_iter_, self.loss_curve_ = 0, []

    def _make_optimizer(self) -> weft.optim.Optimizer:
        if callable(self.optimizer):
            return self.optimizer(self.module_.parameters())
        kinds = dict(zip(OPTIMIZERS, ("Adam", "AdamW", "SGD", "RMSprop"), strict=True))
        options = {"momentum": 0.9, "nesterov": True} if self.optimizer == "sgd" else {}
        make = getattr(weft.optim, kinds[self.optimizer])
        return make(self.module_.parameters(), lr=self.lr, weight_decay=self.weight_decay, **options)

    def _train(self, sample: Sample, seed: int) -> None:
        """Epochs until the limit, or until nothing improves."""
        held = None
        if self.early_stopping:
            split = hold_out(len(sample), self.validation_fraction, seed=seed, stratify=self._strata(sample))
            sample, held = sample.take(split.train), sample.take(split.validation)
            self.validation_scores_ = []
        patience = Patience(self.tol, self.n_iter_no_change, self.module_ if held else None)
        for _ in range(self.max_epochs):
            loss = self._epoch(sample, seed)
            if patience.exhausted(-loss if held is None else self._validate(held)):
                break
        patience.restore()

    def _epoch(self, sample: Sample, seed: int) -> float:
        """One pass over the rows. What epoch e draws (order, dropout) is a pure function of (seed, e)."""
        stream = weft.Generator().manual_seed(seed).fold_in(self.n_iter_)
        manual_seed(stream.initial_seed())
        size = ONE_BATCH if self.batch_size == "auto" else self.batch_size
        loss = self._learner.epoch(sample, min(size, len(sample)), stream)
        self.n_iter_ += 1
        self.loss_curve_.append(loss)
        if self.verbose:
            print(f"epoch {self.n_iter_}: loss {loss:.6g}")
        if not np.isfinite(loss):
            raise InvalidValueError(
                f"training diverged: loss {loss} in epoch {self.n_iter_}; scale the data, or lower lr"
            )
        return loss

    def _strata(self, sample: Sample) -> NDArray | None:
        return None

    def _validate(self, held: Sample) -> float:
        score = self._figure(held)
        self.validation_scores_.append(score)
        return score

    def _check_options(self) -> None:
        def check(name: str, good: bool, expected: str) -> None:
            if not good:
                raise OptionError(f"{type(self).__name__}: expected {name} {expected}, got {getattr(self, name)!r}")

        size = self.batch_size
        check("batch_size", size == "auto" or (isinstance(size, (int, np.integer)) and size >= 1), "'auto' or >= 1")
        check("max_epochs", self.max_epochs >= 1, ">= 1")
        check("validation_fraction", 0 < self.validation_fraction < 1, "between 0 and 1")
        check("optimizer", callable(self.optimizer) or self.optimizer in OPTIMIZERS, f"one of {OPTIMIZERS}")
        check("dtype", self.dtype in (None, "float32", "float64"), "None, 'float32' or 'float64'")

    # ---- predicting --------------------------------------------------------------------------------------------

    def _check_rows(self, X: Any) -> Any:
        """X as `fit` saw it: its features, their names, the type of the parameters."""
        check_names(self, X)
        dtype = next((p.dtype for p in self.module_.parameters()), weft.get_default_dtype())
        rows = check_rows(X, weft.empty(0, dtype=dtype).numpy().dtype, self.module is not None)
        if rows.shape[1] != self.n_features_in_:
            raise InvalidValueError(
                f"X has {rows.shape[1]} features, but {type(self).__name__} is expecting {self.n_features_in_} "
                "features as input"
            )
        return rows

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "_learner")

    def _predict(self, X: Any) -> NDArray:
        if not self.__sklearn_is_fitted__():
            raise not_fitted(f"This {type(self).__name__} is not fitted yet. Call 'fit' before asking for predictions.")
        return self._learner.predict(self._check_rows(X))


class Classifier(Network):
    """A network that predicts classes: softmax outputs trained by cross entropy. Parameters are those of `Network`.

    Labels may be numbers or strings; `classes_` has them sorted, in the order of the columns of `predict_proba`.

    >>> model = Classifier(hidden=(8,), lr=0.1, max_epochs=100, random_state=0)
    >>> model.fit([[0, 0], [0, 1], [1, 0], [1, 1]], ["same", "other", "other", "same"]).predict([[0, 1]]).tolist()
    ['other']
    """

    _default_loss = staticmethod(cross_entropy)

    def partial_fit(
        self, X: Any, y: Any, classes: ArrayLike | None = None, sample_weight: ArrayLike | None = None
    ) -> Self:
        """One epoch on some rows. The first call needs all `classes` unless y has them all."""
        if not self.__sklearn_is_fitted__():
            self._classes = None if classes is None else np.unique(np.asarray(classes))
        elif classes is not None and not np.array_equal(np.unique(np.asarray(classes)), self.classes_):
            raise InvalidValueError(
                f"partial_fit: expected the classes of the first call, {self.classes_}, got {classes}"
            )
        return self._partial_fit(X, y, sample_weight)

    def predict_proba(self, X: Any) -> NDArray:
        """P(class | row), (N, classes)."""
        return np.exp(self.predict_log_proba(X))

    def predict_log_proba(self, X: Any) -> NDArray:
        """log P(class | row), (N, classes)."""
        scores = self._predict(X)
        scores = scores - scores.max(1, keepdims=True)
        return scores - np.log(np.exp(scores).sum(1, keepdims=True))

    def predict(self, X: Any) -> NDArray:
        """The most probable class of each row, (N,)."""
        scores = self._predict(X)
        return self.classes_[scores.argmax(1)]

    def score(self, X: Any, y: Any, sample_weight: ArrayLike | None = None) -> float:
        """The share of rows whose class is predicted."""
        right = self.predict(X) == check_labels(y, _count(X))
        return float(np.average(right, weights=sample_weight))  # pyright: ignore[reportCallIssue]

    def __sklearn_tags__(self) -> Any:
        return tags.tag_class(tags.Tags)(
            estimator_type="classifier",
            target_tags=tags.tag_class(tags.TargetTags)(required=True),
            classifier_tags=tags.tag_class(tags.ClassifierTags)(),
            input_tags=tags.tag_class(tags.InputTags)(sparse=True, three_d_array=self.module is not None),
        )

    def _encode(self, y: Any, count: int, dtype: Any, fresh: bool) -> NDArray:
        labels = check_labels(y, count)
        if fresh:
            announced = self.__dict__.pop("_classes", None)
            self.classes_ = np.unique(labels) if announced is None else announced
        numbers = np.searchsorted(self.classes_, labels).clip(0, len(self.classes_) - 1)
        unknown = self.classes_[numbers] != labels
        if unknown.any():
            raise InvalidValueError(f"y has classes {np.unique(labels[unknown])} that are not in {self.classes_}")
        return numbers.astype(np.int64)

    def _outputs(self) -> int:
        return len(self.classes_)

    def _strata(self, sample: Sample) -> NDArray:
        return sample.targets

    def _figure(self, sample: Sample) -> float:
        right = self._learner.predict(sample.rows).argmax(1) == sample.targets
        return float(np.average(right, weights=sample.weights))


class Regressor(Network):
    """A network that predicts numbers, one or several, trained by squared error. Parameters are those of `Network`.

    Targets are taken as they are: bring them to a spread near 1 (scikit-learn's `TransformedTargetRegressor`).
    """

    _default_loss = staticmethod(squared_error)

    def partial_fit(self, X: Any, y: Any, sample_weight: ArrayLike | None = None) -> Self:
        """One epoch on some rows."""
        return self._partial_fit(X, y, sample_weight)

    def predict(self, X: Any) -> NDArray:
        """(N,) or (N, M), as the targets were."""
        outputs = self._predict(X)
        return outputs.reshape(len(outputs), *self._target_shape)

    def score(self, X: Any, y: Any, sample_weight: ArrayLike | None = None) -> float:
        """R² = 1 − Σ w (y − ŷ)² / Σ w (y − ȳ)², the mean over several outputs."""
        predictions = self.predict(X)
        weights = check_weights(sample_weight, len(predictions), np.float64)
        return _r2(predictions, check_targets(y, len(predictions), np.float64), weights)

    def __sklearn_tags__(self) -> Any:
        return tags.tag_class(tags.Tags)(
            estimator_type="regressor",
            target_tags=tags.tag_class(tags.TargetTags)(required=True, multi_output=True),
            regressor_tags=tags.tag_class(tags.RegressorTags)(),
            input_tags=tags.tag_class(tags.InputTags)(sparse=True, three_d_array=self.module is not None),
        )

    def _encode(self, y: Any, count: int, dtype: Any, fresh: bool) -> NDArray:
        targets = check_targets(y, count, dtype)
        if fresh:
            self._target_shape = targets.shape[1:]
        if targets.shape[1:] != self._target_shape:
            raise InvalidValueError(
                f"y: expected {self._target_shape} numbers a row, as before, got {targets.shape[1:]}"
            )
        return targets.reshape(count, -1)  # (N,) → (N, 1)

    def _outputs(self) -> int:
        return int(np.prod(self._target_shape))

    def _figure(self, sample: Sample) -> float:
        return _r2(self._learner.predict(sample.rows).reshape(sample.targets.shape), sample.targets, sample.weights)


def _r2(predictions: NDArray, targets: NDArray, weights: NDArray) -> float:
    """The mean over outputs of 1 − residual / total; of constant targets 1 if they are met, else 0."""
    if len(targets) < 2:
        return float("nan")
    y, p = targets.reshape(len(targets), -1).astype(np.float64), predictions.reshape(len(targets), -1)
    mean = np.average(y, axis=0, weights=weights)
    residual = np.average((y - p) ** 2, axis=0, weights=weights)
    total = np.average((y - mean) ** 2, axis=0, weights=weights)
    varied = total > 0
    ratios = residual / np.where(varied, total, 1)
    return float(np.where(varied, 1 - ratios, residual == 0).mean())


def _count(X: Any) -> int:
    return X.shape[0] if hasattr(X, "shape") else len(X)
