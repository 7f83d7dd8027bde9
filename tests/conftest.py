"""Shared settings of the tests: one BLAS thread each, shares of the suite, the count of operations and cases covered."""

from __future__ import annotations

import gc
import os
import signal
import zlib

os.environ.setdefault("OMP_NUM_THREADS", "1")
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:  # started in the background: programs under test would inherit it
    signal.signal(signal.SIGINT, signal.default_int_handler)

import pytest

_covered: dict[str, dict[str, int]] = {}
_named: dict[str, set[str]] = {}  # operations, where one test covers several


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--share", default="1/1", help="2/4: the second quarter of the tests, drawn by their names")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """A test is in the same share on every machine and in every run."""
    which, _, shares = config.getoption("share").partition("/")
    if not (which.isdigit() and shares.isdigit() and 1 <= int(which) <= int(shares)):
        raise pytest.UsageError(f"--share: expected 1/4 … 4/4 or the like, got {config.getoption('share')!r}")
    chosen = {item: zlib.crc32(item.nodeid.encode()) % int(shares) == int(which) - 1 for item in items}
    config.hook.pytest_deselected(items=[item for item in items if not chosen[item]])
    items[:] = [item for item in items if chosen[item]]


def pytest_collection_finish(session: pytest.Session) -> None:
    """What the suite itself is made of stays: no collection of garbage in a test walks through it again."""
    gc.collect()
    gc.freeze()


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
