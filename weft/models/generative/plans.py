"""Samplers as native plans: compiled once, whatever generator a call brings.

A compiled function that is handed a `Generator` is bound to that object. A sampler gets a fresh one at every call, so
its plan draws from a generator of its own, which takes the caller's place in the stream and gives it back afterwards:
the same numbers as eager code, and one plan.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from typing import Any

import weft

from ...random import Generator
from ...runtime.locks import fork_safe_lock
from ...tape.modes import mode

__all__ = ["Planned", "in_one_plan", "planned"]


class Planned:
    """A function with an argument `generator`, compiled; called inside of another trace it is part of that.

    >>> walk = planned(lambda x, generator: weft.fori_loop(0, 9, lambda _, x: x + weft.randn(3, generator=generator), x))
    >>> seeded = lambda: weft.Generator().manual_seed(1)
    >>> weft.equal(walk(weft.zeros(3), generator=seeded()), walk(weft.zeros(3), generator=seeded())), walk.plans
    (True, 1)
    """

    def __init__(self, function: Callable) -> None:
        functools.update_wrapper(self, function)
        self.function, self.compiled = function, weft.compile(function)
        self.own, self.lock = weft.Generator(), fork_safe_lock()

    def __call__(self, *args: Any, generator: Generator | None = None, **options: Any) -> Any:
        if mode.interpreter is not None:
            return self.function(*args, generator=generator, **options)
        source = weft.default_generator if generator is None else generator
        with self.lock:
            self.own._take_place_of(source)
            result = self.compiled(*args, generator=self.own, **options)
            source._take_place_of(self.own)
        return result

    @property
    def plans(self) -> int:
        """How many plans there are: one for each shape, and for each number of steps."""
        return sum(map(len, self.compiled.plans.values()))


planned = Planned


class _Plans:
    """The plans of one model, which its copies and files are without: they make their own.

    No dictionary of the model's: a trace would notice that it grows.
    """

    __slots__ = ("made",)

    def __init__(self) -> None:
        self.made: dict[str, Planned] = {}

    def __reduce__(self) -> Any:
        return _Plans, ()

    def __deepcopy__(self, memo: dict[int, Any]) -> _Plans:
        return _Plans()


def in_one_plan(method: Callable) -> Callable:
    """For methods of a module with an argument `generator`: each object compiles its own when it is first called."""
    signature = inspect.signature(method)
    first, *names = signature.parameters
    kinds = {part.kind for part in signature.parameters.values()}
    plain = not kinds & {inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD}
    defaults = {name: part.default for name, part in signature.parameters.items() if part.default is not part.empty}
    positional = [name for name in names if signature.parameters[name].kind is not inspect.Parameter.KEYWORD_ONLY]

    def arguments(self: Any, args: tuple, options: dict[str, Any]) -> dict[str, Any]:
        """By name, so that what is left out and what is said as it would be are one plan. By hand where nothing can be
        wrong, since binding takes longer than small samplers do."""
        by_place = dict(zip(positional, args, strict=False))
        if plain and len(args) <= len(positional) and by_place.keys().isdisjoint(options):
            given = defaults | by_place | options
            if given.keys() == set(names):
                return {name: given[name] for name in names}
        bound = signature.bind(self, *args, **options)
        bound.apply_defaults()
        return {name: value for name, value in bound.arguments.items() if name != first}

    @functools.wraps(method)
    def run(self: Any, *args: Any, **options: Any) -> Any:
        given = arguments(self, args, options)
        if mode.interpreter is not None:
            return method(self, **given)
        plans = self.__dict__.setdefault("_plans", _Plans()).made
        if method.__name__ not in plans:
            plans[method.__name__] = Planned(functools.partial(method, self))
        return plans[method.__name__](**given)

    return run
