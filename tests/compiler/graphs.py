"""Random programs of tensor operations: how one is built step by step, run eagerly and compiled, and compared.

A program knows of every value how many bits it needs. Inputs are small multiples of 1/8, so sums and products of them
are exact in every order and must come out equal; only exact values are compared, rounded or sorted, because there a
difference in the last place would show as another result. Everything else is held to a tolerance: a few units in the
last place of the largest element, and what the program itself makes of rounding, measured by running it with float32
and float64 exchanged.
"""

from __future__ import annotations

import copy
import dataclasses
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np

import weft
from weft import Tensor

from .comparing import leaf_difference

SHAPES = (
    (),
    (1,),
    (4,),
    (3, 4),
    (4, 3),
    (1, 4),
    (3, 1),
    (2, 3, 4),
    (2, 1, 4),
    (0, 4),
    (3, 0),
    (17,),
    (8, 16),
    (2, 2, 3, 3),
)
LARGE = ((60, 130), (9000,), (140, 130), (3, 40, 64))
FLOATS = ((weft.float32,), (weft.float32,), (weft.float64,), (weft.float32, weft.float64))
SWAPPED = {weft.float32: weft.float64, weft.float64: weft.float32}
MOST_BITS = 22
INEXACT = 1000


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
    count: int = 1  # of values made


