"""What a compiled function does where there is no plan: the policies of `weft.compile` and of the trainer are asked alike."""

from __future__ import annotations

import random
import threading
import warnings
from typing import Any

import numpy as np
import pytest

import weft
from weft.compiler.compiled import Compiled
from weft.compiler.policy import POLICIES, FallBack, Policy
from weft.errors import TraceError
from weft.train.running.step import Steps


def undecided(x: weft.Tensor) -> weft.Tensor:
    """Python's random numbers cannot be traced."""
    return 2 * x + min(random.random(), 0.0)


class Counting(Policy):
    """At most two plans; what comes after them runs as Python."""

    def __init__(self) -> None:
        self.seen: list[Any] = []

    def stops(self, compiled: Compiled) -> str | None:
        return "two are enough" if len(compiled.plans) == 2 else None

    def made(self, compiled: Compiled) -> None:
        self.seen.append(len(compiled.plans))

    def uncompiled(self, compiled: Compiled, key: Any, reason: Exception | str, run: Any) -> Any:
        self.seen.append(reason)
        return run()


def test_a_policy_is_asked_only_where_there_is_no_plan():
    policy = Counting()
    double = Compiled(lambda x: 2 * x, policy)
    for size in (3, 4, 3, 5, 4, 5):
        np.testing.assert_array_equal(double(weft.ones(size)).numpy(), np.full(size, 2.0))
    assert policy.seen == [1, 2, "two are enough", "two are enough"]


def test_errors_that_a_policy_does_not_take_are_raised_as_they_are():
    for policy in (Policy(), Counting()):
        with pytest.raises(TraceError) as caught:
            Compiled(undecided, policy)(weft.ones(3))
        assert not any(entry.name == "uncompiled" for entry in caught.traceback)


def test_names_of_fallback_are_policies():
    assert type(POLICIES["error"]) is Policy and isinstance(POLICIES["eager"], FallBack)
    with pytest.warns(UserWarning, match="runs uncompiled") as told:
        found = weft.compile(undecided, fallback="eager")(weft.ones(2))
    assert found.tolist() == [2.0, 2.0] and told[0].filename == __file__


def test_steps_give_up_as_a_whole_and_say_where():
    steps = Steps(undecided, "the step", True)
    with pytest.warns(UserWarning, match="the step is not compiled .* TraceError"):
        assert steps(weft.ones(2)).tolist() == [2.0, 2.0]
    assert steps.compiled is None and steps.reason.startswith("TraceError")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert steps(weft.ones(1)).tolist() == [2.0]
    with pytest.raises(TraceError):
        Steps(undecided, "the step", "error")(weft.ones(3))


def test_threads_that_come_with_one_signature_wait_for_one_plan():
    """Steps go through the lock of `Compiled`."""
    steps, x, found = Steps(lambda x: (x @ x).sum(), "the step", "error"), weft.eye(8), []
    gate = threading.Barrier(4)

    def call() -> None:
        gate.wait()
        found.append(steps(x).item())

    workers = [threading.Thread(target=call) for _ in range(4)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    assert found == [8.0] * 4 and sum(steps.compiled.branches.values()) == 1


@pytest.mark.parametrize("make", [weft.compile, lambda f: Steps(f, "the step", True)], ids=["compile", "steps"])
def test_inside_of_a_transform_the_function_itself_runs(make):
    run = make(lambda x: (x * x).sum())
    found = weft.func.vmap(weft.func.grad(run))(weft.arange(3.0).reshape(3, 1))
    assert found.tolist() == [[0.0], [2.0], [4.0]]
