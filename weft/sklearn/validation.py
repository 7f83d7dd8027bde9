"""Data as users give them (lists, frames, sparse matrices, tensors) checked and made arrays, in scikit-learn's words."""

from __future__ import annotations

import sys
import warnings
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..errors import InvalidValueError
from ..tensor import Tensor
from .compatible import conversion_warning

__all__ = ["check_labels", "check_names", "check_rows", "check_targets", "check_weights", "feature_names", "take"]

Rows = Any  # a NumPy array (N, D) or (N, D, *), or a SciPy CSR matrix (N, D)


def check_rows(X: Any, dtype: Any = None, dimensions: bool = False) -> Rows:
    """X with finite numbers in `dtype` (None: float32 stays, all else becomes float64), at least one row and column.

    Sparse matrices become CSR and are made dense a batch at a time. dimensions: more than two are welcome.
    """
    if sparse := _is_sparse(X):
        rows = X.tocsr()
    else:
        rows = X.numpy(force=True) if isinstance(X, Tensor) else np.asarray(X)
        _check_dimensions(rows, dimensions)
    if rows.dtype.kind == "c":
        raise InvalidValueError(f"Complex data not supported: X has dtype {rows.dtype}")
    wanted = dtype or (np.float32 if rows.dtype == np.float32 else np.float64)
    with np.errstate(over="ignore"):
        rows = rows.astype(wanted, copy=False)
    for count, what in zip(rows.shape, ("sample", "feature"), strict=False):
        if not count:
            shape = f"(shape={tuple(rows.shape)})"
            raise InvalidValueError(f"Found array with 0 {what}(s) {shape} while a minimum of 1 is required.")
    check_finite("X", rows.data if sparse else rows)
    return rows


def _is_sparse(X: Any) -> bool:
    sparse = sys.modules.get("scipy.sparse")  # nobody has a sparse matrix before that is loaded
    return sparse is not None and sparse.issparse(X)


def _check_dimensions(rows: NDArray, more: bool) -> None:
    if rows.ndim < 2:
        raise InvalidValueError(
            f"Expected 2D array, got {('scalar', '1D')[rows.ndim]} array instead: {rows!r:.60}. Reshape your data either "
            "using array.reshape(-1, 1) if it has a single feature or array.reshape(1, -1) if it is a single sample."
        )
    if rows.ndim > 2 and not more:
        raise InvalidValueError(
            f"Expected 2D array, got {rows.ndim}D array instead, of shape {rows.shape}. Give module= a network that "
            "takes it, or flatten it: X.reshape(len(X), -1)"
        )


def check_finite(name: str, values: NDArray) -> None:
    """Refuse NaN and infinity."""
    if np.isfinite(values).all():
        return
    if np.isnan(values).any():
        raise InvalidValueError(f"Input {name} contains NaN. Remove or impute such rows first.")
    raise InvalidValueError(f"Input {name} contains infinity or a value too large for {values.dtype!r}.")


def take(rows: Rows, index: Any) -> NDArray:
    """Rows of an array or a CSR matrix as a dense array."""
    chosen = rows[index]
    return chosen if isinstance(chosen, np.ndarray) else chosen.toarray()


# ------------------------------------------------------------------------------------------- targets


def check_labels(y: Any, count: int) -> NDArray:
    """Labels of `count` rows: integers, whole numbers, booleans or strings, (N,)."""
    labels = _flat(_target_array(y, count))
    if labels.dtype.kind == "f":
        check_finite("y", labels)
        if (labels != np.floor(labels)).any():
            raise InvalidValueError(
                "Unknown label type: continuous. A classifier needs discrete labels; use Regressor instead."
            )
    if labels.dtype.kind not in "biufOUST":
        raise InvalidValueError(f"Unknown label type: expected numbers or strings, got dtype {labels.dtype}")
    return labels


def check_targets(y: Any, count: int, dtype: Any) -> NDArray:
    """Targets of `count` rows as finite floating numbers, (N,) or (N, M)."""
    targets = _target_array(y, count)
    if targets.dtype.kind == "c":
        raise InvalidValueError(f"Complex data not supported: y has dtype {targets.dtype}")
    if targets.ndim not in (1, 2):
        raise InvalidValueError(f"y should be a 1d or 2d array, got an array of shape {targets.shape} instead.")
    targets = targets.astype(dtype, copy=False)
    check_finite("y", targets)
    return targets


def _target_array(y: Any, count: int) -> NDArray:
    if y is None:
        raise InvalidValueError("This estimator requires y to be passed, but the target y is None.")
    targets = y.numpy(force=True) if isinstance(y, Tensor) else np.asarray(y)
    length = len(targets) if targets.ndim else 0
    if length != count:
        raise InvalidValueError(f"Found input variables with inconsistent numbers of samples: [{count}, {length}]")
    return targets


def _flat(y: NDArray) -> NDArray:
    if y.ndim == 1:
        return y
    if y.ndim == 2 and y.shape[1] == 1:
        message = "A column-vector y was passed when a 1d array was expected. Use y.ravel() to change its shape."
        warnings.warn(message, conversion_warning(), stacklevel=5)
        return y.ravel()
    raise InvalidValueError(f"y should be a 1d array, got an array of shape {y.shape} instead.")


def check_weights(weights: Any, count: int, dtype: Any) -> NDArray:
    """Weights of `count` rows, ≥ 0 and not all 0; None and single numbers weigh all rows alike."""
    given = np.ones(count) if weights is None else np.asarray(weights, np.float64)
    if given.ndim == 0:
        given = np.full(count, float(given))
    if given.shape != (count,):
        raise InvalidValueError(f"sample_weight: expected shape ({count},), got {given.shape}")
    check_finite("sample_weight", given)
    if (given < 0).any() or not given.any():
        raise InvalidValueError(
            "sample_weight: expected weights >= 0, got negative ones or only zeros (all weights are zero)."
        )
    return given.astype(dtype)


# ------------------------------------------------------------------------------------------- names of features


def feature_names(X: Any) -> NDArray | None:
    """The column names of a frame if all are strings, else None."""
    columns = getattr(X, "columns", None)
    if columns is None or callable(columns) or not len(columns):
        return None
    names = list(columns)
    return np.asarray(names, dtype=object) if all(isinstance(name, str) for name in names) else None


def check_names(estimator: Any, X: Any) -> None:
    """Warn if only one of fit and predict saw names, refuse names that differ."""
    fitted, given, name = getattr(estimator, "feature_names_in_", None), feature_names(X), type(estimator).__name__
    if fitted is None and given is not None:
        warnings.warn(f"X has feature names, but {name} was fitted without feature names", stacklevel=5)
    elif fitted is not None and given is None:
        warnings.warn(f"X does not have valid feature names, but {name} was fitted with feature names", stacklevel=5)
    elif fitted is not None and list(fitted) != list(given):
        unseen, missing = sorted({*given} - {*fitted}), sorted({*fitted} - {*given})
        message = "The feature names should match those that were passed during fit.\n"
        message += _bullets("Feature names unseen at fit time:", unseen)
        message += _bullets("Feature names seen at fit time, yet now missing:", missing)
        if not unseen and not missing:
            message += "Feature names must be in the same order as they were in fit.\n"
        raise InvalidValueError(message)


def _bullets(title: str, names: list[str]) -> str:
    shown = names if len(names) < 6 else [*names[:5], "..."]
    return "".join(f"{line}\n" for line in (title, *(f"- {name}" for name in shown))) if names else ""