@dataclasses.dataclass
class Program:
    """Values are numbered: inputs, then what the steps make."""

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
            x = weft.from_numpy(duplicate(one.array))
            x = x.to(SWAPPED[x.dtype]) if swapped and x.dtype in SWAPPED else x
            found.append(x.requires_grad_() if one.grad else x)
        return found

    def run(self, tensors: Sequence[Tensor], kind: Callable[[Any], Any] = lambda t: t) -> list[Tensor]:
        """The results, then the gradients of a weighted sum of them."""
        values: list[Tensor] = list(tensors)
        for step in self.steps:
            made = step.run(kind, *(values[i] for i in step.operands))
            values.extend(made if isinstance(made, (tuple, list)) else (made,))
        results = [values[i] for i in self.results]
        used = [y for y in results if y.requires_grad]
        if not self.grad or not used:
            return results
        total = sum((y * weighting(y)).sum() for y in used)
        slopes = weft.autograd.grad(total, [x for x in tensors if x.requires_grad], allow_unused=True)
        return [*results, *(g for g in slopes if g is not None)]

    def noise(self, expected: Sequence[Tensor]) -> list[float]:
        """How far rounding may take each result: what exchanging float32 and float64 changes, in the type it has."""
        weft.manual_seed(SEED)
        other = self.run(self.tensors(swapped=True), lambda t: SWAPPED.get(t, t))
        found = []
        for x, y in zip(expected, other, strict=True):
            with np.errstate(invalid="ignore"):
                far = np.abs(np.float64(x.detach().numpy()) - np.float64(y.detach().numpy()))
            largest = float(far[np.isfinite(far)].max(initial=0)) if x.is_floating_point() else 0.0
            found.append(32 * largest * (1 if weft.float32 in self.floats else 2.0**-27))
        return found

    def __repr__(self) -> str:
        lines = []
        for n, x in enumerate(self.inputs):
            where = ("captured" if x.captured else "argument") + (", grad" if x.grad else "")
            strides = tuple(s // x.array.itemsize for s in x.array.strides)
            lines.append(f"v{n} = {x.array.dtype}{list(x.array.shape)} strides {strides} ({where})")
        at = len(self.inputs)
        for step in self.steps:
            made = ", ".join(f"v{at + k}" for k in range(step.count))
            lines.append(f"{made} = {step.text.format(*(f'v{i}' for i in step.operands))}")
            at += step.count
        return "\n    ".join(["", *lines, "return " + ", ".join(f"v{i}" for i in self.results)])


def duplicate(array: np.ndarray) -> np.ndarray:
    """A copy with the same strides."""
    if array.size == 0 or array.flags.c_contiguous:
        return array.copy()
    low, high = np.lib.array_utils.byte_bounds(array)
    start = array.__array_interface__["data"][0] - low
    found = np.ndarray(array.shape, array.dtype, np.zeros(high - low, np.uint8), start, array.strides)
    found[...] = array
    return found


def weighting(y: Tensor) -> Tensor:
    """Fixed weights of the elements in the sum that is differentiated."""
    return weft.cos(weft.arange(y.numel(), dtype=weft.float64)).reshape(y.shape).to(y.dtype) + 0.5


# ------------------------------------------------------------------------------------------- building


@dataclasses.dataclass
class Known:
    """What is known of a value while drawing: a tensor like it, and its bits before and after the point."""

    tensor: Tensor
    high: int
    low: int

    @property
    def exact(self) -> bool:
        return self.high + self.low <= MOST_BITS

    @property
    def floating(self) -> bool:
        return self.tensor.is_floating_point()

    @property
    def dtype(self) -> Any:
        return self.tensor.dtype

    @property
    def shape(self) -> tuple[int, ...]:
        return tuple(self.tensor.shape)

    @property
    def rank(self) -> int:
        return self.tensor.ndim

    @property
    def size(self) -> int:
        return self.tensor.numel()


class Maker:
    """Draws one program. `pick(options)` and `number(low, high)` come from Hypothesis."""

    def __init__(self, pick: Callable[[Any], Any], number: Callable[[int, int], int]) -> None:
        self.pick, self.number = pick, number
        self.program = Program(grad=number(0, 2) == 2, floats=pick(FLOATS))
        self.values: list[Known] = []

    def chance(self, one_in: int) -> bool:
        return self.number(0, one_in - 1) == one_in - 1

    def add_input(self) -> None:
        shape = self.pick(LARGE) if self.chance(12) else self.pick(SHAPES)
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
            array = np.asarray(rng.integers(0 if kind == "uint8" else -4, 5, shape), kind)
        array = laid_out(array, self.pick(("dense", "dense", "dense", "turned", "stepped", "inner")))
        self.program.inputs.append(Input(array, self.chance(3), self.program.grad))
        bits = (2, 3) if kind.startswith("float") else (4, 0)
        self.values.append(Known(weft.from_numpy(duplicate(array)), *bits))

    def index(self, fits: Callable[[Known], bool] = lambda v: True) -> int | None:
        """The number of a value that fits; later ones are likelier."""
        found = [i for i, v in enumerate(self.values) if fits(v)]
        return self.pick(found + found[-3:] * 2) if found else None

    def add(self, text: str, operands: Sequence[int], run: Callable, high: int = INEXACT, low: int = 0) -> bool:
        """Enter a step that makes one or several values of the given bits."""
        with weft.no_grad():
            made = run(lambda t: t, *(self.values[i].tensor for i in operands))
        many = made if isinstance(made, (tuple, list)) else (made,)
        self.program.steps.append(Step(text, tuple(operands), run, len(many)))
        for y in many:
            if y.is_floating_point() or high == INEXACT:
                self.values.append(Known(y.detach(), high, low))
            else:
                self.values.append(Known(y, 1 if y.dtype is weft.bool else high, 0))
        return True

    def finish(self) -> Program:
        """Choose the results: the last value and some others."""
        last = len(self.values) - 1
        chosen = sorted({last, *(self.number(0, last) for _ in range(self.number(0, 3)))})
        self.program.results, self.program.exact = chosen, [self.values[i].exact for i in chosen]
        return self.program


def laid_out(array: np.ndarray, layout: str) -> np.ndarray:
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
    window = tuple(slice(1, None) for _ in array.shape)
    wide[window] = array
    return wide[window]


# ------------------------------------------------------------------------------ running and comparing

SEED = 7
CALLS = 2


def outcome(programs: Sequence[Program], wrap: Callable[[Any], Any]) -> tuple[list[Any], list[Any]]:
    """Results and arguments after each call of one function that runs all programs; what it captured at the end.

    Between the calls the captured tensors get their first values back.
    """
    tensors = [p.tensors() for p in programs]

    def everything(arguments: list[list[Tensor]]) -> list[list[Tensor]]:
        found = []
        for program, given, own in zip(programs, arguments, tensors, strict=True):
            rest = iter(given)
            found.append(
                program.run([x if i.captured else next(rest) for x, i in zip(own, program.inputs, strict=True)])
            )
        return found

    run = wrap(everything)
    weft.manual_seed(SEED)
    calls = []
    for number in range(CALLS):
        if number:
            for program, own in zip(programs, tensors, strict=True):
                for x, one in zip(own, program.inputs, strict=True):
                    x.detach().copy_(weft.from_numpy(one.array))
        fresh = [[x for x, i in zip(p.tensors(), p.inputs, strict=True) if not i.captured] for p in programs]
        results = [[y.detach().clone() for y in ys] for ys in run(fresh)]
        calls.append((results, fresh))
    own = [
        [x for x, i in zip(xs, p.inputs, strict=True) if i.captured] for p, xs in zip(programs, tensors, strict=True)
    ]
    return calls, own


def differences(programs: Sequence[Program], **options: Any) -> Iterator[tuple[Program, str]]:
    """The programs whose compiled form does something else, with what it does."""
    expected, kept = outcome(programs, lambda function: function)
    found, left = outcome(programs, lambda function: weft.compile(function, **options))
    for n, program in enumerate(programs):
        noise = program.noise(expected[0][0][n])
        coarse = "float32" if len(program.floats) > 1 else None
        exact = [*program.exact, *(False for _ in noise)]
        reasons = [
            leaf_difference(x, y, exact[k], noise[k], coarse)
            for call in range(CALLS)
            for k, (x, y) in enumerate(zip(expected[call][0][n], found[call][0][n], strict=True))
        ]
        outside = [(kept[n], left[n]), *((expected[c][1][n], found[c][1][n]) for c in range(CALLS))]
        for before, after in outside:
            reasons += [leaf_difference(x, y, False, max(noise), coarse) for x, y in zip(before, after, strict=True)]
        reason = next(filter(None, reasons), None)
        if reason:
            yield program, reason


def check(programs: Sequence[Program], **options: Any) -> None:
    """Raise for the first program that differs, alone and made as small as it goes."""
    try:
        wrong = next(differences(programs, **options), None)
    except Exception:
        wrong = next(((p, "raises") for p in programs if fails(p, options)), None)
        if wrong is None:
            raise
    if wrong is None:
        return
    program, reason = wrong
    if not fails(program, options):
        raise AssertionError(f"only together with others: {reason}\n{program}")
    program = shrunk(program, options)
    reason = next(differences([program], **options))[1]  # or raises what compiling it raises
    raise AssertionError(f"{reason}\n{program}")


def fails(program: Program, options: dict[str, Any]) -> bool:
    try:
        return next(differences([program], **options), None) is not None
    except Exception:
        return True


def shrunk(program: Program, options: dict[str, Any]) -> Program:
    """A program that fails too, with fewer results and steps that only hand on an operand."""
    for simpler in _simpler(program):
        try:
            outcome([simpler], lambda function: function)
        except Exception:
            continue
        if fails(simpler, options):
            return shrunk(simpler, options)
    return program


HANDED = ("{0}", "{1}", "{2}")


def _simpler(program: Program) -> Iterator[Program]:
    for k in range(len(program.results) if len(program.results) > 1 else 0):
        fewer = copy.copy(program)
        fewer.results, fewer.exact = ([*x[:k], *x[k + 1 :]] for x in (program.results, program.exact))
        yield fewer
    for n, step in enumerate(program.steps):
        for k in range(len(step.operands) if step.count == 1 and step.text not in HANDED else 0):
            handed = Step(HANDED[k], step.operands, lambda kind, *xs, k=k: xs[k])
            fewer = copy.copy(program)
            fewer.steps = [*program.steps[:n], handed, *program.steps[n + 1 :]]
            yield fewer
