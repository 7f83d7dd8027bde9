"""A process that makes the calls of a range of seeds; what it is about to do stands in a file, should it die of it.

python -m tests.fuzz.child SOURCE PROGRESS FIRST STEP SECONDS [COUNT]

SOURCE is `targets`, calls drawn by chance, or `extremes`, calls that are listed.
"""

from __future__ import annotations

import importlib
import json
import resource
import signal
import sys
import time
import warnings

CALL_SECONDS = 5  # of processor time: a call that takes longer hangs
MEMORY = 6 * 2**30


class Hang(BaseException):
    """Raised in a call that takes too long."""


def main(source: str, progress: str, first: int, step: int, seconds: float, count: int | None = None) -> None:
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
    warnings.simplefilter("ignore")
    signal.signal(signal.SIGVTALRM, _too_long)
    from . import judge  # after the limits

    make = importlib.import_module(f"tests.fuzz.{source}").make

    end, seed = time.monotonic() + seconds, first
    with open(progress, "w", buffering=1) as out:
        while time.monotonic() < end and (count is None or seed < first + step * count):
            name, call = make(seed)
            out.write(json.dumps({"seed": seed, "name": name}) + "\n")
            out.write(json.dumps(outcome(call, judge)) + "\n")
            seed += step


def outcome(call, judge) -> dict[str, str]:
    """The verdict on one call."""
    signal.setitimer(signal.ITIMER_VIRTUAL, CALL_SECONDS)
    try:
        call()
        return {"is": "done"}
    except Hang:
        return {"is": "hang"}
    except Exception as error:
        verdict = judge.judged(error)
        if verdict == "foreign" and isinstance(error, AssertionError):  # of the comparison itself
            return {"is": "differs", "what": str(error)[:2000]}
        return {"is": verdict} if verdict != "foreign" else {"is": verdict, "what": judge.place(error)}
    finally:
        signal.setitimer(signal.ITIMER_VIRTUAL, 0)


def _too_long(*_) -> None:
    raise Hang


if __name__ == "__main__":
    main(*sys.argv[1:3], *map(int, sys.argv[3:5]), float(sys.argv[5]), *map(int, sys.argv[6:]))
