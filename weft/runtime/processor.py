"""What the system says about the processor: its caches, which cores share them, and how many cores this process may use."""

from __future__ import annotations

import ctypes
import dataclasses
import functools
import math
import os
import pathlib
import sys

__all__ = ["Cache", "available_cores", "caches"]

_CPUS = pathlib.Path("/sys/devices/system/cpu")
_GROUPS, _OWN_GROUP = pathlib.Path("/sys/fs/cgroup"), pathlib.Path("/proc/self/cgroup")
_UNITS = {"K": 1 << 10, "M": 1 << 20, "G": 1 << 30}


@dataclasses.dataclass(frozen=True)
class Cache:
    """A cache of data: its bytes, and how many cores share them."""

    size: int
    shared: int = 1


@functools.cache
def caches() -> dict[int, Cache]:
    """The caches of the fastest core by level, 1 for the one next to it; those that the system does not tell are left out."""
    if sys.platform == "darwin":
        return _of_macos()
    found: dict[int, Cache] = {}
    for core in sorted(_CPUS.glob("cpu[0-9]*/cache"), key=str):
        for level, cache in _of_linux(core).items():
            found[level] = max(cache, found.get(level, cache), key=lambda x: x.size / x.shared)
    return found


def _of_linux(folder: pathlib.Path) -> dict[int, Cache]:
    """What a core's folder of /sys says."""
    found = {}
    for path in folder.glob("index*"):
        try:
            kind, level, size = ((path / name).read_text().strip() for name in ("type", "level", "size"))
            shared = len(_numbers((path / "shared_cpu_list").read_text()))
            if kind != "Instruction" and _bytes(size):
                found[int(level)] = Cache(_bytes(size), max(1, shared))
        except (OSError, ValueError):
            continue
    return found


def _bytes(text: str) -> int:
    """'512K' as a number."""
    unit = _UNITS.get(text[-1:].upper(), 0)
    return int(text[:-1]) * unit if unit else int(text)


def _numbers(text: str) -> list[int]:
    """'0-3,8' as [0, 1, 2, 3, 8]."""
    ends = [[int(end) for end in part.split("-")] for part in text.strip().split(",") if part]
    return [number for first, *last in ends for number in range(first, (last or [first])[0] + 1)]


def _of_macos() -> dict[int, Cache]:
    """What sysctl says of the fast cores, else of all."""
    found = {}
    for level, name, sharing in (
        (1, "l1dcachesize", ""),
        (2, "l2cachesize", "cpusperl2"),
        (3, "l3cachesize", "cpusperl3"),
    ):
        size = _sysctl(f"hw.perflevel0.{name}") or _sysctl(f"hw.{name}")
        if size:
            found[level] = Cache(size, max(1, _sysctl(f"hw.perflevel0.{sharing}")) if sharing else 1)
    return found


def _sysctl(name: str) -> int:
    """A number that macOS tells; 0 where it does not."""
    value = ctypes.c_uint64(0)
    size = ctypes.c_size_t(ctypes.sizeof(value))
    try:
        failed = ctypes.CDLL(None).sysctlbyname(name.encode(), ctypes.byref(value), ctypes.byref(size), None, 0)
    except (OSError, AttributeError):
        return 0
    return 0 if failed else value.value


# ---------------------------------------------------------------- cores


def available_cores() -> int:
    """How many cores this process may keep busy: those it may run on, and no more than its control groups grant."""
    here = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return max(1, math.ceil(min(here, _granted())))


def _granted() -> float:
    """Processor time for each second that Linux' control groups grant; ∞ without a limit. Every group above counts."""
    try:
        lines = _OWN_GROUP.read_text().splitlines()
    except OSError:
        return math.inf
    least = math.inf
    for number, controllers, group in (line.split(":", 2) for line in lines if line.count(":") >= 2):
        root = _GROUPS if number == "0" else _GROUPS / "cpu"
        if number != "0" and "cpu" not in controllers.split(","):
            continue
        path = root / group.lstrip("/")
        for folder in (path, *path.parents):
            least = min(least, _limit(folder))
            if folder == root:
                break
    return least


def _limit(folder: pathlib.Path) -> float:
    """The limit that one group sets, in either version of control groups."""
    try:
        quota, period = (folder / "cpu.max").read_text().split()
    except (OSError, ValueError):
        try:
            quota, period = ((folder / f"cpu.cfs_{name}_us").read_text().strip() for name in ("quota", "period"))
        except OSError:
            return math.inf
    if not quota.isdigit() or not period.isdigit() or int(quota) == 0 or int(period) == 0:
        return math.inf
    return int(quota) / int(period)
