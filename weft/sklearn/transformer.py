"""What transformers share: rows in, codes out, names of the columns, tags."""

from __future__ import annotations

from abc import abstractmethod
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ..errors import InvalidValueError, OptionError
from . import compatible as tags
from .compatible import Estimator, not_fitted
from .validation import check_names, check_rows, feature_names

__all__ = ["Transformer"]


class Transformer(Estimator):
    """An estimator that learns from rows alone; y is taken and not looked at, as pipelines hand it on."""

    @abstractmethod
    def fit(self, X: Any, y: Any = None) -> Self:
        """Learn from rows X (N, D)."""

    @abstractmethod
    def transform(self, X: Any) -> NDArray:
        """Codes of rows: (N, D) → (N, columns)"""

    @abstractmethod
    def _columns(self) -> int:
        """How many numbers a code has."""

    def fit_transform(self, X: Any, y: Any = None) -> NDArray:
        """`fit`, then `transform` of the same rows."""
        return self.fit(X, y).transform(X)

    def get_feature_names_out(self, input_features: ArrayLike | None = None) -> NDArray:
        """Names of the columns of codes: the class in small letters, and a number."""
        self._check_fitted()
        if input_features is not None:
            self._check_input_names(np.asarray(input_features, dtype=object))
        return np.array([f"{type(self).__name__.lower()}{i}" for i in range(self._columns())], dtype=object)

    def __sklearn_tags__(self) -> Any:
        return tags.tag_class(tags.Tags)(
            estimator_type=None,
            target_tags=tags.tag_class(tags.TargetTags)(required=False),
            transformer_tags=tags.tag_class(tags.TransformerTags)(preserves_dtype=["float64", "float32"]),
            input_tags=tags.tag_class(tags.InputTags)(sparse=True),
        )

    def _first_rows(self, X: Any, dtype: Any = None) -> Any:
        """The checked rows of a first fit, whose names and number of features are kept."""
        rows = check_rows(X, dtype)
        self.n_features_in_ = rows.shape[1]
        names = feature_names(X)
        if names is not None:
            self.feature_names_in_ = names
        elif hasattr(self, "feature_names_in_"):
            del self.feature_names_in_
        return rows

    def _later_rows(self, X: Any, dtype: Any = None) -> Any:
        """Rows of a fitted estimator: as many features as before, under the same names."""
        self._check_fitted()
        check_names(self, X)
        rows = check_rows(X, dtype)
        if rows.shape[1] != self.n_features_in_:
            raise InvalidValueError(
                f"X has {rows.shape[1]} features, but {type(self).__name__} is expecting {self.n_features_in_} "
                "features as input"
            )
        return rows

    def _check_fitted(self) -> None:
        if not self.__sklearn_is_fitted__():
            raise not_fitted(f"This {type(self).__name__} is not fitted yet. Call 'fit' before asking for codes.")

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "n_features_in_")

    def _check_input_names(self, given: NDArray) -> None:
        known = getattr(self, "feature_names_in_", None)
        if known is not None and not np.array_equal(known, given):
            raise InvalidValueError("input_features is not equal to feature_names_in_")
        if len(given) != self.n_features_in_:
            raise InvalidValueError(
                f"input_features should have length equal to number of features ({self.n_features_in_}), got {len(given)}"
            )

    def _expect(self, name: str, good: bool, expected: str) -> None:
        """Refuse a parameter that is not as expected."""
        if not good:
            raise OptionError(f"{type(self).__name__}: expected {name} {expected}, got {getattr(self, name)!r}")
