"""Random tensors: new ones, and the in-place methods that fill a tensor with random numbers.

Every number comes from a counter-based `Generator` (see `weft/random`: the same seed gives the same
numbers on any number of threads), and every draw passes through `draw`, which a transform (vmap,
compile) can take over by setting `mode.sampling`. Results are plain tensors outside the graph.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ... import dtypes
from ... import random as streams
from ...device import usable
from ...errors import ArgumentError, DtypeError, GeneratorError, ShapeError, WeftError
from ...tape.interpreter import interpreter_of
from ...tape.modes import mode, switches
from ...tensor import Tensor, wrap
from ..core.operands import broadcast_error, contents, python_int
from ..core.primitive import operation, write, write_out
from .create import check_layout, constructor, kind_of, sequence_shape, shape_from

__all__ = ["Generator", "bernoulli_mask", "default_generator", "draw", "generator_of", "rand"]

# ------------------------------------------------------------------------------------ generators


class Generator(streams.Generator):
    """A position in a random stream, as PyTorch's `Generator`: its states are uint8 tensors."""

    def get_state(self) -> Tensor:
        """Where the generator stands, as bytes for `set_state`."""
        return wrap(super().get_state())

    def set_state(self, new_state: Tensor) -> None:
        """Return to where `get_state` was called; anything else is refused and changes nothing."""
        super().set_state(contents(new_state, "set_state") if isinstance(new_state, Tensor) else new_state)

    def clone_state(self) -> Generator:
        """A new generator at the same place of the same stream."""
        return _generator(self.device, super().get_state())

    def split(self, n: int = 2) -> list[Generator]:
        """n generators with streams of their own."""
        return [_generator(self.device, part.get_state()) for part in super().split(n)]

    def fold_in(self, data: int) -> Generator:
        """The generator number `data` (a worker, a layer, an epoch) of this one."""
        return _generator(self.device, super().fold_in(data).get_state())

    def __reduce__(self) -> tuple[Any, ...]:
        return _generator, (self.device, super().get_state())


def _generator(device: Any, state: np.ndarray) -> Generator:
    made = Generator(device)
    made.set_state(state)
    return made


# One default for both levels: the functions of `weft/random` look it up when they are called.
default_generator = streams.default_generator = Generator()
default_generator.seed()


def generator_of(generator: Any, name: str) -> streams.Generator:
    """The generator to use: the one given, or the default."""
    if generator is None:
        return streams.default_generator
    if not isinstance(generator, streams.Generator):
        raise _WrongGenerator(
            f"{name}: argument 'generator' must be a weft.Generator, got {type(generator).__name__}; make one with "
            "weft.Generator().manual_seed(0)"
        )
    return generator


class _WrongGenerator(GeneratorError, TypeError):
    """PyTorch raises TypeError for an argument that is no generator."""


def _moving(generator: streams.Generator) -> None:
    """A generator is about to move: what stands over this thread is told."""
    if switches.interpreting and mode.interpreter is not None:
        mode.interpreter.moving(generator)


streams._listen(_moving)


def draw(name: str, sampler: str, generator: Any, *parameters: Any, **options: Any) -> Tensor:
    """Random numbers from the method `sampler` of a generator, as a new tensor: the one way to draw."""
    source = generator_of(generator, name)
    takeover = getattr(mode, "sampling", None)
    if takeover is not None:
        return takeover(name, sampler, source, parameters, options)
    if mode.interpreter is not None:
        return mode.interpreter.draw(name, sampler, source, parameters, options)
    arrays = [p.array if isinstance(p, Tensor) else p for p in parameters]
    options = {k: v.array if isinstance(v, Tensor) else v for k, v in options.items()}
    try:
        return wrap(getattr(source, sampler)(*arrays, **options))
    except WeftError as error:
        raise type(error)(f"{name}: {error}") from None


def bernoulli_mask(shape: Any, keep_probability: float, generator: Any = None) -> Tensor:
    """A bool tensor whose elements are True with the given probability (for dropout)."""
    return draw("bernoulli", "bernoulli", generator, keep_probability, shape=tuple(shape), dtype=np.bool_)


# ----------------------------------------------------------------------------------- new tensors


@constructor
def rand(*size: int | Sequence[int], dtype: Any, generator: Any = None) -> Tensor:
    """Uniform on [0, 1)."""
    return draw("rand", "uniform", generator, shape_from(size, "rand"), kind_of(dtype).np)


