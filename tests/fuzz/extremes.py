"""Calls of everything public with one number of theirs at its extremes: what loops or allocates by it must refuse it.

Where `targets.py` draws calls by chance, this lists them: each number and each tensor of a known good call, one by one,
and each number in the signature of a layer, an optimiser, a schedule, a distribution.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

import weft
import weft.nn.functional as F
from tests.distributions.cases import CASES
from tests.nn.functional_samples import SAMPLES as FUNCTIONAL
from tests.ops.harness import ROWS, calls_of, draw, resolve, to_weft
from tests.ops.samples.base import S
from weft import distributions, nn, optim

from .targets import INITS, LAYERS, LEFT_OUT, OPTIMISERS, SCHEDULES

COUNTS = (10**7, 2**24, 2**31, 2**40, 2**63 - 1, 10**30, -(2**63))
REALS = (0.0, 1e-300, 1e-9, 1e9, 1e300, float("inf"), float("nan"))
Case = tuple[str, Callable[[], Any]]


def operations() -> Iterator[Case]:
    """Every sampled call of an operation or a function, changed in one place."""
    for name in sorted(ROWS.keys() - LEFT_OUT):
        yield from _changed(name, resolve(weft, name), calls_of(ROWS[name]))
    for name in sorted(FUNCTIONAL):
        yield from _changed(f"nn.functional.{name}", getattr(F, name), FUNCTIONAL[name])


def _changed(name: str, function: Callable, calls: list[S]) -> Iterator[Case]:
    seen: set[Any] = set()
    for call in calls:
        for place, old in _places(call):
            kind = type(old) if not isinstance(old, np.ndarray) else old.dtype.kind
            if (place, kind) in seen:
                continue
            seen.add((place, kind))
            for new in _extremes(old):
                for layout in ("contiguous", "empty") if isinstance(old, int) else ("contiguous",):
                    yield f"{name} {layout} {place} = {_said(new)}", _call(function, call, place, new, layout)
        for parameter in _numbers(function, call):
            if parameter not in seen:
                seen.add(parameter)
                for new in COUNTS:
                    for layout in ("contiguous", "empty"):
                        yield f"{name} {layout} {parameter} = {new}", _call(function, call, (parameter,), new, layout)


def _drawn(call: S, layout: str = "contiguous") -> tuple[list[Any], dict[str, Any]]:
    args, options = draw(call, "float32", layout)
    return list(args), dict(options)


def _places(call: S) -> Iterator[tuple[tuple, Any]]:
    """(path, value) of every number and array of a call; a path is a place or a name, then places in lists."""
    args, options = _drawn(call)

    def within(path: tuple, value: Any) -> Iterator[tuple[tuple, Any]]:
        if isinstance(value, (list, tuple)):
            for k, one in enumerate(value):
                yield from within((*path, k), one)
        elif isinstance(value, (int, float, np.ndarray)) and not isinstance(value, bool):
            yield path, value

    for k, value in (*enumerate(args), *options.items()):
        yield from within((k,), value)


def _extremes(old: Any) -> Iterator[Any]:
    if isinstance(old, int):
        yield from COUNTS
    elif isinstance(old, float):
        yield from REALS
    elif old.dtype.kind in "iu":
        limits = np.iinfo(old.dtype)
        yield from (np.full_like(old, min(max(k, limits.min), limits.max)) for k in (10**7, 2**31, 2**62, -(2**62)))
    elif old.dtype.kind == "f":
        with np.errstate(over="ignore"):
            yield from (np.full_like(old, r) for r in (*REALS, 1e38, -1e38, 1e-38))


def _said(value: Any) -> str:
    return f"{value.flat[0] if value.size else '—'} everywhere" if isinstance(value, np.ndarray) else str(value)


def _numbers(function: Callable, call: S) -> list[str]:
    """Parameters with a whole number as default that the call does not give."""
    try:
        parameters = list(inspect.signature(function).parameters.values())
    except (TypeError, ValueError):
        return []
    return [
        p.name
        for p in parameters[len(call.args) :]
        if type(p.default) is int and p.name not in call.kwargs and p.kind is not p.POSITIONAL_ONLY
    ]


def _call(function: Callable, call: S, path: tuple, new: Any, layout: str) -> Callable[[], Any]:
    def made() -> Any:
        args, options = _drawn(call, layout)
        holder: Any = args if isinstance(path[0], int) else options
        _put(holder, path, new)
        return function(*to_weft(args), **{k: to_weft(v) for k, v in options.items()})

    return made


def _put(holder: Any, path: tuple, new: Any) -> None:
    first, *rest = path
    if not rest:
        holder[first] = new
        return
    inner = list(holder[first])
    _put(inner, tuple(rest), new)
    holder[first] = type(holder[first])(inner)


# --------------------------------------------------------------------------------------------- distributions

ASKED: dict[str, Callable[[Any, Any], Any]] = {
    "sample": lambda made, value: made.sample((3,)),
    "rsample": lambda made, value: made.rsample((3,)) if made.has_rsample else None,
    "log_prob": lambda made, value: made.log_prob(value),
    "cdf": lambda made, value: made.cdf(value),
    "icdf": lambda made, value: made.icdf(weft.full_like(value, 0.5)),
    "entropy": lambda made, value: made.entropy(),
    "enumerate_support": lambda made, value: made.enumerate_support(),
}


def draws() -> Iterator[Case]:
    """Every distribution with one of its parameters at an end, unchecked, asked all that it can be asked."""
    for name, (build, values) in CASES.items():
        for place in range(_parameters(build)):
            for end in (*REALS, -1.0, 1e16, 1e38):
                for asked in ASKED:
                    yield f"{name} parameter {place} = {end}: {asked}", _asked(build, values, place, end, asked)


def _parameters(build: Callable) -> int:
    made: list[Any] = []
    build(distributions, lambda data: made.append(data) or weft.tensor(data, dtype=weft.float64))
    return len(made)


def _asked(build: Callable, values: Any, place: int, end: float, asked: str) -> Callable[[], Any]:
    def call() -> Any:
        count = iter(range(100))

        def parameter(data: Any) -> weft.Tensor:
            made = weft.tensor(data, dtype=weft.float64)
            return weft.full_like(made, end) if next(count) == place else made

        before = distributions.Distribution._validate_args
        distributions.Distribution.set_default_validate_args(False)
        try:
            return ASKED[asked](build(distributions, parameter), weft.tensor(values, dtype=weft.float64))
        finally:
            distributions.Distribution.set_default_validate_args(before)

    return call


# ------------------------------------------------------------------------------------------------ layers and others

INPUTS = ((2, 4), (2, 4, 6), (1, 4, 6, 6))


def layers() -> Iterator[Case]:
    """Every layer with one whole number at an end: made, then called with inputs of a few sizes."""
    for name in LAYERS:
        for changed, new, options in _options(getattr(nn, name), skip=0):
            yield f"nn.{name} {changed} = {new}", _layer(getattr(nn, name), options)


def _options(cls: type, skip: int) -> Iterator[tuple[str, Any, dict[str, Any]]]:
    """(parameter, its new value, all options): required parameters are 4, one number after another is at an end."""
    try:
        parameters = list(inspect.signature(cls).parameters.values())[skip:]
    except (TypeError, ValueError):
        return
    parameters = [p for p in parameters if p.kind not in (p.VAR_POSITIONAL, p.VAR_KEYWORD)]
    required = {p.name: 4 for p in parameters if p.default is p.empty}
    for p in parameters:
        if p.name in required or type(p.default) is int or p.default is None:
            yield from ((p.name, k, required | {p.name: k}) for k in COUNTS)
        elif type(p.default) is float:
            yield from ((p.name, r, required | {p.name: r}) for r in REALS)


def _layer(cls: type, options: dict[str, Any]) -> Callable[[], Any]:
    def call() -> None:
        layer = cls(**options)
        for shape in INPUTS:
            for inputs in (1, 2):
                try:
                    layer(*[weft.ones(shape)] * inputs)
                except Exception:
                    pass

    return call


def updates() -> Iterator[Case]:
    """Every optimiser and schedule with one number at an end: three steps, then one to an epoch that is none."""
    for name in OPTIMISERS:
        for changed, new, options in _options(getattr(optim, name), skip=1):
            yield f"optim.{name} {changed} = {new}", _optimiser(getattr(optim, name), options)
    for name in SCHEDULES:
        for changed, new, options in _options(getattr(optim.lr_scheduler, name), skip=1):
            yield f"lr_scheduler.{name} {changed} = {new}", _schedule(getattr(optim.lr_scheduler, name), options, 1.0)
        for epoch in (10**30, 1e300, float("inf"), float("nan")):
            made = next((o for _, _, o in _options(getattr(optim.lr_scheduler, name), skip=1)), {})
            made = {key: 4 for key in made}
            yield f"lr_scheduler.{name} to {epoch}", _schedule(getattr(optim.lr_scheduler, name), made, epoch)


def _optimiser(cls: type, options: dict[str, Any]) -> Callable[[], Any]:
    def call() -> None:
        p = nn.Parameter(weft.ones(3, 2))
        optimiser = cls([p], **options)

        def closure() -> weft.Tensor:
            optimiser.zero_grad()
            loss = p.square().sum()
            loss.backward()
            return loss

        for _ in range(3):
            optimiser.step(closure)

    return call


def _schedule(cls: type, options: dict[str, Any], epoch: float) -> Callable[[], Any]:
    def call() -> None:
        schedule = cls(optim.SGD([nn.Parameter(weft.ones(2))], lr=0.1, momentum=0.9), **options)
        for _ in range(3):
            schedule.step(*([1.0] if cls is optim.lr_scheduler.ReduceLROnPlateau else []))
        schedule.step(epoch)

    return call


def initialisers() -> Iterator[Case]:
    """Every initialiser of tensors with and without elements."""
    for name in INITS:
        function = getattr(nn.init, name)
        for shape in ((3, 4), (0, 4, 3), (4, 4, 3)):
            for changed, new, options in _options(function, skip=1):
                yield (
                    f"nn.init.{name} {shape} {changed} = {new}",
                    lambda f=function, shape=shape, options=options: f(weft.zeros(shape), **options),
                )


ALL: dict[str, Callable[[], Iterator[Case]]] = {
    "operations": operations,
    "distributions": draws,
    "layers": layers,
    "updates": updates,
    "initialisers": initialisers,
}


@functools.cache
def cases() -> list[Case]:
    """All of them, in the same order every time."""
    return [case for several in ALL.values() for case in several()]


def make(number: int) -> Case:
    """The name of a case, and a function that makes its call; after the last comes the first, as processes share evenly."""
    return cases()[number % len(cases())]
