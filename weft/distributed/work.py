"""Handles of calls that were started and not waited for."""

from __future__ import annotations

import datetime
from collections.abc import Callable
from typing import Any

from ..ops.collective.exchange import Started
from ..runtime.cluster.messages import Message

__all__ = ["Work"]


class Work:
    """What `async_op=True`, `isend` and `irecv` give: `wait` ends the call, and only then its result is there."""

    def __init__(self, pending: Started | Message | None, finish: Callable[[Any], None] | None = None) -> None:
        self.pending, self.finish, self.done = pending, finish, pending is None
        self.value: Any = None

    def wait(self, timeout: datetime.timedelta | None = None) -> bool:
        """Until the call is done; what it gives is then in the tensors that it was called with."""
        if not self.done:
            seconds = None if timeout is None else timeout.total_seconds()
            message = isinstance(self.pending, Message)
            self.value = self.pending.wait(seconds) if message else self.pending.wait()
            self.done = True
            if self.finish is not None:
                self.finish(self.value)
        return True

    def is_completed(self) -> bool:
        """Whether the call is done, without waiting."""
        if self.done or self.pending is None:
            return True
        return self.pending.test() if isinstance(self.pending, Message) else self.pending.is_completed()

    def is_success(self) -> bool:
        """Whether it was waited for without an error."""
        return self.done