@constructor
def uniform(low: float = 0.0, high: float = 1.0, size: Any = None, *, dtype: Any, generator: Any = None) -> Tensor:
    """Uniform on [low, high), in the given size (a tuple); the bounds are numbers (not in PyTorch)."""
    if isinstance(low, Tensor) or isinstance(high, Tensor):
        raise ArgumentError(
            "uniform: bounds are numbers; for tensors use weft.distributions.Uniform(low, high).sample()"
        )
    if size is None:
        raise ArgumentError("uniform: the size is needed, as in uniform(0.0, 1.0, (2, 3)); () makes a 0-d tensor")
    shape = sequence_shape(size, "uniform")
    return draw("uniform", "uniform", generator, shape, kind_of(dtype).np, low=low, high=high)


@constructor
def randn(*size: int | Sequence[int], dtype: Any, generator: Any = None) -> Tensor:
    """Standard normal; a complex number has variance 1, half in each part."""
    return draw("randn", "normal", generator, shape_from(size, "randn"), kind_of(dtype).np)


@constructor
def randint(*bounds: Any, dtype: Any, generator: Any = None, **named: Any) -> Tensor:
    """`randint(high, size)` or `randint(low, high, size)`: integers in [low, high), equally likely."""
    low, high, size = _integer_bounds(bounds, named, "randint", ("low", "high", "size"))
    kind = dtypes.int64 if dtype is None else dtype
    return draw("randint", "integers", generator, low, high, sequence_shape(size, "randint"), kind.np)


def _integer_bounds(bounds: tuple, named: dict[str, Any], name: str, order: tuple[str, ...]) -> tuple[Any, ...]:
    """(low, high, …) from positional and named arguments, low being 0 when it is left away."""
    names = order if len(bounds) + len(named) == len(order) else order[1:]
    found = dict(zip(names, bounds, strict=False)) | named
    if len(bounds) > len(names) or set(found) != set(names) or len(found) != len(bounds) + len(named):
        raise ArgumentError(f"{name}: expected ({', '.join(order)}) or ({', '.join(order[1:])}), got {bounds} {named}")
    whole = tuple(python_int(found.get(k, 0), name) for k in ("low", "high"))
    return (*whole, found["size"]) if "size" in found else whole


@constructor
def randperm(n: int, *, dtype: Any, generator: Any = None) -> Tensor:
    """0 … n − 1 in random order."""
    kind = dtypes.int64 if dtype is None else dtype
    return draw("randperm", "permutation", generator, python_int(n, "randperm"), kind.np)


def _as_laid_out(
    input: Tensor,
    value: Tensor,
    name: str,
    *,
    layout: Any = None,
    device: Any = None,
    requires_grad: bool = False,
    pin_memory: bool = False,
    memory_format: Any = None,
) -> Tensor:
    """`value` in the order in memory of `input`, with a constructor's options."""
    check_layout(layout, name)
    if device is not None:
        usable(device)
    keep = interpreter_of(input) is None and not str(memory_format).endswith("contiguous_format")
    if keep and interpreter_of(value) is None and not input.is_contiguous():
        array = np.empty_like(input.array, value.array.dtype)
        array[...] = value.array
        value = wrap(array)
    return value.requires_grad_() if requires_grad else value


def _like_kind(input: Any, dtype: Any, name: str) -> dtypes.dtype:
    if not isinstance(input, Tensor):
        raise ArgumentError(f"{name}: argument 'input' must be a Tensor, got {type(input).__name__}")
    return input.dtype if dtype is None else dtypes.as_dtype(dtype)


@operation(method=False, differentiable=False)
def rand_like(input: Tensor, *, dtype: Any = None, generator: Any = None, **options: Any) -> Tensor:
    """Uniform on [0, 1), in the sizes and type of `input`."""
    kind = _like_kind(input, dtype, "rand_like")
    return _as_laid_out(
        input, draw("rand_like", "uniform", generator, tuple(input.shape), kind.np), "rand_like", **options
    )


@operation(method=False, differentiable=False)
def randn_like(input: Tensor, *, dtype: Any = None, generator: Any = None, **options: Any) -> Tensor:
    """Standard normal, in the sizes and type of `input`."""
    kind = _like_kind(input, dtype, "randn_like")
    return _as_laid_out(
        input, draw("randn_like", "normal", generator, tuple(input.shape), kind.np), "randn_like", **options
    )


