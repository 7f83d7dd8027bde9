"""Shared settings of the tests: one BLAS thread each, and the count of operations and cases covered."""

from __future__ import annotations

import os
import signal

os.environ.setdefault("OMP_NUM_THREADS", "1")
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:  # started in the background: programs under test would inherit it
    signal.signal(signal.SIGINT, signal.default_int_handler)

import pytest

_covered: dict[str, dict[str, int]] = {}
_named: dict[str, set[str]] = {}  # operations, where one test covers several


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    if report.when != "call":
        return
    test, _, parameter = report.nodeid.partition("[")
    for name, value in report.user_properties:
        if name == "operations":
            _named.setdefault(test, set()).update(value)
        if name == "cases":
            _covered.setdefault(test, {})[parameter] = value


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    for test, cases in sorted(_covered.items()):
        operations = len(_named.get(test, ())) or sum(1 for n in cases.values() if n)
        terminalreporter.write_line(f"{test}: {operations} operations, {sum(cases.values())} cases")
