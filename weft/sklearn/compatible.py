"""What scikit-learn expects of an estimator apart from learning: parameters, tags, errors.

Its own classes are used where it is already loaded, and stand-ins of the same shape where it is not.
"""

from __future__ import annotations

import inspect
import sys
from dataclasses import dataclass, field
from functools import cache
from typing import Any, Self

import numpy as np

import weft

from ..errors import InvalidValueError, WeftError

__all__ = ["DataConversionWarning", "Estimator", "NotFittedError", "conversion_warning", "not_fitted", "seed_of"]


class NotFittedError(WeftError, ValueError, AttributeError):
    """An estimator that is asked for predictions before `fit`; scikit-learn's class of that name, too, where loaded."""

    def __reduce__(self) -> tuple:
        return not_fitted, self.args


class DataConversionWarning(UserWarning):
    """Data in another shape than was expected, which were converted; scikit-learn's class where that is loaded."""


def not_fitted(message: str) -> NotFittedError:
    """The error to raise."""
    return _joined_error(_theirs("sklearn.exceptions", "NotFittedError"))(message)


@cache
def _joined_error(theirs: type[Exception] | None) -> type[NotFittedError]:
    return NotFittedError if theirs is None else type("NotFittedError", (NotFittedError, theirs), {})


def conversion_warning() -> type[Warning]:
    return _theirs("sklearn.exceptions", "DataConversionWarning") or DataConversionWarning


def _theirs(module: str, name: str) -> Any:
    """A class of scikit-learn if that has been imported, else None."""
    return getattr(sys.modules.get(module), name, None)


# ------------------------------------------------------------------------------------------- parameters


class Estimator:
    """The base of estimators: parameters are the arguments of `__init__`, kept unchanged under their names."""

    @classmethod
    def _defaults(cls) -> dict[str, Any]:
        parameters = inspect.signature(cls.__init__).parameters.values()
        return {p.name: p.default for p in parameters if p.name != "self"}

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """Parameters by name. `deep` is scikit-learn's; no parameter has parameters of its own here."""
        return {name: getattr(self, name) for name in sorted(self._defaults())}

    def set_params(self, **params: Any) -> Self:
        """Change parameters; `fit` checks their values."""
        valid = sorted(self._defaults())
        for name in params:
            if name not in valid:
                raise InvalidValueError(
                    f"Invalid parameter {name!r} for estimator {self!r}. Valid parameters are: {valid}."
                )
        for name, value in params.items():
            setattr(self, name, value)
        return self

    def __repr__(self) -> str:
        changed = {n: v for n, v in self._defaults().items() if repr(getattr(self, n)) != repr(v)}
        return f"{type(self).__name__}({', '.join(f'{name}={getattr(self, name)!r}' for name in changed)})"


def seed_of(state: Any) -> int:
    """A seed from what scikit-learn calls random_state."""
    if state is None:
        return int(weft.default_generator.bits(1)[0] >> np.uint64(1))
    if isinstance(state, weft.Generator):
        return int(state.bits(1)[0] >> np.uint64(1))
    if isinstance(state, np.random.RandomState):
        return int(state.randint(2**31))
    if isinstance(state, np.random.Generator):
        return int(state.integers(2**31))
    return int(state)


# ------------------------------------------------------------------------------------------- tags


@dataclass
class InputTags:
    """What inputs an estimator takes; the fields are scikit-learn's, here and below."""

    one_d_array: bool = False
    two_d_array: bool = True
    three_d_array: bool = False
    sparse: bool = False
    categorical: bool = False
    string: bool = False
    dict: bool = False
    positive_only: bool = False
    allow_nan: bool = False
    pairwise: bool = False


@dataclass
class TargetTags:
    required: bool
    one_d_labels: bool = False
    two_d_labels: bool = False
    positive_only: bool = False
    multi_output: bool = False
    single_output: bool = True


@dataclass
class ClassifierTags:
    poor_score: bool = False
    multi_class: bool = True
    multi_label: bool = False


@dataclass
class RegressorTags:
    poor_score: bool = False


@dataclass
class TransformerTags:
    preserves_dtype: list[str] = field(default_factory=lambda: ["float64"])


@dataclass
class Tags:
    estimator_type: str | None
    target_tags: TargetTags
    transformer_tags: TransformerTags | None = None
    classifier_tags: ClassifierTags | None = None
    regressor_tags: RegressorTags | None = None
    array_api_support: bool = False
    no_validation: bool = False
    non_deterministic: bool = False
    requires_fit: bool = True
    _skip_test: bool = False
    input_tags: InputTags = field(default_factory=InputTags)


def tag_class(kind: type) -> type:
    """scikit-learn's class for one of those above, if it is loaded: its checks ask for instances of its own."""
    return _theirs("sklearn.utils", kind.__name__) or kind
