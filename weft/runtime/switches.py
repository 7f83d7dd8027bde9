"""The environment variables that Weft reads, in one table: nothing else in Weft looks for a name that begins with WEFT_.

`weft info` prints the table as it stands, docs/switches.md is written from it (`make docs`).
"""

from __future__ import annotations

import os
from dataclasses import dataclass

__all__ = ["SWITCHES", "Switch", "switch"]


@dataclass(frozen=True)
class Switch:
    """A variable, what is taken where it is not set (or empty), and what it does."""

    name: str
    default: str
    meaning: str

    @property
    def value(self) -> str:
        """What holds now: the environment is asked each time."""
        return os.environ.get(self.name) or self.default


SWITCHES = {
    entry.name: entry
    for entry in (
        Switch("WEFT_RUNS", "runs", "the folder that holds the runs"),
        Switch("WEFT_DATA", "", "a folder with the files of data sets, looked into before the cache"),
        Switch(
            "WEFT_TRUST_DATA", "0", "1: data files whose digests are not the published ones are read, with a warning"
        ),
        Switch(
            "WEFT_DISTRIBUTED_TIMEOUT",
            "300",
            "seconds that a rank waits for the others before it says which is missing",
        ),
        Switch("WEFT_RESTARTS", "0", "how often `weft launch` has started this job again; trainings then resume"),
        Switch("WEFT_DEBUG", "", "1: a command that fails shows the whole traceback"),
        Switch(
            "WEFT_CACHE_DIR", "", "the folder of compiled kernels; not set: weft/kernels in the user's cache folder"
        ),
        Switch("WEFT_CACHE_SIZE", "512", "MiB that compiled kernels may take; 0: they are not kept"),
        Switch("WEFT_KEEP_MEMORY", "512", "MiB of freed memory kept for the next arrays (glibc); 0: all is given back"),
        Switch("WEFT_EAGER_NATIVE", "", "0: eager code by NumPy only; always: a plan for every array at its first use"),
        Switch("WEFT_TARGET", "host", "the processor to compile for: host, x86-64-v2, x86-64-v3, x86-64-v4, …"),
        Switch("WEFT_TUNING", "", "0: no tilings that `weft tune` has found; a path: those of this file and no others"),
        Switch("WEFT_WINOGRAD", "1", "0: 3 × 3 convolutions by direct tiles only"),
    )
}


def switch(name: str) -> str:
    """The value of a switch: what the environment says, else its default."""
    return SWITCHES[name].value
