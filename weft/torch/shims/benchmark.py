"""`torch.utils.benchmark`: statements timed, several times, and shown beside each other."""

from __future__ import annotations

import statistics
import timeit
from collections.abc import Callable, Sequence
from typing import Any

import weft

__all__ = ["Compare", "Measurement", "Timer"]


class Measurement:
    """Seconds of single runs; `median`, `mean` and `iqr` of them."""

    def __init__(self, number_per_run: int, raw_times: Sequence[float], names: dict[str, Any]) -> None:
        self.number_per_run, self.raw_times, self.names = number_per_run, list(raw_times), names

    @property
    def times(self) -> list[float]:
        return [seconds / self.number_per_run for seconds in self.raw_times]

    median = property(lambda self: statistics.median(self.times))
    mean = property(lambda self: statistics.fmean(self.times))
    title = property(lambda self: ": ".join(filter(None, (self.names["label"], self.names["sub_label"]))) or "stmt")

    @property
    def iqr(self) -> float:
        if len(self.times) < 2:
            return 0.0
        low, _, high = statistics.quantiles(self.times, n=4, method="inclusive")
        return high - low

    def __repr__(self) -> str:
        return f"<Measurement {self.title}: median {self.median * 1e6:.2f} µs of {len(self.times)} runs>"


class Timer:
    """`Timer('f(x)', globals={'f': f, 'x': x}).blocked_autorange()`; `num_threads` holds while it runs."""

    def __init__(
        self,
        stmt: str = "pass",
        setup: str = "pass",
        global_setup: str = "",
        timer: Callable[[], float] = timeit.default_timer,
        globals: dict[str, Any] | None = None,
        label: str | None = None,
        sub_label: str | None = None,
        description: str | None = None,
        env: str | None = None,
        num_threads: int = 1,
        language: Any = None,
    ) -> None:
        self.timer = timeit.Timer(stmt, setup, timer, {"torch": weft, **(globals or {})})
        self.names = {"label": label, "sub_label": sub_label, "description": description, "num_threads": num_threads}

    def _run(self, number: int, repeats: int) -> Measurement:
        before = weft.get_num_threads()
        weft.set_num_threads(self.names["num_threads"])
        try:
            return Measurement(number, self.timer.repeat(repeats, number), self.names)
        finally:
            weft.set_num_threads(before)

    def timeit(self, number: int = 1_000_000) -> Measurement:
        """One measurement of so many runs."""
        return self._run(number, 1)

    def blocked_autorange(self, callback: Any = None, min_run_time: float = 0.2) -> Measurement:
        """Blocks of runs that are long enough to be timed, until `min_run_time` seconds have gone by."""
        number = 1
        while (taken := self._run(number, 1).raw_times[0]) < min_run_time / 100 and number < 1 << 20:
            number *= 2
        return self._run(number, max(1, min(100, int(min_run_time / max(taken, 1e-9)))))

    def adaptive_autorange(self, threshold: float = 0.1, *, min_run_time: float = 0.01, **options: Any) -> Measurement:
        """`blocked_autorange` for at least so long."""
        return self.blocked_autorange(None, min_run_time)


class Compare:
    """A table of measurements: a row for each label, a column for each description."""

    def __init__(self, results: Sequence[Measurement]) -> None:
        self.results = list(results)

    def extend_results(self, results: Sequence[Measurement]) -> None:
        """More rows."""
        self.results.extend(results)

    def _changed(self, *args: Any) -> None:
        """Kept by nobody: there is one form of table."""

    trim_significant_figures = colorize = highlight_warnings = _changed

    def __str__(self) -> str:
        columns = list(dict.fromkeys(str(m.names["description"] or "") for m in self.results))
        rows: dict[str, dict[str, float]] = {}
        for m in self.results:
            rows.setdefault(m.title, {})[str(m.names["description"] or "")] = m.median * 1e6
        lines = [" | ".join([f"{'median, µs':30}", *(f"{c:>16}" for c in columns)])]
        for title, found in rows.items():
            cells = (f"{found[c]:16.2f}" if c in found else " " * 16 for c in columns)
            lines.append(" | ".join([f"{title:30}", *cells]))
        return "\n".join(lines)

    def print(self) -> None:
        """Show the table."""
        print(self)