@operation(method=False, differentiable=False)
def randint_like(
    input: Tensor,
    *bounds: int,
    dtype: Any = None,
    generator: Any = None,
    low: int | None = None,
    high: int | None = None,
    **options: Any,
) -> Tensor:
    """Integers in [low, high), in the sizes and type of `input`: `(input, high)` or `(input, low, high)`."""
    kind = _like_kind(input, dtype, "randint_like")
    named = {k: v for k, v in (("low", low), ("high", high)) if v is not None}
    low, high = _integer_bounds(bounds, named, "randint_like", ("low", "high"))
    value = draw("randint_like", "integers", generator, low, high, tuple(input.shape), kind.np)
    return _as_laid_out(input, value, "randint_like", **options)


# ------------------------------------------------------------------------ with tensors as parameters


@operation(method=False, out=True, differentiable=False)
def normal(
    mean: Any = 0.0,
    std: Any = 1.0,
    size: Any = None,
    *,
    generator: Any = None,
    dtype: Any = None,
    layout: Any = None,
    device: Any = None,
    requires_grad: bool = False,
    pin_memory: bool = False,
) -> Tensor:
    """Normal with the given mean and standard deviation: tensors that broadcast, or numbers and a size."""
    tensors = [p for p in (mean, std) if isinstance(p, Tensor)]
    if not tensors and size is None:
        raise ArgumentError("normal: with two numbers the size is needed, as in normal(0.0, 1.0, (2, 3))")
    if tensors and size is not None:
        raise ArgumentError("normal: size is given by the tensors mean and std; leave it away")
    kind = kind_of(dtype) if not tensors else tensors[0].dtype
    if len(tensors) == 2:
        kind = dtypes.promote_types(mean.dtype, std.dtype)
    shape = _common_shape("normal", *tensors) if tensors else sequence_shape(size, "normal")
    out = draw("normal", "normal", generator, shape, kind.np, mean=mean, std=std)
    return out.requires_grad_() if requires_grad else out


def _common_shape(name: str, *tensors: Tensor) -> tuple[int, ...]:
    shapes = [tuple(t.shape) for t in tensors]
    try:
        return np.broadcast_shapes(*shapes)
    except ValueError:
        raise broadcast_error(name, *shapes) from None


def _float_parameter(input: Any, name: str, argument: str = "input") -> None:
    if not isinstance(input, Tensor):
        raise ArgumentError(f"{name}: argument '{argument}' must be a Tensor, got {type(input).__name__}")
    if not input.is_floating_point():
        raise _NotFloating(
            f"{name}: only supports floating-point dtypes for {argument}, got {input.dtype}; convert with .float()"
        )


class _NotFloating(DtypeError, ValueError):
    """PyTorch raises ValueError or RuntimeError here."""


@operation(out=True, differentiable=False)
def bernoulli(input: Tensor, p: float | None = None, *, generator: Any = None) -> Tensor:
    """1 with probability `input` (or p, if it is given), else 0, element by element."""
    if p is None:
        _float_parameter(input, "bernoulli")
        return draw("bernoulli", "bernoulli", generator, input, shape=tuple(input.shape), dtype=input.dtype.np)
    return draw("bernoulli", "bernoulli", generator, p, shape=tuple(input.shape), dtype=input.dtype.np)


@operation(differentiable=False)
def multinomial(
    input: Tensor,
    num_samples: int,
    replacement: bool = False,
    *,
    generator: Any = None,
    out: Tensor | None = None,
) -> Tensor:
    """Indices drawn from each row in proportion to its weights: (C,) → (N,), (B, C) → (B, N)."""
    _float_parameter(input, "multinomial")
    if out is not None and out.dtype is not dtypes.int64:
        raise DtypeError(f"multinomial: expects an int64 tensor as out, got {out.dtype}")
    if input.ndim and input.shape[-1] > 2**24:
        raise ShapeError(f"multinomial: number of categories cannot exceed 2^24, got {input.shape[-1]}")
    count = python_int(num_samples, "multinomial")
    result = draw("multinomial", "multinomial", generator, input, count, replacement)
    return result if out is None else write_out(out, result, "multinomial")


@operation(method=False, differentiable=False)
def poisson(input: Tensor, generator: Any = None) -> Tensor:
    """Poisson counts with the rates `input`."""
    _float_parameter(input, "poisson")
    return draw("poisson", "poisson", generator, input, dtype=input.dtype.np)


