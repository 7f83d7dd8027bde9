"""What is called: every public operation, method, function, layer, optimiser, schedule, distribution and initialiser.

A target is a function of a random stream that makes one call; it is chosen, and its arguments are drawn, by the seed alone.
"""

from __future__ import annotations

import inspect
import operator
import random
from collections.abc import Callable
from typing import Any

import numpy as np

import weft
import weft.nn.functional as F
from tests.compiler.graph_moves import make_program
from tests.compiler.graphs import check
from tests.nn.functional_samples import SAMPLES as FUNCTIONAL
from tests.ops.harness import ROWS, calls_of, resolve, to_weft
from tests.ops.harness import draw as drawn
from weft import distributions, nn, optim
from weft.ops.core.primitive import OPERATIONS

from . import values

Call = tuple[Callable, tuple, dict[str, Any]]
OPERATORS = "add sub mul truediv floordiv mod pow matmul and_ or_ xor lshift rshift eq lt getitem contains".split()
METHODS = sorted(name for name in dir(weft.Tensor) if not name.startswith("_") and callable(getattr(weft.Tensor, name)))
LAYERS = sorted(
    n for n, c in vars(nn).items() if inspect.isclass(c) and issubclass(c, nn.Module) and c is not nn.Module
)
OPTIMISERS = sorted(n for n, c in vars(optim).items() if inspect.isclass(c) and issubclass(c, optim.Optimizer))
SCHEDULES = sorted(n for n in dir(optim.lr_scheduler) if inspect.isclass(getattr(optim.lr_scheduler, n)))
DISTRIBUTIONS = sorted(
    n for n, c in vars(distributions).items() if inspect.isclass(c) and issubclass(c, distributions.Distribution)
)
TRANSFORMS = sorted(
    n for n, c in vars(distributions).items() if inspect.isclass(c) and issubclass(c, distributions.Transform)
)
FUNCTIONS = sorted(n for n in dir(F) if not n.startswith("_") and inspect.isfunction(getattr(F, n)))
INITS = sorted(n for n in dir(nn.init) if n.endswith("_") and not n.startswith("_"))
LEFT_OUT = {"set_num_threads", "compile", "manual_seed", "share_memory_", "register_hook", "backward"}


def make(seed: int) -> tuple[str, Callable[[], Any]]:
    """The call of a seed: its name, and a function that makes it."""
    draw = random.Random(seed)
    family = draw.choices(tuple(FAMILIES), [weight for weight, _ in FAMILIES.values()])[0]
    return FAMILIES[family][1](draw)


def _operation(draw: random.Random) -> tuple[str, Callable[[], Any]]:
    """A call of the sample tables, as it is or with arguments changed; or one from the signature."""
    name = draw.choice(sorted(OPERATIONS.keys() - LEFT_OUT))
    function = resolve(weft, name)
    calls = calls_of(ROWS[name]) if name in ROWS else []
    return name, _prepared(draw, function, calls)


def _functional(draw: random.Random) -> tuple[str, Callable[[], Any]]:
    name = draw.choice(FUNCTIONS)
    return f"nn.functional.{name}", _prepared(draw, getattr(F, name), FUNCTIONAL.get(name, []))


def _prepared(draw: random.Random, function: Callable, calls: list) -> Callable[[], Any]:
    if calls and draw.random() < 0.75:
        layout = draw.choice(("contiguous", "transposed", "stepped", "expanded", "empty", "0-d"))
        args, options = drawn(
            draw.choice(calls), draw.choices(values.DTYPES, values.WEIGHTS)[0], layout, draw.getrandbits(16)
        )
        args, options = to_weft(args), {k: to_weft(v) for k, v in options.items()}
        if draw.random() < 0.7:
            args, options = _spoiled(draw, args, options)
    else:
        args, options = by_signature(draw, function)
    return lambda: function(*args, **options)


def _spoiled(draw: random.Random, args: tuple, options: dict[str, Any]) -> tuple[tuple, dict[str, Any]]:
    """One or two arguments exchanged for anything, left away, or too many."""
    args, options = list(args), dict(options)
    for _ in range(draw.choice((1, 1, 2))):
        choice = draw.random()
        if choice < 0.7 and (args or options):
            place = draw.randrange(len(args) + len(options))
            if place < len(args):
                args[place] = values.anything(draw)
            else:
                options[list(options)[place - len(args)]] = values.anything(draw)
        elif choice < 0.8 and args:
            args.pop()
        elif choice < 0.9:
            args.append(values.anything(draw))
        else:
            options[draw.choice(("dim", "out", "dtype", "keepdim", "foo"))] = values.anything(draw)
    return tuple(args), options


def by_signature(draw: random.Random, function: Callable, skip: int = 0) -> tuple[tuple, dict[str, Any]]:
    """Arguments by the names of the parameters; optional ones now and then."""
    try:
        parameters = list(inspect.signature(function).parameters.values())[skip:]
    except (TypeError, ValueError):
        return tuple(values.anything(draw) for _ in range(draw.randrange(3))), {}
    args, options = [], {}
    for p in parameters:
        if p.kind in (p.VAR_POSITIONAL, p.VAR_KEYWORD):
            if p.kind is p.VAR_POSITIONAL and draw.random() < 0.6:
                args += [values.named(draw, "k") for _ in range(draw.randrange(3))]
        elif p.default is p.empty and p.kind is not p.KEYWORD_ONLY and draw.random() < 0.97:
            args.append(values.named(draw, p.name))
        elif draw.random() < 0.25:
            options[p.name] = values.named(draw, p.name)
    return tuple(args), options


