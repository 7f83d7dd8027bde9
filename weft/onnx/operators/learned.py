"""Steps of optimisers as operators, and what ai.onnx.ml has: labels, thresholds, trees."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

import weft

from ...errors import UnsupportedError
from ...tensor import Tensor
from .registry import as_array, rule

TRAINING, ML = "ai.onnx.preview.training", "ai.onnx.ml"


def _columns(values: tuple[Any, ...], count: int) -> list[list[Any]]:
    """Parameters, then their gradients, then each kind of state: one list for every parameter."""
    each = len(values) // count
    return [[values[k + each * j] for j in range(count)] for k in range(each)]


def _rows(found: list[tuple[Tensor, ...]]) -> tuple[Tensor, ...]:
    return tuple(value for kind in zip(*found, strict=True) for value in kind)


@rule("Adagrad", domain=TRAINING)
def adagrad(
    rate: Tensor,
    count: Tensor,
    *values: Tensor,
    decay_factor: float = 0.0,
    epsilon: float = 1e-6,
    norm_coefficient: float = 0.0,
) -> tuple[Tensor, ...]:
    step = rate / (1 + count * decay_factor)

    def moved(x: Tensor, g: Tensor, squares: Tensor) -> tuple[Tensor, ...]:
        g = norm_coefficient * x + g
        squares = squares + g * g
        return x - step * g / (squares.sqrt() + epsilon), squares

    return _rows([moved(*column) for column in _columns(values, 3)])


@rule("Adam", domain=TRAINING)
def adam(
    rate: Tensor,
    count: Tensor,
    *values: Tensor,
    alpha: float = 0.9,
    beta: float = 0.999,
    epsilon: float = 1e-6,
    norm_coefficient: float = 0.0,
    norm_coefficient_post: float = 0.0,
) -> tuple[Tensor, ...]:
    number = float(as_array(count).reshape(-1)[0])
    step = rate * ((1 - beta**number) ** 0.5 / (1 - alpha**number)) if number > 0 else rate

    def moved(x: Tensor, g: Tensor, mean: Tensor, square: Tensor) -> tuple[Tensor, ...]:
        g = norm_coefficient * x + g
        mean = alpha * mean + (1 - alpha) * g
        square = beta * square + (1 - beta) * g * g
        x = x - step * mean / (square.sqrt() + epsilon)
        return (1 - norm_coefficient_post) * x, mean, square

    return _rows([moved(*column) for column in _columns(values, 4)])


@rule("Momentum", domain=TRAINING)
def momentum(
    rate: Tensor, count: Tensor, *values: Tensor, alpha: float, beta: float, mode: str, norm_coefficient: float
) -> tuple[Tensor, ...]:
    share = beta if float(as_array(count).reshape(-1)[0]) > 0 else 1.0

    def moved(x: Tensor, g: Tensor, speed: Tensor) -> tuple[Tensor, ...]:
        g = norm_coefficient * x + g
        speed = alpha * speed + share * g
        return x - rate * (g + alpha * speed if mode == "nesterov" else speed), speed

    return _rows([moved(*column) for column in _columns(values, 3)])


@rule("Binarizer", domain=ML)
def binarizer(x: Tensor, *, threshold: float = 0.0) -> Tensor:
    return (x > threshold).to(x.dtype)


@rule("LabelEncoder", domain=ML, raw=True)
def label_encoder(
    x: Any,
    *,
    keys_floats: list[float] | None = None,
    keys_int64s: list[int] | None = None,
    keys_strings: list[str] | None = None,
    keys_tensor: np.ndarray | None = None,
    values_floats: list[float] | None = None,
    values_int64s: list[int] | None = None,
    values_strings: list[str] | None = None,
    values_tensor: np.ndarray | None = None,
    default_float: float = -0.0,
    default_int64: int = -1,
    default_string: str = "_Unused",
    default_tensor: np.ndarray | None = None,
    classes_strings: list[str] | None = None,
) -> Any:
    """A table from keys to values; NaN is a key like any other."""
    keys = next(k for k in (keys_strings, keys_int64s, keys_floats, keys_tensor) if k is not None)
    kinds = (
        (values_strings, object, default_string),
        (values_int64s, np.int64, default_int64),
        (values_floats, np.float32, default_float),
    )
    if values_tensor is not None:
        values, kind = values_tensor.reshape(-1).tolist(), values_tensor.dtype
        default = default_tensor.reshape(-1)[0] if default_tensor is not None else kind.type(-1)
    else:
        values, kind, default = next(row for row in kinds if row[0] is not None)
    named = lambda key: "nan" if isinstance(key, float) and np.isnan(key) else key
    table = {named(k): v for k, v in zip(np.asarray(keys, object).reshape(-1).tolist(), values, strict=True)}
    array = as_array(x)
    found = [table.get(named(v), default) for v in array.reshape(-1).tolist()]
    return np.array([*found, None], object)[:-1].reshape(array.shape).astype(kind)


_COMPARE: dict[int, Callable[[np.ndarray, np.ndarray], np.ndarray]] = {
    0: np.less_equal,
    1: np.less,
    2: np.greater_equal,
    3: np.greater,
    4: np.equal,
    5: np.not_equal,
}


@rule("TreeEnsemble", domain=ML, numbers=(0,))
def tree_ensemble(
    x: np.ndarray,
    *,
    aggregate_function: int = 1,
    leaf_targetids: list[int],
    leaf_weights: np.ndarray,
    membership_values: np.ndarray | None = None,
    n_targets: int,
    nodes_falseleafs: list[int],
    nodes_falsenodeids: list[int],
    nodes_featureids: list[int],
    nodes_hitrates: np.ndarray | None = None,
    nodes_missing_value_tracks_true: list[int] | None = None,
    nodes_modes: np.ndarray,
    nodes_splits: np.ndarray,
    nodes_trueleafs: list[int],
    nodes_truenodeids: list[int],
    post_transform: int = 0,
    tree_roots: list[int],
) -> Tensor:
    """The weights of the leaves that an example falls into, added up over the trees."""
    if post_transform or aggregate_function != 1:
        raise UnsupportedError("TreeEnsemble: only sums without a transform are there")
    members = _members(nodes_modes, membership_values)
    result = np.zeros((len(x), n_targets), leaf_weights.dtype)
    for row, target in zip(x, result, strict=True):
        for root in tree_roots:
            place, leaf, steps = root, False, 0
            while not leaf and steps <= len(nodes_modes):
                mode, value = int(nodes_modes[place]), row[nodes_featureids[place]]
                goes = value in members[place] if mode == 6 else bool(_COMPARE[mode](value, nodes_splits[place]))
                goes = goes or bool(
                    np.isnan(value) and nodes_missing_value_tracks_true and nodes_missing_value_tracks_true[place]
                )
                leaf = bool((nodes_trueleafs if goes else nodes_falseleafs)[place])
                place, steps = (nodes_truenodeids if goes else nodes_falsenodeids)[place], steps + 1
            target[leaf_targetids[place]] += leaf_weights[place]
    return weft.from_numpy(result)


def _members(modes: np.ndarray, values: np.ndarray | None) -> dict[int, set[float]]:
    """The sets of nodes that ask whether a value is among some; they end with NaN."""
    found: dict[int, set[float]] = {}
    left = [] if values is None else values.tolist()
    for node, mode in enumerate(modes):
        if mode == 6:
            end = next((k for k, v in enumerate(left) if np.isnan(v)), len(left))
            found[node], left = set(left[:end]), left[end + 1 :]
    return found
