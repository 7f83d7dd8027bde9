"""What is switched on: recording, inference mode, anomaly detection; and the switches, PyTorch's names."""

from __future__ import annotations

import contextvars
import functools
import inspect
import sys
import threading
from collections.abc import Callable
from typing import Any

import numpy as np

__all__ = [
    "FORWARD",
    "NEVER",
    "Taken",
    "detect_anomaly",
    "enable_grad",
    "inference_mode",
    "is_anomaly_enabled",
    "is_grad_enabled",
    "is_inference_mode_enabled",
    "mode",
    "no_grad",
    "set_detect_anomaly",
    "set_grad_enabled",
    "switches",
    "unrecorded",
]


class _Mode(threading.local):
    """What each thread has switched on: recording, inference mode.

    `run(function, *arrays)` calls NumPy in a context whose floating-point warnings are off, at the
    cost of a plain call; the user's own NumPy settings stay as they are. It cannot be entered twice, which a signal
    handler that computes in the middle of an operation does: `call` does the same then, and where nanoseconds count
    `except RuntimeError: mode.run_inside(…)` does, which costs nothing.
    """

    grad: bool | str = True  # FORWARD: nodes are made to push tangents along and are then let go
    forward: tuple[Any, ...] = ()  # the running forward passes (forward.py), outermost first
    inference = False
    saved_hooks: tuple[Callable, Callable] | None = None
    sampling: Callable | None = None  # a transform that takes over random draws
    casting: Any = None  # the 16-bit type in which products are computed (weft.amp.autocast)
    interpreter: Any = None  # what stands over all that this thread does, a trace for one: see interpreter.py

    def __init__(self) -> None:
        context = contextvars.copy_context()
        context.run(np.seterr, all="ignore")
        self.run = self._compute = context.run

    def give_to(self, interpreter: Any) -> None:
        """From here on operations of this thread go to `interpreter`; None: they are computed at once.

        The short ways, which ask nobody, come to `run`: it sends them back.
        """
        self.interpreter = interpreter
        self.run = self._compute if interpreter is None else _refuse

    def call(self, function: Callable, *arrays: Any, **params: Any) -> Any:
        """Compute as `run` does, whether or not it is going on already, and whoever operations go to."""
        try:
            return self._compute(function, *arrays, **params)
        except RuntimeError:
            return self.run_inside(function, *arrays, **params)

    def run_inside(self, function: Callable, *arrays: Any, **params: Any) -> Any:
        """What `run` could not do because it is going on already; any other error that is being handled goes on."""
        error = sys.exception()
        if type(error) is not RuntimeError or "cannot enter context" not in str(error):
            raise
        return function(*arrays, **params)


class Taken(Exception):
    """Raised where a short way is about to compute, and `mode.interpreter` is in charge of operations."""


def _refuse(*_: Any, **__: Any) -> None:
    raise Taken


class _Switches:
    """What is switched on for all threads: anomaly detection, whether nodes are looked at as they are made, and what is
    cheaper to ask here than of a thread's mode. All are attributes of the instance: Python finds those fastest."""

    def __init__(self) -> None:
        self.anomaly = False
        self.check_nan = True
        self.hooks = 0  # how many saved_tensors_hooks are open, in all threads
        self.passes = 0  # how many forward passes are running, in all threads
        self.noting: Callable | None = None  # called with each new node and its result
        self.watching = False  # any of these: one flag to ask in the hot path
        self.casting = 0  # how many autocasts are open, in all threads
        self.interpreting = 0  # over how many threads an interpreter stands
        self.inferring = False  # whether any thread has ever been in inference mode

    def renew(self) -> None:
        self.watching = self.anomaly or self.hooks > 0 or self.passes > 0 or self.noting is not None


FORWARD = "forward"
NEVER = float("inf")
mode = _Mode()
switches = _Switches()