def _method(draw: random.Random) -> tuple[str, Callable[[], Any]]:
    name = draw.choice(METHODS)
    if name in LEFT_OUT:
        name = "sum"
    x, function = values.tensor(draw), getattr(weft.Tensor, name)
    args, options = by_signature(draw, function, 1)
    return f"Tensor.{name}", lambda: getattr(x, name)(*args, **options)


def _operator(draw: random.Random) -> tuple[str, Callable[[], Any]]:
    name = draw.choice([*OPERATORS, "setitem"])
    x, key = values.tensor(draw), values.anything(draw)
    if name == "getitem" and draw.random() < 0.7:
        key = tuple(draw.choice((0, -1, 2, slice(1, None), slice(None, None, 2), None, ..., [0, 1], values.anything(draw)))
                    for _ in range(draw.randrange(4)))  # fmt: skip
    if name == "setitem":
        value = values.anything(draw)
        return "operator.setitem", lambda: operator.setitem(x, key, value)
    return f"operator.{name}", lambda: getattr(operator, name)(x, key)


def _layer(draw: random.Random) -> tuple[str, Callable[[], Any]]:
    """A layer made and called, perhaps differentiated."""
    name = draw.choice(LAYERS)
    cls = getattr(nn, name)
    args, options = by_signature(draw, cls)
    inputs = [
        values.tensor(draw, None, "float32" if draw.random() < 0.7 else None)
        for _ in range(draw.choice((1, 1, 1, 2, 3)))
    ]

    def call() -> Any:
        layer = cls(*args, **options)
        return layer(*inputs)

    return f"nn.{name}", call


def _optimiser(draw: random.Random) -> tuple[str, Callable[[], Any]]:
    name = draw.choice(OPTIMISERS)
    cls = getattr(optim, name)
    _, options = by_signature(draw, cls, 1)
    given = draw.choice((None, [values.tensor(draw)], values.anything(draw)))

    def call() -> Any:
        p = nn.Parameter(weft.ones(3, 2))
        p.grad = weft.ones(3, 2)
        optimiser = cls([p] if given is None else given, **options)
        return optimiser.step()

    return f"optim.{name}", call


def _schedule(draw: random.Random) -> tuple[str, Callable[[], Any]]:
    name = draw.choice(SCHEDULES)
    cls = getattr(optim.lr_scheduler, name)
    args, options = by_signature(draw, cls, 1)

    def call() -> Any:
        optimiser = optim.SGD([nn.Parameter(weft.ones(2))], lr=0.1)
        schedule = cls(optimiser, *args, **options)
        schedule.step(*([1.0] if name == "ReduceLROnPlateau" else []))

    return f"optim.lr_scheduler.{name}", call


def _distribution(draw: random.Random) -> tuple[str, Callable[[], Any]]:
    """A distribution made, then asked."""
    name = draw.choice(DISTRIBUTIONS)
    cls = getattr(distributions, name)
    args, options = by_signature(draw, cls)
    asked = draw.choice("sample rsample log_prob cdf icdf entropy mean variance expand".split())
    given = {"log_prob": values.tensor, "cdf": values.tensor, "icdf": values.tensor}.get(asked, values.sizes)(draw)

    def call() -> Any:
        made = cls(*args, **options)
        found = getattr(made, asked)
        return found(given) if callable(found) else found

    return f"distributions.{name}.{asked}", call


def _transform(draw: random.Random) -> tuple[str, Callable[[], Any]]:
    name = draw.choice(TRANSFORMS)
    cls, x = getattr(distributions, name), values.tensor(draw)
    args, options = by_signature(draw, cls)
    return f"distributions.{name}", lambda: cls(*args, **options)(x)


def _init(draw: random.Random) -> tuple[str, Callable[[], Any]]:
    name = draw.choice(INITS)
    function = getattr(nn.init, name)
    args, options = by_signature(draw, function)
    return f"nn.init.{name}", lambda: function(*args, **options)


def _program(draw: random.Random) -> tuple[str, Callable[[], Any]]:
    """A random small program, compiled and eager: `check` fails where they differ."""
    program = make_program(draw.choice, draw.randint)
    return "compile", lambda: check([program])


def _made(draw: random.Random) -> tuple[str, Callable[[], Any]]:
    """Constructors of tensors with sizes and numbers of all sizes."""
    name = draw.choice("zeros ones full empty arange linspace logspace eye rand randn randint randperm tensor".split())
    function = getattr(weft, name)
    args = tuple(
        values.integer(draw) if draw.random() < 0.6 else values.anything(draw) for _ in range(draw.randrange(4))
    )
    return f"weft.{name}", lambda: function(*args)


FAMILIES: dict[str, tuple[float, Callable[[random.Random], tuple[str, Callable[[], Any]]]]] = {
    "operation": (40, _operation),
    "functional": (15, _functional),
    "method": (15, _method),
    "operator": (5, _operator),
    "layer": (10, _layer),
    "optimiser": (3, _optimiser),
    "schedule": (2, _schedule),
    "distribution": (5, _distribution),
    "transform": (1, _transform),
    "init": (2, _init),
    "made": (3, _made),
    "program": (0.3, _program),
}
np.seterr(all="ignore")
