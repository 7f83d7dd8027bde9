"""`torch.cuda`, `torch.accelerator` and `torch.backends` on a machine without a card: questions, waits, memory."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterator
from typing import Any

import weft

from ...errors import OutOfMemoryError

__all__ = [
    "Event",
    "OutOfMemoryError",
    "Stream",
    "current_accelerator",
    "current_device",
    "current_device_index",
    "current_stream",
    "default_stream",
    "device",
    "get_arch_list",
    "get_device_capability",
    "get_device_properties",
    "get_rng_state",
    "get_rng_state_all",
    "init",
    "ipc_collect",
    "is_bf16_supported",
    "is_current_stream_capturing",
    "is_initialized",
    "max_memory_cached",
    "max_memory_reserved",
    "mem_get_info",
    "memory_cached",
    "memory_reserved",
    "memory_stats",
    "memory_summary",
    "reset_max_memory_allocated",
    "reset_peak_memory_stats",
    "seed",
    "seed_all",
    "set_device",
    "set_device_index",
    "set_per_process_memory_fraction",
    "set_rng_state",
    "set_rng_state_all",
    "stream",
    "synchronize",
]


def _nothing(*args: Any, **options: Any) -> None:
    """Nothing to do without a card."""


synchronize = ipc_collect = init = set_device = set_device_index = seed = seed_all = _nothing
reset_peak_memory_stats = reset_max_memory_allocated = set_per_process_memory_fraction = _nothing


def _zero(*args: Any, **options: Any) -> int:
    """0: there is no card."""
    return 0


memory_reserved = max_memory_reserved = memory_cached = max_memory_cached = _zero
current_device = current_device_index = _zero


def _no(*args: Any, **options: Any) -> bool:
    """False: there is no card."""
    return False


is_initialized = is_current_stream_capturing = is_bf16_supported = _no


def current_accelerator(check_available: bool = False) -> None:
    """None: there is no card."""


def get_arch_list() -> list[str]:
    """No architectures."""
    return []


def memory_summary(*args: Any, **options: Any) -> str:
    """Nothing to tell."""
    return "no graphics card"


def memory_stats(*args: Any, **options: Any) -> dict[str, int]:
    """Nothing to count."""
    return {}


def mem_get_info(*args: Any) -> tuple[int, int]:
    """(free, all) bytes of a card: none."""
    return 0, 0


def get_device_capability(*args: Any) -> Any:
    """Refused: there is no card."""
    return weft.cuda.get_device_name()


get_device_properties = get_device_capability


@contextlib.contextmanager
def device(place: Any = None) -> Iterator[None]:
    """`with torch.cuda.device(0):` nothing changes."""
    yield


class Stream:
    """A queue of a card: with the CPU everything is done when a call returns."""

    def __init__(self, *args: Any, **options: Any) -> None:
        pass

    def synchronize(self) -> None:
        """Nothing to wait for."""

    wait_stream = wait_event = record_event = _nothing

    def __enter__(self) -> Stream:
        return self

    def __exit__(self, *_: object) -> None:
        pass


def stream(stream: Any = None) -> Stream:
    """`with torch.cuda.stream(s):` nothing changes."""
    return Stream()


current_stream = default_stream = stream


class Event:
    """A moment: `start.elapsed_time(end)` is real, in milliseconds."""

    def __init__(self, *args: Any, **options: Any) -> None:
        self.moment = 0.0

    def record(self, stream: Any = None) -> None:
        """It is now."""
        self.moment = time.perf_counter()

    def elapsed_time(self, end_event: Event) -> float:
        """Milliseconds from this moment to the other."""
        return 1000 * (end_event.moment - self.moment)

    def query(self) -> bool:
        """Whether it has come: always."""
        return True

    synchronize = wait = _nothing


def get_rng_state(*args: Any) -> Any:
    """The state of the one stream of random numbers there is."""
    return weft.get_rng_state()


def get_rng_state_all() -> list[Any]:
    """No cards, no states."""
    return []


set_rng_state = set_rng_state_all = _nothing
_lazy_call = _nothing  # what would be called when a card is first used
_initialized = False  # what libraries ask before they keep a card's random state
