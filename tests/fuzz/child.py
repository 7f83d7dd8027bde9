"""A process that makes the calls of a range of seeds; what it is about to do stands in a file, should it die of it.

python -m tests.fuzz.child PROGRESS FIRST STEP SECONDS
"""

from __future__ import annotations

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


def main(progress: str, first: int, step: int, seconds: float, count: int | None = None) -> None:
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
    warnings.simplefilter("ignore")
    signal.signal(signal.SIGVTALRM, _too_long)
    from . import judge, targets  # after the limits

    end, seed = time.monotonic() + seconds, first
    with open(progress, "w", buffering=1) as out:
        while time.monotonic() < end and (count is None or seed < first + step * count):
            name, call = targets.make(seed)
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
    main(
        sys.argv[1], int(sys.argv[2]), int(sys.argv[3]), float(sys.argv[4]), int(sys.argv[5]) if sys.argv[5:] else None
    )
