"""Signal handlers during a trace: they compute for real, as at any other time, and leave nothing in the graph."""

from __future__ import annotations

import contextlib
import signal
import threading
from collections.abc import Callable, Iterator
from typing import Any

from ...tape.modes import mode

__all__ = ["handlers_outside"]


@contextlib.contextmanager
def handlers_outside() -> Iterator[None]:
    """Let signal handlers run outside of the trace that this thread makes; only the main thread runs any."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = {number: signal.getsignal(number) for number in signal.valid_signals()}
    instead = {n: _outside(h) for n, h in before.items() if callable(h) and h is not signal.default_int_handler}
    try:
        for number, handler in instead.items():
            signal.signal(number, handler)
        yield
    finally:
        for number, handler in instead.items():
            if signal.getsignal(number) is handler:  # the traced function may have set another
                signal.signal(number, before[number])


def _outside(handler: Callable[[int, Any], Any]) -> Callable[[int, Any], None]:
    def handle(number: int, frame: Any) -> None:
        interpreter = mode.interpreter
        mode.give_to(None)
        try:
            handler(number, frame)
        finally:
            mode.give_to(interpreter)

    return handle
