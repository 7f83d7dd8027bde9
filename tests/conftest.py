"""Shared settings of the tests: one BLAS thread each, and the count of operations and cases covered."""

from __future__ import annotations

import os

os.environ.setdefault("OMP_NUM_THREADS", "1")

import pytest

_covered: dict[str, dict[str, int]] = {}


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    if report.when != "call":
        return
    for name, value in report.user_properties:
        if name == "cases":
            test, _, parameter = report.nodeid.partition("[")
            _covered.setdefault(test, {})[parameter] = value


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    for test, cases in sorted(_covered.items()):
        operations = sum(1 for n in cases.values() if n)
        terminalreporter.write_line(f"{test}: {operations} operations, {sum(cases.values())} cases")