class _Switch:
    """A context manager that is also a decorator; sets attributes of `mode` and puts them back."""

    settings: dict[str, Any] = {}  # noqa: RUF012  overwritten by subclasses
    where: Any = mode
    stops_tangents = False

    def __enter__(self) -> None:
        stack = self.__dict__.setdefault("_before", [])
        stack.append({name: getattr(self.where, name) for name in self.settings})
        for name, value in self.settings.items():
            setattr(self.where, name, value)
        if mode.grad is False and mode.forward and not self.stops_tangents:
            mode.grad = FORWARD

    def __exit__(self, *_: object) -> None:
        for name, value in self.__dict__["_before"].pop().items():
            setattr(self.where, name, value)

    def __call__(self, function: Callable) -> Callable:
        if inspect.isgeneratorfunction(function):
            return _switched_generator(self, function)

        @functools.wraps(function)
        def switched(*args: Any, **kwargs: Any) -> Any:
            with self.clone():
                return function(*args, **kwargs)

        return switched

    def clone(self) -> _Switch:
        return type(self)()


def _switched_generator(switch: _Switch, function: Callable) -> Callable:
    """A generator whose body runs under the switch, while its consumer does not."""

    @functools.wraps(function)
    def switched(*args: Any, **kwargs: Any) -> Any:
        generator = function(*args, **kwargs)
        resume, argument = generator.send, None
        while True:
            try:
                with switch.clone():
                    value = resume(argument)
            except StopIteration as stop:
                return stop.value
            try:
                resume, argument = generator.send, (yield value)
            except GeneratorExit:
                with switch.clone():
                    generator.close()
                raise
            except BaseException as error:
                resume, argument = generator.throw, error

    return switched


class no_grad(_Switch):
    """Within it (or a function decorated with it) nothing is recorded."""

    settings = {"grad": False}  # noqa: RUF012

    def __new__(cls, function: Callable | None = None) -> Any:
        switch = super().__new__(cls)
        return switch if function is None else switch(function)

    def __init__(self, function: Callable | None = None) -> None: ...


class unrecorded(no_grad):
    """`no_grad` that holds for forward mode as well, for the engine's own use."""

    stops_tangents = True


class enable_grad(no_grad):
    """Within it recording is on, even inside `no_grad`."""

    settings = {"grad": True}  # noqa: RUF012


class set_grad_enabled(_Switch):
    """Turn recording on or off: as a function at once, as a context manager until its end."""

    def __init__(self, mode: bool) -> None:
        self.settings = {"grad": bool(mode)}
        super().__enter__()

    def __enter__(self) -> None: ...  # it has acted already

    def __repr__(self) -> str:
        return f"weft.autograd.grad_mode.set_grad_enabled(mode={self.settings['grad']})"

    def clone(self) -> set_grad_enabled:
        return set_grad_enabled(self.settings["grad"])

    def __call__(self, function: Callable) -> Callable:
        self.__exit__()
        return super().__call__(function)


class inference_mode(_Switch):
    """Like `no_grad`; tensors made within are marked and can never be recorded later."""

    stops_tangents = True

    def __new__(cls, mode: Any = True) -> Any:
        switches.inferring = True
        switch = super().__new__(cls)
        if callable(mode):
            switch.settings = {"grad": False, "inference": True}
            return switch(mode)
        return switch

    def __init__(self, mode: Any = True) -> None:
        self.settings = {"grad": False, "inference": True} if mode else {"inference": False, "grad": True}


def is_grad_enabled() -> bool:
    """Whether operations are recorded in this thread now."""
    return mode.grad is True


def is_inference_mode_enabled() -> bool:
    """Whether this thread is inside `inference_mode`."""
    return mode.inference


class detect_anomaly(_Switch):
    """Remember where each operation was called, and stop at the first NaN gradient with that line."""

    where = switches

    def __enter__(self) -> None:
        super().__enter__()
        switches.renew()

    def __exit__(self, *_: object) -> None:
        super().__exit__()
        switches.renew()

    def __init__(self, check_nan: bool = True) -> None:
        self.settings = {"anomaly": True, "check_nan": check_nan}

    def clone(self) -> detect_anomaly:
        return detect_anomaly(self.settings["check_nan"])


class set_detect_anomaly(detect_anomaly):
    """`detect_anomaly` as a function: acts at once, or until the end of a `with` block."""

    def __init__(self, mode: bool, check_nan: bool = True) -> None:
        self.settings = {"anomaly": mode, "check_nan": check_nan}
        super().__enter__()

    def __enter__(self) -> None: ...


def is_anomaly_enabled() -> bool:
    """Whether backward passes look for NaN."""
    return switches.anomaly
