"""Random programs of tensor operations, drawn step by step, that can be run eagerly and compiled.

A program knows of every value how many bits it needs. Inputs are small multiples of 1/8, so sums and products of them
are exact in every order and must come out equal; only exact values are compared, rounded or sorted, because there a
difference in the last place would show as another result. Everything else is held to a tolerance: a few units in the
last place of the largest element, and what the program itself makes of rounding, measured by running it with float32
and float64 exchanged.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

import weft
import weft.nn.functional as F
from weft import Tensor

SHAPES = ((), (1,), (4,), (3, 4), (4, 3), (1, 4), (3, 1), (2, 3, 4), (2, 1, 4), (0, 4), (3, 0), (17,), (8, 16), (2, 2, 3, 3))
LARGE = ((60, 130), (4100,), (130, 60), (3, 40, 64))
FLOATS = ((weft.float32,), (weft.float32,), (weft.float64,), (weft.float32, weft.float64))
MOST_BITS = 22
INEXACT = 1000
SWAPPED = {weft.float32: weft.float64, weft.float64: weft.float32}


@dataclasses.dataclass
class Input:
    """A tensor from outside: an argument of the function or captured by it."""

    array: np.ndarray
    captured: bool
    grad: bool


@dataclasses.dataclass
class Step:
    """`text` shows what is done; `run(kind, *operands)` does it, where `kind` translates floating types."""

    text: str
    operands: tuple[int, ...]
    run: Callable[..., Any]


@dataclasses.dataclass
class Program:
    inputs: list[Input] = dataclasses.field(default_factory=list)
    steps: list[Step] = dataclasses.field(default_factory=list)
    results: list[int] = dataclasses.field(default_factory=list)
    exact: list[bool] = dataclasses.field(default_factory=list)  # of the results
    grad: bool = False
    floats: tuple[weft.dtype, ...] = (weft.float32,)  # both: nothing is more accurate than float32

    def tensors(self, swapped: bool = False) -> list[Tensor]:
        """Fresh inputs."""
        found = []
        for one in self.inputs:
            x = weft.from_numpy(laid(one.array))
            x = x.to(SWAPPED[x.dtype]) if swapped and x.dtype in SWAPPED else x
            found.append(x.requires_grad_() if one.grad else x)
        return found

    def run(self, tensors: Sequence[Tensor], kind: Callable = lambda t: t) -> list[Tensor]:
        """The results, then the gradients of a weighted sum of them."""
        values: list[Tensor] = list(tensors)
        for step in self.steps:
            made = step.run(kind, *(values[i] for i in step.operands))
            values.extend(made if isinstance(made, (tuple, list)) else (made,))
        results = [values[i] for i in self.results]
        if not self.grad:
            return results
        total = sum((y * weighting(y)).sum() for y in results if y.requires_grad)
        wanted = [x for x in tensors if x.requires_grad]
        if not isinstance(total, Tensor):
            return results
        found = weft.autograd.grad(total, wanted, allow_unused=True)
        return [*results, *(g for g in found if g is not None)]

    def __repr__(self) -> str:
        lines = []
        for n, x in enumerate(self.inputs):
            where = ("captured" if x.captured else "argument") + (", grad" if x.grad else "")
            strides = tuple(s // x.array.itemsize for s in x.array.strides)
            lines.append(f"v{n} = {x.array.dtype}{list(x.array.shape)} strides {strides} ({where}) {summary(x.array)}")
        at = len(self.inputs)
        for step in self.steps:
            names = [f"v{i}" for i in step.operands]
            lines.append(f"v{at} = {step.text.format(*names)}")
            at += getattr(step, "count", 1)
        return "\n    ".join(["", *lines, "return " + ", ".join(f"v{i}" for i in self.results)])


def summary(array: np.ndarray) -> str:
    return str(array.ravel()[:6].tolist())


def laid(array: np.ndarray) -> np.ndarray:
    """A copy with the same strides."""
    if array.size == 0 or array.flags.c_contiguous:
        return array.copy()
    low, high = np.lib.array_utils.byte_bounds(array)
    memory = np.zeros(high - low, np.uint8)
    start = array.__array_interface__["data"][0] - low
    copy = np.ndarray(array.shape, array.dtype, memory, start, array.strides)
    copy[...] = array
    return copy


def weighting(y: Tensor) -> Tensor:
    """Fixed weights of the elements in the sum that is differentiated."""
    return weft.cos(weft.arange(y.numel(), dtype=weft.float64)).reshape(y.shape).to(y.dtype) + 0.5


@dataclasses.dataclass
class Known:
    """What is known of a value while drawing: a tensor of the same sizes and type, bits before and after the point."""

    tensor: Tensor
    high: int
    low: int

    @property
    def exact(self) -> bool:
        return self.high + self.low <= MOST_BITS

    @property
    def floating(self) -> bool:
        return self.tensor.is_floating_point()


class Maker:
    """Draws one program. `pick(options)` and `number(low, high)` come from Hypothesis."""

    def __init__(self, pick: Callable, number: Callable, grad: bool) -> None:
        self.pick, self.number = pick, number
        self.program = Program(grad=grad, floats=pick(FLOATS))
        self.values: list[Known] = []

    def chance(self, one_in: int) -> bool:
        return self.number(0, one_in - 1) == one_in - 1

    # ----------------------------------------------------------------------------------------- inputs
    def add_input(self, shape: tuple[int, ...] | None = None) -> None:
        shape = shape if shape is not None else self.pick(LARGE) if self.chance(12) else self.pick(SHAPES)
        kind = self.pick(self.program.floats).name
        if not self.program.grad and self.chance(3):
            kind = self.pick(("int64", "int32", "uint8", "bool"))
        rng = np.random.default_rng(self.number(0, 20))
        if kind == "bool":
            array = np.asarray(rng.random(shape) < 0.5)
        elif kind.startswith("float"):
            array = np.asarray(rng.integers(-16, 17, shape) / 8, kind)
            if not self.program.grad and self.chance(8):
                array[rng.random(shape) < 0.2] = self.pick((np.nan, np.inf, -np.inf))
        else:
            array = rng.integers(0 if kind == "uint8" else -4, 5, shape).astype(kind)
        array = strided(np.asarray(array), self.pick(("dense", "dense", "dense", "turned", "stepped", "inner")))
        one = Input(array, self.chance(3), self.program.grad)
        self.program.inputs.append(one)
        self.values.append(Known(weft.from_numpy(laid(array)), *((2, 3) if kind.startswith("float") else (4, 0))))

    # ------------------------------------------------------------------------------------------ steps
    def index(self, fits: Callable[[Known], bool] = lambda v: True) -> int | None:
        """The number of a value that fits; later ones are likelier."""
        found = [i for i, v in enumerate(self.values) if fits(v)]
        if not found:
            return None
        found = found + found[-3:] * 2
        return self.pick(found)

    def add(self, text: str, operands: Sequence[int], run: Callable, high: int = INEXACT, low: int = 0) -> None:
        """Enter a step that makes one or several values of the given bits."""
        known = [self.values[i] for i in operands]
        with weft.no_grad():
            made = run(lambda t: t, *(v.tensor for v in known))
        many = made if isinstance(made, (tuple, list)) else (made,)
        step = Step(text, tuple(operands), run)
        step.count = len(many)
        self.program.steps.append(step)
        for y in many:
            if y.is_floating_point() or high == INEXACT:
                self.values.append(Known(y.detach(), high, low))
            else:
                self.values.append(Known(y, 1 if y.dtype is weft.bool else high, 0))

    def finish(self) -> Program:
        """Choose the results: the last value and some others."""
        count = len(self.values)
        chosen = {count - 1, *(self.number(0, count - 1) for _ in range(self.number(0, 3)))}
        self.program.results = sorted(chosen)
        self.program.exact = [self.values[i].exact for i in self.program.results]
        return self.program


def strided(array: np.ndarray, layout: str) -> np.ndarray:
    """The same elements with other strides."""
    if array.ndim == 0 or array.size == 0 or layout == "dense":
        return array
    if layout == "turned":
        return np.ascontiguousarray(array.T).T
    if layout == "stepped":
        wide = np.zeros((*array.shape[:-1], 2 * array.shape[-1]), array.dtype)
        wide[..., ::2] = array
        return wide[..., ::2]
    wide = np.zeros(tuple(n + 1 for n in array.shape), array.dtype)
    wide[tuple(slice(1, None) for _ in array.shape)] = array
    return wide[tuple(slice(1, None) for _ in array.shape)]


# ------------------------------------------------------------------------------------- kinds of steps
# Each draws its operands and enters a step; False: nothing fits.

STEPS: list[tuple[Callable[[Maker], Any], int]] = []


def kind_of_step(weight: int) -> Callable:
    def enter(function: Callable) -> Callable:
        STEPS.append((function, weight))
        return function

    return enter


def bits(count: int) -> int:
    return max(count, 1).bit_length()


@kind_of_step(3)
def unary_exact(m: Maker) -> Any:
    name = m.pick(("neg", "abs", "relu", "square", "clone", "positive"))
    i = m.index(lambda v: v.tensor.dtype is not weft.bool and (name != "neg" or v.tensor.dtype is not weft.uint8))
    if i is None:
        return False
    v = m.values[i]
    scale = 2 if name == "square" else 1
    return m.add(f"{name}({{}})", [i], lambda k, x: getattr(x, name)(), v.high * scale + (name == "neg"), v.low * scale)


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
    "cube": lambda x: x.clamp(-8, 8) ** 3,
    "logsigmoid": F.logsigmoid,
    "atan": weft.atan,
}


@kind_of_step(4)
def unary_smooth(m: Maker) -> Any:
    name = m.pick(tuple(SMOOTH))
    i = m.index(lambda v: v.floating)
    return i is not None and m.add(f"{name}({{}})", [i], lambda k, x: SMOOTH[name](x))


@kind_of_step(2)
def unary_rough(m: Maker) -> Any:
    """Only exact values: what is on one side of an edge stays there."""
    name = m.pick(("floor", "ceil", "round", "trunc", "sign", "isnan", "isinf", "signbit", "logical_not", "frac"))
    i = m.index(lambda v: v.exact and (v.floating or name in ("sign", "logical_not")))
    if i is None or (name == "sign" and m.values[i].tensor.dtype is weft.bool):
        return False
    v = m.values[i]
    return m.add(f"{name}({{}})", [i], lambda k, x: getattr(x, name)(), v.high + 1, v.low if name == "frac" else 0)


def broadcasts(a: Tensor, b: Tensor) -> bool:
    try:
        shape = np.broadcast_shapes(a.shape, b.shape)
    except ValueError:
        return False
    return math.prod(shape) <= 20000


def pair(m: Maker, fits: Callable[[Known], bool] = lambda v: True) -> tuple[int, int] | None:
    i = m.index(fits)
    if i is None:
        return None
    j = m.index(lambda v: fits(v) and broadcasts(m.values[i].tensor, v.tensor))
    return i, j


@kind_of_step(7)
def binary(m: Maker) -> Any:
    name = m.pick(("add", "sub", "mul", "mul", "maximum", "minimum", "div", "fmod", "atan2", "hypot"))
    fits = lambda v: v.tensor.dtype is not weft.bool or name in ("add", "mul", "maximum", "minimum")
    if name in ("div", "fmod", "atan2", "hypot"):
        fits = lambda v: v.floating and (name != "fmod" or v.exact)
    found = pair(m, fits)
    if found is None:
        return False
    a, b = (m.values[i] for i in found)
    if name in ("div", "hypot", "atan2"):
        run = {
            "div": lambda k, x, y: x / (y.square() + 0.5),
            "hypot": lambda k, x, y: weft.hypot(x, y + 8),
            "atan2": lambda k, x, y: weft.atan2(x, y.square() + 1),
        }[name]
        return m.add(f"{name}({{}}, {{}})", found, run)
    if name == "fmod":
        return m.add("fmod({}, {})", found, lambda k, x, y: weft.fmod(x, y.abs() + 1.5), a.high, max(a.low, b.low))
    high, low = (a.high + b.high, a.low + b.low) if name == "mul" else (max(a.high, b.high) + 1, max(a.low, b.low))
    if not (a.exact and b.exact):
        high = INEXACT
    return m.add(f"{name}({{}}, {{}})", found, lambda k, x, y: getattr(weft, name)(x, y), high, low)


NUMBERS: dict[str, tuple[Callable[[Tensor], Any], int, int]] = {
    "{} * 2": (lambda x: x * 2, 1, 0),
    "{} + 1": (lambda x: x + 1, 1, 0),
    "3 - {}": (lambda x: 3 - x, 2, 0),
    "{} * 1": (lambda x: x * 1, 0, 0),
    "{} + 0": (lambda x: x + 0, 0, 0),
    "{} - 0": (lambda x: x - 0, 0, 0),
    "{} * 0.5": (lambda x: x * 0.5, 0, 1),
    "{} / 4": (lambda x: x / 4, 0, 2),
    "{} * 0": (lambda x: x * 0, 0, 0),
    "{}.clamp(-1, 1)": (lambda x: x.clamp(-1, 1), 0, 0),
    "{}.clamp(min=0.5)": (lambda x: x.clamp(min=0.5), 0, 1),
    "{} ** 2": (lambda x: x**2, INEXACT, 0),
}


@kind_of_step(4)
def with_number(m: Maker) -> Any:
    text = m.pick(tuple(NUMBERS))
    run, high, low = NUMBERS[text]
    i = m.index(lambda v: v.tensor.dtype is not weft.bool and (v.floating or "." not in text.replace(".clamp(-1", "")))
    if i is None or ("clamp(-1" in text and m.values[i].tensor.dtype is weft.uint8):
        return False
    v = m.values[i]
    return m.add(text, [i], lambda k, x: run(x), v.high + high, v.low + low)


@kind_of_step(3)
def compared(m: Maker) -> Any:
    name = m.pick(("lt", "le", "gt", "ge", "eq", "ne"))
    found = pair(m, lambda v: v.exact)
    return found is not None and m.add(f"{name}({{}}, {{}})", found, lambda k, x, y: getattr(weft, name)(x, y), 1, 0)


@kind_of_step(3)
def chosen(m: Maker) -> Any:
    c = m.index(lambda v: v.tensor.dtype is weft.bool)
    if c is None:
        return False
    found = pair(m, lambda v: broadcasts(v.tensor, m.values[c].tensor))
    if found is None:
        return False
    a, b = (m.values[i] for i in found)
    shape = np.broadcast_shapes(a.tensor.shape, b.tensor.shape)
    if not broadcasts(weft.zeros(shape), m.values[c].tensor):
        return False
    return m.add("where({}, {}, {})", [c, *found], lambda k, c, x, y: weft.where(c, x, y), max(a.high, b.high), max(a.low, b.low))


@kind_of_step(2)
def integral(m: Maker) -> Any:
    name = m.pick(("bitwise_and", "bitwise_or", "bitwise_xor", "floor_divide", "remainder", "logical_and", "shift"))
    whole = lambda v: not v.floating and (v.tensor.dtype is not weft.bool or name.startswith(("bit", "log")))
    found = pair(m, whole)
    if found is None:
        return False
    run = {
        "floor_divide": lambda k, x, y: weft.floor_divide(x, y.abs() % 5 + 1),
        "remainder": lambda k, x, y: weft.remainder(x, y.abs() % 5 + 1),
        "shift": lambda k, x, y: x << (y.abs() % 3),
    }.get(name, lambda k, x, y: getattr(weft, name)(x, y))
    return m.add(f"{name}({{}}, {{}})", found, run, max(m.values[i].high for i in found) + 4, 0)


@kind_of_step(3)
def converted(m: Maker) -> Any:
    kind = m.pick((*m.program.floats, weft.int64, weft.int32, weft.bool))
    i = m.index(lambda v: v.exact and (v.floating is kind.is_floating_point or v.tensor.dtype is weft.bool or not v.floating or bool(v.tensor.isfinite().all())))
    if i is None:
        return False
    v = m.values[i]
    return m.add(f"{{}}.to({kind})", [i], lambda k, x: x.to(k(kind)), v.high, v.low if kind.is_floating_point else 0)


# ---------------------------------------------------------------------------------------- reductions


def dims_of(m: Maker, x: Tensor) -> tuple[int, ...]:
    return tuple(d for d in range(x.ndim) if m.chance(2)) or (m.number(0, x.ndim - 1),)


@kind_of_step(6)
def reduced(m: Maker) -> Any:
    name = m.pick(("sum", "sum", "mean", "amax", "amin", "prod", "any", "all", "var", "logsumexp", "norm", "std"))
    smooth = name in ("mean", "var", "logsumexp", "norm", "std")
    number = lambda v: v.tensor.dtype is not weft.bool or name in ("any", "all", "sum", "prod")
    i = m.index(lambda v: v.tensor.ndim > 0 and number(v) and (not smooth or v.floating) and (name not in ("any", "all") or v.exact))
    if i is None:
        return False
    v = m.values[i]
    x, dims, keep = v.tensor, dims_of(m, v.tensor), m.chance(2)
    count = math.prod(x.shape[d] for d in dims)
    if count == 0 and name in ("amax", "amin", "logsumexp", "mean", "var", "std"):
        return False
    if name in ("var", "std") and count < 2:
        return False
    if name == "prod":
        dims = dims[:1]
        if x.shape[dims[0]] > 4:
            return False
    run = {
        "any": lambda k, x: x.any(dims[0], keep),
        "all": lambda k, x: x.all(dims[0], keep),
        "prod": lambda k, x: x.prod(dims[0], keep),
        "var": lambda k, x: x.var(dims, correction=1, keepdim=keep),
        "std": lambda k, x: (x.var(dims, correction=0, keepdim=keep) + 0.5).sqrt(),
        "norm": lambda k, x: weft.linalg.vector_norm(x, 2, dims, keep) if not m.program.grad else (x.square().sum(dims, keep) + 1).sqrt(),
        "logsumexp": lambda k, x: x.logsumexp(dims, keep),
    }.get(name, lambda k, x: getattr(x, name)(dims, keep))
    if name == "sum" or (name == "mean" and count & (count - 1) == 0):
        high, low = v.high + (bits(count) if name == "sum" else 0), v.low + (bits(count) if name == "mean" else 0)
    elif name in ("amax", "amin", "any", "all"):
        high, low = v.high, v.low
    elif name == "prod":
        high, low = v.high * x.shape[dims[0]], v.low * x.shape[dims[0]]
    else:
        high, low = INEXACT, 0
    if not v.exact:
        high = INEXACT
    return m.add(f"{name}({{}}, {dims}, {keep})", [i], run, high, low)


@kind_of_step(3)
def along(m: Maker) -> Any:
    """Operations along one dimension that keep it."""
    name = m.pick(("softmax", "log_softmax", "cumsum", "layer_norm", "argmax", "argmin", "sort", "flip", "normalize", "rms"))
    exact = name in ("argmax", "argmin", "sort")
    i = m.index(
        lambda v: v.tensor.ndim > 0 and v.tensor.size() and (not exact or v.exact) and v.tensor.dtype is not weft.bool
        and (v.floating or name in ("cumsum", "flip", "sort", "argmax"))
    )
    if i is None:
        return False
    v = m.values[i]
    d = m.number(0, v.tensor.ndim - 1)
    if v.tensor.numel() == 0 and name not in ("cumsum", "flip"):
        return False
    runs = {
        "softmax": lambda k, x: x.softmax(d),
        "log_softmax": lambda k, x: x.log_softmax(d),
        "cumsum": lambda k, x: x.cumsum(d),
        "layer_norm": lambda k, x: F.layer_norm(x, x.shape[d:], eps=0.1),
        "argmax": lambda k, x: x.argmax(d),
        "argmin": lambda k, x: x.argmin(d, keepdim=True),
        "sort": lambda k, x: x.sort(d).values,
        "flip": lambda k, x: x.flip(d),
        "normalize": lambda k, x: (x - x.mean(d, keepdim=True)) * (x.var(d, correction=0, keepdim=True) + 0.5).rsqrt(),
        "rms": lambda k, x: x * (x.square().mean(d, keepdim=True) + 0.5).rsqrt(),
    }
    if name == "cumsum":
        high, low = (v.high + bits(v.tensor.shape[d]), v.low) if v.exact else (INEXACT, 0)
    elif name in ("sort", "flip"):
        high, low = v.high, v.low
    else:
        high, low = (8, 0) if exact else (INEXACT, 0)
    return m.add(f"{name}({{}}, {d})", [i], runs[name], high, low)


# --------------------------------------------------------------------------------------------- views


def halves(size: int) -> list[tuple[int, int]]:
    return [(a, size // a) for a in range(2, size) if size % a == 0]


@kind_of_step(8)
def viewed(m: Maker) -> Any:
    name = m.pick(
        "reshape flatten transpose permute unsqueeze squeeze narrow step select expand diagonal split movedim turn unfold".split()
    )
    i = m.index(lambda v: name in ("unsqueeze", "expand") or v.tensor.ndim > 0)
    if i is None:
        return False
    v = m.values[i]
    x = v.tensor
    n = x.ndim
    d = m.number(0, n - 1) if n else 0
    if name == "reshape":
        options = halves(x.shape[d])
        if not options:
            return False
        a, b = m.pick(options)
        shape = (*x.shape[:d], a, b, *x.shape[d + 1 :])
        return m.add(f"{{}}.reshape({shape})", [i], lambda k, x: x.reshape(shape), v.high, v.low)
    if name == "flatten":
        return m.add(f"{{}}.flatten({d})", [i], lambda k, x: x.flatten(d), v.high, v.low)
    if name in ("transpose", "movedim"):
        e = m.number(0, n - 1)
        return m.add(f"{{}}.{name}({d}, {e})", [i], lambda k, x: getattr(x, name)(d, e), v.high, v.low)
    if name in ("permute", "turn"):
        dims = tuple(reversed(range(n))) if name == "turn" else tuple((j + d) % n for j in range(n))
        return m.add(f"{{}}.permute({dims})", [i], lambda k, x: x.permute(dims), v.high, v.low)
    if name == "unsqueeze":
        e = m.number(0, n)
        return n < 4 and m.add(f"{{}}.unsqueeze({e})", [i], lambda k, x: x.unsqueeze(e), v.high, v.low)
    if name == "squeeze":
        return m.add("{}.squeeze()", [i], lambda k, x: x.squeeze(), v.high, v.low)
    if name in ("narrow", "step"):
        a = m.number(0, max(x.shape[d] - 1, 0))
        s = m.number(1, 3) if name == "step" else 1
        e = m.number(a, x.shape[d])
        where = (slice(None),) * d + (slice(a, e, s),)
        return m.add(f"{{}}[{where}]", [i], lambda k, x: x[where], v.high, v.low)
    if name == "select":
        if x.shape[d] == 0:
            return False
        a = m.number(0, x.shape[d] - 1)
        return m.add(f"{{}}.select({d}, {a})", [i], lambda k, x: x.select(d, a), v.high, v.low)
    if name == "expand":
        if x.numel() > 2000:
            return False
        shape = (m.number(1, 3), *(m.number(2, 4) if s == 1 else s for s in x.shape))
        return n < 4 and m.add(f"{{}}.expand({shape})", [i], lambda k, x: x.expand(shape), v.high, v.low)
    if name == "diagonal":
        return n > 1 and m.add("{}.diagonal(0, -2, -1)", [i], lambda k, x: x.diagonal(0, -2, -1), v.high, v.low)
    if name == "unfold":
        if x.shape[d] < 2 or x.numel() > 2000:
            return False
        return n < 4 and m.add(f"{{}}.unfold({d}, 2, 1)", [i], lambda k, x: x.unfold(d, 2, 1), v.high, v.low)
    parts = m.number(2, 3)
    return x.shape[d] > 0 and m.add(f"{{}}.chunk({parts}, {d})", [i], lambda k, x: x.chunk(parts, d), v.high, v.low)


# ----------------------------------------------------------------------------------- joining, indexing


@kind_of_step(3)
def joined(m: Maker) -> Any:
    i = m.index(lambda v: v.tensor.ndim > 0 and v.tensor.numel() < 8000)
    if i is None:
        return False
    a = m.values[i]
    d = m.number(0, a.tensor.ndim - 1)
    same = lambda s, t: s.ndim == t.ndim and all(e == d or p == q for e, (p, q) in enumerate(zip(s.shape, t.shape, strict=True)))
    j = m.index(lambda v: v.tensor.dtype is a.tensor.dtype and same(v.tensor, a.tensor))
    b = m.values[j]
    name = "stack" if a.tensor.shape == b.tensor.shape and a.tensor.ndim < 4 and m.chance(3) else "cat"
    return m.add(f"{name}([{{}}, {{}}], {d})", [i, j], lambda k, x, y: getattr(weft, name)([x, y], d), max(a.high, b.high), max(a.low, b.low))


@kind_of_step(4)
def rearranged(m: Maker) -> Any:
    name = m.pick(("pad", "roll", "repeat", "tril", "index_select", "gather", "take", "repeat_interleave", "masked_fill", "scatter_add"))
    rank = 2 if name == "tril" else 1
    i = m.index(lambda v: v.tensor.ndim >= rank and 0 < v.tensor.numel() < 3000 and (v.floating or name not in ("pad", "masked_fill")))
    if i is None:
        return False
    v = m.values[i]
    x = v.tensor
    d = m.number(0, x.ndim - 1)
    size = x.shape[d]
    rows = np.random.default_rng(m.number(0, 5)).integers(0, size, m.number(1, 4))
    mask = np.random.default_rng(m.number(0, 5)).random(tuple(x.shape)) < 0.5
    places = np.random.default_rng(m.number(0, 5)).integers(0, size, tuple(x.shape))
    index = lambda: weft.from_numpy(rows)
    runs = {
        "pad": lambda k, x: F.pad(x, (1, 2), value=0.5),
        "roll": lambda k, x: x.roll(1, d),
        "repeat": lambda k, x: x.repeat(*(2 if e == d else 1 for e in range(x.ndim))),
        "tril": lambda k, x: x.tril(),
        "index_select": lambda k, x: x.index_select(d, index()),
        "gather": lambda k, x: x.gather(d, weft.from_numpy(places)),
        "take": lambda k, x: x[(slice(None),) * d + (index(),)],
        "repeat_interleave": lambda k, x: x.repeat_interleave(2, d),
        "masked_fill": lambda k, x: x.masked_fill(weft.from_numpy(mask), 0.5),
        "scatter_add": lambda k, x: weft.zeros_like(x).scatter_add(d, weft.from_numpy(places), x),
    }
    if name == "scatter_add" and x.dtype is weft.bool:
        return False
    high = v.high + (bits(size) if name == "scatter_add" and v.exact else 0)
    return m.add(f"{name}({{}}, {d})", [i], runs[name], high, max(v.low, 1))


# ------------------------------------------------------------------------------------------- products


@kind_of_step(4)
def multiplied(m: Maker) -> Any:
    """Matrix products; a second operand of fitting sizes is made from one that there is."""
    name = m.pick(("matmul", "gram", "linear", "vector", "batched", "outer"))
    i = m.index(lambda v: v.floating and 1 < v.tensor.ndim < 4 and v.tensor.numel() < 6000)
    if i is None:
        return False
    a = m.values[i]
    x = a.tensor
    k_size = x.shape[-1]
    runs = {
        "gram": ("{} @ {}.mT", [i, i], lambda k, x, y: x @ y.mT, a),
        "outer": ("{}.mT @ {}", [i, i], lambda k, x, y: x.mT @ y, a),
    }
    if name in ("matmul", "linear", "vector", "batched"):
        width = {"vector": (k_size,), "linear": (5, k_size), "batched": (2, 1, k_size, 3)}.get(name, (k_size, 6))
        j = m.index(lambda v: v.tensor.dtype is x.dtype and tuple(v.tensor.shape) == width)
        if j is None:
            if len(m.program.inputs) >= 5 or m.program.steps:
                weights = (np.random.default_rng(1).integers(-8, 9, width) / 4).astype(x.dtype.name)
                made = lambda k, x: weft.from_numpy(weights).to(x.dtype)
                run = {"linear": lambda k, x: F.linear(x, made(k, x))}.get(name, lambda k, x: x @ made(k, x))
                high, low = (a.high + 2 + bits(k_size), a.low + 2) if a.exact else (INEXACT, 0)
                return m.add(f"{{}} @ weights{width} ({name})", [i], run, high, low)
            return False
        b = m.values[j]
        run = (lambda k, x, y: F.linear(x, y)) if name == "linear" else (lambda k, x, y: x @ y)
        text, operands = f"{name}({{}}, {{}})", [i, j]
    else:
        text, operands, run, b = runs[name]
    high, low = (a.high + b.high + bits(max(x.shape)), a.low + b.low) if a.exact and b.exact else (INEXACT, 0)
    return m.add(text, operands, run, high, low)


@kind_of_step(1)
def convolved(m: Maker) -> Any:
    i = m.index(lambda v: v.floating and v.tensor.ndim in (3, 4) and min(v.tensor.shape) > 1 and v.tensor.numel() < 3000)
    if i is None:
        return False
    a = m.values[i]
    x = a.tensor
    n = x.ndim - 2
    stride, padding = m.number(1, 2), m.number(0, 1)
    size = m.number(1, 2)
    weights = (np.random.default_rng(2).integers(-8, 9, (3, x.shape[1], *(size,) * n)) / 4).astype(np.float64)
    convolve = F.conv1d if n == 1 else F.conv2d
    run = lambda k, x: convolve(x, weft.from_numpy(weights).to(x.dtype), stride=stride, padding=padding)
    return m.add(f"conv{n}d({{}}, {size}, stride={stride}, padding={padding})", [i], run)


# ------------------------------------------------------------------------------------ writes in place


@kind_of_step(6)
def written(m: Maker) -> Any:
    """A value changed in place, whole or through a view; where gradients are wanted, a copy of it."""
    name = m.pick(("add_", "mul_", "copy_", "set", "row", "fill", "zero", "step", "turned", "masked", "sub", "relu_", "index_add_"))
    i = m.index(lambda v: v.floating and v.tensor.numel() > 0 and is_dense(v.tensor))
    if i is None:
        return False
    v = m.values[i]
    if v.tensor.ndim == 0 and name in ("row", "step", "turned", "index_add_"):
        return False
    j = m.index(lambda u: u.tensor.dtype is v.tensor.dtype and fits_into(u.tensor, v.tensor))
    copied = m.program.grad or not m.chance(3)
    u = m.values[j]
    size = v.tensor.shape[0] if v.tensor.ndim else 1
    rows = np.random.default_rng(m.number(0, 5)).integers(0, size, 3)
    mask = np.asarray(np.random.default_rng(m.number(0, 5)).random(tuple(v.tensor.shape)) < 0.5)
    changes: dict[str, Callable[[Tensor, Tensor], Any]] = {
        "add_": lambda x, y: x.add_(y),
        "mul_": lambda x, y: x.mul_(y),
        "copy_": lambda x, y: x.copy_(y),
        "sub": lambda x, y: x.sub_(y, alpha=2),
        "set": lambda x, y: x.__setitem__(Ellipsis, y),
        "row": lambda x, y: x[0].add_(2),
        "fill": lambda x, y: x.fill_(0.5),
        "zero": lambda x, y: x[..., :1].zero_() if x.ndim else x.zero_(),
        "step": lambda x, y: x[::2].mul_(2),
        "turned": lambda x, y: x.transpose(0, -1).add_(1),
        "masked": lambda x, y: x.masked_fill_(weft.from_numpy(mask), 0.25),
        "relu_": lambda x, y: x.relu_(),
        "index_add_": lambda x, y: x.index_add_(0, weft.from_numpy(rows), x.new_ones(3, *x.shape[1:])),
    }

    def run(k: Any, x: Tensor, y: Tensor) -> Tensor:
        if copied:
            x, y = x.clone(), (y.clone() if y is x else y)
        changes[name](x, y)
        return x

    if name == "mul_":
        high, low = v.high + u.high, v.low + u.low
    elif name in ("add_", "sub"):
        high, low = max(v.high, u.high + 1) + 1, max(v.low, u.low)
    else:
        high, low = max(v.high, u.high if name in ("copy_", "set") else 1) + 3, max(v.low, u.low if name in ("copy_", "set") else 2, 2)
    if not v.exact or (not u.exact and name in ("add_", "mul_", "sub", "copy_", "set")):
        high = INEXACT
    if copied:
        return m.add(f"{{}}.clone() ← {name} {{}}", [i, j], run, high, low)
    # every value that may share this memory changes with it
    before = [x.tensor for x in m.values]
    m.add(f"{{}} ← {name} {{}}", [i, j], run, high, low)
    for known, x in zip(m.values, before, strict=False):
        if x.untyped_storage() == v.tensor.untyped_storage():
            known.high, known.low = max(known.high, high), max(known.low, low)
    return True


def is_dense(x: Tensor) -> bool:
    """Whether no two elements share a place."""
    return all(s > 0 or n <= 1 for s, n in zip(x.stride(), x.shape, strict=True)) and x.numel() <= x.untyped_storage().nbytes() // x.element_size() and "unfold" not in str(x.stride())


def fits_into(y: Tensor, x: Tensor) -> bool:
    try:
        return np.broadcast_shapes(x.shape, y.shape) == tuple(x.shape)
    except ValueError:
        return False


# --------------------------------------------------------------------------------------- random numbers


@kind_of_step(2)
def drawn(m: Maker) -> Any:
    name = m.pick(("rand", "randn", "bernoulli", "dropout", "randint", "rand_like", "uniform_", "normal_"))
    kind = m.pick(m.program.floats)
    shape = m.pick(((5,), (3, 4), (2, 3, 4), (4100,)))
    if name in ("rand", "randn"):
        made = lambda k: getattr(weft, name)(shape, dtype=kind).to(k(kind))
        return m.add(f"{name}({shape}, {kind})", [], made, INEXACT, 0)
    if name == "randint":
        return m.add(f"randint({shape})", [], lambda k: weft.randint(-3, 4, shape), 3, 0)
    i = m.index(lambda v: v.floating and v.tensor.numel() > 0)
    if i is None:
        return False
    v = m.values[i]
    kind = v.tensor.dtype
    as_drawn = lambda k, x, make: make(weft.zeros(x.shape, dtype=kind)).to(x.dtype)
    runs = {
        "bernoulli": lambda k, x: as_drawn(k, x, lambda z: weft.bernoulli(z + 0.25)),
        "dropout": lambda k, x: F.dropout(x, 0.5) if x.dtype is kind else x * as_drawn(k, x, lambda z: F.dropout(z + 1, 0.5)),
        "rand_like": lambda k, x: as_drawn(k, x, weft.rand_like),
        "uniform_": lambda k, x: as_drawn(k, x, lambda z: z.uniform_(-1, 1)),
        "normal_": lambda k, x: as_drawn(k, x, lambda z: z.normal_(1, 2)),
    }
    if name == "bernoulli":
        high, low = 1, 0
    else:
        high, low = (v.high + 1, v.low) if name == "dropout" and v.exact else (INEXACT, 0)
    return m.add(f"{name}({{}})", [i], runs[name], high, low)


KINDS = [function for function, weight in STEPS for _ in range(weight)]


def make_program(pick: Callable, number: Callable, steps: tuple[int, int] = (5, 12)) -> Program:
    """One program with some inputs and steps."""
    maker = Maker(pick, number, grad=number(0, 2) == 2)
    weft.manual_seed(0)
    for _ in range(number(1, 3)):
        maker.add_input()
    wanted, tries = number(*steps), 0
    while len(maker.program.steps) < wanted and tries < 3 * wanted:
        tries += 1
        pick(KINDS)(maker)
    return maker.finish()
