"""Processes that end at a chosen moment, as if somebody had killed them."""

from __future__ import annotations

import os
import signal


def die(*_, **__):
    """Stands for any function: the process ends at once, nothing is cleaned up."""
    os.kill(os.getpid(), signal.SIGKILL)


class HalfWritten:
    """A file whose first write stops in the middle, and the process with it."""

    def __init__(self, handle, mode):
        self.file = open(handle, mode)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.file.close()

    def write(self, content):
        self.file.write(content[:100])
        self.file.flush()
        die()
