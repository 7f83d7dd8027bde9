"""Processor time in a unit that slows down with the machine: work of a fixed kind, done in the same process.

A processor that runs other programs on its other threads, or shares its caches with them, needs more of its time for the same
work. `BEFORE` and `AFTER` stand around what a program for a fresh interpreter does; the number printed last is its time over
that of the work.
"""

BEFORE = """
from time import process_time as _now
def _work():
    start = _now()
    sum(len(str({k: [k] * 3, -k: k})) for k in range(60_000))
    return _now() - start
_unit, _start = _work(), _now()
"""
AFTER = """
_took = _now() - _start
_paces = _took / (_unit + _work())
"""
