"""Random arguments, right and wrong: tensors of all types and layouts, numbers of all sizes, and what is neither."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import numpy as np

import weft
from weft.tensor import wrap

DTYPES = ("float32", "float64", "float16", "bfloat16", "complex64", "int64", "int32", "uint8", "bool")
WEIGHTS = (10, 3, 1, 1, 2, 4, 1, 1, 2)
SHAPES = ((), (0,), (1,), (3,), (5,), (3, 4), (4, 3), (3, 3), (1, 4), (0, 3), (2, 3, 4), (2, 1, 4), (1, 2, 5, 5))
HUGE = (2**31, 2**32 + 1, 2**63 - 1, 2**63, 2**64, 10**15, 10**30, -(2**31), -(2**63), -(10**20), 10**7)
SMALL = (0, 1, 2, 3, 4, 5, -1, -2, -3, 7, 16)
REALS = (0.0, -0.0, 0.5, 1.0, -1.5, 2.0, 1e-300, 1e300, float("nan"), float("inf"), float("-inf"), 0.1)
WORDS = ("", "mean", "none", "sum", "abc", "constant", "reflect", "same", "float32", "cpu", "ij", "fro", "é", "-1", "L")


def tensor(draw: random.Random, shape: tuple[int, ...] | None = None, kind: str | None = None) -> weft.Tensor:
    """A small tensor of any type, sometimes with NaN or inf, sometimes with strange strides, sometimes with a gradient."""
    shape = draw.choice(SHAPES) if shape is None else shape
    kind = draw.choices(DTYPES, WEIGHTS)[0] if kind is None else kind
    numbers = np.random.default_rng(draw.getrandbits(32)).normal(0, 2, shape)
    if draw.random() < 0.08 and numbers.size:
        numbers.flat[draw.randrange(numbers.size)] = draw.choice((np.nan, np.inf, -np.inf, 1e38))
    if kind in ("int64", "int32", "uint8", "bool"):
        numbers = np.abs(np.nan_to_num(numbers, posinf=3, neginf=3)) % 5
    with np.errstate(all="ignore"):
        array = np.asarray(numbers).astype(getattr(weft, kind).np)
    made = wrap(_laid_out(draw, array))
    if made.dtype.category >= 2 and draw.random() < 0.25:
        made.requires_grad_()
    return made


def _laid_out(draw: random.Random, array: np.ndarray) -> np.ndarray:
    chance = draw.random()
    if array.ndim < 1 or chance > 0.3:
        return array
    if chance < 0.1:
        return np.ascontiguousarray(array.T).T
    if chance < 0.2 and array.shape[0]:
        return np.broadcast_to(array[:1], array.shape).copy()[::-1]
    return np.repeat(array, 2, -1)[..., ::2]


def integer(draw: random.Random) -> int:
    return draw.choice(HUGE) if draw.random() < 0.12 else draw.choice(SMALL)


def sizes(draw: random.Random) -> Any:
    made = [integer(draw) for _ in range(draw.randrange(5))]
    return draw.choice((tuple, list))(made)


ODD: tuple[Callable[[random.Random], Any], ...] = (
    lambda draw: None,
    lambda draw: draw.choice(WORDS),
    integer,
    integer,
    lambda draw: draw.choice(REALS),
    lambda draw: draw.choice((True, False)),
    sizes,
    sizes,
    tensor,
    tensor,
    lambda draw: [tensor(draw), tensor(draw)],
    lambda draw: draw.choice(
        (getattr(weft, draw.choice(DTYPES)), int, float, np.float32, np.dtype("int16"), "float64")
    ),
    lambda draw: draw.choice((b"ab", 1j, {}, {"a": 1}, set(), object(), range(3), slice(None), ..., lambda x: x, len)),
    lambda draw: np.asarray(np.random.default_rng(draw.getrandbits(16)).normal(size=draw.choice(SHAPES))),
    lambda draw: draw.choice(
        (["a", "b"], [None], [[1, 2], [3]], [[]], (1.5, 2), np.float32(1), np.int64(3), np.bool_(1))
    ),
)


def anything(draw: random.Random) -> Any:
    """A value of any kind."""
    return draw.choice(ODD)(draw)


_BY_NAME: dict[str, Callable[[random.Random], Any]] = {
    **dict.fromkeys(
        "input self other x x1 x2 tensor source src weight target index mask A B mat1 mat2 vec".split(), tensor
    ),
    **dict.fromkeys(
        "dim dims k n axis diagonal offset start end length num_classes groups dilation stride".split(), integer
    ),
    **dict.fromkeys("size shape sizes kernel_size output_size normalized_shape padding pad".split(), sizes),
    **dict.fromkeys("keepdim inplace training bias upper unbiased sorted".split(), lambda draw: draw.random() < 0.5),
    **dict.fromkeys("p eps alpha beta lr momentum value weight_decay".split(), lambda draw: draw.choice(REALS)),
    **dict.fromkeys("mode reduction".split(), lambda draw: draw.choice(WORDS)),
    "dtype": lambda draw: getattr(weft, draw.choice(DTYPES)),
    "tensors": lambda draw: [tensor(draw) for _ in range(draw.randrange(4))],
}


def named(draw: random.Random, name: str) -> Any:
    """A value that an argument of this name may well take; now and then something else."""
    make = _BY_NAME.get(name)
    if make is None and name.startswith(("num_", "in_", "out_", "hidden", "embed", "n_", "d_")):
        make = lambda draw: draw.choice((1, 2, 3, 4, 6))
    return anything(draw) if make is None or draw.random() < 0.2 else make(draw)
