"""Steps of random programs that compute: element by element, along dimensions, products, random numbers.

Each kind draws its operands and enters a step into a program; False: nothing fits.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

import weft
import weft.nn.functional as F
from weft import Tensor

from .graphs import INEXACT, Known, Maker

STEPS: list[Callable[[Maker], Any]] = []  # each as often as it is likely


def step(weight: int) -> Callable[[Callable], Callable]:
    """Enter a kind of step."""

    def enter(function: Callable) -> Callable:
        STEPS.extend([function] * weight)
        return function

    return enter


def bits(count: int) -> int:
    return max(count, 1).bit_length()


def broadcasts(a: tuple[int, ...], b: tuple[int, ...]) -> bool:
    try:
        return math.prod(np.broadcast_shapes(a, b)) <= 20000
    except ValueError:
        return False


def two(m: Maker, fits: Callable[[Known], bool] = lambda v: True) -> tuple[int, int] | None:
    """Two values that broadcast."""
    i = m.index(fits)
    if i is None:
        return None
    j = m.index(lambda v: fits(v) and broadcasts(m.values[i].shape, v.shape))
    return None if j is None else (i, j)


# ------------------------------------------------------------------------------------ element by element


@step(3)
def sign_changes(m: Maker) -> Any:
    name = m.pick(("neg", "abs", "relu", "square", "clone", "positive"))
    i = m.index(lambda v: v.dtype is not weft.bool and (name != "neg" or v.dtype is not weft.uint8))
    if i is None:
        return False
    v, times = m.values[i], 2 if name == "square" else 1
    return m.add(f"{name}({{}})", [i], lambda k, x: getattr(x, name)(), v.high * times + 1, v.low * times)


SMOOTH: dict[str, Callable[[Tensor], Tensor]] = {
    "exp": lambda x: x.clamp(-20, 4).exp(),
    "expm1": lambda x: x.clamp(-20, 3).expm1(),
    "log": lambda x: (x.abs() + 0.5).log(),
    "log1p": lambda x: x.abs().log1p(),
    "sqrt": lambda x: (x.square() + 0.25).sqrt(),
    "rsqrt": lambda x: (x.square() + 0.25).rsqrt(),
    "reciprocal": lambda x: 1 / (x.square() + 0.5),
    "tanh": weft.tanh,
    "sigmoid": weft.sigmoid,
    "sin": lambda x: x.clamp(-30, 30).sin(),
    "cos": lambda x: x.clamp(-30, 30).cos(),
    "erf": weft.erf,
    "gelu": F.gelu,
    "silu": F.silu,
    "softplus": F.softplus,
    "leaky_relu": lambda x: F.leaky_relu(x, 0.25),
    "elu": F.elu,
    "pow": lambda x: (x.square() + 0.5) ** 0.75,
    "cube": lambda x: x.clamp(-2, 2) ** 3,
    "logsigmoid": F.logsigmoid,
    "atan": weft.atan,
}


@step(4)
def smooth(m: Maker) -> Any:
    name = m.pick(tuple(SMOOTH))
    i = m.index(lambda v: v.floating)
    return i is not None and m.add(f"{name}({{}})", [i], lambda k, x: SMOOTH[name](x))


@step(2)
def rough(m: Maker) -> Any:
    """Only exact values: what is on one side of an edge stays there."""
    name = m.pick(("floor", "ceil", "round", "trunc", "sign", "isnan", "isinf", "signbit", "logical_not", "frac"))
    fits = lambda v: v.floating or name == "logical_not" or (name == "sign" and v.dtype is not weft.bool)
    i = m.index(lambda v: v.exact and fits(v))
    if i is None:
        return False
    v = m.values[i]
    return m.add(f"{name}({{}})", [i], lambda k, x: getattr(x, name)(), v.high + 1, v.low if name == "frac" else 0)


@step(6)
def arithmetic(m: Maker) -> Any:
    name = m.pick(("add", "sub", "mul", "mul", "maximum", "minimum"))
    found = two(m, lambda v: name != "sub" or v.dtype is not weft.bool)
    if found is None:
        return False
    a, b = (m.values[i] for i in found)
    high, low = (a.high + b.high, a.low + b.low) if name == "mul" else (max(a.high, b.high) + 1, max(a.low, b.low))
    high = high if a.exact and b.exact else INEXACT
    return m.add(f"{name}({{}}, {{}})", found, lambda k, x, y: getattr(weft, name)(x, y), high, low)


QUOTIENTS: dict[str, Callable[[Tensor, Tensor], Tensor]] = {
    "div": lambda x, y: x / (y.square() + 0.5),
    "hypot": lambda x, y: weft.hypot(x, y + 8),
    "atan2": lambda x, y: weft.atan2(x, y.square() + 1),
    "lerp": lambda x, y: weft.lerp(x, y, 0.25) if x.dtype is y.dtype else x - y,
    "logaddexp": lambda x, y: weft.logaddexp(x.clamp(-9, 9), y.clamp(-9, 9)),
}


@step(2)
def quotients(m: Maker) -> Any:
    name = m.pick(tuple(QUOTIENTS))
    found = two(m, lambda v: v.floating)
    return found is not None and m.add(f"{name}({{}}, {{}})", found, lambda k, x, y: QUOTIENTS[name](x, y))


NUMBERS: dict[str, tuple[Callable[[Tensor], Any], int, int]] = {  # text: function, more bits before, after the point
    "{} * 2": (lambda x: x * 2, 1, 0),
    "{} + 1": (lambda x: x + 1, 1, 0),
    "3 - {}": (lambda x: 3 - x, 2, 0),
    "{} * 1": (lambda x: x * 1, 0, 0),
    "{} + 0": (lambda x: x + 0, 0, 0),
    "{} - 0": (lambda x: x - 0, 0, 0),
    "{} * 0": (lambda x: x * 0, 0, 0),
    "{}.clamp(0, 1)": (lambda x: x.clamp(0, 1), 0, 0),
    "{} * 0.5": (lambda x: x * 0.5, 0, 1),
    "{} / 4": (lambda x: x / 4, 0, 2),
    "{}.clamp(min=0.5)": (lambda x: x.clamp(min=0.5), 0, 1),
    "{} ** 2": (lambda x: x**2, INEXACT, 0),
}


@step(4)
def numbers(m: Maker) -> Any:
    text = m.pick(tuple(NUMBERS))
    run, high, low = NUMBERS[text]
    i = m.index(lambda v: v.dtype is not weft.bool and (v.floating or not low))
    if i is None:
        return False
    v = m.values[i]
    return m.add(text, [i], lambda k, x: run(x), v.high + high, v.low + low)


@step(3)
def comparisons(m: Maker) -> Any:
    name = m.pick(("lt", "le", "gt", "ge", "eq", "ne"))
    found = two(m, lambda v: v.exact)
    return found is not None and m.add(f"{name}({{}}, {{}})", found, lambda k, x, y: getattr(weft, name)(x, y), 1, 0)


@step(3)
def choices(m: Maker) -> Any:
    c = m.index(lambda v: v.dtype is weft.bool)
    if c is None:
        return False
    condition = m.values[c]
    i = m.index(lambda v: broadcasts(v.shape, condition.shape))
    if i is None:
        return False
    a = m.values[i]
    shape = np.broadcast_shapes(a.shape, condition.shape)
    j = m.index(lambda v: broadcasts(v.shape, shape))
    b = m.values[j if j is not None else i]
    operands = [c, i, j if j is not None else i]
    return m.add(
        "where({}, {}, {})",
        operands,
        lambda k, c, x, y: weft.where(c, x, y),
        max(a.high, b.high),
        max(a.low, b.low),
    )


@step(2)
def integers(m: Maker) -> Any:
    name = m.pick(("bitwise_and", "bitwise_or", "bitwise_xor", "floor_divide", "remainder", "logical_and", "shift"))
    logic = name.startswith(("bit", "log"))
    found = two(m, lambda v: not v.floating and (logic or v.dtype is not weft.bool))
    if found is None:
        return False
    run = {
        "floor_divide": lambda k, x, y: weft.floor_divide(x, y.abs() % 5 + 1),
        "remainder": lambda k, x, y: weft.remainder(x, y.abs() % 5 + 1),
        "shift": lambda k, x, y: x << (y.abs() % 3),
    }.get(name, lambda k, x, y: getattr(weft, name)(x, y))
    return m.add(f"{name}({{}}, {{}})", found, run, max(m.values[i].high for i in found) + 4, 0)


@step(3)
def conversions(m: Maker) -> Any:
    """Numbers become integers only where that is defined."""
    kind = m.pick((*m.program.floats, weft.int64, weft.int32, weft.bool))
    whole = not kind.is_floating_point and kind is not weft.bool
    i = m.index(lambda v: v.exact and not (whole and v.floating and not bool(v.tensor.isfinite().all())))
    if i is None:
        return False
    v = m.values[i]
    return m.add(f"{{}}.to({kind})", [i], lambda k, x: x.to(k(kind)), v.high, 0 if whole else v.low)


# -------------------------------------------------------------------------------------- along dimensions

REDUCED: dict[str, Callable[[Tensor, tuple[int, ...], bool], Tensor]] = {
    "sum": lambda x, d, keep: x.sum(d, keep),
    "mean": lambda x, d, keep: x.mean(d, keep),
    "amax": lambda x, d, keep: x.amax(d, keep),
    "amin": lambda x, d, keep: x.amin(d, keep),
    "prod": lambda x, d, keep: x.prod(d[0], keep),
    "any": lambda x, d, keep: x.any(d[0], keep),
    "all": lambda x, d, keep: x.all(d[0], keep),
    "var": lambda x, d, keep: x.var(d, correction=0, keepdim=keep),
    "std": lambda x, d, keep: (x.var(d, correction=0, keepdim=keep) + 0.5).sqrt(),
    "logsumexp": lambda x, d, keep: x.logsumexp(d, keep),
    "norm": lambda x, d, keep: weft.linalg.vector_norm(x + 3, 2, d, keep),
}


@step(6)
def reductions(m: Maker) -> Any:
    name = m.pick(("sum", *REDUCED))
    exact, real = name in ("any", "all"), name in ("mean", "var", "std", "logsumexp", "norm")
    full = name in ("amax", "amin", "logsumexp", "mean", "var", "std")  # not defined for no elements

    def fits(v: Known) -> bool:
        logical = v.dtype is weft.bool and name in ("amax", "amin")
        return (
            v.rank > 0
            and (v.exact or not exact)
            and (v.floating or not real)
            and not logical
            and (v.size > 0 or not full)
        )

    i = m.index(fits)
    if i is None:
        return False
    v, keep = m.values[i], m.chance(2)
    dims = tuple(d for d in range(v.rank) if m.chance(2)) or (m.number(0, v.rank - 1),)
    dims = dims[:1] if name in ("prod", "any", "all") else dims
    count = math.prod(v.shape[d] for d in dims)
    if name == "prod" and count > 4:
        return False
    high, low = INEXACT, 0
    if v.exact and name == "sum":
        high, low = v.high + bits(count), v.low
    elif v.exact and name == "mean" and count & (count - 1) == 0:
        high, low = v.high, v.low + bits(count)
    elif v.exact and name == "prod":
        high, low = v.high * max(count, 1), v.low * count
    elif name in ("amax", "amin", "any", "all"):
        high, low = v.high, v.low
    return m.add(f"{name}({{}}, {dims}, {keep})", [i], lambda k, x: REDUCED[name](x, dims, keep), high, low)


ALONG: dict[str, Callable[[Tensor, int], Tensor]] = {
    "softmax": lambda x, d: x.softmax(d),
    "log_softmax": lambda x, d: x.log_softmax(d),
    "layer_norm": lambda x, d: F.layer_norm(x, x.shape[d:], eps=0.1),
    "normalize": lambda x, d: (x - x.mean(d, keepdim=True)) * (x.var(d, correction=0, keepdim=True) + 0.5).rsqrt(),
    "rms": lambda x, d: x * (x.square().mean(d, keepdim=True) + 0.5).rsqrt(),
    "cumsum": lambda x, d: x.cumsum(d),
    "flip": lambda x, d: x.flip(d),
    "sort": lambda x, d: x.sort(d).values,
    "argmax": lambda x, d: x.argmax(d),
    "argmin": lambda x, d: x.argmin(d, keepdim=True),
}


@step(3)
def rows(m: Maker) -> Any:
    name = m.pick(tuple(ALONG))
    exact, free = name in ("sort", "argmax", "argmin"), name in ("cumsum", "flip")

    def fits(v: Known) -> bool:
        return (
            v.rank > 0
            and v.dtype is not weft.bool
            and (v.size > 0 or free)
            and (v.exact or not exact)
            and (v.floating or exact or free)
        )

    i = m.index(fits)
    if i is None:
        return False
    v = m.values[i]
    d = m.number(0, v.rank - 1)
    high, low = INEXACT, 0
    if name == "cumsum" and v.exact:
        high, low = v.high + bits(v.shape[d]), v.low
    elif name in ("sort", "flip"):
        high, low = v.high, v.low
    elif exact:
        high = 14
    return m.add(f"{name}({{}}, {d})", [i], lambda k, x: ALONG[name](x, d), high, low)


# ----------------------------------------------------------------------------------------------- products

PRODUCTS: dict[str, tuple[Callable[[int], tuple[int, ...]], Callable[[Tensor, Tensor], Tensor]]] = {
    "matmul": (lambda k: (k, 6), lambda x, w: x @ w),
    "linear": (lambda k: (5, k), lambda x, w: F.linear(x, w)),
    "vector": (lambda k: (k,), lambda x, w: x @ w),
    "batched": (lambda k: (2, 1, k, 3), lambda x, w: x @ w),
}


def weights(shape: tuple[int, ...], like: Tensor) -> Tensor:
    """Small multiples of 1/4, the same at every call."""
    return weft.from_numpy(np.random.default_rng(1).integers(-8, 9, shape) / 4).to(like.dtype)


@step(4)
def products(m: Maker) -> Any:
    name = m.pick((*PRODUCTS, "gram", "outer"))
    i = m.index(lambda v: v.floating and 1 < v.rank < 4 and v.size < 6000)
    if i is None:
        return False
    v = m.values[i]
    if name in PRODUCTS:
        shape, multiply = PRODUCTS[name][0](v.shape[-1]), PRODUCTS[name][1]
        high, low = (v.high + 2 + bits(v.shape[-1]), v.low + 2) if v.exact else (INEXACT, 0)
        return m.add(f"{name}({{}}, weights{shape})", [i], lambda k, x: multiply(x, weights(shape, x)), high, low)
    high, low = (2 * v.high + bits(max(v.shape)), 2 * v.low) if v.exact else (INEXACT, 0)
    run = (lambda k, x: x @ x.mT) if name == "gram" else (lambda k, x: x.mT @ x)
    return m.add(f"{name}({{}})", [i], run, high, low)


@step(2)
def convolutions(m: Maker) -> Any:
    i = m.index(lambda v: v.floating and v.rank in (3, 4) and min(v.shape) > 1 and v.size < 3000)
    if i is None:
        return False
    v, stride, padding, size = m.values[i], m.number(1, 2), m.number(0, 1), m.number(1, 2)
    n = v.rank - 2
    shape = (3, v.shape[1], *(size,) * n)
    convolve = F.conv1d if n == 1 else F.conv2d
    run = lambda k, x: convolve(x, weights(shape, x), stride=stride, padding=padding)
    return m.add(f"conv{n}d({{}}, weights{shape}, stride={stride}, padding={padding})", [i], run)


# --------------------------------------------------------------------------------------- random numbers


@step(2)
def draws(m: Maker) -> Any:
    """The same numbers whatever the type that the program is run in."""
    name = m.pick(("rand", "randn", "randint", "bernoulli", "dropout", "rand_like", "uniform_", "normal_"))
    kind, shape = m.pick(m.program.floats), m.pick(((5,), (3, 4), (2, 3, 4), (4100,)))
    if name in ("rand", "randn"):
        return m.add(f"{name}({shape}, {kind})", [], lambda k: getattr(weft, name)(shape, dtype=kind).to(k(kind)))
    if name == "randint":
        return m.add(f"randint(-3, 4, {shape})", [], lambda k: weft.randint(-3, 4, shape), 3, 0)
    i = m.index(lambda v: v.floating and v.size > 0)
    if i is None:
        return False
    v = m.values[i]
    make = {
        "bernoulli": lambda z: weft.bernoulli(z + 0.25),
        "dropout": lambda z: F.dropout(z + 1, 0.5),
        "rand_like": weft.rand_like,
        "uniform_": lambda z: z.uniform_(-1, 1),
        "normal_": lambda z: z.normal_(1, 2),
    }[name]

    def run(k: Any, x: Tensor) -> Tensor:
        if name == "dropout" and x.dtype is v.dtype:
            return F.dropout(x, 0.5)
        drawn = make(weft.zeros(x.shape, dtype=v.dtype)).to(x.dtype)
        return x * drawn if name == "dropout" else drawn

    exact = (1, 0) if name == "bernoulli" else (v.high + 1, v.low) if name == "dropout" and v.exact else (INEXACT, 0)
    return m.add(f"{name}({{}})", [i], run, *exact)
