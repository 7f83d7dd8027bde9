"""Trials of a search as tasks of Ray: on this machine, or on the cluster that RAY_ADDRESS names.

A trial writes its own file when it is done, whoever runs it, so the table is that of a local search with the same seeds. A
worker that is killed is replaced, and its trial goes on from its last checkpoint; so does a search whose head was killed, when it
is resumed. All machines of a cluster must see the folder of the search.
"""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import Callable, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..runtime.extras import extra

if TYPE_CHECKING:
    from ..train.selection import Trial
    from .search_work import SearchRequest

__all__ = ["RayTrials"]

RETRIES = 5  # of a trial whose worker is gone


def run_trial(told: dict[str, Any], folder: str, options: dict[str, Any], threads: int, trial: Trial) -> int:
    """What a worker does: one trial, by itself."""
    import weft

    from .search_work import SearchRequest, Work

    weft.set_num_threads(threads)
    Work(SearchRequest(**told), Path(folder), options).run(trial)
    return trial.number


class RayTrials:
    """Runs trials side by side, as many as there are cores for."""

    def __init__(self, request: SearchRequest, folder: Path, options: dict[str, Any], threads: int = 1) -> None:
        self.ray = extra("ray", "--on ray needs")
        self.request, self.folder, self.options, self.threads = request, folder.resolve(), options, threads

    def __enter__(self) -> RayTrials:
        known = {
            "ignore_reinit_error": True,
            "include_dashboard": False,
            "log_to_driver": False,
            "configure_logging": False,
        }
        os.environ.setdefault("RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO", "0")
        self.ray.init(**known, **({} if os.environ.get("RAY_ADDRESS") else {"_node_ip_address": "127.0.0.1"}))
        self.aside = contextlib.redirect_stdout(sys.stderr)  # Ray tells of dead workers on standard output
        self.aside.__enter__()
        self.task = self.ray.remote(num_cpus=self.threads, max_retries=RETRIES)(run_trial)
        return self

    def __exit__(self, *error: Any) -> None:
        self.ray.shutdown()
        self.aside.__exit__(*error)

    def run(self, pending: Callable[[], Sequence[Trial]], done: Callable[[Trial], None]) -> None:
        """All trials, also those that can run once others are finished; `done` is told of each."""
        told, waiting, begun = asdict(self.request), {}, set()
        while True:
            for trial in pending():
                if (trial.number, trial.rung) not in begun:
                    begun.add((trial.number, trial.rung))
                    waiting[self.task.remote(told, str(self.folder), self.options, self.threads, trial)] = trial
            if not waiting:
                return
            (finished, *_), _ = self.ray.wait(list(waiting), num_returns=1)
            self.ray.get(finished)
            done(waiting.pop(finished))