@operation(method=False, differentiable=False)
def binomial(count: Tensor, prob: Tensor, generator: Any = None) -> Tensor:
    """Successes in `count` trials of probability `prob`."""
    _float_parameter(count, "binomial", "count")
    _float_parameter(prob, "binomial", "prob")
    _common_shape("binomial", count, prob)
    return draw("binomial", "binomial", generator, count, prob, dtype=prob.dtype.np)


# ------------------------------------------------------------------------------------- in place


def fill(target: Tensor, sampler: str, generator: Any, /, *parameters: Any, **options: Any) -> Tensor:
    """Write random numbers into `target`: an in-place change without gradient."""
    name = sampler + "_"
    interpreter = interpreter_of(target)
    if interpreter is None:
        target._check_writable(name)
    options = {"shape": tuple(target.shape), "dtype": target.dtype.np, **options}
    value = draw(name, sampler, generator, *parameters, **options)
    if interpreter is not None:
        return interpreter.write(target, value, name)
    return write(target, value, name, checked=True)


@operation(function=False, differentiable=False)
def uniform_(self: Tensor, *bounds: float, generator: Any = None, **named: float) -> Tensor:
    """`uniform_(from=0, to=1)`: fill with numbers uniform on [from, to)."""
    low, high = _from_to(bounds, named, "uniform_", 0.0, 1.0)
    return fill(self, "uniform", generator, low=low, high=high)


def _from_to(bounds: tuple, named: dict[str, Any], name: str, low: Any, high: Any) -> tuple[Any, Any]:
    """PyTorch's arguments `from` and `to`; the first is a word of Python's, so it comes in a dict."""
    given = dict(zip(("from", "to"), bounds, strict=False))
    if len(bounds) > 2 or named.keys() - {"from", "to"} or given.keys() & named.keys():
        raise ArgumentError(f"{name}: expected (from, to), got {bounds} {named}")
    given |= named
    return given.get("from", low), given.get("to", high)


@operation(function=False, differentiable=False)
def random_(self: Tensor, *bounds: int, generator: Any = None, **named: int) -> Tensor:
    """`random_()`, `random_(to)` or `random_(from, to)`: fill with integers in [from, to)."""
    if len(bounds) == 1 and not named:
        bounds = (0, *bounds)
    low, high = _from_to(bounds, named, "random_", 0, None)
    return fill(self, "random", generator, low=low, high=high)


@operation(function=False, differentiable=False)
def normal_(self: Tensor, mean: float = 0.0, std: float = 1.0, *, generator: Any = None) -> Tensor:
    """Fill with normal numbers."""
    return fill(self, "normal", generator, mean=mean, std=std)


@operation(function=False, differentiable=False)
def log_normal_(self: Tensor, mean: float = 1.0, std: float = 2.0, *, generator: Any = None) -> Tensor:
    """Fill with exp(mean + std · z), z standard normal."""
    return fill(self, "log_normal", generator, mean=mean, std=std)


@operation(function=False, differentiable=False)
def exponential_(self: Tensor, lambd: float = 1.0, *, generator: Any = None) -> Tensor:
    """Fill with exponential numbers of rate `lambd`."""
    return fill(self, "exponential", generator, rate=lambd)


@operation(function=False, differentiable=False)
def cauchy_(self: Tensor, median: float = 0.0, sigma: float = 1.0, *, generator: Any = None) -> Tensor:
    """Fill with Cauchy numbers around `median`."""
    return fill(self, "cauchy", generator, median=median, sigma=sigma)


@operation(function=False, differentiable=False)
def geometric_(self: Tensor, p: float, *, generator: Any = None) -> Tensor:
    """Fill with the numbers of trials up to the first success, 1, 2, …"""
    return fill(self, "geometric", generator, p)


@operation(function=False, differentiable=False)
def bernoulli_(self: Tensor, p: Any = 0.5, *, generator: Any = None) -> Tensor:
    """Fill with 1 of probability p (a number, or a tensor that broadcasts), else 0."""
    if isinstance(p, Tensor):
        _float_parameter(p, "bernoulli_", "p")
        if _common_shape("bernoulli_", self, p) != tuple(self.shape):
            raise ShapeError(f"bernoulli_: p of shape {tuple(p.shape)} does not expand to {tuple(self.shape)}")
    return fill(self, "bernoulli", generator, p)
